//! The stories that are told to both servers.
//!
//! `life` tells what may happen to an object, for each kind; `spoil` breaks every leaf of every sample in many ways;
//! `walks` lets clients meet on few objects at random; `manifests` takes the manifests of our own kinds;
//! `recorded` is what the operator asks during rollouts, written down as it asks it on a sandbox;
//! the others are tables of requests about one subject. Everything is the same in each run.

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

/// What both servers need before any story: the custom resources.
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

/// All stories, in order.
pub fn stories() -> Vec<Story> {
    let sources: [fn() -> Vec<Story>; 13] = [
        life::stories,
        deletes::stories,
        lists::stories,
        watches::stories,
        negotiation::stories,
        patches::stories,
        ownership::stories,
        races::stories,
        definitions::stories,
        manifests::stories,
        spoil::stories,
        walks::stories,
        recorded::stories,
    ];
    sources.into_iter().flat_map(|stories| stories()).collect()
}
