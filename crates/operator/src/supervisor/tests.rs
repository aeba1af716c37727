use parking_lot::Mutex;
use serde_json::json;
use tidegate_providers::game::{NODE, POD};

use super::*;
use crate::game::testing::{Kit, NAMESPACE, pod, with};

const KINDS: [Kind; 1] = [POD];

/// A controller that records its calls.
#[derive(Clone, Default)]
struct Recorder {
    lines: Arc<Mutex<Vec<String>>>,
    /// Seconds that a loop takes to end, by the uid of its object.
    takes: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Seconds until loops may start.
    ready_after: u64,
}

impl Recorder {
    fn say(&self, line: String) {
        self.lines.lock().push(line);
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock())
    }

    fn takes(&self, uid: &str, seconds: u64) {
        self.takes.lock().insert(uid.to_owned(), seconds);
    }
}

impl Controller for Recorder {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn prepare(&self, _: &mut Watches) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(Duration::from_secs(self.ready_after)))
    }

    fn begin(&mut self, _: &mut Watches) {
        self.say("begin".to_owned());
    }

    fn wake_fields(&self, object: &Value) -> Value {
        object["spec"].clone()
    }

    fn follower(&self, (_, key): &Id) -> Key {
        key.clone()
    }

    fn delay(&self, _: &Value, is_initial: bool) -> Duration {
        Duration::from_secs(if is_initial { 7 } else { 0 })
    }

    fn start(
        &mut self,
        _: &Id,
        object: &Value,
        LoopStart { delay, mut stop }: LoopStart,
        _: &mut Watches,
    ) -> BoxFuture<'static, ()> {
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        let recorder = self.clone();
        recorder.say(format!("start {uid} after {}", delay.as_secs()));
        Box::pin(async move {
            let _ = stop.wait_for(|stop| *stop).await;
            let takes = recorder.takes.lock().get(&uid).copied().unwrap_or_default();
            tokio::time::sleep(Duration::from_secs(takes)).await;
            recorder.say(format!("stop {uid}"));
        })
    }

    fn changed(&mut self, (_, key): &Id, _: &Value) {
        self.say(format!("changed {}", key.name));
    }

    fn ended(&mut self, (_, key): &Id) {
        self.say(format!("ended {}", key.name));
    }
}

struct Stage {
    kit: Kit,
    recorder: Recorder,
    supervisor: Supervisor,
    changes: mpsc::UnboundedSender<Change>,
}

impl Stage {
    fn new(ready_after: u64) -> Self {
        let kit = Kit::new();
        let recorder = Recorder { ready_after, ..Recorder::default() };
        let (sender, changes) = mpsc::unbounded_channel();
        let cx = Arc::clone(&kit.cx);
        let mut watches =
            Watches { cx: Arc::clone(&cx), tasks: JoinSet::new(), changes: sender.clone() };
        let (ready, ready_sender) = (recorder.prepare(&mut watches), sender.clone());
        tokio::spawn(async move {
            ready.await;
            let _ = ready_sender.send(Change::Ready(0));
        });
        let supervisor = Supervisor {
            cx,
            controllers: vec![Box::new(recorder.clone())],
            has_begun: vec![false],
            running: BTreeMap::new(),
            loops: JoinSet::new(),
            watches,
            changes,
        };
        Self { kit, recorder, supervisor, changes: sender }
    }

    fn put(&self, name: &str, uid: &str, image: &str) {
        let object = with(pod(name), "/metadata/uid", json!(uid));
        self.kit.has(POD, with(object, "/spec/containers", json!([{ "image": image }])));
        self.tell(name);
    }

    fn remove(&self, name: &str) {
        self.kit.cluster().cache.cache_remove(POD, &Key::new(NAMESPACE, name));
        self.tell(name);
    }

    fn tell(&self, name: &str) {
        let _ = self.changes.send(Change::Object((POD, Key::new(NAMESPACE, name))));
    }

    /// Lets the supervisor work for so many seconds, and returns what happened.
    async fn after(&mut self, seconds: u64) -> Vec<String> {
        let time = Duration::from_secs(seconds) + Duration::from_millis(1);
        let ended = tokio::time::timeout(time, self.supervisor.run()).await;
        assert!(ended.is_err(), "the supervisor ended");
        self.recorder.lines()
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_starts_with_its_object_and_ends_with_it() {
    let mut stage = Stage::new(0);
    assert_eq!(stage.after(0).await, ["begin"]);
    stage.put("a", "a-1", "game:1");
    stage.put("b", "b-1", "game:1");
    assert_eq!(stage.after(1).await, ["start a-1 after 0", "start b-1 after 0"]);
    stage.tell("a");
    assert!(stage.after(1).await.is_empty(), "one loop for each");
    stage.remove("a");
    assert_eq!(stage.after(1).await, ["stop a-1", "ended a"]);
    stage.remove("a");
    stage.tell("never-there");
    assert!(stage.after(1).await.is_empty());
    stage.put("a", "a-2", "game:1");
    assert_eq!(stage.after(1).await, ["start a-2 after 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_fields_that_wake_is_told_and_rings_once() {
    let mut stage = Stage::new(0);
    stage.after(0).await;
    stage.put("a", "a-1", "game:1");
    stage.after(0).await;
    let bell = stage.kit.cluster().cache.wakeup(&Key::new(NAMESPACE, "a"));
    let rang = async |stage: &mut Stage| {
        let lines = stage.after(0).await;
        let rings = tokio::time::timeout(Duration::from_millis(1), bell.notified()).await.is_ok();
        (lines, rings)
    };
    stage.put("a", "a-1", "game:1");
    assert_eq!(rang(&mut stage).await, (vec![], false), "another version of the same");
    stage.put("a", "a-1", "game:2");
    assert_eq!(rang(&mut stage).await, (vec!["changed a".to_owned()], true));
    stage.tell("a");
    assert_eq!(rang(&mut stage).await, (vec![], false), "it was told already");
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_the_same_name_starts_after_the_old_loop_has_ended() {
    let mut stage = Stage::new(0);
    stage.after(0).await;
    stage.put("a", "a-1", "game:1");
    stage.after(0).await;
    stage.recorder.takes("a-1", 5);
    stage.put("a", "a-2", "game:1");
    assert!(stage.after(4).await.is_empty(), "the old one is not at its end");
    assert_eq!(stage.after(2).await, ["stop a-1", "ended a", "start a-2 after 0"]);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_takes_long_to_end_blocks_no_other() {
    let mut stage = Stage::new(0);
    stage.after(0).await;
    stage.put("slow", "slow-1", "game:1");
    stage.put("b", "b-1", "game:1");
    stage.after(0).await;
    stage.recorder.takes("slow-1", 1000);
    stage.remove("slow");
    stage.remove("b");
    stage.put("c", "c-1", "game:1");
    let lines = stage.after(1).await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in ["start c-1 after 0", "stop b-1", "ended b"] {
        assert!(lines.contains(&line.to_owned()), "{line}: {lines:?}");
    }
    assert_eq!(stage.after(1000).await, ["stop slow-1", "ended slow"]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_came_before_loops_may_start_are_started_then() {
    let mut stage = Stage::new(10);
    stage.put("a", "a-1", "game:1");
    stage.put("b", "b-1", "game:1");
    stage.remove("b");
    assert!(stage.after(9).await.is_empty(), "not yet");
    assert_eq!(stage.after(2).await, ["begin", "start a-1 after 7"], "with the delay of a start");
    stage.put("a", "a-1", "game:2");
    assert_eq!(stage.after(0).await, ["changed a"]);
}

#[tokio::test(start_paused = true)]
async fn kinds_without_loops_are_ignored() {
    let mut stage = Stage::new(0);
    stage.after(0).await;
    stage.kit.has(NODE, crate::game::testing::node("one"));
    let _ = stage.changes.send(Change::Object((NODE, Key::new("", "one"))));
    assert!(stage.after(1).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_every_loop_and_for_cleanup() {
    let mut stage = Stage::new(0);
    stage.after(0).await;
    for name in ["a", "b"] {
        stage.put(name, name, "game:1");
        stage.recorder.takes(name, 3);
    }
    stage.after(0).await;
    let cleanup = stage.recorder.clone();
    stage.kit.cx.spawn_cleanup(async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        cleanup.say("cleaned up".to_owned());
    });
    let start = tokio::time::Instant::now();
    stage.supervisor.drain(Duration::from_mins(1)).await;
    assert_eq!(start.elapsed().as_secs(), 5);
    let mut lines = stage.recorder.lines();
    lines.sort();
    assert_eq!(lines, ["cleaned up", "stop a", "stop b"]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_up_after_its_patience() {
    let mut stage = Stage::new(0);
    stage.after(0).await;
    stage.put("a", "a-1", "game:1");
    stage.recorder.takes("a-1", 1000);
    stage.after(0).await;
    let start = tokio::time::Instant::now();
    stage.supervisor.drain(Duration::from_secs(30)).await;
    assert_eq!(start.elapsed().as_secs(), 30);
    assert!(stage.recorder.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_ends_the_supervisor() {
    let mut stage = Stage::new(0);
    stage.supervisor.watches.tasks.spawn(async {});
    let ended = tokio::time::timeout(Duration::from_secs(1), stage.supervisor.run()).await;
    assert!(ended.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_is_dropped_takes_its_background_with_it() {
    let stage = Stage::new(0);
    let recorder = stage.recorder.clone();
    stage.kit.cx.spawn_background(async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        recorder.say("still there".to_owned());
    });
    let Stage { kit: _kit, recorder, supervisor, .. } = stage;
    drop(supervisor);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(recorder.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn names_of_changed_objects_are_forwarded_with_their_kind() {
    let (sender, mut changes) = mpsc::unbounded_channel();
    let key = Key::new(NAMESPACE, "a");
    Forward(POD, sender).changed(&key);
    let Some(Change::Object(id)) = changes.recv().await else { panic!("nothing was forwarded") };
    assert_eq!(id, (POD, key));
}
