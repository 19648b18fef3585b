//! What `/-/metrics` shows, a file for each feature.

mod bucket_logs;
mod certificate;
mod commits;
mod disk_hook;
mod exposition;
mod followers;
mod keys;
mod lifecycle;
mod mirrors;
mod quotas;
mod remote;
mod requests;
mod ship;
mod sides;
mod store;
mod usage;
mod webhook;

pub(super) use bucket_logs::bucket_logs;
pub(super) use certificate::certificate;
pub(super) use commits::commits;
pub use disk_hook::DiskHookFigures;
pub(super) use disk_hook::disk_hook;
pub(super) use exposition::Exposition;
pub(super) use followers::followers;
pub(super) use keys::keys;
pub(super) use lifecycle::lifecycle;
pub(super) use mirrors::mirrors;
pub(super) use quotas::quotas;
pub(super) use remote::{remote, remote_copies, remote_epoch, remote_probe, remote_repairs, remote_requests};
pub(super) use requests::{Metrics, RequestTotals};
pub(super) use ship::{ship, standby};
pub(super) use sides::sides;
pub use sides::{MirrorSide, MirrorSides};
pub(super) use store::{fast_disk, segment_bytes, store};
pub(super) use usage::usage;
pub(super) use webhook::webhooks;
