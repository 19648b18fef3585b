//! The metrics of the content of buckets.

use super::Exposition;
use crate::ops::{BucketUsage, Usage};

/// Buckets with samples of their own, those with the most bytes. The others are one sum.
const BUCKETS_MAX: usize = 100;
/// The label of that sum, which no bucket can have.
const OTHER_BUCKETS: &str = "(other)";

/// Adds the content of buckets by kind: of the largest, and the sum of the others.
pub(in crate::service) fn usage(page: &mut Exposition, mut usages: Vec<BucketUsage>) {
    usages.sort_by_key(|usage| std::cmp::Reverse(usage.content.bytes()));
    let mut others = Usage::default();
    for usage in usages.iter().skip(BUCKETS_MAX) {
        others.add(&usage.content);
    }
    let has_others = usages.len() > BUCKETS_MAX;
    let shown: Vec<_> = usages
        .iter()
        .take(BUCKETS_MAX)
        .map(|usage| (usage.bucket.as_str(), &usage.content))
        .chain(has_others.then_some((OTHER_BUCKETS, &others)))
        .collect();
    page.family("bucket_bytes", "gauge", "Bytes of versions and of parts of uploads, by bucket and kind.");
    for (bucket, content) in &shown {
        for (kind, bytes) in [
            ("current", content.current.bytes),
            ("noncurrent", content.noncurrent.bytes),
            ("uploads", content.uploads.bytes),
        ] {
            page.sample("bucket_bytes", &[("bucket", bucket), ("kind", kind)], bytes);
        }
    }
    page.family("bucket_cold_bytes", "gauge", "Bytes of versions of the class COLD, by bucket.");
    for (bucket, content) in &shown {
        page.sample("bucket_cold_bytes", &[("bucket", bucket)], content.cold.bytes);
    }
    page.family("bucket_objects", "gauge", "Versions, delete markers and uploads, by bucket and kind.");
    for (bucket, content) in &shown {
        for (kind, count) in [
            ("current", content.current.count),
            ("noncurrent", content.noncurrent.count),
            ("delete_markers", content.delete_markers),
            ("uploads", content.uploads.count),
        ] {
            page.sample("bucket_objects", &[("bucket", bucket), ("kind", kind)], count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_buckets_are_shown_and_the_others_summed() {
        let bucket = |n: u64| {
            let mut content = Usage::default();
            (content.current.bytes, content.current.count, content.cold.bytes) = (n, 1, n / 2);
            BucketUsage { id: n, bucket: format!("b{n}"), owner: String::new(), content }
        };
        let mut page = Exposition::default();
        usage(&mut page, (1..=103).map(bucket).collect());
        let text = String::from_utf8(page.finish()).unwrap();
        for line in [
            "siltstone_bucket_bytes{bucket=\"b103\",kind=\"current\"} 103",
            "siltstone_bucket_bytes{bucket=\"b4\",kind=\"current\"} 4",
            "siltstone_bucket_bytes{bucket=\"(other)\",kind=\"current\"} 6",
            "siltstone_bucket_cold_bytes{bucket=\"b4\"} 2",
            "siltstone_bucket_objects{bucket=\"(other)\",kind=\"current\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing");
        }
        assert!(!text.contains("\"b3\"") && text.lines().count() == 6 + 101 * 8);
    }
}
