use HookPhase::{Error, Failed, Inconclusive, Pending, Running, Successful};
use proptest::{prelude::*, test_runner::Config};

use super::*;

const SECOND: i64 = 1_000;

/// The documented style: two measurements, a minute apart.
fn checking() -> Metric {
    Metric {
        name: "webtest".to_owned(),
        interval: Some(Duration::from_mins(1)),
        initial_delay: None,
        count: 2,
        failure_limit: None,
        successful_limit: 0,
        inconclusive_limit: 0,
        consecutive_error_limit: None,
        consecutive_successful_limit: None,
        providers: 1,
    }
}

/// Measured every minute until it succeeds once.
fn waiting() -> Metric {
    Metric { count: 0, successful_limit: 1, ..checking() }
}

/// Measured once.
fn single() -> Metric {
    Metric { count: 0, interval: None, ..checking() }
}

fn run(metrics: &[Metric]) -> Run {
    Run {
        phase: None,
        started: None,
        terminate: false,
        policy: Policy::Parallel,
        deadline: None,
        metrics: metrics.to_vec(),
        results: Vec::new(),
    }
}

fn measured(phase: HookPhase, at: Moment) -> Measurement {
    Measurement {
        phase,
        message: None,
        started: at,
        finished: Some(at),
        resume: None,
        value: String::new(),
    }
}

/// Plays a run as the operator does; `answers` has the phases each metric measures in turn.
struct Play {
    run: Run,
    now: Moment,
    answers: Vec<Vec<HookPhase>>,
}

impl Play {
    fn new(run: Run, answers: &[&[HookPhase]]) -> Self {
        let answers = answers.iter().map(|list| list.iter().rev().copied().collect()).collect();
        Self { run, now: Moment(0), answers }
    }

    /// One look.
    fn pass(&mut self) {
        let tasks = match self.run.next(self.now) {
            Next::Over => return,
            Next::Refuse(invalid) => {
                let refused = self.run.refused(&invalid, self.now);
                self.run.phase = Some(refused.phase);
                return;
            }
            Next::Measure(tasks) => tasks,
        };
        for task in tasks {
            let (Task::Begin(index) | Task::Resume(index) | Task::Stop(index)) = task;
            let phase = self.answers[index].pop().unwrap_or(Failed);
            let name = self.run.metrics[index].name.clone();
            if !self.run.results.iter().any(|result| result.name == name) {
                self.run.results.push(MetricResult::new(&name));
            }
            let result = self.run.results.iter_mut().find(|result| result.name == name).unwrap();
            result.record(measured(phase, self.now));
        }
        let assessment = self.run.assess(self.now);
        self.run.phase = Some(assessment.phase);
        self.run.started = Some(assessment.started);
        self.run.results = assessment.results;
    }

    /// Looks whenever it is time to, up to an hour.
    fn play(mut self) -> (HookPhase, i64, Run) {
        for _ in 0..1_000 {
            self.pass();
            let phase = self.run.phase.unwrap();
            match self.run.wake(self.now).filter(|at| at.0 <= 3_600 * SECOND) {
                Some(at) if !phase.is_final() => self.now = at.max(Moment(self.now.0 + 1)),
                _ => return (phase, self.now.0 / SECOND, self.run),
            }
        }
        (self.run.phase.unwrap(), self.now.0 / SECOND, self.run)
    }
}

/// Why, the metric, what it measures, how it ends and after how many seconds.
type Row<'a> = (&'a str, Metric, &'a [HookPhase], (HookPhase, i64));

fn ends(metric: &Metric, answers: &[HookPhase]) -> (HookPhase, i64) {
    let (phase, at, _) = Play::new(run(std::slice::from_ref(metric)), &[answers]).play();
    (phase, at)
}

#[test]
fn a_metric_that_checks_ends_by_the_first_rule_that_applies() {
    let limit = |failure_limit| Metric { failure_limit, count: 3, ..checking() };
    let errors = |consecutive_error_limit| Metric { consecutive_error_limit, ..checking() };
    let rows: [Row; 14] = [
        ("the first failure is fatal", checking(), &[Failed], (Failed, 0)),
        ("two good ones are enough", checking(), &[Successful; 2], (Successful, 60)),
        ("a failure at the end is one too", checking(), &[Successful, Failed], (Failed, 60)),
        ("a limit tolerates", limit(Some(1)), &[Failed, Successful, Successful], (Successful, 120)),
        ("and one more does not", limit(Some(1)), &[Failed, Failed], (Failed, 60)),
        ("an explicit 0 is 0", limit(Some(0)), &[Failed], (Failed, 0)),
        ("one without an interval is asked once", single(), &[Successful], (Successful, 0)),
        ("errors do not count, and the fifth in a row ends it", single(), &[Error; 9], (Error, 40)),
        ("an error is retried after ten seconds", single(), &[Error, Successful], (Successful, 10)),
        (
            "errors in between start the row again",
            checking(),
            &[Error, Error, Error, Error, Successful, Error, Error, Error, Error, Successful],
            (Successful, 540),
        ),
        ("no error is tolerated if that is said", errors(Some(0)), &[Error], (Error, 0)),
        ("inconclusive ends it", checking(), &[Inconclusive], (Inconclusive, 0)),
        (
            "unless it is tolerated",
            Metric { inconclusive_limit: 1, ..checking() },
            &[Inconclusive, Successful],
            (Successful, 60),
        ),
        (
            "the first look waits",
            Metric { initial_delay: Some(Duration::from_secs(30)), ..single() },
            &[Successful],
            (Successful, 30),
        ),
    ];
    for (reason, metric, answers, want) in rows {
        assert_eq!(ends(&metric, answers), want, "{reason}");
    }
}

#[test]
fn two_measurements_are_a_second_apart_at_least() {
    for interval in [Duration::ZERO, Duration::from_millis(5), Duration::from_secs(1)] {
        let metric = Metric { interval: Some(interval), count: 4, ..checking() };
        assert_eq!(ends(&metric, &[Successful; 4]), (Successful, 3), "{interval:?}");
    }
    let patient = Metric { interval: Some(Duration::from_millis(1_500)), ..checking() };
    let (_, _, run) = Play::new(run(&[patient]), &[&[Successful; 2]]).play();
    let measurements = &run.results[0].measurements;
    assert!(measurements[1].started.0 - measurements[0].started.0 > 1_500);
}

#[test]
fn a_run_is_looked_at_when_its_deadline_is_over_and_not_before() {
    let late = Metric { initial_delay: Some(Duration::from_mins(10)), ..checking() };
    let mut run = run(&[late]);
    (run.started, run.deadline) = (Some(Moment(0)), Some(Duration::from_mins(5)));
    let at = run.wake(Moment(0)).unwrap();
    assert_eq!(run.assess(at).phase, Error);
    assert_eq!(run.assess(Moment(at.0 - 1)).phase, Running);
}

#[test]
fn a_metric_that_waits_takes_failures_until_it_has_what_it_waits_for() {
    let rows: [Row; 6] = [
        (
            "who waits takes failures and errors",
            waiting(),
            &[Failed, Failed, Error, Error, Error, Error, Error, Error, Successful],
            (Successful, 480),
        ),
        (
            "unless a limit is given",
            Metric { failure_limit: Some(1), ..waiting() },
            &[Failed, Failed],
            (Failed, 60),
        ),
        (
            "an explicit 0 holds for who waits too",
            Metric { failure_limit: Some(0), ..waiting() },
            &[Failed],
            (Failed, 0),
        ),
        (
            "good ones in a row",
            Metric { count: 0, consecutive_successful_limit: Some(2), ..checking() },
            &[Successful, Failed, Successful, Successful],
            (Successful, 180),
        ),
        (
            "what was waited for in vain is inconclusive",
            Metric { count: 2, consecutive_successful_limit: Some(2), ..checking() },
            &[Failed, Successful],
            (Inconclusive, 60),
        ),
        (
            "so it is with a number of successes",
            Metric { count: 2, successful_limit: 2, ..checking() },
            &[Failed, Successful],
            (Inconclusive, 60),
        ),
    ];
    for (reason, metric, answers, want) in rows {
        assert_eq!(ends(&metric, answers), want, "{reason}");
    }
}

#[test]
fn the_documented_run_fails_with_its_first_measurement() {
    let (phase, at, run) = Play::new(run(&[checking()]), &[&[Failed]]).play();
    assert_eq!((phase, at), (Failed, 0));
    let result = &run.results[0];
    assert_eq!((result.count, result.failed, result.measurements.len()), (1, 1, 1));
}

// Game workloads, mistake 1: docs/mistakes.md.
#[test]
fn a_failing_hook_does_not_pass() {
    for failure_limit in [None, Some(0)] {
        let metric = Metric { failure_limit, ..checking() };
        assert_eq!(ends(&metric, &[Failed, Failed]), (Failed, 0), "{failure_limit:?}");
    }
}

// Game workloads, mistake 2: docs/mistakes.md.
#[test]
fn a_hook_without_an_answer_does_not_pass() {
    for metric in [single(), Metric { count: 1, ..single() }, checking()] {
        let (phase, _, run) = Play::new(run(&[metric]), &[&[Error; 9]]).play();
        assert_eq!((phase, run.results[0].error, run.results[0].count), (Error, 5, 0));
    }
}

/// The published rules for one metric, each in its turn, with the defaults that are ours. Nothing while it
/// goes on.
fn specified(metric: &Metric, answers: &[HookPhase]) -> Option<HookPhase> {
    let waits = metric.successful_limit > 0 || metric.consecutive_successful_limit.is_some();
    let wanted = if metric.count > 0 { metric.count } else { i64::from(metric.interval.is_none()) };
    let failures = metric.failure_limit.unwrap_or(if waits { i64::MAX } else { 0 });
    let errors = metric.consecutive_error_limit.unwrap_or(if waits { i64::MAX } else { 4 });
    let (mut count, mut good, mut bad, mut unclear, mut good_row, mut error_row) =
        (0, 0, 0, 0, 0, 0);
    for answer in answers {
        count += i64::from(*answer != Error);
        good += i64::from(*answer == Successful);
        bad += i64::from(*answer == Failed);
        unclear += i64::from(*answer == Inconclusive);
        good_row = if *answer == Successful { good_row + 1 } else { 0 };
        error_row = if *answer == Error { error_row + 1 } else { 0 };
        let rules = [
            (bad > failures, Failed),
            (metric.successful_limit > 0 && good >= metric.successful_limit, Successful),
            (unclear > metric.inconclusive_limit, Inconclusive),
            (error_row > errors, Error),
            (metric.consecutive_successful_limit.is_some_and(|it| good_row >= it), Successful),
            (wanted > 0 && count >= wanted, if waits { Inconclusive } else { Successful }),
        ];
        if let Some((_, phase)) = rules.into_iter().find(|(applies, _)| *applies) {
            return Some(phase);
        }
    }
    None
}

fn played(metric: &Metric, answers: &[HookPhase]) -> Option<HookPhase> {
    let mut play = Play::new(run(std::slice::from_ref(metric)), &[answers]);
    while !play.answers[0].is_empty() {
        play.pass();
        if let Some(phase) = play.run.phase.filter(|phase| phase.is_final()) {
            return Some(phase);
        }
        let at = play.run.wake(play.now).expect("who waits knows for when");
        play.now = at.max(Moment(play.now.0 + 1));
    }
    None
}

/// Every combination of limits up to two, that a run may have.
fn every_metric() -> Vec<Metric> {
    let none_or = |most: i64| (0..=most + 1).map(move |at| (at > 0).then_some(at - 1));
    let mut all = Vec::new();
    for interval in [None, Some(Duration::from_mins(1))] {
        for count in 0..=if interval.is_some() { 3 } else { 1 } {
            let most = if count > 0 { count.min(2) } else { 2 };
            for failure_limit in none_or(most) {
                for successful_limit in 0..=most {
                    for inconclusive_limit in 0..=most.min(1) {
                        for consecutive_error_limit in none_or(1) {
                            for consecutive_successful_limit in [None, Some(1), Some(2)] {
                                all.push(Metric {
                                    interval,
                                    count,
                                    failure_limit,
                                    successful_limit,
                                    inconclusive_limit,
                                    consecutive_error_limit,
                                    consecutive_successful_limit,
                                    ..checking()
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    all
}

#[test]
fn every_small_metric_ends_as_specified_with_any_measurements() {
    let phases = [Successful, Failed, Error, Inconclusive];
    let metrics = every_metric();
    assert!(metrics.len() > 1_000, "only {} metrics", metrics.len());
    let mut cases = 0;
    for (index, metric) in metrics.iter().enumerate() {
        // Each metric meets a quarter of all rows of four, each row a quarter of all metrics.
        for row in (0..256).filter(|row| (row + index) % 4 == 0) {
            let answers: Vec<HookPhase> =
                [1, 4, 16, 64].iter().map(|digit| phases[row / digit % 4]).collect();
            let about = || format!("{answers:?} of {metric:?}");
            assert_eq!(played(metric, &answers), specified(metric, &answers), "{}", about());
            cases += 1;
        }
    }
    assert!(cases > 60_000, "only {cases} cases");
}

#[test]
fn a_run_that_is_told_to_end_ends_whenever_that_is_and_however_it_is_ordered() {
    for policy in [Policy::Parallel, Policy::Ordered] {
        for (first, second) in
            [(checking(), waiting()), (waiting(), checking()), (waiting(), waiting())]
        {
            for (answer, told_at) in
                (0..16).map(|at| ([Successful, Failed, Error, Inconclusive][at % 4], at / 4))
            {
                let mut both = run(&[named("a", &first), named("b", &second)]);
                both.policy = policy;
                let mut play = Play::new(both, &[&[answer; 9], &[answer; 9]]);
                for _ in 0..told_at {
                    play.pass();
                    play.now = Moment(play.now.0 + 61 * SECOND);
                }
                play.run.terminate = true;
                play.pass();
                let phase = play.run.phase.unwrap();
                assert!(phase.is_final(), "{policy:?} {answer:?} {told_at}: {:?}", play.run);
                let ends = play.run.results.iter().filter_map(|result| result.phase);
                let worst = ends.into_iter().any(|phase| phase != Successful);
                assert_eq!(phase != Successful, worst, "{policy:?} {answer:?} {told_at}");
            }
        }
    }
}

fn named(name: &str, metric: &Metric) -> Metric {
    Metric { name: name.to_owned(), ..metric.clone() }
}

// Game workloads, mistake 3: docs/mistakes.md.
#[test]
fn an_ordered_run_ends_although_later_metrics_never_ran() {
    let mut ordered = run(&[named("a", &checking()), named("b", &checking())]);
    ordered.policy = Policy::Ordered;
    let (phase, at, run) = Play::new(ordered, &[&[Failed], &[]]).play();
    assert_eq!((phase, at, run.results.len()), (Failed, 0, 1));
}

// Game workloads, mistake 3: docs/mistakes.md.
#[test]
fn a_metric_that_still_delays_does_not_hold_a_failed_run() {
    let late = Metric { initial_delay: Some(Duration::from_mins(10)), ..checking() };
    let both = run(&[named("a", &checking()), named("b", &late)]);
    let (phase, at, _) = Play::new(both, &[&[Failed], &[]]).play();
    assert_eq!((phase, at), (Failed, 0));
}

#[test]
fn ordered_metrics_follow_each_other() {
    let mut ordered = run(&[named("a", &single()), named("b", &single())]);
    ordered.policy = Policy::Ordered;
    assert_eq!(ordered.next(Moment(0)), Next::Measure(vec![Task::Begin(0)]));
    ordered.policy = Policy::Parallel;
    assert_eq!(ordered.next(Moment(0)), Next::Measure(vec![Task::Begin(0), Task::Begin(1)]));
    ordered.policy = Policy::Ordered;
    let (phase, _, run) = Play::new(ordered, &[&[Successful], &[Successful]]).play();
    assert_eq!((phase, run.results.len()), (Successful, 2));
}

#[test]
fn a_run_is_as_bad_as_its_worst_metric() {
    let rows = [
        ([Successful, Successful], Successful),
        ([Successful, Inconclusive], Inconclusive),
        ([Inconclusive, Failed], Failed),
        ([Error, Failed], Failed),
    ];
    for ([one, other], want) in rows {
        let strict = Metric { consecutive_error_limit: Some(0), ..single() };
        let both = run(&[named("a", &strict), named("b", &strict)]);
        let (phase, _, _) = Play::new(both, &[&[one], &[other]]).play();
        assert_eq!(phase, want, "{one:?} {other:?}");
    }
}

#[test]
fn a_run_that_is_told_to_end_ends_at_once_and_says_so() {
    let mut run = run(&[checking()]);
    run.terminate = true;
    let assessment = run.assess(Moment(5));
    assert_eq!(assessment.phase, Successful);
    assert_eq!(assessment.message.as_deref(), Some("Run Terminated"));
    assert_eq!(assessment.completed, Some(Moment(5)));
    assert_eq!(run.next(Moment(5)), Next::Measure(Vec::new()), "nothing is measured any more");
}

#[test]
fn measurements_in_flight_are_stopped_before_a_run_ends() {
    let mut run = run(&[checking()]);
    let mut result = MetricResult::new("webtest");
    let open =
        Measurement { finished: None, resume: Some(Moment(9_000)), ..measured(Running, Moment(0)) };
    result.record(open);
    run.results.push(result);
    run.started = Some(Moment(0));
    assert_eq!(run.next(Moment(1)), Next::Measure(Vec::new()));
    assert_eq!(run.wake(Moment(1)), Some(Moment(9_000)));
    assert_eq!(run.next(Moment(9_000)), Next::Measure(vec![Task::Resume(0)]));
    run.terminate = true;
    assert_eq!(run.next(Moment(1)), Next::Measure(vec![Task::Stop(0)]));
    assert_eq!(run.assess(Moment(1)).phase, Running);
    run.results[0].record(measured(Successful, Moment(2)));
    assert_eq!(run.assess(Moment(2)).phase, Successful);
    assert_eq!(run.results[0].measurements.len(), 1, "it is the same measurement");
}

#[test]
fn the_message_names_the_metric_the_counter_and_the_limit() {
    let mut run = run(&[checking()]);
    let mut result = MetricResult::new("webtest");
    result.record(measured(Failed, Moment(0)));
    run.results.push(result);
    let assessment = run.assess(Moment(0));
    let message = assessment.message.unwrap();
    assert_eq!(message, "metric 'webtest' ended Failed: 1 failed, more than failureLimit 0 allows");
    assert_eq!(assessment.ended, [MetricEnd { metric: "webtest".to_owned(), phase: Failed }]);
}

#[test]
fn a_run_past_its_deadline_is_an_error() {
    let mut run = run(&[waiting()]);
    run.deadline = Some(Duration::from_mins(5));
    let (phase, at, _) = Play::new(run, &[&[Failed; 60]]).play();
    assert_eq!(phase, Error);
    assert!((300..=361).contains(&at), "{at}");
}

#[test]
fn ten_measurements_are_kept_and_all_are_counted() {
    let mut result = MetricResult::new("webtest");
    for second in 0..25 {
        result.record(measured(Successful, Moment(second)));
    }
    assert_eq!((result.measurements.len(), result.successful, result.count), (10, 25, 25));
    assert_eq!(result.measurements[0].started, Moment(15));
}

#[test]
fn a_run_that_ended_is_left_alone() {
    let mut run = run(&[checking()]);
    run.phase = Some(Failed);
    assert_eq!(run.next(Moment(0)), Next::Over);
    assert_eq!(run.wake(Moment(0)), None);
    assert_eq!(run.assess(Moment(0)).phase, Failed);
}

#[test]
fn a_run_that_cannot_be_made_is_refused_with_a_reason() {
    let rows = [
        (Vec::new(), "no metrics are given"),
        (vec![checking(), checking()], "two metrics are called webtest"),
        (
            vec![Metric { failure_limit: Some(3), ..checking() }],
            "failureLimit of metric webtest is greater than count",
        ),
        (
            vec![Metric { successful_limit: 3, ..checking() }],
            "successfulLimit of metric webtest is greater than count",
        ),
        (
            vec![Metric { interval: None, ..checking() }],
            "metric webtest has a count greater than 1 and no interval",
        ),
        (
            vec![Metric { inconclusive_limit: -1, ..checking() }],
            "inconclusiveLimit of metric webtest must be at least 0",
        ),
        (
            vec![Metric { consecutive_successful_limit: Some(0), ..checking() }],
            "consecutiveSuccessfulLimit of metric webtest must be at least 1",
        ),
        (
            vec![Metric { providers: 2, ..checking() }],
            "metric webtest must have exactly one provider",
        ),
    ];
    for (metrics, want) in rows {
        let run = run(&metrics);
        let Next::Refuse(invalid) = run.next(Moment(0)) else { panic!("{want}") };
        assert_eq!(invalid.to_string(), want);
        assert_eq!(run.refused(&invalid, Moment(1)).phase, Error);
    }
}

fn metrics() -> impl Strategy<Value = Metric> {
    let limit = || prop::option::of(0_i64..3);
    (any::<bool>(), 0_i64..4, limit(), 0_i64..3, 0_i64..2, limit(), prop::option::of(1_i64..3))
        .prop_map(|(repeats, count, failures, successes, unclear, errors, in_a_row)| {
            let count = if repeats { count } else { count.min(1) };
            let bound = |limit: i64| if count > 0 { limit.min(count) } else { limit };
            Metric {
                interval: repeats.then_some(Duration::from_secs(30)),
                count,
                failure_limit: failures.map(bound),
                successful_limit: bound(successes),
                inconclusive_limit: bound(unclear),
                consecutive_error_limit: errors,
                consecutive_successful_limit: in_a_row,
                ..checking()
            }
        })
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    /// It ends, or it says when it will look again; and it never passes on errors alone.
    #[test]
    fn every_run_ends_or_knows_when_to_look_again(
        one in metrics(),
        other in metrics(),
        is_ordered in any::<bool>(),
        phases in prop::collection::vec(
            prop::sample::select(vec![Successful, Failed, Error, Inconclusive]), 40),
        terminate_after in 0_usize..30,
    ) {
        let mut run = run(&[named("a", &one), named("b", &other)]);
        run.policy = if is_ordered { Policy::Ordered } else { Policy::Parallel };
        let mut play = Play::new(run, &[&phases, &phases]);
        for pass in 0..60 {
            play.run.terminate |= pass == terminate_after;
            play.pass();
            let phase = play.run.phase.unwrap();
            if phase.is_final() {
                if phase == Successful && !play.run.terminate {
                    let passed = |result: &MetricResult| result.count > 0;
                    prop_assert!(play.run.results.iter().all(passed));
                    prop_assert_eq!(play.run.results.len(), 2);
                }
                return Ok(());
            }
            prop_assert!(matches!(phase, Running | Pending));
            let at = play.run.wake(play.now);
            prop_assert!(at.is_some(), "it waits for nothing: {:?}", play.run);
            play.now = at.unwrap().max(Moment(play.now.0 + 1));
        }
        prop_assert!(!play.run.terminate, "it was told to end and did not");
    }
}
