//! Floor 6: bytes in, bytes out: the engines, their limits and time-outs, and the bounded worker pool.
