//! Rules, crash points and watch faults, without a server.

use super::*;
use crate::request::Verb;

fn request(verb: Verb, resource: &str) -> RequestInfo {
    RequestInfo {
        verb,
        resource: resource.into(),
        namespace: "ns".into(),
        name: "x".into(),
        user: "operator".into(),
        ..RequestInfo::default()
    }
}

fn write() -> RequestInfo {
    request(Verb::Patch, "pods")
}

fn code(verdict: &Verdict) -> Option<u16> {
    match &verdict.course {
        Course::Fail(failure) => Some(failure.code),
        Course::Proceed | Course::Drop | Course::LoseAnswer => None,
    }
}

/// The requests among ten that are hit, counted from 1.
fn hits(faults: &Faults) -> Vec<u64> {
    (1..=10).filter(|_| faults.on_request(&write()).course != Course::Proceed).collect()
}

#[test]
fn nothing_goes_wrong_unless_asked_for() {
    let faults = Faults::seeded(1);
    assert_eq!(hits(&faults), [0_u64; 0]);
    let mut plan = faults.on_watch_start(&request(Verb::Watch, "pods"));
    assert!(plan.is_uneventful());
    assert_eq!(faults.on_watch_event(&mut plan, WatchSignal::Event), WatchAction::Send);
    assert_eq!(faults.injected().total(), 0);
    assert_eq!(faults.injected().to_string(), "nothing");
}

#[test]
fn a_rule_hits_what_it_matches() {
    let pods = || Matcher::any().resource("", "pods");
    let cases = [
        (Matcher::any(), true, "everything"),
        (Matcher::writes(), true, "a patch is a write"),
        (Matcher::any().verbs([Verb::Get, Verb::List]), false, "other verbs"),
        (pods(), true, "the resource"),
        (Matcher::any().resource("apps", "pods"), false, "another group"),
        (pods().subresource(""), true, "the object itself"),
        (pods().subresource("status"), false, "a subresource"),
        (pods().namespace("ns").name("x").user("operator"), true, "all of it"),
        (pods().name("y"), false, "another name"),
        (pods().namespace("other"), false, "another namespace"),
        (pods().user("kubelet"), false, "another user"),
    ];
    for (matcher, want, reason) in cases {
        let faults = Faults::seeded(1);
        faults.add(matcher, When::Always, Effect::Conflict);
        assert_eq!(code(&faults.on_request(&write())) == Some(409), want, "{reason}");
    }
}

#[test]
fn a_rule_hits_when_it_is_told_to() {
    let cases = [
        (When::Always, (1..=10).collect::<Vec<_>>()),
        (When::First(3), vec![1, 2, 3]),
        (When::After(8), vec![9, 10]),
        (When::nth([2, 5]), vec![2, 5]),
        (When::Share(0.0), vec![]),
        (When::Share(1.0), (1..=10).collect()),
    ];
    for (when, want) in cases {
        let faults = Faults::seeded(1);
        faults.add(Matcher::any(), when.clone(), Effect::LoseAnswer);
        assert_eq!(hits(&faults), want, "{when:?}");
        assert_eq!(faults.injected().of("lose-answer"), want.len() as u64);
    }
}

#[test]
fn a_seed_decides_whom_a_share_hits() {
    let run = |seed| {
        let faults = Faults::seeded(seed);
        faults.add(Matcher::any(), When::Share(0.5), Effect::Conflict);
        (0..20).map(|_| faults.on_request(&write()).course != Course::Proceed).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn one_rule_does_not_disturb_the_draws_of_another() {
    let run = |other: bool| {
        let faults = Faults::seeded(1);
        faults.add(Matcher::any(), When::Share(0.5), Effect::LoseAnswer);
        if other {
            faults.add(Matcher::any(), When::Share(0.5), Effect::Delay { by: Duration::ZERO });
        }
        hits(&faults)
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn effects_become_the_answers_clients_know() {
    let second = Duration::from_secs(1);
    let cases = [
        (Effect::FailBefore { code: 403, reason: "Forbidden" }, 403, "Forbidden"),
        (Effect::Conflict, 409, "Conflict"),
        (Effect::TooManyRequests { retry_after_s: Some(2) }, 429, "TooManyRequests"),
        (Effect::ServerError { code: 500 }, 500, "InternalError"),
        (Effect::ServerError { code: 503 }, 503, "ServiceUnavailable"),
        (Effect::ServerError { code: 504 }, 504, "Timeout"),
        (Effect::Timeout { after: second }, 504, "Timeout"),
    ];
    for (effect, code, reason) in cases {
        let faults = Faults::seeded(1);
        faults.add(Matcher::any(), When::Always, effect.clone());
        let Course::Fail(failure) = faults.on_request(&write()).course else {
            panic!("{effect:?} is a failure");
        };
        assert_eq!((failure.code, failure.reason), (code, reason));
        assert_eq!(failure.name, "x", "{effect:?} says what it is about");
    }
    let faults = Faults::seeded(1);
    let limit = Effect::TooManyRequests { retry_after_s: Some(2) };
    faults.add(Matcher::any(), When::Always, limit);
    let Course::Fail(failure) = faults.on_request(&write()).course else { panic!("a failure") };
    assert_eq!(failure.retry_after_s, Some(2));
}

#[test]
fn delays_add_up_and_the_first_decides_the_course() {
    let second = Duration::from_secs(1);
    let faults = Faults::seeded(1);
    faults.add(Matcher::any(), When::Always, Effect::Delay { by: second });
    faults.add(Matcher::any(), When::Always, Effect::Conflict);
    faults.add(Matcher::any(), When::Always, Effect::Timeout { after: 5 * second });
    faults.add(Matcher::any(), When::Always, Effect::Delay { by: second });
    let verdict = faults.on_request(&write());
    assert_eq!((verdict.delay, code(&verdict)), (Some(2 * second), Some(409)));
    assert_eq!(
        faults.injected().to_string(),
        "conflict 1, delay 2",
        "what had no effect is not counted"
    );
}

#[test]
fn stale_reads_concern_reads_only() {
    let faults = Faults::seeded(1);
    faults.add(Matcher::any(), When::Always, Effect::StaleRead { resource_version: 7 });
    assert_eq!(faults.on_request(&request(Verb::List, "pods")).stale_at, Some(7));
    assert_eq!(faults.on_request(&request(Verb::Get, "pods")).stale_at, Some(7));
    assert_eq!(faults.on_request(&write()).stale_at, None);
    assert_eq!(faults.injected().of("stale-read"), 2);
}

#[test]
fn rules_can_be_taken_away() {
    let faults = Faults::seeded(1);
    let rule = faults.add(Matcher::any(), When::Always, Effect::Conflict);
    faults.remove(rule);
    faults.add(Matcher::any(), When::Always, Effect::LoseAnswer);
    faults.crash_at(0, Cut::BeforeSend);
    faults.clear();
    assert_eq!(faults.on_request(&write()).course, Course::Proceed);
}

#[test]
fn a_crash_point_cuts_one_write() {
    let cases = [
        (Cut::BeforeSend, Course::Drop),
        (Cut::AfterApply, Course::LoseAnswer),
        (Cut::LostAnswer, Course::LoseAnswer),
        (Cut::Conflict, Course::Fail(conflict(&write()))),
    ];
    for (cut, want) in cases {
        let faults = Faults::seeded(1);
        faults.crash_at(1, cut);
        let read = request(Verb::Get, "pods");
        assert_eq!(faults.on_request(&read).course, Course::Proceed, "reads are not counted");
        assert_eq!(faults.on_request(&write()).course, Course::Proceed, "write 0");
        assert_eq!(faults.crashed(), None);
        assert_eq!(faults.on_request(&write()).course, want, "write 1, {cut:?}");
        assert_eq!(faults.crashed(), Some(Crash { index: 1, cut }));
        let after = faults.on_request(&read).course;
        assert_eq!(after == Course::Drop, cut.kills(), "{cut:?}: the dead do not read");
        faults.revive();
        assert_eq!(faults.on_request(&write()).course, Course::Proceed, "once only");
        assert_eq!((faults.writes(), faults.crashed()), (3, None));
    }
}

#[test]
fn a_crash_takes_its_own_user_only() {
    let faults = Faults::seeded(1);
    faults.count_only(Matcher::any().user("operator"));
    let other = RequestInfo { user: "kubelet".into(), ..write() };
    faults.crash_at(0, Cut::AfterApply);
    assert_eq!(faults.on_request(&other).course, Course::Proceed, "not counted");
    assert_eq!(faults.on_request(&write()).course, Course::LoseAnswer);
    assert_eq!(faults.on_request(&other).course, Course::Proceed, "not dead");
    assert_eq!(faults.on_request(&write()).course, Course::Drop);
    let mut plan = faults.on_watch_start(&request(Verb::Watch, "pods"));
    assert_eq!(faults.on_watch_event(&mut plan, WatchSignal::Wake), WatchAction::Close);
    assert_eq!(faults.writes(), 1);
}

fn signals(faults: &Faults, plan: &mut WatchPlan, signals: &[WatchSignal]) -> Vec<WatchAction> {
    signals.iter().map(|signal| faults.on_watch_event(plan, *signal)).collect()
}

#[test]
fn watches_go_wrong_as_planned() {
    use WatchAction::{Close, FallSilent, Send, SendTwice, Stall, Withhold};
    use WatchSignal::{Bookmark, Event, Wake};
    let gone = || {
        WatchAction::Fail(Failure::expired(
            "too old resource version: the watch history was discarded",
        ))
    };
    let second = Duration::from_secs(1);
    let fault = |fault: WatchFault| vec![fault];
    let cases = [
        (fault(WatchFault::GoneAtStart), vec![Wake], vec![gone()], "gone at once"),
        (
            fault(WatchFault::GoneAfter { events: 1 }),
            vec![Wake, Bookmark, Event, Event],
            vec![Send, Send, Send, gone()],
            "gone after one event",
        ),
        (
            fault(WatchFault::CloseAfter { events: 2 }),
            vec![Event, Event, Wake],
            vec![Send, Send, Close],
            "closed after two",
        ),
        (
            fault(WatchFault::SilenceAfter { events: 1, lasting: None }),
            vec![Event, Event, Bookmark, Wake],
            vec![Send, FallSilent, FallSilent, FallSilent],
            "silent for good",
        ),
        (
            fault(WatchFault::SilenceAfter { events: 1, lasting: Some(second) }),
            vec![Event, Wake, Event, Event],
            vec![Send, Send, Stall(second), Send],
            "silent for a while, once",
        ),
        (
            fault(WatchFault::Duplicate),
            vec![Event, Bookmark],
            vec![SendTwice, Send],
            "everything twice",
        ),
        (
            fault(WatchFault::BookmarksOnly),
            vec![Event, Bookmark, Event],
            vec![Withhold, Send, Withhold],
            "bookmarks only",
        ),
        (
            vec![WatchFault::Duplicate, WatchFault::CloseAfter { events: 1 }],
            vec![Event, Event],
            vec![SendTwice, Close],
            "an end comes before colour",
        ),
    ];
    for (planned, given, want, reason) in cases {
        let faults = Faults::seeded(1);
        for fault in planned {
            faults.add(Matcher::any(), When::Always, Effect::Watch(fault));
        }
        let info = request(Verb::Watch, "pods");
        assert_eq!(faults.on_request(&info).course, Course::Proceed, "{reason}");
        let mut plan = faults.on_watch_start(&info);
        assert_eq!(signals(&faults, &mut plan, &given), want, "{reason}");
        assert!(faults.injected().total() > 0, "{reason}");
    }
}

#[test]
fn the_next_watch_can_be_spared() {
    let faults = Faults::seeded(1);
    faults.add(Matcher::any(), When::First(1), Effect::Watch(WatchFault::GoneAtStart));
    let info = request(Verb::Watch, "pods");
    assert!(!faults.on_watch_start(&info).is_uneventful());
    assert!(faults.on_watch_start(&info).is_uneventful());
}

#[test]
fn open_watches_can_be_interrupted() {
    let faults = Faults::seeded(1);
    let woken = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = Arc::clone(&woken);
    faults.on_interruption(move || {
        counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let mut open = faults.on_watch_start(&request(Verb::Watch, "pods"));
    let mut other = faults.on_watch_start(&request(Verb::Watch, "services"));
    faults.interrupt_watches(Matcher::any().resource("", "pods"), Interruption::Close);
    let mut later = faults.on_watch_start(&request(Verb::Watch, "pods"));
    let wake = WatchSignal::Wake;
    assert_eq!(faults.on_watch_event(&mut open, wake), WatchAction::Close);
    assert_eq!(faults.on_watch_event(&mut other, wake), WatchAction::Send, "not matched");
    assert_eq!(faults.on_watch_event(&mut later, wake), WatchAction::Send, "started afterwards");
    assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 1);
    assert_eq!(faults.injected().of("watch-close"), 1);
}
