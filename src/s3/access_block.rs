//! The public access block of a bucket (S3 user guide, "Blocking public access to your Amazon S3 storage").

/// Which public access a bucket refuses, whatever its policy and its ACLs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublicAccessBlock {
    /// Public ACLs are not set (`BlockPublicAcls`).
    pub refuses_acls: bool,
    /// Public ACLs have no effect (`IgnorePublicAcls`).
    pub ignores_acls: bool,
    /// A public policy is not set (`BlockPublicPolicy`).
    pub refuses_policy: bool,
    /// A public policy allows nothing to senders without keys (`RestrictPublicBuckets`).
    pub restricts_policy: bool,
}
