//! Flags of `tidegate` that pages name exist.

#![expect(clippy::unwrap_used, reason = "all of this file is tests")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Every page with commands in it.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<_> = ["README.md", "CONTRIBUTING.md"].map(|name| root.join(name)).into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (inner, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        folders.extend(inner);
        pages
            .extend(files.into_iter().filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    pages
}

/// The arguments of every call of `tidegate` in the shell blocks of a page.
fn calls(text: &str) -> Vec<Vec<String>> {
    let mut inside = false;
    let mut shell = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            shell.push_str(line.strip_suffix('\\').unwrap_or(line));
            shell.push_str(if line.ends_with('\\') { " " } else { "\n" });
        }
    }
    let calls = shell.lines().filter_map(|line| {
        let line = line.split('|').next().unwrap_or_default();
        let asked = line.strip_prefix("tidegate ");
        asked.or_else(|| line.strip_prefix("cargo run --release -- "))
    });
    calls.map(|call| call.split_whitespace().map(str::to_owned).collect()).collect()
}

fn help(command: &str) -> String {
    let program = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = { program }.args([command, "--help"]).env("NO_COLOR", "1").output().unwrap();
    assert!(output.status.success(), "there is no `tidegate {command}`");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_and_flags_that_pages_name_exist() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    for page in pages() {
        for call in calls(&fs::read_to_string(&page).unwrap()) {
            let mut command = call.first().unwrap().as_str();
            helps.entry(command.to_owned()).or_insert_with(|| help(command));
            for flag in call.iter().filter(|word| word.starts_with("--")) {
                if flag == "--" {
                    // The rest are arguments of the operator.
                    command = "operator";
                    continue;
                }
                let help = helps.entry(command.to_owned()).or_insert_with(|| help(command));
                let flag = flag.split('=').next().unwrap_or_default();
                let known = help.split(|it: char| it.is_whitespace() || "[],=".contains(it));
                let page = page.display();
                assert!({ known }.any(|word| word == flag), "{page}: {command} has no {flag}");
            }
        }
    }
    assert!(helps.len() >= 4, "only {:?} are named", helps.keys());
}

/// Flags in prose and tables, of the commands people try first.
#[test]
fn flags_of_try_sandbox_and_install_in_prose_exist() {
    let known = help("try") + &help("sandbox") + &help("install");
    for page in ["README.md", "docs/guide/sandbox.md"] {
        let text =
            fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page));
        let text = text.unwrap();
        let prose = text.split("```").step_by(2);
        for flag in prose.flat_map(|part| part.split('`').skip(1).step_by(2)) {
            let Some(flag) = flag.split(' ').next().filter(|word| word.starts_with("--")) else {
                continue;
            };
            let words = known.split(|it: char| it.is_whitespace() || "[],=".contains(it));
            let is_kubectls = matches!(flag, "--as" | "--as=system:serviceaccount:NAMESPACE:NAME");
            assert!(is_kubectls || { words }.any(|word| word == flag), "{page}: no {flag}");
        }
    }
}
