//! The rules of object lock (Amazon S3 User Guide, "Locking objects with Object Lock").

use std::time::Duration;

use crate::base::Timestamp;
use crate::format::{ObjectControls, Retention, RetentionMode};
use crate::index::Index;

/// The time by which retentions begin and end: that of the clock or of the newest stamp, whichever is later. A clock that is set
/// back frees nothing.
pub(super) fn lock_time(now: Timestamp, index: &Index) -> Timestamp {
    now.max(Timestamp::from_millis(index.last_stamp() / 1000))
}

/// How far the clock is behind the newest stamp.
pub(super) fn clock_behind(now: Timestamp, index: &Index) -> Duration {
    lock_time(now, index).distance(now)
}

/// Whether a version with these controls must stay.
pub(super) fn is_locked(controls: &ObjectControls, now: Timestamp, bypass_governance: bool) -> bool {
    controls.is_held()
        || controls.retention.is_some_and(|it| holds(it, now) && !may_end(it, bypass_governance))
}

/// Whether the retention `current` may be replaced. Every active retention may be extended; one in governance mode may be
/// changed at will by those who may bypass it.
pub(super) fn may_change(
    current: Option<Retention>,
    new: Option<Retention>,
    now: Timestamp,
    bypass_governance: bool,
) -> bool {
    let Some(current) = current.filter(|current| holds(*current, now)) else { return true };
    let extends = new.is_some_and(|new| new.mode == current.mode && new.until >= current.until);
    extends || may_end(current, bypass_governance)
}

fn holds(retention: Retention, now: Timestamp) -> bool {
    retention.until > now
}

fn may_end(retention: Retention, bypass_governance: bool) -> bool {
    bypass_governance && retention.mode == RetentionMode::Governance
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_millis(1_000)
    }

    fn retention(mode: RetentionMode, until: u64) -> Option<Retention> {
        Some(Retention { mode, until: Timestamp::from_millis(until) })
    }

    #[test]
    fn a_retention_locks_until_its_end_and_governance_may_be_bypassed() {
        use RetentionMode::{Compliance, Governance};
        let locked = |retention, bypass| {
            is_locked(&ObjectControls { retention, ..ObjectControls::default() }, now(), bypass)
        };
        assert!(!locked(None, false));
        for mode in [Compliance, Governance] {
            assert!(locked(retention(mode, 1_001), false));
            assert!(!locked(retention(mode, 1_000), false));
        }
        assert!(locked(retention(Compliance, 1_001), true) && !locked(retention(Governance, 1_001), true));
        let held = ObjectControls { legal_hold: Some(true), ..ObjectControls::default() };
        assert!(is_locked(&held, now(), true));
    }

    #[test]
    fn nobody_shortens_compliance_and_only_a_bypass_shortens_governance() {
        use RetentionMode::{Compliance, Governance};
        for current in [Compliance, Governance] {
            let may = |new, bypass| may_change(retention(current, 2_000), new, now(), bypass);
            let bypasses = current == Governance;
            let other = if bypasses { Compliance } else { Governance };
            for bypass in [false, true] {
                assert!(may(retention(current, 2_000), bypass) && may(retention(current, 2_001), bypass));
            }
            for new in [None, retention(current, 1_999), retention(other, 2_000), retention(other, 9_000)] {
                assert!(!may(new, false), "{current:?} {new:?}");
                assert_eq!(may(new, true), bypasses, "{current:?} {new:?}");
            }
            assert!(may_change(retention(current, 1_000), None, now(), false), "it has ended");
        }
        assert!(may_change(None, retention(Compliance, 5), now(), false));
    }
}
