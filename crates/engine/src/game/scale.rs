//! How many pods to make and to delete, and of which revision.
//!
//! The number of pods on old revisions is held at the partition through all losses of pods and changes of
//! replicas: a lost old pod comes back old, a lost new one new.

/// How many pods there are and should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Pods on the update revision.
    pub updated: usize,
    /// Of those, pods that do not serve.
    pub idle: usize,
    /// Pods on any other.
    pub old: usize,
    /// Of those, pods that do not serve.
    pub idle_old: usize,
    /// Pods that should be there.
    pub replicas: usize,
    /// Pods that should stay on old revisions.
    pub partition: usize,
    /// Pods there may be on top.
    pub max_surge: usize,
    /// There is another revision to come from.
    pub differs: bool,
    /// Whether pods on top may be made.
    pub hold: Hold,
    /// Pods that do not serve go before those that do, whichever their revision.
    pub spares_serving: bool,
}

/// The holds of a release, as far as pods on top go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Free,
    /// It is about to stop, to begin or to roll back: pods on top stay, and no more are made until that is
    /// written down.
    Halted,
    /// A pause, which ends a surge.
    Paused,
}

/// Pods to make or to delete. At most one of the two sides is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scaling {
    /// Pods to make of the revision the workload comes from.
    pub create_old: usize,
    /// Pods to make of the update revision.
    pub create_new: usize,
    /// Pods to delete of old revisions.
    pub delete_old: usize,
    /// Pods to delete of the update revision.
    pub delete_new: usize,
}

// === impl Standing ===

impl Standing {
    fn kept(self) -> usize {
        self.partition.min(self.replicas)
    }

    /// Pods on top of the replicas: no more than are still to be updated, none while paused. A reverted
    /// template has pods to update too, although there is nothing else to come from.
    pub fn surge(self) -> usize {
        let surge = self.max_surge.min(self.old.saturating_sub(self.kept()));
        let on_top = self.old.saturating_add(self.updated).saturating_sub(self.replicas);
        match self.hold {
            Hold::Free => surge,
            Hold::Halted => surge.min(on_top),
            Hold::Paused => 0,
        }
    }

    /// Pods to make or to delete.
    pub fn scaling(self) -> Scaling {
        let Self { updated, idle, old, .. } = self;
        let wanted = self.replicas.saturating_add(self.surge());
        let total = old.saturating_add(updated);
        let holds = self.differs && self.partition > 0;
        if total < wanted {
            let missing_old = if holds { self.kept().saturating_sub(old) } else { 0 };
            let create_old = missing_old.min(wanted - total);
            let create_new = wanted - total - create_old;
            return Scaling { create_old, create_new, ..Scaling::default() };
        }
        let surplus = total - wanted;
        // A pod on top that does not serve yet goes before the old one that it was to relieve, which
        // does: a pause ends a surge, and fewer replicas are no reason to interrupt a pod that serves.
        let first_new = if self.spares_serving { idle.min(updated).min(surplus) } else { 0 };
        let spare_old = match self.partition {
            0 => old,
            _ if holds => old.saturating_sub(self.kept()),
            // The template was reverted: the others are of a release that is over.
            _ if self.spares_serving => self.idle_old.min(old),
            _ => 0,
        };
        let first_old = spare_old.min(surplus - first_new);
        let delete_new = updated.min(surplus - first_old);
        // The rest are old ones: there are not enough of the others.
        let delete_old = surplus - delete_new;
        Scaling { delete_old, delete_new, ..Scaling::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(updated: usize, old: usize, replicas: usize, partition: usize) -> Standing {
        Standing {
            updated,
            idle: 0,
            old,
            idle_old: 0,
            replicas,
            partition,
            max_surge: 0,
            differs: true,
            hold: Hold::Free,
            spares_serving: false,
        }
    }

    fn create(create_old: usize, create_new: usize) -> Scaling {
        Scaling { create_old, create_new, ..Scaling::default() }
    }

    fn delete(delete_old: usize, delete_new: usize) -> Scaling {
        Scaling { delete_old, delete_new, ..Scaling::default() }
    }

    #[test]
    fn the_number_of_old_pods_is_held_at_the_partition() {
        let cases = [
            ("nothing to do", standing(1, 3, 4, 3), Scaling::default()),
            ("a lost old pod comes back old", standing(1, 2, 4, 3), create(1, 0)),
            ("a lost new pod comes back new", standing(0, 3, 4, 3), create(0, 1)),
            ("all old pods lost at once come back old", standing(1, 0, 2, 1), create(1, 0)),
            ("scaling out adds new ones", standing(1, 3, 6, 3), create(0, 2)),
            ("scaling in takes surplus old ones first", standing(1, 5, 4, 3), delete(2, 0)),
            ("and then new ones", standing(3, 3, 4, 3), delete(0, 2)),
            ("with no partition old ones go first", standing(3, 3, 4, 0), delete(2, 0)),
            ("and new ones when they run out", standing(3, 1, 2, 0), delete(1, 1)),
            ("a partition above the replicas is all of them", standing(1, 1, 3, 9), create(1, 0)),
            ("to nothing", standing(1, 3, 0, 3), delete(3, 1)),
        ];
        for (reason, standing, want) in cases {
            assert_eq!(standing.scaling(), want, "{reason}");
        }
    }

    #[test]
    fn surge_is_what_is_still_to_be_updated_and_never_negative() {
        let surge = |updated, old, partition, is_paused| {
            let standing = standing(updated, old, 4, partition);
            let hold = if is_paused { Hold::Paused } else { Hold::Free };
            Standing { max_surge: 2, hold, ..standing }.surge()
        };
        assert_eq!(surge(0, 4, 0, false), 2);
        assert_eq!(surge(0, 4, 3, false), 1);
        assert_eq!(surge(1, 3, 3, false), 0);
        assert_eq!(surge(2, 2, 3, false), 0, "fewer old pods than the partition");
        assert_eq!(surge(0, 4, 0, true), 0, "paused");
    }

    #[test]
    fn a_template_that_went_back_has_pods_on_top_as_well() {
        let back = Standing { max_surge: 1, differs: false, ..standing(2, 2, 4, 0) };
        assert_eq!(back.scaling(), create(0, 1));
    }

    #[test]
    fn a_pause_in_the_middle_of_a_surge_takes_the_new_pod_that_does_not_serve() {
        let paused = Standing {
            max_surge: 1,
            hold: Hold::Paused,
            spares_serving: true,
            ..standing(1, 4, 4, 0)
        };
        assert_eq!(Standing { idle: 1, ..paused }.scaling(), delete(0, 1));
        assert_eq!(paused.scaling(), delete(1, 0), "it serves: an old one goes for it");
        let more = Standing { idle: 1, replicas: 2, ..paused };
        assert_eq!(more.scaling(), delete(2, 1));
    }

    #[test]
    fn a_broken_pod_of_a_release_that_was_taken_back_goes_before_one_that_serves() {
        let back = Standing { differs: false, idle_old: 1, ..standing(3, 1, 3, 2) };
        assert_eq!(back.scaling(), delete(0, 1), "as published");
        assert_eq!(Standing { spares_serving: true, ..back }.scaling(), delete(1, 0));
    }

    #[test]
    fn pods_on_top_outlast_the_look_that_sees_another_template() {
        let halted = Standing { max_surge: 2, hold: Hold::Halted, ..standing(0, 5, 4, 0) };
        assert_eq!(halted.scaling(), Scaling::default(), "none is made and none goes");
        let fewer = Standing { max_surge: 0, ..halted };
        assert_eq!(fewer.scaling(), delete(1, 0), "nobody lets any be on top");
    }

    // Game workloads, mistake 9: docs/mistakes.md.
    #[test]
    fn fewer_old_pods_than_the_partition_delete_nothing() {
        let back = Standing { max_surge: 1, ..standing(2, 2, 4, 3) };
        assert_eq!(back.scaling(), Scaling::default());
    }

    #[test]
    fn for_every_small_number_nothing_is_deleted_that_is_needed() {
        for replicas in 0..=6 {
            for (updated, old, partition, max_surge) in all_of(7, 7, 7, 3) {
                let holds = [Hold::Free, Hold::Halted, Hold::Paused];
                for (differs, hold) in
                    holds.into_iter().flat_map(|hold| [(true, hold), (false, hold)])
                {
                    let standing = Standing {
                        updated,
                        idle: updated / 2,
                        old,
                        idle_old: old / 2,
                        replicas,
                        partition,
                        max_surge,
                        differs,
                        hold,
                        spares_serving: hold == Hold::Paused,
                    };
                    judge(standing);
                }
            }
        }
    }

    /// The published rules, written down a second time in signed numbers and in their own order, with two
    /// fixes of ours: a surge is never negative, and there is none in a pause.
    fn specified(standing: Standing) -> Scaling {
        let signed = |number: usize| i64::try_from(number).unwrap();
        let Standing { updated, old, replicas, partition, max_surge, hold, .. } = standing;
        let kept = signed(partition.min(replicas));
        let left = if partition == 0 { signed(old) } else { signed(old) - kept };
        let surge = if hold == Hold::Paused { 0 } else { signed(max_surge).min(left).max(0) };
        let diff = signed(updated + old) - signed(replicas) - surge;
        let old_diff = if partition == 0 { 0 } else { signed(old) - kept };
        let count = |number: i64| usize::try_from(number).unwrap();
        if diff < 0 {
            let create_old = (-old_diff).max(0).min(-diff);
            return create(count(create_old), count(-diff - create_old));
        }
        let first = if partition == 0 { signed(old).min(diff) } else { old_diff.max(0).min(diff) };
        let rest = (diff - first).min(signed(updated));
        delete(count(diff - rest), count(rest))
    }

    #[test]
    fn every_small_number_is_scaled_as_specified() {
        let mut cases = 0;
        for replicas in 0..=6 {
            for (updated, old, partition, max_surge) in all_of(8, 8, 8, 4) {
                for hold in [Hold::Free, Hold::Paused] {
                    let standing =
                        Standing { max_surge, hold, ..standing(updated, old, replicas, partition) };
                    assert_eq!(standing.scaling(), specified(standing), "{standing:?}");
                    cases += 1;
                }
            }
        }
        assert_eq!(cases, 7 * 8 * 8 * 8 * 4 * 2);
    }

    #[test]
    fn pods_return_to_their_number_when_nothing_is_left_to_update() {
        for replicas in 0..=6 {
            for (updated, old, partition, max_surge) in all_of(7, 7, 7, 3) {
                let mut now = Standing { max_surge, ..standing(updated, old, replicas, partition) };
                for _ in 0..30 {
                    let Scaling { create_old, create_new, delete_old, delete_new } = now.scaling();
                    now.old = now.old + create_old - delete_old;
                    now.updated = now.updated + create_new - delete_new;
                    // Pods that may be updated are, one after the other.
                    if now.old > now.kept() && now.old + now.updated >= replicas {
                        (now.old, now.updated) = (now.old - 1, now.updated + 1);
                    }
                }
                assert_eq!(now.old + now.updated, replicas, "{now:?}");
                assert!(now.old <= now.kept(), "{now:?}");
            }
        }
    }

    fn all_of(
        updated: usize,
        old: usize,
        partition: usize,
        surge: usize,
    ) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        (0..updated * old * partition * surge).map(move |at| {
            (
                at % updated,
                at / updated % old,
                at / (updated * old) % partition,
                at / (updated * old * partition),
            )
        })
    }

    fn judge(standing: Standing) {
        let Standing { updated, old, replicas, partition, differs, .. } = standing;
        let Scaling { create_old, create_new, delete_old, delete_new } = standing.scaling();
        let total = updated + old;
        let about = format!("{standing:?}");
        assert!(delete_old <= old && delete_new <= updated, "{about}");
        assert!(total > replicas || delete_old + delete_new == 0, "{about}");
        assert!(total - delete_old - delete_new >= replicas.min(total), "{about}");
        let left = old - delete_old;
        let kept = partition.min(replicas);
        if differs {
            assert!(left >= kept.min(old), "{about}: only {left} old pods are left");
        }
        let after = total + create_old + create_new - delete_old - delete_new;
        assert_eq!(after, replicas + standing.surge(), "{about}");
        if differs && create_new > 0 {
            assert!(
                updated + create_new <= (replicas - kept).max(updated),
                "{about}: too many new"
            );
        }
    }
}
