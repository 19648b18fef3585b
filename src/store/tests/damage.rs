//! Damage is told from what a crash leaves behind, is never repaired in silence, and never keeps
//! others from being read.

use std::thread;
use std::time::Duration;

use super::model::Model;
use super::steps::{If, Step, Which};
use super::*;
use crate::base::limits::PAGE_BYTES;
use crate::format::log_path;
use crate::fs::sim::CrashPolicy;

use Step::{Create, Delete, Put};

const PAGE: u64 = PAGE_BYTES;

/// Each is a group of one page, the last a small object in a pack.
const GROUPS: &[Step] = &[
    Create("a"),
    Put("a", "k1", 1, 100, If::Always),
    Put("a", "k2", 2, 70_000, If::Always),
    Step::Versioning("a", Versioning::Enabled),
    Put("a", "k1", 3, 5_000, If::Always),
    Delete("a", &[("k2", Which::Current)]),
    Create("b"),
    Put("b", "k3", 4, 300, If::Always),
    Delete("a", &[("k1", Which::Nth(0))]),
    Put("a", "k4", 5, 1_000, If::Always),
];

fn fill(store: &Store) {
    GROUPS.iter().for_each(|step| step.run(store).unwrap());
}

/// A store that ended without closing.
pub(super) struct Sample {
    pub(super) fs: SimFs,
    pub(super) options: StoreOptions,
    /// What it held behind each number of groups.
    pub(super) models: Vec<Model>,
}

impl Sample {
    pub(super) fn new(options: StoreOptions) -> Self {
        let fs = SimFs::new();
        let store = open_with(&fs, options).unwrap();
        let mut models = vec![Model::default()];
        for step in GROUPS {
            step.run(&store).unwrap();
            let mut model = models.last().unwrap().after(step).unwrap();
            model.learn_ids(&store);
            models.push(model);
        }
        drop(store);
        Self { fs, options, models }
    }

    pub(super) fn copy(&self) -> SimFs {
        self.fs.crash(CrashPolicy::KeepAll)
    }

    pub(super) fn last(&self) -> u64 {
        self.models.len() as u64 - 1
    }

    /// The store reads what came before group `n`, takes no writes, names the place, and leaves the
    /// disk as it is.
    pub(super) fn check_corrupt(&self, fs: &SimFs, n: u64, file: &str, offset: u64) {
        let before = everything(fs);
        let store = open_with(fs, self.options).expect("what came before the damage can be read");
        let health = store.health();
        let damage = &health.damage[0];
        assert_eq!((damage.file.as_str(), damage.offset), (file, offset), "{damage}");
        let refused = StoreError::ReadOnly(damage.to_string());
        assert_eq!(
            (health.read_only, health.read_only_reason),
            (Some(damage.to_string()), Some(ReadOnlyReason::LogDamaged))
        );
        assert_eq!(health.torn_groups, 0);
        assert_eq!(store.create_bucket("new", "admin"), Err(refused.clone()));
        assert_eq!(store.checkpoint(), Err(refused));
        let found = Model::of(&store);
        assert!(
            self.models[n as usize - 1].agrees_with(&found),
            "{:#?}\n{found:#?}",
            self.models[n as usize - 1]
        );
        store.close();
        drop(store);
        assert!(everything(fs) == before, "recovery writes nothing");
    }

    /// The last group is dropped, counted once, and the store goes on.
    pub(super) fn check_torn(&self, fs: &SimFs) {
        let store = open_with(fs, self.options).unwrap();
        let health = store.health();
        assert_eq!((health.read_only, health.damage, health.torn_groups), (None, vec![], 1));
        self.check_goes_on(fs, store, self.last() - 1);
    }

    /// Nothing is missing and nothing is said.
    pub(super) fn check_good(&self, fs: &SimFs) {
        let store = open_with(fs, self.options).unwrap();
        let health = store.health();
        assert_eq!((health.read_only, health.damage, health.torn_groups), (None, vec![], 0));
        self.check_goes_on(fs, store, self.last());
    }

    fn check_goes_on(&self, fs: &SimFs, store: Store, groups: u64) {
        let model = &self.models[groups as usize];
        assert!(model.agrees_with(&Model::of(&store)));
        let more = Put("a", "more", 9, 900, If::Absent);
        more.run(&store).unwrap();
        drop(store);
        let store = open_with(&fs.crash(CrashPolicy::DropAll), self.options).unwrap();
        assert_eq!((store.health().read_only, store.health().torn_groups), (None, 0));
        assert!(model.after(&more).unwrap().agrees_with(&Model::of(&store)));
    }
}

/// A file of the same name and place in another store.
pub(super) fn foreign(sample: &Sample, path: &str) -> Vec<u8> {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    let fs = SimFs::new();
    let entropy = SeededEntropy::new(2);
    let store = Store::open(Arc::new(fs.clone()), clock, &entropy, sample.options).unwrap();
    fill(&store);
    drop(store);
    fs.contents(path).unwrap()
}

/// All files with their bytes.
pub(super) fn everything(fs: &SimFs) -> Vec<(String, Vec<u8>)> {
    fs.files().into_iter().map(|(path, _)| (path.clone(), fs.contents(&path).unwrap())).collect()
}

/// Places in the page of a group: in the header, in the body, and in the zeros behind it.
fn places(fs: &SimFs, page: u64) -> (Vec<u64>, Vec<u64>) {
    let bytes = fs.contents(&log_path(1)).unwrap();
    let at = (page * PAGE) as usize;
    let body = u64::from(u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()));
    let meant = (0..128).step_by(9).chain([127, 128, 128 + body / 2, 127 + body]);
    let padding = [128 + body, (128 + body + PAGE) / 2, PAGE - 1];
    (meant.map(|place| page * PAGE + place).collect(), padding.map(|place| page * PAGE + place).to_vec())
}

#[test]
fn damage_to_a_group_that_was_durable_ends_writing_and_leaves_what_came_before() {
    let sample = Sample::new(options());
    for n in 1..sample.last() {
        for place in places(&sample.fs, n).0 {
            let fs = sample.copy();
            fs.damage(&log_path(1), place, 0x20).unwrap();
            sample.check_corrupt(&fs, n, &log_path(1), n * PAGE);
        }
    }
}

#[test]
fn damage_to_the_last_group_cannot_be_told_from_a_crash_and_is_dropped_and_counted() {
    let sample = Sample::new(options());
    for place in places(&sample.fs, sample.last()).0 {
        let fs = sample.copy();
        fs.damage(&log_path(1), place, 0x20).unwrap();
        sample.check_torn(&fs);
    }
}

#[test]
fn zeros_behind_a_group_mean_nothing_and_their_damage_harms_nobody() {
    let sample = Sample::new(options());
    for n in 1..=sample.last() {
        for place in places(&sample.fs, n).1 {
            let fs = sample.copy();
            fs.damage(&log_path(1), place, 0x20).unwrap();
            sample.check_good(&fs);
        }
    }
}

#[test]
fn a_last_group_whose_pack_is_damaged_is_torn() {
    let sample = Sample::new(options());
    let version = open(&sample.copy()).find("a", "k4", Selector::Current).unwrap().version;
    let extent = version.extents[0];
    let path = crate::format::segment_path(extent.segment);
    // Its header, its payload of 1,000 bytes, and its descriptor.
    for place in (0..64).step_by(13).chain((64..1_064).step_by(97)).chain([1_064, 1_100]) {
        let fs = sample.copy();
        fs.damage(&path, extent.offset + place, 1).unwrap();
        sample.check_torn(&fs);
    }
}

#[test]
fn a_log_that_was_cut_off_is_corrupt_wherever_the_cut_is() {
    let sample = Sample::new(options());
    let len = sample.fs.contents(&log_path(1)).unwrap().len() as u64;
    let cuts = (1..=sample.last() + 2).map(|page| page * PAGE);
    let within = cuts.clone().map(|cut| cut + 700);
    for cut in cuts.chain(within).chain((16 * PAGE..len).step_by(9 * PAGE as usize)).chain([len - 1]) {
        let fs = sample.copy();
        fs.truncate(&log_path(1), cut).unwrap();
        // Groups that are whole can be read.
        let whole = (cut / PAGE - 1).min(sample.last());
        println!("cut off at {cut}");
        sample.check_corrupt(&fs, whole + 1, &log_path(1), cut);
    }
}

#[test]
fn a_page_that_went_missing_or_astray_is_corrupt() {
    let sample = Sample::new(options());
    let bytes = sample.fs.contents(&log_path(1)).unwrap();
    let page = |n: u64| &bytes[(n * PAGE) as usize..((n + 1) * PAGE) as usize];
    for n in 1..sample.last() {
        for instead in [&[0; PAGE as usize][..], page(n + 1), page(if n == 1 { 3 } else { n - 1 })] {
            let fs = sample.copy();
            fs.overwrite(&log_path(1), n * PAGE, instead).unwrap();
            sample.check_corrupt(&fs, n, &log_path(1), n * PAGE);
        }
    }
}

/// Nothing behind it says that it was there; the mark of a store at rest does.
#[test]
fn a_last_group_that_reads_as_zeros_looks_as_if_it_never_was_unless_it_was_marked() {
    let sample = Sample::new(options());
    let last = sample.last();
    let fs = sample.copy();
    fs.overwrite(&log_path(1), last * PAGE, &[0; PAGE as usize]).unwrap();
    let store = open(&fs);
    assert!(sample.models[last as usize - 1].agrees_with(&Model::of(&store)));

    // Opening has marked the group that was in doubt.
    let fs = sample.copy();
    drop(open(&fs));
    fs.overwrite(&log_path(1), last * PAGE, &[0; PAGE as usize]).unwrap();
    sample.check_corrupt(&fs, last, &log_path(1), last * PAGE);
}

#[test]
fn a_store_at_rest_marks_its_last_group_so_that_damage_to_it_is_known_for_what_it_is() {
    let fs = SimFs::new();
    open(&fs).create_bucket("b", "admin").unwrap();
    let options = StoreOptions { idle_group_after: Some(Duration::from_millis(1)), ..options() };
    let store = open_with(&fs, options).unwrap();
    // Opening has marked what was there, so that the next group is a put. Each put is marked once:
    // a second mark would be in the way of the put after it.
    let begun = store.health().sequence;
    for nth in 0..20 {
        let sequence = begun + 2 * nth + 1;
        put(&store, "b", "k", b"x").unwrap();
        while store.health().sequence <= sequence {
            thread::yield_now();
        }
        assert_eq!(store.health().sequence, sequence + 1, "one mark is enough");
    }
    let sequence = store.health().sequence - 1;
    drop(store);
    let header = sequence * PAGE;
    fs.damage(&log_path(1), header, 1).unwrap();
    let damage = &open_with(&fs, options).unwrap().health().damage[0];
    assert_eq!((damage.file.clone(), damage.offset), (log_path(1), header));
}
