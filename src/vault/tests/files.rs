//! What is on the disk, and what is refused.

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;

use super::{over, over_sim};
use crate::base::test_scope::seeds;
use crate::base::{Entropy as _, SeededEntropy};
use crate::format::SaltPage;
use crate::fs::conformance::{read, write};
use crate::fs::sim::SimFs;
use crate::fs::{Fs, OsFs};

const PLAIN: &[u8] = b"the quick brown fox jumps over the lazy dog";

#[test]
fn a_file_on_the_disk_has_its_salt_and_nothing_of_its_bytes() {
    let sim = SimFs::new();
    let fs = over_sim(&sim);
    let bytes = PLAIN.repeat(400);
    write(&fs, "a", &bytes);
    write(&fs, "b", &bytes);
    fs.create("empty").unwrap();
    let [one, other] = ["a", "b"].map(|name| sim.contents(name).unwrap());
    assert!(SaltPage::decode(&one).is_ok() && one.len() % 16 == 0);
    assert!(!one.windows(8).any(|window| PLAIN.windows(8).any(|plain| plain == window)));
    let same = one[4096..].chunks(16).zip(other[4096..].chunks(16)).filter(|(one, other)| one == other);
    assert!(same.count() <= 1, "only the marker of the end is the same in two files");
    assert_eq!(sim.contents("empty").unwrap(), b"");
    for clear in ["users.toml", "keys.toml", "KEYS", "KEYS.copy.new"] {
        write(&fs, clear, PLAIN);
        assert_eq!(sim.contents(clear).unwrap(), PLAIN);
    }
    assert_eq!(fs.list("").unwrap(), ["a", "b", "empty", "keys.toml", "users.toml"]);
}

#[test]
fn files_of_every_length_end_where_they_were_ended() {
    let sim = SimFs::new();
    let fs = over_sim(&sim);
    let bytes: Vec<u8> = (0..100).collect();
    for len in 0..bytes.len() {
        let name = format!("{len}");
        let file = write(&fs, &name, &bytes[..len]);
        assert_eq!(read(file.as_ref()), bytes[..len]);
        let again = over_sim(&sim).open(&name).unwrap();
        assert_eq!(read(again.as_ref()), bytes[..len], "{len}");
        let past = again.read_exact_at(&mut vec![0; len + 1], 0).unwrap_err();
        assert_eq!(past.kind(), ErrorKind::UnexpectedEof);
        for more in 1..40 {
            again.write_all_at(&bytes[..more], len as u64).unwrap();
            assert_eq!(again.len().unwrap(), (len + more) as u64, "{len} and {more}");
            again.truncate(len as u64).unwrap();
            assert_eq!(read(again.as_ref()), bytes[..len], "{len} after {more}");
        }
        assert_eq!(read(over_sim(&sim).open(&name).unwrap().as_ref()), bytes[..len]);
    }
}

/// Random writes, cuts, zeros and holes at any byte, against a plain list of bytes.
#[test]
fn random_changes_at_any_byte_read_back() {
    for seed in seeds(0..60, 10) {
        let draw = SeededEntropy::new(seed);
        let below = |bound: u64| draw.next_u64() % bound;
        let sim = SimFs::new();
        let fs = over_sim(&sim);
        let file = fs.create("a").unwrap();
        let mut expected: Vec<u8> = Vec::new();
        for step in 0..150 {
            let offset = below(3) * 4096 + below(70);
            let len = below(if below(4) == 0 { 9000 } else { 50 });
            let end = (offset + len) as usize;
            let action = below(6);
            match action {
                0..3 => {
                    let mut bytes = vec![0; len as usize];
                    draw.fill(&mut bytes);
                    file.write_all_at(&bytes, offset).unwrap();
                    if len > 0 {
                        expected.resize(expected.len().max(end), 0);
                        expected[offset as usize..end].copy_from_slice(&bytes);
                    }
                }
                3 => {
                    file.write_zeros(offset, len).unwrap();
                    if len > 0 {
                        expected.resize(expected.len().max(end), 0);
                        expected[offset as usize..end].fill(0);
                    }
                }
                4 => {
                    file.truncate(offset).unwrap();
                    expected.truncate(offset as usize);
                }
                _ => {
                    let page = below(3) as usize * 4096;
                    file.punch(page as u64, 4096).unwrap();
                    let from = page.min(expected.len());
                    let to = (page + 4096).min(expected.len());
                    expected[from..to].fill(0);
                }
            }
            let what =
                format!("seed {seed}, step {step}: {action} at {offset}, {len} bytes, of {}", expected.len());
            let found = read(file.as_ref());
            let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            assert_eq!((found.len(), differs), (expected.len(), None), "{what}");
            assert!(read(over_sim(&sim).open_read("a").unwrap().as_ref()) == expected, "{what}");
        }
    }
}

#[test]
fn writers_and_readers_of_one_block_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let fs = over(Arc::new(OsFs::new(dir.path())));
    let file = write(&fs, "a", &[0xff; 64]);
    thread::scope(|scope| {
        for writer in 0..4_u8 {
            let file = fs.open("a").unwrap();
            scope.spawn(move || {
                for round in 0..500_u64 {
                    let number = (round % 200) as u8;
                    file.write_all_at(&[number; 4], u64::from(writer) * 4 + 16).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let mut bytes = [0; 64];
                    file.read_exact_at(&mut bytes, 0).unwrap();
                    assert_eq!((&bytes[..16], &bytes[32..]), (&[0xff; 16][..], &[0xff; 32][..]));
                    assert!(bytes[16..32].iter().all(|byte| *byte < 200 || *byte == 0xff), "{bytes:?}");
                }
            });
        }
    });
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, 16).unwrap();
    assert_eq!(bytes, [99; 16]);
}

#[test]
fn what_is_not_encrypted_or_with_another_key_is_refused_by_name() {
    let sim = SimFs::new();
    let fs = over_sim(&sim);
    write(&sim, "plain", &[b'x'; 8192]);
    write(&fs, "damaged", PLAIN);
    sim.damage("damaged", 30, 1).unwrap();
    let other = super::StoreKey::new(zeroize::Zeroizing::new([8; 32]));
    let other = super::EncryptedFs::new(Arc::new(sim.clone()), other, Arc::new(SeededEntropy::new(1)));
    write(&other, "other", PLAIN);
    for (name, why) in [("plain", "it is not encrypted"), ("damaged", "CRC"), ("other", "with the key")] {
        let before = sim.contents(name).unwrap();
        let file = fs.open(name).unwrap();
        let refused = file.read_exact_at(&mut [0; 4], 0).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidData);
        assert!(refused.to_string().starts_with(name) && refused.to_string().contains(why), "{refused}");
        assert!(file.write_all_at(&[0; 16], 0).is_err() && file.write_all_at(b"x", 1).is_err());
        assert!(
            file.write_zeros(0, 16).is_err() && file.punch(0, 4096).is_err() && file.truncate(1).is_err()
        );
        assert_eq!(sim.contents(name).unwrap(), before, "{name}");
    }
}

#[test]
fn a_flipped_bit_changes_its_block_alone() {
    let sim = SimFs::new();
    let fs = over_sim(&sim);
    let bytes = PLAIN.repeat(300);
    let file = write(&fs, "a", &bytes);
    sim.damage("a", 4096 + 5000, 1).unwrap();
    let found = read(file.as_ref());
    let block = 5000 - 5000 % 16;
    assert!(found[block..block + 16] != bytes[block..block + 16]);
    assert!(found[..block] == bytes[..block] && found[block + 16..] == bytes[block + 16..]);
}
