//! A directory in the clear becomes an encrypted one.

use std::sync::Arc;

use super::{key_file, request};
use crate::base::SeededEntropy;
use crate::base::test_scope::{is_long, points};
use crate::format::{ClaimId, EPOCH, EpochRecord, KEYS, KEYS_COPY, LOCK, StoreId};
use crate::fs::Fs;
use crate::fs::conformance::{read, write};
use crate::fs::sim::{CrashPolicy, SimFs};
use crate::vault::{ConversionReport, StoreSecret, VaultError, convert, open_disk};

const ASIDE: &str = "aside/0000000000000001-00000001/meta";

fn converted(sim: &SimFs, secret: &StoreSecret) -> Result<ConversionReport, VaultError> {
    static RUNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let seed = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed) << 32;
    let fs: Arc<dyn Fs> = Arc::new(sim.clone());
    let entropy = Arc::new(SeededEntropy::new(seed));
    // One thread has this disk.
    let lock_keys = || sim.lock("lock-of-the-test");
    let done = convert(&fs, &request(secret), entropy, &[ASIDE.to_owned()], &lock_keys, &mut |_, _| {});
    let _ = sim.remove("lock-of-the-test");
    done
}

fn opened(sim: &SimFs, secret: &StoreSecret) -> Result<Arc<dyn Fs>, VaultError> {
    open_disk(Arc::new(sim.clone()), Some(secret), Arc::new(SeededEntropy::new(5)))
}

fn plain() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("data/0000000000000001.segment", b"SiltSegm and an object".repeat(3000)),
        ("data/0000000000000001.tables", b"tables".to_vec()),
        ("meta/0000000000000001.log", [b"SiltMlog".repeat(700), vec![0; 200_000]].concat()),
        ("meta/clock", b"a clock".to_vec()),
        ("meta/empty", Vec::new()),
        ("aside/0000000000000001-00000001/meta/0000000000000001.log", b"a log aside".to_vec()),
    ]
}

/// A directory in the clear, all of it durable.
fn directory() -> SimFs {
    let sim = SimFs::new();
    for dir in ["data", "meta", ASIDE, "backup"] {
        sim.create_dir(dir).unwrap();
    }
    for (path, bytes) in plain() {
        write(&sim, path, &bytes).sync_data().unwrap();
    }
    write(&sim, "meta/left.new", b"of a crash").sync_data().unwrap();
    sim.link("data/0000000000000001.segment", "backup/0000000000000001.pin").unwrap();
    for dir in ["data", "meta", ASIDE, "backup", ""] {
        sim.sync_dir(dir).unwrap();
    }
    sim
}

fn assert_encrypted(sim: &SimFs, secret: &StoreSecret) {
    let fs = opened(sim, secret).unwrap();
    for (path, bytes) in plain() {
        assert!(read(fs.open_read(path).unwrap().as_ref()) == bytes, "{path}");
        let disk = sim.contents(path).unwrap();
        assert!(bytes.len() < 7 || !disk.windows(7).any(|window| window == &bytes[..7]), "{path}");
    }
    assert!(sim.list("backup").unwrap().iter().all(|name| name == LOCK));
    assert!(sim.list("meta").unwrap().iter().all(|name| !name.ends_with(".new")));
}

#[test]
fn every_file_is_encrypted_and_reads_as_before() {
    let sim = directory();
    let secret = key_file(1);
    let report = converted(&sim, &secret).unwrap();
    assert_eq!((report.files, report.done_before), (5, 0));
    assert_encrypted(&sim, &secret);
    assert!(converted(&sim, &secret).unwrap_err().to_string().contains("encrypted already"));
}

#[test]
fn holes_stay_holes() {
    let sim = directory();
    let file = sim.open("data/0000000000000001.segment").unwrap();
    file.punch(8192, 16_384).unwrap();
    file.sync_data().unwrap();
    let secret = key_file(1);
    converted(&sim, &secret).unwrap();
    let file = opened(&sim, &secret).unwrap().open("data/0000000000000001.segment").unwrap();
    let mut bytes = [1; 16_384];
    file.read_exact_at(&mut bytes, 8192).unwrap();
    assert_eq!(bytes, [0; 16_384]);
}

#[test]
fn a_conversion_that_is_cut_off_anywhere_goes_on() {
    let before = directory();
    let secret = key_file(1);
    let mut refused = 0;
    for stop in points(1) {
        let sim = before.copy();
        sim.stop_at(stop);
        let done = converted(&sim, &secret).is_ok();
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(stop)] {
            let after = sim.crash(policy);
            match opened(&after, &secret) {
                Err(VaultError::Converting) => {
                    refused += 1;
                    assert!(converted(&after, &key_file(2)).is_err(), "another key does not go on");
                    converted(&after, &secret).unwrap();
                }
                Ok(_) => {
                    // The keys came last, or have not come yet.
                    if !after.files().iter().any(|(path, _)| path == KEYS) {
                        for (path, bytes) in plain() {
                            assert!(after.contents(path).unwrap() == bytes, "{path}");
                        }
                        converted(&after, &secret).unwrap();
                    }
                }
                Err(error) => panic!("{stop} {policy:?}: {error}"),
            }
            assert_encrypted(&after, &secret);
        }
        if done {
            break;
        }
    }
    assert!(refused > if is_long() { 20 } else { 2 });
}

#[test]
fn what_stands_against_a_conversion_is_said_and_nothing_written() {
    let secret = key_file(1);
    assert!(converted(&SimFs::new(), &secret).unwrap_err().to_string().contains("no store"));
    let sim = directory();
    let held = sim.lock(LOCK).unwrap();
    let files = sim.files();
    assert!(converted(&sim, &secret).unwrap_err().to_string().contains("stop it first"));
    assert_eq!(sim.files(), files);
    drop(held);
    let weak = StoreSecret::Passphrase(zeroize::Zeroizing::new(b"short".to_vec()));
    assert!(converted(&sim, &weak).is_err());
    assert_eq!(sim.files(), files);
}

#[test]
fn the_note_of_the_epoch_names_its_new_file_and_a_copied_one_stays_a_copy() {
    let record = EpochRecord {
        store: StoreId(*b"0123456789abcdef"),
        held: ClaimId { epoch: 7, nonce: 8 },
        tried: ClaimId::default(),
        file: 0,
    };
    for is_copy in [false, true] {
        let sim = directory();
        let file = sim.create(EPOCH).unwrap();
        let own = file.usage().unwrap().id;
        let number = if is_copy { own + 1000 } else { own };
        file.write_all_at(&EpochRecord { file: number, ..record }.encode(), 0).unwrap();
        let secret = key_file(1);
        converted(&sim, &secret).unwrap();
        let file = opened(&sim, &secret).unwrap().open_read(EPOCH).unwrap();
        let found = EpochRecord::decode(&read(file.as_ref())).unwrap();
        assert_eq!((found.held, found.file == file.usage().unwrap().id), (record.held, !is_copy));
    }
}

#[test]
fn an_unfinished_conversion_makes_no_new_keys_where_its_own_are_lost() {
    let secret = key_file(1);
    let whole = directory();
    // Some file is encrypted, and the last one is not.
    let sim = (1..)
        .map(|stop| {
            let sim = whole.copy();
            sim.stop_at(stop);
            let _ = converted(&sim, &secret);
            sim.crash(CrashPolicy::KeepAll)
        })
        .find(|sim| sim.contents("data/0000000000000001.tables").is_ok_and(|bytes| bytes.len() > 4096))
        .unwrap();
    let lost = sim.copy();
    lost.remove(KEYS).unwrap();
    lost.remove(KEYS_COPY).unwrap();
    assert!(matches!(converted(&lost, &secret), Err(VaultError::KeysMissing(_))));
    assert!(lost.contents(KEYS).is_err(), "no new key takes the place of the lost one");
}

/// A directory whose conversion was cut off after its first file.
fn half_converted(secret: &StoreSecret) -> SimFs {
    let before = directory();
    for stop in 1.. {
        let sim = before.copy();
        sim.stop_at(stop);
        assert!(converted(&sim, secret).is_err(), "no file was the first one");
        let after = sim.crash(CrashPolicy::KeepAll);
        let is_begun = plain().iter().any(|(path, bytes)| after.contents(path).unwrap() != *bytes);
        if is_begun && matches!(opened(&after, secret), Err(VaultError::Converting)) {
            return after;
        }
    }
    unreachable!("each conversion has an end")
}

fn copy_file(from: &SimFs, to: &SimFs, path: &str) {
    to.remove(path).unwrap();
    write(to, path, &from.contents(path).unwrap()).sync_data().unwrap();
}

fn contents(sim: &SimFs) -> Vec<(String, Vec<u8>)> {
    sim.files().into_iter().map(|(path, _)| (path.clone(), sim.contents(&path).unwrap())).collect()
}

#[test]
fn a_conversion_does_not_go_on_with_the_keys_of_another_directory() {
    let secret = key_file(1);
    let [ours, theirs] = [half_converted(&secret), half_converted(&secret)];
    let mixed = ours.copy();
    for name in [KEYS, KEYS_COPY] {
        copy_file(&theirs, &mixed, name);
    }
    let before = contents(&mixed);
    assert!(matches!(converted(&mixed, &secret), Err(VaultError::ForeignKeys { .. })));
    assert!(
        contents(&mixed).iter().all(|file| file.0 == LOCK || before.contains(file)),
        "something was written"
    );
    for name in [KEYS, KEYS_COPY] {
        copy_file(&ours, &mixed, name);
    }
    converted(&mixed, &secret).unwrap();
    assert_encrypted(&mixed, &secret);
    // Of two pages of two directories that one counts whose key the files have.
    for name in [KEYS, KEYS_COPY] {
        let mixed = ours.copy();
        copy_file(&theirs, &mixed, name);
        converted(&mixed, &secret).unwrap();
        assert_encrypted(&mixed, &secret);
    }
}
