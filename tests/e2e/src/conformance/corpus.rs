//! The stories for both servers.
//!
//! `life` has the life of an object, for each kind; `spoil` breaks every leaf of every sample in many ways;
//! `walks` has random writes of several clients to few objects; `manifests` takes the manifests of our own
//! kinds; `recorded` has the operator's requests during rollouts, recorded on a sandbox; the others are
//! tables of requests about one subject. Everything is the same in each run.

mod definitions;
mod deletes;
mod kinds;
mod life;
mod lists;
mod manifests;
mod negotiation;
mod ownership;
mod patches;
mod races;
mod recorded;
mod spoil;
mod walks;
mod watches;

pub use self::kinds::{Kind, Sample, merged, samples};

use serde_json::Value;

use super::request::{Request, Story};

/// The custom resources that both servers need before any story.
pub fn preparation() -> Story {
    let mut story = Story::bare("preparation");
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let ours = tidegate_api::crds();
    for crd in kinds::definitions().iter().chain(&ours) {
        story.post("a custom resource", crds, crd);
    }
    for crd in kinds::definitions().iter().chain(&ours) {
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, plural) =
                (text(&crd["spec"]["group"]), text(&crd["spec"]["names"]["plural"]));
            let path = format!("/apis/{group}/{}/{plural}", text(&version["name"]));
            story.ask(Request::new("GET", path).note("served").patiently());
        }
    }
    story
}

/// A source of stories.
struct Source {
    name: &'static str,
    /// The fewest requests: a source that lost its tables or files compares too little.
    least: usize,
    stories: fn() -> Vec<Story>,
}

const SOURCES: [Source; 13] = [
    Source { name: "life", least: 11_000, stories: life::stories },
    Source { name: "deletes", least: 1_900, stories: deletes::stories },
    Source { name: "lists", least: 550, stories: lists::stories },
    Source { name: "watches", least: 320, stories: watches::stories },
    Source { name: "negotiation", least: 780, stories: negotiation::stories },
    Source { name: "patches", least: 1_600, stories: patches::stories },
    Source { name: "ownership", least: 110, stories: ownership::stories },
    Source { name: "races", least: 1_600, stories: races::stories },
    Source { name: "definitions", least: 120, stories: definitions::stories },
    Source { name: "manifests", least: 1_500, stories: manifests::stories },
    Source { name: "spoil", least: 4_700, stories: spoil::stories },
    Source { name: "walks", least: 1_000, stories: walks::stories },
    Source { name: "recorded", least: 200, stories: recorded::stories },
];

/// All stories, in order.
pub fn stories() -> Vec<Story> {
    let mut told = Vec::new();
    for Source { name, least, stories } in SOURCES {
        let stories = stories();
        let requests = stories.iter().map(|story| story.requests.len()).sum::<usize>();
        assert!(requests >= least, "{name} has only {requests} requests, not {least}");
        told.extend(stories);
    }
    told
}
