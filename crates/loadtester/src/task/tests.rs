use super::*;
use crate::load::BodyFiles;

fn policy() -> Policy {
    Policy {
        kinds: Kind::ALL.into(),
        tools: ["ghz".to_owned()].into(),
        shell: false,
        load: Bounds { connections_max: 100, body_files: BodyFiles::Refused },
        concord: concord::Allowed::default(),
        ngrinder: ngrinder::Allowed::default(),
    }
}

fn payload(metadata: &[(&str, &str)]) -> Payload {
    Payload {
        name: "podinfo".to_owned(),
        namespace: "test".to_owned(),
        checksum: "abc".to_owned(),
        metadata: metadata.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
    }
}

fn parse(metadata: &[(&str, &str)], policy: &Policy) -> Result<Task, (u16, String)> {
    let task = Task::parse(&payload(metadata), policy);
    task.map_err(|refusal| (refusal.status.as_u16(), refusal.text))
}

/// The program and the arguments that a task would run.
fn program(metadata: &[(&str, &str)], policy: &Policy) -> Vec<String> {
    match parse(metadata, policy).unwrap().work {
        Work::Program { program, arguments } => [vec![program], arguments].concat(),
        other => panic!("{other:?} is no program"),
    }
}

#[test]
fn a_task_has_metadata_and_is_cmd_unless_it_says_otherwise() {
    let refused = parse(&[], &policy()).unwrap_err();
    assert_eq!(refused, (400, "metadata not found in payload".to_owned()));
    let task = parse(&[("cmd", "hey -z 1m -q 10 -c 2 http://podinfo.test/")], &policy()).unwrap();
    assert_eq!((task.kind, task.blocking), (Kind::Cmd, false));
    assert_eq!(task.canary, "podinfo.test");
    assert!(matches!(task.work, Work::Load(_)));
}

#[test]
fn an_unknown_type_is_named() {
    let refused = parse(&[("type", "foo")], &policy()).unwrap_err();
    assert_eq!(refused, (400, "unknown task type foo".to_owned()));
    assert_eq!(parse(&[("type", "")], &policy()).unwrap_err().0, 400);
}

#[test]
fn a_command_must_be_there() {
    for kind in ["cmd", "bash", "helm", "helmv3", "kubectl", "bats"] {
        for metadata in [&[("type", kind), ("command", "x")], &[("type", kind), ("cmd", " \n")]] {
            let refused = parse(metadata, &policy()).unwrap_err();
            assert_eq!(refused, (400, "cmd not found in metadata".to_owned()), "{kind}");
        }
    }
}

#[test]
fn types_have_to_be_enabled() {
    let none = Policy { kinds: [Kind::Cmd].into(), ..policy() };
    for kind in ["bash", "helm", "kubectl", "bats", "concord", "ngrinder"] {
        let refused = parse(&[("type", kind), ("cmd", "hey http://a")], &none).unwrap_err();
        assert_eq!(refused.0, 403, "{kind}");
        assert!(refused.1.ends_with("not enabled; see -enable-tasks"), "{}", refused.1);
    }
}

#[test]
fn programs_have_to_be_on_the_list() {
    for kind in ["cmd", "bash"] {
        let ghz = [("type", kind), ("cmd", "ghz --insecure -d '{\"a\": 1}' app:9090")];
        assert_eq!(program(&ghz, &policy()), ["ghz", "--insecure", "-d", "{\"a\": 1}", "app:9090"]);
        for line in ["curl http://a", "/usr/bin/ghz", "./ghz", "GHZ=1 ghz", "sh -c ghz"] {
            let refused = parse(&[("type", kind), ("cmd", line)], &policy()).unwrap_err();
            assert_eq!(refused.0, 403, "{line}");
            assert!(refused.1.contains("see -allow-tools"), "{}", refused.1);
        }
    }
}

#[test]
fn a_shell_is_used_only_where_it_is_enabled() {
    let lines = ["ghz a; rm -rf /", "ghz $(id)", "ghz `id`", "ghz a | tee b", "ghz > f", "ghz\nid"];
    for line in lines {
        let refused = parse(&[("cmd", line)], &policy()).unwrap_err();
        assert_eq!(refused.0, 403, "{line}");
        assert!(refused.1.contains("see -allow-shell"), "{}", refused.1);
    }
    let with_shell = Policy { shell: true, ..policy() };
    for line in lines {
        assert_eq!(program(&[("cmd", line)], &with_shell), ["sh", "-c", line]);
        let bash = [("type", "bash"), ("cmd", line)];
        assert_eq!(program(&bash, &with_shell), ["bash", "-c", line]);
    }
    let ghz = [("cmd", "ghz a")];
    assert_eq!(program(&ghz, &with_shell), ["ghz", "a"], "not where none is needed");
    let task = parse(&[("cmd", "hey http://a")], &with_shell).unwrap();
    assert!(matches!(task.work, Work::Load(_)));
    let piped = [("cmd", "hey http://a | grep 200")];
    assert_eq!(program(&piped, &with_shell)[0], "sh");
}

#[test]
fn arguments_are_split_as_a_shell_would_and_given_to_none() {
    let kubectl = [("type", "kubectl"), ("cmd", "run t --overrides='{ \"a\": \"b c\" }' $X;")];
    let want = ["kubectl", "run", "t", "--overrides={ \"a\": \"b c\" }", "$X;"];
    assert_eq!(program(&kubectl, &policy()), want);
    let helm = [("type", "helmv3"), ("cmd", "test podinfo")];
    assert_eq!(program(&helm, &policy()), ["helm", "test", "podinfo"]);
    let bats = [("type", "bats"), ("cmd", "/tests/a.bats")];
    assert_eq!(program(&bats, &policy()), ["bats", "/tests/a.bats"]);
    let unclosed = parse(&[("type", "helm"), ("cmd", "a 'b")], &policy()).unwrap_err();
    assert_eq!(unclosed, (400, "a single quote is not closed".to_owned()));
}

#[test]
fn a_load_that_cannot_be_made_is_refused_with_its_reason() {
    let refused = parse(&[("cmd", "hey -z 1m")], &policy()).unwrap_err();
    assert_eq!(refused, (400, "an address to send requests to is missing".to_owned()));
    let refused = parse(&[("cmd", "hey -n 999 -c 101 http://a")], &policy()).unwrap_err();
    assert_eq!(refused.0, 403);
    assert!(refused.1.ends_with("see -max-connections"), "{}", refused.1);
    let real_hey = Policy { tools: ["hey".to_owned()].into(), ..policy() };
    let csv = [("cmd", "hey -o csv http://a")];
    assert_eq!(program(&csv, &real_hey), ["hey", "-o", "csv", "http://a"], "hey itself can");
}

#[test]
fn the_same_task_has_the_same_key() {
    let key = |metadata: &[(&str, &str)]| parse(metadata, &policy()).unwrap().key;
    let one = key(&[("cmd", "ghz a")]);
    assert_eq!(one, key(&[("cmd", "ghz a"), ("logCmdOutput", "true")]));
    assert_ne!(one, key(&[("cmd", "ghz b")]));
    let of = |checksum: &str, kind: &str| {
        let payload = Payload {
            checksum: checksum.to_owned(),
            ..payload(&[("type", kind), ("cmd", "ghz a")])
        };
        Task::parse(&payload, &policy()).unwrap().key
    };
    assert_eq!(of("1", "cmd"), of("2", "cmd"), "as Flagger");
    assert_ne!(of("1", "bash"), of("2", "bash"), "a verdict is for one revision");
}

#[test]
fn secrets_are_not_logged() {
    let with_shell = Policy { shell: true, ..policy() };
    let lines = [
        "curl -H 'Authorization: Bearer s3cr3t' http://a",
        "curl --token s3cr3t http://a",
        "curl --password=s3cr3t http://a",
        "curl -u joe:s3cr3t http://a",
        "curl http://a?token=s3cr3t",
        "curl http://joe:s3cr3t@b/x http://a",
        "hey -H 'Cookie: s3cr3t' -a joe:s3cr3t http://a/?t=s3cr3t",
    ];
    for line in lines {
        let task = parse(&[("cmd", line)], &with_shell).unwrap();
        assert!(!task.shown.contains("s3cr3t"), "{}", task.shown);
        assert!(task.shown.contains("http://a"), "{}", task.shown);
    }
    let long = format!("curl {}", "x ".repeat(1000));
    assert!(parse(&[("cmd", &long)], &with_shell).unwrap().shown.len() < 500);
}
