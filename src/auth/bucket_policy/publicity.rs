//! Whether the networks that a policy names restrict anything (S3 user guide, "The meaning of
//! 'public'").

use ipnet::IpNet;

/// The shortest prefixes of networks that restrict clients.
const V4_PREFIX_MIN: u8 = 8;
const V6_PREFIX_MIN: u8 = 32;
/// All networks together may be as many addresses as so many of the widest ones.
const TOGETHER_MAX: u128 = 16;

/// Whether `networks` together are so much of the Internet that they restrict nobody: merged, one
/// of them is wider than S3 allows, or all have more than a sixteenth of the addresses.
pub(super) fn are_public(networks: &[IpNet]) -> bool {
    let mut v4_addresses = 0;
    let mut v6_addresses = 0;
    for network in IpNet::aggregate(&networks.to_vec()) {
        let widest = if network.addr().is_ipv4() { V4_PREFIX_MIN } else { V6_PREFIX_MIN };
        if network.prefix_len() < widest {
            return true;
        }
        let addresses = 1_u128 << (network.max_prefix_len() - network.prefix_len());
        match network {
            IpNet::V4(_) => v4_addresses += addresses,
            IpNet::V6(_) => v6_addresses += addresses,
        }
    }
    let v4_max = TOGETHER_MAX << (32 - V4_PREFIX_MIN);
    let v6_max = TOGETHER_MAX << (128 - V6_PREFIX_MIN);
    v4_addresses > v4_max || v6_addresses > v6_max
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(texts: &[&str]) -> bool {
        are_public(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn networks_are_judged_together() {
        for private in [
            &["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "2001:db8::/32"][..],
            &["192.0.2.1/32"],
            &["10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"],
            &[],
        ] {
            assert!(!public(private), "{private:?}");
        }
        for everyone in [
            &["0.0.0.0/0"][..],
            &["0.0.0.0/1", "128.0.0.0/1"],
            &["10.0.0.0/8", "11.0.0.0/8"],
            &["192.0.2.0/24", "::/0"],
            &["2001:db8::/32", "2001:db9::/32"],
            &["::/1", "8000::/1"],
        ] {
            assert!(public(everyone), "{everyone:?}");
        }
    }

    #[test]
    fn many_networks_are_the_internet_piece_by_piece() {
        let eights = |step: usize| {
            (0..=255_u16).step_by(step).map(|first| format!("{first}.0.0.0/8")).collect::<Vec<_>>()
        };
        let public = |texts: &[String]| public(&texts.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(public(&eights(1)) && public(&eights(2)) && public(&eights(15)));
        assert!(!public(&eights(16)));
    }
}
