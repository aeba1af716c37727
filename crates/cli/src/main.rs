//! The `tidegate` command: try it, run a sandbox cluster, print the CRDs.
//!
//! Each subcommand is a module with an `Args` and a `run`. Data goes to stdout, messages to
//! stderr, both through [`printer::Printer`]. Exit codes: 0 success, 1 failure of the thing asked about, 2 could not
//! run.

use std::{ffi::OsString, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::printer::Printer;

mod crds;
mod error;
mod install;
mod kubeconfig;
mod manifests;
mod operator;
mod printer;
mod sandbox;
mod stack;
mod try_out;

/// Progressive delivery for Kubernetes: new versions take traffic a little at a time.
///
/// Nothing needs to be installed to look around: `tidegate try` shows a rollout on a cluster in this
/// process, `tidegate sandbox` keeps such a cluster running for kubectl.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch two releases on a cluster in memory; takes two minutes and needs nothing.
    Try(try_out::Args),
    /// Run a Kubernetes cluster in memory that kubectl can use.
    Sandbox(sandbox::Args),
    /// Run the operator on a cluster.
    Operator(Box<tidegate_operator::args::Args>),
    /// Print what a cluster needs to run the operator, ready for `kubectl apply -f -`.
    Install(install::Args),
    /// Print the custom resource definitions, ready for `kubectl apply -f -`.
    Crds(crds::Args),
}

/// The arguments, with those of `operator` as Flagger would take them: one dash or two.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|command| command == "operator") {
        let flags = arguments.split_off(2);
        arguments.extend(tidegate_operator::args::preprocess(flags));
    }
    arguments
}

fn main() -> ExitCode {
    let Args { command } = Args::parse_from(arguments());
    let printer = Printer::new();
    let outcome = match command {
        Command::Try(args) => match try_out::run(&args, &printer) {
            Ok(false) => return ExitCode::FAILURE,
            outcome => outcome.map(|_| ()),
        },
        Command::Sandbox(args) => sandbox::run(&args, &printer),
        Command::Operator(args) => operator::run(*args),
        Command::Install(args) => install::run(args, &printer),
        Command::Crds(args) => crds::run(&args, &printer),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if printer::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            printer.error(&error);
            ExitCode::from(2)
        }
    }
}
