//! `tidegate operator`: the operator on a cluster.

use anyhow::Context;
use tidegate_operator::args;
use tidegate_runtime::{log, signals::Signals};

use crate::error::hinted;

pub(crate) fn run(args: args::Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::listen().context("failed to wait for signals")?
    };
    runtime.block_on(tidegate_operator::run(args, signals.next())).map_err(|error| match error {
        tidegate_operator::RunError::NotInCluster(_) => hinted(
            error.to_string(),
            "give a file with --kubeconfig, or run it in a pod; `tidegate sandbox` has one built in",
        ),
        tidegate_operator::RunError::Unreachable(_) => hinted(
            log::chain(&error),
            "check the kubeconfig and that the cluster is up: kubectl --kubeconfig FILE version",
        ),
        error => error.into(),
    })
}
