//! Objects that order the epochs over a log on a remote (data-format.md, section 17).

use std::time::Duration;

use crate::base::Timestamp;
use crate::format::{DecodeError, Decoded, StoreId, sealed_line};

/// The last group of a piece of the log, and its place in the chain of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPosition {
    /// The sequence of the group; 0 before the first one.
    pub sequence: u64,
    /// Its header CRC; 0 before the first one.
    pub crc: u32,
}

/// The claim of an epoch: who creates it epochs, or nobody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The store.
    pub store: StoreId,
    /// The number of the epoch, from 1.
    pub epoch: u64,
    /// The time when it was made.
    pub made: Timestamp,
    /// Whether its store sends segments and no log.
    pub of_tier: bool,
}

impl Claim {
    /// The names of all claims begin so.
    pub const PREFIX: &str = "claim/";
    const KIND: &str = "claim";
    const TIER: &str = "tier";

    /// The name of the claim of an epoch.
    pub fn name(epoch: u64) -> String {
        format!("{}{epoch:016x}", Self::PREFIX)
    }

    /// The object.
    pub fn encode(&self) -> Vec<u8> {
        let made = self.made.as_millis();
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("epoch", &self.epoch), ("made", &made), ("for", &Self::TIER)];
        let told = if self.of_tier { 3 } else { 2 };
        sealed_line::encode(Self::KIND, &self.store, &values[..told])
    }

    /// Reads the object.
    ///
    /// # Errors
    /// `Unknown` for a later version; another for a damaged object.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let (store, epoch, made, of_tier) =
            match sealed_line::decode(Self::KIND, ["epoch", "made", "for"], bytes) {
                Ok((store, [epoch, made, Self::TIER])) => (store, epoch, made, true),
                Ok(_) => return Err(DecodeError::Unknown("the use of a claim")),
                Err(_) => {
                    let (store, [epoch, made]) = sealed_line::decode(Self::KIND, ["epoch", "made"], bytes)?;
                    (store, epoch, made, false)
                }
            };
        let made = Timestamp::from_millis(sealed_line::number(made, "the time")?);
        Ok(Self { store, epoch: sealed_line::number(epoch, "the epoch")?, made, of_tier })
    }
}

/// The beginning of an epoch: the log that it adopts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The store.
    pub store: StoreId,
    /// The number of the epoch.
    pub epoch: u64,
    /// The epoch before it, from which it adopts the log; 0 for none.
    pub former: u64,
    /// The last parcel of that epoch that it adopts; 0 for none.
    pub last: u64,
    /// The end of the adopted log.
    pub end: LogPosition,
}

impl Cut {
    const KIND: &str = "cut";
    /// The beginning of the names of all cuts.
    pub const PREFIX: &str = "cut/";

    /// The name of the cut of an epoch.
    pub fn name(epoch: u64) -> String {
        format!("{}{epoch:016x}", Self::PREFIX)
    }

    /// The object.
    pub fn encode(&self) -> Vec<u8> {
        let crc = format!("{:08x}", self.end.crc);
        let values: [(&str, &dyn std::fmt::Display); 5] = [
            ("epoch", &self.epoch),
            ("former", &self.former),
            ("last", &self.last),
            ("sequence", &self.end.sequence),
            ("chain", &crc),
        ];
        sealed_line::encode(Self::KIND, &self.store, &values)
    }

    /// Reads the object.
    ///
    /// # Errors
    /// As of [`Claim::decode`].
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let names = ["epoch", "former", "last", "sequence", "chain"];
        let (store, [epoch, former, last, sequence, crc]) = sealed_line::decode(Self::KIND, names, bytes)?;
        let found = Self {
            store,
            epoch: sealed_line::number(epoch, "the epoch")?,
            former: sealed_line::number(former, "the former epoch")?,
            last: sealed_line::number(last, "the last parcel")?,
            end: position(sequence, crc)?,
        };
        if found.former < found.epoch { Ok(found) } else { Err(DecodeError::Value("the former epoch")) }
    }
}

/// What a restore begins with: a checkpoint, and where the log goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The store.
    pub store: StoreId,
    /// The epoch that wrote it.
    pub epoch: u64,
    /// Its number in that epoch, from 1.
    pub number: u64,
    /// The last group of the checkpoint.
    pub covered: LogPosition,
    /// Bytes of the checkpoint.
    pub checkpoint_length: u64,
    /// The first parcel with bytes of segments that the checkpoint does not call remote; for an
    /// earlier epoch where one that was adopted has such bytes.
    pub first: ParcelId,
    /// The last parcel of the own epoch that holds no group after the checkpoint; not below `first`
    /// less 1 where that is of the same epoch.
    pub after: u64,
    /// The time when it was made.
    pub made: Timestamp,
}

/// The epoch and the counter of a parcel. Adopted parcels are in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ParcelId {
    /// The epoch.
    pub epoch: u64,
    /// The counter in it, from 1.
    pub counter: u64,
}

/// The epoch and the number of a root. Adopted roots are in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RootId {
    /// The epoch.
    pub epoch: u64,
    /// The number in it.
    pub number: u64,
}

impl Root {
    const KIND: &str = "root";
    /// The version of the line of a root whose first parcel is of an earlier epoch: readers that
    /// know no such root refuse it.
    const OVER_EPOCHS: &str = "2";
    /// One root of so many of an epoch may become the base of deletes. The others may go before it.
    pub const LASTING_EVERY: u64 = 24;

    /// Its epoch and number.
    pub fn id(&self) -> RootId {
        RootId { epoch: self.epoch, number: self.number }
    }

    /// Whether the root stays until a base is after it.
    pub fn is_lasting(number: u64) -> bool {
        number % Self::LASTING_EVERY == 1
    }

    /// The names of all roots of an epoch begin so.
    pub fn prefix(epoch: u64) -> String {
        format!("root/{epoch:016x}/")
    }

    /// The name of a root.
    pub fn name(epoch: u64, number: u64) -> String {
        format!("{}{number:016x}", Self::prefix(epoch))
    }

    /// The name of its checkpoint.
    pub fn checkpoint_name(&self) -> String {
        format!("checkpoint/{:016x}/{:016x}", self.epoch, self.covered.sequence)
    }

    /// The object.
    pub fn encode(&self) -> Vec<u8> {
        let crc = format!("{:08x}", self.covered.crc);
        let values: [(&str, &dyn std::fmt::Display); 9] = [
            ("epoch", &self.epoch),
            ("number", &self.number),
            ("sequence", &self.covered.sequence),
            ("chain", &crc),
            ("checkpoint", &self.checkpoint_length),
            ("first", &self.first.counter),
            ("after", &self.after),
            ("made", &self.made.as_millis()),
            ("first-epoch", &self.first.epoch),
        ];
        // A root whose parcels are all of its own epoch is read by every version.
        match self.first.epoch == self.epoch {
            true => sealed_line::encode(Self::KIND, &self.store, &values[..8]),
            false => sealed_line::encode_version(Self::KIND, Self::OVER_EPOCHS, &self.store, &values),
        }
    }

    /// Reads the object.
    ///
    /// # Errors
    /// As of [`Claim::decode`].
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let names =
            ["epoch", "number", "sequence", "chain", "checkpoint", "first", "after", "made", "first-epoch"];
        let [a, b, c, d, e, f, g, h, _] = names;
        let over_epochs = sealed_line::decode_version(Self::KIND, Self::OVER_EPOCHS, names, bytes);
        let (store, values, first_epoch) = match over_epochs {
            Err(DecodeError::Unknown(_)) => {
                let (store, values) = sealed_line::decode(Self::KIND, [a, b, c, d, e, f, g, h], bytes)?;
                (store, values, None)
            }
            decoded => {
                let (store, [a, b, c, d, e, f, g, h, first_epoch]) = decoded?;
                (store, [a, b, c, d, e, f, g, h], Some(first_epoch))
            }
        };
        let [epoch, number, sequence, crc, length, first, after, made] = values;
        let first = ParcelId {
            epoch: sealed_line::number(first_epoch.unwrap_or(epoch), "the epoch of the first parcel")?,
            counter: sealed_line::number(first, "the first parcel")?,
        };
        let found = Self {
            store,
            epoch: sealed_line::number(epoch, "the epoch")?,
            number: sealed_line::number(number, "the number")?,
            covered: position(sequence, crc)?,
            checkpoint_length: sealed_line::number(length, "the length of the checkpoint")?,
            first,
            after: sealed_line::number(after, "the last parcel")?,
            made: Timestamp::from_millis(sealed_line::number(made, "the time")?),
        };
        let is_own = first.epoch == found.epoch;
        let is_in_order = if is_own {
            first.counter - 1.min(first.counter) <= found.after
        } else {
            first.epoch < found.epoch
        };
        let is_sound =
            first.counter > 0 && is_in_order && is_own == first_epoch.is_none() && found.after < u64::MAX;
        if is_sound { Ok(found) } else { Err(DecodeError::Value("the first parcel")) }
    }
}

/// The root by which an epoch deletes: nothing that only earlier roots need is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// The store.
    pub store: StoreId,
    /// The epoch that deletes.
    pub epoch: u64,
    /// Its number in that epoch, from 1.
    pub number: u64,
    /// The root.
    pub base: RootId,
}

impl Floor {
    const KIND: &str = "floor";

    /// The names of all floors of an epoch begin so.
    pub fn prefix(epoch: u64) -> String {
        format!("floor/{epoch:016x}/")
    }

    /// The name of a floor.
    pub fn name(epoch: u64, number: u64) -> String {
        format!("{}{number:016x}", Self::prefix(epoch))
    }

    /// The object.
    pub fn encode(&self) -> Vec<u8> {
        let values: [(&str, &dyn std::fmt::Display); 4] = [
            ("epoch", &self.epoch),
            ("number", &self.number),
            ("root-epoch", &self.base.epoch),
            ("root", &self.base.number),
        ];
        sealed_line::encode(Self::KIND, &self.store, &values)
    }

    /// Reads the object.
    ///
    /// # Errors
    /// As of [`Claim::decode`].
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let names = ["epoch", "number", "root-epoch", "root"];
        let (store, [epoch, number, root_epoch, root]) = sealed_line::decode(Self::KIND, names, bytes)?;
        Ok(Self {
            store,
            epoch: sealed_line::number(epoch, "the epoch")?,
            number: sealed_line::number(number, "the number")?,
            base: root_id(root_epoch, root)?,
        })
    }
}

/// The point at which the log of a restored store ends on purpose: an epoch that begins there gives
/// up the log after it. The file `meta/return` (data-format.md, section 17, *Going back*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnPoint {
    /// The store.
    pub store: StoreId,
    /// The newest epoch with a cut, as of the restore.
    pub newest: u64,
    /// The root that the restore began with.
    pub root: RootId,
    /// The epoch with the point.
    pub former: u64,
    /// Its last parcel up to the point; 0 for none.
    pub last: u64,
    /// The point.
    pub end: LogPosition,
}

impl ReturnPoint {
    const KIND: &str = "return";

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let crc = format!("{:08x}", self.end.crc);
        let values: [(&str, &dyn std::fmt::Display); 7] = [
            ("newest", &self.newest),
            ("root-epoch", &self.root.epoch),
            ("root", &self.root.number),
            ("former", &self.former),
            ("last", &self.last),
            ("sequence", &self.end.sequence),
            ("chain", &crc),
        ];
        sealed_line::encode(Self::KIND, &self.store, &values)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// As of [`Claim::decode`].
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let names = ["newest", "root-epoch", "root", "former", "last", "sequence", "chain"];
        let (store, [newest, root_epoch, root, former, last, sequence, crc]) =
            sealed_line::decode(Self::KIND, names, bytes)?;
        Ok(Self {
            store,
            newest: sealed_line::number(newest, "the newest epoch")?,
            root: root_id(root_epoch, root)?,
            former: sealed_line::number(former, "the former epoch")?,
            last: sealed_line::number(last, "the last parcel")?,
            end: position(sequence, crc)?,
        })
    }
}

/// A claim, and the nonce of the put that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClaimId {
    /// The epoch; 0 for none.
    pub epoch: u64,
    /// The nonce, which the remote keeps in 16 hexadecimal digits; 0 for none.
    pub nonce: u64,
}

/// The epoch of a data directory: the file `meta/epoch` (data-format.md, section 17, *Epochs
/// without a log*).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochRecord {
    /// The store.
    pub store: StoreId,
    /// The last claim that it has held.
    pub held: ClaimId,
    /// The claim that it was about to make then.
    pub tried: ClaimId,
    /// The number that the file system gave to this file: a copy of it has another. 0 where it
    /// gives none.
    pub file: u64,
}

impl EpochRecord {
    const KIND: &str = "epoch";

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let held = format!("{:016x}", self.held.nonce);
        let tried = format!("{:016x}", self.tried.nonce);
        let values: [(&str, &dyn std::fmt::Display); 5] = [
            ("epoch", &self.held.epoch),
            ("nonce", &held),
            ("next", &self.tried.epoch),
            ("next-nonce", &tried),
            ("file", &self.file),
        ];
        sealed_line::encode(Self::KIND, &self.store, &values)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// As of [`Claim::decode`].
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let names = ["epoch", "nonce", "next", "next-nonce", "file"];
        let (store, [epoch, nonce, next, next_nonce, file]) = sealed_line::decode(Self::KIND, names, bytes)?;
        let held = claim_id(epoch, nonce)?;
        let tried = claim_id(next, next_nonce)?;
        // It counts nothing: a file system may give any number.
        let file = file.parse().map_err(|_| DecodeError::Value("the number of the file"))?;
        Ok(Self { store, held, tried, file })
    }
}

/// A heartbeat of a writer, by which a standby knows an idle one from one that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// The store.
    pub store: StoreId,
    /// The number of the epoch.
    pub epoch: u64,
    /// The last group that the remote has.
    pub sequence: u64,
    /// The time when it was made.
    pub made: Timestamp,
    /// The longest time until the next heartbeat or parcel, as its writer promises.
    pub every: Duration,
}

impl Heartbeat {
    const KIND: &str = "alive";
    const VERSION: &str = "2";
    /// The interval of heartbeats of the first version, which do not state it.
    const FIRST_EVERY: Duration = Duration::from_secs(5);

    /// The name of the object of an epoch.
    pub fn name(epoch: u64) -> String {
        format!("alive/{epoch:016x}")
    }

    /// The object.
    pub fn encode(&self) -> Vec<u8> {
        let values: [(&str, &dyn std::fmt::Display); 4] = [
            ("epoch", &self.epoch),
            ("sequence", &self.sequence),
            ("made", &self.made.as_millis()),
            ("every", &self.every.as_millis()),
        ];
        sealed_line::encode_version(Self::KIND, Self::VERSION, &self.store, &values)
    }

    /// Reads the object.
    ///
    /// # Errors
    /// As of [`Claim::decode`].
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let names = ["epoch", "sequence", "made", "every"];
        let (store, [epoch, sequence, made], every) =
            match sealed_line::decode_version(Self::KIND, Self::VERSION, names, bytes) {
                Ok((store, [epoch, sequence, made, every])) => {
                    let every = sealed_line::number(every, "the interval")?;
                    (store, [epoch, sequence, made], Duration::from_millis(every))
                }
                Err(DecodeError::Unknown(_)) => {
                    let (store, values) =
                        sealed_line::decode(Self::KIND, ["epoch", "sequence", "made"], bytes)?;
                    (store, values, Self::FIRST_EVERY)
                }
                Err(error) => return Err(error),
            };
        Ok(Self {
            store,
            epoch: sealed_line::number(epoch, "the epoch")?,
            sequence: sealed_line::number(sequence, "the sequence")?,
            made: Timestamp::from_millis(sealed_line::number(made, "the time")?),
            every,
        })
    }
}

/// The wish of a standby that takes over by itself: its writer gives heartbeats as often as that
/// needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeoverWish {
    /// The store.
    pub store: StoreId,
    /// The time without a heartbeat after which the standby takes over.
    pub after: Duration,
    /// The time when it was made.
    pub made: Timestamp,
}

impl TakeoverWish {
    const KIND: &str = "watch";
    /// The name of the only object.
    pub const NAME: &str = "watch";

    /// The object.
    pub fn encode(&self) -> Vec<u8> {
        let values: [(&str, &dyn std::fmt::Display); 2] =
            [("takeover-after", &self.after.as_millis()), ("made", &self.made.as_millis())];
        sealed_line::encode(Self::KIND, &self.store, &values)
    }

    /// Reads the object.
    ///
    /// # Errors
    /// As of [`Claim::decode`].
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let (store, [after, made]) = sealed_line::decode(Self::KIND, ["takeover-after", "made"], bytes)?;
        Ok(Self {
            store,
            after: Duration::from_millis(sealed_line::number(after, "the time until a takeover")?),
            made: Timestamp::from_millis(sealed_line::number(made, "the time")?),
        })
    }
}

fn claim_id(epoch: &str, nonce: &str) -> Decoded<ClaimId> {
    let nonce = u64::from_str_radix(nonce, 16).map_err(|_| DecodeError::Value("the nonce"))?;
    Ok(ClaimId { epoch: sealed_line::number(epoch, "the epoch")?, nonce })
}

fn root_id(epoch: &str, number: &str) -> Decoded<RootId> {
    let epoch = sealed_line::number(epoch, "the epoch of the root")?;
    Ok(RootId { epoch, number: sealed_line::number(number, "the number of the root")? })
}

fn position(sequence: &str, crc: &str) -> Decoded<LogPosition> {
    let crc = u32::from_str_radix(crc, 16).map_err(|_| DecodeError::Value("the place in the chain"))?;
    Ok(LogPosition { sequence: sealed_line::number(sequence, "the sequence")?, crc })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId(*b"0123456789abcdef");
    const END: LogPosition = LogPosition { sequence: 42, crc: 0x0bad_cafe };

    fn examples() -> [Vec<u8>; 10] {
        let made = Timestamp::from_millis(1_763_766_000_000);
        let root = Root {
            store: STORE,
            epoch: 7,
            number: 2,
            covered: END,
            checkpoint_length: 8192,
            first: ParcelId { epoch: 7, counter: 3 },
            after: 5,
            made,
        };
        let over_epochs = Root { first: ParcelId { epoch: 5, counter: 9 }, ..root };
        [
            Claim { store: STORE, epoch: 7, made, of_tier: false }.encode(),
            Cut { store: STORE, epoch: 7, former: 6, last: 9, end: END }.encode(),
            root.encode(),
            over_epochs.encode(),
            Floor { store: STORE, epoch: 7, number: 1, base: RootId { epoch: 6, number: 25 } }.encode(),
            ReturnPoint { store: STORE, newest: 7, root: root.id(), former: 7, last: 9, end: END }.encode(),
            Heartbeat { store: STORE, epoch: 7, sequence: 42, made, every: Duration::from_secs(60) }.encode(),
            TakeoverWish { store: STORE, after: Duration::from_secs(15), made }.encode(),
            EpochRecord { store: STORE, held: CLAIM, tried: CLAIM, file: 5 }.encode(),
            Claim { store: STORE, epoch: 7, made, of_tier: true }.encode(),
        ]
    }

    const CLAIM: ClaimId = ClaimId { epoch: 7, nonce: 0x0123 };

    fn decoded(bytes: &[u8]) -> [Decoded<Vec<u8>>; 8] {
        [
            Claim::decode(bytes).map(|claim| claim.encode()),
            Cut::decode(bytes).map(|cut| cut.encode()),
            Root::decode(bytes).map(|root| root.encode()),
            Floor::decode(bytes).map(|floor| floor.encode()),
            ReturnPoint::decode(bytes).map(|point| point.encode()),
            Heartbeat::decode(bytes).map(|heartbeat| heartbeat.encode()),
            TakeoverWish::decode(bytes).map(|wish| wish.encode()),
            EpochRecord::decode(bytes).map(|record| record.encode()),
        ]
    }

    #[test]
    fn a_heartbeat_of_the_first_version_is_read() {
        let line = b"siltstone alive 1 store 30313233343536373839616263646566 epoch 7 sequence 42 made 1763766000000 crc a32ee195\n";
        let heartbeat = Heartbeat::decode(line).unwrap();
        assert_eq!((heartbeat.epoch, heartbeat.sequence, heartbeat.every), (7, 42, Duration::from_secs(5)));
    }

    #[test]
    fn each_comes_back_and_a_change_of_any_byte_is_seen() {
        for (kind, line) in examples().into_iter().enumerate() {
            assert!(line.len() as u64 <= sealed_line::SEALED_LINE_MAX_BYTES);
            let found = decoded(&line).into_iter().filter(|found| *found == Ok(line.clone()));
            assert_eq!(found.count(), 1, "example {kind}");
            for at in 0..line.len() {
                let mut bad = line.clone();
                bad[at] ^= 1;
                assert!(decoded(&bad).iter().all(Result::is_err), "byte {at} of {kind}");
                assert!(decoded(&line[..at]).iter().all(Result::is_err), "{at} bytes of {kind}");
            }
        }
    }

    #[test]
    fn the_file_of_an_epoch_has_any_number() {
        for file in [0, 1 << 63, u64::MAX] {
            let record = EpochRecord { store: STORE, held: CLAIM, tried: CLAIM, file };
            assert_eq!(EpochRecord::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn the_longest_line_is_within_the_bound() {
        let most = u64::MAX;
        let root = Root {
            store: STORE,
            epoch: most,
            number: most,
            covered: LogPosition { sequence: most, crc: u32::MAX },
            checkpoint_length: most,
            first: ParcelId { epoch: most - 1, counter: most },
            after: most,
            made: Timestamp::from_millis(most),
        };
        assert!(root.encode().len() as u64 <= sealed_line::SEALED_LINE_MAX_BYTES);
    }

    #[test]
    fn the_examples_of_the_format_are_read() {
        let page = include_str!("../../data-format.md");
        let examples =
            page.lines().filter(|line| decoded(format!("{line}\n").as_bytes()).iter().any(Result::is_ok));
        assert_eq!(examples.count(), 10);
    }
}
