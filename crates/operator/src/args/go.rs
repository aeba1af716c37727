//! Flags as Go reads them.

use std::ffi::{OsStr, OsString};

use super::Args;

/// How a flag is followed by its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `-f=v` or `-f v`.
    Value,
    /// `-f` or `-f=v`.
    Boolean,
}

/// A flag as written: its name, and its value if that stands in the same word.
struct Flag<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

/// The flags of klog, which Flagger has because its libraries do. They are accepted and ignored.
const KLOG: [(&str, Shape); 14] = [
    ("add_dir_header", Shape::Boolean),
    ("alsologtostderr", Shape::Boolean),
    ("legacy_stderr_threshold_behavior", Shape::Boolean),
    ("log_backtrace_at", Shape::Value),
    ("log_dir", Shape::Value),
    ("log_file", Shape::Value),
    ("log_file_max_size", Shape::Value),
    ("logtostderr", Shape::Boolean),
    ("one_output", Shape::Boolean),
    ("skip_headers", Shape::Boolean),
    ("skip_log_headers", Shape::Boolean),
    ("stderrthreshold", Shape::Value),
    ("v", Shape::Value),
    ("vmodule", Shape::Value),
];

/// Rewrites arguments that Flagger accepts into arguments that clap accepts.
///
/// `args` are those of the operator alone, after the program and the subcommand. Known flags get two
/// dashes and are joined with their value, so that a value may begin with a dash; klog's are
/// dropped; unknown flags stay as they are, for clap to reject.
pub fn preprocess(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let shapes = shapes();
    let mut args = args.into_iter();
    let mut ready = Vec::new();
    while let Some(arg) = args.next() {
        if arg == "--" {
            ready.push(arg);
            ready.extend(args.by_ref());
            break;
        }
        let Some(flag) = Flag::parse(&arg) else {
            ready.push(arg);
            continue;
        };
        if let Some((_, shape)) = KLOG.iter().find(|(name, _)| *name == flag.name) {
            if *shape == Shape::Value && flag.value.is_none() {
                args.next();
            }
            continue;
        }
        let shape = shapes.iter().find(|(name, _)| name == flag.name).map(|(_, shape)| *shape);
        match (shape, flag.value) {
            (None, _) => ready.push(arg),
            (Some(_), Some(value)) => ready.push(join(flag.name, OsStr::new(value))),
            (Some(Shape::Boolean), None) => ready.push(format!("--{}", flag.name).into()),
            (Some(Shape::Value), None) => match args.next() {
                Some(value) => ready.push(join(flag.name, &value)),
                None => ready.push(format!("--{}", flag.name).into()),
            },
        }
    }
    ready
}

/// The flags that `Args` declares. `--help` and `--version` are clap's own and take no value.
fn shapes() -> Vec<(String, Shape)> {
    let command = <Args as clap::Args>::augment_args(clap::Command::new("operator"));
    let declared = command.get_arguments().flat_map(|arg| {
        let shape = if arg.is_require_equals_set() { Shape::Boolean } else { Shape::Value };
        let aliases = arg.get_all_aliases().unwrap_or_default();
        let names = arg.get_long().into_iter().chain(aliases);
        names.map(|name| (name.to_owned(), shape)).collect::<Vec<_>>()
    });
    let own = ["help", "version"].map(|name| (name.to_owned(), Shape::Boolean));
    declared.chain(own).collect()
}

fn join(name: &str, value: &OsStr) -> OsString {
    let mut joined = OsString::from(format!("--{name}="));
    joined.push(value);
    joined
}

// === impl Flag ===

impl<'a> Flag<'a> {
    /// `None` if it is no flag at all, or not text.
    fn parse(arg: &'a OsStr) -> Option<Self> {
        let text = arg.to_str()?;
        let bare = text.strip_prefix("--").or_else(|| text.strip_prefix('-'))?;
        let (name, value) = match bare.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (bare, None),
        };
        (!name.is_empty()).then_some(Self { name, value })
    }
}
