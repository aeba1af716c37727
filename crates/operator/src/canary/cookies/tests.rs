use tidegate_engine::Moment;

use super::*;
use crate::canary::observe::testing::Bench;

fn inputs(affinity: &Value) -> Inputs {
    let spec = json!({ "analysis": { "sessionAffinity": affinity } });
    Bench::new("istio").set_up().spec(&spec).observe().inputs
}

fn change(canary: Cookie, primary: Cookie) -> CookieChange {
    CookieChange { canary, primary }
}

fn both() -> Value {
    json!({ "cookieName": "side", "primaryCookieName": "stay" })
}

#[test]
fn cookies_are_kept_made_and_retired() {
    let inputs = inputs(&both());
    let old = || Cookies {
        canary: Some("side=old".to_owned()),
        previous: Some("side=older".to_owned()),
        primary: Some("stay=old".to_owned()),
    };
    let after = |canary, primary| after(&inputs, "uid", change(canary, primary), &old());
    assert_eq!(after(Cookie::Keep, Cookie::Keep), old());
    let fresh = after(Cookie::Fresh, Cookie::Fresh);
    let (canary, primary) = (fresh.canary.unwrap(), fresh.primary.unwrap());
    assert!(canary.starts_with("side=") && canary != "side=old", "{canary}");
    assert!(primary.starts_with("stay=") && primary != "stay=old", "{primary}");
    assert_ne!(canary[5..], primary[5..], "each side has its own");
    assert_eq!(fresh.previous.as_deref(), Some("side=older"));
    let retired = after(Cookie::Retire, Cookie::Retire);
    assert_eq!(retired.canary, None);
    assert_eq!(retired.previous.as_deref(), Some("side=old"), "browsers are told to drop it");
    assert_eq!(retired.primary, None);
    let none = Cookies { canary: None, ..old() };
    let twice = super::after(&inputs, "uid", change(Cookie::Retire, Cookie::Keep), &none);
    assert_eq!(twice.previous.as_deref(), Some("side=older"), "still that of before");
}

#[test]
fn a_step_makes_the_same_cookie_again_and_the_next_step_another() {
    let of = |uid: &str, since: i64, applied: &str| {
        let mut inputs = inputs(&both());
        inputs.remembered.memory.since = Some(Moment(since));
        inputs.remembered.memory.applied = Some(Revision::new(applied));
        let fresh = change(Cookie::Fresh, Cookie::Keep);
        after(&inputs, uid, fresh, &Cookies::default()).canary.unwrap()
    };
    let first = of("a", 1, "r1");
    assert_eq!(of("a", 1, "r1"), first, "also after a crash");
    assert_ne!(of("b", 1, "r1"), first, "another canary");
    assert_ne!(of("a", 2, "r1"), first, "another step");
    assert_ne!(of("a", 1, "r2"), first, "another revision");
    let letters = first.trim_start_matches("side=");
    assert_eq!(letters.len(), 10);
    assert!(letters.chars().all(|it| it.is_ascii_alphabetic()), "{letters}");
}

#[test]
fn a_side_without_a_name_has_no_cookie() {
    for affinity in [json!({ "cookieName": "" }), json!({ "cookieName": "side" })] {
        let made = after(
            &inputs(&affinity),
            "uid",
            change(Cookie::Fresh, Cookie::Fresh),
            &Cookies::default(),
        );
        assert_eq!(made.canary.is_some(), affinity["cookieName"] == "side");
        assert_eq!(made.primary, None);
    }
}

#[test]
fn each_cookie_has_its_field_and_an_absent_one_is_removed() {
    let cookies = Cookies { canary: Some("a".to_owned()), ..Cookies::default() };
    let want = json!({
        "sessionAffinityCookie": "a",
        "previousSessionAffinityCookie": null,
        "primarySessionAffinityCookie": null,
    });
    assert_eq!(Value::Object(fields(&cookies)), want);
}

#[test]
fn letters_are_taken_from_all_of_the_alphabet() {
    assert_eq!(letters("a"), "UVzsUBHUQM");
}
