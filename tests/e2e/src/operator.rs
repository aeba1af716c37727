//! The shipped program, installed with its own manifests.
//!
//! `tidegate install` is applied as a user would, and the program runs with the arguments of the Deployment
//! in it, logged in as its service account. Only the address of the API server and the port are ours: it
//! runs beside the cluster, not in a pod.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{ControlPlane, Process, Web, apply_yaml, control_plane::free_ports};

const PATIENCE: Duration = Duration::from_mins(2);
const NAMESPACE: &str = "tidegate-system";
const ACCOUNT: &str = "tidegate";

/// An installation without the running program.
#[derive(Debug, Clone)]
pub struct Installation {
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
}

/// A running operator. Dropping it kills it.
#[derive(Debug)]
pub struct Operator {
    process: Process,
    port: u16,
}

// === impl Installation ===

impl Installation {
    /// The operator's user.
    pub const USER: &str = "system:serviceaccount:tidegate-system:tidegate";
    /// The namespace of its lease.
    pub const NAMESPACE: &str = NAMESPACE;

    /// Applies the output of `tidegate install`, with these flags for the operator.
    pub async fn apply(plane: &ControlPlane, flags: &[&str]) -> Result<Self> {
        let program = program()?;
        let output = Command::new(&program)
            .args(["install", "--image=tidegate:e2e", "--namespace", NAMESPACE, "--"])
            .args(flags)
            .output()?;
        if !output.status.success() {
            bail!("tidegate install: {}", String::from_utf8_lossy(&output.stderr));
        }
        let objects = apply_yaml(&plane.client(), &String::from_utf8(output.stdout)?).await?;
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
        let deployment = deployment.context("there is no Deployment among the manifests")?;
        let listed = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        let listed = listed.as_array().context("the container has no arguments")?;
        let arguments = listed.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect();
        Ok(Self { program, arguments, folder: plane.folder().to_owned() })
    }

    /// The program alone, with these flags and the permissions of its kubeconfig. Logs are in `folder`.
    pub fn bare(folder: &Path, flags: &[&str]) -> Result<Self> {
        let arguments: Vec<_> = ["operator"].iter().chain(flags).copied().collect();
        Ok(Self::of_program(program()?, folder, &arguments))
    }

    /// Any operator that knows `--kubeconfig` and `--port`, and serves its health and its metrics there.
    pub fn of_program(program: PathBuf, folder: &Path, arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|&it| it.to_owned()).collect();
        Self { program, arguments, folder: folder.to_owned() }
    }

    /// For one replica, without leader election: after a kill it would have to wait for its own lease to
    /// expire.
    #[must_use]
    pub fn without_election(&self) -> Self {
        let is_kept = |it: &&String| !it.starts_with("--enable-leader-election");
        let arguments = self.arguments.iter().filter(is_kept).cloned().collect();
        Self { arguments, ..self.clone() }
    }

    /// With these flags, instead of any values they had.
    #[must_use]
    pub fn with(mut self, flags: &[String]) -> Self {
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
        let given: Vec<String> = flags.iter().map(|flag| name(flag)).collect();
        self.arguments.retain(|argument| !given.contains(&name(argument)));
        self.arguments.extend(flags.iter().cloned());
        self
    }

    /// Starts one more operator, with a login of its own, and waits until it is ready.
    pub async fn start(&self, plane: &ControlPlane, name: &str) -> Result<Operator> {
        let kubeconfig = plane.service_account_kubeconfig(NAMESPACE, ACCOUNT).await?;
        self.start_with(&kubeconfig, name).await
    }

    pub async fn start_with(&self, kubeconfig: &Path, name: &str) -> Result<Operator> {
        let [port] = free_ports()?;
        let mut arguments = self.arguments.clone();
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        arguments.push(format!("--port={port}"));
        let process = Process::start(name, &self.program, &arguments, &self.folder)?;
        let operator = Operator { process, port };
        let url = format!("http://127.0.0.1:{port}/healthz");
        let answers = async || Ok(Web::default().get(&url).await?.status == 200);
        operator.process.ready(PATIENCE, answers).await?;
        Ok(operator)
    }
}

// === impl Operator ===

impl Operator {
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// As `kill -9` does it: it finishes nothing.
    pub fn kill(self) {
        drop(self);
    }

    /// Its metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String> {
        let answer = Web::default().get(&format!("http://127.0.0.1:{}/metrics", self.port)).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }
}

/// The release build of the program.
pub fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TIDEGATE_E2E_PROGRAM") {
        return Ok(path.into());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/tidegate");
    path.canonicalize().context("the program is not built: cargo build --release --bin tidegate")
}
