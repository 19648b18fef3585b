//! The rules of object lock (Amazon S3 User Guide, "Locking objects with Object Lock").

use crate::format::{ObjectControls, Retention, RetentionMode};
use crate::store::shared::lock_clock::LockTimes;

/// Whether a version with these controls must stay.
pub(in crate::store) fn is_locked(
    controls: &ObjectControls,
    times: LockTimes,
    bypass_governance: bool,
) -> bool {
    controls.is_held()
        || controls.retention.is_some_and(|it| holds(it, times) && !may_end(it, bypass_governance))
}

/// Whether the retention `current` may be replaced. Every active retention may be extended; one in
/// governance mode may be changed at will by those who may bypass it.
pub(in crate::store) fn may_change(
    current: Option<Retention>,
    new: Option<Retention>,
    times: LockTimes,
    bypass_governance: bool,
) -> bool {
    let Some(current) = current.filter(|current| holds(*current, times)) else { return true };
    let extends = new.is_some_and(|new| new.mode == current.mode && new.until >= current.until);
    extends || may_end(current, bypass_governance)
}

fn holds(retention: Retention, times: LockTimes) -> bool {
    retention.until > times.of(retention.mode)
}

fn may_end(retention: Retention, bypass_governance: bool) -> bool {
    bypass_governance && retention.mode == RetentionMode::Governance
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;

    fn now() -> LockTimes {
        let now = Timestamp::from_millis(1_000);
        LockTimes { governance: now, compliance: now }
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
    fn each_mode_goes_by_its_own_time() {
        use RetentionMode::{Compliance, Governance};
        let governance = Timestamp::from_millis(3_000);
        let times = LockTimes { governance, compliance: Timestamp::from_millis(1_000) };
        for (mode, locked) in [(Compliance, true), (Governance, false)] {
            let retention = retention(mode, 2_000);
            let controls = ObjectControls { retention, ..ObjectControls::default() };
            assert_eq!(is_locked(&controls, times, false), locked);
            assert_eq!(may_change(retention, None, times, false), !locked);
        }
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
