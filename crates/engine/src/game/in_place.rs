//! Updates in place: which pods qualify, which fields change, and how an update is finished.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{Again, Moment, Revision};

use super::{
    Action, Container, Json, Metadata, Pod, PodChange, PodRef, ReadinessGate, UpdateWay,
    canonical_template,
    derived::{Derived, sooner},
};

/// How long a node may take to notice that images changed: it looks at its pods every minute, and at once if
/// it is notified.
const TAKEN_UP_MAX: Duration = Duration::from_mins(1);

/// Whether pods of one template can become pods of another by changing images and metadata. If not,
/// what differs.
pub fn qualify(old: &Json, new: &Json) -> Result<(), String> {
    // Others may have written the same template differently; that is rare, and slow to compare.
    compare_specs(old, new)
        .or_else(|_| compare_specs(&canonical_template(old), &canonical_template(new)))
}

fn compare_specs(old: &Json, new: &Json) -> Result<(), String> {
    match (old.get("spec"), new.get("spec")) {
        (Some(old), Some(new)) => compare(old, new, "spec"),
        (None, None) => Ok(()),
        (Some(_), None) | (None, Some(_)) => Err("spec".to_owned()),
    }
}

/// The images of a template, by container.
pub fn images(template: &Json) -> BTreeMap<String, String> {
    let Some(Json::List(containers)) = template.at(&["spec", "containers"]) else {
        return BTreeMap::new();
    };
    let named = containers.iter().filter_map(|container| {
        Some((container.get("name")?.as_text()?, container.get("image")?.as_text()?))
    });
    named.map(|(name, image)| (name.to_owned(), image.to_owned())).collect()
}

fn compare(old: &Json, new: &Json, path: &str) -> Result<(), String> {
    match (old, new) {
        _ if old == new => Ok(()),
        (Json::Object(before), Json::Object(after)) => {
            let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            names.into_iter().try_for_each(|name| {
                let path = format!("{path}.{name}");
                match (before.get(name), after.get(name)) {
                    (Some(before), Some(after)) => compare(before, after, &path),
                    _ => Err(path),
                }
            })
        }
        // Only containers may differ at all, and in nothing but their images.
        (Json::List(before), Json::List(after))
            if path == "spec.containers" && before.len() == after.len() =>
        {
            let mut pairs = before.iter().zip(after).enumerate();
            pairs.try_for_each(|(index, (before, after))| container(before, after, index))
        }
        _ => Err(path.to_owned()),
    }
}

fn container(before: &Json, after: &Json, index: usize) -> Result<(), String> {
    let path = format!("spec.containers[{index}]");
    let (Json::Object(before), Json::Object(after)) = (before, after) else { return Err(path) };
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut differing = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    let have_image = before.contains_key("image") && after.contains_key("image");
    let is_image = |name: &str| name == "image" && have_image;
    match differing.find(|name| !is_image(name)) {
        Some(name) => Err(format!("{path}.{name}")),
        None => Ok(()),
    }
}

/// The change that makes a pod one of this revision, if it qualifies.
///
/// Images are those in which the pod itself differs from the template, not those in which two revisions
/// differ: an earlier change may not have been made yet. An image that both templates ask for is left alone,
/// whichever the pod has: a webhook may have rewritten it, and would do so again.
pub(super) fn change(derived: &Derived<'_>, pod: &Pod, to: &Revision) -> Result<PodChange, String> {
    let (old, new) = templates(derived, pod, to)?;
    Ok(difference(derived, pod, to, has_template_of(pod), (Some(old), new)))
}

/// The revision whose template the pod really has.
fn has_template_of(pod: &Pod) -> Option<&Revision> {
    pod.grace.as_ref().map_or(pod.revision.as_ref(), |grace| grace.from.as_ref())
}

/// The template the pod has and the one it is to have, if it qualifies.
fn templates<'a>(
    derived: &Derived<'a>,
    pod: &Pod,
    to: &Revision,
) -> Result<(&'a Json, &'a Json), String> {
    let gone = || "its revision does not exist any more".to_owned();
    let new = derived.template(to).ok_or_else(gone)?;
    let old = has_template_of(pod).and_then(|from| derived.template(from)).ok_or_else(gone)?;
    qualify(old, new)?;
    Ok((old, new))
}

/// Whether the pod can be updated to the new revision at all, by the update way of the spec.
pub(super) fn is_possible(derived: &Derived<'_>, pod: &Pod) -> bool {
    let plan = &derived.seen.plan;
    match plan.way {
        UpdateWay::Recreate => true,
        UpdateWay::OnDelete => false,
        UpdateWay::InPlace | UpdateWay::HotPatch => {
            plan.falls_back || templates(derived, pod, &derived.seen.update).is_ok()
        }
    }
}

fn difference(
    derived: &Derived<'_>,
    pod: &Pod,
    to: &Revision,
    from: Option<&Revision>,
    (old, new): (Option<&Json>, &Json),
) -> PodChange {
    let (asked, wanted) = (old.map(images).unwrap_or_default(), images(new));
    let changed = pod.containers.iter().filter_map(|container| {
        let image = wanted.get(&container.name)?;
        let is_other = asked.get(&container.name) != Some(image);
        (is_other && *image != container.image).then_some((container, image))
    });
    let mut images = BTreeMap::new();
    let mut image_ids = BTreeMap::new();
    let mut images_before = BTreeMap::new();
    let mut restarts_before = BTreeMap::new();
    for (container, image) in changed {
        let (runs, id) = before(pod, container);
        images.insert(container.name.clone(), image.clone());
        image_ids.insert(container.name.clone(), id);
        images_before.insert(container.name.clone(), runs);
        restarts_before.insert(container.name.clone(), container.restarts);
    }
    let Metadata { labels, annotations } = metadata(old.unwrap_or(new), new);
    let grace = derived.seen.plan.grace;
    PodChange {
        pod: PodRef::of(pod),
        revision: to.clone(),
        from: from.cloned(),
        images,
        labels,
        annotations,
        image_ids,
        images_before,
        restarts_before,
        at: derived.seen.now,
        grace: (!grace.is_zero()).then_some(grace),
        owes_post_hook: derived.seen.plan.hooks.post_in_place.call.is_some(),
    }
}

/// The image a container runs, and its id. If its node has not applied an earlier change yet, those that were
/// recorded before that change.
fn before(pod: &Pod, container: &Container) -> (String, String) {
    let written = pod.update.as_ref().and_then(|update| {
        let id = update.image_ids.get(&container.name)?;
        let image = update.images.get(&container.name)?;
        let is_untouched =
            container.image_id.as_ref() == Some(id) && !update.is_restarted(container);
        is_untouched.then(|| (image.clone(), id.clone()))
    });
    written.unwrap_or_else(|| {
        (container.image.clone(), container.image_id.clone().unwrap_or_default())
    })
}

/// Until when another change must wait, if it must. The effect of the last one on its node would look like
/// that of this one. A node that does not answer is not waited for.
pub(super) fn held_until(derived: &Derived<'_>, pod: &Pod) -> Option<Moment> {
    let update = pod.update.as_ref()?;
    if pod.grace.is_some() || derived.is_complete(pod) {
        return None;
    }
    let until = update.since.after(TAKEN_UP_MAX);
    let now = derived.seen.now;
    // A clock that was set back would hold it for as long.
    (update.since <= now && now < until).then_some(until)
}

fn metadata(old: &Json, new: &Json) -> Metadata {
    let part = |member: &str| {
        let texts = |template: &Json| match template.at(&["metadata", member]) {
            Some(Json::Object(members)) => members.clone(),
            _ => BTreeMap::new(),
        };
        let (before, after) = (texts(old), texts(new));
        let removed = before.keys().filter(|name| !after.contains_key(*name));
        let mut changes: BTreeMap<_, _> = removed.map(|name| (name.clone(), None)).collect();
        for (name, value) in &after {
            if before.get(name) != Some(value) {
                let text = value.as_text().map_or_else(|| value.compact(), str::to_owned);
                changes.insert(name.clone(), Some(text));
            }
        }
        changes
    };
    Metadata { labels: part("labels"), annotations: part("annotations") }
}

/// The rest of an update of a pod, and when to look again. This goes on in every
/// pause: a pod that was begun is finished.
pub(super) fn refresh(derived: &Derived<'_>, pod: &Pod) -> (Vec<Action>, Again) {
    let mut actions = Vec::new();
    let mut again = Again::OnChange;
    let pod_ref = || PodRef::of(pod);
    if let Some(grace) = &pod.grace {
        let begun = pod.update.as_ref().map_or(Moment(i64::MIN), |update| update.since);
        let over = begun.after(grace.period);
        if !pod.is_of(&grace.revision) {
            actions.push(Action::DropGrace(pod_ref()));
        } else if derived.seen.now < over {
            again = Again::At(over);
        } else if let Some(change) = waiting_change(derived, pod) {
            actions.push(Action::ApplyGrace(Box::new(change)));
        }
        return (actions, again);
    }
    let is_shut = matches!(pod.gate, ReadinessGate::Unset | ReadinessGate::Closed);
    if is_shut && derived.is_complete(pod) {
        actions.push(Action::SetGate(pod_ref(), true));
    }
    if pod.is_ready()
        && let Some(at) = pod.available_at(derived.seen.plan.min_ready)
        && at > derived.seen.now
    {
        again = sooner(again, at);
    }
    (actions, again)
}

fn waiting_change(derived: &Derived<'_>, pod: &Pod) -> Option<PodChange> {
    let grace = pod.grace.as_ref()?;
    let new = derived.template(&grace.revision)?;
    let old = grace.from.as_ref().and_then(|from| derived.template(from));
    let mut change = difference(derived, pod, &grace.revision, grace.from.as_ref(), (old, new));
    if old.is_none() {
        // Begun by others, or from a revision that is gone: only the metadata written down with it is known.
        let Metadata { labels, annotations } = grace.metadata.clone();
        (change.labels, change.annotations) = (labels, annotations);
    }
    Some(PodChange { grace: None, owes_post_hook: pod.owes_post_hook, ..change })
}

/// How a pod is updated in place: out of service first, then the change.
pub(super) fn begin(pod: &Pod, change: PodChange) -> Vec<Action> {
    let mut actions = Vec::new();
    if matches!(pod.gate, ReadinessGate::Open | ReadinessGate::Unset) {
        actions.push(Action::SetGate(PodRef::of(pod), false));
    }
    actions.push(Action::UpdateInPlace(Box::new(change)));
    actions
}

/// The same without leaving service: nothing waits and no hook is called.
pub(super) fn hot_patch(change: PodChange) -> Action {
    let change = PodChange { grace: None::<Duration>, owes_post_hook: false, ..change };
    Action::HotPatch(Box::new(change))
}

// === impl PodRef ===

impl PodRef {
    /// This pod.
    pub fn of(pod: &Pod) -> Self {
        Self { name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(change: impl FnOnce(&mut BTreeMap<String, Json>)) -> Json {
        let mut container = BTreeMap::from([
            ("name".to_owned(), Json::text("main")),
            ("image".to_owned(), Json::text("a:1")),
            ("env".to_owned(), Json::List(vec![Json::text("x")])),
        ]);
        change(&mut container);
        let spec = Json::object([
            ("containers", Json::List(vec![Json::Object(container)])),
            ("nodeName", Json::text("n")),
        ]);
        Json::object([
            ("metadata", Json::object([("labels", Json::object([("app", Json::text("a"))]))])),
            ("spec", spec),
        ])
    }

    #[test]
    fn only_images_and_metadata_may_change() {
        let old = template(|_| {});
        let change = |name: &str, value: Json| {
            let name = name.to_owned();
            template(move |container| {
                container.insert(name, value);
            })
        };
        assert_eq!(qualify(&old, &change("image", Json::text("a:2"))), Ok(()));
        let other_labels = Json::object([
            ("metadata", Json::object([])),
            ("spec", old.get("spec").unwrap().clone()),
        ]);
        assert_eq!(qualify(&old, &other_labels), Ok(()));
        let cases = [
            (change("env", Json::List(Vec::new())), "spec.containers[0].env"),
            (change("name", Json::text("other")), "spec.containers[0].name"),
            (change("ports", Json::List(Vec::new())), "spec.containers[0].ports"),
            (template(|container| drop(container.remove("image"))), "spec.containers[0].image"),
            (Json::object([("spec", Json::object([]))]), "spec.containers"),
        ];
        for (new, path) in cases {
            assert_eq!(qualify(&old, &new), Err(path.to_owned()));
        }
    }

    #[test]
    fn an_image_of_an_init_container_does_not_qualify() {
        let with = |image: &str| {
            let init = Json::object([("name", Json::text("i")), ("image", Json::text(image))]);
            Json::object([("spec", Json::object([("initContainers", Json::List(vec![init]))]))])
        };
        assert_eq!(qualify(&with("a"), &with("b")), Err("spec.initContainers".to_owned()));
    }

    #[test]
    fn keys_that_are_gone_are_removed() {
        let labels =
            |labels: Json| Json::object([("metadata", Json::object([("labels", labels)]))]);
        let old = labels(Json::object([("a", Json::text("1")), ("b", Json::text("1"))]));
        let new = labels(Json::object([("b", Json::text("2")), ("c", Json::text("3"))]));
        let Metadata { labels: changes, annotations } = metadata(&old, &new);
        let want = [("a", None), ("b", Some("2")), ("c", Some("3"))];
        let want = want.map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned)));
        assert_eq!(changes, BTreeMap::from(want));
        assert!(annotations.is_empty());
    }
}
