//! What a power cut leaves of an encrypted file.

use super::over_sim;
use crate::base::{Entropy as _, SeededEntropy};
use crate::fs::conformance::read;
use crate::fs::sim::{CrashPolicy, SimFs};
use crate::fs::{File, Fs};

const SECTOR: usize = 512;

/// The contents that a file has had since its last sync, the durable one first.
struct History {
    since_sync: Vec<Vec<u8>>,
}

impl History {
    fn last(&self) -> &Vec<u8> {
        self.since_sync.last().unwrap()
    }

    /// Fails unless each sector is one that the file has had, or zeros where it had not reached,
    /// and the length is one between the shortest and the longest.
    fn check(&self, found: &[u8], what: &str) {
        let shortest = self.since_sync.iter().map(Vec::len).min().unwrap();
        let longest = self.since_sync.iter().map(Vec::len).max().unwrap();
        // What was never synced may be followed by zeros in place of the marker of its end.
        let most = longest.next_multiple_of(16) + 16;
        assert!((shortest..=most).contains(&found.len()), "{what}: {shortest} {longest} {}", found.len());
        for (at, sector) in found.chunks(SECTOR).enumerate() {
            let start = at * SECTOR;
            let is_known = self.since_sync.iter().any(|bytes| {
                let end = bytes.len().min(start + sector.len());
                let mut known = bytes.get(start..end).unwrap_or_default().to_vec();
                known.resize(sector.len(), 0);
                known == sector
            });
            let is_zero = start >= self.since_sync[0].len() && sector.iter().all(|byte| *byte == 0);
            assert!(is_known || is_zero, "{what}: the sector at {start}");
        }
    }
}

fn change(file: &dyn File, bytes: &mut Vec<u8>, draw: &SeededEntropy) {
    let below = |bound: u64| draw.next_u64() % bound;
    match below(5) {
        0 if !bytes.is_empty() => {
            let len = below(bytes.len() as u64);
            file.truncate(len).unwrap();
            bytes.truncate(len as usize);
        }
        1 => {
            // Space written ahead, as in the log.
            let at = bytes.len() as u64;
            file.write_zeros(at, 700).unwrap();
            bytes.resize(bytes.len() + 700, 0);
        }
        _ => {
            let offset = if below(2) == 0 { bytes.len() as u64 } else { below(bytes.len() as u64 + 40) };
            let mut new = vec![0; 1 + below(if below(3) == 0 { 1500 } else { 40 }) as usize];
            draw.fill(&mut new);
            file.write_all_at(&new, offset).unwrap();
            let end = offset as usize + new.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset as usize..end].copy_from_slice(&new);
        }
    }
}

#[test]
fn after_a_power_cut_each_sector_is_one_that_was_written() {
    for seed in 0..400 {
        let draw = SeededEntropy::new(seed);
        let sim = SimFs::new();
        let fs = over_sim(&sim);
        let file = fs.create("a").unwrap();
        let mut bytes = Vec::new();
        for _ in 0..1 + draw.next_u64() % 4 {
            change(file.as_ref(), &mut bytes, &draw);
        }
        file.sync_data().unwrap();
        fs.sync_dir("").unwrap();
        let mut history = History { since_sync: vec![bytes.clone()] };
        for _ in 0..draw.next_u64() % 4 {
            change(file.as_ref(), &mut bytes, &draw);
            history.since_sync.push(bytes.clone());
        }
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll]
            .into_iter()
            .chain((0..8).map(|round| CrashPolicy::Random(seed * 100 + round)))
        {
            let after = over_sim(&sim.crash(policy));
            let found = read(after.open_read("a").unwrap().as_ref());
            let what = format!("seed {seed}, {policy:?}");
            match policy {
                CrashPolicy::DropAll => assert!(found == history.since_sync[0], "{what}"),
                CrashPolicy::KeepAll => assert!(found == *history.last(), "{what}"),
                CrashPolicy::Random(_) => history.check(&found, &what),
            }
            // What is left is a file like any other.
            let file = after.open("a").unwrap();
            file.write_all_at(b"more", found.len() as u64).unwrap();
            assert!(read(file.as_ref()) == [&found[..], b"more"].concat(), "{what}");
        }
    }
}

#[test]
fn a_file_whose_salt_did_not_reach_the_disk_reads_as_zeros_and_can_be_written() {
    for seed in 0..200 {
        let sim = SimFs::new();
        let fs = over_sim(&sim);
        let file = fs.create("a").unwrap();
        fs.sync_dir("").unwrap();
        file.write_all_at(&[9; 3000], 0).unwrap();
        let after = over_sim(&sim.crash(CrashPolicy::Random(seed)));
        let file = after.open("a").unwrap();
        let found = read(file.as_ref());
        assert!(found.chunks(SECTOR).all(|sector| {
            sector.iter().all(|byte| *byte == 0 || *byte == 9)
                && sector[..sector.len().min(SECTOR)].windows(2).all(|pair| pair[0] >= pair[1])
        }));
        file.write_all_at(b"again", 10).unwrap();
        file.sync_data().unwrap();
        let mut part = [0; 5];
        file.read_exact_at(&mut part, 10).unwrap();
        assert_eq!(&part, b"again");
    }
}
