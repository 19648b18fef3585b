//! The lifecycle of objects: the rules of a bucket (S3 API reference,
//! PutBucketLifecycleConfiguration), and when they take a version or an upload (S3 user guide,
//! "Managing the lifecycle of objects"). Pure functions; a sweep asks them.
//!
//! [`LifecycleConfiguration::expiry`] decides about a version by [`ExpiryFacts`], and
//! [`LifecycleConfiguration::abort_at`] about an upload. Both return the moment, which may be in
//! the future: an action is due once its moment is not after the clock. Among stored configurations
//! the parsed form is the `Option` that `LifecycleConfiguration::from_document` returns.

mod actions;
mod configuration;
mod elements;
mod evaluation;
mod minimum_size;
mod prefix_index;
mod rule;

#[cfg(test)]
mod tests;

pub use actions::{Expiration, LifecycleActions, NoncurrentAge, Transition};
pub use configuration::LifecycleConfiguration;
pub use evaluation::{Expiry, ExpiryFacts, ExpiryKind, ExpiryState, round_up_to_midnight};
pub use minimum_size::TransitionMinimumSize;
pub use rule::LifecycleRule;
