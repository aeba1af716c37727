//! Names of runs of hooks.

use crate::Revision;

use super::Pod;

/// The name of a hook run of a step, the first that is not taken.
pub(super) fn of_step(
    revision: &Revision,
    index: usize,
    template: &str,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let name = shortened(&format!("{revision}-{index}-"), template);
    first_free(name, is_taken)
}

/// The name of a hook run of a pod, the first that is not taken.
pub(super) fn of_pod(
    prefix: &str,
    pod: &Pod,
    template: &str,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let revision = pod.revision.as_ref().map_or("none", Revision::as_str);
    first_free(shortened(&format!("{prefix}-{revision}-{}-", pod.id), template), is_taken)
}

/// Longest name of an object, less room for a suffix.
const NAME_BYTES_MAX: usize = 253 - 8;

fn shortened(fixed: &str, template: &str) -> String {
    let mut end = template.len().min(NAME_BYTES_MAX.saturating_sub(fixed.len()));
    while !template.is_char_boundary(end) {
        end -= 1;
    }
    let kept = template.get(..end).unwrap_or_default().trim_end_matches(['.', '-']);
    format!("{fixed}{kept}")
}

fn first_free(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    if !is_taken(&name) {
        return name;
    }
    let mut suffix = 1_u32;
    loop {
        let other = format!("{name}.{suffix}");
        if !is_taken(&other) {
            return other;
        }
        suffix = suffix.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_after_revision_step_and_template() {
        let revision = Revision::new("test-gamedeployment-9d78dd5db");
        let name = |taken: &[&str]| of_step(&revision, 4, "test", |name| taken.contains(&name));
        assert_eq!(name(&[]), "test-gamedeployment-9d78dd5db-4-test");
        let first = name(&[]);
        assert_eq!(name(&[&first]), format!("{first}.1"));
        let long = of_step(&revision, 4, &"t".repeat(400), |_| false);
        assert!(long.len() <= 253);
    }
}
