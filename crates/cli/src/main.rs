//! The `tidegate` command: try it, run a sandbox cluster, print the CRDs.
//!
//! Each subcommand is a module with an `Args` and a `run`. Data goes to stdout, talk to stderr;
//! [`printer::Printer`] is the only way out. Exit codes: 0 done, 1 it is not so, 2 could not run.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::printer::Printer;

mod crds;
mod error;
mod kubeconfig;
mod manifests;
mod printer;
mod sandbox;
mod table;
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
    /// Watch a rollout on a cluster in memory; takes seconds and needs nothing.
    Try(try_out::Args),
    /// Run a Kubernetes cluster in memory that kubectl can use.
    Sandbox(sandbox::Args),
    /// Print the custom resource definitions, ready for `kubectl apply -f -`.
    Crds(crds::Args),
}

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    let printer = Printer::new();
    let outcome = match command {
        Command::Try(args) => try_out::run(&args, &printer),
        Command::Sandbox(args) => sandbox::run(&args, &printer),
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
