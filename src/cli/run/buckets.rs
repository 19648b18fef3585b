//! The buckets that a server makes at its start.

use log::info;
use siltstone::base::OsEntropy;
use siltstone::store::{Store, Versioning};

use crate::cli::config::bucket_specs::{BucketSpec, BucketSpecs};
use crate::cli::error::CliError;

/// Makes the buckets that are missing, durably, and leaves the others as they are. `namespace` is
/// as stored documents have it; empty for none.
///
/// # Errors
/// A message for the operator that names the bucket. Those before it are made.
pub(crate) fn make(store: &Store, specs: &[BucketSpecs], namespace: &str) -> Result<(), CliError> {
    for spec in specs.iter().flat_map(|specs| &specs.0) {
        make_one(store, spec, namespace)?;
    }
    Ok(())
}

/// Makes a bucket, durably, unless there is one of its name.
fn make_one(store: &Store, spec: &BucketSpec, namespace: &str) -> Result<(), CliError> {
    let name = &spec.name;
    if let Ok(found) = store.bucket(name) {
        if spec.versioned && found.versioning != Versioning::Enabled {
            info!("the bucket {name} exists and is not versioned; it stays as it is");
        }
        return Ok(());
    }
    // A store that ships its log takes writes once its epoch has begun.
    let begun = store.ship_step(&OsEntropy);
    let made = begun.and_then(|()| store.create_configured_bucket(spec.new_bucket(namespace)));
    made.map_err(|e| CliError::start(format!("cannot make the bucket {name}: {e}")))?;
    info!("made the bucket {name}");
    Ok(())
}
