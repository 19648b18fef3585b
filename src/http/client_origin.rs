//! Where clients come from, as far as they share limits.

use std::net::{IpAddr, Ipv6Addr};

/// The clients that count as one: those of an IPv4 address, or of the first half of an IPv6 address. A site is given a whole
/// network of the latter (RFC 6177), so that single addresses would limit nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientOrigin(IpAddr);

impl ClientOrigin {
    /// The origin of a client with that address.
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
    fn a_client_counts_by_its_address_or_by_its_network() {
        let same =
            |a: &str, b: &str| ClientOrigin::of(a.parse().unwrap()) == ClientOrigin::of(b.parse().unwrap());
        assert!(same("192.0.2.1", "192.0.2.1") && same("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
        assert!(same("2001:db8::1", "2001:db8::ffff:0:0:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
    }
}
