//! Lists of networks in settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::base::parse_network;

/// A list of networks. Its text form is addresses (`192.0.2.1`), networks (`192.0.2.0/24`) and the
/// word `loopback`, separated by commas. `none` is the empty list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// The loopback networks, 127.0.0.0/8 and ::1.
    pub fn loopback() -> Self {
        let v4 = Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8);
        let v6 = Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128);
        Self(vec![v4.into(), v6.into()])
    }

    /// Whether `address` is in one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    fn parse_item(name: &str) -> Result<Self, String> {
        if name == "loopback" {
            return Ok(Self::loopback());
        }
        let network = parse_network(name);
        network.map(|network| Self(vec![network])).map_err(|why| {
            format!(
                "{name:?} is no address, no network such as 192.0.2.0/24, and not the word loopback ({why})"
            )
        })
    }
}

impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim() == "none" {
            return Ok(Self::default());
        }
        let items =
            text.split(',').map(|name| Self::parse_item(name.trim())).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(items.into_iter().flat_map(|networks| networks.0).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed_from_text() {
        let contains = |text: &str, address: &str| {
            text.parse::<Networks>().map(|networks| networks.contains(address.parse().unwrap()))
        };
        for inside in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "10.1.2.3", "2001:db8::5"] {
            assert_eq!(contains("loopback, 10.0.0.0/8,2001:db8::/32", inside), Ok(true), "{inside}");
        }
        for outside in ["128.0.0.1", "::2", "11.0.0.1", "2001:db9::5"] {
            assert_eq!(contains("loopback,10.0.0.0/8,2001:db8::/32", outside), Ok(false), "{outside}");
        }
        assert_eq!(
            (contains("192.0.2.1", "192.0.2.1"), contains("192.0.2.1", "192.0.2.2")),
            (Ok(true), Ok(false))
        );
        assert_eq!(contains("none", "127.0.0.1"), Ok(false));
        for wrong in ["", "here", "10.0.0.0/33", "127.0.0.1,", "none,loopback"] {
            assert!(wrong.parse::<Networks>().is_err(), "{wrong}");
        }
    }
}
