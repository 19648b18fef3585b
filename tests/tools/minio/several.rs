//! Several drives: rebuilding, quorums, places in sets, and random directories against an oracle.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use siltstone::base::{Entropy as _, SeededEntropy};
use siltstone::store::{Selector, Store};

use super::super::import::{counts, report};
use super::super::{bytes, open, status, stderr};
use super::writer::{ENABLED, MinioDrives, TIME, Written, uuid};
use super::{import, imported, kinds, names, served};
use crate::support::every_nth;

const SECOND: i64 = 1_000_000_000;

fn subset(drives: &MinioDrives, which: &[usize]) -> String {
    let paths: Vec<PathBuf> = which.iter().map(|at| drives.paths[*at].clone()).collect();
    MinioDrives::source_of(&paths)
}

#[test]
fn any_drives_that_are_enough_give_all_objects_in_any_order() {
    let drives = MinioDrives::new(2, 2);
    let large = bytes(1, 2_500_001);
    drives.put("photos", "large", &[Written::object(0, TIME, &large)]);
    drives.put("photos", "small", &[Written::object(0, TIME, b"a few bytes")]);
    for which in [&[3, 1, 0, 2][..], &[0, 1], &[3, 2], &[2, 0], &[1, 3]] {
        let data = tempfile::tempdir().unwrap();
        let output = import(&subset(&drives, which), data.path(), &[]);
        let report = report(&output);
        assert_eq!((status(&output), counts(&report)), (0, [2, 0, 0, 0]), "{which:?} {report}");
        let (_server, mut client) = served(&data, "photos");
        assert!(client.body("large") == large, "{which:?}");
        assert_eq!(client.body("small"), b"a few bytes");
    }
    let data = tempfile::tempdir().unwrap();
    let output = import(&subset(&drives, &[2]), data.path(), &[]);
    assert_eq!(status(&output), 2);
    assert!(
        stderr(&output).contains("set 1 has 1 of 4 drives, 2 are needed; --partial"),
        "{}",
        stderr(&output)
    );
    let output = import(&subset(&drives, &[2]), data.path(), &["--partial"]);
    assert_eq!((status(&output), counts(&report(&output))), (1, [0, 0, 0, 0]));
    assert_eq!(names(&report(&output), "dangling").len(), 2);
}

#[test]
fn drives_without_their_system_directory_find_their_places() {
    let drives = MinioDrives::new(3, 2);
    for path in &drives.paths {
        fs::remove_dir_all(path.join(".minio.sys")).unwrap();
    }
    for at in 0..9 {
        drives.put(
            "photos",
            &format!("folder/{at}"),
            &[Written::object(at, TIME, &bytes(u64::from(at), 5_000))],
        );
    }
    let data = tempfile::tempdir().unwrap();
    let output = import(&subset(&drives, &[4, 2, 0]), data.path(), &[]);
    assert_eq!((status(&output), counts(&report(&output))), (0, [9, 0, 0, 0]), "{}", stderr(&output));
    // One drive alone cannot say how many there were, but its objects can.
    let output = import(&subset(&drives, &[1]), data.path(), &[]);
    assert!(stderr(&output).contains("set 1 has 1 of 5 drives, 3 are needed"), "{}", stderr(&output));
}

#[test]
fn what_was_deleted_while_a_drive_was_away_stays_deleted() {
    let drives = MinioDrives::new(2, 2);
    drives.configure("docs", &[("VersioningConfigXML", ENABLED)]);
    drives.put_on(1, "docs", "gone", &[Written::object(1, TIME, b"left behind")]);
    for at in 0..4 {
        let old = Written::object(1, TIME, b"first");
        let marker = Written::marker(2, TIME + SECOND);
        let versions = if at == 2 { vec![old] } else { vec![old, marker] };
        drives.put_on(at, "docs", "hidden", &versions);
        // A null version was overwritten while one drive was away.
        let body: &[u8] = if at == 0 { b"old" } else { b"new!" };
        let time = if at == 0 { TIME } else { TIME + SECOND };
        drives.put_on(at, "docs", "over", &[Written::object(0, time, body)]);
    }
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [2, 0, 0, 0]), "{report}");
    let one = uuid(&[1; 16]);
    assert_eq!(
        names(&report, "dangling"),
        [
            format!("docs/gone: version {one}: 1 drives have it, and 2 are needed"),
            "docs/over: version null: 1 drives have it, and 2 are needed".to_owned(),
        ]
    );
    let half = "delete markers and empty objects are there if half of the drives of their set have them";
    assert_eq!(report["relied_on"], json!([{ "what": half, "count": 1 }]));
    let (_server, mut client) = served(&data, "docs");
    assert_eq!(client.body("over"), b"new!");
    let history = kinds(&mut client);
    assert_eq!(history, ["DeleteMarker hidden true", "Version hidden false", "Version over true"]);
}

#[test]
fn rot_is_rebuilt_and_named_also_on_parity() {
    let drives = MinioDrives::new(2, 2);
    let large = bytes(1, 2_500_001);
    drives.put("photos", "large", &[Written::object(0, TIME, &large)]);
    let mut rotten = Vec::new();
    for at in 0..4 {
        let directory = fs::read_dir(drives.paths[at].join("photos/large")).unwrap();
        let directory = directory.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
        // Another block on every drive, so that each block has enough whole shards.
        if at < 3 {
            drives.change(&directory.join("part.1"), |bytes| bytes[at * (524_288 + 32) + 40] ^= 1);
            rotten.push(format!(
                "{}: block {at} of part 1: its hash does not match",
                directory.join("part.1").display()
            ));
        } else {
            fs::remove_file(directory.join("part.1")).unwrap();
            rotten.push(format!(
                "{}: No such file or directory (os error 2)",
                directory.join("part.1").display()
            ));
        }
    }
    let data = tempfile::tempdir().unwrap();
    let (status, report) = imported(&drives, data.path(), &[]);
    assert_eq!((status, counts(&report)), (1, [1, 0, 0, 0]), "{report}");
    assert_eq!(names(&report, "damage"), rotten);
    let (_server, mut client) = served(&data, "photos");
    assert!(client.body("large") == large);
}

/// What an oracle expects of a key.
#[derive(Debug)]
struct Expected {
    key: String,
    /// The bytes of the current version; `None` if there is none.
    body: Option<Vec<u8>>,
    findings: bool,
}

struct World {
    entropy: SeededEntropy,
    drives: MinioDrives,
    /// The drives that are given, in their order.
    given: Vec<usize>,
}

impl World {
    fn new(seed: u64) -> Self {
        let entropy = SeededEntropy::new(seed);
        let count = 1 + (seed % 16) as usize;
        let parity = (entropy.next_u64() % (count as u64 / 2 + 1)) as usize;
        let drives = MinioDrives { block_bytes: 4_096, ..MinioDrives::new(count - parity, parity) };
        let mut given: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            given.swap(at, (entropy.next_u64() % (at as u64 + 1)) as usize);
        }
        let lost = entropy.next_u64() % (parity as u64 + 1);
        given.truncate(count - lost as usize);
        Self { entropy, drives, given }
    }

    fn below(&self, limit: u64) -> u64 {
        self.entropy.next_u64() % limit.max(1)
    }

    /// Some of the given drives, `count` of them.
    fn some(&self, count: usize) -> BTreeSet<usize> {
        let mut some = BTreeSet::new();
        while some.len() < count.min(self.given.len()) {
            some.insert(self.given[self.below(self.given.len() as u64) as usize]);
        }
        some
    }

    /// Writes a key, damages it, and says what must come of it.
    fn key(&self, number: u64) -> Expected {
        let key = format!("k{number}");
        let length = [1, 700, 4_096, 9_000, 20_000][self.below(5) as usize];
        let body = bytes(number + 1, length);
        let all: BTreeSet<usize> = (0..self.drives.paths.len()).collect();
        let old = Written::object(0, TIME, b"old bytes, of another length");
        let new = Written::object(0, TIME + SECOND, &body);
        // Some drives were away when the version came, and have nothing or an older one.
        let away = if self.below(2) == 0 { BTreeSet::new() } else { self.some(self.below(3) as usize) };
        let has_older = self.below(2) == 0;
        for at in &all {
            match (away.contains(at), has_older) {
                (false, _) => self.drives.put_on(*at, "bucket", &key, std::slice::from_ref(&new)),
                (true, true) => self.drives.put_on(*at, "bucket", &key, std::slice::from_ref(&old)),
                (true, false) => {}
            }
        }
        let mut torn = BTreeSet::new();
        let mut rotten = BTreeSet::new();
        for at in self.some(self.below(3) as usize) {
            if away.contains(&at) {
                continue;
            }
            let meta = self.drives.paths[at].join(format!("bucket/{key}/xl.meta"));
            if self.below(2) == 0 {
                self.drives.change(&meta, |bytes| bytes.truncate(bytes.len() / 2));
                torn.insert(at);
            } else {
                self.rot(&key, at, length < 1_000);
                rotten.insert(at);
            }
        }
        self.expected(key, body, [away, torn, rotten], has_older)
    }

    /// Flips a byte of the first block of a shard.
    fn rot(&self, key: &str, at: usize, inline: bool) {
        let directory = self.drives.paths[at].join(format!("bucket/{key}"));
        if inline {
            // The last byte of inline data is the last of the shard.
            self.drives.change(&directory.join("xl.meta"), |bytes| *bytes.last_mut().unwrap() ^= 1);
            return;
        }
        let of_parts = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        let of_parts = of_parts.into_iter().find(|path| path.is_dir()).unwrap();
        self.drives.change(&of_parts.join("part.1"), |bytes| bytes[33] ^= 1);
    }

    fn expected(
        &self,
        key: String,
        body: Vec<u8>,
        [away, torn, rotten]: [BTreeSet<usize>; 3],
        has_older: bool,
    ) -> Expected {
        let given: BTreeSet<usize> = self.given.iter().copied().collect();
        let metas = given.iter().filter(|at| !away.contains(at) && !torn.contains(at)).count();
        // Parts beside a torn xl.meta are as good as any: the place of the drive tells their shard.
        let is_there = |at: &&usize| !away.contains(at) && (!torn.contains(at) || body.len() >= 1_000);
        let shards = if metas > 0 { given.iter().filter(is_there).count() } else { 0 };
        let whole = shards - given.iter().filter(|at| rotten.contains(at)).count().min(shards);
        let with_older = given.iter().filter(|at| has_older && away.contains(at)).count();
        let data = self.drives.data;
        let findings = !torn.is_empty()
            || (!rotten.is_empty() && shards >= data)
            || (with_older > 0 && with_older < data)
            || (shards > 0 && shards < data);
        let older = b"old bytes, of another length".to_vec();
        let body = if shards >= data {
            // Damage does not bring an older state back.
            (whole >= data).then_some(body)
        } else {
            (with_older >= data).then_some(older)
        };
        Expected { key, body, findings }
    }
}

pub(super) fn stored(store: &Store, bucket: &str, key: &str) -> Option<Vec<u8>> {
    let found = store.find(bucket, key, Selector::Current).ok()?;
    let length = found.version.size;
    let mut reader = store.read(&found, 0..length).unwrap();
    let mut bytes = vec![0; length as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        let count = reader.read(&mut bytes[filled..]).unwrap();
        assert!(count > 0);
        filled += count;
    }
    Some(bytes)
}

/// 200 with SILTSTONE_RESCUE_SETS=200: each takes a process. An ordinary run draws a quarter of 32.
#[test]
fn random_directories_come_out_as_the_rules_say() {
    let sets = std::env::var("SILTSTONE_RESCUE_SETS").map_or(32, |sets| sets.parse().unwrap());
    let seeds: Vec<u64> = (0..sets).collect();
    for seed in every_nth(&seeds, 4) {
        let world = World::new(seed);
        // A key without damage, so that the bucket is there in any case.
        world.drives.put("bucket", "sound", &[Written::object(0, TIME, b"sound")]);
        let expected: Vec<Expected> = (0..4).map(|number| world.key(number)).collect();
        let data = tempfile::tempdir().unwrap();
        let output = import(&subset(&world.drives, &world.given), data.path(), &["--parallel", "2"]);
        let told: Value = report(&output);
        let findings = expected.iter().any(|key| key.findings);
        let shape =
            format!("seed {seed}, {}+{}, given {:?}", world.drives.data, world.drives.parity, world.given);
        assert_eq!(status(&output), i32::from(findings), "{shape}: {expected:?} {told}");
        let store = open(&data.path().join("siltstone-data"));
        assert_eq!(stored(&store, "bucket", "sound").as_deref(), Some(&b"sound"[..]), "{shape}");
        for key in &expected {
            assert!(stored(&store, "bucket", &key.key) == key.body, "{shape}: {key:?} {told}");
        }
    }
}
