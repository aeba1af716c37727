//! The sandbox's API server compared with a real one.
//!
//! ```text
//!   corpus ──► stories ──┬──► real API server ──► answers ──► normal ──┐
//!                        └──► the sandbox     ──► answers ──► normal ──┴──► differences ──► report
//!                                                                              ▲ accepted
//! ```
//!
//! [`compare`] sends every story of the corpus to both servers and lists the differences in their answers.
//! Neither has controllers running: only the API server is compared. The real one must be fresh, or be
//! given another `run` each time, which is the prefix of all namespaces.

pub mod accepted;
pub mod contest;
pub mod corpus;
pub mod difference;
pub mod normal;
pub mod report;
pub mod request;
pub mod run;

use std::time::Instant;

use futures::future::join_all;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Semaphore;

use self::{
    difference::{Difference, places},
    normal::{Normaliser, Pairs},
    report::Report,
    request::Story,
};

/// The two servers, and the name of this comparison.
pub struct Pair {
    pub real: Client,
    pub ours: Client,
    /// The prefix of all names of namespaces: at most 20 characters of a DNS label.
    pub run: String,
}

/// Stories that are sent at once; the ends of their watches are awaited together.
const AT_ONCE: usize = 8;

/// Sends all `stories` to both servers.
pub async fn compare(pair: &Pair, stories: &[Story]) -> Report {
    let started = Instant::now();
    let turns = Semaphore::new(AT_ONCE);
    let told =
        stories.iter().enumerate().map(|(number, story)| tell_both(pair, &turns, number, story));
    let mut report = Report::default();
    for (differences, unanswered) in join_all(told).await {
        report.unanswered.extend(unanswered);
        for difference in differences {
            report.note(difference);
        }
    }
    report.stories = stories.len();
    report.requests = stories.iter().map(|story| story.requests.len()).sum();
    report.elapsed = started.elapsed();
    report
}

/// The differences of the servers, and the requests that the real one left unanswered.
async fn tell_both(
    pair: &Pair,
    turns: &Semaphore,
    number: usize,
    story: &Story,
) -> (Vec<Difference>, Vec<String>) {
    let namespace = format!("{}-{number}", pair.run);
    let turn = turns.acquire().await;
    let (real, ours) = futures::join!(
        run::tell(&pair.real, story, &namespace),
        run::tell(&pair.ours, story, &namespace),
    );
    drop(turn);
    let mut unanswered: Vec<String> = Vec::new();
    for (step, reference) in &real.unanswered {
        unanswered.push(format!("{} #{step}: nothing is at {reference}", story.name));
    }
    let (real, ours) = futures::join!(real.answers(), ours.answers());
    let now = Timestamp::now();
    let (mut normal_real, mut normal_ours) = (Normaliser::new(now), Normaliser::new(now));
    let mut pairs = Pairs::default();
    let mut differences = Vec::new();
    for (step, ((request, real), ours)) in story.requests.iter().zip(&real).zip(&ours).enumerate() {
        if real.code == 0 {
            unanswered.push(format!("{} #{step} ({})", story.name, request.note));
        }
        let (a, b) = (normal_real.normal(real), normal_ours.normal(ours));
        pairs.is_rehearsal = request.is_rehearsal();
        if request.method == "DELETE" {
            pairs.forget_addresses();
        }
        let found = if real.code == ours.code {
            places(&a, &b, &mut pairs)
        } else {
            // All other differences follow from it.
            vec![("/code".to_owned(), Some(real.summary()), Some(ours.summary()))]
        };
        differences.extend(found.into_iter().map(|(place, real_part, ours_part)| Difference {
            story: story.name.clone(),
            step,
            request: request.clone(),
            place,
            real: real_part,
            ours: ours_part,
            said: [real.summary(), ours.summary()],
        }));
    }
    (differences, unanswered)
}
