use std::{fs, path::PathBuf, time::Instant};

use super::*;
use crate::{
    load::{BodyFiles, Bounds, Plan, Tool},
    task::Work,
};

const LIMITS: Limits = Limits {
    tasks: 8,
    tasks_per_namespace: 4,
    connections: 10,
    timeout: Duration::from_secs(30),
    patience: Duration::from_secs(30),
};

fn runner(limits: Limits) -> Runner {
    Runner::new(limits, Arc::default())
}

/// A line for a shell; the canary is `app` in `namespace`.
fn task(namespace: &str, kind: Kind, line: &str) -> Task {
    let canary = format!("app.{namespace}");
    let arguments = vec!["-c".to_owned(), line.to_owned()];
    Task {
        kind,
        key: format!("{canary}\n{}\n{line}", kind.as_str()),
        canary,
        namespace: namespace.to_owned(),
        work: Work::Program { program: "sh".to_owned(), arguments },
        text: line.to_owned(),
        shown: line.to_owned(),
        blocking: kind != Kind::Cmd,
        logs_output: false,
        returns_output: true,
    }
}

/// A file that commands add a line to when they run.
struct Runs(PathBuf);

impl Runs {
    fn new(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("runs-{name}-{}", std::process::id()));
        let _not_there = fs::remove_file(&file);
        let runs = Self(file);
        runs.hold();
        runs
    }

    fn line(&self, then: &str) -> String {
        format!("echo run >> {}; {then}", self.0.display())
    }

    /// A line that goes on until [`Runs::release`].
    fn held_line(&self, then: &str) -> String {
        let gate = self.gate();
        self.line(&format!("while [ ! -e {} ]; do sleep 0.05; done; {then}", gate.display()))
    }

    fn gate(&self) -> PathBuf {
        self.0.with_extension("gate")
    }

    fn release(&self) {
        fs::write(self.gate(), "").unwrap();
    }

    fn hold(&self) {
        let _not_there = fs::remove_file(self.gate());
    }

    fn count(&self) -> usize {
        fs::read_to_string(&self.0).unwrap_or_default().lines().count()
    }

    async fn until(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.count() < count {
            assert!(Instant::now() < deadline, "{} runs, not {count}", self.count());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let _not_there = fs::remove_file(&self.0);
        self.hold();
    }
}

async fn until_idle(runner: &Runner) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while runner.running() > 0 {
        assert!(Instant::now() < deadline, "tasks do not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// "cmd tasks submitted three times, then again after they end: 2 executions, then 4".
#[tokio::test]
async fn a_command_that_runs_is_not_started_again() {
    let runs = Runs::new("lt-40");
    let runner = runner(LIMITS);
    for round in 1..=2 {
        runs.hold();
        for _ in 0..3 {
            for line in [runs.held_line(": 6"), runs.held_line(": 7")] {
                runner.begin(task("test", Kind::Cmd, &line)).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        runs.release();
        until_idle(&runner).await;
        assert_eq!(runs.count(), 2 * round);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_at_once_one_starts() {
    let runner = runner(LIMITS);
    let mut asking = JoinSet::new();
    for _ in 0..50 {
        let runner = runner.clone();
        asking.spawn(async move { runner.begin(task("test", Kind::Cmd, "sleep 5")) });
    }
    let begun = asking.join_all().await;
    let started = begun.iter().filter(|it| **it == Ok(Begun::Started)).count();
    let skipped = begun.iter().filter(|it| **it == Ok(Begun::Skipped)).count();
    assert_eq!((started, skipped), (1, 49));
    let page = runner.inner.metrics.page(crate::metrics::Gauges::default());
    let line = "tidegate_loadtester_tasks_total{type=\"cmd\",outcome=\"skipped\"} 49";
    assert!(page.contains(line), "{page}");
    runner.stop().await;
}

#[tokio::test]
async fn the_same_test_runs_once_for_all_callers() {
    let runs = Runs::new("joined");
    let runner = runner(LIMITS);
    let line = runs.line("sleep 0.3; echo done");
    let mut asking = JoinSet::new();
    for _ in 0..3 {
        let (runner, task) = (runner.clone(), task("test", Kind::Bash, &line));
        asking.spawn(async move { runner.ask(task).await.unwrap() });
    }
    for outcome in asking.join_all().await {
        assert_eq!((outcome.output.as_str(), outcome.reason), ("done\n", None));
    }
    assert_eq!(runs.count(), 1);
    runner.ask(task("test", Kind::Bash, &line)).await.unwrap();
    assert_eq!(runs.count(), 2, "a new question is a new run");
}

#[tokio::test]
async fn a_caller_that_gave_up_finds_its_test_again() {
    let runs = Runs::new("found");
    let runner = runner(LIMITS);
    let line = runs.held_line("echo done; exit 4");
    let ask = || runner.ask(task("test", Kind::Bash, &line));
    for _ in 0..3 {
        assert!(timeout(Duration::from_millis(50), ask()).await.is_err(), "not done yet");
    }
    runs.release();
    // Done without a waiting caller, the outcome goes to the next that asks, and to no other.
    until_idle(&runner).await;
    let outcome = ask().await.unwrap();
    assert_eq!(outcome.reason.as_deref(), Some("exit status 4"));
    assert_eq!(runs.count(), 1);
    runs.hold();
    assert!(timeout(Duration::from_millis(50), ask()).await.is_err(), "a new run");
    runs.until(2).await;
    runner.stop().await;
}

#[tokio::test]
async fn a_test_without_a_waiting_caller_is_ended() {
    let patience = Duration::from_millis(300);
    let runner = runner(Limits { patience, ..LIMITS });
    let endless = task("test", Kind::Bash, "sleep 9999");
    assert!(timeout(Duration::from_millis(50), runner.ask(endless)).await.is_err());
    assert_eq!(runner.running(), 1);
    until_idle(&runner).await;
    assert!(runner.inner.places.lock().is_empty());
    let page = runner.inner.metrics.page(crate::metrics::Gauges::default());
    assert!(page.contains("{type=\"bash\",outcome=\"abandoned\"} 1"), "{page}");
}

#[tokio::test]
async fn an_outcome_that_is_not_collected_is_dropped() {
    let patience = Duration::from_millis(300);
    let runner = runner(Limits { patience, ..LIMITS });
    let runs = Runs::new("dropped");
    let held = task("test", Kind::Bash, &runs.held_line(""));
    assert!(timeout(Duration::from_millis(20), runner.ask(held)).await.is_err());
    runs.release();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !runner.inner.places.lock().is_empty() {
        assert!(Instant::now() < deadline, "it is kept for ever");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn the_number_of_tasks_is_bounded() {
    let runner = runner(Limits { tasks: 3, tasks_per_namespace: 2, ..LIMITS });
    let begin = |namespace, line| runner.begin(task(namespace, Kind::Cmd, line));
    assert_eq!(begin("red", "sleep 5"), Ok(Begun::Started));
    assert_eq!(begin("red", "sleep 6"), Ok(Begun::Started));
    assert_eq!(begin("red", "sleep 7"), Err(Busy::Tasks), "of one namespace");
    assert_eq!(begin("blue", "sleep 5"), Ok(Begun::Started));
    assert_eq!(begin("green", "sleep 5"), Err(Busy::Tasks), "of all");
    assert_eq!(runner.ask(task("green", Kind::Bash, "true")).await, Err(Busy::Tasks));
    assert_eq!(begin("red", "sleep 5"), Ok(Begun::Skipped), "one that runs needs no room");
    runner.stop().await;
    assert_eq!(runner.running(), 0);
}

#[tokio::test]
async fn a_task_has_its_time() {
    let runner = runner(Limits { timeout: Duration::from_secs(2), ..LIMITS });
    let outcome = runner.ask(task("test", Kind::Bash, "echo begun; sleep 9999")).await.unwrap();
    assert_eq!(outcome.output, "begun\n");
    assert_eq!(outcome.reason.as_deref(), Some("timed out after 2s"));
}

#[tokio::test]
async fn on_stop_nothing_is_left() {
    let runs = Runs::new("stop");
    let runner = runner(LIMITS);
    runner.begin(task("test", Kind::Cmd, &runs.line("sleep 9999"))).unwrap();
    let (asker, line) = (runner.clone(), runs.line("echo asked; sleep 1; echo told"));
    let asking = tokio::spawn(async move { asker.ask(task("test", Kind::Bash, &line)).await });
    runs.until(2).await;
    runner.stop_background();
    let outcome = asking.await.unwrap().unwrap();
    assert_eq!(outcome.output, "asked\ntold\n", "those who wait are served");
    assert_eq!(runner.begin(task("test", Kind::Cmd, "true")), Err(Busy::Tasks));
    until_idle(&runner).await;
    runner.stop().await;
}

#[tokio::test]
async fn a_caller_that_comes_while_its_test_is_being_ended_gets_a_new_one() {
    let runs = Runs::new("late");
    let runner = runner(Limits { patience: Duration::from_millis(100), ..LIMITS });
    // The first time it takes its time to end; the second time it is done at once.
    let file = runs.0.display();
    let line = format!(
        "if [ -e {file} ]; then echo second; exit; fi; echo first > {file}; \
         trap 'echo ending >> {file}; sleep 1; exit' TERM; sleep 9999 & wait"
    );
    let ask = || runner.ask(task("test", Kind::Bash, &line));
    let asked = timeout(Duration::from_secs(20), async {
        let first = ask();
        tokio::select! {
            outcome = first => panic!("it has no end: {outcome:?}"),
            () = runs.until(1) => {}
        }
    });
    asked.await.unwrap();
    runs.until(2).await;
    let outcome = ask().await.unwrap();
    assert_eq!((outcome.output.as_str(), outcome.reason), ("second\n", None));
}

#[tokio::test]
async fn a_task_that_is_cut_off_leaves_no_place_behind() {
    let runner = runner(LIMITS);
    runner.begin(task("test", Kind::Cmd, "sleep 9999")).unwrap();
    tokio::task::yield_now().await;
    assert_eq!(runner.running(), 1);
    runner.inner.tasks.lock().abort_all();
    until_idle(&runner).await;
    assert!(runner.inner.places.lock().is_empty());
}

/// A load without an end on a server that says nothing.
fn load(address: std::net::SocketAddr, connections: u32) -> Task {
    let words = ["-z", "1h", "-c", &connections.to_string(), &format!("http://{address}/")];
    let bounds = Bounds { connections_max: 100, body_files: BodyFiles::Refused };
    let plan = Plan::parse(Tool::Hey, &words.map(str::to_owned), &bounds).unwrap();
    let work = Work::Load(Box::new(plan));
    Task { work, ..task("test", Kind::Cmd, &format!("load {connections}")) }
}

#[tokio::test]
async fn the_connections_of_all_loads_are_bounded_together() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let runner = runner(LIMITS);
    assert_eq!(runner.begin(load(address, 6)), Ok(Begun::Started));
    let refused = runner.begin(load(address, 5)).unwrap_err();
    assert_eq!(refused, Busy::Connections { asked: 5, free: 4, most: 10 });
    let text = "the load needs 5 connections, and of 10 for all loads 4 are free; \
                try again later, or see -max-total-connections";
    assert_eq!(refused.to_string(), text);
    assert_eq!(runner.running(), 1, "what is refused takes no place");
    assert_eq!(runner.begin(load(address, 4)), Ok(Begun::Started));
    assert_eq!(runner.begin(task("test", Kind::Cmd, "true")), Ok(Begun::Started), "no load");
    runner.stop().await;
    assert_eq!(runner.inner.connections.available_permits(), 10, "given back");
}
