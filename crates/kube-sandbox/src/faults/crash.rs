//! Crash points: a client is cut off at a write chosen by number.
//!
//! A sweep runs the work once to count its writes, then once per write and [`Cut`], and checks that
//! a restart completes the work. The server counts the writes, so the client needs no hooks and
//! cannot miss one.

use super::{Course, Matcher, conflict, too_many_requests};
use crate::request::RequestInfo;

/// How a write is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// The client dies before its request arrives.
    BeforeSend,
    /// The write is applied and the client dies before it sees the answer.
    AfterApply,
    /// The write is applied, the connection breaks, the client lives.
    LostAnswer,
    /// The client lives and gets a conflict, as after a write by another client.
    Conflict,
    /// The client lives and is told to retry later.
    TooManyRequests,
}

/// A crash point that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    /// The number of the write, counted from 0.
    pub index: u64,
    /// How it was cut.
    pub cut: Cut,
}

#[derive(Debug, Default)]
pub(super) struct Crashes {
    counted: Matcher,
    writes: u64,
    armed: Option<Crash>,
    reached: Option<Crash>,
    down: bool,
}

// === impl Cut ===

impl Cut {
    /// Every cut, for sweeps.
    pub const ALL: [Self; 5] = [
        Self::BeforeSend,
        Self::AfterApply,
        Self::LostAnswer,
        Self::Conflict,
        Self::TooManyRequests,
    ];

    /// Whether the client has to be restarted afterwards.
    pub fn kills(self) -> bool {
        matches!(self, Self::BeforeSend | Self::AfterApply)
    }

    fn class(self) -> &'static str {
        match self {
            Self::BeforeSend => "crash-before-send",
            Self::AfterApply => "crash-after-apply",
            Self::LostAnswer => "crash-lost-answer",
            Self::Conflict => "crash-conflict",
            Self::TooManyRequests => "crash-too-many-requests",
        }
    }

    fn course(self, info: &RequestInfo) -> Course {
        match self {
            Self::BeforeSend => Course::Drop,
            Self::AfterApply | Self::LostAnswer => Course::LoseAnswer,
            Self::Conflict => Course::Fail(conflict(info)),
            Self::TooManyRequests => {
                let failure = too_many_requests(Some(1));
                Course::Fail(failure.about(&info.group, &info.resource, &info.name))
            }
        }
    }
}

// === impl Crashes ===

impl Crashes {
    pub(super) fn count_only(&mut self, matcher: Matcher) {
        self.counted = matcher;
        self.writes = 0;
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    pub(super) fn arm(&mut self, index: u64, cut: Cut) {
        self.armed = Some(Crash { index, cut });
        self.reached = None;
    }

    pub(super) fn disarm(&mut self) {
        self.armed = None;
        self.revive();
    }

    pub(super) fn reached(&self) -> Option<Crash> {
        self.reached
    }

    pub(super) fn revive(&mut self) {
        self.reached = None;
        self.down = false;
    }

    /// Whether the request comes from a dead client.
    ///
    /// A client is recognised by its user; without one in the filter, every user is that client.
    pub(super) fn is_down(&self, info: &RequestInfo) -> bool {
        let Matcher { user, .. } = &self.counted;
        self.down && user.as_ref().is_none_or(|user| *user == info.user)
    }

    /// Counts a write; returns the course and class of a request that is cut.
    pub(super) fn meet(&mut self, info: &RequestInfo) -> Option<(Course, &'static str)> {
        if self.is_down(info) {
            return Some((Course::Drop, "dropped-after-crash"));
        }
        if !info.is_write() || !self.counted.matches(info) {
            return None;
        }
        let index = self.writes;
        self.writes += 1;
        let crash = self.armed.take_if(|armed| armed.index == index)?;
        self.reached = Some(crash);
        self.down = crash.cut.kills();
        Some((crash.cut.course(info), crash.cut.class()))
    }
}
