//! The command line: Flagger's flags for the server, with one dash or two; `load` and `sign` beside it.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};

use tidegate_runtime::{flags::boolean, log::LogFormat};

use crate::{client::Server, duration, task::Kind};

/// Load, tests and gates for rollouts.
///
/// Without a command it serves the endpoints of Flagger's load tester and takes its flags, with one
/// dash or two. Load is made by a built-in generator that reads the command lines of hey and wrk.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate-loadtester",
    version,
    max_term_width = 100,
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    after_help = EXAMPLES,
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub serve: Serve,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make load once and print a report.
    #[command(disable_help_flag = true)]
    Load {
        /// Arguments of hey, or `wrk` and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<String>,
    },
    /// Sign a request: reads its body from stdin and prints the headers it needs.
    Sign(Sign),
}

#[derive(Debug, clap::Args)]
pub struct Sign {
    /// File with the secret; its first line counts.
    #[arg(long, value_name = "FILE")]
    pub secret_file: PathBuf,
    /// Path that the request goes to.
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub path: String,
}

/// Form of the log, by zap's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoding {
    Json,
    Console,
}

/// Flags of the server.
#[derive(Debug, clap::Args)]
pub struct Serve {
    /// Port to listen on.
    #[arg(long, value_name = "PORT", default_value_t = 9090, help_heading = SERVER)]
    pub port: u16,
    /// debug, info, warn or error.
    #[arg(long, value_name = "LEVEL", default_value = "debug", help_heading = SERVER)]
    pub log_level: String,
    /// How log lines look.
    #[arg(long, value_name = "ENCODING", default_value = "json", help_heading = SERVER)]
    pub zap_encoding: Encoding,
    /// Flagger's; has no effect.
    #[arg(long, value_name = "BOOL", hide = true,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub zap_replace_globals: bool,
    /// File that keeps gates when the process ends; without one they are forgotten.
    #[arg(long, value_name = "FILE", help_heading = SERVER)]
    pub gate_file: Option<PathBuf>,
    /// `ConfigMap` that keeps gates, as NAMESPACE/NAME or a name in the pod's own namespace: several
    /// replicas may share it.
    #[arg(long, value_name = "NAME", conflicts_with = "gate_file", help_heading = SERVER)]
    pub gate_configmap: Option<String>,

    /// Namespaces whose canaries are served; a regular expression for the whole name.
    #[arg(long, value_name = "REGEXP", default_value = "", help_heading = ACCESS)]
    pub namespace_regexp: String,
    /// File with secrets, one a line: requests must be signed with one of them.
    #[arg(long, value_name = "FILE", help_heading = ACCESS)]
    pub secret_file: Option<PathBuf>,
    /// Folder with a file of secrets for each namespace, named as it is.
    #[arg(long, value_name = "FOLDER", help_heading = ACCESS)]
    pub secret_dir: Option<PathBuf>,

    /// Types of tasks that are run: cmd, bash, bats, helm, kubectl, ngrinder, concord.
    #[arg(long, value_name = "TYPES", default_value = "cmd,bash,ngrinder", value_delimiter = ',',
        value_parser = kind, help_heading = TASKS)]
    pub enable_tasks: Vec<Kind>,
    /// Programs that cmd and bash tasks may run, without a shell.
    #[arg(long, value_name = "PROGRAMS", value_delimiter = ',', help_heading = TASKS)]
    pub allow_tools: Vec<String>,
    /// Give other cmd and bash tasks to a shell: whoever can send requests can then run anything.
    #[arg(long, value_name = "BOOL", help_heading = TASKS,
        num_args = 0..=1, require_equals = true, default_value = "false",
        default_missing_value = "true", value_parser = boolean)]
    pub allow_shell: bool,
    /// Time for one task.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = positive,
        help_heading = TASKS)]
    pub timeout: Duration,
    /// Time that a test goes on for, and its outcome is kept, when its caller is gone.
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = duration::parse,
        help_heading = TASKS)]
    pub patience: Duration,
    /// Tasks that run at a time.
    #[arg(long, value_name = "N", default_value_t = 128, help_heading = TASKS)]
    pub max_tasks: usize,
    /// Tasks of one namespace that run at a time.
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = TASKS)]
    pub max_tasks_per_namespace: usize,
    /// Connections of one load.
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = TASKS)]
    pub max_connections: u32,
    /// Connections of all loads together; what would need more is answered 429.
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX, help_heading = TASKS)]
    pub max_total_connections: u32,
    /// Folder that `hey -D` may read bodies from.
    #[arg(long, value_name = "FOLDER", help_heading = TASKS)]
    pub body_dir: Option<PathBuf>,
    /// Folder that Concord's keys are in.
    #[arg(long, value_name = "FOLDER", help_heading = TASKS)]
    pub concord_key_dir: Option<PathBuf>,
    /// Concord servers that keys may be sent to.
    #[arg(long, value_name = "URLS", value_delimiter = ',', value_parser = server,
        help_heading = TASKS)]
    pub concord_servers: Vec<Server>,
    /// Folder that passwords for nGrinder are in, for tasks that name one by `passwdPath`.
    #[arg(long, value_name = "FOLDER", help_heading = TASKS)]
    pub ngrinder_password_dir: Option<PathBuf>,
    /// nGrinder servers that those passwords may be sent to.
    #[arg(long, value_name = "URLS", value_delimiter = ',', value_parser = server,
        help_heading = TASKS)]
    pub ngrinder_servers: Vec<Server>,
}

/// At most, a connection is its 32 KiB for answers, or 64 KiB of HTTP/2 on their way and 32 KiB for frames; 32 KiB
/// more with TLS, and 8 KiB for its task and the kernel: 136 KiB, so 272 MiB for 2048 of them. With 20 MiB for
/// the counts of 128 loads on two threads that is a little more than half of the 512 MiB we ship as the limit.
const CONNECTIONS_MAX: u32 = 2048;

const SERVER: &str = "Server";
const ACCESS: &str = "Access";
const TASKS: &str = "Tasks";
const EXAMPLES: &str = "\
Examples:
  tidegate-loadtester -port=8080 -log-level=info -timeout=1h
  tidegate-loadtester load -z 10s -c 20 http://localhost:8080/
  tidegate-loadtester load wrk -t2 -c100 -d30s http://localhost:8080/";

/// Words that begin a command of ours; anything else is a flag of the server.
const COMMANDS: [&str; 3] = ["load", "sign", "help"];

/// Rewrites flags that Go accepts into flags that clap accepts: `-port` is `--port`.
pub fn preprocess(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter();
    let mut ready: Vec<OsString> = arguments.by_ref().take(1).collect();
    let mut arguments = arguments.peekable();
    let is_command =
        arguments.peek().and_then(|it| it.to_str()).is_some_and(|first| COMMANDS.contains(&first));
    if is_command {
        ready.extend(arguments);
        return ready;
    }
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        let is_long = text.starts_with('-') && !text.starts_with("--") && text.len() > 2;
        if is_long {
            ready.push(format!("-{text}").into());
        } else {
            ready.push(argument);
        }
    }
    ready
}

fn kind(text: &str) -> Result<Kind, String> {
    Kind::parse(text.trim()).ok_or_else(|| "there is no such type of task".to_owned())
}

fn server(text: &str) -> Result<Server, String> {
    Server::parse(text).ok_or_else(|| "expected an http or https address".to_owned())
}

fn positive(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("expected more than nothing".to_owned()) } else { Ok(duration) }
}

// === impl Encoding ===

impl From<Encoding> for LogFormat {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json,
            Encoding::Console => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(line: &str) -> Serve {
        let words =
            ["tidegate-loadtester"].into_iter().chain(line.split(' ').filter(|it| !it.is_empty()));
        let words = preprocess(words.map(OsString::from));
        Args::try_parse_from(words).unwrap().serve
    }

    #[test]
    fn flaggers_flags_are_taken_as_they_are() {
        let line = "-port=8080 -log-level info -timeout=30m -namespace-regexp ^test$ \
             -zap-replace-globals=true -zap-encoding=console";
        let args = serve(line);
        assert_eq!((args.port, args.log_level.as_str()), (8080, "info"));
        assert_eq!(args.timeout, Duration::from_mins(30));
        assert_eq!(args.namespace_regexp, "^test$");
        assert_eq!(args.zap_encoding, Encoding::Console);
        assert_eq!(serve("--port 1 -port 2").port, 2, "the last one counts, as in Go");
    }

    #[test]
    fn defaults_are_flaggers_and_safe() {
        let args = serve("");
        assert_eq!((args.port, args.log_level.as_str()), (9090, "debug"));
        assert_eq!((args.timeout, args.namespace_regexp.as_str()), (Duration::from_hours(1), ""));
        assert_eq!(args.zap_encoding, Encoding::Json);
        assert!(!args.allow_shell && args.allow_tools.is_empty());
        assert_eq!(args.enable_tasks, [Kind::Cmd, Kind::Bash, Kind::NGrinder]);
    }

    #[test]
    fn lists_and_switches_are_read() {
        let args = serve("-allow-shell -enable-tasks=cmd,helmv3 -allow-tools ghz,curl");
        assert!(args.allow_shell);
        assert_eq!(args.enable_tasks, [Kind::Cmd, Kind::Helm]);
        assert_eq!(args.allow_tools, ["ghz", "curl"]);
        for line in ["-enable-tasks=foo", "-timeout=0s", "-timeout=1", "-concord-servers=x"] {
            let words = preprocess(["x", line].map(OsString::from));
            assert!(Args::try_parse_from(words).is_err(), "{line}");
        }
    }

    #[test]
    fn arguments_of_load_are_left_alone() {
        let words = ["x", "load", "-z", "1s", "-h2", "-host", "a", "--", "-c=1", "http://a"];
        let words = preprocess(words.map(OsString::from));
        let Some(Command::Load { arguments }) = Args::try_parse_from(words).unwrap().command else {
            panic!("load is a command");
        };
        assert_eq!(arguments[..5], ["-z", "1s", "-h2", "-host", "a"]);
    }
}
