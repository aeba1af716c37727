//! Image names, image IDs and container IDs in the form of a container runtime.

use crate::controllers::hash::digest;

/// The full name of an image: with registry and repository, and `latest` without a tag.
pub(super) fn full_name(image: &str) -> String {
    let full = with_registry(image);
    let last = full.rsplit('/').next().unwrap_or_default();
    if last.contains(':') || last.contains('@') { full } else { format!("{full}:latest") }
}

/// The resolved image ID: a function of the name, or the digest in the name.
pub(super) fn image_id(image: &str) -> String {
    let full = full_name(image);
    if let Some((repository, digest)) = full.split_once('@') {
        return format!("{}@{digest}", without_tag(repository));
    }
    format!("{}@sha256:{}", without_tag(&full), digest(&full))
}

/// The ID of instance number `incarnation` of a container in a pod.
pub(super) fn container_id(pod_uid: &str, container: &str, incarnation: i64) -> String {
    format!("containerd://{}", digest(&format!("{pod_uid}/{container}/{incarnation}")))
}

/// True if the image is pulled at every start: by policy, or for `latest` without a policy.
pub(super) fn is_always_pulled(policy: &str, image: &str) -> bool {
    policy == "Always" || (policy.is_empty() && full_name(image).ends_with(":latest"))
}

fn with_registry(image: &str) -> String {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => image.to_owned(),
        Some(_) => format!("docker.io/{image}"),
        None => format!("docker.io/library/{image}"),
    }
}

fn without_tag(image: &str) -> &str {
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => repository,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_are_written_out() {
        let cases = [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.27", "docker.io/library/nginx:1.27"),
            ("stefanprodan/podinfo:6", "docker.io/stefanprodan/podinfo:6"),
            ("ghcr.io/a/b:1", "ghcr.io/a/b:1"),
            ("localhost:5000/a", "localhost:5000/a:latest"),
        ];
        for (image, want) in cases {
            assert_eq!(full_name(image), want);
        }
        assert!(image_id("nginx:1.27").starts_with("docker.io/library/nginx@sha256:"));
        assert_ne!(image_id("nginx:1.27"), image_id("nginx:1.28"));
        assert_eq!(image_id("a.io/b:1@sha256:12"), "a.io/b@sha256:12");
    }
}
