//! The guide and the manifests against the program.

#![expect(clippy::unwrap_used, clippy::panic, reason = "all of this file is tests")]

use std::{collections::BTreeSet, ffi::OsString, fs, path::PathBuf};

use clap::{CommandFactory, Parser};
use serde_json::Value;
use tidegate_loadtester::{
    args::{Args, preprocess},
    load::{BodyFiles, Bounds, Plan, Tool},
    metrics::{Gauges, Metrics},
    task::Kind,
    words::{Meta, split},
};

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn guide() -> String {
    fs::read_to_string(repository("docs/guide/load-tester.md")).unwrap()
}

fn manifests() -> Vec<Value> {
    let entries = fs::read_dir(repository("deploy/loadtester")).unwrap();
    let texts = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    texts.flat_map(|text| serde_saphyr::from_multiple::<Value>(&text).unwrap()).collect()
}

fn object<'a>(manifests: &'a [Value], kind: &str) -> &'a Value {
    manifests.iter().find(|it| it["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn flags_that_the_guide_names_exist() {
    let command = Args::command();
    let flags: BTreeSet<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    let guide = guide();
    let named = guide.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix('-'));
    let long: BTreeSet<&str> = named.filter(|it| it.contains('-') && !it.contains(' ')).collect();
    assert!(long.len() >= 8, "{long:?}");
    for flag in long {
        assert!(flags.contains(flag), "there is no -{flag}");
    }
    for flag in flags.iter().filter(|it| !it.starts_with("zap") && !it.starts_with("log")) {
        let is_usual = matches!(*flag, "port" | "max-connections");
        assert!(is_usual || guide.contains(&format!("`-{flag}`")), "-{flag} is not in the guide");
    }
}

#[test]
fn types_that_the_guide_names_are_those_there_are() {
    let guide = guide();
    for kind in Kind::ALL {
        assert!(guide.contains(&format!("`{}`", kind.as_str())), "{} is missing", kind.as_str());
    }
}

#[test]
fn load_that_the_guide_shows_can_be_made() {
    let bounds = Bounds { connections_max: 1000, body_files: BodyFiles::Refused };
    let guide = guide();
    let mut lines = 0;
    for line in guide.lines().map(str::trim) {
        let shown = line.strip_prefix("tidegate-loadtester load ");
        let Some(line) = shown.or_else(|| line.strip_prefix("cmd: ")) else { continue };
        let words = split(line, Meta::Refuse).unwrap();
        let tool = Tool::of(&words[0]);
        let arguments = &words[usize::from(tool.is_some())..];
        let plan = Plan::parse(tool.unwrap_or(Tool::Hey), arguments, &bounds);
        assert!(plan.is_ok(), "{line}: {plan:?}");
        lines += 1;
    }
    assert_eq!(lines, 3);
}

#[test]
fn the_deployment_starts_the_program_as_it_is() {
    let manifests = manifests();
    let pod = &object(&manifests, "Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let given = container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let words = ["tidegate-loadtester"].into_iter().chain(given).map(OsString::from);
    let args = Args::try_parse_from(preprocess(words)).unwrap().serve;
    assert_eq!(Value::from(args.port), container["ports"][0]["containerPort"]);
    assert!(!args.allow_shell && args.allow_tools.is_empty(), "nothing but load by default");
    let folder = args.gate_file.unwrap().parent().unwrap().display().to_string();
    let mounts = container["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|it| it["mountPath"] == *folder), "gates are kept");
    let folder = args.secret_file.unwrap().parent().unwrap().display().to_string();
    let mount = mounts.iter().find(|it| it["mountPath"] == *folder).unwrap();
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|it| it["name"] == mount["name"]).unwrap();
    let secret = volume["secret"]["secretName"].as_str().unwrap();
    let created = format!("kubectl create secret generic {secret} ");
    assert!(guide().contains(&created), "the guide says how it is made: {created}");
}

/// The *restricted* Pod Security Standard, and no rights.
#[test]
fn the_pod_is_confined() {
    let manifests = manifests();
    let pod = &object(&manifests, "Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["capabilities"]["drop"][0], "ALL");
    assert_eq!(object(&manifests, "ServiceAccount")["automountServiceAccountToken"], false);
    assert!(!manifests.iter().any(|it| it["kind"].as_str().unwrap().contains("Role")));
    let policy = &object(&manifests, "NetworkPolicy")["spec"];
    assert_eq!(policy["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
    let rules = policy["ingress"].as_array().unwrap();
    assert_eq!(rules.len(), 2, "two callers, the operator and a scraper");
    for rule in rules {
        let from = &rule["from"];
        assert_eq!(from.as_array().unwrap().len(), 1);
        assert_ne!(from[0]["podSelector"], Value::Null);
        assert_ne!(from[0]["namespaceSelector"]["matchLabels"], Value::Null);
    }
}

#[test]
fn manifests_belong_together() {
    let manifests = manifests();
    let deployment = object(&manifests, "Deployment");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&object(&manifests, "Service")["spec"]["selector"], labels);
    let policy = object(&manifests, "NetworkPolicy");
    assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels);
    let listed = object(&manifests, "Kustomization")["resources"].as_array().unwrap().len();
    assert_eq!(listed + 1, manifests.len(), "every file is listed");
    assert_eq!(deployment["spec"]["replicas"], 1, "gates are in one file");
}

#[test]
fn series_that_the_guide_names_are_those_there_are() {
    let page = Metrics::default().page(Gauges::default());
    let series = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let series: BTreeSet<String> = series.map(|name| format!("`{name}`")).collect();
    let guide = guide();
    let named = guide.split_whitespace().map(|word| word.trim_end_matches([',', ':']));
    let is_series = |word: &&str| word.contains("_loadtester_") || word.starts_with("`process_");
    let named: BTreeSet<String> = named.filter(is_series).map(str::to_owned).collect();
    assert_eq!(named, series);
}
