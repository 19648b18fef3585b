//! The configurations of buckets that decide about access, in their parsed forms. A stored document was checked when it was set;
//! one that cannot be read, as after a return to an older version of the program, closes the bucket rather than opening it.

use crate::auth::BucketPolicy;
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

/// The policy of a bucket.
pub(super) fn policy(bucket: &ConfiguredBucket) -> Option<&BucketPolicy> {
    let name = &bucket.info.name;
    let configuration = bucket.configuration(BucketConfigurationKind::Policy)?;
    Some(configuration.parsed(|document| {
        BucketPolicy::parse(document, name).unwrap_or_else(|reason| {
            log::error!("the policy of the bucket {name} cannot be read and denies everything: {reason}");
            BucketPolicy::denying_all(name)
        })
    }))
}
