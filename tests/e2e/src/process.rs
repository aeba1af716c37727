//! Programs that end with the test, however it ends.
//!
//! Each is started through `setpriv --pdeathsig KILL`: the kernel kills it when its parent dies, be it by a
//! panic, Ctrl-C or `kill -9`. "Parent" means the *thread* that started it, and test threads and tokio's
//! are short-lived, so one thread that never ends starts them all.

use std::{
    fs::{self, File},
    io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        mpsc::{Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};

/// Lines of a log that are shown when its program fails.
const TAIL_LINES: usize = 25;
/// Between two checks of whether a program is ready.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A running program. Dropping it kills it and waits until it is gone.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Mutex<Child>,
    log: PathBuf,
}

type Order = (Command, Sender<io::Result<Child>>);

// === impl Process ===

impl Process {
    /// Starts `program`; its output is in `<name>.log` in `folder`.
    pub fn start(name: &str, program: &Path, arguments: &[String], folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        // Programs that find a cluster by themselves must not find another one.
        command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
        command.current_dir(folder).stdin(Stdio::null());
        command.stdout(file.try_clone()?).stderr(file);
        // In a group of its own: Ctrl-C ends us, and we end it.
        command.process_group(0);
        let child = spawn(command).context("`setpriv` does not run: install util-linux")?;
        Ok(Self { name: name.to_owned(), child: Mutex::new(child), log })
    }

    pub fn id(&self) -> u32 {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines it wrote.
    pub fn tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let from = lines.len().saturating_sub(TAIL_LINES);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Waits until `is_ready` is true. The error of a timeout has the last lines of the log.
    pub async fn ready(
        &self,
        patience: Duration,
        mut is_ready: impl AsyncFnMut() -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + patience;
        let mut last = anyhow!("it did not answer");
        loop {
            match tokio::time::timeout(patience, is_ready()).await {
                Ok(Ok(true)) => return Ok(()),
                Ok(Ok(false)) => last = anyhow!("it says that it is not ready"),
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
            if let Some(status) = self.exited() {
                bail!("{} ended with {status}; its last lines:\n{}", self.name, self.tail());
            }
            if Instant::now() > deadline {
                let waited = patience.as_secs();
                let last = last.context(format!("{}; its last lines:\n{}", self.name, self.tail()));
                // In the words of `eventually`, by which timeouts are known.
                return Err(last.context(format!("waited {waited} s in vain: {} runs", self.name)));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Sends a signal: `STOP`, `CONT`, `TERM`, `KILL`.
    pub fn signal(&self, name: &str) -> Result<()> {
        let id = self.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status()?;
        anyhow::ensure!(sent.success(), "{} did not get SIG{name}", self.name);
        Ok(())
    }

    /// How it ended, if it did.
    pub fn exited(&self) -> Option<std::process::ExitStatus> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Starts a program from the thread that never ends.
fn spawn(command: Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, inbox) = channel::<Order>();
        let work = move || {
            for (mut command, answer) in inbox {
                // The caller waits for the answer.
                let _ = answer.send(command.spawn());
            }
        };
        thread::Builder::new().name("starter".to_owned()).spawn(work).expect("a thread starts");
        orders
    });
    let (answer, started) = channel();
    orders.send((command, answer)).expect("the starter never ends");
    started.recv().expect("the starter answers every order")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_ends_early_is_told_of_with_its_last_words() {
        let folder = std::env::temp_dir();
        let arguments = ["-c".to_owned(), "echo gone wrong; exit 3".to_owned()];
        let process =
            Process::start("early-end", Path::new("/bin/sh"), &arguments, &folder).unwrap();
        let error = process.ready(Duration::from_secs(10), async || Ok(false)).await.unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("exit status: 3") && text.contains("gone wrong"), "{text}");
        fs::remove_file(process.log()).unwrap();
    }

    #[test]
    fn a_program_outlives_the_thread_that_asked_for_it_but_not_its_owner() {
        let folder = std::env::temp_dir();
        let arguments = ["60".to_owned()];
        let start = move || Process::start("sleeper", Path::new("/bin/sleep"), &arguments, &folder);
        let process = thread::spawn(start).join().unwrap().unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(process.exited().is_none(), "the asking thread is gone, the program is not");
        let place = format!("/proc/{}", process.id());
        fs::remove_file(process.log()).unwrap();
        drop(process);
        assert!(!Path::new(&place).exists());
    }
}
