//! The addresses that a Canary may make the operator connect to.
//!
//! Services in the cluster live at private addresses; hooks and metrics need them, so those are open. Closed are
//! the operator's own machine (loopback and the addresses of its interfaces), its link (where clouds keep the
//! credentials of a node), other well-known metadata servers, nodes, and addresses that are no single host.
//! A pod on the network of its node has the node's address: it is closed too, unless
//! [`Policy::allow`] opens it. Machines that are no nodes of the cluster, such as those of a control plane
//! that a provider runs, are closed with [`Policy::deny`].
//!
//! An IPv4 address can hide in an IPv6 one (mapped, translated, tunnelled): it is looked for there.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    str::FromStr,
};

use crate::cluster::nodes::NodeAddresses;

/// The addresses that requests may reach, and how many may be in flight. The default is the strict one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// For a cluster in this process, whose services live on loopback.
    pub allow_loopback: bool,
    /// Open, before all other rules.
    pub allow: Vec<Network>,
    /// Closed in addition.
    pub deny: Vec<Network>,
    /// Obey `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
    pub environment_proxies: bool,
    /// Names of servers are left to those proxies: for networks in which only they can look them up.
    /// The authors of Canaries then reach all that the proxy reaches.
    pub proxy_resolves: bool,
    /// In all. Each may hold a body of its cap, so this bounds memory too.
    pub in_flight_max: usize,
    /// On behalf of one namespace, so that eight of them can be stuck and others go on.
    pub in_flight_per_namespace_max: usize,
}

/// Checks addresses against the policy, the nodes and the interfaces of that moment.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) policy: Policy,
    pub(super) nodes: NodeAddresses,
    /// [`is_interface`], but for tests.
    pub(super) is_interface: fn(IpAddr) -> bool,
}

/// A range of addresses, `10.0.0.0/8` or `fd00::/8`; a single address is a range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// A text is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of addresses such as 10.0.0.0/8")]
pub struct NetworkError(String);

/// Metadata servers outside link-local ranges: Alibaba, Oracle, Azure; AWS, the credentials of its pods,
/// Google, Oracle and Scaleway by IPv6.
const METADATA: [IpAddr; 8] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
];

/// The address that `host` spells, in any way a C library would read it: `127.1`, `0x7f000001`,
/// `0177.0.0.1`, `2130706433`.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // A zone (`fe80::1%eth0`) names a link, and every link-local address is closed anyway.
    let bare = bare.split('%').next().unwrap_or_default();
    if let Ok(address) = bare.parse() {
        return Some(address);
    }
    let bare = bare.strip_suffix('.').unwrap_or(bare);
    let numbers: Vec<u32> = bare.split('.').map(number).collect::<Option<_>>()?;
    let (last, leading) = numbers.split_last()?;
    if leading.len() > 3 || leading.iter().any(|part| *part > 255) {
        return None;
    }
    // The last number fills all the bytes that the others leave.
    let bits_left = 8 * (4 - u32::try_from(leading.len()).ok()?);
    if u64::from(*last) >= 1_u64 << bits_left {
        return None;
    }
    let high = leading.iter().zip([24_u32, 16, 8]).fold(0, |sum, (part, by)| sum | (part << by));
    Some(IpAddr::V4(Ipv4Addr::from(high | last)))
}

/// Decimal, octal with a leading 0, or hexadecimal with a leading 0x.
fn number(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some("") => ("0", 16),
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (lower.get(1..)?, 8),
        None => (lower.as_str(), 10),
    };
    let all_digits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    all_digits.then(|| u32::from_str_radix(digits, radix).ok())?
}

// === impl Policy ===

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_loopback: false,
            allow: Vec::new(),
            deny: Vec::new(),
            environment_proxies: true,
            proxy_resolves: false,
            in_flight_max: 64,
            in_flight_per_namespace_max: 8,
        }
    }
}

impl Policy {
    fn builtin_refusal(&self, address: IpAddr) -> Option<&'static str> {
        if METADATA.contains(&address) {
            return Some("its address is that of a metadata server");
        }
        if address.is_loopback() {
            return (!self.allow_loopback).then_some("its address is the operator's own");
        }
        let (is_link_local, is_nobody) = match address {
            IpAddr::V4(v4) => {
                // 0.0.0.0/8 is "this machine", 240.0.0.0/4 and broadcast are no host's.
                let first = v4.octets()[0];
                (v4.is_link_local(), first == 0 || first >= 240 || v4.is_multicast())
            }
            IpAddr::V6(v6) => {
                (v6.is_unicast_link_local(), v6.is_unspecified() || v6.is_multicast())
            }
        };
        if is_link_local {
            return Some("its address is link-local, where metadata servers are");
        }
        is_nobody.then_some("its address is not one of a host")
    }
}

// === impl Guard ===

impl Guard {
    /// Why this address is closed; `None` if it is open.
    pub(super) fn refusal(&self, address: IpAddr) -> Option<&'static str> {
        let Self { policy, nodes, is_interface } = self;
        let forms = forms(address);
        let is_in = |networks: &[Network]| {
            networks.iter().any(|network| forms.iter().any(|form| network.contains(*form)))
        };
        if is_in(&policy.allow) {
            return None;
        }
        if is_in(&policy.deny) {
            return Some("its address is denied by --deny-addresses");
        }
        let refusal = forms.iter().find_map(|form| policy.builtin_refusal(*form));
        refusal.or_else(|| {
            let is_node = forms.iter().any(|form| nodes.contains(*form));
            let is_own = !policy.allow_loopback && forms.iter().any(|form| is_interface(*form));
            match (is_node, is_own) {
                (true, _) => Some("its address is that of a node; --allow-addresses opens it"),
                (false, true) => {
                    Some("its address is the operator's own; --allow-addresses opens it")
                }
                (false, false) => None,
            }
        })
    }
}

/// Whether an interface of this machine has the address: the kernel then takes it as the source too. Asked at every
/// connection, as interfaces come and go. Nothing is sent.
pub(super) fn is_interface(address: IpAddr) -> bool {
    let any = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

/// The address, and the IPv4 addresses that a gateway or the kernel would take it for.
fn forms(address: IpAddr) -> Vec<IpAddr> {
    let mut forms = vec![address];
    if let IpAddr::V6(v6) = address {
        let segments = v6.segments();
        let v4 = |[high, low]: [u16; 2]| {
            IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        };
        match segments {
            // Unspecified and loopback, which are not IPv4 in disguise.
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => {}
            // Compatible (`::a.b.c.d`), mapped (`::ffff:a.b.c.d`), translated (`::ffff:0:a.b.c.d`);
            // NAT64 by the well-known prefix, and by the one for local use.
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
            | [0x64, 0xff9b, 1, _, _, _, high, low]
            // 6to4.
            | [0x2002, high, low, ..] => forms.push(v4([high, low])),
            // Teredo: the server's address, and the client's inverted.
            [0x2001, 0, high, low, _, _, client_high, client_low] => {
                forms.extend([v4([high, low]), v4([!client_high, !client_low])]);
            }
            _ => {}
        }
    }
    forms
}

// === impl Network ===

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        let shared = |a: u128, b: u128, width: u32| {
            let ignored = width - u32::from(self.prefix);
            a.checked_shr(ignored).unwrap_or(0) == b.checked_shr(ignored).unwrap_or(0)
        };
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => shared(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => shared(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let error = || NetworkError(text.to_owned());
        let (address, prefix) = match text.trim().split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(width), str::parse).map_err(|_| error())?;
        if prefix > width { Err(error()) } else { Ok(Self { address, prefix }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(policy: &Policy, host: &str) -> bool {
        refusal(policy, &NodeAddresses::default(), host).is_some()
    }

    fn refusal(policy: &Policy, nodes: &NodeAddresses, host: &str) -> Option<&'static str> {
        let address = literal(host).unwrap_or_else(|| panic!("{host} is an address"));
        let is_interface = |_| false;
        Guard { policy: policy.clone(), nodes: nodes.clone(), is_interface }.refusal(address)
    }

    #[test]
    fn closed_addresses_are_refused_in_every_spelling() {
        let closed = [
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "017700000001",
            "127.0.0.1.",
            "127.255.255.254",
            "[::1]",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:7f00:1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::7f00:1",
            "2002:7f00:1::",
            "2001:0:7f00:1::",
            "2001:0:808:808::80ff:fffe",
            "0.0.0.0",
            "0",
            "0.1.2.3",
            "::",
            "::ffff:0.0.0.0",
            "169.254.169.254",
            "0xa9fea9fe",
            "2852039166",
            "169.254.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "fe80::a9fe:a9fe",
            "[fe80::1%25eth0]",
            "febf::1",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:100.100.100.200",
            "224.0.0.1",
            "239.255.255.255",
            "ff02::1",
            "240.0.0.1",
            "255.255.255.255",
        ];
        for host in closed {
            assert!(refused(&Policy::default(), host), "{host}");
        }
    }

    #[test]
    fn services_pods_and_the_internet_stay_open() {
        let open = [
            "10.96.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "8.8.8.8",
            "fd00::1",
            "2001:4860:4860::8888",
            "::ffff:10.0.0.1",
            "64:ff9b::808:808",
        ];
        for host in open {
            assert!(!refused(&Policy::default(), host), "{host}");
        }
    }

    #[test]
    fn names_are_not_taken_for_addresses() {
        for host in [
            "podinfo",
            "a.b",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.256",
            "0x7g",
            "08",
            "",
            "4294967296",
            "1..2",
            "127.0.0.1x",
        ] {
            assert_eq!(literal(host), None, "{host}");
        }
    }

    #[test]
    fn an_administrator_opens_and_closes_ranges() {
        let policy = Policy {
            allow: vec!["169.254.20.0/24".parse().unwrap()],
            deny: vec!["10.0.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()],
            ..Policy::default()
        };
        let cases = [
            ("opened", "169.254.20.10", false),
            ("still closed", "169.254.169.254", true),
            ("closed", "10.0.3.4", true),
            ("closed, also behind a mapping", "::ffff:10.0.3.4", true),
            ("outside the range", "10.1.0.1", false),
            ("closed, IPv6", "fd12::1", true),
        ];
        for (reason, host, want) in cases {
            assert_eq!(refused(&policy, host), want, "{reason}");
        }
        let local = Policy { allow_loopback: true, ..Policy::default() };
        assert!(!refused(&local, "127.0.0.1"));
        assert!(!refused(&local, "::1"));
        assert!(!refused(&local, "::ffff:127.0.0.1"));
        assert!(refused(&local, "169.254.169.254"));
    }

    #[test]
    fn nodes_are_closed_in_every_spelling_unless_an_administrator_opens_them() {
        let nodes = NodeAddresses::default();
        let known = ["10.0.0.5", "203.0.113.5", "fd00::5"].into_iter();
        nodes.set("a", known.map(|text| text.parse().unwrap()).collect());
        let why = Some("its address is that of a node; --allow-addresses opens it");
        let strict = Policy::default();
        for host in [
            "10.0.0.5",
            "0x0a000005",
            "167772165",
            "::ffff:10.0.0.5",
            "64:ff9b::a00:5",
            "2002:a00:5::",
            "203.0.113.5",
            "fd00::5",
            "[fd00:0:0::5]",
        ] {
            assert_eq!(refusal(&strict, &nodes, host), why, "{host}");
        }
        for host in ["10.0.0.6", "203.0.113.6", "fd00::6", "::ffff:10.0.0.6"] {
            assert_eq!(refusal(&strict, &nodes, host), None, "{host}");
        }
        let opened = Policy { allow: vec!["10.0.0.0/24".parse().unwrap()], ..Policy::default() };
        assert_eq!(refusal(&opened, &nodes, "10.0.0.5"), None);
        assert_eq!(refusal(&opened, &nodes, "::ffff:10.0.0.5"), None);
        assert_eq!(refusal(&opened, &nodes, "fd00::5"), why, "not in the range");
        let closed = Policy { deny: vec!["10.0.0.0/24".parse().unwrap()], ..Policy::default() };
        let by_hand = Some("its address is denied by --deny-addresses");
        assert_eq!(refusal(&closed, &nodes, "10.0.0.5"), by_hand, "a node or not");
        nodes.set("b", vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        let local = Policy { allow_loopback: true, ..Policy::default() };
        assert_eq!(refusal(&local, &nodes, "127.0.0.1"), why, "a node first of all");
        assert_eq!(refusal(&local, &nodes, "127.0.0.2"), None);
    }

    #[test]
    fn ranges_are_read_strictly() {
        let everything: Network = "0.0.0.0/0".parse().unwrap();
        assert!(everything.contains(IpAddr::V4(Ipv4Addr::BROADCAST)));
        assert!(!everything.contains(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        let all_v6: Network = "::/0".parse().unwrap();
        assert!(all_v6.contains(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        let one: Network = "10.0.0.7".parse().unwrap();
        assert!(one.contains("10.0.0.7".parse().unwrap()));
        assert!(!one.contains("10.0.0.6".parse().unwrap()));
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/", "10.0/8", "x/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
