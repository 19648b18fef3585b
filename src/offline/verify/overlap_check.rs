//! The check for overlapping extents: all references, added up independently of the index and
//! compared with its live bytes.

use std::collections::BTreeMap;

use crate::format::{ExtentHeader, ExtentRef, segment_path};
use crate::index::Liveness;
use crate::log::Damage;

/// All referenced extents.
#[derive(Default)]
pub(super) struct OverlapCheck(Vec<ExtentSpan>);

/// Header, payload and block table of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ExtentSpan {
    segment: u64,
    offset: u64,
    len: u64,
    shared: bool,
}

impl OverlapCheck {
    pub(super) fn add(&mut self, extent: &ExtentRef) {
        let ExtentRef { segment, offset, shared, .. } = *extent;
        let payload_len = u64::from(extent.payload_len);
        let len = ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len);
        self.0.push(ExtentSpan { segment, offset, len, shared });
    }

    /// Reports extents with several owners that are not marked as shared, extents that overlap, and
    /// segments with another number of live bytes in the index.
    pub(super) fn finish(mut self, liveness: &Liveness) -> Vec<Damage> {
        self.0.sort_unstable();
        self.0.dedup_by(|again, place| place.shared && again == place);
        let mut damage: Vec<_> = self.0.windows(2).filter_map(|pair| conflict(pair[0], pair[1])).collect();
        let mut live: BTreeMap<u64, (u64, u64)> =
            liveness.iter().map(|(id, bytes)| (id, (bytes, 0))).collect();
        for place in &self.0 {
            live.entry(place.segment).or_default().1 += place.len;
        }
        for (id, (counted, found)) in live {
            if counted != found {
                let what = format!("{found} bytes of it are referenced, and {counted} are counted as live");
                damage.push(Damage::new(segment_path(id), 0, what));
            }
        }
        damage
    }
}

fn conflict(one: ExtentSpan, next: ExtentSpan) -> Option<Damage> {
    if one.segment != next.segment || one.offset + one.len <= next.offset {
        return None;
    }
    let what = match one.offset == next.offset && one.len == next.len {
        true => "several versions or parts refer to the extent, and not all references are marked as shared"
            .into(),
        false => format!("the extent overlaps the one at offset {}", next.offset),
    };
    Some(Damage::new(segment_path(one.segment), one.offset, what))
}
