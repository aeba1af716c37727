//! Tasks: the work that a caller asks for, checked against the policy of this load tester.
//!
//! ```text
//! metadata --> Task::parse --> Task { work, .. }   or   Refusal { status, text }
//!              under a Policy
//! ```
//!
//! Nothing is run here. Out of [`Task::parse`] comes either work that is allowed, down to the words of
//! its command line, or an answer that says why not.

use std::collections::BTreeSet;

use http::StatusCode;

use crate::{
    concord,
    load::{Bounds, Plan, PlanError, Tool},
    ngrinder,
    payload::Payload,
    redact::redacted,
    words::{Meta, WordsError, split},
};

/// Work for a canary.
#[derive(Clone, Debug)]
pub struct Task {
    pub kind: Kind,
    pub canary: String,
    pub namespace: String,
    /// Tasks with the same key are the same task, and run once at a time.
    pub key: String,
    pub work: Work,
    /// The command as the caller wrote it, with secrets hidden: answers end up in events.
    pub text: String,
    /// The command as it may be logged.
    pub shown: String,
    /// Whether the caller waits for the outcome.
    pub blocking: bool,
    pub logs_output: bool,
    pub returns_output: bool,
}

/// The work of a task.
#[derive(Clone, Debug)]
pub enum Work {
    Load(Box<Plan>),
    /// A program and its arguments.
    Program {
        program: String,
        arguments: Vec<String>,
    },
    NGrinder(Box<ngrinder::Test>),
    Concord(Box<concord::Process>),
}

/// The type of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Cmd,
    Bash,
    Bats,
    Helm,
    Kubectl,
    NGrinder,
    Concord,
}

/// The types and programs that may be run.
#[derive(Clone, Debug)]
pub struct Policy {
    pub kinds: BTreeSet<Kind>,
    /// Programs that command lines may begin with, besides the built-in load generator.
    pub tools: BTreeSet<String>,
    /// Whether command lines may be given to a shell.
    pub shell: bool,
    pub load: Bounds,
    pub concord: concord::Allowed,
    pub ngrinder: ngrinder::Allowed,
}

/// Why a task is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub text: String,
}

/// As much of a command as a line of the log has room for.
const SHOWN_MAX: usize = 400;

// === impl Task ===

impl Task {
    /// Reads files that Concord and load need; otherwise looks at nothing but its arguments.
    pub fn parse(payload: &Payload, policy: &Policy) -> Result<Self, Refusal> {
        let Payload { namespace, checksum, metadata, .. } = payload;
        if metadata.is_empty() {
            return Err(Refusal::bad("metadata not found in payload"));
        }
        let kind = match metadata.get("type") {
            None => Kind::Cmd,
            Some(name) => Kind::parse(name)
                .ok_or_else(|| Refusal::bad(format!("unknown task type {}", excerpt(name))))?,
        };
        if !policy.kinds.contains(&kind) {
            return Err(Refusal::forbidden(format!(
                "tasks of type {kind} are not enabled; see -enable-tasks",
                kind = kind.as_str()
            )));
        }
        let (work, text) = match kind {
            Kind::NGrinder => {
                let test = ngrinder::Test::parse(metadata, &policy.ngrinder);
                let test = test.map_err(|error| Refusal::bad(error.to_string()))?;
                let clone = test.clone.to_string();
                (Work::NGrinder(Box::new(test)), clone)
            }
            Kind::Concord => {
                // As Flagger: an error in a Concord task is a failure of the task.
                let process = concord::Process::parse(metadata, &policy.concord);
                let process = process.map_err(|error| Refusal::failed(error.to_string()))?;
                (Work::Concord(Box::new(process)), "concord".to_owned())
            }
            Kind::Cmd | Kind::Bash | Kind::Bats | Kind::Helm | Kind::Kubectl => {
                let line = metadata.get("cmd").filter(|line| !line.trim().is_empty());
                let line = line.ok_or_else(|| Refusal::bad("cmd not found in metadata"))?;
                (policy.command(kind, line)?, line.clone())
            }
        };
        let canary = payload.canary();
        let blocking = !matches!(kind, Kind::Cmd | Kind::NGrinder);
        let mut key = format!("{canary}\n{}\n{text}", kind.as_str());
        if blocking {
            // A verdict on one revision is none on another, and a Concord task is all its metadata.
            key = format!("{key}\n{checksum}");
        }
        if kind == Kind::Concord {
            key = format!("{key}\n{metadata:?}");
        }
        Ok(Self {
            kind,
            canary,
            namespace: namespace.clone(),
            key,
            shown: work.shown(),
            work,
            text: redacted(&text),
            blocking,
            logs_output: payload.is_set("logCmdOutput"),
            returns_output: payload.is_set("returnCmdOutput"),
        })
    }
}

// === impl Policy ===

impl Policy {
    fn command(&self, kind: Kind, line: &str) -> Result<Work, Refusal> {
        let fixed = match kind {
            Kind::Helm => Some("helm"),
            Kind::Kubectl => Some("kubectl"),
            Kind::Bats => Some("bats"),
            Kind::Cmd | Kind::Bash | Kind::NGrinder | Kind::Concord => None,
        };
        if let Some(program) = fixed {
            let arguments =
                split(line, Meta::Keep).map_err(|error| Refusal::bad(error.to_string()))?;
            return Ok(Work::Program { program: program.to_owned(), arguments });
        }
        let refusal = match self.without_shell(line) {
            Ok(work) => return Ok(work),
            Err(refusal) => refusal,
        };
        if !self.shell {
            return Err(refusal);
        }
        let shell = if kind == Kind::Bash { "bash" } else { "sh" };
        let arguments = vec!["-c".to_owned(), line.to_owned()];
        Ok(Work::Program { program: shell.to_owned(), arguments })
    }

    /// The work of a command line that was written for a shell.
    fn without_shell(&self, line: &str) -> Result<Work, Refusal> {
        let words = split(line, Meta::Refuse).map_err(|error| match error {
            WordsError::Unclosed(_) => Refusal::bad(error.to_string()),
            WordsError::NeedsShell(_) => {
                Refusal::forbidden(format!("{error}, and shells are not enabled; see -allow-shell"))
            }
        })?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(Refusal::bad("cmd not found in metadata"));
        };
        let plan = Tool::of(program).map(|tool| Plan::parse(tool, arguments, &self.load));
        match plan {
            Some(Ok(plan)) => return Ok(Work::Load(Box::new(plan))),
            Some(Err(error @ PlanError::TooManyConnections { .. })) => {
                return Err(Refusal::forbidden(format!("{error}; see -max-connections")));
            }
            Some(Err(error)) if !self.tools.contains(program) => {
                return Err(Refusal::bad(error.to_string()));
            }
            Some(Err(_)) | None => {}
        }
        if !self.tools.contains(program) {
            return Err(Refusal::forbidden(format!(
                "{} is not a program that may be run; see -allow-tools",
                // Without the value of a variable that is set there.
                excerpt(program.split('=').next().unwrap_or_default())
            )));
        }
        Ok(Work::Program { program: program.clone(), arguments: arguments.to_vec() })
    }
}

// === impl Work ===

impl Work {
    /// As it may be logged: with secrets hidden.
    fn shown(&self) -> String {
        match self {
            Self::Load(plan) => format!("load on {}", plan.address()),
            Self::NGrinder(test) => format!("{test:?}"),
            Self::Concord(process) => format!("{process:?}"),
            Self::Program { program, arguments } => {
                let is_line = arguments.first().is_some_and(|it| it == "-c");
                let quoted = arguments.iter().map(|argument| {
                    let is_one = is_line || !argument.contains(|c: char| c.is_ascii_whitespace());
                    // Quoted for readers, and so that the redaction sees one word.
                    if is_one {
                        argument.clone()
                    } else {
                        format!("'{}'", argument.replace('\'', "\u{2019}"))
                    }
                });
                let line =
                    [program.clone()].into_iter().chain(quoted).collect::<Vec<_>>().join(" ");
                let line = redacted(&line);
                match line.char_indices().nth(SHOWN_MAX) {
                    Some((at, _)) => format!("{} \u{2026}", line.get(..at).unwrap_or_default()),
                    None => line,
                }
            }
        }
    }
}

/// As much of a caller's text as an answer repeats.
fn excerpt(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

// === impl Kind ===

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Cmd,
        Self::Bash,
        Self::Bats,
        Self::Helm,
        Self::Kubectl,
        Self::NGrinder,
        Self::Concord,
    ];

    /// By the name that metadata has for it.
    pub fn parse(name: &str) -> Option<Self> {
        if name == "helmv3" {
            return Some(Self::Helm);
        }
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cmd => "cmd",
            Self::Bash => "bash",
            Self::Bats => "bats",
            Self::Helm => "helm",
            Self::Kubectl => "kubectl",
            Self::NGrinder => "ngrinder",
            Self::Concord => "concord",
        }
    }
}

// === impl Refusal ===

impl Refusal {
    fn bad(text: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, text: text.into() }
    }

    fn forbidden(text: impl Into<String>) -> Self {
        Self { status: StatusCode::FORBIDDEN, text: text.into() }
    }

    fn failed(text: impl Into<String>) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, text: text.into() }
    }
}

#[cfg(test)]
mod tests;
