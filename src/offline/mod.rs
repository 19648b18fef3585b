//! What the tools do with a data directory or a remote, beside a server or without one.
//!
//! Everything here stands on the store, and the store names none of it. Begin with `verify`, which
//! reads all that a directory has.
//!
//! | File | Job | writes |
//! |---|---|---|
//! | `verify` | checks every file, group and extent | nothing |
//! | `stats`, `stored_bucket` | what a directory holds, also beside a server | nothing |
//! | `backup` | copies of a store in use, and restoring them | the target |
//! | `rebuild` | the log from the segments alone | a new log |
//! | `lost_disk` | a store of two disks made of the large one alone | the log |
//! | `compact` | a store without dead bytes | as the server, by [`Store::open`](crate::store::Store::open) |
//! | `undelete` | deletions undone in buckets with versions | likewise |
//! | `remote_audit`, `copy_audit` | the objects on a remote, compared with those that its log or a directory names | deletes orphans, if asked |
//! | `needed_keys` | the keys that records name and a ring does not open | nothing |
//! | `divergent`, `log_lag` | a directory compared with the log on the remote | nothing |

pub mod backup;
pub mod compact;
mod copy_audit;
mod divergent;
mod log_lag;
pub mod lost_disk;
mod needed_keys;
pub mod rebuild;
mod remote_audit;
pub mod stats;
mod stored_bucket;
pub mod undelete;
pub mod verify;

pub use backup::{backup, restore};
pub use compact::compact;
pub use copy_audit::audit_copies;
pub use divergent::{Divergence, DivergentChange, DivergentKind, divergent_changes};
pub use log_lag::{LogLag, log_lag};
pub use lost_disk::drop_lost;
pub use needed_keys::{NeededKey, unopened_keys};
pub use rebuild::rebuild;
pub use remote_audit::{RemoteAudit, RemoteReach, audit_remote, delete_orphans, remote_reach};
pub use stats::stats;
pub use stored_bucket::{StoredBucket, stored_bucket};
pub use verify::verify;
