//! The differences that are meant, each with its reason.
//!
//! A difference that no row here explains fails the suite. A row that explains nothing any more fails it
//! too, so that the list stays as short as the truth.

use super::difference::Difference;

/// A kind of difference that is fine.
pub struct Accepted {
    /// Why the sandbox does not do as Kubernetes here.
    pub why: &'static str,
    pub explains: fn(&Difference) -> bool,
}

pub const ACCEPTED: &[Accepted] = &[
    Accepted {
        why: "pods get the default ServiceAccount; on the real server the plugin is off, as nobody makes accounts",
        explains: |it| {
            it.place.contains("/spec/serviceAccount") || it.place.contains("/f:serviceAccount")
        },
    },
    Accepted {
        why: "an Event is kept, owned and validated in the form of the core group, by whichever group it came",
        explains: |it| it.request.path.contains("/events.k8s.io/"),
    },
    Accepted {
        why: "claims are not protected: no controller would ever let them go",
        explains: |it| it.request.path.contains("/persistentvolumeclaims"),
    },
    Accepted {
        why: "definitions are established by the request that makes them",
        explains: |it| {
            it.request.path.contains("/customresourcedefinitions")
                && [
                    "/status",
                    "/metadata/finalizers",
                    "/metadata/managedFields",
                    "/metadata/resourceVersion",
                ]
                .iter()
                .any(|part| it.place.contains(part))
        },
    },
    Accepted {
        why: "tables and metadata in v1beta1: clients ask for v1 first",
        explains: |it| it.request.accept.contains("v=v1beta1"),
    },
    Accepted {
        why: "tables and metadata in YAML or protobuf: nobody asks for them",
        explains: |it| {
            ["application/yaml;as=", "protobuf;as="]
                .iter()
                .any(|form| it.request.accept.contains(form))
        },
    },
    Accepted {
        why: "`application/*` is taken for JSON; the real server refuses it for built-in kinds",
        explains: |it| it.request.accept == "application/*",
    },
    Accepted {
        why: "the metadata of a list, asked of one custom resource: refused with another code",
        explains: |it| {
            it.request.accept.contains("PartialObjectMetadataList") && it.place == "/code"
        },
    },
    Accepted {
        why: "an object patched to have no version is refused without the fields that cannot be known then",
        explains: |it| it.story.starts_with("pointed") && it.place.starts_with("/warnings"),
    },
    Accepted {
        why: "discovery: the sandbox serves fewer groups, kinds and subresources",
        explains: |it| {
            let path = it.request.path.split('?').next().unwrap_or_default().trim_end_matches('/');
            ["/api", "/apis", "/apis/apps", "/api/v1"].contains(&path)
        },
    },
    Accepted {
        why: "a name made up for an object that was refused is in the refusal, and drawn by lot",
        explains: |it| it.request.note == "a bad prefix" && it.place == "/body/details/name",
    },
    Accepted {
        why: "a path that leads beyond a custom resource is nobody's",
        explains: |it| it.request.note == "too deep" && it.story.contains("Widget"),
    },
    Accepted {
        why: "a POST to a name is refused before its body is read",
        explains: |it| it.request.note == "post to a name",
    },
    Accepted {
        why: "a Scale has no table of its own",
        explains: |it| it.request.note == "scale as a table",
    },
    Accepted {
        why: "of a Scale only the replicas can be set, so an apply of one is a merge and owns as an update does",
        explains: |it| {
            it.request.note == "scale applied"
                || it.story.starts_with("subresources") && it.request.note == "in the end"
        },
    },
    Accepted {
        why: "an empty text or list counts as none where Kubernetes can tell the two apart",
        explains: |it| {
            it.story.starts_with("spoiling")
                && [" = \"\"", " = []", " = {}", " = [null]"]
                    .iter()
                    .any(|end| it.request.note.ends_with(end))
        },
    },
    Accepted {
        why: "volumes are not mounted, so their sources and claims are checked only where workloads use them",
        explains: |it| {
            ["/spec/volumes/", "/spec/volumeClaimTemplates"]
                .iter()
                .any(|start| it.request.note.starts_with(start))
        },
    },
];

// === impl Difference ===

impl Difference {
    /// The row that explains it.
    pub fn explanation(&self) -> Option<usize> {
        ACCEPTED.iter().position(|accepted| (accepted.explains)(self))
    }
}
