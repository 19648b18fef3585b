//! Groups of clients that share limits.

use std::net::{IpAddr, Ipv6Addr};

/// The clients that count as one: all of an IPv4 address, or of an IPv6 network of 64 bits. A
/// site is given at least such a network (RFC 6177), so that a limit on single addresses would
/// limit no site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientOrigin(IpAddr);

impl ClientOrigin {
    /// The origin of a client with this address.
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                Self(Ipv6Addr::from_bits(network).into())
            }
            address => Self(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_counts_by_its_ipv4_address_or_its_ipv6_network() {
        let same =
            |a: &str, b: &str| ClientOrigin::of(a.parse().unwrap()) == ClientOrigin::of(b.parse().unwrap());
        assert!(same("192.0.2.1", "192.0.2.1") && same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(same("2001:db8::1", "2001:db8::ffff:0:0:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
    }
}
