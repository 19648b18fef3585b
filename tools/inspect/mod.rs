//! The command `inspect`: what is on the drives of a MinIO server, and what an import would keep.

mod count;
mod report;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::minio::damage::DamageLog;
use crate::minio::layout::Deployment;
use crate::minio::system::bucket_metadata_of;
use crate::outcome::{Failure, Outcome};
use count::{BucketCounts, BucketInspection};
use report::Inspection;

/// The beginning of a source that names drives.
const PREFIX: &str = "minio:";

pub(crate) const HELP: &str = "\
Reads the metadata of all objects on the drives of a MinIO server, which need not run, and tells what is there: drives and sets, which are missing,
buckets, keys, versions and bytes, what is encrypted, compressed or on a tier, what is damaged, and what an import would not keep. Nothing is
written. With --verify all bytes are read, too. --sample gives a first answer from a part of each bucket.

Examples:
  siltstone-tools inspect minio:/mnt/disk1,/mnt/disk2,/mnt/disk3,/mnt/disk4
  siltstone-tools inspect minio:/mnt/data --sample 10000
  siltstone-tools --json inspect minio:/mnt/data --verify | jq .damage

Exit status:
  0  everything can be read
  1  drives are missing, or damage that the output names
  2  no drives of MinIO, or wrong arguments";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The drives: minio:DIR[,DIR...]
    source: String,
    /// The buckets; all without a name
    buckets: Vec<String>,
    /// Keys of each bucket that are looked at, in the order of the walk; all without it
    #[arg(long, value_name = "N")]
    sample: Option<u64>,
    /// Read and verify the bytes of all objects
    #[arg(long)]
    verify: bool,
    /// Threads that read
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
}

/// Inspects, and prints the report.
pub(crate) fn run(arguments: &Arguments, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let drives = arguments
        .source
        .strip_prefix(PREFIX)
        .ok_or_else(|| Failure::of(&arguments.source, "drives are named as minio:DIR[,DIR...]"))?;
    let paths: Vec<PathBuf> = drives.split(',').map(PathBuf::from).collect();
    let deployment = Deployment::open(&paths).map_err(Failure::Command)?;
    let buckets = deployment.chosen_buckets(&arguments.buckets).map_err(Failure::Command)?;
    let damage = DamageLog::default();
    let mut counted: Vec<BucketCounts> = Vec::new();
    for bucket in buckets {
        let inspection = BucketInspection {
            deployment: &deployment,
            bucket: &bucket,
            damage: &damage,
            sample: arguments.sample,
            verify: arguments.verify,
            parallel: arguments.parallel,
        };
        let mut counts = inspection.run(json);
        match bucket_metadata_of(&deployment, &bucket, &damage) {
            Ok(metadata) => counts.configured(metadata),
            Err(why) => damage.note(format!("the configurations of {bucket}"), why),
        }
        counts.name = bucket;
        counted.push(counts);
    }
    let (damaged, further) = damage.take();
    let inspection = Inspection { deployment: &deployment, buckets: &counted, damaged: &damaged, further };
    inspection.write(json, out)?;
    Ok(if inspection.is_clean() { Outcome::Success } else { Outcome::Findings })
}
