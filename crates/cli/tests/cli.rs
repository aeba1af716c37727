//! The command as a user meets it: arguments in, text and exit codes out.

#![expect(clippy::unwrap_used, reason = "all of this file is tests")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// A folder of one test, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn tidegate(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args).current_dir(folder).env("NO_COLOR", "1");
    command
}

fn run(args: &[&str]) -> Output {
    tidegate(&std::env::temp_dir(), args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn crds_prints_the_files_in_deploy_as_one_stream() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    let output = run(&["crds"]);
    assert!(output.status.success());
    let printed = text(&output.stdout);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let file = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(printed.contains(file.trim_start_matches("---\n").trim_end()));
        count += 1;
    }
    assert_eq!(count, 7);
}

#[test]
fn crds_prints_a_json_list_on_request() {
    let output = run(&["crds", "--output", "json"]);
    let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"].as_array().unwrap().len(), 7);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = tidegate(&std::env::temp_dir(), &["crds"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert!(child.wait().unwrap().success(), "{talk}");
}

#[test]
fn an_address_others_can_reach_needs_a_word_from_the_user() {
    let output = run(&["sandbox", "--listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    let talk = text(&output.stderr);
    assert!(talk.contains("error: 0.0.0.0:0 can be reached"), "{talk}");
    assert!(talk.contains("hint: ") && talk.contains("--allow-remote"), "{talk}");
}

#[test]
fn a_bad_manifest_is_named_and_nothing_stays_behind() {
    let scratch = Scratch::new("bad-manifest");
    let cases = [
        ("kind: [", "is no manifest"),
        ("kind: Ghost\napiVersion: v1\nmetadata: {name: x}\n", "no matches for kind"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}\n", "ConfigMap"),
    ];
    for (manifest, want) in cases {
        fs::write(scratch.0.join("m.yaml"), manifest).unwrap();
        let args = ["sandbox", "--listen", "127.0.0.1:0", "--load", "m.yaml"];
        let output = tidegate(&scratch.0, &args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{manifest}");
        let talk = text(&output.stderr);
        assert!(talk.contains(want) && talk.contains("m.yaml"), "{manifest}: {talk}");
        assert!(!scratch.0.join(".tidegate/kubeconfig").exists());
    }
    let output = tidegate(&scratch.0, &["sandbox", "--load", "ghost"]).output().unwrap();
    assert!(text(&output.stderr).contains("failed to read `ghost`"));
}

#[test]
fn no_error_says_the_same_thing_twice() {
    let scratch = Scratch::new("twice");
    fs::write(scratch.0.join("empty"), "").unwrap();
    let cases: [&[&str]; 8] = [
        &["operator", "--mesh-provider", "glooo"],
        &["operator", "--metrics-server", "http//metrics"],
        &["operator", "--event-webhook", "ftp://chat"],
        &["operator", "--slack-proxy-url", "socks9://proxy", "--slack-url", "https://chat"],
        &["operator", "--hook-secret-file", "ghost"],
        &["operator", "--kubeconfig", "ghost"],
        &["operator", "--kubeconfig", "empty"],
        &["sandbox", "--load", "ghost"],
    ];
    for args in cases {
        let output = tidegate(&scratch.0, args).env_remove("KUBECONFIG").output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        let talk = text(&output.stderr);
        let error = talk.lines().find(|line| line.starts_with("error: ")).expect("an error");
        let clauses: Vec<&str> = error.split(": ").collect();
        for (place, clause) in clauses.iter().enumerate() {
            assert!(!clauses[..place].contains(clause), "{args:?}: {error}");
        }
    }
}

#[test]
fn a_foreign_kubeconfig_is_left_alone() {
    let scratch = Scratch::new("foreign");
    fs::write(scratch.0.join("kc"), "current-context: production\n").unwrap();
    let args = ["sandbox", "--listen", "127.0.0.1:0", "--kubeconfig", "kc"];
    let output = tidegate(&scratch.0, &args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("yours was not touched"));
    assert_eq!(fs::read_to_string(scratch.0.join("kc")).unwrap(), "current-context: production\n");
}

/// A sandbox in a process of its own.
struct Running {
    child: Child,
    address: String,
    kubeconfig: PathBuf,
}

impl Running {
    fn start(folder: &Path, more: &[&str]) -> Self {
        let args = [&["sandbox", "--listen", "127.0.0.1:0"], more].concat();
        let mut child = tidegate(folder, &args).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = lines.next().unwrap().unwrap();
        let address = ready.split("http://").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        Self { child, address, kubeconfig: folder.join(".tidegate/kubeconfig") }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
#[test]
fn a_sandbox_serves_loads_and_stops_cleanly() {
    let scratch = Scratch::new("serves");
    let manifest = "apiVersion: flagger.app/v1beta1\nkind: Canary\nmetadata: {name: app}\nspec:\n  \
        targetRef: {apiVersion: apps/v1, kind: Deployment, name: app}\n  \
        analysis: {interval: 1m, threshold: 1, stepWeight: 10}\n";
    fs::write(scratch.0.join("canary.yaml"), manifest).unwrap();
    let mut running = Running::start(&scratch.0, &["--nodes", "3", "--load", "canary.yaml"]);
    assert!(running.get("/readyz").ends_with("ok"));
    assert_eq!(running.get("/api/v1/nodes").matches("\"name\":\"sandbox-").count(), 3);
    assert!(running.get("/apis/flagger.app/v1beta1/canaries").contains("\"stepWeight\":10"));
    let kubeconfig = fs::read_to_string(&running.kubeconfig).unwrap();
    assert!(kubeconfig.contains(&running.address), "{kubeconfig}");

    let id = running.child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_mins(1);
    let status = loop {
        if let Some(status) = running.child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it did not stop");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
    assert!(!running.kubeconfig.exists(), "the kubeconfig outlived the sandbox");
    assert!(!scratch.0.join(".tidegate").exists(), "an empty folder was left behind");
}

fn assert_told_in_order(talk: &str, lines: &[&str]) {
    let mut rest = talk;
    for line in lines {
        let at = rest.find(line);
        assert!(at.is_some(), "`{line}` is missing, or not in order, in:\n{talk}");
        rest = &rest[at.unwrap_or_default()..];
    }
}

/// Side by side: each takes its time, and hardly any of the machine.
#[test]
fn the_stories_of_try_end_well() {
    std::thread::scope(|scope| {
        scope.spawn(try_tells_a_story_that_ends_well);
        scope.spawn(try_with_a_load_tester_makes_its_traffic_and_opens_the_gate);
        scope.spawn(try_with_a_load_tester_waits_for_a_person_to_open_the_gate);
        scope.spawn(try_with_a_game_stops_at_its_hook_and_ends_with_the_same_pods);
    });
}

fn try_tells_a_story_that_ends_well() {
    // In a pipe it ends by itself, and tells line by line.
    let output = run(&["try", "--speed", "4"]);
    let talk = text(&output.stderr);
    assert!(output.status.success(), "{talk}");
    let told = [
        "20% of the traffic of harbour.default goes to the canary.",
        "harbour.default is promoted and scaled to zero.",
        "success rate",
        "2 checks failed, which is its threshold",
        "\u{2713} Succeeded",
        "\u{2713} Failed",
        "0 without an answer",
    ];
    for line in told {
        assert!(talk.contains(line), "`{line}` is missing from:\n{talk}");
    }
    assert!(!talk.contains('\u{1b}'), "no drawing in a pipe: {talk}");
}

fn try_with_a_load_tester_makes_its_traffic_and_opens_the_gate() {
    let output = run(&["try", "--loadtester", "--yes", "--speed", "4", "--exit"]);
    let talk = text(&output.stderr);
    assert!(output.status.success(), "{talk}");
    let told = [
        "the load tester listens on http://127.0.0.1:",
        "hey -z 15s",
        "WeightAdvanced",
        "WaitingForPromotionApproval",
        "curl -d '{\"name\":\"harbour\",\"namespace\":\"default\"}' http://127.0.0.1:",
        "so it was opened just now",
        "PromotionApproved",
        "\u{2713} Succeeded",
        "harbour-primary runs harbour:2.0",
        "requests, all of them by the load tester",
    ];
    assert_told_in_order(&talk, &told);
    assert!(!talk.contains("CheckFailed"), "{talk}");
}

/// Types the commands of the output into another terminal, as a person would.
fn try_with_a_load_tester_waits_for_a_person_to_open_the_gate() {
    let args = ["try", "--loadtester", "--wait", "--speed", "4", "--exit"];
    let mut child = tidegate(&std::env::temp_dir(), &args).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut talk = String::new();
    let typed = lines.by_ref().find(|line| {
        talk.extend([line.as_str(), "\n"]);
        line.trim_start().starts_with("curl ")
    });
    assert!(typed.is_some(), "never told what to type:\n{talk}");
    let typed = typed.unwrap_or_default();
    let (_, rest) = typed.split_once("curl -d '").unwrap();
    let (body, address) = rest.split_once("' http://").unwrap();
    let (host, path) = address.split_once('/').unwrap();
    assert_eq!(path, "gate/open");
    // Longer than it takes to open by itself without `--wait`.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(child.try_wait().unwrap(), None, "the gate is not open");
    let gates = ask(host, "GET", "/gates", "");
    assert!(gates.ends_with("\r\n\r\n[]"), "no gate is open: {gates}");
    let answer = ask(host, "POST", "/gate/open", body);
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    talk.extend(lines.map(|line| format!("{line}\n")));
    assert!(child.wait().unwrap().success(), "{talk}");
    let told = [
        "WaitingForPromotionApproval",
        "The gate is closed.",
        "PromotionApproved",
        "\u{2713} Succeeded",
        "harbour-primary runs harbour:2.0",
    ];
    assert_told_in_order(&talk, &told);
    assert!(!talk.contains("so it was opened just now"), "{talk}");
}

fn ask(host: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn try_with_a_game_stops_at_its_hook_and_ends_with_the_same_pods() {
    let output = run(&["try", "--game", "--speed", "4", "--exit"]);
    let talk = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{talk}");
    let told = [
        "applied a HookTemplate and a GameDeployment of arena:1.0, four pods",
        "four pods are ready",
        "SuccessfulUpdatePodInPlace",
        "Set Step Index to 1",
        "a person looks, and lifts the pause: paused := false",
        "Set Step Index to 4",
        "HookFailed",
        "the hook did not pass; its cause is fixed, and it is retried: tidegate.dev/ask=retry-hook",
        "Done as asked: retry-hook.",
        "Set Step Index to 5",
        "What happened",
        "\u{2713} all four pods run arena:2.0",
        "\u{2713} they are the same pods as before",
        "\u{2713} the hook stopped the release until it passed",
    ];
    assert_told_in_order(&talk, &told);
    assert!(!talk.contains('\u{1b}'), "no drawing in a pipe: {talk}");
}

#[test]
fn try_takes_its_flags_together_only_where_they_mean_something() {
    let wrong: [&[&str]; 4] = [
        &["try", "--yes"],
        &["try", "--wait"],
        &["try", "--loadtester", "--wait", "--yes"],
        &["try", "--loadtester", "--game"],
    ];
    for wrong in wrong {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_operator_reports_a_missing_kubeconfig_and_has_help() {
    // Flagger's spelling of flags, and no cluster anywhere.
    let output = run(&["operator", "-kubeconfig", "missing.yaml", "-mesh-provider=istio"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("failed to read the kubeconfig"), "{output:?}");
    let help = text(&run(&["operator", "--help"]).stdout);
    for word in ["--mesh-provider", "--enable-leader-election", "Examples:"] {
        assert!(help.contains(word), "{word} is missing from:\n{help}");
    }
}

#[test]
fn install_prints_no_namespace_that_may_exist_and_labels_its_own_only() {
    let printed = |args: &[&str]| {
        let plain = ["install", "--image", "tidegate:1", "--without-crds"];
        let output = run(&[&plain[..], args].concat());
        assert!(output.status.success(), "{output:?}");
        let documents = text(&output.stdout);
        let namespaces = documents.split("---\n").filter(|it| it.contains("kind: Namespace\n"));
        namespaces.map(str::to_owned).collect::<Vec<_>>()
    };
    let own = printed(&[]);
    assert!(own.len() == 1 && own[0].contains("pod-security"), "{own:?}");
    assert_eq!(printed(&["-n", "istio-system"]), Vec::<String>::new(), "it may exist");
    let asked = printed(&["-n", "gates", "--create-namespace"]);
    assert!(asked.len() == 1 && asked[0].contains("name: gates"), "{asked:?}");
    assert!(!asked[0].contains("labels"), "it may exist all the same: {asked:?}");
    for name in ["", "-a", "a-", "A", "a.b", "a/b", "a\nb", &"a".repeat(64)] {
        let output = run(&["install", "--image", "i", &format!("--namespace={name}")]);
        assert_eq!(output.status.code(), Some(2), "{name:?}");
        assert!(text(&output.stderr).contains("up to 63 of"), "{name:?}: {output:?}");
    }
}

#[test]
fn install_leaves_out_what_is_not_used() {
    let image = ["install", "--image", "tidegate:1"];
    let printed = |flags: &[&str]| {
        let output = run(&[&image[..], flags].concat());
        assert!(output.status.success(), "{flags:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let whole = printed(&[]);
    assert!(whole.contains("gamedeployments.tkex.tencent.com") && whole.contains("tidegate-game"));
    let without_game = printed(&["--without-game"]);
    assert!(!without_game.contains("tkex.tencent.com") && !without_game.contains("tidegate-game"));
    assert!(without_game.contains("--enable-game-workloads=false"));
    let smallest = printed(&[
        "--namespaced",
        "--namespace=shop",
        "--without-game",
        "--without-config-tracking",
    ]);
    assert!(
        smallest.contains("--namespace=shop") && smallest.contains("name: tidegate-nodes-shop")
    );
    assert!(smallest.contains("--enable-config-tracking=false"));
    assert!(!smallest.contains("- configmaps"), "{smallest}");

    let refused = |flags: &[&str], why: &str| {
        let output = run(&[&image[..], flags].concat());
        let error = text(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{flags:?}: {error}");
    };
    refused(&["--namespaced"], "--namespace");
    for flag in ["--namespace=shop", "-namespace=shop", "--namespace"] {
        refused(&["--", flag], "--namespaced --namespace NAME");
    }
}

#[test]
fn install_gives_the_operator_a_secret_for_hooks() {
    let plain = ["install", "--image", "tidegate:1", "--without-crds"];
    let without = text(&run(&plain).stdout);
    assert!(!without.contains("hook-secret"), "{without}");
    let output = run(&[&plain[..], &["--hook-secret", "shared", "--", "--port=9090"]].concat());
    assert!(output.status.success(), "{output:?}");
    let with = text(&output.stdout);
    for part in [
        "--port=9090",
        "--hook-secret-file=/etc/tidegate/hooks/secret",
        "secretName: shared",
        "mountPath: /etc/tidegate/hooks",
        "fsGroup: 65532",
    ] {
        assert!(with.contains(part), "{part} is missing from:\n{with}");
    }
}

#[test]
fn install_takes_all_of_alerting_from_a_secret() {
    let plain = ["install", "--image", "tidegate:1", "--without-crds"];
    let without = text(&run(&plain).stdout);
    assert!(!without.contains("SLACK"), "{without}");
    let secret = ["--alert-secret", "chats", "--hook-secret", "shared"];
    let output = run(&[&plain[..], &secret].concat());
    assert!(output.status.success(), "{output:?}");
    let with = text(&output.stdout);
    for key in [
        "SLACK_URL",
        "SLACK_TOKEN",
        "SLACK_PROXY_URL",
        "MSTEAMS_URL",
        "MSTEAMS_PROXY_URL",
        "EVENT_WEBHOOK_URL",
    ] {
        assert_eq!(with.matches(&format!("key: {key}\n")).count(), 1, "{key} in:\n{with}");
    }
    assert_eq!(with.matches("name: chats\n").count(), 6, "{with}");
    assert!(with.contains("secretName: shared"), "both secrets:\n{with}");
}

#[test]
fn help_teaches() {
    let help = text(&run(&["sandbox", "--help"]).stdout);
    for word in ["--load", "--rbac", "crash-loop", "Examples:"] {
        assert!(help.contains(word), "{word} is missing from:\n{help}");
    }
}
