//! The order of API versions: stable before beta before alpha, newer before older.

use std::cmp::Ordering;

/// The less preferred version is less; names that are no versions come last, in alphabetical order.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// Stability, major and minor of `v1`, `v2beta3` and the like.
fn parse(name: &str) -> Option<(u8, u64, u64)> {
    let rest = name.strip_prefix('v')?;
    let digits = |text: &str| -> Option<u64> {
        let plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    if let Some((major, minor)) = rest.split_once("beta") {
        return Some((1, digits(major)?, digits(minor)?));
    }
    if let Some((major, minor)) = rest.split_once("alpha") {
        return Some((0, digits(major)?, digits(minor)?));
    }
    Some((2, digits(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_kubernetes_sorts_them() {
        let want = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
        ];
        let mut names = want;
        names.reverse();
        names.sort_by(|left, right| compare(right, left));
        assert_eq!(names, want);
    }
}
