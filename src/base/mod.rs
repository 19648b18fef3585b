//! Floor 0: what every other floor may name. Limits, time, entropy, digests, entity
//! tags and the budget of memory; no I/O.

pub mod clock;
pub mod digest;
pub mod entity_tag;
pub mod entropy;
pub mod handoff;
pub mod limits;
mod md5_lanes;
pub mod md5_mill;
pub mod memory;
pub mod timestamp;

pub use clock::{Clock, ManualClock, SystemClock};
pub use entity_tag::WriteCondition;
pub use entropy::{Entropy, OsEntropy, SeededEntropy};
pub use md5_lanes::md5_of_each;
pub use md5_mill::Md5Mill;
pub use memory::{Budget, Reservation};
pub use timestamp::Timestamp;
