//! The sweeps by lifecycle rules as metrics.

use super::Exposition;
use crate::base::Timestamp;
use crate::ops::LifecycleTotals;

/// Adds the figures. Before the first expiry there is no sample by rule.
pub(in crate::service) fn lifecycle(page: &mut Exposition, totals: &LifecycleTotals) {
    let help = "Versions that rules removed or hid, by bucket and rule.";
    page.family("lifecycle_expired_total", "counter", help);
    for ((bucket, rule), (count, _)) in &totals.expired {
        page.sample("lifecycle_expired_total", &[("bucket", bucket), ("rule", rule)], count);
    }
    let help = "Bytes of versions that rules removed, by bucket and rule.";
    page.family("lifecycle_expired_bytes_total", "counter", help);
    for ((bucket, rule), (_, bytes)) in &totals.expired {
        page.sample("lifecycle_expired_bytes_total", &[("bucket", bucket), ("rule", rule)], bytes);
    }
    let help = "Versions that rules moved to the class COLD.";
    page.single("lifecycle_moved_total", "counter", help, totals.moved.0);
    let help = "Uploads that rules aborted.";
    page.single("lifecycle_aborted_uploads_total", "counter", help, totals.aborted_uploads);
    let help = "The end of the last sweep; 0 before the first.";
    let swept = totals.swept.map_or(0, Timestamp::as_secs);
    page.single("lifecycle_swept_timestamp_seconds", "gauge", help, swept);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_shown_by_bucket_and_rule() {
        let mut totals = LifecycleTotals { aborted_uploads: 2, moved: (4, 9), ..LifecycleTotals::default() };
        totals.expired.insert(("b".to_owned(), "a \"rule\"".to_owned()), (3, 70));
        totals.swept = Some(Timestamp::from_millis(5_000));
        let mut page = Exposition::default();
        lifecycle(&mut page, &totals);
        let text = String::from_utf8(page.finish()).unwrap();
        for line in [
            r#"siltstone_lifecycle_expired_total{bucket="b",rule="a \"rule\""} 3"#,
            r#"siltstone_lifecycle_expired_bytes_total{bucket="b",rule="a \"rule\""} 70"#,
            "siltstone_lifecycle_moved_total 4",
            "siltstone_lifecycle_aborted_uploads_total 2",
            "siltstone_lifecycle_swept_timestamp_seconds 5",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing from\n{text}");
        }
    }
}
