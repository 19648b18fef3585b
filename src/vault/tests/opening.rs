//! Which directories are opened, and which are refused.

use std::sync::Arc;

use super::{key_file, request};
use crate::base::SeededEntropy;
use crate::base::digest::Crc32;
use crate::format::{KEYS, KEYS_COPY};
use crate::fs::Fs;
use crate::fs::conformance::{read, write};
use crate::fs::sim::SimFs;
use crate::vault::{
    DirectoryKeys, StoreSecret, VaultError, copy_keys, create_disk, is_encrypted, keys_of, level_keys,
    open_disk, take_newer_keys,
};

const LOG: &str = "meta/0000000000000001.log";
const SEGMENT: &str = "data/0000000000000001.segment";

fn opened(sim: &SimFs, secret: Option<&StoreSecret>) -> Result<Arc<dyn Fs>, VaultError> {
    let before = files(sim);
    let found = open_disk(Arc::new(sim.clone()), secret, Arc::new(SeededEntropy::new(5)));
    assert_eq!(files(sim), before, "opening writes nothing");
    found
}

fn created(sim: &SimFs, secret: Option<&StoreSecret>) -> Result<Arc<dyn Fs>, VaultError> {
    let request = secret.map(request);
    create_disk(Arc::new(sim.clone()), request.as_ref(), Arc::new(SeededEntropy::new(6)))
}

fn files(sim: &SimFs) -> Vec<(String, Vec<u8>)> {
    let files = sim.files().into_iter();
    files.map(|(path, _)| (path.clone(), sim.contents(&path).unwrap())).collect()
}

/// A new encrypted directory with a file of the log and a segment.
fn directory() -> (SimFs, StoreSecret) {
    let sim = SimFs::new();
    let secret = key_file(1);
    let fs = created(&sim, Some(&secret)).unwrap();
    fs.create_dir("meta").unwrap();
    fs.create_dir("data").unwrap();
    write(fs.as_ref(), LOG, b"log");
    write(fs.as_ref(), SEGMENT, b"segment");
    (sim, secret)
}

#[test]
fn a_new_directory_opens_with_its_secret_alone() {
    let (sim, secret) = directory();
    let fs = opened(&sim, Some(&secret)).unwrap();
    assert_eq!(read(fs.open(LOG).unwrap().as_ref()), b"log");
    let again = created(&sim, Some(&secret)).unwrap();
    assert_eq!(read(again.open(LOG).unwrap().as_ref()), b"log");
    assert!(matches!(opened(&sim, None), Err(VaultError::NoSecret)));
    assert!(matches!(opened(&sim, Some(&key_file(2))), Err(VaultError::NoSlot(_))));
    assert!(matches!(created(&sim, Some(&key_file(2))), Err(VaultError::NoSlot(_))));
    assert!(is_encrypted(&sim).unwrap());
}

#[test]
fn a_plain_directory_stays_plain() {
    let sim = SimFs::new();
    sim.create_dir("meta").unwrap();
    write(&sim, LOG, b"a log in the clear");
    let fs = opened(&sim, None).unwrap();
    assert_eq!(read(fs.open(LOG).unwrap().as_ref()), b"a log in the clear");
    assert!(matches!(created(&sim, Some(&key_file(1))), Err(VaultError::StoreExists)));
    assert!(matches!(created(&SimFs::new(), None), Err(VaultError::NothingToEncryptWith)));
    assert!(!is_encrypted(&sim).unwrap());
}

#[test]
fn missing_keys_are_named_and_not_taken_for_damage() {
    let (sim, secret) = directory();
    sim.remove(KEYS).unwrap();
    assert!(opened(&sim, Some(&secret)).is_ok(), "the copy is enough");
    sim.remove(KEYS_COPY).unwrap();
    for found in [opened(&sim, Some(&secret)), opened(&sim, None), created(&sim, Some(&secret))] {
        assert!(matches!(found, Err(VaultError::KeysMissing(path)) if path == LOG));
    }
}

#[test]
fn a_plain_file_in_an_encrypted_directory_is_named() {
    let (sim, secret) = directory();
    write(&sim, "meta/clock", b"in the clear");
    let refused = opened(&sim, Some(&secret)).err().unwrap().to_string();
    assert!(refused.starts_with("meta/clock"), "{refused}");
    // Of many segments one is looked at when its bytes are wanted, and gives none.
    let (sim, secret) = directory();
    let path = "data/0000000000000002.segment";
    write(&sim, path, b"in the clear");
    let file = opened(&sim, Some(&secret)).unwrap().open(path).unwrap();
    let refused = file.read_exact_at(&mut [0; 2], 0).unwrap_err().to_string();
    assert!(refused.contains(path) && refused.contains("not encrypted"), "{refused}");
    assert!(file.write_all_at(b"x", 0).is_err());
    let (sim, secret) = directory();
    write(&sim, "meta/clock.new", b"of a crash");
    write(&sim, "meta/empty", b"");
    assert!(opened(&sim, Some(&secret)).is_ok());
}

#[test]
fn keys_are_given_to_a_directory_without_or_with_the_same() {
    let (sim, secret) = directory();
    let target = SimFs::new();
    copy_keys(&sim, &target).unwrap();
    copy_keys(&sim, &target).unwrap();
    assert!(opened(&target, Some(&secret)).is_ok());
    let other = directory().0;
    assert!(copy_keys(&sim, &other).unwrap_err().to_string().contains("another"));
    copy_keys(&SimFs::new(), &target).unwrap();
}

/// The page of another directory with the same secret, which was changed so many times.
fn foreign_page(changes: usize) -> Vec<u8> {
    let (other, _) = directory();
    let mut keys = DirectoryKeys::read(&other).unwrap().unwrap();
    for _ in 0..changes {
        keys.write(&other).unwrap();
    }
    other.contents(KEYS).unwrap()
}

#[test]
fn a_page_of_another_directory_is_not_believed_by_its_generation() {
    for changes in [0, 3] {
        for name in [KEYS, KEYS_COPY] {
            let (sim, secret) = directory();
            let own = keys_of(&sim).unwrap().unwrap().key_id();
            sim.overwrite(name, 0, &foreign_page(changes)).unwrap();
            let fs = opened(&sim, Some(&secret)).unwrap();
            assert_eq!(read(fs.open(LOG).unwrap().as_ref()), b"log");
            let mut keys = DirectoryKeys::read(&sim).unwrap().unwrap();
            let fault = keys.fault().unwrap().clone();
            assert!(fault.file == name && fault.what.contains("another directory"), "{fault}");
            assert!(keys.check_changeable(&sim).is_err());
            keys.mend(&sim, &secret).unwrap();
            assert_eq!(sim.contents(KEYS).unwrap(), sim.contents(KEYS_COPY).unwrap());
            let mended = DirectoryKeys::read(&sim).unwrap().unwrap();
            assert!(mended.key_id() == own && mended.fault().is_none());
            assert!(opened(&sim, Some(&secret)).is_ok());
        }
    }
}

#[test]
fn two_pages_of_which_no_file_tells_the_right_one_are_both_named() {
    let (sim, secret) = directory();
    sim.overwrite(KEYS, 0, &foreign_page(3)).unwrap();
    sim.remove(LOG).unwrap();
    sim.remove(SEGMENT).unwrap();
    for found in [opened(&sim, Some(&secret)), created(&sim, Some(&secret))] {
        let told = found.err().unwrap().to_string();
        assert!(
            told.contains(KEYS) && told.contains(KEYS_COPY) && told.contains("move the one away"),
            "{told}"
        );
    }
    assert!(matches!(DirectoryKeys::read(&sim), Err(VaultError::TwoKeys { .. })));
    sim.remove(KEYS).unwrap();
    assert!(opened(&sim, Some(&secret)).is_ok());
}

#[test]
fn the_keys_of_another_directory_alone_open_nothing_and_are_not_written_again() {
    for has_copy in [false, true] {
        let (sim, secret) = directory();
        let page = foreign_page(0);
        sim.overwrite(KEYS, 0, &page).unwrap();
        match has_copy {
            true => sim.overwrite(KEYS_COPY, 0, &page).unwrap(),
            false => sim.remove(KEYS_COPY).unwrap(),
        }
        let told = opened(&sim, Some(&secret)).err().unwrap().to_string();
        assert!(told.contains(LOG) && told.contains("from a backup"), "{told}");
        let before = files(&sim);
        let mut keys = DirectoryKeys::read(&sim).unwrap().unwrap();
        assert!(matches!(keys.mend(&sim, &secret), Err(VaultError::ForeignKeys { .. })));
        assert!(matches!(keys.check_changeable(&sim), Err(VaultError::ForeignKeys { .. })));
        assert!(matches!(copy_keys(&sim, &SimFs::new()), Err(VaultError::ForeignKeys { .. })));
        assert_eq!(files(&sim), before);
    }
}

#[test]
fn of_two_sides_each_gets_the_newer_keys_and_those_of_a_newer_version_stay() {
    let (first, secret) = directory();
    let second = first.copy();
    let mut keys = DirectoryKeys::read(&second).unwrap().unwrap();
    let key = keys.open(&secret).unwrap();
    keys.add(&key, &request(&key_file(2))).unwrap();
    keys.write(&second).unwrap();
    let slots = |sim: &SimFs| DirectoryKeys::read(sim).unwrap().unwrap().slots().len();
    take_newer_keys(&second, &first).unwrap();
    assert_eq!([slots(&first), slots(&second)], [1, 2]);
    level_keys([&first, &second]).unwrap();
    assert_eq!([slots(&first), slots(&second)], [2, 2]);

    let newer = second.copy();
    for name in [KEYS, KEYS_COPY] {
        let mut page = newer.contents(name).unwrap();
        page[8] = 99;
        let end = page.len() - 4;
        let crc = Crc32::of(&page[..end]);
        page[end..].copy_from_slice(&crc.to_le_bytes());
        newer.overwrite(name, 0, &page).unwrap();
    }
    let before = files(&newer);
    assert!(level_keys([&first, &newer]).is_err());
    assert!(level_keys([&newer, &first]).is_err());
    assert_eq!(files(&newer), before);
}
