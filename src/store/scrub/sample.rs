//! Samples of the bytes on a remote. Every byte from there is paid for, so a pass reads few extents
//! of remote segments. Which ones depends on the start of the pass.

use std::io;

use crate::base::Timestamp;
use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, SCRUB_EVERY_SECS, SCRUB_REMOTE_SECS};
use crate::format::{ExtentHeader, StoreId, segment_path};
use crate::log::Damage;
use crate::store::sweep::batch::LiveExtent;
use crate::store::sweep::is_payload_good;
use crate::store::tier::Tier;

/// The result of a look at the remote.
pub(super) enum CopyCheck {
    Good,
    Bad(Damage),
    /// The remote does not answer.
    Unknown,
}

/// Whether an extent is in the sample of the pass that was started at `begun`, of `percent` percent
/// a month.
pub(super) fn is_sampled(extent: &LiveExtent, begun: Timestamp, percent: u64) -> bool {
    let mut mark = Crc32::with_seed(0);
    for number in [begun.as_millis(), extent.segment, extent.offset] {
        mark.update(&number.to_le_bytes());
    }
    let bound = (1 << 32) * u128::from(percent * SCRUB_EVERY_SECS) / u128::from(100 * SCRUB_REMOTE_SECS);
    u128::from(mark.value()) < bound
}

/// Reads an extent from the remote, twice where it is bad. It takes memory for the whole extent.
pub(super) fn check_copy(tier: &Tier, store: &StoreId, extent: &LiveExtent) -> CopyCheck {
    match check_once(tier, store, extent) {
        // A bit that flipped on the way is no damage of the copy.
        CopyCheck::Bad(_) => check_once(tier, store, extent),
        checked => checked,
    }
}

fn check_once(tier: &Tier, store: &StoreId, extent: &LiveExtent) -> CopyCheck {
    match tier.read_copy(extent.segment, extent.offset..extent.offset + extent.len()) {
        Ok(bytes) if is_good(store, extent, &bytes) => CopyCheck::Good,
        Ok(_) => bad_copy(extent, "the extent is damaged in the copy on the remote"),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => bad_copy(extent, &error.to_string()),
        Err(_) => CopyCheck::Unknown,
    }
}

fn bad_copy(extent: &LiveExtent, why: &str) -> CopyCheck {
    CopyCheck::Bad(Damage::new(segment_path(extent.segment), extent.offset, why))
}

/// Whether the header, the payload and the block table match the extent.
fn is_good(store: &StoreId, extent: &LiveExtent, bytes: &[u8]) -> bool {
    let (header, body) = bytes.split_at(ExtentHeader::BYTES);
    let (payload, table) = body.split_at(extent.payload_len as usize);
    let crcs: Vec<u32> = payload.chunks(BLOCK_BYTES as usize).map(Crc32::of).collect();
    extent.header(store, header).is_some() && is_payload_good(extent, &crcs, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_samples_its_share_and_other_extents_than_the_last_one() {
        let extent = |at: u64| LiveExtent {
            segment: at / 1000,
            offset: at % 1000 * 4096,
            payload_len: 0,
            check: 0,
            owner: 1,
        };
        let sample = |week: u64, percent: u64| -> Vec<u64> {
            let begun = Timestamp::from_millis(1_700_000_000_000 + week * SCRUB_EVERY_SECS * 1000);
            (0..100_000).filter(|at| is_sampled(&extent(*at), begun, percent)).collect()
        };
        // 233 of 100,000 extents a week are one percent in 30 days.
        let weeks: Vec<Vec<u64>> = (0..8).map(|week| sample(week, 1)).collect();
        assert!(weeks.iter().all(|sampled| (150..320).contains(&sampled.len())), "{:?}", weeks[0].len());
        let again = weeks[1].iter().filter(|at| weeks[0].contains(at)).count();
        assert!(again < 50, "{again} are read again");
        assert!(sample(0, 0).is_empty());
    }
}
