//! The front end over real sockets, with a handler made for each test.

mod bodies;
mod connections;
mod framing;
pub(crate) mod harness;
mod heavy;
mod limits;
mod reserve;
mod responses;
mod slow;
mod stopping;
mod tiny;
mod tls;
