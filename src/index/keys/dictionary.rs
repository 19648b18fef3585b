//! A dictionary of attributes that many versions share, such as a content type. It stores each
//! once; a version stores a code of one byte.

use std::collections::HashMap;
use std::sync::Arc;

use crate::index::memory::shared_bytes;

/// The names of attributes with few distinct values. Others, such as file names and times, would
/// fill the dictionary with values that are used once.
const COMMON: [&[u8]; 4] = [b"content-type", b"cache-control", b"content-encoding", b"content-language"];
/// The number of codes; code 0 means an attribute that is not in the dictionary.
const CODES_MAX: usize = u8::MAX as usize;
/// The entries that are compared one by one before the lookup in the map.
const LINEAR_SEARCH_MAX: usize = 4;
/// Longer attributes are not added.
const LEN_MAX: usize = 128;

/// Encoded names and values, by code. The dictionary only grows, so encoded versions stay readable.
#[derive(Clone, Default)]
pub(super) struct AttributeDictionary {
    entries: Vec<Arc<[u8]>>,
    codes: HashMap<Arc<[u8]>, u8>,
    /// The memory of the attributes themselves.
    entry_bytes: u64,
}

impl AttributeDictionary {
    /// The code of an attribute, which is added if possible; 0 if it is not in the dictionary.
    pub(super) fn code(this: &mut Arc<Self>, pair: &[u8], name: &[u8]) -> u8 {
        if let Some(code) = this.early_code(pair) {
            return code;
        }
        if !COMMON.contains(&name) || pair.len() > LEN_MAX {
            return 0;
        }
        match this.codes.get(pair) {
            Some(code) => *code,
            None if this.entries.len() < CODES_MAX => Arc::make_mut(this).add(pair),
            None => 0,
        }
    }

    /// The code of one of the first entries. Most attributes of a store are the same few, for which
    /// comparing is faster than a lookup.
    fn early_code(&self, pair: &[u8]) -> Option<u8> {
        let at = self.entries.iter().take(LINEAR_SEARCH_MAX).position(|entry| **entry == *pair)?;
        Some(at as u8 + 1)
    }

    /// Memory in bytes, at most. Both tables may have twice the capacity that they need.
    pub(super) fn memory_bytes(&self) -> u64 {
        let in_tables = size_of::<Arc<[u8]>>() + size_of::<(Arc<[u8]>, u8)>() + 1;
        self.entry_bytes + (2 * self.entries.len() * in_tables) as u64
    }

    fn add(&mut self, pair: &[u8]) -> u8 {
        let entry: Arc<[u8]> = pair.into();
        self.entry_bytes += shared_bytes(pair.len());
        self.entries.push(entry.clone());
        let code = u8::try_from(self.entries.len()).expect("there are at most 255 codes");
        self.codes.insert(entry, code);
        code
    }

    /// The attribute with a code, which is not 0.
    pub(super) fn attribute(&self, code: u8) -> &[u8] {
        &self.entries[usize::from(code) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_attributes_get_a_code_and_keep_it() {
        let mut entries = Arc::new(AttributeDictionary::default());
        let before = entries.clone();
        let code = AttributeDictionary::code(&mut entries, b"a", b"content-type");
        assert_eq!((code, entries.attribute(code)), (1, &b"a"[..]));
        assert_eq!(AttributeDictionary::code(&mut entries, b"b", b"cache-control"), 2);
        assert_eq!(AttributeDictionary::code(&mut entries, b"a", b"content-type"), 1);
        assert!(before.entries.is_empty(), "a snapshot does not change");
    }

    #[test]
    fn the_dictionary_is_bounded() {
        let mut entries = Arc::new(AttributeDictionary::default());
        assert_eq!(AttributeDictionary::code(&mut entries, b"a", b"meta-mtime"), 0);
        assert_eq!(AttributeDictionary::code(&mut entries, &[b'a'; LEN_MAX + 1], b"content-type"), 0);
        let codes: Vec<_> = (0..300u32)
            .map(|at| AttributeDictionary::code(&mut entries, &at.to_le_bytes(), b"content-type"))
            .collect();
        assert_eq!((codes[0], codes[254], codes[255]), (1, 255, 0));
    }
}
