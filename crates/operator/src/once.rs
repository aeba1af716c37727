//! Deduplicates messages that repeat, such as that of a write that is rejected at each attempt.

use std::{collections::BTreeMap, time::Duration};

use tidegate_engine::Moment;

/// Messages that were recorded, and when each came last.
#[derive(Default)]
pub(crate) struct Once(BTreeMap<String, Moment>);

/// Messages that are kept: one for each pod of a large workload. Further ones are not recorded.
const MESSAGES_MAX: usize = 100;
/// A message that did not come for so long is new again. A failed write is retried within a minute, but not
/// while another one comes first.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

// === impl Once ===

impl Once {
    /// Whether the message is new and there is room for it.
    pub(crate) fn first_time(&mut self, message: &str, now: Moment) -> bool {
        self.0.retain(|_, last| now.since(*last) < FORGOTTEN_AFTER);
        let is_known = self.0.contains_key(message);
        let is_first = !is_known && self.0.len() < MESSAGES_MAX;
        if is_known || is_first {
            self.0.insert(message.to_owned(), now);
        }
        is_first
    }

    /// The failure is over: all messages are new again.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: i64) -> Moment {
        Moment(minute * 60_000)
    }

    #[test]
    fn a_message_is_new_once_and_again_after_a_long_silence() {
        let mut once = Once::default();
        assert!(once.first_time("quota", minute(0)));
        assert!(once.first_time("another", minute(0)));
        for now in 1..30 {
            assert!(!once.first_time("quota", minute(now)), "met again at minute {now}");
        }
        assert!(once.first_time("another", minute(30)), "not met for half an hour");
        assert!(!once.first_time("quota", minute(38)), "nine minutes of silence");
        assert!(once.first_time("quota", minute(48)), "ten minutes");
        once.clear();
        assert!(once.first_time("quota", minute(48)), "the trouble was over");
    }

    #[test]
    fn there_is_a_bound_on_messages() {
        let mut once = Once::default();
        let new = (0..2 * MESSAGES_MAX).filter(|it| once.first_time(&it.to_string(), minute(0)));
        assert_eq!(new.count(), MESSAGES_MAX);
        assert!(!once.first_time("0", minute(1)), "a known one is still known");
    }
}
