//! Random sequences of requests and of steps of the controllers.

use proptest::prelude::*;

/// Built-in without a generation, built-in with status and scale, custom with both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Map,
    Deployment,
    Widget,
}

/// One object: few kinds and names, so that clients meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: u8,
}

/// The resource version in a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    None,
    /// The server's current one.
    Current,
    /// The one from the client's last read, current or not.
    Remembered,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Policy {
    Default,
    Background,
    Foreground,
    Orphan,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Read {
        client: u8,
        target: Target,
    },
    Create {
        client: u8,
        target: Target,
        owner: Option<Target>,
        finalizer: bool,
        label: bool,
    },
    /// Adds one to a counter in the client's copy, and writes that.
    Count {
        client: u8,
        target: Target,
    },
    Replace {
        client: u8,
        target: Target,
        version: Version,
        value: u8,
        dry_run: bool,
    },
    Merge {
        client: u8,
        target: Target,
        version: Version,
        value: u8,
        dry_run: bool,
    },
    JsonPatch {
        client: u8,
        target: Target,
        value: u8,
    },
    Apply {
        client: u8,
        target: Target,
        fields: u8,
        value: u8,
        force: bool,
        dry_run: bool,
    },
    Label {
        client: u8,
        target: Target,
        on: bool,
    },
    Status {
        client: u8,
        target: Target,
        value: u8,
    },
    Scale {
        client: u8,
        target: Target,
        replicas: u8,
    },
    Delete {
        client: u8,
        target: Target,
        policy: Policy,
        version: Version,
        dry_run: bool,
    },
    DropFinalizer(Target),
    DeleteCollection {
        client: u8,
        kind: Kind,
        labelled: bool,
        dry_run: bool,
    },
    /// Lets the controllers do so many pieces of work, in an order of their own.
    Work(u8),
    Pass {
        seconds: u16,
    },
    Watch {
        kind: Kind,
        how: How,
        slow: bool,
    },
    Look {
        watcher: u8,
        events: u8,
    },
    FirstPage {
        kind: Kind,
        size: u8,
    },
    NextPage {
        list: u8,
    },
}

/// How a watcher starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    /// From a new list.
    Listed,
    /// From a list made at an earlier version, by its place in history.
    Earlier(u8),
    /// With initial events, without streaming.
    State,
    /// A streamed list.
    Streamed,
    /// Only objects with the label.
    Labelled,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![3 => Just(Kind::Map), 1 => Just(Kind::Deployment), 3 => Just(Kind::Widget)]
}

fn target() -> impl Strategy<Value = Target> {
    (kind(), 0..3_u8).prop_map(|(kind, name)| Target { kind, name })
}

fn version() -> impl Strategy<Value = Version> {
    prop_oneof![1 => Just(Version::None), 1 => Just(Version::Current), 2 => Just(Version::Remembered)]
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::Default),
        Just(Policy::Background),
        Just(Policy::Foreground),
        Just(Policy::Orphan),
    ]
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        Just(How::Listed),
        any::<u8>().prop_map(How::Earlier),
        Just(How::State),
        Just(How::Streamed),
        Just(How::Labelled),
    ]
}

/// One in eight.
fn seldom() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.125)
}

fn writes() -> impl Strategy<Value = Step> {
    let who = || (0..3_u8, target());
    prop_oneof![
        4 => (who(), prop::option::of(target()), seldom(), any::<bool>()).prop_map(
            |((client, target), owner, finalizer, label)| {
                Step::Create { client, target, owner, finalizer, label }
            }
        ),
        4 => who().prop_map(|(client, target)| Step::Count { client, target }),
        3 => (who(), version(), 0..4_u8, seldom()).prop_map(
            |((client, target), version, value, dry_run)| {
                Step::Replace { client, target, version, value, dry_run }
            }
        ),
        3 => (who(), version(), 0..4_u8, seldom()).prop_map(
            |((client, target), version, value, dry_run)| {
                Step::Merge { client, target, version, value, dry_run }
            }
        ),
        1 => (who(), 0..4_u8)
            .prop_map(|((client, target), value)| Step::JsonPatch { client, target, value }),
        4 => (who(), 1..8_u8, 0..3_u8, any::<bool>(), seldom()).prop_map(
            |((client, target), fields, value, force, dry_run)| {
                Step::Apply { client, target, fields, value, force, dry_run }
            }
        ),
        2 => (who(), any::<bool>())
            .prop_map(|((client, target), on)| Step::Label { client, target, on }),
        2 => (who(), 0..4_u8)
            .prop_map(|((client, target), value)| Step::Status { client, target, value }),
        1 => (who(), 0..3_u8)
            .prop_map(|((client, target), replicas)| Step::Scale { client, target, replicas }),
    ]
}

fn deletes() -> impl Strategy<Value = Step> {
    let who = || (0..3_u8, target());
    prop_oneof![
        4 => (who(), policy(), version(), seldom()).prop_map(
            |((client, target), policy, version, dry_run)| {
                Step::Delete { client, target, policy, version, dry_run }
            }
        ),
        2 => target().prop_map(Step::DropFinalizer),
        1 => (0..3_u8, kind(), any::<bool>(), seldom()).prop_map(
            |(client, kind, labelled, dry_run)| {
                Step::DeleteCollection { client, kind, labelled, dry_run }
            }
        ),
    ]
}

fn others() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3_u8, target()).prop_map(|(client, target)| Step::Read { client, target }),
        6 => (0..12_u8).prop_map(Step::Work),
        1 => (0..100_u16).prop_map(|seconds| Step::Pass { seconds }),
        2 => (kind(), how(), any::<bool>())
            .prop_map(|(kind, how, slow)| Step::Watch { kind, how, slow }),
        3 => (any::<u8>(), 0..5_u8).prop_map(|(watcher, events)| Step::Look { watcher, events }),
        1 => (kind(), 1..3_u8).prop_map(|(kind, size)| Step::FirstPage { kind, size }),
        2 => any::<u8>().prop_map(|list| Step::NextPage { list }),
    ]
}

pub(crate) fn plan(steps_max: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![5 => writes(), 2 => deletes(), 4 => others()];
    prop::collection::vec(step, 1..steps_max)
}

// === impl Kind ===

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Map, Self::Deployment, Self::Widget];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Map => "/api/v1/namespaces/default/configmaps",
            Self::Deployment => "/apis/apps/v1/namespaces/default/deployments",
            Self::Widget => "/apis/example.com/v1/namespaces/default/widgets",
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::Map => "v1",
            Self::Deployment => "apps/v1",
            Self::Widget => "example.com/v1",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Map => "ConfigMap",
            Self::Deployment => "Deployment",
            Self::Widget => "Widget",
        }
    }

    pub(crate) fn table(self) -> (&'static str, &'static str) {
        match self {
            Self::Map => ("", "configmaps"),
            Self::Deployment => ("apps", "deployments"),
            Self::Widget => ("example.com", "widgets"),
        }
    }

    pub(crate) fn has_status(self) -> bool {
        self != Self::Map
    }
}

// === impl Target ===

impl Target {
    pub(crate) fn name(self) -> String {
        format!("o{}", self.name)
    }

    pub(crate) fn path(self) -> String {
        format!("{}/{}", self.kind.path(), self.name())
    }
}
