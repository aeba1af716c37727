//! A network of its own for each test.
//!
//! A test calls [`inside`] with its own name. The first call starts the test's binary again for that one
//! test in a new network namespace, whose loopback device owns all pod addresses: they can be bound and
//! dialled without bridge or route, nothing leaves the machine, and every test has all ports.
//! ```text
//! cargo test ── test thread: inside("x", ..) ── unshare ── ip ── the same binary, x --exact
//!                                                                   └── inside("x", ..): runs it
//! ```
//!
//! It works as root, and as an ordinary user where user namespaces are allowed.

use std::{
    env,
    io::{BufRead as _, BufReader},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::scratch;

/// Set in the process that has the network.
const INSIDE: &str = "TIDEGATE_E2E_INSIDE";
/// Few tests take longer; one that does is stuck.
const PATIENCE: Duration = Duration::from_mins(15);
/// Holds 10.244.0.0 to 10.247.255.255: the ranges of the nodes' pods.
const SETUP: &str = "ip link set lo up && ip addr add 10.244.0.1/14 dev lo && \
                     exec setpriv --pdeathsig KILL -- \"$0\" \"$@\" 2>&1";

/// Runs `body` as the test called `name` (its whole path) in a network of its own.
///
/// # Panics
///
/// When the test fails, or the machine does not allow namespaces.
pub fn inside(name: &str, body: impl AsyncFnOnce() -> Result<()>) {
    inside_for(PATIENCE, name, body);
}

/// As [`inside`], for a test that may take longer than others.
///
/// # Panics
///
/// As [`inside`].
#[expect(clippy::panic, reason = "it is how a test fails")]
pub fn inside_for(patience: Duration, name: &str, body: impl AsyncFnOnce() -> Result<()>) {
    if env::var_os(INSIDE).is_none() {
        if let Err(error) = start_again(name) {
            panic!("{error:#}");
        }
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    scratch::keep_all();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { tokio::time::timeout(patience, body()).await })
    }));
    let folders = scratch::take_kept();
    if matches!(outcome, Ok(Ok(Ok(())))) {
        for folder in folders {
            let _ = std::fs::remove_dir_all(folder);
        }
        return;
    }
    for folder in folders {
        show(&format!("logs of the failed test: {}", folder.display()));
    }
    match outcome {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => panic!("{error:?}"),
        Ok(Err(_)) => panic!("{name} is stuck: it ran for {} s", patience.as_secs()),
        Err(cause) => resume_unwind(cause),
    }
}

fn start_again(name: &str) -> Result<()> {
    for (tool, package) in
        [("unshare", "util-linux"), ("setpriv", "util-linux"), ("ip", "iproute2")]
    {
        let found = env::var_os("PATH")
            .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(tool).is_file()));
        if !found {
            bail!("`{tool}` is missing: install {package}");
        }
    }
    let binary = env::current_exe().context("the test's own binary cannot be found")?;
    let mut command = unshare();
    command.args(["sh", "-c", SETUP]).arg(binary);
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
    let mut child = command
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("`unshare` does not run")?;
    let mut has_run = false;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            has_run |= line == "running 1 test";
            show(&line);
        }
    }
    let status = child.wait()?;
    if !has_run && !status.success() {
        bail!("{}", refused());
    }
    if !has_run {
        bail!("no test is called `{name}`: the name given to `inside` must be the test's own");
    }
    if !status.success() {
        bail!("{name} failed in its network ({status}); what it said is above");
    }
    Ok(())
}

/// Through the macro, not the stream: the test harness shows it for failed tests only.
#[expect(clippy::print_stdout, reason = "what the test itself said")]
fn show(line: &str) {
    println!("{line}");
}

/// Root needs no user namespace, and on some machines they are forbidden.
fn unshare() -> Command {
    let mut command = Command::new("unshare");
    if is_root() {
        command.arg("--net");
    } else {
        command.args(["--user", "--map-root-user", "--net"]);
    }
    command.arg("--");
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn refused() -> &'static str {
    if is_root() {
        "this machine allows no network namespaces: root here lacks CAP_SYS_ADMIN \
         (for a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN)"
    } else {
        "this machine allows no network namespaces to ordinary users: run as root, or set \
         kernel.unprivileged_userns_clone=1 (Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)"
    }
}
