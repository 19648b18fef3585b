//! The classes of requests, by the time for which they may occupy a worker.

/// For how long a request may occupy its worker. [`WorkQueues`](super::work_queues::WorkQueues)
/// limits the workers of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WorkerClass {
    /// For a short time: all of the request is there, and its response is small.
    Small,
    /// For as long as its client takes to send or receive a large body.
    Large,
    /// As [`Large`](Self::Large), and it uses the processor or the disk all the time.
    Heavy,
}
