//! Backups with the keys of encrypted objects, while keys come and go.

use std::cell::{Cell, RefCell};
use std::io;

use super::object_encryption::{put_sealed, read_whole, rewrap_all};
use super::random::{rebuild_log, segments_of};
use super::*;
use crate::keys::{KeyRing, SharedKeyRing, first_file, with_new_key, with_retired_key, without_key};
use crate::offline::backup::{BackupOptions, BackupReport, BackupSource, RestoreReport};

const KEYS: &str = "keys.toml";

/// A store whose ring is in its directory.
struct Ringed {
    fs: SimFs,
    store: Store,
    ring: Arc<SharedKeyRing>,
    text: RefCell<String>,
    rotations: Cell<u64>,
}

impl Ringed {
    fn new() -> Self {
        let fs = SimFs::new();
        let store = open(&fs);
        let ring = Arc::new(SharedKeyRing::default());
        store.set_keys(Arc::clone(&ring) as Arc<dyn KeySource>);
        let text = first_file(Timestamp::from_millis(1), &SeededEntropy::new(1));
        let ringed = Self { fs, store, ring, text: RefCell::default(), rotations: Cell::new(0) };
        ringed.set(text);
        ringed.store.create_bucket("b", "admin").unwrap();
        put_sealed(&ringed.store, "small", &bytes(1, 100), None, &NewEncryption::S3).unwrap();
        put_sealed(&ringed.store, "large", &bytes(2, 200_000), None, &NewEncryption::S3).unwrap();
        ringed
    }

    /// Puts another ring into effect, and into its file.
    fn set(&self, text: String) {
        let file = self.fs.create("keys.new").unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        file.sync_data().unwrap();
        self.fs.rename("keys.new", KEYS).unwrap();
        self.ring.replace(KeyRing::parse(&text).unwrap());
        self.text.replace(text);
    }

    fn current(&self) -> String {
        self.ring.get().current().unwrap().id.clone()
    }

    /// Gives all objects to a new key, with an object that never had another, and destroys the old
    /// one.
    fn rotate(&self) {
        let number = self.rotations.get() + 2;
        self.rotations.set(number - 1);
        let old = self.current();
        let time = Timestamp::from_millis(number);
        let (text, _) = with_new_key(&self.text.borrow(), None, time, &SeededEntropy::new(number)).unwrap();
        self.set(text);
        put_sealed(&self.store, "newest", &bytes(number, 300), None, &NewEncryption::S3).unwrap();
        rewrap_all(&self.store);
        assert_eq!(self.store.key_uses().get(&old), None);
        let text = with_retired_key(&self.text.borrow(), &old).unwrap();
        self.set(without_key(&text, &old).unwrap());
    }

    /// Makes a backup, with `meanwhile` called at each sign of progress, which are numbered.
    fn back_up(&self, to: &SimFs, meanwhile: &dyn Fn(u64)) -> BackupReport {
        let elsewhere = |_: &str, _: &str| Err(io::ErrorKind::CrossesDevices.into());
        let source = BackupSource { fs: &self.fs, link: &elsewhere };
        let options = BackupOptions { with_users: true, ..BackupOptions::default() };
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let mut step = 0;
        let made = backup(&source, to, &clock, options, &mut |_| {
            meanwhile(step);
            step += 1;
        });
        made.unwrap()
    }
}

fn restore_ringed(from: &SimFs) -> (RestoreReport, SimFs, String) {
    let to = SimFs::new();
    let report = restore(from, &to, &mut |_| {}).unwrap();
    assert!(report.with_keys && report.findings.is_empty(), "{report:?}");
    let text = String::from_utf8(to.contents(KEYS).unwrap()).unwrap();
    (report, to, text)
}

/// Restores a backup, and reads every object with the ring that was restored.
fn check_opens(from: &SimFs, place: &str) {
    let (report, to, text) = restore_ringed(from);
    assert_eq!(report.keys_missing, [], "{place}");
    let store = open(&to);
    store.set_keys(Arc::new(SharedKeyRing::new(KeyRing::parse(&text).unwrap())));
    assert_eq!(read_whole(&store, "small", None).unwrap(), bytes(1, 100), "{place}");
    assert_eq!(read_whole(&store, "large", None).unwrap(), bytes(2, 200_000), "{place}");
    for key in keys(&store, "b") {
        read_whole(&store, &key, None).unwrap_or_else(|error| panic!("{place}: {key}: {error}"));
    }
}

#[test]
fn a_backup_opens_whenever_keys_are_exchanged_while_it_is_made() {
    // At each sign of progress in turn, and at the next one, too.
    for at in 0.. {
        let reached = Cell::new(false);
        for times in [1, 2] {
            let ringed = Ringed::new();
            let target = SimFs::new();
            let report = ringed.back_up(&target, &|step| {
                if step >= at && step - at < times {
                    reached.set(true);
                    ringed.rotate();
                }
            });
            let place = format!("{times} from step {at}");
            assert_eq!(report.keys_missing, [], "{place}");
            check_opens(&target, &place);
            // The next one goes to the other slot, and takes sealed segments from there.
            ringed.back_up(&target, &|step| {
                if step == at {
                    ringed.rotate();
                }
            });
            check_opens(&target, &format!("{place}, the second one"));
        }
        if !reached.get() {
            assert!(at > 3, "there was progress at {at} moments only");
            return;
        }
    }
}

#[test]
fn a_backup_ends_also_if_keys_are_exchanged_all_the_time() {
    let ringed = Ringed::new();
    let target = SimFs::new();
    let report = ringed.back_up(&target, &|step| {
        if step < 200 {
            ringed.rotate();
        }
    });
    let (restored, _, _) = restore_ringed(&target);
    assert_eq!(restored.keys_missing, report.keys_missing, "what it lacks is named");
}

#[test]
fn a_backup_keeps_the_key_that_the_ring_lost() {
    let ringed = Ringed::new();
    let target = SimFs::new();
    ringed.back_up(&target, &|_| ());
    let lost = ringed.current();
    let whole = ringed.text.borrow().clone();
    let (both, _) = with_new_key(&whole, None, Timestamp::from_millis(5), &SeededEntropy::new(5)).unwrap();
    let lacking = without_key(&with_retired_key(&both, &lost).unwrap(), &lost).unwrap();
    ringed.set(lacking);
    let new = ringed.current();
    for _ in 0..2 {
        assert_eq!(ringed.back_up(&target, &|_| ()).keys_missing, []);
        let (report, _, text) = restore_ringed(&target);
        let ring = KeyRing::parse(&text).unwrap();
        assert_eq!((report.keys_missing.len(), ring.current().unwrap().id.clone()), (0, new.clone()));
        assert!(ring.by_id(&lost).is_some_and(|key| key.retired), "it wraps nothing new");
    }
    // What no record names is not kept: it was destroyed.
    put_sealed(&ringed.store, "small", b"x", None, &NewEncryption::S3).unwrap();
    put_sealed(&ringed.store, "large", b"x", None, &NewEncryption::S3).unwrap();
    ringed.back_up(&target, &|_| ());
    assert!(!restore_ringed(&target).2.contains(&lost));
}

#[test]
fn a_backup_and_its_restore_name_the_keys_that_are_nowhere() {
    let ringed = Ringed::new();
    let lost = ringed.current();
    let whole = ringed.text.borrow().clone();
    let (both, _) = with_new_key(&whole, None, Timestamp::from_millis(5), &SeededEntropy::new(5)).unwrap();
    let lacking = without_key(&with_retired_key(&both, &lost).unwrap(), &lost).unwrap();
    // Another key under the id is as good as none.
    let other = first_file(Timestamp::from_millis(1), &SeededEntropy::new(9));
    let other_id = KeyRing::parse(&other).unwrap().current().unwrap().id.clone();
    for text in [lacking, other.replace(&other_id, &lost)] {
        ringed.set(text);
        let target = SimFs::new();
        let needed = [NeededKey { id: lost.clone(), uses: 2 }];
        assert_eq!(ringed.back_up(&target, &|_| ()).keys_missing, needed);
        assert_eq!(restore_ringed(&target).0.keys_missing, needed);
    }
    // Customers' keys are in no ring.
    ringed.set(whole);
    let customer = NewEncryption::Customer(MasterKey::new([7; 32]));
    put_sealed(&ringed.store, "theirs", b"x", None, &customer).unwrap();
    let target = SimFs::new();
    assert_eq!(ringed.back_up(&target, &|_| ()).keys_missing, []);
    assert_eq!(restore_ringed(&target).0.keys_missing, []);
}

#[test]
fn what_is_no_ring_is_not_backed_up_as_one() {
    let ringed = Ringed::new();
    ringed.fs.overwrite(KEYS, 0, b"[[what").unwrap();
    let elsewhere = |_: &str, _: &str| Err(io::ErrorKind::CrossesDevices.into());
    let source = BackupSource { fs: &ringed.fs, link: &elsewhere };
    let options = BackupOptions { with_users: true, ..BackupOptions::default() };
    let clock = ManualClock::new(Timestamp::from_millis(1));
    let told = backup(&source, &SimFs::new(), &clock, options, &mut |_| {}).unwrap_err().to_string();
    assert!(told.starts_with("keys.toml: line 1"), "{told}");
    let options = BackupOptions::default();
    backup(&source, &SimFs::new(), &clock, options, &mut |_| {}).unwrap();
}

fn opened_with(fs: &SimFs, ring: &str) -> Store {
    let store = open(fs);
    store.set_keys(Arc::new(SharedKeyRing::new(KeyRing::parse(ring).unwrap())));
    store
}

#[test]
fn what_was_restored_or_rebuilt_needs_the_key_of_its_time() {
    let ringed = Ringed::new();
    let target = SimFs::new();
    ringed.back_up(&target, &|_| ());
    let old = ringed.current();
    let before = ringed.text.borrow().clone();
    ringed.rotate();
    let after = ringed.text.borrow().clone();
    let retired = with_retired_key(&before, &old).unwrap();
    let (retired, _) =
        with_new_key(&retired, None, Timestamp::from_millis(9), &SeededEntropy::new(9)).unwrap();
    let lost = Err(StoreError::KeyUnavailable(old.clone()));
    let needed = [NeededKey { id: old, uses: 2 }];

    let (_, restored, own) = restore_ringed(&target);
    assert_eq!(own, before);
    for (ring, read) in [(&before, Ok(bytes(1, 100))), (&retired, Ok(bytes(1, 100))), (&after, lost.clone())]
    {
        assert_eq!(read_whole(&opened_with(&restored, ring), "small", None), read);
    }
    // Segments have the wraps of their time, whatever was wrapped anew since.
    for (ring, missing, read) in [
        (Some(&after), &needed[..], lost.clone()),
        (None, &needed[..], lost),
        (Some(&retired), &[], Ok(bytes(1, 100))),
    ] {
        let segments = segments_of(&ringed.fs);
        if let Some(ring) = ring {
            segments.create(KEYS).unwrap().write_all_at(ring.as_bytes(), 0).unwrap();
        }
        let report = rebuild_log(&segments);
        // The object of the new key is missing in the ring of before, and there without any.
        let of_old = report.keys_missing.iter().filter(|key| needed.contains(key)).count();
        assert_eq!((report.has_ring, of_old), (ring.is_some(), missing.len()));
        assert_eq!(report.is_whole(), ring.is_none());
        let opened = opened_with(&segments, ring.unwrap_or(&after));
        assert_eq!(read_whole(&opened, "small", None), read);
    }
}
