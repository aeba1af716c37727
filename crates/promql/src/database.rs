//! The time series database, in memory and bounded.
//!
//! A series keeps an hour of samples before the newest one of the whole database and is removed
//! with its last sample. Samples of a series must arrive in the order of time. Counters, gauges and
//! histogram buckets are all plain series.
//!
//! A query takes its series under the lock and evaluates without it: samples are shared until the
//! next append.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use super::{Labels, METRIC_NAME};

/// A value with its timestamp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// [`STALE`] ends the series.
    pub value: f64,
}

/// A shared handle on the database; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Database(Arc<Mutex<Contents>>);

/// Limits of a database.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Samples older than this, counted from the newest of all, are forgotten.
    pub retention: Duration,
    /// Series at once.
    pub series_max: usize,
    /// Samples of all series together.
    pub samples_max: usize,
}

/// Counters of stored and refused samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Series at the moment.
    pub series: usize,
    /// Samples of all series together.
    pub samples: usize,
    /// Samples that were not taken, since the database was made.
    pub refused: u64,
}

/// Why a sample was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The labels lack [`METRIC_NAME`].
    #[error("a series needs a metric name, `{labels}` has none")]
    NoName {
        /// The labels given.
        labels: Labels,
    },
    /// As [`Limits::series_max`] says.
    #[error("the database holds {max} series and takes no other")]
    TooManySeries {
        /// The limit.
        max: usize,
    },
    /// As [`Limits::samples_max`] says.
    #[error("the database holds {max} samples and takes no other")]
    TooManySamples {
        /// The limit.
        max: usize,
    },
    /// Samples of a series arrive in the order of time.
    #[error("a sample of `{labels}` is not newer than the last one")]
    OutOfOrder {
        /// The series.
        labels: Labels,
    },
    /// The last sample has the same time and another value.
    #[error("`{labels}` has another value at that time")]
    Duplicate {
        /// The series.
        labels: Labels,
    },
}

/// One series as selected by a query.
pub(super) type Found = (Labels, Arc<Vec<Point>>);

#[derive(Debug, Default)]
struct Contents {
    limits: Limits,
    series: BTreeMap<Labels, Arc<Vec<Point>>>,
    samples: usize,
    refused: u64,
    newest_ms: Option<i64>,
    swept_ms: i64,
}

/// The NaN by which Prometheus marks the end of a series.
pub const STALE: f64 = f64::from_bits(0x7ff0_0000_0000_0002);

/// Interval between removals of samples past the retention.
const SWEEP_MS: i64 = 60_000;

// === impl Limits ===

impl Default for Limits {
    /// An hour of 10,000 series at 5 s is 7.2 million samples, 16 bytes each: 128 MB at most.
    fn default() -> Self {
        Self { retention: Duration::from_hours(1), series_max: 10_000, samples_max: 8_000_000 }
    }
}

// === impl Database ===

impl Database {
    /// An empty database with the default [`Limits`].
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty database with limits of its own.
    pub fn with_limits(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(Contents { limits, ..Contents::default() })))
    }

    /// Adds a sample to the series with these labels, creating it if needed.
    ///
    /// A repeated sample is ignored.
    pub fn append(
        &self,
        labels: &Labels,
        timestamp_ms: i64,
        value: f64,
    ) -> Result<(), AppendError> {
        let mut contents = self.lock();
        let point = Point { at_ms: timestamp_ms, value };
        contents.append(labels, point).inspect_err(|_| contents.refused += 1)
    }

    /// Ends a series: queries after this time do not see it. No effect on an unknown series.
    pub fn end(&self, labels: &Labels, timestamp_ms: i64) -> Result<(), AppendError> {
        if self.lock().series.contains_key(labels) {
            self.append(labels, timestamp_ms, STALE)?;
        }
        Ok(())
    }

    /// Counts of what is held and what was refused.
    pub fn statistics(&self) -> Statistics {
        let contents = self.lock();
        let (series, samples) = (contents.series.len(), contents.samples);
        Statistics { series, samples, refused: contents.refused }
    }

    /// The series that satisfy `is_wanted`, sorted by labels.
    pub(super) fn select(&self, is_wanted: impl Fn(&Labels) -> bool) -> Vec<Found> {
        let contents = self.lock();
        let found = contents.series.iter().filter(|(labels, _)| is_wanted(labels));
        found.map(|(labels, points)| (labels.clone(), Arc::clone(points))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock()
    }
}

// === impl Contents ===

impl Contents {
    fn append(&mut self, labels: &Labels, point: Point) -> Result<(), AppendError> {
        if labels.get(METRIC_NAME).is_empty() {
            return Err(AppendError::NoName { labels: labels.clone() });
        }
        self.newest_ms = self.newest_ms.max(Some(point.at_ms));
        if self.newest_ms.is_some_and(|newest| newest.saturating_sub(self.swept_ms) >= SWEEP_MS) {
            self.sweep();
        }
        let Limits { series_max, samples_max, .. } = self.limits;
        if self.samples >= samples_max {
            return Err(AppendError::TooManySamples { max: samples_max });
        }
        if let Some(points) = self.series.get_mut(labels) {
            if let Some(last) = points.last().filter(|last| last.at_ms >= point.at_ms) {
                return refuse_old(labels, *last, point);
            }
            Arc::make_mut(points).push(point);
        } else if self.series.len() >= series_max {
            return Err(AppendError::TooManySeries { max: series_max });
        } else {
            self.series.insert(labels.clone(), Arc::new(vec![point]));
        }
        self.samples += 1;
        Ok(())
    }

    /// Removes samples past the retention, and series without samples.
    fn sweep(&mut self) {
        let Some(newest_ms) = self.newest_ms else { return };
        self.swept_ms = newest_ms;
        let retention_ms = i64::try_from(self.limits.retention.as_millis()).unwrap_or(i64::MAX);
        let oldest_ms = newest_ms.saturating_sub(retention_ms);
        let mut samples = 0;
        self.series.retain(|_, points| {
            let expired = points.partition_point(|point| point.at_ms < oldest_ms);
            if expired > 0 {
                Arc::make_mut(points).drain(..expired);
            }
            samples += points.len();
            !points.is_empty()
        });
        self.samples = samples;
    }
}

impl Point {
    pub(super) fn is_stale(&self) -> bool {
        self.value.to_bits() == STALE.to_bits()
    }
}

fn refuse_old(labels: &Labels, last: Point, point: Point) -> Result<(), AppendError> {
    let labels = labels.clone();
    if last.at_ms > point.at_ms {
        Err(AppendError::OutOfOrder { labels })
    } else if last.value.to_bits() == point.value.to_bits() {
        Ok(())
    } else {
        Err(AppendError::Duplicate { labels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up(job: &str) -> Labels {
        Labels::of("up", &[("job", job)])
    }

    #[test]
    fn samples_arrive_in_the_order_of_time() {
        let database = Database::new();
        assert_eq!(database.append(&up("a"), 1_000, 1.0), Ok(()));
        let cases = [
            ("the same sample twice is one", 1_000, 1.0, Ok(())),
            (
                "another value at the same time",
                1_000,
                2.0,
                Err(AppendError::Duplicate { labels: up("a") }),
            ),
            ("an earlier sample", 999, 1.0, Err(AppendError::OutOfOrder { labels: up("a") })),
            ("a later sample", 1_001, 1.0, Ok(())),
        ];
        for (reason, at_ms, value, want) in cases {
            assert_eq!(database.append(&up("a"), at_ms, value), want, "{reason}");
        }
        assert_eq!(database.statistics(), Statistics { series: 1, samples: 2, refused: 2 });
    }

    #[test]
    fn a_nameless_series_is_refused() {
        let labels = Labels::default().with("job", "a");
        let refused = Database::new().append(&labels, 0, 1.0);
        assert_eq!(refused, Err(AppendError::NoName { labels }));
    }

    #[test]
    fn a_full_database_says_so_and_takes_what_it_knows() {
        let limits = Limits { series_max: 2, samples_max: 4, ..Limits::default() };
        let database = Database::with_limits(limits);
        assert_eq!(database.append(&up("a"), 0, 1.0), Ok(()));
        assert_eq!(database.append(&up("b"), 0, 1.0), Ok(()));
        let refused = database.append(&up("c"), 0, 1.0);
        assert_eq!(refused, Err(AppendError::TooManySeries { max: 2 }));
        assert_eq!(database.append(&up("a"), 1, 1.0), Ok(()));
        assert_eq!(database.append(&up("b"), 1, 1.0), Ok(()));
        let refused = database.append(&up("a"), 2, 1.0);
        assert_eq!(refused, Err(AppendError::TooManySamples { max: 4 }));
    }

    #[test]
    fn samples_and_series_past_the_retention_are_forgotten() {
        let database = Database::new();
        database.append(&up("old"), 0, 1.0).unwrap();
        for minute in 0..=90 {
            database.append(&up("live"), minute * 60_000, 1.0).unwrap();
        }
        let found = database.select(|_| true);
        let [(labels, points)] = found.as_slice() else { panic!("one series is left: {found:?}") };
        assert_eq!(*labels, up("live"));
        assert_eq!(points.first().map(|point| point.at_ms), Some(30 * 60_000));
        assert_eq!(database.statistics().samples, 61);
    }

    #[test]
    fn a_query_keeps_what_it_saw() {
        let database = Database::new();
        database.append(&up("a"), 0, 1.0).unwrap();
        let seen = database.select(|_| true);
        database.append(&up("a"), 1, 2.0).unwrap();
        assert_eq!(seen.first().map(|(_, points)| points.len()), Some(1));
    }

    #[test]
    fn ending_an_unknown_series_makes_none() {
        let database = Database::new();
        assert_eq!(database.end(&up("a"), 0), Ok(()));
        assert_eq!(database.statistics().series, 0);
    }
}
