//! Mirrors: buckets as plain objects on other S3 servers, which follow the log of this store.
//!
//! A mirror does not repeat changes. A change makes its key *due*; the copy of a due key compares
//! the versions of the store with the target's, appends what the target lacks, in order, and
//! removes what the store does not have any more. So a change that comes twice does nothing, one
//! whose version is gone is covered by the change that took it away, and many changes of a key at
//! once cost one copy. One worker has a key at a time; keys are copied side by side.
//!
//! The position in the log is saved once all keys that were due before it are copied. A key that
//! fails stays due, with growing pauses, for as long as it takes while the target is away or
//! refuses everything. One that the target refuses while it accepts others is set aside after some
//! tries; the list is saved with the position. A bucket whose counterpart the mirror did not make
//! joins only if that is empty, or the operator says so: whoever may make a bucket here must not
//! reach one of the same name there. Nothing is added to the metadata of users: versions are
//! compared by length, entity tag and attributes.
//!
//! | Files | Job |
//! |---|---|
//! | `settings` | the tables `[[mirror]]` of the configuration file |
//! | `due_keys` | the keys that are due, their order, their pauses, and the position that is done |
//! | `version_plan` | the versions to append and to remove |
//! | `key_copy` | the copy of one key |
//! | `members` | the buckets that have joined, and the uploads that were begun, across restarts |
//! | `source` | the bytes and headers of a version |
//! | `rules` | what the rules of a bucket say of a mirror, and how far a version is |
//! | `rule_copy` | the copy of one key by these rules |
//! | `refusals` | the keys that the target refuses, which are set aside |
//! | `target` | the requests to the target |
//! | `target_buckets` | the buckets at the target: which of them are the mirror's, and those that it makes |
//! | `runner` | the threads of a mirror, and its figures |

#[cfg(test)]
mod cycle_tests;
mod due_keys;
mod key_copy;
mod members;
mod refusals;
mod rule_copy;
mod rules;
mod runner;
mod settings;
mod source;
mod target;
mod target_buckets;
#[cfg(test)]
mod tests;
mod version_plan;

pub use members::OccupiedBucket;
pub use refusals::MirrorRefusal;
pub use rules::CopyProgress;
pub use runner::{Mirror, MirrorFigures, MirrorState, Mirrors};
pub use settings::{ActiveHours, MirrorPlace, MirrorSettings};
pub use target::MirrorTarget;
