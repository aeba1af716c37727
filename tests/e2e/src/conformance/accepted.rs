//! The accepted differences, each with its reason.
//!
//! A difference that no row here explains fails the suite. A row that explains nothing fails it too, so
//! that the list stays short; only rows that depend on time are exempt.

use serde_json::Value;

use super::difference::Difference;

/// A class of accepted differences.
pub struct Accepted {
    /// The reason for the sandbox's behaviour.
    pub why: &'static str,
    /// The most differences it may explain: a new one must be looked at, even if a row covers it. Those of
    /// managed fields are not counted, as two writes of one second are one entry there.
    pub most: usize,
    pub explains: fn(&Difference) -> bool,
}

/// For rows whose number depends on the order of two writers: only their requests and places limit them.
pub const BY_CHANCE: usize = usize::MAX;

pub const ACCEPTED: &[Accepted] = &[
    Accepted {
        why: "pods get the default ServiceAccount; on the real server the plugin is off, as nobody makes accounts",
        most: 108,
        explains: |it| {
            it.request.path.contains("/pods")
                && (it.place.contains("/spec/serviceAccount")
                    || it.place.contains("/f:serviceAccount"))
        },
    },
    Accepted {
        why: "an Event is kept, owned and validated in the form of the core group, by whichever group it came",
        most: 47,
        explains: |it| {
            let places = ["/managedFields/", "/body/details/"];
            it.request.path.contains("/events.k8s.io/")
                && (places.iter().any(|place| it.place.contains(place))
                    // A field that the core group does not require is accepted.
                    || it.codes() == Some((422, 201)))
        },
    },
    Accepted {
        why: "claims are not protected: no controller would ever let them go",
        most: 271,
        explains: |it| it.request.path.contains("/persistentvolumeclaims") && it.is_of_protection(),
    },
    Accepted {
        why: "definitions are established by the request that makes them",
        most: BY_CHANCE,
        explains: |it| {
            let places = [
                "/status",
                "/metadata/finalizers",
                "/metadata/managedFields",
                "/metadata/resourceVersion",
            ];
            it.request.path.contains("/customresourcedefinitions") && it.is_within(&places)
        },
    },
    Accepted {
        why: "tables and metadata in v1beta1: clients ask for v1 first",
        most: 192,
        explains: |it| it.request.accept.contains("v=v1beta1"),
    },
    Accepted {
        why: "tables and metadata in YAML or protobuf: nobody asks for them",
        most: 45,
        explains: |it| {
            ["application/yaml;as=", "protobuf;as="]
                .iter()
                .any(|form| it.request.accept.contains(form))
        },
    },
    Accepted {
        why: "`application/*` is taken for JSON; the real server refuses it for built-in kinds",
        most: 15,
        explains: |it| it.request.accept == "application/*",
    },
    Accepted {
        why: "the metadata of a list, asked of one custom resource: refused with another code",
        most: 4,
        explains: |it| {
            it.request.accept.contains("PartialObjectMetadataList") && it.place == "/code"
        },
    },
    Accepted {
        why: "an object patched to have no version is refused without the fields that cannot be known then",
        most: 68,
        explains: |it| {
            let versions = ["\"/apiVersion\"", "\"/kind\""];
            it.story.starts_with("pointed")
                && it.place.starts_with("/warnings")
                && versions.iter().any(|path| it.request.body.contains(path))
        },
    },
    Accepted {
        why: "discovery: the sandbox serves fewer groups, kinds and subresources",
        most: 39,
        explains: |it| {
            let path = it.request.path.split('?').next().unwrap_or_default().trim_end_matches('/');
            // Its address is each server's own.
            let others = ["/body/apiVersion", "/body/serverAddressByClientCIDRs/0/serverAddress"];
            ["/api", "/apis", "/apis/apps", "/api/v1"].contains(&path)
                && (it.ours.is_none() || others.contains(&it.place.as_str()))
        },
    },
    Accepted {
        why: "a name made up for an object that was refused is in the refusal, and drawn by lot",
        most: 39,
        explains: |it| it.request.note == "a bad prefix" && it.place == "/body/details/name",
    },
    Accepted {
        why: "a path that leads beyond a custom resource is nobody's",
        most: 30,
        explains: |it| {
            it.request.note == "too deep"
                && ["Widget", "Canary"].iter().any(|kind| it.story.contains(kind))
        },
    },
    Accepted {
        why: "a POST to a name is refused before its body is read",
        most: 3,
        explains: |it| it.request.note == "post to a name",
    },
    Accepted {
        why: "a Scale has no table of its own",
        most: 77,
        explains: |it| it.request.note == "scale as a table",
    },
    Accepted {
        why: "of a Scale only the replicas can be set, so an apply of one is a merge and owns as an update does",
        most: 16,
        explains: |it| {
            it.request.note == "scale applied"
                || it.story.starts_with("subresources") && it.request.note == "in the end"
        },
    },
    Accepted {
        why: "a scale to the count that is there is written all the same on the real server, which notes anew who owns it",
        most: 1,
        explains: |it| {
            it.story == "subresources: Deployment full"
                && it.request.note == "scaled"
                && it.place == "/body/metadata/resourceVersion"
        },
    },
    Accepted {
        why: "an empty text or list counts as none where Kubernetes can tell the two apart",
        most: 19,
        explains: |it| {
            let ends = [" = \"\"", " = []", " = {}", " = [null]"];
            // Lists that become empty: rules of roles, and endpoints of slices.
            let emptied = ["/rules/0 removed", "/endpoints/0 removed"];
            it.story.starts_with("spoiling")
                && (ends.iter().any(|end| it.request.note.ends_with(end))
                    || emptied.contains(&it.request.note.as_str()))
        },
    },
    Accepted {
        why: "volumes are not mounted, so their sources and claims are checked only where workloads use them",
        most: 30,
        explains: |it| {
            let starts = ["/spec/volumes/", "/spec/volumeClaimTemplates"];
            starts.iter().any(|start| it.request.note.starts_with(start))
                || it.story == "pointed: Pod full" && it.request.body.contains("/spec/volumes/")
        },
    },
    Accepted {
        why: "a metric of 200Mi does not equal itself on the real server, which compares how it keeps quantities: \
              whoever writes such an HPA comes to own its metrics, and moves its version",
        most: 3,
        explains: |it| {
            // Every entry of managed fields may be another then, and be in another place.
            it.story == "a metric of 200Mi"
                && it.is_within(&["/metadata/managedFields", "/metadata/resourceVersion"])
        },
    },
    Accepted {
        why: "the traffic policy of a Service that became a name elsewhere is gone; the real server only hides it, \
              so its owner still owns it when the Service comes back",
        most: 0,
        explains: |it| {
            it.story.ends_with("merge-patch+json: Service small")
                && it.place.starts_with("/body/metadata/managedFields/")
                && it.place.ends_with("/f:spec/f:internalTrafficPolicy")
        },
    },
    Accepted {
        why: "node ports are drawn by lot, and tables of Services show them",
        most: 2,
        explains: |it| {
            it.request.path.contains("/services")
                && it.place.starts_with("/body/rows/")
                && it.real.as_ref().and_then(without_node_ports).is_some()
                && it.real.as_ref().and_then(without_node_ports)
                    == it.ours.as_ref().and_then(without_node_ports)
        },
    },
    Accepted {
        why: "in a rehearsal the real server makes up node ports, and gives the same to two ports of one number",
        most: 3,
        explains: |it| {
            let is_port = |cause: &Value| {
                cause["field"].as_str().is_some_and(|field| field.ends_with(".nodePort"))
            };
            it.story.starts_with("spoiling: Service")
                && it.request.note.ends_with(" twice")
                && it.ours.is_none()
                && it.real.as_ref().is_some_and(is_port)
        },
    },
    Accepted {
        why: "no conversion webhook is ever called, so a definition that asks for one is refused for that",
        most: 3,
        explains: |it| {
            it.request.note == r#"{"spec":{"conversion":{"strategy":"Webhook"}}}"#
                && it.place.starts_with("/body/details/causes/")
        },
    },
    Accepted {
        why: "what a validation rule costs is counted when it runs, not estimated when it is defined",
        most: 4,
        explains: |it| {
            it.story == "schemas of definitions"
                && it.request.note.contains(r#"{"rule":"self != oldSelf"}"#)
                && it.place.starts_with("/body/details/causes/")
        },
    },
    Accepted {
        why: "owners written by a client with a version that no kind has are kept as they were written",
        most: 0,
        explains: |it| {
            it.story == "managed fields written by clients"
                && ["another version", "no version"].contains(&it.request.note.as_str())
                && it.place == "/body/metadata/managedFields"
        },
    },
    Accepted {
        why: "events in protobuf are bytes here, with uids and versions in them; in JSON they are compared",
        most: 9,
        explains: |it| {
            it.request.is_watch()
                && it.request.accept.contains("protobuf")
                && it.real.as_ref().is_some_and(Value::is_string)
                && it.ours.as_ref().is_some_and(Value::is_string)
        },
    },
    Accepted {
        why: "a watch is asked for the metadata of a list, which it never sends: it tells of each object's",
        most: 9,
        explains: |it| {
            it.request.is_watch() && it.request.accept.contains("PartialObjectMetadataList")
        },
    },
];

/// Differences that depend on the speed of a story: in a fast run these rows explain nothing.
const DEPENDING_ON_TIME: &[Accepted] = &[
    Accepted {
        why: "how much of the past is kept depends on how much was written meanwhile, and on each server",
        most: BY_CHANCE,
        explains: |it| {
            it.story == "refused watches"
                && it.request.note == "resourceVersion=1"
                && it.place.starts_with("/body/0/")
        },
    },
    Accepted {
        why: "how many bookmarks come before the end of a watch is a matter of time",
        most: BY_CHANCE,
        explains: |it| {
            let is_bookmark = |event: &Option<Value>| {
                event.as_ref().is_some_and(|event| {
                    let is_mark = event.pointer("/object/metadata/annotations").is_some();
                    event["type"] == "BOOKMARK" && !is_mark
                })
            };
            it.request.path.contains("allowWatchBookmarks=true")
                && (it.real.is_none() && is_bookmark(&it.ours)
                    || it.ours.is_none() && is_bookmark(&it.real))
        },
    },
];

/// The ports of a Service in a table, without the node ports: `80:30123/TCP` is `80/TCP`.
fn without_node_ports(cell: &Value) -> Option<String> {
    let port = |port: &str| {
        let (number, rest) = port.split_once(':')?;
        let (_, protocol) = rest.split_once('/')?;
        Some(format!("{number}/{protocol}"))
    };
    cell.as_str()?.split(',').map(port).collect::<Option<Vec<_>>>().map(|ports| ports.join(","))
}

/// The rest of a place after the number it begins with.
fn below_number(place: &str) -> Option<&str> {
    let place = place.strip_prefix('/')?;
    let below = place.trim_start_matches(|character: char| character.is_ascii_digit());
    (below.len() < place.len()).then_some(below)
}

// === impl Difference ===

impl Difference {
    /// The codes of both answers, where these differ.
    fn codes(&self) -> Option<(u64, u64)> {
        if self.place != "/code" {
            return None;
        }
        let code = |said: &Option<Value>| said.as_ref()?["code"].as_u64();
        Some((code(&self.real)?, code(&self.ours)?))
    }

    /// The place in its object: the answer, or one of a list, a table or a watch.
    fn place_in_object(&self) -> &str {
        let body = self.place.strip_prefix("/body").unwrap_or_default();
        let told = below_number(body).and_then(|it| it.strip_prefix("/object"));
        let place = told.unwrap_or(body);
        let row = place.strip_prefix("/rows").and_then(below_number);
        let row = row.and_then(|it| it.strip_prefix("/object"));
        row.or_else(|| place.strip_prefix("/items").and_then(below_number)).unwrap_or(place)
    }

    /// Whether it is in one of these parts of an object.
    fn is_within(&self, places: &[&str]) -> bool {
        places.iter().any(|within| self.place_in_object().starts_with(within))
    }

    /// Whether it is of these two texts.
    fn shows(&self, real: &str, ours: &str) -> bool {
        let is = |part: &Option<Value>, text: &str| part.as_ref().is_some_and(|part| part == text);
        is(&self.real, real) && is(&self.ours, ours)
    }

    /// Whether it may come from a finalizer on one of them: a deleted object can still be read there, and
    /// blocks another of its name.
    fn is_of_protection(&self) -> bool {
        if let Some(codes) = self.codes() {
            return [(200, 404), (202, 200), (409, 201)].contains(&codes);
        }
        let places = [
            "/metadata/finalizers",
            "/metadata/deletion",
            "/metadata/managedFields",
            "/metadata/resourceVersion",
            "/metadata/uid",
        ];
        // As its cell, its event, and others in its place in a list.
        let shown = [("Terminating", "Pending"), ("MODIFIED", "DELETED")];
        let listed = ["/metadata/name", "/metadata/labels/group", ""];
        self.is_within(&places)
            || shown.iter().any(|(real, ours)| self.shows(real, ours))
            || self.story.starts_with("collections")
                && self.place.starts_with("/body/items/")
                && listed.contains(&self.place_in_object())
    }

    /// The row that explains it.
    pub fn explanation(&self) -> Option<&'static Accepted> {
        let rows = ACCEPTED.iter().chain(DEPENDING_ON_TIME);
        rows.into_iter().find(|accepted| (accepted.explains)(self))
    }
}
