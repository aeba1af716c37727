//! The output of kubectl is the same for the sandbox and a real cluster.
//!
//! `tests/kubectl/checks.sh` runs on both. Every check must pass on both, and the output is compared line
//! by line, without the values that differ between any two clusters.

#![expect(clippy::print_stdout, reason = "a comparison is read by people")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};
use tidegate_e2e::{
    ControlPlane, Logs, Node, NodeSettings, Options, Parts, Process, apply_folder, eventually,
    inside, transcript,
};

const PATIENCE: Duration = Duration::from_mins(2);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs all checks, and returns the output of each command.
fn check(
    plane: &ControlPlane,
    cluster: &str,
    kubeconfig: &Path,
    settings: &[(&str, &str)],
) -> Result<BTreeMap<String, String>> {
    let work = plane.folder().join(cluster);
    fs::create_dir_all(&work)?;
    let log = work.join("transcript");
    let output = Command::new("bash")
        .arg(root().join("tests/kubectl/checks.sh"))
        .env("KUBECTL", plane.parts().kubectl()?)
        .env("KUBECONFIG", kubeconfig)
        .env("WORK", &work)
        .env("HOME", &work)
        .env("MANIFESTS", root().join("tests/kubectl/manifests"))
        .env("TRANSCRIPT", &log)
        .envs(settings.iter().copied())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{cluster}:\n{said}");
    println!("{cluster}: {}", said.trim());
    transcript::read(&fs::read_to_string(log)?)
}

async fn start_sandbox(plane: &ControlPlane) -> Result<(Process, PathBuf)> {
    let kubeconfig = plane.folder().join("sandbox.kubeconfig");
    let arguments =
        ["sandbox", "--no-operator", "--nodes=2", "--listen=127.0.0.1:0", "--kubeconfig"];
    let mut arguments: Vec<_> = arguments.map(str::to_owned).into();
    arguments.push(kubeconfig.display().to_string());
    let program = tidegate_e2e::program()?;
    let process = Process::start("sandbox", &program, &arguments, plane.folder())?;
    eventually("the sandbox has started", PATIENCE, async || {
        Ok(fs::metadata(&kubeconfig).is_ok_and(|it| it.len() > 0).then_some(()))
    })
    .await?;
    Ok((process, kubeconfig))
}

#[test]
fn kubectl_shows_the_same_on_the_sandbox_and_on_a_real_cluster() {
    inside("kubectl_shows_the_same_on_the_sandbox_and_on_a_real_cluster", async || {
        // The names of nodes cannot be resolved.
        let by_address = vec!["--kubelet-preferred-address-types=InternalIP".to_owned()];
        let options = Options { api_server: by_address, ..Options::default() };
        let plane = ControlPlane::start_with(&Parts::find()?, &options).await?;
        let settings = NodeSettings { count: 2, ..NodeSettings::default() };
        let _node = Node::start(&plane, settings).await?;
        let _logs = Logs::start(&plane).await?;
        apply_folder(&plane.client(), &root().join("deploy/crds")).await?;
        let admin = plane.kubeconfig("admin")?;
        let real = check(&plane, "real", &admin, &[("NODE", "node"), ("ADMIN", "admin")])?;
        let (_sandbox, kubeconfig) = start_sandbox(&plane).await?;
        let ours = check(&plane, "sandbox", &kubeconfig, &[])?;
        let compared = transcript::compare(&real, &ours);
        println!("{} commands compared, {} say the same", real.len(), compared.same);
        ensure!(compared.idle.is_empty(), "accepted but not met: {:#?}", compared.idle);
        let different = compared.different.join("\n");
        ensure!(compared.different.is_empty(), "{}:\n{different}", compared.different.len());
        Ok(())
    });
}
