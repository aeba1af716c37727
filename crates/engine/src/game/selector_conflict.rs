//! Overlapping selectors: of several workloads that select the same pods, the oldest one has them.

use crate::Moment;

/// A workload that selects pods others select too.
///
/// The order is that of age; of two that were made in the same second chance decides, always the same way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectorClaim {
    /// When the workload was made.
    pub created: Moment,
    /// Which of all that ever had its name.
    pub uid: String,
    /// Its name.
    pub name: String,
}

// === impl Claim ===

impl SelectorClaim {
    /// The workload that has the pods instead of this one: of all that are older, the oldest. Two would
    /// take them from each other for ever.
    pub fn yields_to(&self, others: impl IntoIterator<Item = Self>) -> Option<Self> {
        others.into_iter().filter(|other| other.uid != self.uid && other < self).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(created: i64, uid: &str) -> SelectorClaim {
        SelectorClaim { created: Moment(created), uid: uid.to_owned(), name: format!("w-{uid}") }
    }

    #[test]
    fn the_oldest_has_the_pods_and_all_others_know_by_whom() {
        let all = [claim(3, "a"), claim(1, "c"), claim(2, "b")];
        let wins = |own: &SelectorClaim| own.yields_to(all.clone()).map(|it| it.uid);
        assert_eq!(wins(&all[0]).as_deref(), Some("c"));
        assert_eq!(wins(&all[2]).as_deref(), Some("c"));
        assert_eq!(wins(&all[1]), None, "and it is not its own rival");
        let (one, other) = (claim(1, "a"), claim(1, "b"));
        assert_eq!(other.yields_to([one.clone()]), Some(one.clone()));
        assert_eq!(one.yields_to([other]), None, "of two of an age always the same");
    }
}
