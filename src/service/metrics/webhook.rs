//! The webhooks as metrics.

use super::Exposition;
use crate::webhook::TargetState;

/// Adds the figures of targets. Without targets there is no sample.
pub(in crate::service) fn webhooks(page: &mut Exposition, targets: &[TargetState]) {
    let mut each = page.of_each(targets, "target", |target| &target.name);
    let help = "Events that the target accepted.";
    each.family("webhook_delivered_total", "counter", help, |it| it.delivered);
    let help = "Requests that the target did not accept.";
    each.family("webhook_failed_requests_total", "counter", help, |it| it.failed);
    let help = "Events that the target refused for so long that they were dropped.";
    each.family("webhook_dropped_total", "counter", help, |it| it.dropped);
    let help = "The times that the target lost events, since the log was not kept for so long.";
    each.family("webhook_overruns_total", "counter", help, |it| it.overruns);
    let help = "The age of the oldest change whose events the target has not accepted.";
    each.family("webhook_lag_seconds", "gauge", help, |it| it.lag.as_secs());
    let help = "Groups of the log whose events the target has not accepted.";
    each.family("webhook_waiting_groups", "gauge", help, |it| it.waiting_groups);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_target_has_its_samples() {
        let state = TargetState {
            name: "thumbs".to_owned(),
            endpoint: "https://hooks.example".to_owned(),
            delivered: 5,
            failed: 4,
            dropped: 3,
            overruns: 2,
            lag: Duration::from_secs(61),
            waiting_groups: 7,
            error: None,
            failing_since: None,
            is_overrun: true,
        };
        let mut page = Exposition::default();
        webhooks(&mut page, &[state]);
        let text = String::from_utf8(page.finish()).unwrap();
        for line in [
            r#"siltstone_webhook_delivered_total{target="thumbs"} 5"#,
            r#"siltstone_webhook_failed_requests_total{target="thumbs"} 4"#,
            r#"siltstone_webhook_dropped_total{target="thumbs"} 3"#,
            r#"siltstone_webhook_overruns_total{target="thumbs"} 2"#,
            r#"siltstone_webhook_lag_seconds{target="thumbs"} 61"#,
            r#"siltstone_webhook_waiting_groups{target="thumbs"} 7"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing from\n{text}");
        }
    }
}
