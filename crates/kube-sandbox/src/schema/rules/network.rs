//! Addresses, networks and URLs in rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: an address and its prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) address: IpAddr,
    pub(super) bits: u8,
}

/// The parts of an absolute URL or absolute path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) scheme: String,
    pub(super) host: String,
    pub(super) path: String,
    query: String,
}

/// An address in the strict syntax of Go's `netip`: no zone, no mapped IPv4, no leading zeros.
pub(super) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let refused =
        |why: &str| format!("IP Address {text:?} parse error during conversion from string: {why}");
    let address: IpAddr =
        text.parse().map_err(|_| refused(&format!("ParseAddr({text:?}): unable to parse IP")))?;
    match address {
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => {
            Err(refused("IPv4-mapped IPv6 address is not allowed"))
        }
        address => Ok(address),
    }
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

pub(super) fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => matches!(address.octets(), [0xff, scope, ..] if scope & 0xf == 2),
    }
}

pub(super) fn is_global_unicast(address: IpAddr) -> bool {
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(is_broadcast
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local(address))
}

// === impl Network ===

impl Network {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // Kubernetes repeats these words, too.
        let words = "network address parse error during conversion from string";
        let refused = |why: &str| format!("{words}: {words}: netip.ParsePrefix({text:?}): {why}");
        let (address, bits) = text.split_once('/').ok_or_else(|| refused("no '/'"))?;
        let address = parse_ip(address).map_err(|_| refused("unable to parse IP"))?;
        let plain = !bits.is_empty()
            && bits.bytes().all(|byte| byte.is_ascii_digit())
            && (bits == "0" || !bits.starts_with('0'));
        let most = if address.is_ipv4() { 32 } else { 128 };
        match bits.parse() {
            Ok(bits) if plain && bits <= most => Ok(Self { address, bits }),
            Ok(_) if plain => Err(refused("prefix length out of range")),
            _ => Err(refused(&format!("bad bits after slash: {bits:?}"))),
        }
    }

    /// The network with its host bits cleared.
    pub(super) fn masked(self) -> Self {
        Self { address: mask(self.address, self.bits), ..self }
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && mask(address, self.bits) == mask(self.address, self.bits)
    }

    pub(super) fn contains_network(self, other: Self) -> bool {
        other.bits >= self.bits && self.contains(other.address)
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn mask(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or_default();
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

// === impl Url ===

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = || {
            let words = "URL parse error during conversion from string";
            format!("{words}: parse {text:?}: invalid URI for request")
        };
        if !crate::schema::formats::is_request_uri(text) {
            return Err(refused());
        }
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let (before, query) = text.split_once('?').unwrap_or((text, ""));
        if before.starts_with('/') {
            return Ok(Self {
                scheme: String::new(),
                host: String::new(),
                path: before.to_owned(),
                query: query.to_owned(),
            });
        }
        let (scheme, rest) = before.split_once(':').ok_or_else(refused)?;
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    /// The host without its port and brackets.
    pub(super) fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(literal) => literal.split_once(']').map_or(literal, |(address, _)| address),
            None => self.host.rsplit_once(':').map_or(&self.host, |(host, _)| host),
        }
    }

    pub(super) fn port(&self) -> &str {
        let after = self.host.rsplit_once(']').map_or(self.host.as_str(), |(_, after)| after);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Keys and values of the query, in order.
    pub(super) fn query(&self) -> impl Iterator<Item = (String, String)> {
        self.query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(key), decode(value))
        })
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let tail = &rest[first.len_utf8()..];
        let escaped = (first == '%').then(|| u8::from_str_radix(tail.get(..2)?, 16).ok()).flatten();
        match (first, escaped) {
            (_, Some(byte)) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
                continue;
            }
            ('+', None) => bytes.push(b' '),
            (other, None) => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
