//! Log lines about failed signatures, a sign of guessed or wrong keys.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::NOT_POISONED;
use crate::base::limits::CREDENTIAL_LEN_MAX_BYTES;
use crate::s3::{ErrorCode, S3Error};

/// The target of the lines, for filters.
const TARGET: &str = "auth";
/// The least time between two lines about one address.
const INTERVAL: Duration = Duration::from_secs(1);
/// The number of addresses that are remembered. Further addresses that fail within the interval are
/// not logged.
const ADDRESSES_MAX: usize = 1024;

/// The recent log lines by address, so that many failed requests do not flood the log.
#[derive(Debug, Default)]
pub(super) struct FailedSignatures {
    recent: Mutex<HashMap<Option<IpAddr>, RecentFailures>>,
}

#[derive(Debug)]
struct RecentFailures {
    logged: Instant,
    /// Failures since then.
    passed_over: u64,
}

impl FailedSignatures {
    /// Logs `error` of a request from `peer`, if it is about a signature and the last line about
    /// the address is long enough ago.
    pub(super) fn log(&self, error: &S3Error, id: &str, peer: Option<IpAddr>, now: Instant) {
        if !matches!(error.code, ErrorCode::InvalidAccessKeyId | ErrorCode::SignatureDoesNotMatch) {
            return;
        }
        let Some(passed_over) = self.admit(peer, now) else { return };
        let claimed = error.elements.iter().find(|(name, _)| *name == "AWSAccessKeyId");
        let claimed = printable(claimed.map_or("", |(_, key)| key));
        let peer = peer.map_or_else(|| "-".to_owned(), |ip| ip.to_canonical().to_string());
        let before = if passed_over > 0 {
            format!(" ({passed_over} before it were passed over)")
        } else {
            String::new()
        };
        log::warn!(target: TARGET, "{id} {peer} {}: the claimed access key is {claimed}{before}", error.code.as_str());
    }

    /// The number of failures of `peer` since its last line, if another line may be written now.
    fn admit(&self, peer: Option<IpAddr>, now: Instant) -> Option<u64> {
        let mut recent = self.recent.lock().expect(NOT_POISONED);
        if let Some(last) = recent.get_mut(&peer) {
            if now.duration_since(last.logged) < INTERVAL {
                last.passed_over += 1;
                return None;
            }
            last.logged = now;
            return Some(std::mem::take(&mut last.passed_over));
        }
        // A client may use any number of addresses, so this list and the log are bounded.
        if recent.len() >= ADDRESSES_MAX {
            recent.retain(|_, last| now.duration_since(last.logged) < INTERVAL);
        }
        if recent.len() >= ADDRESSES_MAX {
            return None;
        }
        recent.insert(peer, RecentFailures { logged: now, passed_over: 0 });
        Some(0)
    }
}

/// Text from a client, quoted, with escaped control characters, and no longer than a key.
fn printable(claimed: &str) -> String {
    let start: String = claimed.chars().take(CREDENTIAL_LEN_MAX_BYTES).collect();
    let rest = if start.len() < claimed.len() { "..." } else { "" };
    format!("{start:?}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> Option<IpAddr> {
        Some(std::net::Ipv4Addr::from(n).into())
    }

    #[test]
    fn an_address_has_one_line_a_second_which_counts_the_others() {
        let failed = FailedSignatures::default();
        let begun = Instant::now();
        let at = |millis: u64| begun + Duration::from_millis(millis);
        assert_eq!(failed.admit(address(1), at(0)), Some(0));
        assert_eq!(failed.admit(address(1), at(1)), None);
        assert_eq!(failed.admit(address(2), at(1)), Some(0), "another address");
        assert_eq!(failed.admit(address(1), at(999)), None);
        assert_eq!(failed.admit(address(1), at(1000)), Some(2));
        assert_eq!(failed.admit(address(1), at(2000)), Some(0));
    }

    #[test]
    fn many_addresses_take_up_no_more_than_some_and_those_that_come_later_are_heard_again() {
        let failed = FailedSignatures::default();
        let now = Instant::now();
        let logged = (0..10_000).filter(|&n| failed.admit(address(n), now).is_some()).count();
        assert_eq!((logged, failed.recent.lock().unwrap().len()), (ADDRESSES_MAX, ADDRESSES_MAX));
        assert_eq!(failed.admit(address(20_000), now + INTERVAL), Some(0));
        assert_eq!(failed.recent.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_claimed_key_is_one_short_word_whatever_is_in_it() {
        assert_eq!(printable("AKIA\n2026 ERROR \"\u{1b}[31m"), r#""AKIA\n2026 ERROR \"\u{1b}[31m""#);
        let long = printable(&"é".repeat(10_000));
        assert_eq!((long.ends_with("\"..."), long.chars().count()), (true, CREDENTIAL_LEN_MAX_BYTES + 5));
        assert_eq!(printable(""), "\"\"");
    }
}
