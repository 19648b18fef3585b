//! Floor 0: what every other floor may name. Limits, time, entropy and digests; no I/O, no protocol.

pub mod clock;
pub mod digest;
pub mod entropy;
pub mod limits;
pub mod timestamp;

pub use clock::{Clock, ManualClock, SystemClock};
pub use entropy::{Entropy, OsEntropy, SeededEntropy};
pub use timestamp::Timestamp;
