//! The metrics of quotas.

use super::Exposition;
use crate::ops::QuotaLimit;

/// The most limits on the page: those that are used the most.
const LIMITS_MAX: usize = 100;

/// Adds the limits and their usage. Without quotas there are no samples.
pub(in crate::service) fn quotas(page: &mut Exposition, mut limits: Vec<QuotaLimit>) {
    limits.sort_by(|one, other| product(other.used, one.allowed).cmp(&product(one.used, other.allowed)));
    limits.truncate(LIMITS_MAX);
    for unit in ["bytes", "objects", "uploads", "index_bytes", "buckets"] {
        let of_unit: Vec<_> = limits.iter().filter(|limit| limit.limit == unit).collect();
        let name = format!("quota_{unit}");
        page.family(&name, "gauge", "Most that a quota allows, by the kind and the name of its holder.");
        for limit in &of_unit {
            sample(page, &name, limit, limit.allowed);
        }
        let name = format!("quota_used_{unit}");
        page.family(&name, "gauge", "Usage of a quota, by the kind and the name of its holder.");
        for limit in &of_unit {
            sample(page, &name, limit, limit.used);
        }
    }
}

/// A `u128` has room for the product of any two `u64`.
fn product(one: u64, other: u64) -> u128 {
    u128::from(one) * u128::from(other)
}

fn sample(page: &mut Exposition, name: &str, limit: &QuotaLimit, value: u64) {
    let kind = if limit.of_owner { "owner" } else { "bucket" };
    page.sample(name, &[("holder", kind), ("name", &limit.name)], value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(of_owner: bool, name: &str, limit: &'static str, allowed: u64, used: u64) -> QuotaLimit {
        QuotaLimit { of_owner, name: name.to_owned(), limit, allowed, used }
    }

    fn shown(limits: Vec<QuotaLimit>) -> String {
        let mut page = Exposition::default();
        quotas(&mut page, limits);
        String::from_utf8(page.finish()).unwrap()
    }

    fn samples(limits: Vec<QuotaLimit>) -> Vec<String> {
        let page = shown(limits);
        page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn a_limit_is_shown_with_its_usage_and_its_holder() {
        let found =
            samples(vec![limit(false, "photos", "bytes", 100, 60), limit(true, r#"a"b\c"#, "buckets", 3, 1)]);
        assert_eq!(
            found,
            [
                r#"siltstone_quota_bytes{holder="bucket",name="photos"} 100"#,
                r#"siltstone_quota_used_bytes{holder="bucket",name="photos"} 60"#,
                r#"siltstone_quota_buckets{holder="owner",name="a\"b\\c"} 3"#,
                r#"siltstone_quota_used_buckets{holder="owner",name="a\"b\\c"} 1"#,
            ]
        );
        assert!(shown(Vec::new()).contains("# TYPE siltstone_quota_used_uploads gauge"));
    }

    #[test]
    fn only_the_limits_that_are_used_the_most_are_shown() {
        let mut limits: Vec<_> =
            (0..500).map(|nth| limit(false, &format!("b{nth}"), "bytes", u64::MAX, nth)).collect();
        limits.push(limit(true, "exceeded", "bytes", 0, 1));
        let found = samples(limits);
        assert_eq!(found.len(), 2 * LIMITS_MAX);
        assert!(found[0].contains("exceeded") && found[1].contains("\"b499\""), "{found:?}");
    }
}
