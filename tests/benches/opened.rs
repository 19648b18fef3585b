//! A store on a real disk, for benchmarks.

use std::path::Path;
use std::sync::Arc;

use siltstone::base::{OsEntropy, SystemClock};
use siltstone::fs::OsFs;
use siltstone::store::{Store, StoreOptions};

/// A store in a directory, which is made where it is missing.
pub(super) fn open_with(dir: &Path, options: StoreOptions) -> Store {
    let disk = OsFs::new(dir);
    disk.create_root().expect("the directory can be made");
    Store::open(Arc::new(disk), Arc::new(SystemClock), &OsEntropy, options).expect("the store opens")
}
