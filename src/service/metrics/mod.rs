//! What `/-/metrics` shows: requests, and the state of the store.

mod exposition;
mod lifecycle;
mod mirrors;
mod quotas;
mod requests;
mod store;
mod webhook;

pub(super) use exposition::Exposition;
pub(super) use lifecycle::lifecycle;
pub(super) use mirrors::mirrors;
pub(super) use quotas::quotas;
pub(super) use requests::Metrics;
pub(super) use store::{
    certificate, commits, followers, remote, remote_copies, remote_epoch, remote_probe, remote_requests,
    segment_bytes, ship, standby, store, usage,
};
pub(super) use webhook::webhooks;
