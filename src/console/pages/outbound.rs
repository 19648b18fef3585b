//! Mirrors, webhooks and the remote, for administrators.

use askama::Template;

use super::super::s3_client::Refusal;
use super::super::shown_time::TimedText;
use super::super::text::{self, visible};
use super::state_tabs::StateTabs;
use super::user_refusal::refusal;
use super::{Page, View, html, see_other};
use crate::base::Timestamp;
use crate::s3::Response;
use crate::service::{
    BadFile, CopyFindings, MirrorRefusal, MirrorState, MirrorStatus, OccupiedBucket, OutboundStatus,
    RepairFigures, ShipFigures, TargetState, TierFigures,
};

/// Repaired segments that are shown, the latest ones.
const REPAIRED_SHOWN_MAX: usize = 10;

#[derive(Template)]
#[template(path = "outbound.html", config = "src/console/askama.toml")]
struct OutboundPage {
    page: Page,
    tabs: StateTabs,
    sections: Vec<OutboundSection>,
}

/// A target, or a use of the remote.
#[derive(Debug, PartialEq, Eq)]
struct OutboundSection {
    title: String,
    state: String,
    error: Option<TimedText>,
    rows: Vec<(&'static str, String)>,
    /// Those with a time, which come after the others.
    times: Vec<(&'static str, TimedText)>,
    /// Keys that a target refused.
    refused: Vec<TimedText>,
    /// Buckets that wait until a mirror starts over.
    occupied: Vec<String>,
    /// The name of the mirror that may start over.
    mirror: Option<String>,
}

/// The page.
///
/// # Errors
/// The user may not see the state.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let outbound = view.console.service.outbound(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let tabs = StateTabs::of(view, "outbound");
    let page = OutboundPage { page: view.page(), tabs, sections: sections(&outbound) };
    Ok(html(200, &page.page, &page))
}

/// Lets the mirror that the field `mirror` names start over.
///
/// # Errors
/// The user may not do so, or there is no such mirror.
pub(super) fn resync(view: &View<'_>) -> Result<Response, Refusal> {
    let name = view.required("mirror")?;
    if view.given("sure").is_none() {
        return Err(Refusal::new(400, "Tick the box to let the mirror start over."));
    }
    let service = &view.console.service;
    service.start_mirror_over(&view.visitor.identity, view.request, name).map_err(|error| refusal(&error))?;
    view.tell("The mirror starts over");
    Ok(see_other(&view.link("outbound", &[])))
}

fn sections(outbound: &OutboundStatus) -> Vec<OutboundSection> {
    let tier = outbound.tier.as_ref().map(|figures| of_tier(figures, &outbound.copies, &outbound.repairs));
    let ship = outbound.ship.as_ref().map(of_ship);
    let mirrors = outbound.mirrors.iter().map(of_mirror);
    mirrors.chain(outbound.webhooks.iter().map(of_webhook)).chain(tier).chain(ship).collect()
}

fn of_mirror(MirrorStatus { figures, follower }: &MirrorStatus) -> OutboundSection {
    let walks = follower.as_ref().is_some_and(|follower| follower.in_snapshot);
    let state = match figures.state {
        MirrorState::Running if walks => "compares every key",
        MirrorState::Running => "follows",
        MirrorState::Unreachable => "waits: the target does not answer",
        MirrorState::Paused => "pauses at this hour",
        MirrorState::Occupied => "waits: the target has objects that it did not send",
    };
    let lag = follower.as_ref().map_or_else(|| "unknown".to_owned(), |it| seconds(it.lag.as_secs()));
    let mut rows = vec![
        ("Target", visible(&figures.target).into_owned()),
        ("Lag", lag),
        ("Keys to send", figures.due_keys.to_string()),
        ("Keys that failed, and are tried again", figures.failing_keys.to_string()),
        ("Keys that the target refused", figures.refused_keys.to_string()),
        ("Buckets that wait for a new start", figures.occupied.len().to_string()),
        ("Sent since the start", format!("{} objects, {}", figures.objects, text::size(figures.bytes))),
        ("Removed at the target since the start", figures.removed.to_string()),
    ];
    rows.extend(follower.as_ref().map(|it| ("Times that it lost its place", it.starts_over.to_string())));
    let error = figures.last_error.as_ref();
    let error = error.map(|(time, why)| TimedText::new("", *time, format!(": {}", visible(why))));
    // An error that no key has any more is one of the past.
    let fails = figures.failing_keys > 0;
    let past_error = error.as_ref().filter(|_| !fails).map(|error| ("Last error", error.clone()));
    OutboundSection {
        title: format!("Mirror {}", figures.name),
        state: state.to_owned(),
        error: error.filter(|_| fails),
        rows,
        times: past_error.into_iter().collect(),
        refused: figures.refused.iter().map(refusal_line).collect(),
        occupied: figures.occupied.iter().map(occupied_line).collect(),
        mirror: Some(figures.name.clone()),
    }
}

fn occupied_line(occupied: &OccupiedBucket) -> String {
    let OccupiedBucket { bucket, target_bucket, target_prefix } = occupied;
    format!(
        "{bucket} waits: {target_bucket}/{} has objects that the mirror did not send",
        visible(target_prefix)
    )
}

fn refusal_line(refusal: &MirrorRefusal) -> TimedText {
    let MirrorRefusal { bucket, key, time, reason } = refusal;
    TimedText::new(format!("{bucket}/{}: ", visible(key)), *time, format!(", {}", visible(reason)))
}

fn of_webhook(target: &TargetState) -> OutboundSection {
    let state = match (&target.error, target.is_overrun) {
        (_, true) => "loses events",
        (Some(_), false) => "fails",
        (None, false) => "accepts",
    };
    let error = target.error.as_ref().map(|why| match target.failing_since {
        Some(since) => TimedText::new("Failing since ", since, format!(": {}", visible(why))),
        None => format!("Failing: {}", visible(why)).into(),
    });
    OutboundSection {
        title: format!("Webhook {}", target.name),
        state: state.to_owned(),
        error,
        rows: vec![
            ("Server", visible(&target.endpoint).into_owned()),
            ("Lag", seconds(target.lag.as_secs())),
            ("Commits to deliver", target.waiting_groups.to_string()),
            ("Events accepted since the start", target.delivered.to_string()),
            ("Requests that failed", target.failed.to_string()),
            ("Events that it refused, and that were dropped", target.dropped.to_string()),
            ("Times that it lost events", target.overruns.to_string()),
        ],
        times: Vec::new(),
        refused: Vec::new(),
        occupied: Vec::new(),
        mirror: None,
    }
}

fn of_tier(figures: &TierFigures, copies: &CopyFindings, repairs: &RepairFigures) -> OutboundSection {
    let lost = copies.lost.len();
    let error = (lost > 0).then(|| {
        format!("{lost} copies there are gone or changed, and their bytes are not all on this disk")
    });
    let refused = figures.refusal.map(|why| format!("Nothing is changed there: {why}."));
    let mut section = OutboundSection {
        title: "Objects on the remote".to_owned(),
        state: format!("{} segments", figures.remote_segments),
        error: refused.or(error).map(TimedText::from),
        rows: vec![
            ("Epoch", figures.epoch.to_string()),
            ("Bytes on the remote", text::size(figures.remote_bytes)),
            ("Of these also on this disk", text::size(figures.cached_bytes)),
            ("Bytes on this disk alone", text::size(figures.pinned_bytes)),
            ("Segments not yet sent", figures.waiting_segments.to_string()),
            ("Segments to be deleted there", figures.dropped_segments.to_string()),
            ("Sent since the start", text::size(figures.sent_bytes)),
            ("Sent again, since they were gone there", copies.resent.to_string()),
            (
                "Read from the remote since the start",
                format!("{}, in {} reads", text::size(figures.fetched_bytes), figures.fetches),
            ),
            ("Reads of bad bytes on this disk, served from the remote", repairs.served_reads.to_string()),
        ],
        times: Vec::new(),
        refused: Vec::new(),
        occupied: Vec::new(),
        mirror: None,
    };
    section
        .times
        .extend(repairs.waiting.iter().map(|bad| ("Bad on this disk, to be repaired", bad_line(bad))));
    let latest = repairs.repaired.iter().rev().take(REPAIRED_SHOWN_MAX);
    section.times.extend(latest.map(|bad| ("Was bad on this disk, and repaired", bad_line(bad))));
    section
}

fn bad_line(bad: &BadFile) -> TimedText {
    let place = format!("{}, offset {}, found ", bad.file, bad.offset);
    TimedText::new(place, bad.found, format!(": {}", bad.what))
}

fn of_ship(figures: &ShipFigures) -> OutboundSection {
    let state = match (figures.epoch, figures.waiting_groups) {
        (0, _) => "has not begun",
        (_, 0) => "is complete",
        _ => "lags",
    };
    OutboundSection {
        title: "Log on the remote".to_owned(),
        state: state.to_owned(),
        error: None,
        rows: vec![
            ("Epoch", figures.epoch.to_string()),
            ("Commits not yet sent", figures.waiting_groups.to_string()),
            ("Lag", seconds(figures.lag.as_secs())),
            (
                "Sent since the start",
                format!("{}, {} pieces", text::size(figures.sent_bytes), figures.parcels),
            ),
            (
                "Deleted there since the start",
                format!("{} objects, {}", figures.deleted_objects, text::size(figures.deleted_bytes)),
            ),
        ],
        times: vec![
            ("Last checkpoint sent", time_or(figures.last_root, "none in this epoch")),
            ("A restore reaches back to", time_or(figures.oldest, "not known yet")),
        ],
        refused: Vec::new(),
        occupied: Vec::new(),
        mirror: None,
    }
}

fn time_or(time: Option<Timestamp>, none: &str) -> TimedText {
    time.map_or_else(|| none.into(), TimedText::moment)
}

fn seconds(seconds: u64) -> String {
    format!("{seconds} s")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_remote_is_shown_with_its_figures() {
        let tier =
            TierFigures { remote_segments: 3, remote_bytes: 5 << 20, fetches: 7, ..TierFigures::default() };
        let none = RepairFigures::default();
        let shown = of_tier(&tier, &CopyFindings::default(), &none);
        assert_eq!((shown.state.as_str(), shown.rows[1].1.as_str()), ("3 segments", "5.0 MiB"));
        assert_eq!(shown.error, None);
        assert!(shown.rows.iter().any(|(_, value)| value.ends_with("in 7 reads")), "{shown:?}");
        let copies = CopyFindings {
            lost: vec![("segment/1".to_owned(), "gone".to_owned())],
            ..CopyFindings::default()
        };
        let bad = BadFile {
            file: "data/7.segment".to_owned(),
            offset: 64,
            what: "the block is bad".to_owned(),
            found: Timestamp::from_millis(0),
            repaired: None,
        };
        let repairs = RepairFigures { waiting: vec![bad], ..none.clone() };
        let listed = of_tier(&tier, &CopyFindings::default(), &repairs);
        let [(name, line)] = &*listed.times else { panic!("{listed:?}") };
        assert!(name.starts_with("Bad on this disk") && line.to_string().contains("offset 64"), "{line:?}");
        assert!(
            of_tier(&tier, &copies, &none)
                .error
                .is_some_and(|error| error.to_string().starts_with("1 copies"))
        );
        let late = ShipFigures {
            epoch: 2,
            waiting_groups: 9,
            lag: Duration::from_secs(61),
            ..ShipFigures::default()
        };
        for (figures, state) in [
            (ShipFigures::default(), "has not begun"),
            (ShipFigures { epoch: 2, ..ShipFigures::default() }, "is complete"),
            (late, "lags"),
        ] {
            assert_eq!(of_ship(&figures).state, state);
        }
        let section = of_ship(&late);
        assert_eq!(
            section.rows[..3].iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
            ["2", "9", "61 s"]
        );
        assert_eq!(section.times[1].1, "not known yet".into());
    }
}
