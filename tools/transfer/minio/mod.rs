//! `import minio:DIR[,DIR...]`: the buckets on MinIO's drives into buckets of the same names.

mod configure;
mod key;
mod run;
mod salvage;
mod target;
mod users;

pub(super) use configure::Configuring;
pub(super) use run::{PREFIX, Request, import, open_drives, write_identities};
pub(super) use target::BucketPlan;
