//! Networks of addresses: in settings and policies, and of clients.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net};

/// IPv4 addresses within IPv6 begin after so many bits (RFC 4291, section 2.5.5.2).
const MAPPED_PREFIX: u8 = 96;

/// The network that `text` names, or the network of its one address. A network of IPv4 addresses
/// that are written as IPv6 addresses (`::ffff:192.0.2.0/120`) is one of IPv4, since the addresses
/// of clients are made so before they are compared.
///
/// # Errors
/// The reason: other text, or a network that such addresses are only a part of.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let network = network.map_err(|_| "neither an address nor a network".to_owned())?;
    let IpNet::V6(v6) = network else { return Ok(network) };
    let Some(first) = v6.addr().to_ipv4_mapped() else { return Ok(network) };
    let prefix = v6.prefix_len().checked_sub(MAPPED_PREFIX);
    let v4 = prefix.and_then(|prefix| Ipv4Net::new(first, prefix).ok());
    v4.map(IpNet::V4)
        .ok_or_else(|| format!("a network of IPv4 addresses has {MAPPED_PREFIX} bits or more here"))
}

/// The address, or the network of an IPv6 address: its owner has all addresses of a /64.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ipv4_are_such_however_they_are_written() {
        for (text, expected) in [
            ("192.0.2.1", "192.0.2.1/32"),
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("::ffff:192.0.2.1", "192.0.2.1/32"),
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
            ("::FFFF:c000:200/120", "192.0.2.0/24"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("::/0", "::/0"),
            ("::1", "::1/128"),
        ] {
            assert_eq!(parse_network(text), Ok(expected.parse().unwrap()), "{text}");
        }
        for text in [
            "::ffff:192.0.2.0/95",
            "::ffff:0:0/24",
            "::ffff:0:0/0",
            "192.0.2",
            "192.0.2.0/33",
            "",
            "localhost",
        ] {
            assert!(parse_network(text).is_err(), "{text}");
        }
    }
}
