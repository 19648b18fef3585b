//! The limits of quotas as bars.

use crate::console::text;
use crate::service::QuotaLimit;

/// The limit of the index stands beside the others from that usage on, in percent: most quotas have
/// it by default, and nobody reaches it who stores files of usual sizes.
const INDEX_PERCENT_MIN: u64 = 80;

/// A limit and its usage.
pub(super) struct QuotaBar {
    pub(super) words: String,
    /// 100 at most.
    pub(super) used_percent: u64,
    /// Whether nothing more fits.
    pub(super) is_used_up: bool,
}

/// The bars of a quota that is called `title`, the fullest one first.
pub(super) fn bars(title: &str, limits: &[QuotaLimit]) -> Vec<QuotaBar> {
    let mut bars = Vec::with_capacity(limits.len());
    for QuotaLimit { limit, allowed, used, .. } in limits {
        let is_used_up = used >= allowed;
        let used_percent = if is_used_up { 100 } else { percent(*used, *allowed) };
        if *limit == "index_bytes" && used_percent < INDEX_PERCENT_MIN {
            continue;
        }
        let words = match *limit {
            "bytes" => format!("{title}: {} of {}", text::size(*used), text::size(*allowed)),
            "index_bytes" => {
                format!("{title}: {} of {} of the index", text::size(*used), text::size(*allowed))
            }
            unit => format!("{title}: {} of {} {unit}", text::count(*used), text::count(*allowed)),
        };
        bars.push(QuotaBar { words, used_percent, is_used_up });
    }
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.used_percent));
    bars
}

/// The part of a whole in percent, rounded down.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(limit: &'static str, used: u64, allowed: u64) -> QuotaLimit {
        QuotaLimit { of_owner: false, name: "b".to_owned(), limit, allowed, used }
    }

    #[test]
    fn the_fullest_limit_comes_first_and_the_index_when_it_is_nearly_full() {
        let limits = [
            limit("bytes", 1 << 30, 10 << 30),
            limit("objects", 999, 1000),
            limit("index_bytes", 79, 100),
            limit("uploads", 0, 0),
        ];
        let shown: Vec<_> = bars("Quota", &limits)
            .into_iter()
            .map(|bar| (bar.words, bar.used_percent, bar.is_used_up))
            .collect();
        let expected = [
            ("Quota: 0 of 0 uploads", 100, true),
            ("Quota: 999 of 1000 objects", 99, false),
            ("Quota: 1.0 GiB of 10.0 GiB", 10, false),
        ];
        assert_eq!(
            shown,
            expected.map(|(words, percent, is_used_up)| (words.to_owned(), percent, is_used_up))
        );
        let index = bars("Quota", &[limit("index_bytes", 80 << 20, 100 << 20)]);
        assert_eq!(index[0].words, "Quota: 80.0 MiB of 100.0 MiB of the index");
        // A quota that was lowered is below the usage.
        assert_eq!(bars("Quota", &[limit("bytes", u64::MAX, 1)])[0].used_percent, 100);
    }
}
