//! Parcels: pieces of the log on a remote, with the bytes of segments that they name
//! (data-format.md, section 17).

use crate::base::Timestamp;
use crate::base::digest::Crc32;
use crate::format::{
    DecodeError, Decoded, Features, Field, GroupHeader, GroupKind, LogPosition, StoreId, UncheckedGroup,
};

const MAGIC_BYTES: &[u8; 4] = b"SPCL";
const VERSION_NUMBER: u32 = 1;

const MAGIC: Field = Field::new(0, 4, "magic");
const VERSION: Field = Field::new(4, 4, "version");
const STORE: Field = Field::new(8, 16, "store id");
const EPOCH: Field = Field::new(24, 8, "epoch");
const COUNTER: Field = Field::new(32, 8, "counter");
const FEATURES: Field = Field::new(40, 8, "critical features");
const BEFORE: Field = Field::new(48, 8, "sequence before");
const LAST: Field = Field::new(56, 8, "last sequence");
const BEFORE_CRC: Field = Field::new(64, 4, "previous CRC");
const LAST_CRC: Field = Field::new(68, 4, "last CRC");
const TIME: Field = Field::new(72, 8, "time");
const GROUPS_LEN: Field = Field::new(80, 4, "length of the groups");
const GROUPS_CRC: Field = Field::new(84, 4, "groups CRC");
const PIECE_COUNT: Field = Field::new(88, 4, "piece count");
const PIECES_CRC: Field = Field::new(92, 4, "pieces CRC");
const RESERVED: Field = Field::new(96, 28, "reserved");
const HEADER_CRC: Field = Field::new(124, 4, "header CRC");

/// The fields of a parcel's header.
pub const PARCEL_LAYOUT: &[Field] = &[
    MAGIC,
    VERSION,
    STORE,
    EPOCH,
    COUNTER,
    FEATURES,
    BEFORE,
    LAST,
    BEFORE_CRC,
    LAST_CRC,
    TIME,
    GROUPS_LEN,
    GROUPS_CRC,
    PIECE_COUNT,
    PIECES_CRC,
    RESERVED,
    HEADER_CRC,
];

const SEGMENT: Field = Field::new(0, 8, "segment");
const OFFSET: Field = Field::new(8, 8, "offset");
const LENGTH: Field = Field::new(16, 8, "length");
const OBJECT: Field = Field::new(24, 4, "data object");
const PIECE_CRC: Field = Field::new(28, 4, "CRC");

/// The fields of a piece.
pub const PIECE_LAYOUT: &[Field] = &[SEGMENT, OFFSET, LENGTH, OBJECT, PIECE_CRC];

/// The longest parcel, in bytes, without its data objects.
pub const PARCEL_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The longest piece, in bytes.
pub const PIECE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a segment in a parcel, or in an object of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParcelPiece {
    /// The segment.
    pub segment: u64,
    /// Where they start in it.
    pub offset: u64,
    /// Their number.
    pub length: u64,
    /// The number of the data object that they are; 0 if they are in the parcel.
    pub object: u32,
    /// Their CRC.
    pub crc: u32,
}

impl ParcelPiece {
    /// Bytes of an encoded piece.
    pub const BYTES: usize = 32;

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        SEGMENT.put_u64(&mut bytes, self.segment);
        OFFSET.put_u64(&mut bytes, self.offset);
        LENGTH.put_u64(&mut bytes, self.length);
        OBJECT.put_u32(&mut bytes, self.object);
        PIECE_CRC.put_u32(&mut bytes, self.crc);
        bytes
    }

    fn decode(bytes: &[u8]) -> Decoded<Self> {
        let piece = Self {
            segment: SEGMENT.u64(bytes),
            offset: OFFSET.u64(bytes),
            length: LENGTH.u64(bytes),
            object: OBJECT.u32(bytes),
            crc: PIECE_CRC.u32(bytes),
        };
        let is_sound = piece.segment > 0
            && (1..=PIECE_MAX_BYTES).contains(&piece.length)
            && piece.offset.checked_add(piece.length).is_some();
        if is_sound { Ok(piece) } else { Err(DecodeError::Value("a piece")) }
    }

    /// Checks its bytes.
    ///
    /// # Errors
    /// [`DecodeError::Crc`], and the errors of a wrong length.
    pub fn check(&self, bytes: &[u8]) -> Decoded<()> {
        if bytes.len() as u64 != self.length {
            return Err(DecodeError::Short);
        }
        if Crc32::of(bytes) == self.crc { Ok(()) } else { Err(DecodeError::Crc("piece")) }
    }
}

/// The header of a parcel: its place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParcelHead {
    /// The epoch that wrote it.
    pub epoch: u64,
    /// Its number in that epoch, from 1 without gaps.
    pub counter: u64,
    /// The critical features of its entries.
    pub features: Features,
    /// The end of the log before it.
    pub before: LogPosition,
    /// Its last group; `before` if it has none.
    pub end: LogPosition,
    /// The time when it was made.
    pub time: Timestamp,
}

impl ParcelHead {
    /// Bytes of the header.
    pub const BYTES: usize = 128;

    /// Reads the header at the beginning of a parcel. The caller compares epoch and counter with
    /// its name.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(store: &StoreId, bytes: &[u8]) -> Decoded<Self> {
        let header = bytes.get(..Self::BYTES).ok_or(DecodeError::Short)?;
        if MAGIC.of(header) != MAGIC_BYTES {
            return Err(DecodeError::Magic);
        }
        if VERSION.u32(header) != VERSION_NUMBER {
            return Err(DecodeError::Version(VERSION.u32(header)));
        }
        if STORE.of(header) != store.0 {
            return Err(DecodeError::Value("the store id"));
        }
        if HEADER_CRC.u32(header) != store.seal(&header[..HEADER_CRC.offset]) {
            return Err(DecodeError::Crc("header"));
        }
        Ok(Self {
            epoch: EPOCH.counter(header)?,
            counter: COUNTER.counter(header)?,
            features: Features::from_bits(FEATURES.u64(header)).map_err(DecodeError::Features)?,
            before: LogPosition { sequence: BEFORE.counter(header)?, crc: BEFORE_CRC.u32(header) },
            end: LogPosition { sequence: LAST.counter(header)?, crc: LAST_CRC.u32(header) },
            time: Timestamp::from_millis(TIME.u64(header)),
        })
    }
}

/// A piece of the log, and the bytes of segments that its entries name for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// Its place.
    pub head: ParcelHead,
    /// Its groups, as they are in the log, each padded to whole pages.
    pub groups: Vec<u8>,
    /// Its pieces.
    pub pieces: Vec<ParcelPiece>,
    /// The bytes of the pieces that are in the parcel, in their order.
    pub inline: Vec<u8>,
}

impl Parcel {
    /// The names of all parcels of an epoch begin so.
    pub fn prefix(epoch: u64) -> String {
        format!("log/{epoch:016x}/")
    }

    /// The name of a parcel.
    pub fn name(epoch: u64, counter: u64) -> String {
        format!("{}{counter:016x}", Self::prefix(epoch))
    }

    /// The name of a data object of a parcel.
    pub fn object_name(epoch: u64, counter: u64, object: u32) -> String {
        format!("{}-{object:08x}", Self::name(epoch, counter))
    }

    /// The object.
    pub fn encode(&self, store: &StoreId) -> Vec<u8> {
        let table: Vec<u8> = self.pieces.iter().flat_map(ParcelPiece::encode).collect();
        let mut bytes = vec![0; ParcelHead::BYTES];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        VERSION.put_u32(&mut bytes, VERSION_NUMBER);
        STORE.put(&mut bytes, &store.0);
        EPOCH.put_u64(&mut bytes, self.head.epoch);
        COUNTER.put_u64(&mut bytes, self.head.counter);
        FEATURES.put_u64(&mut bytes, self.head.features.bits());
        BEFORE.put_u64(&mut bytes, self.head.before.sequence);
        LAST.put_u64(&mut bytes, self.head.end.sequence);
        BEFORE_CRC.put_u32(&mut bytes, self.head.before.crc);
        LAST_CRC.put_u32(&mut bytes, self.head.end.crc);
        TIME.put_u64(&mut bytes, self.head.time.as_millis());
        GROUPS_LEN.put_u32(&mut bytes, self.groups.len() as u32);
        GROUPS_CRC.put_u32(&mut bytes, Crc32::of(&self.groups));
        PIECE_COUNT.put_u32(&mut bytes, self.pieces.len() as u32);
        PIECES_CRC.put_u32(&mut bytes, Crc32::of(&table));
        let crc = store.seal(&bytes[..HEADER_CRC.offset]);
        HEADER_CRC.put_u32(&mut bytes, crc);
        for part in [&table, &self.groups, &self.inline] {
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Reads a whole parcel and checks all of its CRCs. The caller compares epoch and counter with
    /// its name.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(store: &StoreId, bytes: &[u8]) -> Decoded<Self> {
        let head = ParcelHead::decode(store, bytes)?;
        let (header, rest) = bytes.split_at(ParcelHead::BYTES);
        let table_len = (PIECE_COUNT.u32(header) as usize).saturating_mul(ParcelPiece::BYTES);
        let (table, rest) = rest.split_at_checked(table_len).ok_or(DecodeError::Short)?;
        let (groups, inline) =
            rest.split_at_checked(GROUPS_LEN.u32(header) as usize).ok_or(DecodeError::Short)?;
        if Crc32::of(table) != PIECES_CRC.u32(header) || Crc32::of(groups) != GROUPS_CRC.u32(header) {
            return Err(DecodeError::Crc("body"));
        }
        let pieces: Vec<ParcelPiece> =
            table.chunks_exact(ParcelPiece::BYTES).map(ParcelPiece::decode).collect::<Decoded<_>>()?;
        let parcel = Self { head, groups: groups.to_vec(), pieces, inline: inline.to_vec() };
        parcel.check_inline()?;
        Ok(parcel)
    }

    /// The headers of its groups, each with its body.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn unchecked_groups(&self, store: &StoreId) -> Decoded<Vec<(UncheckedGroup, &[u8])>> {
        let mut groups = Vec::new();
        let mut rest = self.groups.as_slice();
        while !rest.is_empty() {
            let head = UncheckedGroup::decode(GroupKind::Log, store, rest)?;
            let length = usize::try_from(head.group_len()).unwrap_or(usize::MAX);
            let (bytes, after) = rest.split_at_checked(length).ok_or(DecodeError::Short)?;
            let body = &bytes[GroupHeader::BYTES..GroupHeader::BYTES + head.body_len()];
            groups.push((head, body));
            rest = after;
        }
        Ok(groups)
    }

    /// The pieces that are in the parcel, with their bytes.
    pub fn inline_pieces(&self) -> impl Iterator<Item = (&ParcelPiece, &[u8])> {
        let mut rest = self.inline.as_slice();
        self.pieces.iter().filter(|piece| piece.object == 0).map_while(move |piece| {
            let (bytes, after) = rest.split_at_checked(piece.length as usize)?;
            rest = after;
            Some((piece, bytes))
        })
    }

    fn check_inline(&self) -> Decoded<()> {
        let mut length = 0;
        for (piece, bytes) in self.inline_pieces() {
            piece.check(bytes)?;
            length += bytes.len();
        }
        let wanted: u64 =
            self.pieces.iter().filter(|piece| piece.object == 0).map(|piece| piece.length).sum();
        if length as u64 != wanted {
            return Err(DecodeError::Short);
        }
        if length == self.inline.len() { Ok(()) } else { Err(DecodeError::Long) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::COUNTERS_END;

    const ID: StoreId = StoreId([3; 16]);

    fn example() -> Parcel {
        let piece = |offset, bytes: &[u8], object| ParcelPiece {
            segment: 5,
            offset,
            length: bytes.len() as u64,
            object,
            crc: Crc32::of(bytes),
        };
        Parcel {
            head: ParcelHead {
                epoch: 2,
                counter: 9,
                features: Features::REMOTE_SEGMENTS,
                before: LogPosition { sequence: 41, crc: 1 },
                end: LogPosition { sequence: 42, crc: 2 },
                time: Timestamp::from_millis(7),
            },
            groups: vec![4; 4096],
            pieces: vec![piece(0, b"first", 0), piece(4096, b"elsewhere", 1), piece(64, b"second", 0)],
            inline: b"firstsecond".to_vec(),
        }
    }

    #[test]
    fn a_parcel_comes_back_and_a_change_of_any_byte_is_seen() {
        let parcel = example();
        let bytes = parcel.encode(&ID);
        assert_eq!(Parcel::decode(&ID, &bytes), Ok(parcel.clone()));
        let inline: Vec<(u64, &[u8])> =
            parcel.inline_pieces().map(|(piece, bytes)| (piece.offset, bytes)).collect();
        assert_eq!(inline, [(0, &b"first"[..]), (64, b"second")]);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(Parcel::decode(&ID, &bad).is_err(), "byte {at}");
            assert!(Parcel::decode(&ID, &bytes[..at]).is_err(), "{at} bytes");
        }
        assert!(Parcel::decode(&ID, &[&bytes[..], b"x"].concat()).is_err());
        assert!(Parcel::decode(&StoreId([4; 16]), &bytes).is_err());
    }

    #[test]
    fn numbers_that_lie_are_refused_without_memory_for_them() {
        let lie = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = example().encode(&ID);
            change(&mut bytes);
            let crc = ID.seal(&bytes[..HEADER_CRC.offset]);
            HEADER_CRC.put_u32(&mut bytes, crc);
            Parcel::decode(&ID, &bytes).is_err()
        };
        assert!(lie(&|bytes| PIECE_COUNT.put_u32(bytes, u32::MAX)));
        assert!(lie(&|bytes| GROUPS_LEN.put_u32(bytes, u32::MAX)));
        assert!(lie(&|bytes| VERSION.put_u32(bytes, 2)));
        assert!(lie(&|bytes| FEATURES.put_u64(bytes, u64::MAX)));
        for counter in [EPOCH, COUNTER, BEFORE, LAST] {
            assert!(lie(&|bytes| counter.put_u64(bytes, COUNTERS_END)), "{}", counter.name);
        }
        let mut long = example();
        long.pieces[0].length = u64::MAX;
        assert!(Parcel::decode(&ID, &long.encode(&ID)).is_err());
    }
}
