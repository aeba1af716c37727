//! Commands that pages name exist.

use clap::{Args as _, Command};
use tidegate_operator::args::Args;

use crate::markdown::{Page, pages};

/// Subcommands of `tidegate`; its own flags are checked with the program, beside it.
const OURS: [&str; 5] = ["try", "sandbox", "crds", "install", "operator"];

/// The verbs of kubectl that pages use.
const VERBS: [&str; 16] = [
    "annotate",
    "apply",
    "auth",
    "autoscale",
    "create",
    "delete",
    "describe",
    "explain",
    "get",
    "label",
    "logs",
    "patch",
    "rollout",
    "scale",
    "set",
    "wait",
];

/// Built-in kinds that pages use, as they are written on the command line.
const KINDS: [&str; 18] = [
    "clusterrole",
    "clusterrolebinding",
    "deploy",
    "deployment",
    "deployments",
    "events",
    "hpa",
    "httproute",
    "ingresses",
    "namespace",
    "node",
    "nodes",
    "pods",
    "role",
    "rolebinding",
    "secret",
    "service",
    "services",
];

/// The commands in shell blocks of a page, as words.
pub(crate) fn commands(page: &Page) -> Vec<Vec<String>> {
    let shells = page.blocks().into_iter().filter(|block| block.language == "sh");
    let mut commands = Vec::new();
    for block in shells {
        for line in block.text.replace("\\\n", " ").lines() {
            let words = words(line);
            commands.extend(words.split(|word| word == "|" || word == "&&").map(<[_]>::to_vec));
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// A line split as a shell does: quotes hold words together, `#` begins a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn commands_of_tidegate_exist() {
    let operator = Args::augment_args(Command::new("operator"));
    let flags: Vec<&str> = operator.get_arguments().filter_map(clap::Arg::get_long).collect();
    for page in pages() {
        for command in commands(&page) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let asked = match words.as_slice() {
                ["cargo", "run", rest @ ..] => rest.split(|word| *word == "--").nth(1),
                ["tidegate", rest @ ..] => Some(rest),
                _ => continue,
            };
            let Some([what, rest @ ..]) = asked else { continue };
            let path = &page.path;
            assert!(OURS.contains(what), "{path}: there is no `tidegate {what}`");
            if *what != "operator" {
                continue;
            }
            for flag in rest.iter().filter_map(|word| word.strip_prefix("--")) {
                let flag = flag.split('=').next().unwrap_or_default();
                assert!(flags.contains(&flag), "{path}: the operator has no --{flag}");
            }
        }
    }
}

#[test]
fn commands_of_kubectl_exist_and_name_kinds_that_do() {
    let crds = tidegate_api::crds();
    let custom = crds.iter().flat_map(|crd| {
        let names = &crd["spec"]["names"];
        [&names["singular"], &names["plural"]].map(|name| name.as_str().unwrap_or_default())
    });
    let kinds: Vec<&str> = custom.chain(KINDS).collect();
    for page in pages() {
        for command in commands(&page) {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let ["kubectl", rest @ ..] = words.as_slice() else { continue };
            let mut plain = rest.iter().filter(|word| !word.starts_with('-'));
            let verb = plain.next().copied().unwrap_or_default();
            let path = &page.path;
            assert!(VERBS.contains(&verb), "{path}: unknown verb in `{}`", words.join(" "));
            // The words after these verbs are no kinds.
            if matches!(verb, "apply" | "auth" | "create" | "logs" | "rollout" | "set") {
                continue;
            }
            let named = plain.next().copied().unwrap_or_default();
            for kind in named.split(',') {
                let kind = kind.split(['/', '.']).next().unwrap_or_default();
                assert!(kinds.contains(&kind), "{path}: no kind `{kind}` in `{}`", words.join(" "));
            }
        }
    }
}

#[test]
fn a_line_is_taken_apart_as_a_shell_does() {
    let line = r#"kubectl patch canary web -p '{"a": 1}' # why"#;
    assert_eq!(words(line), ["kubectl", "patch", "canary", "web", "-p", r#"{"a": 1}"#]);
}
