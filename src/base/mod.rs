//! Floor 0: types and functions for all other modules: limits, time, entropy, digests, entity tags,
//! the memory budget. No I/O.

mod backoff;
mod beginning;
pub mod channel;
pub mod checksum;
pub mod claims;
pub mod clock;
mod core_files;
pub mod delete_condition;
pub mod digest;
pub mod encoded_words;
pub mod entity_tag;
pub mod entropy;
pub mod failure_counts;
mod header_value;
pub mod histogram;
mod latest;
pub mod limits;
mod line;
pub mod locks;
mod md5_multibuffer;
pub mod md5_policy;
pub mod md5_pool;
pub mod memory;
pub mod network;
pub mod quota;
pub mod storage_class;
#[cfg(test)]
pub(crate) mod test_scope;
pub mod timestamp;
mod url;

pub use backoff::{Backoff, jittered};
pub use beginning::beginning_of;
pub use checksum::ChecksumAlgorithm;
pub use claims::claim_at;
pub use clock::{Clock, ManualClock, SystemClock};
pub use core_files::forbid_core_files;
pub use delete_condition::{DeleteCondition, OwnerCondition};
pub use entity_tag::WriteCondition;
pub use entropy::{Entropy, OsEntropy, SeededEntropy};
pub use header_value::signed_words;
pub use histogram::{CountHistogram, DurationHistogram, HistogramSnapshot};
pub use latest::push_latest;
pub use line::line_of;
pub use locks::NOT_POISONED;
pub use md5_multibuffer::md5_of_each;
pub use md5_policy::{Md5Owner, Md5Purpose};
pub use md5_pool::Md5Pool;
pub use memory::{Budget, Reservation};
pub use network::{network_of, parse_network};
pub use quota::Quota;
pub use storage_class::StorageClass;
pub use timestamp::Timestamp;
pub use url::is_confidential_url;
