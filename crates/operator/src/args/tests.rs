//! Flags as a Flagger Deployment has them, and their settings.

use std::{collections::BTreeMap, ffi::OsString, time::Duration};

use clap::{CommandFactory, Parser, error::ErrorKind};
use tracing::Level;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(subcommand)]
    command: Subcommand,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    Operator(Box<Args>),
}

fn parse(args: &[&str]) -> Result<Args, clap::Error> {
    let own = preprocess(args.iter().map(OsString::from));
    let head = ["tidegate", "operator"].map(OsString::from);
    let Program { command: Subcommand::Operator(args) } =
        Program::try_parse_from(head.into_iter().chain(own))?;
    Ok(*args)
}

fn settings_with(args: &[&str], environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
    let lookup = |name: &str| environment.get(name).map(ToString::to_string);
    Settings::new(parse(args).unwrap(), lookup)
}

fn settings(args: &[&str]) -> Settings {
    settings_with(args, &[]).unwrap()
}

#[test]
fn the_command_is_well_formed() {
    Program::command().debug_assert();
}

#[test]
fn without_flags_the_defaults_are_flaggers() {
    let settings = settings(&[]);
    assert_eq!(settings.cluster.requests_per_second, 100);
    assert_eq!(settings.cluster.requests_burst, 250);
    assert_eq!(settings.namespace, None);
    assert_eq!(settings.election_namespace, None);
    assert_eq!(settings.workers.get(), 2);
    assert_eq!(settings.control_loop_interval, Duration::from_secs(10));
    assert_eq!(settings.port, 8080);
    assert_eq!(settings.mesh_provider, "istio");
    assert_eq!(settings.metrics_server.uri(), "http://prometheus:9090/");
    assert_eq!(settings.selector_labels, ["app", "name", "app.kubernetes.io/name"]);
    assert!(settings.include_label_prefix.is_empty());
    assert_eq!(settings.ingress_annotations_prefix, "nginx.ingress.kubernetes.io");
    assert_eq!(settings.ingress_class, "");
    assert!(settings.config_tracking);
    assert!(settings.game_workloads);
    assert_eq!(settings.shared_gateways, Vec::<String>::new(), "any");
    assert!(settings.notifier.is_none());
    assert!(settings.event_webhook.is_none());
    assert!(!settings.no_cross_namespace_refs);
    assert!(!settings.require_metric_secret_label);
    assert_eq!(settings.http, crate::http::Policy::default());
    assert_eq!(settings.log.level, Level::DEBUG);
    assert_eq!(settings.log.format, LogFormat::Json);
    assert!(settings.warnings.is_empty());
}

#[test]
fn the_arguments_of_flaggers_chart_work_unchanged() {
    let settings = settings(&[
        "-log-level=info",
        "-mesh-provider=gatewayapi:v1",
        "-metrics-server=http://prometheus.istio-system:9090",
        "-selector-labels=app, name",
        "-enable-leader-election=true",
        "-leader-election-namespace=istio-system",
        "-slack-user=flagger",
        "-slack-channel=general",
        "-kubeconfig-qps=50",
        "-threadiness",
        "4",
        "-include-label-prefix=team,cost",
        "-no-cross-namespace-refs=true",
        "-cluster-name=prod",
        "-ingress-class=nginx",
    ]);
    assert_eq!(settings.log.level, Level::INFO);
    assert_eq!(settings.mesh_provider, "gatewayapi:v1");
    assert_eq!(settings.selector_labels, ["app", "name"]);
    assert_eq!(settings.election_namespace.as_deref(), Some("istio-system"));
    assert_eq!(settings.cluster.requests_per_second, 50);
    assert_eq!(settings.workers.get(), 4);
    assert_eq!(settings.include_label_prefix, ["team", "cost"]);
    assert!(settings.no_cross_namespace_refs);
    assert_eq!(settings.cluster_name, "prod");
}

#[test]
fn flags_are_read_as_go_reads_them() {
    let cases: [(&str, &[&str], &[&str]); 10] = [
        ("one dash", &["-port=1"], &["--port=1"]),
        ("two dashes", &["--port=1"], &["--port=1"]),
        ("value in the next word", &["-port", "1"], &["--port=1"]),
        ("a value may begin with a dash", &["-slack-user", "-x"], &["--slack-user=-x"]),
        (
            "a boolean takes no next word",
            &["-enable-leader-election", "-port", "1"],
            &["--enable-leader-election", "--port=1"],
        ),
        ("an empty value", &["-namespace="], &["--namespace="]),
        (
            "klog's are dropped with their values",
            &["-v", "3", "-logtostderr", "-v=4", "--port=1"],
            &["--port=1"],
        ),
        ("short ones are clap's", &["-h"], &["-h"]),
        ("unknown ones are clap's to refuse", &["-bogus=1"], &["-bogus=1"]),
        ("nothing after two dashes", &["--", "-port"], &["--", "-port"]),
    ];
    for (reason, args, want) in cases {
        assert_eq!(preprocess(args.iter().map(OsString::from)), want, "{reason}");
    }
}

#[test]
fn booleans_are_gos() {
    let cases = [
        ("-enable-config-tracking", true),
        ("-enable-config-tracking=true", true),
        ("-enable-config-tracking=T", true),
        ("-enable-config-tracking=1", true),
        ("-enable-config-tracking=false", false),
        ("--enable-config-tracking=0", false),
        ("-enable-config-tracking=False", false),
    ];
    for (arg, want) in cases {
        assert_eq!(parse(&[arg]).unwrap().enable_config_tracking, want, "{arg}");
    }
    assert!(parse(&["-enable-config-tracking=yes"]).is_err());
}

#[test]
fn a_flag_given_twice_counts_as_it_was_given_last() {
    let settings = settings(&[
        "-port=1",
        "-port=2",
        "-enable-leader-election",
        "-enable-leader-election=false",
    ]);
    assert_eq!(settings.port, 2);
    assert_eq!(settings.election_namespace, None);
}

#[test]
fn unreadable_values_are_refused() {
    for args in [
        ["-bogus=1"],
        ["-port=many"],
        ["-control-loop-interval=10"],
        ["stray"],
        ["-deny-addresses=10.0.0.0/99"],
        ["-log-format=xml"],
    ] {
        assert!(parse(&args).is_err(), "{args:?}");
    }
    let cases = [
        (
            "-metrics-server=prometheus:9090",
            SettingsError::Url { flag: "metrics-server", source: crate::http::UrlError::Scheme },
        ),
        ("-control-loop-interval=0s", SettingsError::NotPositive { flag: "control-loop-interval" }),
        (
            "-control-loop-interval=-1s",
            SettingsError::NotPositive { flag: "control-loop-interval" },
        ),
        ("-threadiness=0", SettingsError::NotPositive { flag: "threadiness" }),
    ];
    for (arg, want) in cases {
        assert_eq!(settings_with(&[arg], &[]).err(), Some(want), "{arg}");
    }
}

#[test]
fn an_unknown_provider_is_refused_with_a_list_of_the_known_ones() {
    for name in ["istoi", "gatewayapi", "smi", "kubernetes:x", ""] {
        let error = settings_with(&[&format!("-mesh-provider={name}")], &[]).unwrap_err();
        let said = format!("--mesh-provider: there is no provider \"{name}\"; known are ");
        assert!(error.to_string().starts_with(&said), "{error}");
        assert!(error.to_string().contains("istio, linkerd, osm"), "{error}");
    }
    for name in ["linkerd", "smi:v1alpha2:istio", "appmesh:v1beta2"] {
        let settings = settings_with(&[&format!("-mesh-provider={name}")], &[]).unwrap();
        assert_eq!(settings.mesh_provider, name);
    }
}

#[test]
fn the_environment_overrides_flags_unless_it_is_empty() {
    let flags = ["-slack-url=https://flag.example/", "-slack-channel=c"];
    let cases = [
        ("not set", vec![], "flag.example"),
        ("empty", vec![("SLACK_URL", "")], "flag.example"),
        ("set", vec![("SLACK_URL", "https://env.example/")], "env.example"),
    ];
    for (reason, environment, want) in cases {
        let settings = settings_with(&flags, &environment).unwrap();
        let Some(Notifier::Slack { url, .. }) = settings.notifier else { panic!("{reason}") };
        assert_eq!(url.host(), want, "{reason}");
    }
    let hook = [("EVENT_WEBHOOK_URL", "https://events.example/x")];
    let settings = settings_with(&[], &hook).unwrap();
    assert_eq!(settings.event_webhook.unwrap().host(), "events.example");
}

#[test]
fn teams_replaces_slack() {
    let environment =
        [("MSTEAMS_URL", "https://teams.example/"), ("SLACK_URL", "https://slack.example/")];
    let settings = settings_with(&["-slack-channel=c"], &environment).unwrap();
    assert!(
        matches!(settings.notifier, Some(Notifier::Teams { url, .. }) if url.host() == "teams.example")
    );
}

#[test]
fn a_notifier_that_cannot_work_is_a_warning_and_no_reason_not_to_start() {
    let cases: [(&[&str], &str); 4] = [
        (&["-slack-url=https://e.com/TOKEN"], "--slack-channel is empty"),
        (&["-slack-url=e.com/TOKEN", "-slack-channel=c"], "--slack-url: invalid URL"),
        (&["-msteams-url=ftp://TOKEN"], "--msteams-url: invalid URL"),
        (
            &["-slack-url=https://e.com", "-slack-channel=c", "-slack-proxy-url=ftp://TOKEN"],
            "--slack-proxy-url",
        ),
    ];
    for (args, want) in cases {
        let settings = settings(args);
        assert!(settings.notifier.is_none());
        let [warning] = settings.warnings.as_slice() else { panic!("{:?}", settings.warnings) };
        assert!(warning.contains(want) && !warning.contains("TOKEN"), "{warning}");
    }
}

#[test]
fn a_watched_namespace_is_where_the_lease_is() {
    let settings = settings(&["-namespace=test", "-enable-leader-election"]);
    assert_eq!(settings.election_namespace.as_deref(), Some("test"));
}

#[test]
fn nothing_secret_is_shown() {
    let args = parse(&[
        "-slack-url=https://hooks.example/MARKER",
        "-slack-token=MARKER",
        "-slack-proxy-url=http://u:MARKER@proxy",
        "-slack-channel=c",
        "-msteams-proxy-url=http://u:MARKER@proxy",
        "-event-webhook=https://e.com/?t=MARKER",
        "-metrics-server=http://u:MARKER@prometheus:9090",
    ])
    .unwrap();
    let shown = format!("{args:?}");
    assert!(!shown.contains("MARKER"), "{shown}");
    let settings = Settings::new(args, |_| None).unwrap();
    let Some(Notifier::Slack { token, .. }) = &settings.notifier else { panic!("Slack is set") };
    assert_eq!(token.as_ref().unwrap().expose(), "MARKER");
    let shown = format!("{settings:?}");
    assert!(!shown.contains("MARKER"), "{shown}");
}

#[test]
fn our_own_flags_open_and_close_addresses() {
    let settings = settings(&[
        "--allow-loopback-hooks",
        "--allow-addresses=169.254.20.10",
        "--deny-addresses",
        "10.0.0.0/8,fd00::/8",
        "--requests-in-flight=5",
    ]);
    assert!(settings.http.allow_loopback);
    assert_eq!(settings.http.allow.len(), 1);
    assert_eq!(settings.http.deny.len(), 2);
    assert_eq!(settings.http.in_flight_max, 5);
}

#[test]
fn the_log_can_be_text() {
    assert_eq!(settings(&["-zap-encoding=console"]).log.format, LogFormat::Text);
    let both = settings(&["-zap-encoding=console", "--log-format=json"]);
    assert_eq!(both.log.format, LogFormat::Json);
}

#[test]
fn help_and_version_are_there_with_one_dash_too() {
    for (arg, want) in [
        ("-help", ErrorKind::DisplayHelp),
        ("--help", ErrorKind::DisplayHelp),
        ("-h", ErrorKind::DisplayHelp),
        ("-version", ErrorKind::DisplayVersion),
    ] {
        assert_eq!(parse(&[arg]).unwrap_err().kind(), want, "{arg}");
    }
    let help = parse(&["--help"]).unwrap_err().to_string();
    for part in ["Examples:", "Safety:", "--deny-addresses", "SLACK_URL", "http://prometheus:9090"]
    {
        assert!(help.contains(part), "{part} is not in the help:\n{help}");
    }
    assert!(!help.contains("zap-replace-globals"));
}

#[test]
fn both_spellings_of_a_proxy_are_taken() {
    let url = "http://proxy:3128";
    for [slack, teams] in
        [["slack-proxy-url", "msteams-proxy-url"], ["slack-proxy", "msteams-proxy"]]
    {
        let args = parse(&[&format!("-{slack}={url}"), &format!("--{teams}={url}")]).unwrap();
        let proxies = [args.slack_proxy_url, args.msteams_proxy_url];
        let proxies = proxies.map(|it| it.map(|secret| secret.expose().to_owned()));
        assert_eq!(proxies, [Some(url.to_owned()), Some(url.to_owned())], "{slack}, {teams}");
    }
}

#[test]
fn a_secret_for_hooks_is_there_at_the_start() {
    let path = std::env::temp_dir().join(format!("hook-secret-{}", std::process::id()));
    let flag = format!("-hook-secret-file={}", path.display());
    let missing = SettingsError::NoSecret { flag: "hook-secret-file", path: path.clone() };
    assert_eq!(settings_with(&[&flag], &[]).unwrap_err(), missing, "no file");
    std::fs::write(&path, " \n").unwrap();
    assert_eq!(settings_with(&[&flag], &[]).unwrap_err(), missing, "nothing in it");
    std::fs::write(&path, "secret\n").unwrap();
    assert_eq!(settings(&[&flag]).hook_secret_file, Some(path.clone()));
    assert_eq!(settings(&[]).hook_secret_file, None);
    std::fs::remove_file(path).unwrap();
}

#[test]
fn shared_gateways_are_namespace_and_name() {
    let shared = settings(&["--shared-gateways=istio-system/public, edge/inner"]).shared_gateways;
    assert_eq!(shared, ["istio-system/public", "edge/inner"]);
    for odd in ["public", "/public", "edge/", "a/b/c", "edge/inner,public"] {
        let error = settings_with(&["--shared-gateways", odd], &[]).unwrap_err();
        assert!(matches!(error, SettingsError::Gateway { .. }), "{odd}: {error}");
    }
}

#[test]
fn game_workloads_are_off_by_a_flag() {
    assert!(!settings(&["--enable-game-workloads=false"]).game_workloads);
}
