//! The shadow of the log on the large one of two disks, and the store that is left of that disk when
//! the fast one dies.

use std::collections::BTreeMap;

use super::disks::{BULK, disk, on_encrypted_disk, on_two_disks};
use super::tier::{NOTHING_LOCAL, Tiered, work as work_of_tier};
use super::*;
use crate::base::Clock;
use crate::base::test_scope::points;
use crate::format::FileKind;
use crate::fs::sim::CrashPolicy;
use crate::fs::{Fs, SubdirFs};
use crate::index::{Cursor, Index};
use crate::log::{list_numbers, shadow_of};
use crate::offline::drop_lost;
use crate::offline::lost_disk::{LostDiskError, LostDiskOptions, LostDiskReport};
use crate::offline::verify::verify;
use crate::store::open::loader::{StoreLoader, store_id};
use crate::vault::{EncryptedFs, StoreKey};

/// Large objects fill segments of their own, and the log goes on in file after file.
fn many_files() -> StoreOptions {
    StoreOptions {
        segment_max_bytes: 200_000,
        log_file_max_bytes: 16_384,
        checkpoint_after_bytes: 30_000,
        ..options()
    }
}

fn shadow_all(store: &Store) -> Result<(), StoreError> {
    while store.shadow_log()? {}
    let damage = store.health().damage;
    assert!(damage.iter().all(|found| found.what.contains("set aside")), "{damage:?}");
    Ok(())
}

fn entries_of(index: &Index) -> Vec<crate::format::Entry> {
    let mut cursor = Cursor::Start;
    let mut all = Vec::new();
    loop {
        let entries = index.walk(&mut cursor, 1000);
        if entries.is_empty() {
            return all;
        }
        all.extend(entries);
    }
}

/// The index that the shadow adds up to.
fn shadowed(disk: &Arc<dyn Fs>) -> Index {
    let shadow = shadow_of(Arc::clone(disk));
    let store = store_id(&shadow).unwrap().expect("there is a shadow");
    let mut damage = Vec::new();
    let loader = StoreLoader::from_newest(&shadow, store, &mut damage).unwrap();
    let mut loader = loader.with_segments_on(disk.as_ref()).of_durable_groups();
    let tail = loader.replay().unwrap();
    assert!(damage.is_empty() && tail.damage.is_none(), "{damage:?} {:?}", tail.damage);
    loader.index
}

/// Extends the shadow until it lacks nothing: a checkpoint that is written meanwhile may put it off.
fn assert_shadowed(store: &Store, fs: &SimFs) {
    while store.fast_disk().unwrap().shadow_lag_groups > 0 {
        shadow_all(store).unwrap();
    }
    let shadow = entries_of(&shadowed(&disk(fs)));
    assert!(shadow == entries_of(&store.shared.index()), "{} entries in the shadow", shadow.len());
}

/// Large objects by name, and the content of each.
type Objects = BTreeMap<String, Vec<u8>>;

/// The state when the power went.
#[derive(Default)]
struct Progress {
    /// Objects that were there when the shadow was extended last, and have not changed since.
    kept: Objects,
    /// The contents that each name has ever had.
    ever: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Progress {
    fn put(
        &mut self,
        store: &Store,
        now: &mut Objects,
        name: &str,
        content: Vec<u8>,
    ) -> Result<(), StoreError> {
        // Either may be there after a crash.
        self.kept.remove(name);
        self.ever.entry(name.to_owned()).or_default().push(content.clone());
        put(store, "b", name, &content)?;
        now.insert(name.to_owned(), content);
        Ok(())
    }

    fn delete(&mut self, store: &Store, now: &mut Objects, name: &str) -> Result<(), StoreError> {
        self.kept.remove(name);
        delete(store, "b", name, Selector::Current)?;
        now.remove(name);
        Ok(())
    }

    /// Puts, replacements, deletions and relocations, with the shadow behind for some time.
    fn run(&mut self, fs: &SimFs) -> Result<(), StoreError> {
        let store = open_with(fs, many_files()).map_err(|error| StoreError::Io(error.to_string()))?;
        let mut now = Objects::new();
        store.create_bucket("b", "admin")?;
        for number in 0..40_u64 {
            let name = format!("large-{}", number % 14);
            self.put(&store, &mut now, &name, bytes(number, 80_000 + number as usize))?;
            self.put(&store, &mut now, &format!("small-{number}"), bytes(number, 3_000))?;
            if number % 3 == 2 {
                let gone = format!("large-{}", (number * 5) % 14);
                self.delete(&store, &mut now, &gone)?;
            }
            if number % 7 == 6 {
                shadow_all(&store)?;
                // The power may be gone, which is no error of the shadow.
                if store.fast_disk().expect("there are two disks").shadow_lag_groups == 0 {
                    self.kept = now.clone();
                }
            }
            if number % 5 == 4 {
                // Seals what is full, relocates what lives, and removes what is dead.
                while store.reclaim()?.more {}
            }
        }
        Ok(())
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)))
}

/// The large disk alone, as the store sees it.
fn large_disk(fs: &SimFs, is_encrypted: bool) -> Arc<dyn Fs> {
    let bulk: Arc<dyn Fs> = Arc::new(SubdirFs::new(Arc::new(fs.clone()), BULK));
    if !is_encrypted {
        return bulk;
    }
    let key = StoreKey::new(zeroize::Zeroizing::new([7; 32]));
    Arc::new(EncryptedFs::new(bulk, key, Arc::new(SeededEntropy::new(99))))
}

fn lose(bulk: &Arc<dyn Fs>) -> Result<LostDiskReport, LostDiskError> {
    drop_lost(bulk, &clock(), LostDiskOptions::default(), &mut |_| Ok(()))
}

/// As [`lose`], where the power went while the shadow was being extended.
fn lose_at_power_cut(bulk: &Arc<dyn Fs>) -> Result<LostDiskReport, LostDiskError> {
    match lose(bulk) {
        Err(LostDiskError::Cut(_)) => {
            let options = LostDiskOptions { accepts_damage: true };
            drop_lost(bulk, &clock(), options, &mut |_| Ok(()))
        }
        lost => lost,
    }
}

fn check_left(bulk: &Arc<dyn Fs>, progress: &Progress) {
    let store = Store::open(Arc::clone(bulk), clock(), &SeededEntropy::new(5), many_files()).unwrap();
    let health = store.health();
    assert!(health.read_only.is_none() && health.damage.is_empty(), "{health:?}");
    for (name, content) in progress.kept.iter().filter(|(name, _)| name.starts_with("large")) {
        assert_eq!(&get(&store, "b", name).unwrap(), content, "{name}");
    }
    if store.bucket("b").is_ok() {
        for name in keys(&store, "b") {
            let content = get(&store, "b", &name).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(progress.ever[&name].contains(&content), "{name}");
        }
        put(&store, "b", "later", &bytes(1, 90_000)).unwrap();
        assert_eq!(get(&store, "b", "later").unwrap(), bytes(1, 90_000));
    }
    // The checkpointer would remove log files under the eyes of the check.
    store.close();
    drop(store);
    let verified = verify(bulk.as_ref(), &mut |_| {}).unwrap();
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
}

/// The fast disk dies at operations of the work ([`points`]).
fn sweep_of_losses(is_encrypted: bool, stride: u64) {
    let mut whole = 0;
    for stop in points(stride) {
        let fs = SimFs::new();
        fs.stop_at(stop);
        let mut progress = Progress::default();
        let ended = progress.run(&fs);
        println!("the fast disk dies at operation {stop}");
        for policy in [CrashPolicy::DropAll, CrashPolicy::Random(stop)] {
            let left = fs.crash(policy);
            let bulk = large_disk(&left, is_encrypted);
            match lose_at_power_cut(&bulk) {
                Ok(report) => {
                    whole += usize::from(report.damage.is_empty());
                    check_left(&bulk, &progress);
                }
                Err(LostDiskError::NoShadow | LostDiskError::Unreadable(_)) => {
                    assert!(progress.kept.is_empty(), "there was a shadow");
                }
                Err(error) => panic!("{error}"),
            }
        }
        if ended.is_ok() {
            assert!(whole > 10, "{whole} losses left a store");
            return;
        }
    }
}

#[test]
fn the_shadow_has_what_the_log_has_over_files_checkpoints_and_restarts() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let mut store = open_with(&fs, many_files()).unwrap();
        store.create_bucket("b", "admin").unwrap();
        for round in 0..12 {
            for number in 0..20 {
                put(&store, "b", &format!("{round}-{number}"), &bytes(number, 500)).unwrap();
            }
            shadow_all(&store).unwrap();
            assert_shadowed(&store, &fs);
            match round % 4 {
                1 => store.checkpoint().unwrap(),
                2 => {
                    drop(store);
                    store = open_with(&fs, many_files()).unwrap();
                }
                _ => {}
            }
        }
        store.checkpoint().unwrap();
        put(&store, "b", "last", b"x").unwrap();
        shadow_all(&store).unwrap();
        let kept = fs.files().into_iter().filter(|(path, _)| path.starts_with("bulk/shadow/")).count();
        assert!(kept <= 3, "what a checkpoint makes obsolete goes: {:?}", fs.files());
    });
}

#[test]
fn a_shadow_that_fell_behind_what_the_log_has_begins_anew() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let options = StoreOptions { follow_max_bytes: 0, ..many_files() };
        let store = open_with(&fs, options).unwrap();
        store.create_bucket("b", "admin").unwrap();
        shadow_all(&store).unwrap();
        for round in 0..6 {
            for number in 0..40 {
                put(&store, "b", &format!("{round}-{number}"), &bytes(number, 500)).unwrap();
            }
            store.checkpoint().unwrap();
            if round % 3 == 1 {
                // It finds out while it follows.
                shadow_all(&store).unwrap();
                assert_shadowed(&store, &fs);
            }
        }
        drop(store);
        let store = open_with(&fs, options).unwrap();
        shadow_all(&store).unwrap();
        assert_shadowed(&store, &fs);
    });
}

#[test]
fn a_shadow_that_is_newer_than_the_log_is_set_aside_and_reported() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open(&fs);
        store.create_bucket("b", "admin").unwrap();
        drop(store);
        let older: Vec<_> = fs.files().into_iter().filter(|(path, _)| path.starts_with("fast/")).collect();
        let older: Vec<_> =
            older.into_iter().map(|(path, _)| (path.clone(), fs.contents(&path).unwrap())).collect();
        let store = open(&fs);
        for number in 0..9 {
            put(&store, "b", &format!("{number}"), b"x").unwrap();
        }
        shadow_all(&store).unwrap();
        drop(store);
        for (path, content) in older {
            fs.open(&path).unwrap().write_all_at(&content, 0).unwrap();
        }
        let store = open(&fs);
        assert!(keys(&store, "b").is_empty(), "the log is the older one");
        shadow_all(&store).unwrap();
        let damage = store.health().damage;
        assert!(damage.iter().any(|found| found.what.contains("set aside")), "{damage:?}");
        let kept = fs.files().into_iter().filter(|(path, _)| path.contains(".replaced-")).count();
        assert_eq!(kept, 1, "{:?}", fs.files());
        assert!(store.fast_disk().unwrap().shadow_lag_groups > 0);
        assert!(store.is_shadowed(1).unwrap(), "nobody waits for it");
        put(&store, "b", "goes on", b"x").unwrap();
        drop(store);
        let store = open(&fs);
        shadow_all(&store).unwrap();
        assert_shadowed(&store, &fs);
        assert!(store.health().damage.is_empty());
    });
}

#[test]
fn a_dead_fast_disk_costs_what_was_on_it_and_what_the_shadow_lacked() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let mut progress = Progress::default();
        progress.run(&fs).unwrap();
        let left = fs.crash(CrashPolicy::DropAll);
        let bulk = large_disk(&left, false);
        let mut lost = Vec::new();
        let report = drop_lost(&bulk, &clock(), LostDiskOptions::default(), &mut |owner| {
            lost.push(owner.key.clone());
            Ok(())
        });
        let report = report.unwrap();
        assert_eq!(lost.len() as u64, report.lost_versions);
        assert!(lost.iter().all(|key| key.starts_with("small")), "{lost:?}");
        assert!(lost.len() > 20 && report.versions > 5, "{report:?}");
        check_left(&bulk, &progress);
    });
}

#[test]
fn large_objects_that_the_shadow_has_are_readable_whenever_the_fast_disk_dies() {
    on_two_disks(|| sweep_of_losses(false, 5));
}

#[test]
fn encrypted_ones_are_too() {
    on_encrypted_disk(|| on_two_disks(|| sweep_of_losses(true, 23)));
}

#[test]
fn a_full_large_disk_ends_the_shadow_and_no_reclamation() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open_with(&fs, many_files()).unwrap();
        store.create_bucket("b", "admin").unwrap();
        shadow_all(&store).unwrap();
        for number in 0..20 {
            put(&store, "b", "replaced", &bytes(number, 90_000)).unwrap();
        }
        let capacity = fs.space().unwrap().total_bytes;
        // Less than what a file of the log takes.
        fs.set_capacity(capacity - fs.space().unwrap().free_bytes + 4_000);
        let before = store.segment_bytes().unwrap();
        while store.reclaim().unwrap().more {}
        assert!(store.segment_bytes().unwrap() < before);
        assert!(store.fast_disk().unwrap().shadow_lag_groups > 0);
        assert!(fs.files().iter().all(|(path, _)| !path.starts_with("bulk/shadow/")), "{:?}", fs.files());
        assert!(store.health().read_only.is_none());
        fs.set_capacity(capacity);
        drop(store);
        let store = open_with(&fs, many_files()).unwrap();
        shadow_all(&store).unwrap();
        assert_shadowed(&store, &fs);
    });
}

/// A store with a shadow of several log files, with no checkpoint, and the disk after the power went.
fn with_long_shadow(fs: &SimFs) -> Arc<dyn Fs> {
    with_shadow_of_files(fs, many_files().log_file_max_bytes)
}

fn with_shadow_of_files(fs: &SimFs, log_file_max_bytes: u64) -> Arc<dyn Fs> {
    let options = StoreOptions { checkpoint_after_bytes: u64::MAX, log_file_max_bytes, ..many_files() };
    let store = open_with(fs, options).unwrap();
    store.create_bucket("b", "admin").unwrap();
    for number in 0..30 {
        put(&store, "b", &format!("large-{number}"), &bytes(number, 70_000)).unwrap();
    }
    shadow_all(&store).unwrap();
    drop(store);
    large_disk(&fs.crash(CrashPolicy::DropAll), false)
}

#[test]
fn a_shadow_with_damage_before_its_end_is_used_where_the_operator_accepts_it() {
    on_two_disks(|| {
        let bulk = with_long_shadow(&SimFs::new());
        let files = list_numbers(&shadow_of(Arc::clone(&bulk)), FileKind::Log).unwrap();
        assert!(files.len() > 3, "{files:?}");
        let path = format!("shadow/{}", crate::format::log_path(files[1]));
        bulk.open(&path).unwrap().write_all_at(b"rot", 4100).unwrap();
        let refusal = lose(&bulk).unwrap_err();
        assert!(matches!(&refusal, LostDiskError::Cut(damage) if damage.file.ends_with(".log")), "{refusal}");
        assert!(bulk.list("meta").unwrap().is_empty(), "nothing was made");
        let options = LostDiskOptions { accepts_damage: true };
        let report = drop_lost(&bulk, &clock(), options, &mut |_| Ok(())).unwrap();
        assert_eq!(report.last_group, files[1] - 1);
        assert_eq!(report.damage.len(), 1, "{report:?}");
        check_left(&bulk, &Progress { ever: contents_of_long_shadow(), ..Progress::default() });
    });
}

fn contents_of_long_shadow() -> BTreeMap<String, Vec<Vec<u8>>> {
    (0..30).map(|number| (format!("large-{number}"), vec![bytes(number, 70_000)])).collect()
}

#[test]
fn a_loss_is_repeated_after_a_power_cut_at_any_operation() {
    on_two_disks(|| {
        for stop in points(7) {
            let before = SimFs::new();
            with_long_shadow(&before);
            let fs = before.crash(CrashPolicy::DropAll);
            fs.stop_at(fs.operations() + stop);
            let ended = lose(&large_disk(&fs, false)).is_ok();
            let bulk = large_disk(&fs.crash(CrashPolicy::Random(stop)), false);
            // As the directories do it before: beside the mark, nothing counts.
            for name in bulk.list("meta").unwrap() {
                bulk.remove(&format!("meta/{name}")).unwrap();
            }
            let report = lose(&bulk).unwrap();
            assert_eq!((report.versions, report.lost_versions), (30, 0));
            check_left(&bulk, &Progress { ever: contents_of_long_shadow(), ..Progress::default() });
            if ended {
                return;
            }
        }
    });
}

#[test]
fn followers_begin_anew_and_do_not_take_a_loss_for_deletions() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open(&fs);
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "small", b"on the fast disk").unwrap();
        let mut follower = store.follower("away", Beginning::Snapshot);
        while let Some(batch) = follower.next(&store, 7).unwrap() {
            follower.done_through(&store, batch.end).unwrap();
        }
        follower.save(&store).unwrap();
        shadow_all(&store).unwrap();
        assert_eq!(store.shared.index().followers().count(), 1);
        drop(store);
        let bulk = large_disk(&fs.crash(CrashPolicy::DropAll), false);
        let report = lose(&bulk).unwrap();
        assert_eq!((report.followers, report.lost_versions), (vec!["away".to_owned()], 1));
        let store = Store::open(bulk, clock(), &SeededEntropy::new(5), options()).unwrap();
        assert_eq!(store.shared.index().followers().count(), 0);
    });
}

#[test]
fn no_bytes_leave_for_a_remote_before_the_shadow_knows_that_it_has_them() {
    on_two_disks(|| {
        let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
        let done = work_of_tier(&store).unwrap();
        assert!(done.sent >= 2 && done.given_back_bytes == 0, "{done:?}");
        shadow_all(&store).unwrap();
        let done = work_of_tier(&store).unwrap();
        assert!(done.given_back_bytes > 0, "{done:?}");
        store.close();
        drop(store);
        let left = tiered.fs.crash(CrashPolicy::DropAll);
        let report = lose(&large_disk(&left, false)).unwrap();
        assert!(report.lost_versions <= 1, "all but the last one are on the remote: {report:?}");
    });
}

#[test]
fn rot_in_the_last_file_of_a_shadow_is_no_end_of_it() {
    on_two_disks(|| {
        let bulk = with_shadow_of_files(&SimFs::new(), options().log_file_max_bytes);
        let path = format!("shadow/{}", crate::format::log_path(1));
        // The third group of many.
        bulk.open(&path).unwrap().write_all_at(b"rot", 3 * 4096 + 4).unwrap();
        let refusal = lose(&bulk).unwrap_err();
        assert!(matches!(refusal, LostDiskError::Cut(_)), "{refusal}");
        let report = lose_at_power_cut(&bulk).unwrap();
        assert_eq!((report.last_group, report.damage.len()), (2, 1));
        check_left(&bulk, &Progress { ever: contents_of_long_shadow(), ..Progress::default() });
    });
}

#[test]
fn a_shadow_without_groups_that_its_checkpoint_needs_is_unusable() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open(&fs);
        store.create_bucket("b", "admin").unwrap();
        for number in 0..9 {
            put(&store, "b", &format!("large-{number}"), &bytes(number, 70_000)).unwrap();
        }
        store.checkpoint().unwrap();
        put(&store, "b", "large-9", &bytes(9, 70_000)).unwrap();
        shadow_all(&store).unwrap();
        drop(store);
        let bulk = large_disk(&fs.crash(CrashPolicy::DropAll), false);
        let path = format!("shadow/{}", crate::format::log_path(1));
        bulk.open(&path).unwrap().write_all_at(b"rot", 8200).unwrap();
        let names = |fs: &Arc<dyn Fs>| fs.list("shadow/meta").unwrap();
        let before = names(&bulk);
        assert!(before.iter().any(|name| name.ends_with(".checkpoint")), "{before:?}");
        let refusal = lose_at_power_cut(&bulk).unwrap_err();
        assert!(matches!(refusal, LostDiskError::Unreadable(_)), "{refusal}");
        assert_eq!(names(&bulk), before);
    });
}

#[test]
fn a_log_that_cannot_be_read_costs_no_shadow() {
    on_two_disks(|| {
        let fs = SimFs::new();
        let store = open(&fs);
        store.create_bucket("b", "admin").unwrap();
        put(&store, "b", "large", &bytes(1, 70_000)).unwrap();
        shadow_all(&store).unwrap();
        let groups = store.shared.published().sequence;
        put(&store, "b", "later", &bytes(2, 70_000)).unwrap();
        let end = fs.contents("fast/meta/0000000000000001.log").unwrap().len() as u64;
        fs.make_unreadable("fast/meta/0000000000000001.log", 4096..end).unwrap();
        assert!(!store.shadow_log().unwrap());
        assert!(!store.health().damage.is_empty());
        assert!(!store.is_shadowed(groups + 1).unwrap(), "what the shadow names stays");
        drop(store);
        let bulk = large_disk(&fs.crash(CrashPolicy::DropAll), false);
        assert_eq!(lose(&bulk).unwrap().last_group, groups);
        let kept = Objects::from([("large".to_owned(), bytes(1, 70_000))]);
        let ever = BTreeMap::from([("large".to_owned(), vec![bytes(1, 70_000)])]);
        check_left(&bulk, &Progress { kept, ever });
    });
}
