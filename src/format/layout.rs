//! Fields of fixed structures. Each structure lists its fields in a `LAYOUT`. A test compares them
//! with the tables of data-format.md.

use super::codec::{DecodeError, Decoded};
use crate::base::limits::COUNTERS_END;

/// A field of a fixed structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
    /// Its name in data-format.md.
    pub name: &'static str,
}

impl Field {
    /// Reads a number that counts on from a field of 8 bytes.
    ///
    /// # Errors
    /// [`DecodeError::Value`] from [`COUNTERS_END`] on.
    pub fn counter(&self, structure: &[u8]) -> Decoded<u64> {
        match self.u64(structure) {
            number if number < COUNTERS_END => Ok(number),
            _ => Err(DecodeError::Value(self.name)),
        }
    }

    /// The field `name` of `size` bytes at `offset`.
    pub const fn new(offset: usize, size: usize, name: &'static str) -> Self {
        Self { offset, size, name }
    }

    /// The bytes of this field.
    pub fn of<'a>(&self, structure: &'a [u8]) -> &'a [u8] {
        &structure[self.offset..self.offset + self.size]
    }

    /// Writes bytes of exactly this field's size.
    pub fn put(&self, structure: &mut [u8], bytes: &[u8]) {
        structure[self.offset..self.offset + self.size].copy_from_slice(bytes);
    }

    /// Writes a number into a field of 4 bytes.
    pub fn put_u32(&self, structure: &mut [u8], value: u32) {
        self.put(structure, &value.to_le_bytes());
    }

    /// Writes a number into a field of 8 bytes.
    pub fn put_u64(&self, structure: &mut [u8], value: u64) {
        self.put(structure, &value.to_le_bytes());
    }

    /// Reads a field of 4 bytes.
    pub fn u32(&self, structure: &[u8]) -> u32 {
        u32::from_le_bytes(self.of(structure).try_into().expect("a u32 field has 4 bytes"))
    }

    /// Reads a field of 8 bytes.
    pub fn u64(&self, structure: &[u8]) -> u64 {
        u64::from_le_bytes(self.of(structure).try_into().expect("a u64 field has 8 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_leaves_a_number_for_what_comes_after_it() {
        let field = Field::new(4, 8, "sequence");
        let mut structure = [0; 16];
        for number in [0, 1, COUNTERS_END - 1] {
            field.put_u64(&mut structure, number);
            assert_eq!(field.counter(&structure), Ok(number));
        }
        for number in [COUNTERS_END, u64::MAX] {
            field.put_u64(&mut structure, number);
            assert_eq!(field.counter(&structure), Err(DecodeError::Value("sequence")));
        }
    }
}
