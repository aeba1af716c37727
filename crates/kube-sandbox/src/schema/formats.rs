//! The `format`s that Kubernetes enforces in custom resources.
//!
//! An unknown format is ignored, and so is one for another type. Dashes in names are ignored:
//! `date-time` and `datetime` are the same.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use regex::Regex;
use serde_json::Value;

use super::{Kind, Kinds, raw};

/// An enforced format.
#[derive(Debug, Clone)]
pub(super) struct Format {
    /// The name in the schema.
    pub(super) name: String,
    /// The check for strings; numeric formats have none.
    pub(super) check: Option<fn(&str) -> bool>,
}

impl Format {
    /// The enforced format for these types, if any.
    pub(super) fn find(name: &str, kinds: Kinds) -> Option<Self> {
        let check = match kinds {
            Kinds::Any | Kinds::IntegerOrString | Kinds::One(Kind::String) => {
                Some(string_format(&name.replace('-', ""))?)
            }
            Kinds::One(Kind::Integer) if matches!(name, "int32" | "int64") => None,
            Kinds::One(Kind::Number) if matches!(name, "float" | "double") => None,
            Kinds::One(_) => return None,
        };
        Some(Self { name: name.to_owned(), check })
    }
}

/// Formats in an uncompiled schema that are not enforced.
pub(crate) fn unknown_formats(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect_unknown(schema, raw::MAX_DEPTH, &mut found);
    found
}

fn collect_unknown(schema: &Value, levels: usize, found: &mut Vec<String>) {
    let Some(levels) = levels.checked_sub(1) else { return };
    let name = raw::text(schema, "format");
    let kinds = Kind::parse(raw::text(schema, "type")).map_or(Kinds::Any, Kinds::One);
    if !name.is_empty() && Format::find(name, kinds).is_none() {
        found.push(name.to_owned());
    }
    let single = ["items", "not", "additionalProperties"];
    let single = single.into_iter().filter_map(|name| raw::child(schema, name));
    let listed = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|name| raw::list(schema, name));
    for below in raw::map(schema, "properties").values().chain(single).chain(listed) {
        collect_unknown(below, levels, found);
    }
}

fn string_format(normalized: &str) -> Option<fn(&str) -> bool> {
    Some(match normalized {
        "bsonobjectid" => |text| text.len() == 24 && is_hex(text),
        "uri" => is_request_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && parse_ip(text).is_some(),
        "ipv6" => |text| text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| uuid_groups(text).is_some(),
        "uuid3" => |text| is_uuid(text, '3', false),
        "uuid4" => |text| is_uuid(text, '4', true),
        "uuid5" => |text| is_uuid(text, '5', true),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| SSN.is_match(text),
        "hexcolor" => |text| {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && is_hex(digits)
        },
        "rgbcolor" => |text| RGB.is_match(text),
        "byte" => is_base64,
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| text.len() <= 63 && is_label(text),
        "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_label),
        _ => return None,
    })
}

static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    fixed(concat!(
        r"^(?:[a-zA-Z0-9\p{S}\p{L}](?:-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?",
        r"|(?:[a-zA-Z0-9\p{S}\p{L}](?:[a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?\.)+",
        r"[a-zA-Z\p{L}]{2,63})$"
    ))
});
static SSN: LazyLock<Regex> = LazyLock::new(|| fixed("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"\s*(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*";
    fixed(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    fixed(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}",
        "|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
});

fn fixed(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns in this file compile")
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Lower-case letters, digits and inner dashes.
fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| inner(byte) || byte == b'-')
        && text.bytes().next().is_some_and(inner)
        && text.bytes().last().is_some_and(inner)
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && HOSTNAME.is_match(text)
}

/// Accepts the same as Go's `url.ParseRequestURI`: an absolute path, or anything with a scheme.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return false;
    }
    let Some((scheme, rest)) = text.split_once(':').filter(|_| !text.starts_with('/')) else {
        return text.starts_with('/') && escapes_fit(text);
    };
    let scheme_fits = scheme.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    // Without a slash the rest is opaque and is not checked.
    scheme_fits && (!rest.starts_with('/') || (escapes_fit(rest) && authority_fits(rest)))
}

/// Whether every `%` of a path begins an escape; queries are not checked.
fn escapes_fit(text: &str) -> bool {
    let path = text.split_once('?').map_or(text, |(path, _)| path);
    path.split('%').skip(1).all(|escape| escape.get(..2).is_some_and(is_hex))
}

fn authority_fits(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix("//") else { return true };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, _) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match host.strip_prefix('[') {
        Some(literal) => match literal.split_once(']') {
            Some((_, port)) => port.strip_prefix(':').unwrap_or(port),
            None => return false,
        },
        None => host.rsplit_once(':').map_or("", |(_, port)| port),
    };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && !host.contains(['"', '<', '>', '\\', '^', '`', '{', '|', '}'])
}

fn is_email(text: &str) -> bool {
    let address = match text.trim().strip_suffix('>') {
        Some(named) => match named.rsplit_once('<') {
            Some((_, address)) => address,
            None => return false,
        },
        None => text.trim(),
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |part: &str| {
        !part.is_empty()
            && part.chars().all(|character| {
                character.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character)
            })
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || local.split('.').all(atom)) && domain.split('.').all(atom)
}

/// Parses an address like Kubernetes: IPv4 may have leading zeros.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let digits = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    match parse_ip(address) {
        Some(IpAddr::V4(_)) => digits && bits.parse::<u8>().is_ok_and(|bits| bits <= 32),
        Some(IpAddr::V6(_)) => digits && bits.parse::<u8>().is_ok_and(|bits| bits <= 128),
        None => false,
    }
}

fn is_mac(text: &str) -> bool {
    let grouped = |separator: char, digits: usize| {
        let parts: Vec<_> = text.split(separator).collect();
        let fits = parts.iter().all(|part| part.len() == digits && is_hex(part));
        fits && matches!(parts.len() * digits, 12 | 16 | 40)
    };
    let bare = is_hex(text) && matches!(text.len(), 12 | 16 | 40);
    grouped(':', 2) || grouped('-', 2) || grouped('.', 4) || bare
}

/// The 32 digits of a UUID, in which each dash is optional.
fn uuid_groups(text: &str) -> Option<String> {
    let mut rest = text;
    let mut digits = String::with_capacity(32);
    for (position, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if position > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let group = rest.get(..length).filter(|group| is_hex(group))?;
        digits.push_str(group);
        rest = rest.get(length..)?;
    }
    rest.is_empty().then_some(digits)
}

fn is_uuid(text: &str, version: char, with_variant: bool) -> bool {
    uuid_groups(text).is_some_and(|digits| {
        let variant = digits.chars().nth(16);
        digits.chars().nth(12) == Some(version)
            && (!with_variant || variant.is_some_and(|digit| "89abAB".contains(digit)))
    })
}

fn without_separators(text: &str) -> String {
    text.chars().filter(|character| !matches!(character, ' ' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = without_separators(text);
    let value = |index: usize, character: char| match character {
        'X' if index == 9 => Some(10),
        other => other.to_digit(10),
    };
    let weighted: Option<Vec<u32>> = digits
        .chars()
        .zip((1_u32..=10).rev())
        .enumerate()
        .map(|(index, (character, weight))| value(index, character).map(|digit| digit * weight))
        .collect();
    digits.len() == 10 && weighted.is_some_and(|sums| sums.iter().sum::<u32>() % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> =
        without_separators(text).chars().map(|character| character.to_digit(10)).collect();
    digits.is_some_and(|digits| {
        let sum: u32 = digits.iter().zip([1, 3].iter().cycle()).map(|(a, b)| a * b).sum();
        digits.len() == 13 && sum.is_multiple_of(10)
    })
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .chars()
        .rev()
        .filter_map(|character| character.to_digit(10))
        .enumerate()
        .map(|(index, digit)| match (index % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    CREDIT_CARD.is_match(&digits) && sum.is_multiple_of(10)
}

/// Padded base64 of at least one byte.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/')
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
        && text.parse::<jiff::civil::Date>().is_ok()
}

/// A date, `t`, and a time of day with an offset; the time is compared as text, as in Kubernetes.
fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some((clock, zone)) = time.split_at_checked(8) else { return false };
    let field = |start: usize, most: &str| {
        clock
            .get(start..start + 2)
            .is_some_and(|two| two.bytes().all(|byte| byte.is_ascii_digit()) && two <= most)
    };
    let colons = clock.get(2..3) == Some(":") && clock.get(5..6) == Some(":");
    is_date(date) && colons && field(0, "23") && field(3, "59") && field(6, "59") && is_zone(zone)
}

fn is_zone(zone: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_offset = |zone: &str| {
        zone == "z"
            || zone.strip_prefix(['+', '-']).and_then(|zone| zone.split_once(':')).is_some_and(
                |(hours, minutes)| {
                    hours.len() == 2 && minutes.len() == 2 && digits(hours) && digits(minutes)
                },
            )
    };
    if is_offset(zone) {
        return true;
    }
    // A fraction: any one character, then digits.
    let Some(first) = zone.chars().next() else { return false };
    let fraction = &zone[first.len_utf8()..];
    let end = fraction.find(|character: char| !character.is_ascii_digit()).unwrap_or(0);
    let (count, rest) = fraction.split_at(end);
    digits(count) && is_offset(rest)
}

/// A Go duration, or a Scala one: `22 ns`, `3 days`.
fn is_duration(text: &str) -> bool {
    if is_go_duration(text) {
        return true;
    }
    let mut found = false;
    let mut rest = text;
    while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
        let tail = rest[start..].trim_start_matches(|character: char| character.is_ascii_digit());
        let unit_start = tail.trim_start();
        let unit_end = unit_start
            .find(|character: char| !(character.is_ascii_alphabetic() || character == 'µ'))
            .unwrap_or(unit_start.len());
        let (unit, after) = unit_start.split_at(unit_end);
        found |= is_long_unit(&unit.to_lowercase());
        rest = after;
    }
    found
}

fn is_long_unit(unit: &str) -> bool {
    let exact = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    let prefixes = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    exact.contains(&unit) || prefixes.iter().any(|prefix| unit.starts_with(prefix))
}

/// `1h30m`, `-1.5s`, `0`.
pub(super) fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let end = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let has_digit = number.bytes().any(|byte| byte.is_ascii_digit());
        if !has_digit || number.matches('.').count() > 1 {
            return false;
        }
        let end = tail
            .find(|character: char| character.is_ascii_digit() || character == '.')
            .unwrap_or(tail.len());
        let (unit, after) = tail.split_at(end);
        if !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        let cases: [(&str, &[&str], &[&str]); 22] = [
            (
                "date-time",
                &["2024-01-02T03:04:05Z", "2024-01-02t03:04:05.123z", "2024-01-02T03:04:05+01:00"],
                &["2024-01-02", "2024-13-02T03:04:05Z", "2024-01-02T24:04:05Z", "tttt", "é"],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "24-02-29", ""]),
            ("uri", &["http://a.b/c?d", "/x", "mailto:a"], &["", "a b", "x", "http://a:b/", "/%z"]),
            ("email", &["a@b.c", "A <a@b.c>"], &["a", "a@", "@b", "a b@c"]),
            ("hostname", &["a.example.com", "a"], &["-a", "a_b", ""]),
            ("ipv4", &["1.2.3.4", "01.2.3.4"], &["1.2.3", "1.2.3.256", "::1", "1.2.3.4.5"]),
            ("ipv6", &["::1", "fe80::1"], &["1.2.3.4", ":"]),
            ("cidr", &["10.0.0.0/8", "fe80::/10"], &["10.0.0.0", "10.0.0.0/33", "10.0.0.0/+8"]),
            ("mac", &["00:00:5e:00:53:01", "0000.5e00.5301"], &["00:00", "00:00:5e:00:53:0g"]),
            ("uuid", &["6ba7b810-9dad-11d1-80b4-00c04fd430c8"], &["6ba7b810", "é"]),
            (
                "uuid4",
                &["9B7B9B7B-9B7B-4B7B-9B7B-9B7B9B7B9B7B"],
                &["9B7B9B7B-9B7B-1B7B-9B7B-9B7B9B7B9B7B"],
            ),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "1"]),
            ("creditcard", &["4111 1111 1111 1111"], &["4111111111111112"]),
            ("ssn", &["111-11-1111"], &["111-1-1111"]),
            ("hexcolor", &["#fff", "FFFFFF"], &["#ffff", "#ggg"]),
            ("rgbcolor", &["rgb(255, 0,12)"], &["rgb(256,0,0)"]),
            ("byte", &["aGk=", "aGkh"], &["", "aGk", "====", "a*k="]),
            ("duration", &["1h30m", "1.5s", "22 ns", "3 days", "-5m"], &["", "x", "5", "1y"]),
            ("password", &["", "x"], &[]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
            ("k8s-short-name", &["a-b"], &["a.b", "A", "-a", ""]),
            ("k8s-long-name", &["a-b.c"], &["a..b", "A.b"]),
        ];
        for (name, good, bad) in cases {
            let format = Format::find(name, Kinds::One(Kind::String)).expect(name);
            let check = format.check.expect("string formats check");
            for text in good {
                assert!(check(text), "{name} takes {text:?}");
            }
            for text in bad {
                assert!(!check(text), "{name} refuses {text:?}");
            }
        }
    }

    #[test]
    fn formats_that_do_not_go_with_the_type_are_ignored() {
        for (name, kinds) in [
            ("colour", Kinds::One(Kind::String)),
            ("date", Kinds::One(Kind::Integer)),
            ("int32", Kinds::One(Kind::Number)),
            ("uri", Kinds::One(Kind::Object)),
        ] {
            assert!(Format::find(name, kinds).is_none(), "{name} on {kinds:?}");
        }
        assert!(Format::find("int32", Kinds::One(Kind::Integer)).is_some());
    }
}
