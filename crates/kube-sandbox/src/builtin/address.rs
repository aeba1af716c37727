//! Checks of IP addresses and networks, for Services, endpoints, policies and nodes.
//!
//! Called by the validation of those kinds, with their error texts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::at::{At, Errors};

/// Refuses invalid IP addresses and ambiguous spellings of valid ones.
pub(crate) fn check_ip(address: &At<'_>, errors: &mut Errors) {
    let text = address.text();
    match parse(text) {
        None => errors
            .push(address.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
        Some(_) if text.parse::<IpAddr>().is_err() => {
            errors.push(address.invalid("must not have leading 0s"));
        }
        Some(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            errors.push(address.invalid("must not be an IPv4-mapped IPv6 address"));
        }
        Some(_) => {}
    }
}

/// Refuses addresses that cannot be an endpoint of a service.
pub(crate) fn check_endpoint_ip(address: &At<'_>, errors: &mut Errors) {
    let text = address.text();
    let Some(ip) = parse(text) else {
        errors.push(address.invalid("must be a valid IP address"));
        return;
    };
    let refused = [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (
            is_link_local(ip),
            "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned(),
        ),
        (
            is_link_local_multicast(ip),
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    for (_, text) in refused.into_iter().filter(|(applies, _)| *applies) {
        errors.push(address.invalid(text));
    }
}

/// Accepts IPv4 addresses with leading zeroes, which older parsers ignored.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip);
    }
    let octets = text
        .split('.')
        .map(|part| {
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| part.trim_start_matches('0')).and_then(|part| match part {
                "" => Some(0),
                digits => digits.parse::<u8>().ok(),
            })
        })
        .collect::<Option<Vec<_>>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// A network such as `10.0.0.0/8`.
pub(crate) fn check_cidr(cidr: &At<'_>, errors: &mut Errors) {
    let text = cidr.text();
    let Some((ip, len)) = parse_cidr(text) else {
        errors
            .push(cidr.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"));
        return;
    };
    if mask(ip, len) != ip {
        errors.push(cidr.invalid("must not have bits set beyond the prefix length"));
    }
}

/// Parses address and prefix length.
pub(crate) fn parse_cidr(text: &str) -> Option<(IpAddr, u32)> {
    let (ip, len) = text.split_once('/')?;
    let ip = ip.parse::<IpAddr>().ok()?;
    let len_max = if ip.is_ipv4() { 32 } else { 128 };
    let len = len.parse::<u32>().ok().filter(|len| *len <= len_max)?;
    Some((ip, len))
}

/// Whether `inner` is a smaller network within `outer`.
pub(crate) fn is_strict_subset(inner: (IpAddr, u32), outer: (IpAddr, u32)) -> bool {
    inner.0.is_ipv4() == outer.0.is_ipv4()
        && outer.1 < inner.1
        && mask(inner.0, outer.1) == mask(outer.0, outer.1)
}

fn mask(ip: IpAddr, len: u32) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let bits = u32::MAX.checked_shl(32 - len).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from(u32::from(ip) & bits))
        }
        IpAddr::V6(ip) => {
            let bits = u128::MAX.checked_shl(128 - len).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from(u128::from(ip) & bits))
        }
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(ip) => ip.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_that_reach_no_endpoint_are_refused() {
        let cases = [
            ("an ordinary one", "10.1.2.3", None),
            ("an ordinary IPv6 one", "2001:db8::1", None),
            ("no address", "web", Some("must be a valid IP address")),
            ("unspecified", "0.0.0.0", Some("may not be unspecified (0.0.0.0)")),
            (
                "loopback",
                "127.0.0.1",
                Some("may not be in the loopback range (127.0.0.0/8, ::1/128)"),
            ),
            (
                "link-local, where clouds keep their secrets",
                "169.254.169.254",
                Some("may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
            ),
            (
                "link-local multicast",
                "224.0.0.9",
                Some("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
            ),
        ];
        for (reason, text, want) in cases {
            let value = json!(text);
            let mut errors = Errors::new();
            check_endpoint_ip(&At::new(Some(&value), "ip"), &mut errors);
            let got = errors.first().map(|error| error.detail.as_str());
            assert_eq!(got, want, "{reason}");
        }
    }

    #[test]
    fn addresses_are_written_one_way() {
        let cases = [
            ("plain", "10.0.0.1", None),
            ("leading zeroes", "010.0.0.1", Some("must not have leading 0s")),
            ("a mapped one", "::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            (
                "too large",
                "10.0.0.256",
                Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            ),
        ];
        for (reason, text, want) in cases {
            let value = json!(text);
            let mut errors = Errors::new();
            check_ip(&At::new(Some(&value), "ip"), &mut errors);
            let got = errors.first().map(|error| error.detail.as_str());
            assert_eq!(got, want, "{reason}");
        }
    }

    #[test]
    fn a_network_within_another_is_found() {
        let of = |text| parse_cidr(text).expect("a network");
        assert!(is_strict_subset(of("10.1.0.0/16"), of("10.0.0.0/8")));
        assert!(!is_strict_subset(of("10.0.0.0/8"), of("10.0.0.0/8")));
        assert!(!is_strict_subset(of("11.0.0.0/16"), of("10.0.0.0/8")));
        assert_eq!(parse_cidr("10.0.0.0/33"), None);
    }
}
