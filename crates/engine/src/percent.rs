//! Percentages, and the division of live traffic between primary and canary.

use std::fmt;

/// A share in percent, 0 to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u8);

/// How live traffic is divided. The primary has what the canary has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Split {
    /// The canary's share.
    pub canary: Percent,
    /// Whether the canary also gets a copy of the primary's requests.
    pub mirrored: bool,
}

// === impl Percent ===

impl Percent {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Everything.
    pub const ALL: Self = Self(100);

    /// The share, if it is one.
    pub fn new(percent: i64) -> Option<Self> {
        u8::try_from(percent).ok().filter(|percent| *percent <= 100).map(Self)
    }

    /// The nearest share: 0 for anything below, 100 for anything above.
    pub fn clamped(percent: i64) -> Self {
        u8::try_from(percent.clamp(0, 100)).map_or(Self::ALL, Self)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The rest to 100.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(100 - self.0)
    }

    /// This much more, at most everything.
    #[must_use]
    pub fn plus(self, percent: i64) -> Self {
        Self::clamped(i64::from(self.0).saturating_add(percent))
    }

    /// This much less, at least nothing.
    #[must_use]
    pub fn minus(self, percent: i64) -> Self {
        Self::clamped(i64::from(self.0).saturating_sub(percent))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Percent> for i64 {
    fn from(percent: Percent) -> Self {
        percent.0.into()
    }
}

// === impl Split ===

impl Split {
    /// All traffic to the primary, no copies.
    pub const PRIMARY: Self = Self { canary: Percent::ZERO, mirrored: false };
    /// All traffic to the canary.
    pub const CANARY: Self = Self { canary: Percent::ALL, mirrored: false };

    /// A plain division.
    pub const fn canary(canary: Percent) -> Self {
        Self { canary, mirrored: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_never_leaves_its_bounds() {
        assert_eq!(Percent::new(101), None);
        assert_eq!(Percent::new(-1), None);
        assert_eq!(Percent::clamped(i64::MAX), Percent::ALL);
        assert_eq!(Percent::clamped(40).plus(i64::MAX), Percent::ALL);
        assert_eq!(Percent::clamped(40).minus(i64::MAX), Percent::ZERO);
        assert_eq!(Percent::clamped(30).rest().get(), 70);
    }
}
