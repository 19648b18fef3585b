//! A mirror, for benchmarks.

use std::sync::Arc;
use std::time::Duration;

use siltstone::base::{OsEntropy, SystemClock};
use siltstone::disks::{DiskMirror, MirrorOptions};
use siltstone::fs::Fs;

/// Two disks as the sides of a mirror, of which either starts alone.
pub(super) fn mirror_of(disks: [Arc<dyn Fs>; 2]) -> DiskMirror {
    let options = MirrorOptions {
        names: ["first".into(), "second".into()],
        disks,
        witness: None,
        key: None,
        accepts_degraded: true,
        accepts_outdated: false,
        patience: Duration::from_secs(30),
        entropy: Arc::new(OsEntropy),
        clock: Arc::new(SystemClock),
    };
    DiskMirror::open(options).expect("the mirror opens")
}
