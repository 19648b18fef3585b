//! Tests of the encryption: every range is the plaintext's, and everything that was changed
//! or exchanged is an error.

use super::*;
use crate::base::digest::{from_hex, to_hex};
use crate::base::{Entropy as _, SeededEntropy};
use crate::remote::sim::{RemoteCall, RemoteFault, SimRemote};
use proptest::prelude::*;

const SOON: Duration = Duration::from_secs(1);
const PART: u64 = EncryptedBlockHead::PLAIN_BYTES;
const BLOCK: usize = EncryptedBlockHead::BLOCK_BYTES as usize;

fn key(seed: u64) -> EncryptionKey {
    EncryptionKey::generate(&SeededEntropy::new(seed))
}

fn encrypted(remote: &SimRemote, current: u64, older: &[u64]) -> EncryptedRemote {
    let older = older.iter().map(|seed| key(*seed)).collect();
    EncryptedRemote::new(Arc::new(remote.clone()), &EncryptionKeys { current: key(current), older })
}

fn bytes(length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    SeededEntropy::new(length).fill(&mut bytes);
    bytes
}

fn put(remote: &EncryptedRemote, name: &str, plain: &[u8]) -> RemoteObject {
    remote.put(&NewObject { name, body: &plain, nonce: "n", create_only: false }, SOON).unwrap()
}

/// A remote with the object `a`.
fn holding(plain: &[u8]) -> (SimRemote, EncryptedRemote) {
    let sim = SimRemote::new();
    let remote = encrypted(&sim, 1, &[]);
    put(&remote, "a", plain);
    (sim, remote)
}

#[test]
fn the_example_of_the_format_is_what_is_put() {
    let page = include_str!("../../../data-format.md");
    let line = |start: &str| page.lines().find(|line| line.starts_with(start)).unwrap();
    let keys = EncryptionKeys::parse(line("siltstone remote-key 1 ")).unwrap();
    let sim = SimRemote::new();
    let remote = EncryptedRemote::new(Arc::new(sim.clone()), &keys);
    let name = "claim/0000000000000007";
    let plain = b"hello, remote\n";
    put(&remote, name, plain);
    let told = line("encrypted ").trim_start_matches("encrypted ");
    assert_eq!(to_hex(&sim.bytes(name).unwrap()), told);
    assert_eq!(from_hex(told).unwrap().len(), 62);
    assert_eq!(remote.get(name, 0..plain.len() as u64, SOON).unwrap(), plain);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_range_is_that_of_the_plaintext_in_one_request(
        length in prop_oneof![0..200_u64, PART - 2..PART + 2, 2 * PART - 1..2 * PART + 2, 0..5 * PART],
        ends in (any::<u64>(), any::<u64>()),
    ) {
        let plain = bytes(length);
        let (sim, remote) = holding(&plain);
        let a = ends.0 % (length + 1);
        let b = ends.1 % (length + 1);
        let range = a.min(b)..a.max(b);
        let read = remote.get("a", range.clone(), SOON).unwrap();
        prop_assert!(read == plain[range.start as usize..range.end as usize]);
        prop_assert!(sim.calls(RemoteCall::Get) == u64::from(!range.is_empty()));
        if !range.is_empty() {
            let mut stream = remote.open_stream("a", range.clone(), SOON).unwrap();
            prop_assert!(stream.object_length == length);
            let mut streamed = vec![0; read.len()];
            let (first, second) = streamed.split_at_mut(read.len() / 3);
            stream.bytes.read(first, SOON).unwrap();
            stream.bytes.read(second, SOON).unwrap();
            prop_assert!(streamed == read);
            prop_assert!(stream.bytes.read(&mut [0], SOON).is_err(), "nothing comes after the last one");
        }
        let part = remote.get_part("a", a..a + 10 * PART, SOON);
        if a < length {
            let part = part.unwrap();
            prop_assert!(part.bytes == plain[a as usize..] && part.object_length == length);
        } else {
            prop_assert!(matches!(part, Err(RemoteError::Wrong(_))));
        }
        prop_assert_eq!(remote.head("a", SOON).unwrap().unwrap().length, length);
        prop_assert_eq!(remote.list("", "", SOON).unwrap()[0].length, length);
    }

    #[test]
    fn any_changed_byte_of_a_block_is_an_error(at in 0..2 * BLOCK, bit in 0..8_u32) {
        let (sim, remote) = holding(&bytes(3 * PART));
        let mut changed = sim.bytes("a").unwrap();
        changed[at] ^= 1 << bit;
        sim.place("a", &changed);
        let damaged = (at / BLOCK) as u64 * PART;
        prop_assert!(remote.get("a", damaged + 10..damaged + 20, SOON).is_err());
        prop_assert!(remote.get("a", 0..3 * PART, SOON).is_err());
        // The others are read as before.
        prop_assert!(remote.get("a", 2 * PART..3 * PART, SOON).is_ok());
    }

    #[test]
    fn hostile_objects_are_errors(place in proptest::collection::vec(any::<u8>(), 0..300), valid in any::<bool>()) {
        let sim = SimRemote::new();
        let remote = encrypted(&sim, 1, &[]);
        let head = EncryptedBlockHead { key: key(1).id(), salt: [3; 16] }.encode();
        sim.place("a", &if valid { [&head, place.as_slice()].concat() } else { place });
        for range in [0..1, 0..100, 0..u64::MAX, u64::MAX - 1..u64::MAX] {
            prop_assert!(remote.get("a", range.clone(), SOON).is_err());
            prop_assert!(remote.get_part("a", range, SOON).is_err());
        }
        let _ = remote.head("a", SOON);
        prop_assert_eq!(remote.list("", "", SOON).unwrap().len(), 1);
    }
}

#[test]
fn cuts_and_exchanges_are_errors() {
    let plain = bytes(3 * PART + 100);
    let (sim, remote) = holding(&plain);
    let whole = sim.bytes("a").unwrap();
    let reads = |changed: &[u8], range: Range<u64>| {
        sim.place("a", changed);
        remote.get_part("a", range, SOON)
    };
    // The last block of what is left was not the last.
    let cut = &whole[..3 * BLOCK];
    assert_eq!(EncryptedBlockHead::plain_length(cut.len() as u64), Some(3 * PART));
    assert!(matches!(reads(cut, 2 * PART..3 * PART), Err(RemoteError::Wrong(_))));
    assert!(reads(cut, 0..10).is_ok());
    for length in [0, 10, 48, BLOCK - 1, 2 * BLOCK + 5, whole.len() - 1] {
        let last = (length / BLOCK) as u64 * PART;
        assert!(matches!(reads(&whole[..length], last..last + 1), Err(RemoteError::Wrong(_))), "{length}");
    }
    let longer = [whole.as_slice(), &whole[3 * BLOCK..]].concat();
    assert!(reads(&longer, 3 * PART..3 * PART + 1).is_err());
    let exchanged = [&whole[BLOCK..2 * BLOCK], &whole[..BLOCK], &whole[2 * BLOCK..]].concat();
    assert!(reads(&exchanged, 0..1).is_err() && reads(&exchanged, PART..PART + 1).is_err());
    assert!(reads(&whole, 0..4 * PART).unwrap().bytes == plain);
    // The same bytes under another name.
    sim.place("b", &whole);
    assert!(matches!(remote.get("b", 0..1, SOON), Err(RemoteError::Wrong(_))));
    sim.place("b", &plain[..100]);
    assert!(matches!(remote.get("b", 0..1, SOON), Err(RemoteError::Wrong(_))));
}

#[test]
fn a_stream_hands_out_the_blocks_before_damage_and_none_of_it() {
    let plain = bytes(3 * PART);
    let (sim, remote) = holding(&plain);
    assert!(sim.damage("a", BLOCK + 100));
    let mut stream = remote.open_stream("a", 0..3 * PART, SOON).unwrap();
    let mut block = vec![0; PART as usize];
    stream.bytes.read(&mut block, SOON).unwrap();
    assert!(block == plain[..PART as usize]);
    assert!(matches!(stream.bytes.read(&mut [0; 10], SOON), Err(RemoteError::Wrong(_))));
    sim.fail_next(RemoteCall::Get, RemoteFault::Cut);
    let mut stream = remote.open_stream("a", 2 * PART..3 * PART, SOON).unwrap();
    assert!(matches!(stream.bytes.read(&mut [0; 10], SOON), Err(RemoteError::Unavailable(_))));
}

#[test]
fn a_put_sends_the_same_bytes_at_each_try_and_in_each_process() {
    let plain = bytes(2 * PART + 5);
    let (sim, _) = holding(&plain);
    let first = sim.bytes("a").unwrap();
    let (again, _) = holding(&plain);
    assert!(again.bytes("a").unwrap() == first);
    // Pieces of all sizes equal the whole's.
    let cipher = BlockCipher::new(&key(1));
    let read = plain.as_slice();
    let body = EncryptedBody::new(&cipher, "a", &read);
    use crate::remote::Body as _;
    assert_eq!(body.length(), first.len() as u64);
    for size in [1_000, 4_096, 65_536, 100_000] {
        for at in (0..first.len()).step_by(size) {
            let mut piece = vec![0; size.min(first.len() - at)];
            body.read_at(at as u64, &mut piece).unwrap();
            assert!(piece == first[at..at + piece.len()], "{size} at {at}");
        }
    }
    assert!(body.read_at(first.len() as u64, &mut [0]).is_err());
    assert!(body.read_at(first.len() as u64 - 1, &mut [0; 2]).is_err());
}

#[test]
fn other_bytes_at_the_same_place_have_another_salt_and_another_key() {
    let cipher = BlockCipher::new(&key(1));
    let place = |name, number, is_last| BlockPlace { name, number, is_last };
    let salts: std::collections::BTreeSet<_> = [
        (place("a", 0, true), b"one"),
        (place("a", 0, true), b"two"),
        (place("a", 0, false), b"one"),
        (place("a", 1, true), b"one"),
        (place("b", 0, true), b"one"),
    ]
    .into_iter()
    .map(|(place, plain)| cipher.seal(place, plain)[16..32].to_vec())
    .collect();
    assert_eq!(salts.len(), 5);
}

#[test]
fn the_answer_of_a_lost_create_is_known_again_by_the_encrypted_length() {
    let sim = SimRemote::new();
    let remote = Arc::new(SimRemote::new());
    drop(remote);
    let remote = encrypted(&sim, 1, &[]);
    let plain = bytes(PART);
    let create = |nonce: &str| {
        let body = plain.as_slice();
        remote.put(&NewObject { name: "claim", body: &body, nonce, create_only: true }, SOON)
    };
    sim.fail_next(RemoteCall::Put, RemoteFault::Lost);
    assert!(matches!(create("mine"), Err(RemoteError::Unavailable(_))));
    let put = create("mine").unwrap();
    assert_eq!((put.length, put.md5, put.nonce.as_deref()), (PART, None, Some("mine")));
    assert!(matches!(create("other"), Err(RemoteError::Exists)));
}

#[test]
fn a_comparison_is_one_of_the_encrypted_bytes() {
    let plain = bytes(PART + 1);
    let (sim, remote) = holding(&plain);
    let compare = |body: &[u8], nonce: &str| {
        remote.compare(&NewObject { name: "a", body: &body, nonce, create_only: false }, SOON)
    };
    assert_eq!(compare(&plain, "n").unwrap(), Comparison::Equal);
    assert!(matches!(compare(&plain, "other"), Err(RemoteError::Wrong(_))));
    assert!(matches!(compare(&plain[1..], "n"), Err(RemoteError::Wrong(_))));
    let mut other = plain.clone();
    other[70] ^= 1;
    assert!(matches!(compare(&other, "n"), Err(RemoteError::Wrong(_))));
    sim.damage("a", 70);
    assert!(matches!(compare(&plain, "n"), Err(RemoteError::Wrong(_))));
}

#[test]
fn older_keys_read_and_others_do_not() {
    let plain = bytes(100);
    let (sim, _) = holding(&plain);
    let rotated = encrypted(&sim, 2, &[5, 1]);
    put(&rotated, "b", &plain);
    for name in ["a", "b"] {
        assert_eq!(rotated.get(name, 0..100, SOON).unwrap(), plain);
    }
    // A late landing of a try with the older key is read, too.
    put(&encrypted(&sim, 1, &[]), "b", &plain);
    assert_eq!(rotated.get("b", 0..100, SOON).unwrap(), plain);
    let why = encrypted(&sim, 2, &[5]).get("a", 0..100, SOON).unwrap_err();
    assert!(matches!(&why, RemoteError::Refused(_)) && why.to_string().contains(&key(1).id().to_string()));
    // A key that has the id of another one.
    let mut forged = sim.bytes("a").unwrap();
    forged[8..16].copy_from_slice(&key(2).id().0);
    sim.place("a", &forged);
    assert!(matches!(rotated.get("a", 0..100, SOON), Err(RemoteError::Wrong(_))));
}
