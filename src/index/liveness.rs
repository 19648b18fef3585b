//! How many bytes of each segment are still wanted.

use std::collections::{BTreeMap, HashMap};

use crate::format::{ExtentHeader, ExtentRef};

/// Bytes of extents (header, payload and block table) that versions and parts refer to, by segment. An extent that
/// several of them share counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Liveness {
    bytes: BTreeMap<u64, u64>,
    /// How many references each shared extent has, by segment and offset. An extent that belongs to one version alone needs
    /// no count, which keeps this empty for most stores.
    shared: HashMap<(u64, u64), u32>,
}

impl Liveness {
    /// The live bytes of every segment that has any.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bytes.iter().map(|(segment, bytes)| (*segment, *bytes))
    }

    /// The live bytes of one segment.
    pub fn of(&self, segment: u64) -> u64 {
        self.bytes.get(&segment).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            if extent.shared {
                let references = self.shared.entry((extent.segment, extent.offset)).or_default();
                *references += 1;
                if *references > 1 {
                    continue;
                }
            }
            *self.bytes.entry(extent.segment).or_default() += size_of(extent);
        }
    }

    pub(super) fn remove(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            if extent.shared && !self.release(extent) {
                continue;
            }
            let live = self.bytes.entry(extent.segment).or_default();
            *live = live.checked_sub(size_of(extent)).expect("what is removed had been added");
            if *live == 0 {
                self.bytes.remove(&extent.segment);
            }
        }
    }

    /// Whether that was the last reference.
    fn release(&mut self, extent: &ExtentRef) -> bool {
        let place = (extent.segment, extent.offset);
        let references = self.shared.get_mut(&place).expect("what is removed had been added");
        *references -= 1;
        let last = *references == 0;
        if last {
            self.shared.remove(&place);
        }
        last
    }
}

fn size_of(extent: &ExtentRef) -> u64 {
    let payload_len = u64::from(extent.payload_len);
    ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len)
}
