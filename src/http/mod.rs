//! Floor 6: bytes in, bytes out: the engines, their limits and time-outs, and the bounded worker pool.
//!
//! An engine turns bytes into an [`s3::Request`](crate::s3::Request), hands it to an [`s3::Handler`](crate::s3::Handler)
//! and sends the [`s3::Response`](crate::s3::Response); it knows nothing of what is asked. Its face is [`Server`]: bind,
//! run until a [`Handle`] stops it, and an [`Outcome`] at the end.

mod config;
mod direct;

pub use config::Config;
#[cfg(fuzzing)]
pub use direct::fuzzing;
pub use direct::{Handle, Server};

/// What a server has done from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Connections accepted, those turned away at once included.
    pub connections_accepted: u64,
    /// Requests answered by workers, refusals included; those turned away because no worker was free are not counted.
    pub requests_answered: u64,
    /// Connections ended under requests that were still running when the shutdown time was over.
    pub connections_cut: usize,
    /// Workers that had not come back from the handler even then.
    pub workers_left: usize,
}
