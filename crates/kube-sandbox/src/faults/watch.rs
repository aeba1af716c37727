//! Faults on watches, and the state of the faults of one watch.
//!
//! [`super::Faults`] creates a [`WatchPlan`] per watch and asks it before each event; the server
//! side of the watch carries the action out.

use std::time::Duration;

use super::Matcher;
use crate::{failure::Failure, request::RequestInfo};

/// A fault on a watch. Events are counted from its start, including those of objects that already
/// existed; bookmarks are not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchFault {
    /// The watch is answered with 410: its start version is no longer kept.
    GoneAtStart,
    /// After so many events the watch ends with an error event, 410.
    GoneAfter {
        /// How many arrive.
        events: u64,
    },
    /// After so many events the connection ends, as it does now and then in good health.
    CloseAfter {
        /// How many arrive.
        events: u64,
    },
    /// After so many events nothing more arrives: for a while, or (`None`) for as long as the
    /// connection lives. Events that were held back arrive afterwards.
    SilenceAfter {
        /// How many arrive.
        events: u64,
        /// How long the silence is.
        lasting: Option<Duration>,
    },
    /// Again and again, before every so many events, nothing arrives for a while: whoever reads is behind
    /// in every part of a story, not only in its first.
    Late {
        /// How many arrive between two waits.
        every: u64,
        /// How long each wait is.
        by: Duration,
    },
    /// Every event arrives twice.
    Duplicate,
    /// Bookmarks arrive, events do not, except for the initial ones: no server sends a list without
    /// its objects.
    BookmarksOnly,
}

/// The next thing the server would send on a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchSignal {
    /// An object that existed when the watch started.
    Initial,
    /// A change.
    Event,
    /// A bookmark.
    Bookmark,
    /// Nothing; the server only checks whether the watch may go on.
    Wake,
}

/// The action for a signal.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchAction {
    /// Send it (after [`WatchSignal::Wake`]: go on).
    Send,
    /// Send it, and send it again.
    SendTwice,
    /// Do not send it, now or later.
    ///
    /// A bookmark on such a watch must not be newer than the last event sent, or the client could
    /// never learn of the missed events.
    Withhold,
    /// Wait this long, then send it.
    Stall(Duration),
    /// Send nothing from now on, and keep the connection open.
    FallSilent,
    /// End the connection normally.
    Close,
    /// Send this as an error event (or, at the start, as the answer) and end the connection.
    Fail(Failure),
}

/// How open watches are interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// In good order, as happens now and then in good health.
    Close,
    /// With an error event, 410.
    Gone,
}

/// The remaining faults of one watch. Held by the server side of the watch.
#[derive(Debug)]
pub struct WatchPlan {
    info: RequestInfo,
    faults: Vec<WatchFault>,
    sent: u64,
    silent: bool,
    /// Interruptions up to this number happened before the watch.
    seen: u64,
}

#[derive(Debug, Default)]
pub(super) struct Interruptions {
    issued: Vec<(Matcher, Interruption)>,
}

/// The error of a watch from a version that is no longer kept.
fn gone() -> Failure {
    Failure::expired("too old resource version: the watch history was discarded")
}

// === impl WatchFault ===

impl WatchFault {
    pub(super) fn class(&self) -> &'static str {
        match self {
            Self::GoneAtStart | Self::GoneAfter { .. } => "watch-gone",
            Self::CloseAfter { .. } => "watch-close",
            Self::SilenceAfter { .. } => "watch-silence",
            Self::Late { .. } => "watch-late",
            Self::Duplicate => "watch-duplicate",
            Self::BookmarksOnly => "watch-bookmarks-only",
        }
    }

    /// The action of this fault on the next signal, after `sent` events. `None` for no effect.
    fn act(&self, signal: WatchSignal, sent: u64) -> Option<WatchAction> {
        match self {
            Self::GoneAtStart => Some(WatchAction::Fail(gone())),
            Self::GoneAfter { events } if sent >= *events => Some(WatchAction::Fail(gone())),
            Self::CloseAfter { events } if sent >= *events => Some(WatchAction::Close),
            Self::SilenceAfter { events, lasting: None } if sent >= *events => {
                Some(WatchAction::FallSilent)
            }
            // A timed silence starts with the first signal that it holds back.
            Self::SilenceAfter { events, lasting: Some(lasting) }
                if sent >= *events && signal != WatchSignal::Wake =>
            {
                Some(WatchAction::Stall(*lasting))
            }
            Self::Late { every, by } if signal.is_counted() && sent.is_multiple_of(*every) => {
                Some(WatchAction::Stall(*by))
            }
            Self::Duplicate if signal.is_counted() => Some(WatchAction::SendTwice),
            Self::BookmarksOnly if signal == WatchSignal::Event => Some(WatchAction::Withhold),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::GoneAtStart => 0,
            Self::GoneAfter { .. } => 1,
            Self::CloseAfter { .. } => 2,
            Self::SilenceAfter { .. } => 3,
            Self::Late { .. } => 4,
            Self::BookmarksOnly => 5,
            Self::Duplicate => 6,
        }
    }

    /// Whether the fault is used up by happening once.
    fn happens_once(&self) -> bool {
        matches!(self, Self::SilenceAfter { lasting: Some(_), .. })
    }
}

// === impl WatchSignal ===

impl WatchSignal {
    fn is_counted(self) -> bool {
        matches!(self, Self::Initial | Self::Event)
    }
}

// === impl WatchPlan ===

impl WatchPlan {
    pub(super) fn new(info: &RequestInfo, seen: u64) -> Self {
        Self { info: info.clone(), faults: Vec::new(), sent: 0, silent: false, seen }
    }

    /// Faults that end a watch come before milder ones, in any order of adding.
    pub(super) fn add(&mut self, fault: WatchFault) {
        self.faults.push(fault);
        self.faults.sort_by_key(WatchFault::rank);
    }

    pub(super) fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// Whether the watch has no faults of its own; it may still be interrupted.
    pub fn is_uneventful(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether events are withheld; bookmarks must then not be newer than the last event sent.
    pub fn withholds_events(&self) -> bool {
        self.faults.contains(&WatchFault::BookmarksOnly)
    }

    /// The action, and its class if it is a fault.
    pub(super) fn next(
        &mut self,
        signal: WatchSignal,
        dead: bool,
        interruptions: &Interruptions,
    ) -> (WatchAction, Option<&'static str>) {
        if dead {
            return (WatchAction::Close, None);
        }
        if let Some(interruption) = interruptions.after(self.seen, &self.info) {
            return match interruption {
                Interruption::Close => (WatchAction::Close, Some("watch-close")),
                Interruption::Gone => (WatchAction::Fail(gone()), Some("watch-gone")),
            };
        }
        if self.silent {
            return (WatchAction::FallSilent, None);
        }
        let sent = self.sent;
        let acting = self
            .faults
            .iter()
            .enumerate()
            .find_map(|(at, fault)| Some((at, fault.act(signal, sent)?)));
        let Some((at, action)) = acting else {
            self.sent += u64::from(signal.is_counted());
            return (WatchAction::Send, None);
        };
        let class = self.faults.get(at).map(WatchFault::class);
        if self.faults.get(at).is_some_and(WatchFault::happens_once) {
            self.faults.remove(at);
        }
        match action {
            WatchAction::FallSilent => self.silent = true,
            WatchAction::Stall(_) | WatchAction::SendTwice => {
                self.sent += u64::from(signal.is_counted());
            }
            _ => {}
        }
        (action, class)
    }
}

// === impl Interruptions ===

impl Interruptions {
    pub(super) fn push(&mut self, matcher: Matcher, how: Interruption) {
        self.issued.push((matcher, how));
    }

    /// The number of the latest interruption; 0 if there was none.
    pub(super) fn latest(&self) -> u64 {
        self.issued.len() as u64
    }

    fn after(&self, seen: u64, info: &RequestInfo) -> Option<Interruption> {
        let later = self.issued.iter().skip(usize::try_from(seen).unwrap_or(usize::MAX));
        later.clone().find(|(matcher, _)| matcher.matches(info)).map(|(_, how)| *how)
    }
}
