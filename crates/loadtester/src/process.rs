//! Runs a program for others, and ends it together with all it has started.
//!
//! ```text
//! spawn, in a process group of its own --> read its output --> reap it --> drain, for a moment
//!          cancelled: SIGTERM to the group, 5 s later SIGKILL
//! ```
//!
//! Where this is the first process of a container, orphans become its children; those of a group are
//! waited for with it, or their numbers would be used up one by one.
//!
//! No shell is involved unless the program is one. Of the output the last 64 KiB are kept. Dropping the
//! future kills the whole group.

use std::{
    collections::VecDeque,
    future::Future,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    pin::pin,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpgid};
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe,
    process::Command,
    time::{Instant, sleep, sleep_until, timeout},
};

/// A program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Both of its outputs, in the order in which they were written.
    pub output: Tail,
    /// It was cancelled.
    pub cancelled: bool,
}

/// The last bytes of an output that may have no end.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    dropped: u64,
}

/// A process group, killed when dropped.
struct Group {
    leader: Option<Pid>,
}

/// Enough to see why a test failed; with 128 tasks at a time 8 MiB in all.
const TAIL_BYTES: usize = 64 * 1024;
/// From SIGTERM to SIGKILL. A test that has to clean up gets to, and a pod's 30 s are kept.
const GRACE: Duration = Duration::from_secs(5);
/// For output that still arrives after the program has ended. A process that holds it open for longer was
/// left behind.
const DRAIN: Duration = Duration::from_secs(2);

/// For killed processes to be gone.
const REAP_MAX: Duration = Duration::from_secs(1);

/// Runs `program` to its end, or ends it when `cancel` resolves.
pub async fn run(
    program: &str,
    arguments: &[String],
    cancel: impl Future<Output = ()>,
) -> io::Result<Ended> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // Its copies of the pipe would keep the output from ever ending.
    drop(command);
    let group = Group::led_by(child.id());
    let mut reader = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))?;
    let mut output = Tail::default();
    let mut chunk = [0; 8192];
    let mut is_open = true;
    let mut cancel = pin!(cancel);
    let mut kill_at = None;
    let mut cancelled = false;
    let status = loop {
        tokio::select! {
            biased;
            () = cancel.as_mut(), if !cancelled => {
                cancelled = true;
                group.signal(Signal::TERM);
                kill_at = Some(Instant::now() + GRACE);
            }
            () = sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                group.signal(Signal::KILL);
                kill_at = None;
            }
            status = child.wait() => break status?,
            read = reader.read(&mut chunk), if is_open => match read {
                Ok(0) | Err(_) => is_open = false,
                Ok(length) => output.push(chunk.get(..length).unwrap_or_default()),
            },
        }
    };
    let drained = timeout(DRAIN, async {
        while let Ok(length @ 1..) = reader.read(&mut chunk).await {
            output.push(chunk.get(..length).unwrap_or_default());
        }
    });
    // In time or not: the output so far is all there is.
    let _in_time = drained.await;
    // Remaining processes of the group were left behind. While there is one, the number of the group is theirs; if
    // there is none, the system reuses it only after all others.
    group.signal(Signal::KILL);
    group.reap().await;
    Ok(Ended { status, output, cancelled })
}

/// How a program ended, in the words that Go has for it.
pub fn reason(status: ExitStatus) -> String {
    if let Some(code) = status.code() {
        return format!("exit status {code}");
    }
    let signal = status.signal().unwrap_or_default();
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        6 => "aborted",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        _ => return format!("signal: signal {signal}"),
    };
    format!("signal: {name}")
}

// === impl Group ===

impl Group {
    fn led_by(id: Option<u32>) -> Self {
        let leader = id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { leader }
    }

    /// A group without processes is no error: it has ended.
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            let _gone = kill_process_group(leader, signal);
        }
    }

    /// Waits for members that were orphaned and left to us, for a moment. The leader has been waited
    /// for already.
    async fn reap(&self) {
        let Some(leader) = self.leader else { return };
        let deadline = Instant::now() + REAP_MAX;
        while Instant::now() < deadline {
            match waitpgid(leader, WaitOptions::NOHANG) {
                Ok(Some(_buried)) => {}
                Ok(None) => sleep(Duration::from_millis(5)).await,
                // None of them is ours, or none is left.
                Err(_) => return,
            }
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

// === impl Tail ===

impl Tail {
    pub fn push(&mut self, bytes: &[u8]) {
        let kept = bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
        let excess = (self.bytes.len() + kept.len()).saturating_sub(TAIL_BYTES);
        self.bytes.drain(..excess);
        self.dropped += (excess + bytes.len() - kept.len()) as u64;
        self.bytes.extend(kept);
    }

    /// The end of the output, and the length of the rest.
    pub fn text(&self) -> String {
        let (front, back) = self.bytes.as_slices();
        let text = String::from_utf8_lossy(&[front, back].concat()).into_owned();
        if self.dropped == 0 {
            return text;
        }
        format!("({} bytes before this were dropped)\n{text}", self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        path::{Path, PathBuf},
    };

    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        vec!["-c".to_owned(), line.to_owned()]
    }

    async fn shell(line: &str) -> Ended {
        run("sh", &arguments(line), pending()).await.unwrap()
    }

    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        // A zombie has ended.
        stat.is_ok_and(|stat| !stat.rsplit_once(") ").is_some_and(|it| it.1.starts_with('Z')))
    }

    async fn expect_dead(pid: &str) {
        for _ in 0..200 {
            if !is_alive(pid) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{pid} is still alive");
    }

    /// A file that a program writes its number to.
    struct PidFile(PathBuf);

    impl PidFile {
        fn new(name: &str) -> Self {
            let file = std::env::temp_dir().join(format!("pid-{name}-{}", std::process::id()));
            let _not_there = std::fs::remove_file(&file);
            Self(file)
        }

        /// Waits for the number.
        async fn read(&self) -> String {
            loop {
                let pid = std::fs::read_to_string(&self.0).unwrap_or_default();
                if pid.ends_with('\n') {
                    return pid.trim().to_owned();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    impl Drop for PidFile {
        fn drop(&mut self) {
            let _not_there = std::fs::remove_file(&self.0);
        }
    }

    #[tokio::test]
    async fn both_outputs_are_kept_in_order() {
        let ended = shell("echo one; echo two >&2; echo three; exit 3").await;
        assert_eq!(ended.output.text(), "one\ntwo\nthree\n");
        assert_eq!(reason(ended.status), "exit status 3");
        assert_eq!(reason(shell("kill -9 $$").await.status), "signal: killed");
        assert!(run("no-such-program", &[], pending()).await.is_err());
    }

    #[tokio::test]
    async fn arguments_are_given_as_they_are() {
        let words = ["$HOME; echo", "a b", ""].map(str::to_owned);
        let program = ["-c".to_owned(), r#"printf '[%s]' "$@""#.to_owned(), "sh".to_owned()];
        let ended = run("sh", &[&program[..], &words[..]].concat(), pending()).await.unwrap();
        assert_eq!(ended.output.text(), "[$HOME; echo][a b][]");
    }

    #[tokio::test]
    async fn nothing_is_read_from_a_terminal() {
        assert_eq!(shell("cat; echo done").await.output.text(), "done\n");
    }

    #[tokio::test]
    async fn the_children_of_a_program_end_with_it() {
        let file = PidFile::new("child");
        let line = format!("sleep 9999 & echo $! > {}; wait", file.0.display());
        let cancel = async { drop(file.read().await) };
        let arguments = arguments(&line);
        let ended = run("sh", &arguments, cancel);
        let ended = timeout(Duration::from_secs(30), ended).await.unwrap().unwrap();
        assert!(ended.cancelled);
        expect_dead(&file.read().await).await;
    }

    #[tokio::test]
    async fn a_program_that_ignores_the_end_is_killed() {
        let started = Instant::now();
        let file = PidFile::new("stubborn");
        let line = "trap '' TERM; echo $$ > {}; while :; do sleep 1; done";
        let line = line.replace("{}", &file.0.display().to_string());
        let cancel = async { drop(file.read().await) };
        let ended = run("sh", &arguments(&line), cancel).await.unwrap();
        assert_eq!(reason(ended.status), "signal: killed");
        assert!(started.elapsed() >= GRACE, "it had time to end by itself");
        expect_dead(&file.read().await).await;
    }

    #[tokio::test]
    async fn processes_left_behind_do_not_hold_the_task_up() {
        let started = Instant::now();
        let ended = shell("sleep 9999 & echo $!").await;
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        assert_eq!(reason(ended.status), "exit status 0");
        expect_dead(ended.output.text().trim()).await;
    }

    #[tokio::test]
    async fn orphans_that_are_left_to_us_are_buried() {
        // As the first process of a container.
        rustix::process::set_child_subreaper(Some(Pid::INIT)).unwrap();
        let ended = shell("(sleep 0.1 & echo $!) | cat; sleep 0.3; sleep 9999 & echo $!").await;
        let text = ended.output.text();
        assert_eq!(text.lines().count(), 2, "{text}");
        for pid in text.lines() {
            assert!(!Path::new("/proc").join(pid).exists(), "{pid} is a zombie");
        }
    }

    #[tokio::test]
    async fn a_dropped_run_takes_its_group_along() {
        let file = PidFile::new("dropped");
        let line = format!("sleep 9999 & echo $! > {}; wait", file.0.display());
        let running = tokio::spawn(async move { run("sh", &arguments(&line), pending()).await });
        let pid = file.read().await;
        assert!(is_alive(&pid));
        running.abort();
        expect_dead(&pid).await;
    }

    #[tokio::test]
    async fn of_an_endless_output_the_end_is_kept() {
        let ended = shell("head -c 300000 /dev/zero | tr '\\0' x; echo the end").await;
        let text = ended.output.text();
        assert!(
            text.starts_with("(234472 bytes before this were dropped)\nxxx"),
            "{}",
            &text[..80]
        );
        assert!(text.ends_with("xthe end\n"));
        assert_eq!(ended.output.bytes.len(), TAIL_BYTES);
        let mut tail = Tail::default();
        tail.push(&vec![b'a'; TAIL_BYTES + 5]);
        tail.push(b"b");
        assert_eq!((tail.bytes.len(), tail.dropped), (TAIL_BYTES, 6));
    }
}
