//! The files `KEYS` and `KEYS.copy`, and the line of a key file (data-format.md, "The encrypted
//! data directory").

use crate::base::Timestamp;
use crate::base::digest::{Crc32, from_hex, to_hex};
use crate::format::salt_page::StoreKeyId;
use crate::format::{DecodeError, Decoded, Field};

const MAGIC_NUMBER: &[u8; 8] = b"SiltKeys";
const VERSION_NUMBER: u32 = 1;

const MAGIC: Field = Field::new(0, 8, "magic");
const VERSION: Field = Field::new(8, 4, "version");
const STATE: Field = Field::new(12, 4, "state");
const GENERATION: Field = Field::new(16, 8, "generation");
const KEY: Field = Field::new(24, 8, "key id");
const COUNT: Field = Field::new(32, 4, "slot count");
const RESERVED: Field = Field::new(36, 28, "reserved");
const SLOTS: Field = Field::new(64, 1024, "slots");
const RESERVED_MORE: Field = Field::new(1088, 3004, "reserved more");
const CRC: Field = Field::new(4092, 4, "CRC");

/// The fields of `KEYS`.
pub const KEYS_LAYOUT: &[Field] =
    &[MAGIC, VERSION, STATE, GENERATION, KEY, COUNT, RESERVED, SLOTS, RESERVED_MORE, CRC];

const SLOT_KIND: Field = Field::new(0, 4, "kind");
const SLOT_MEMORY: Field = Field::new(4, 4, "memory");
const SLOT_PASSES: Field = Field::new(8, 4, "passes");
const SLOT_LANES: Field = Field::new(12, 4, "lanes");
const SLOT_SOURCE: Field = Field::new(16, 8, "key file id");
const SLOT_CREATED: Field = Field::new(24, 8, "created");
const SLOT_SALT: Field = Field::new(32, 32, "salt");
const SLOT_WRAPPED: Field = Field::new(64, 48, "wrapped key");
const SLOT_RESERVED: Field = Field::new(112, 16, "reserved");

/// The fields of a slot in `KEYS`.
pub const KEY_SLOT_LAYOUT: &[Field] = &[
    SLOT_KIND,
    SLOT_MEMORY,
    SLOT_PASSES,
    SLOT_LANES,
    SLOT_SOURCE,
    SLOT_CREATED,
    SLOT_SALT,
    SLOT_WRAPPED,
    SLOT_RESERVED,
];

const OF_KEY_FILE: u32 = 1;
const OF_PASSPHRASE: u32 = 2;

/// The first words of the line of a key file.
const KEY_LINE: &str = "siltstone store-key 1";

/// Whether every file of the directory is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysState {
    /// Every file is.
    Done,
    /// Files are being encrypted, one after another.
    Converting,
}

/// What Argon2id is told for a passphrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassphraseCost {
    /// Memory in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl PassphraseCost {
    /// The most that a reader spends on a slot, whatever its numbers say.
    pub const MAX: Self = Self { memory_kib: 256 * 1024, passes: 16, lanes: 4 };

    /// Whether a reader spends it. Argon2 asks for 8 KiB a lane.
    fn is_bearable(self) -> bool {
        (1..=Self::MAX.lanes).contains(&self.lanes)
            && (1..=Self::MAX.passes).contains(&self.passes)
            && (8 * self.lanes..=Self::MAX.memory_kib).contains(&self.memory_kib)
    }
}

/// What opens a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySlotKind {
    /// The key file with this id.
    KeyFile(StoreKeyId),
    /// A passphrase.
    Passphrase(PassphraseCost),
}

/// The key of the directory, wrapped for one secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySlot {
    /// What opens it.
    pub kind: KeySlotKind,
    /// When it was made.
    pub created: Timestamp,
    /// Distinguishes the keys that wrap.
    pub salt: [u8; 32],
    /// The key and its tag.
    pub wrapped: [u8; 48],
}

impl KeySlot {
    /// Bytes of a slot.
    const BYTES: usize = 128;
    /// Bytes at its start that the tag covers.
    const BOUND_BYTES: usize = SLOT_WRAPPED.offset;

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        match self.kind {
            KeySlotKind::KeyFile(id) => {
                SLOT_KIND.put_u32(&mut bytes, OF_KEY_FILE);
                SLOT_SOURCE.put(&mut bytes, &id.0);
            }
            KeySlotKind::Passphrase(cost) => {
                SLOT_KIND.put_u32(&mut bytes, OF_PASSPHRASE);
                SLOT_MEMORY.put_u32(&mut bytes, cost.memory_kib);
                SLOT_PASSES.put_u32(&mut bytes, cost.passes);
                SLOT_LANES.put_u32(&mut bytes, cost.lanes);
            }
        }
        SLOT_CREATED.put_u64(&mut bytes, self.created.as_millis());
        SLOT_SALT.put(&mut bytes, &self.salt);
        SLOT_WRAPPED.put(&mut bytes, &self.wrapped);
        bytes
    }

    fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut source = [0; 8];
        let mut salt = [0; 32];
        let mut wrapped = [0; 48];
        source.copy_from_slice(SLOT_SOURCE.of(bytes));
        salt.copy_from_slice(SLOT_SALT.of(bytes));
        wrapped.copy_from_slice(SLOT_WRAPPED.of(bytes));
        let cost = PassphraseCost {
            memory_kib: SLOT_MEMORY.u32(bytes),
            passes: SLOT_PASSES.u32(bytes),
            lanes: SLOT_LANES.u32(bytes),
        };
        let kind = match SLOT_KIND.u32(bytes) {
            OF_KEY_FILE => KeySlotKind::KeyFile(StoreKeyId(source)),
            OF_PASSPHRASE if cost.is_bearable() => KeySlotKind::Passphrase(cost),
            OF_PASSPHRASE => return Err(DecodeError::Value("the cost of a passphrase")),
            _ => return Err(DecodeError::Unknown("the kind of a slot")),
        };
        let created = Timestamp::from_millis(SLOT_CREATED.u64(bytes));
        Ok(Self { kind, created, salt, wrapped })
    }

    /// The bytes that the tag of the wrapped key covers.
    pub fn bound_bytes(&self, key: StoreKeyId) -> Vec<u8> {
        let mut bound = self.encode()[..Self::BOUND_BYTES].to_vec();
        bound.extend_from_slice(&key.0);
        bound
    }
}

/// The content of `KEYS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysPage {
    /// Whether every file is encrypted.
    pub state: KeysState,
    /// Rises with each change.
    pub generation: u64,
    /// The key of the directory.
    pub key: StoreKeyId,
    /// The slots.
    pub slots: Vec<KeySlot>,
}

impl KeysPage {
    /// Bytes of the file.
    pub const BYTES: usize = 4096;
    /// The most slots.
    pub const SLOTS_MAX: usize = SLOTS.size / KeySlot::BYTES;

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; Self::BYTES];
        let state = match self.state {
            KeysState::Done => 1,
            KeysState::Converting => 2,
        };
        MAGIC.put(&mut page, MAGIC_NUMBER);
        VERSION.put_u32(&mut page, VERSION_NUMBER);
        STATE.put_u32(&mut page, state);
        GENERATION.put_u64(&mut page, self.generation);
        KEY.put(&mut page, &self.key.0);
        COUNT.put_u32(&mut page, self.slots.len() as u32);
        let places = page[SLOTS.offset..SLOTS.offset + SLOTS.size].chunks_exact_mut(KeySlot::BYTES);
        for (place, slot) in places.zip(&self.slots) {
            place.copy_from_slice(&slot.encode());
        }
        let crc = Crc32::of(&page[..CRC.offset]);
        CRC.put_u32(&mut page, crc);
        page
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Of a newer siltstone, or a damaged file.
    pub fn decode(page: &[u8]) -> Decoded<Self> {
        let page = page.get(..Self::BYTES).ok_or(DecodeError::Short)?;
        if MAGIC.of(page) != MAGIC_NUMBER {
            return Err(DecodeError::Magic);
        }
        if CRC.u32(page) != Crc32::of(&page[..CRC.offset]) {
            return Err(DecodeError::Crc("file"));
        }
        if VERSION.u32(page) != VERSION_NUMBER {
            return Err(DecodeError::Version(VERSION.u32(page)));
        }
        let state = match STATE.u32(page) {
            1 => KeysState::Done,
            2 => KeysState::Converting,
            _ => return Err(DecodeError::Unknown("the state of KEYS")),
        };
        let count = COUNT.u32(page) as usize;
        if !(1..=Self::SLOTS_MAX).contains(&count) {
            return Err(DecodeError::Value("the number of slots"));
        }
        let places = SLOTS.of(page).chunks_exact(KeySlot::BYTES).take(count);
        let slots = places.map(KeySlot::decode).collect::<Decoded<Vec<_>>>()?;
        let mut key = [0; 8];
        key.copy_from_slice(KEY.of(page));
        Ok(Self { state, generation: GENERATION.u64(page), key: StoreKeyId(key), slots })
    }
}

/// The line of a key file.
pub struct StoreKeyLine {
    /// The name of the key file.
    pub id: StoreKeyId,
    /// What opens its slot.
    pub secret: [u8; 32],
}

impl StoreKeyLine {
    /// Whether a text is meant as a key file, and not as a passphrase.
    pub fn is_meant(text: &str) -> bool {
        text.trim_start().starts_with("siltstone store-key")
    }

    /// The line, without its line feed.
    pub fn encode(&self) -> String {
        format!("{KEY_LINE} id {} secret {}", self.id, to_hex(&self.secret))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The line is none of a key. The error quotes nothing of it.
    pub fn decode(line: &str) -> Decoded<Self> {
        let words = line.trim().strip_prefix(KEY_LINE).ok_or(DecodeError::Magic)?;
        let ["id", id, "secret", secret] = words.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(DecodeError::Value("a word"));
        };
        let id = from_hex(id).and_then(|id| id.try_into().ok()).ok_or(DecodeError::Value("the id"))?;
        let secret = from_hex(secret).and_then(|secret| secret.try_into().ok());
        let secret = secret.ok_or(DecodeError::Value("the secret"))?;
        Ok(Self { id: StoreKeyId(id), secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> KeysPage {
        let slot =
            |kind| KeySlot { kind, created: Timestamp::from_millis(7), salt: [3; 32], wrapped: [4; 48] };
        let cost = PassphraseCost { memory_kib: 65_536, passes: 3, lanes: 1 };
        let slots = vec![slot(KeySlotKind::KeyFile(StoreKeyId([5; 8]))), slot(KeySlotKind::Passphrase(cost))];
        KeysPage { state: KeysState::Converting, generation: 9, key: StoreKeyId([6; 8]), slots }
    }

    fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
        let crc = Crc32::of(&bytes[..CRC.offset]);
        CRC.put_u32(&mut bytes, crc);
        bytes
    }

    #[test]
    fn keys_read_back_and_any_flipped_byte_is_refused() {
        let bytes = page().encode();
        assert_eq!(KeysPage::decode(&bytes), Ok(page()));
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert!(KeysPage::decode(&bytes).is_err(), "byte {at}");
        }
        for len in [0, 1, 63, 4095] {
            assert!(KeysPage::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn hostile_costs_are_refused_before_anything_is_spent() {
        for (memory_kib, passes, lanes) in [
            (u32::MAX, 3, 1),
            (65_536, u32::MAX, 1),
            (65_536, 3, u32::MAX),
            (0, 3, 1),
            (65_536, 0, 1),
            (7, 3, 1),
        ] {
            let mut page = page();
            page.slots[1].kind = KeySlotKind::Passphrase(PassphraseCost { memory_kib, passes, lanes });
            let refused = KeysPage::decode(&page.encode());
            assert_eq!(refused, Err(DecodeError::Value("the cost of a passphrase")), "{memory_kib} {passes}");
        }
    }

    #[test]
    fn what_a_newer_siltstone_wrote_is_named_as_such() {
        for (field, value) in [(VERSION, 2), (STATE, 3), (Field::new(SLOTS.offset, 4, "kind"), 3)] {
            let mut bytes = page().encode();
            field.put_u32(&mut bytes, value);
            let refused = KeysPage::decode(&with_crc(bytes)).unwrap_err();
            assert!(refused.is_newer(), "{}: {refused}", field.name);
        }
        let mut bytes = page().encode();
        COUNT.put_u32(&mut bytes, 9);
        assert_eq!(KeysPage::decode(&with_crc(bytes)), Err(DecodeError::Value("the number of slots")));
    }

    #[test]
    fn a_line_of_a_key_file_reads_back() {
        let line = StoreKeyLine { id: StoreKeyId([0xab; 8]), secret: [0xcd; 32] };
        let read = StoreKeyLine::decode(&format!("{}\n", line.encode())).unwrap();
        assert_eq!((read.id, read.secret), (line.id, line.secret));
        assert!(
            StoreKeyLine::is_meant("siltstone store-key 2 id x") && !StoreKeyLine::is_meant("correct horse")
        );
        for bad in
            ["siltstone store-key 1", "siltstone store-key 1 id 00 secret 00", "siltstone store-key 2 id"]
        {
            assert!(StoreKeyLine::decode(bad).is_err(), "{bad}");
        }
    }
}
