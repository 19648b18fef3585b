//! The encrypted disk as a disk, and when the power is cut.

mod conversion;
mod crashes;
mod files;
mod opening;

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::base::{SeededEntropy, Timestamp};
use crate::fs::conformance::conformance;
use crate::fs::sim::SimFs;
use crate::fs::{Fs, OsFs};
use crate::vault::{EncryptedFs, KeyRequest, StoreKey, StoreSecret};

/// An encrypted disk over another one.
fn over(fs: Arc<dyn Fs>) -> EncryptedFs {
    let key = StoreKey::new(Zeroizing::new([7; 32]));
    // Each disk draws other salts, as a restart does.
    static DISKS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let seed = DISKS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) << 32;
    EncryptedFs::new(fs, key, Arc::new(SeededEntropy::new(seed)))
}

fn over_sim(sim: &SimFs) -> EncryptedFs {
    over(Arc::new(sim.clone()))
}

fn key_file(seed: u64) -> StoreSecret {
    let (line, _) = StoreSecret::new_key_file(&SeededEntropy::new(seed));
    StoreSecret::parse(&Zeroizing::new(line.as_bytes().to_vec())).unwrap()
}

fn request(secret: &StoreSecret) -> KeyRequest<'_> {
    static ENTROPY: std::sync::LazyLock<SeededEntropy> = std::sync::LazyLock::new(|| SeededEntropy::new(3));
    KeyRequest { secret, entropy: &*ENTROPY, now: Timestamp::from_millis(5), memory_bytes: 0 }
}

fn with_os(test: fn(&dyn Fs)) {
    let dir = tempfile::tempdir().unwrap();
    test(&over(Arc::new(OsFs::new(dir.path()))));
}

fn with_sim(test: fn(&dyn Fs)) {
    test(&over_sim(&SimFs::new()));
}

conformance!(encrypted_os: super::with_os);
conformance!(encrypted_sim: super::with_sim);

#[test]
fn random_operations_do_the_same_on_an_encrypted_disk() {
    crate::fs::differential::compare_with_os(|| Arc::new(over_sim(&SimFs::new())));
}
