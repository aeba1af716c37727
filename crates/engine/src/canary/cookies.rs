//! Cookies that keep clients on their side of a share.
//!
//! ```text
//! share      canary's cookie                      primary's cookie
//! first      a fresh one                          a fresh one
//! next       kept: clients of the canary stay       a fresh one: the others are drawn again
//! none       retired: browsers drop it            retired
//! ```
//!
//! Freshness is decided here; the caller chooses the name and writes it down before any route has it.

use crate::{
    Action, Cookie, CookieChange, Cookies, Decision, Observed, Percent, Split, Stickiness,
};

/// Inserts the change of the cookies before the write that needs it.
pub(super) fn add(seen: &Observed, decision: &mut Decision) {
    let actions = &decision.actions;
    let shift = actions.iter().enumerate().find_map(|(at, action)| {
        if let Action::Shift(split) = action { Some((at, *split)) } else { None }
    });
    let memory = actions.iter().position(|action| matches!(action, Action::Remember(_)));
    let (at, change) = match (shift, memory, &seen.routes) {
        (Some((at, split)), _, _) => (at, of_shift(seen.plan.stickiness, seen.cookies, split)),
        // The share was removed, and the process crashed before that was written down.
        (None, Some(at), Ok(split)) if split.canary == Percent::ZERO => (at, retired(seen.cookies)),
        _ => return,
    };
    if change != CookieChange::default() {
        decision.actions.insert(at, Action::Cookies(change));
    }
}

fn of_shift(stickiness: Stickiness, now: Cookies, split: Split) -> CookieChange {
    if split.canary == Percent::ZERO {
        return retired(now);
    }
    let kept = if now.canary { Cookie::Keep } else { Cookie::Fresh };
    match stickiness {
        Stickiness::None => CookieChange::default(),
        Stickiness::Canary => CookieChange { canary: kept, primary: retire(now.primary) },
        Stickiness::Both => CookieChange { canary: kept, primary: Cookie::Fresh },
    }
}

fn retired(now: Cookies) -> CookieChange {
    CookieChange { canary: retire(now.canary), primary: retire(now.primary) }
}

fn retire(is_there: bool) -> Cookie {
    if is_there { Cookie::Retire } else { Cookie::Keep }
}
