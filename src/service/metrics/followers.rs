//! The metrics of the followers of the log.

use super::Exposition;
use crate::ops::FollowerFigures;

/// Adds the state of the followers of the log.
pub(in crate::service) fn followers(page: &mut Exposition, figures: &[FollowerFigures]) {
    let mut each = page.of_each(figures, "follower", |follower| &follower.name);
    let help = "Age of the oldest change that the follower has not handled, or more.";
    each.family("follower_lag_seconds", "gauge", help, |follower| follower.lag.as_secs());
    let help = "Groups of the log that the follower has not handled.";
    each.family("follower_waiting_groups", "gauge", help, |follower| follower.waiting_groups);
    let help = "Whether the follower walks over everything that there is: 1 or 0.";
    each.family("follower_in_snapshot", "gauge", help, |follower| follower.in_snapshot.into());
    let help = "Times that the follower started over, since the log was not kept for so long.";
    each.family("follower_starts_over_total", "counter", help, |follower| follower.starts_over);
    let help = "Whether the log that the follower needs next is gone: 1 or 0.";
    each.family("follower_overrun", "gauge", help, |follower| follower.is_overrun.into());
}
