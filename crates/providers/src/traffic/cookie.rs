//! Session cookies: the header that sets one, the pattern that finds one, the header that drops
//! one.
//!
//! Status keeps a cookie as `name=value`. A request that carries it is found by a pattern on the
//! `Cookie` header. Proxies compare a pattern with the whole header, so it spells out what may
//! stand before and after the cookie; it is anchored all the same, for those that search.

use tidegate_api::canary::analysis::SessionAffinity;

/// The header a browser sends cookies in.
pub(super) const COOKIE: &str = "Cookie";
/// The header that gives a browser a cookie.
pub(super) const SET_COOKIE: &str = "Set-Cookie";

/// Characters that RE2 does not take literally.
const SPECIAL: &[char] = &['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$'];

/// A cookie with a name and a value. Flagger stored primary cookies without a name; they are
/// useless.
pub(super) fn usable(cookie: Option<&String>) -> Option<&str> {
    let (name, value) = cookie?.split_once('=')?;
    if name.is_empty() || value.is_empty() { None } else { cookie.map(String::as_str) }
}

/// The `Set-Cookie` value that gives a browser the cookie for this long.
pub(super) fn set(cookie: &str, affinity: &SessionAffinity, max_age_s: i64) -> String {
    let mut header = format!("{cookie}; Max-Age={max_age_s}");
    let mut add = |attribute: &str, value: Option<&str>| {
        header.push_str("; ");
        header.push_str(attribute);
        if let Some(value) = value {
            header.push('=');
            header.push_str(value);
        }
    };
    if let Some(domain) = super::non_empty(affinity.domain.as_ref()) {
        add("Domain", Some(domain));
    }
    if affinity.http_only == Some(true) {
        add("HttpOnly", None);
    }
    if affinity.partitioned == Some(true) {
        add("Partitioned", None);
    }
    if let Some(path) = super::non_empty(affinity.path.as_ref()) {
        add("Path", Some(path));
    }
    if let Some(same_site) = affinity.same_site {
        add("SameSite", Some(same_site.as_str()));
    }
    if affinity.secure == Some(true) {
        add("Secure", None);
    }
    header
}

/// The `Set-Cookie` value that makes a browser drop the cookie. A browser knows a cookie by name,
/// domain and path, so the attributes must be those it was set with.
pub(super) fn expire(cookie: &str, affinity: &SessionAffinity) -> String {
    set(cookie, affinity, -1)
}

/// The cookie in a `Set-Cookie` value, as `name=value`.
pub(super) fn in_header(header: &str) -> Option<String> {
    let cookie = header.split(';').next()?.trim().to_owned();
    usable(Some(&cookie)).map(str::to_owned)
}

/// A pattern for `Cookie` headers that have this cookie among others.
pub(super) fn pattern(cookie: &str) -> String {
    format!(r"^(.*;\s*)?{}(;.*)?$", escape(cookie))
}

/// A pattern that means the text itself.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if SPECIAL.contains(&character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use tidegate_api::canary::analysis::SameSite;

    use super::*;

    #[test]
    fn attributes_come_in_a_fixed_order_and_only_when_set() {
        let bare = SessionAffinity { cookie_name: "ck".to_owned(), ..SessionAffinity::default() };
        assert_eq!(set("ck=Ab", &bare, 60), "ck=Ab; Max-Age=60");
        let full = SessionAffinity {
            domain: Some("example.com".to_owned()),
            http_only: Some(true),
            partitioned: Some(true),
            path: Some("/shop".to_owned()),
            same_site: Some(SameSite::Strict),
            secure: Some(true),
            ..bare
        };
        let attributes =
            "Domain=example.com; HttpOnly; Partitioned; Path=/shop; SameSite=Strict; Secure";
        assert_eq!(set("ck=Ab", &full, 60), format!("ck=Ab; Max-Age=60; {attributes}"));
        assert_eq!(expire("ck=Ab", &full), format!("ck=Ab; Max-Age=-1; {attributes}"));
    }

    #[test]
    fn a_cookie_is_recovered_from_the_header_that_set_it() {
        let affinity = SessionAffinity { path: Some("/".to_owned()), ..SessionAffinity::default() };
        assert_eq!(in_header(&set("ck=Ab", &affinity, 60)).as_deref(), Some("ck=Ab"));
        for useless in ["", "=xyz; Max-Age=1", "name=", "name"] {
            assert_eq!(in_header(useless), None, "{useless:?}");
        }
    }

    #[test]
    fn names_are_taken_literally_and_patterns_are_anchored() {
        assert_eq!(pattern("my.ck=Ab"), r"^(.*;\s*)?my\.ck=Ab(;.*)?$");
        assert_eq!(escape(r"a+b(c)[d]{e}|f^g$h\i*j?k"), r"a\+b\(c\)\[d\]\{e\}\|f\^g\$h\\i\*j\?k");
        assert_eq!(escape("shop-canary_ck"), "shop-canary_ck");
    }
}
