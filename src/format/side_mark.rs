//! The marks of mirrored directories, and of their witness (data-format.md, section 24).

use std::fmt;

use crate::base::Timestamp;
use crate::base::digest::{Crc32, to_hex};
use crate::base::limits::PAGE_BYTES;
use crate::format::{DecodeError, Decoded, Field, StoreId};

const VERSION_NUMBER: u32 = 1;

const OF_SIDE: &[u8; 8] = b"SiltSide";
const OF_WITNESS: &[u8; 8] = b"SiltWitn";

const MAGIC: Field = Field::new(0, 8, "magic");
const VERSION: Field = Field::new(8, 4, "version");
const STATE: Field = Field::new(12, 4, "state");
const MIRROR: Field = Field::new(16, 16, "mirror");
const SIDE: Field = Field::new(32, 16, "side");
const NUMBER: Field = Field::new(48, 8, "number");
const MEMBER_COUNT: Field = Field::new(56, 4, "member count");
const LINE_COUNT: Field = Field::new(60, 4, "line count");
const GENERATION: Field = Field::new(64, 16, "generation");
const BEGUN: Field = Field::new(80, 8, "begun");
const MEMBERS: Field = Field::new(88, 32, "members");
const LINE: Field = Field::new(120, 3960, "line");
const RESERVED: Field = Field::new(4080, 12, "reserved");
const CRC: Field = Field::new(4092, 4, "CRC");

/// The fields of a mark.
pub const SIDE_MARK_LAYOUT: &[Field] = &[
    MAGIC,
    VERSION,
    STATE,
    MIRROR,
    SIDE,
    NUMBER,
    MEMBER_COUNT,
    LINE_COUNT,
    GENERATION,
    BEGUN,
    MEMBERS,
    LINE,
    RESERVED,
    CRC,
];

const ID_BYTES: usize = 16;
const ENDED_BYTES: usize = 24;

/// The most sides of a generation.
const MEMBERS_MAX: usize = MEMBERS.size / ID_BYTES;

/// The most generations of a line.
const LINE_MAX: usize = LINE.size / ENDED_BYTES;

/// The id of a side, random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SideId(pub [u8; 16]);

/// The id of a generation, random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GenerationId(pub [u8; 16]);

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

/// A generation that another one has followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedGeneration {
    /// Its id.
    pub id: GenerationId,
    /// A segment with a lower id that was sealed on a member when it ended is equal on all of them.
    pub sealed_below: u64,
}

/// The sides that are whole since some time. Each group that was acknowledged in a generation is on
/// all of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Its id.
    pub id: GenerationId,
    /// The start of the generation, for operators: nothing is decided by it.
    pub begun: Timestamp,
    /// The sides that are whole in it: one or two.
    pub members: Vec<SideId>,
    /// The generations before it, the oldest first. Where there are too many, the oldest are
    /// missing.
    pub line: Vec<EndedGeneration>,
}

impl Generation {
    /// The first one of a store.
    pub fn first(id: GenerationId, members: Vec<SideId>, now: Timestamp) -> Self {
        Self { id, begun: now, members, line: Vec::new() }
    }

    /// The one after it. A segment with an id below `sealed_below` that is sealed on a member of this one
    /// is equal on all of them.
    #[must_use]
    pub fn next(&self, id: GenerationId, members: Vec<SideId>, sealed_below: u64, now: Timestamp) -> Self {
        let mut line = self.line.clone();
        line.push(EndedGeneration { id: self.id, sealed_below });
        let surplus = line.len().saturating_sub(LINE_MAX);
        line.drain(..surplus);
        Self { id, begun: now, members, line }
    }

    /// Whether a generation is this one, or before it.
    pub fn knows(&self, id: GenerationId) -> bool {
        self.id == id || self.ended(id).is_some()
    }

    /// A generation before this one.
    pub fn ended(&self, id: GenerationId) -> Option<&EndedGeneration> {
        self.line.iter().find(|ended| ended.id == id)
    }

    /// Whether a side is whole in it.
    pub fn has_member(&self, side: SideId) -> bool {
        self.members.contains(&side)
    }

    /// Whether it has no member but `side`.
    pub fn is_of_only(&self, side: SideId) -> bool {
        self.members == [side]
    }
}

/// A side's own words about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SideState {
    /// It was a member of its generation.
    Whole,
    /// Its files are a mixture, since it is being filled.
    Filling,
    /// It was dropped, and knows that.
    Told,
}

impl SideState {
    fn number(self) -> u32 {
        match self {
            Self::Whole => 1,
            Self::Filling => 2,
            Self::Told => 3,
        }
    }

    fn of_number(number: u32) -> Decoded<Self> {
        [Self::Whole, Self::Filling, Self::Told]
            .into_iter()
            .find(|state| state.number() == number)
            .ok_or(DecodeError::Unknown("the state of a side"))
    }
}

/// The mark of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideMark {
    /// The id that both sides share.
    pub mirror: StoreId,
    /// The id of this side.
    pub side: SideId,
    /// Rises with each mark.
    pub number: u64,
    /// What the side says about itself.
    pub state: SideState,
    /// Of a whole side, the last generation of which it is a member.
    pub generation: Generation,
}

impl SideMark {
    /// Whether it is one of those that a mirror is made with.
    pub fn is_first(&self) -> bool {
        self.number == 1 && self.state == SideState::Whole && self.generation.line.is_empty()
    }

    /// A page.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = encode_generation(OF_SIDE, self.mirror, self.number, &self.generation);
        STATE.put_u32(&mut page, self.state.number());
        SIDE.put(&mut page, &self.side.0);
        seal(page)
    }

    /// Reads a page.
    ///
    /// # Errors
    /// Of a newer siltstone, or a damaged page.
    pub fn decode(page: &[u8]) -> Decoded<Self> {
        let page = check(OF_SIDE, page)?;
        let mark = Self {
            mirror: StoreId(id_of(MIRROR.of(page))),
            side: SideId(id_of(SIDE.of(page))),
            number: NUMBER.counter(page)?,
            state: SideState::of_number(STATE.u32(page))?,
            generation: decode_generation(page)?,
        };
        if mark.state != SideState::Filling && !mark.generation.has_member(mark.side) {
            return Err(DecodeError::Value("the members of a generation"));
        }
        Ok(mark)
    }
}

/// The generation in force, as a file on a third device remembers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WitnessMark {
    /// The id that both sides share.
    pub mirror: StoreId,
    /// Rises with each mark.
    pub number: u64,
    /// The generation.
    pub generation: Generation,
}

impl WitnessMark {
    /// A page.
    pub fn encode(&self) -> Vec<u8> {
        seal(encode_generation(OF_WITNESS, self.mirror, self.number, &self.generation))
    }

    /// Reads a page.
    ///
    /// # Errors
    /// Of a newer siltstone, or a damaged page.
    pub fn decode(page: &[u8]) -> Decoded<Self> {
        let page = check(OF_WITNESS, page)?;
        Ok(Self {
            mirror: StoreId(id_of(MIRROR.of(page))),
            number: NUMBER.counter(page)?,
            generation: decode_generation(page)?,
        })
    }
}

fn encode_generation(magic: &[u8; 8], mirror: StoreId, number: u64, generation: &Generation) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES as usize];
    MAGIC.put(&mut page, magic);
    VERSION.put_u32(&mut page, VERSION_NUMBER);
    MIRROR.put(&mut page, &mirror.0);
    NUMBER.put_u64(&mut page, number);
    MEMBER_COUNT.put_u32(&mut page, generation.members.len() as u32);
    LINE_COUNT.put_u32(&mut page, generation.line.len() as u32);
    GENERATION.put(&mut page, &generation.id.0);
    BEGUN.put_u64(&mut page, generation.begun.as_millis());
    let members = page[MEMBERS.offset..].chunks_exact_mut(ID_BYTES);
    for (place, member) in members.zip(&generation.members) {
        place.copy_from_slice(&member.0);
    }
    let line = page[LINE.offset..].chunks_exact_mut(ENDED_BYTES);
    for (place, ended) in line.zip(&generation.line) {
        place[..ID_BYTES].copy_from_slice(&ended.id.0);
        place[ID_BYTES..].copy_from_slice(&ended.sealed_below.to_le_bytes());
    }
    page
}

fn decode_generation(page: &[u8]) -> Decoded<Generation> {
    let member_count = MEMBER_COUNT.u32(page) as usize;
    let line_count = LINE_COUNT.u32(page) as usize;
    if !(1..=MEMBERS_MAX).contains(&member_count) || line_count > LINE_MAX {
        return Err(DecodeError::Value("a count"));
    }
    let members: Vec<_> =
        MEMBERS.of(page).chunks_exact(ID_BYTES).take(member_count).map(|id| SideId(id_of(id))).collect();
    if let [one, other] = members[..]
        && one == other
    {
        return Err(DecodeError::Value("the members of a generation"));
    }
    let mut line = Vec::with_capacity(line_count);
    for ended in LINE.of(page).chunks_exact(ENDED_BYTES).take(line_count) {
        let sealed_below = Field::new(ID_BYTES, 8, "sealed below").u64(ended);
        line.push(EndedGeneration { id: GenerationId(id_of(&ended[..ID_BYTES])), sealed_below });
    }
    Ok(Generation {
        id: GenerationId(id_of(GENERATION.of(page))),
        begun: Timestamp::from_millis(BEGUN.u64(page)),
        members,
        line,
    })
}

fn seal(mut page: Vec<u8>) -> Vec<u8> {
    let crc = Crc32::of(&page[..CRC.offset]);
    CRC.put_u32(&mut page, crc);
    page
}

/// The page, if it is one of that kind and undamaged.
fn check<'p>(magic: &[u8; 8], page: &'p [u8]) -> Decoded<&'p [u8]> {
    let page = page.get(..PAGE_BYTES as usize).ok_or(DecodeError::Short)?;
    if MAGIC.of(page) != magic {
        return Err(DecodeError::Magic);
    }
    if CRC.u32(page) != Crc32::of(&page[..CRC.offset]) {
        return Err(DecodeError::Crc("mark's"));
    }
    if VERSION.u32(page) != VERSION_NUMBER {
        return Err(DecodeError::Version(VERSION.u32(page)));
    }
    Ok(page)
}

fn id_of(bytes: &[u8]) -> [u8; ID_BYTES] {
    bytes.try_into().expect("an id has 16 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SideId = SideId([1; 16]);
    const B: SideId = SideId([2; 16]);

    fn time(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn generation() -> Generation {
        let first = Generation::first(GenerationId([7; 16]), vec![A, B], time(5));
        first.next(GenerationId([8; 16]), vec![A], 40, time(6))
    }

    fn mark() -> SideMark {
        SideMark {
            mirror: StoreId([3; 16]),
            side: A,
            number: 9,
            state: SideState::Whole,
            generation: generation(),
        }
    }

    fn with_field(field: Field, bytes: &[u8]) -> Decoded<SideMark> {
        let mut page = mark().encode();
        field.put(&mut page, bytes);
        SideMark::decode(&seal(page))
    }

    #[test]
    fn marks_come_back() {
        for state in [SideState::Whole, SideState::Filling, SideState::Told] {
            let mark = SideMark { state, ..mark() };
            assert_eq!(SideMark::decode(&mark.encode()), Ok(mark));
        }
        let witness = WitnessMark { mirror: StoreId([3; 16]), number: 1, generation: generation() };
        assert_eq!(WitnessMark::decode(&witness.encode()), Ok(witness.clone()));
        assert_eq!(SideMark::decode(&witness.encode()), Err(DecodeError::Magic));
        assert_eq!(WitnessMark::decode(&mark().encode()), Err(DecodeError::Magic));
    }

    #[test]
    fn a_generation_knows_those_before_it() {
        let second = generation();
        assert!(second.knows(GenerationId([7; 16])) && second.knows(second.id));
        assert!(!second.knows(GenerationId([9; 16])));
        assert_eq!(second.ended(GenerationId([7; 16])).map(|ended| ended.sealed_below), Some(40));
        assert!(second.is_of_only(A) && !second.is_of_only(B) && !second.has_member(B));
    }

    #[test]
    fn the_oldest_generations_go_where_the_page_is_full() {
        let mut generation = Generation::first(GenerationId([0; 16]), vec![A], time(1));
        for id in 1..=200 {
            generation = generation.next(GenerationId([id; 16]), vec![A], u64::from(id), time(1));
        }
        assert_eq!(generation.line.len(), LINE_MAX);
        assert!(!generation.knows(GenerationId([0; 16])) && !generation.knows(GenerationId([34; 16])));
        assert!(generation.knows(GenerationId([35; 16])) && generation.knows(GenerationId([199; 16])));
        let mark = SideMark { generation, ..mark() };
        assert_eq!(SideMark::decode(&mark.encode()), Ok(mark));
    }

    #[test]
    fn a_flip_of_any_byte_is_seen() {
        let page = mark().encode();
        for at in 0..page.len() {
            let mut bad = page.clone();
            bad[at] ^= 0x40;
            assert!(SideMark::decode(&bad).is_err(), "byte {at}");
            assert!(SideMark::decode(&page[..at]).is_err(), "cut to {at}");
        }
    }

    #[test]
    fn values_that_are_not_allowed_are_refused() {
        let count = Err(DecodeError::Value("a count"));
        let members = Err(DecodeError::Value("the members of a generation"));
        let same = [[1; 16], [1; 16]].concat();
        assert_eq!(with_field(MEMBER_COUNT, &0u32.to_le_bytes()), count);
        assert_eq!(with_field(MEMBER_COUNT, &3u32.to_le_bytes()), count);
        assert_eq!(with_field(LINE_COUNT, &166u32.to_le_bytes()), count);
        assert_eq!(with_field(NUMBER, &[0xff; 8]), Err(DecodeError::Value("number")));
        assert_eq!(with_field(SIDE, &B.0), members, "it is no member");
        let mut page = mark().encode();
        MEMBER_COUNT.put_u32(&mut page, 2);
        MEMBERS.put(&mut page, &same);
        assert_eq!(SideMark::decode(&seal(page)), members, "one side twice");
    }

    #[test]
    fn values_of_a_newer_version_are_told_from_damage() {
        assert_eq!(with_field(VERSION, &2u32.to_le_bytes()), Err(DecodeError::Version(2)));
        let unknown = with_field(STATE, &4u32.to_le_bytes()).unwrap_err();
        assert!(unknown.is_newer());
    }
}
