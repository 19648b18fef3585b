//! The state of the server at a glance, for administrators: what needs them, the disk, and lines of
//! the last hour, day or month.

use super::super::shown_time::ShownTime;
use super::super::text;
use super::View;
use super::chart::{self, Chart};
use super::quota_bar;
use crate::auth::Action;
use crate::service::{Concern, ConcernKind, HistoryRange};

const DAY_SECS: u64 = 24 * 60 * 60;
const MINUTE_MILLIS: u64 = 60_000;

const RANGES: [OfferedRange; 3] = [
    OfferedRange { name: "hour", label: "1 h", range: HistoryRange::Hour },
    OfferedRange { name: "day", label: "24 h", range: HistoryRange::Day },
    OfferedRange { name: "month", label: "30 d", range: HistoryRange::Month },
];

/// A part of the history that the page offers.
struct OfferedRange {
    /// The value of the parameter.
    name: &'static str,
    label: &'static str,
    range: HistoryRange,
}

/// The part of the page.
pub(super) struct Overview {
    /// How many concerns there are, in words; empty for none.
    pub(super) summary: String,
    pub(super) is_serious: bool,
    pub(super) concerns: Vec<ConcernRow>,
    pub(super) disk: Option<DiskSpace>,
    pub(super) ranges: Vec<RangeLink>,
    pub(super) charts: Vec<Chart>,
}

/// A concern on the page.
pub(super) struct ConcernRow {
    pub(super) words: String,
    pub(super) link: String,
    pub(super) since: ShownTime,
}

/// The space of the file system with the data.
pub(super) struct DiskSpace {
    pub(super) used_percent: u64,
    pub(super) free: String,
    pub(super) total: String,
    /// When it will be full, in words; empty where that is not known, or far away.
    pub(super) full: String,
}

/// A link to the page with another range.
pub(super) struct RangeLink {
    pub(super) label: &'static str,
    pub(super) link: String,
    pub(super) is_shown: bool,
}

/// The overview, if the user may see the state of the server.
pub(super) fn of(view: &View<'_>) -> Option<Overview> {
    let identity = &view.visitor.identity;
    if !identity.may_administer(Action::AdminGetState) {
        return None;
    }
    let service = &view.console.service;
    let concerns = service.concerns(identity).ok()?;
    let asked = view.given("range");
    let shown = RANGES.iter().find(|range| Some(range.name) == asked).unwrap_or(&RANGES[0]);
    let samples = service.samples(identity, shown.range).ok()?;
    let end = view.console.clock.now().as_millis() / MINUTE_MILLIS;
    let mut ranges = Vec::with_capacity(RANGES.len());
    for range in &RANGES {
        let link = view.link("", &[("range", Some(range.name))]);
        ranges.push(RangeLink { label: range.label, link, is_shown: range.name == shown.name });
    }
    Some(Overview {
        summary: match concerns.len() {
            0 => String::new(),
            1 => "1 thing needs you".to_owned(),
            count => format!("{count} things need you"),
        },
        is_serious: concerns.iter().any(|concern| concern.kind.is_serious()),
        concerns: concerns.iter().map(|concern| row(view, concern)).collect(),
        disk: disk(view),
        ranges,
        charts: chart::charts(&samples, shown.range, end),
    })
}

fn row(view: &View<'_>, concern: &Concern) -> ConcernRow {
    let page = match concern.kind {
        ConcernKind::MirrorUnreachable(_)
        | ConcernKind::MirrorOccupied(_)
        | ConcernKind::WebhookFails(_)
        | ConcernKind::RemoteBehind => "outbound",
        _ => "state",
    };
    ConcernRow {
        words: words(view, &concern.kind),
        link: view.link(page, &[]),
        since: ShownTime::age(&concern.since.to_iso8601()),
    }
}

fn words(view: &View<'_>, kind: &ConcernKind) -> String {
    match kind {
        ConcernKind::ReadOnly(reason) => format!("No write succeeds: {reason}"),
        ConcernKind::DiskFull => {
            "Puts are refused, since the disk is full. Delete objects, or make the disk larger.".to_owned()
        }
        ConcernKind::IndexFull => {
            "Puts are refused, since the index is full. Delete objects, or raise --index-max.".to_owned()
        }
        ConcernKind::StoppedThread(name) => format!("The thread {name} panicked. Restart the server."),
        ConcernKind::Damage(1) => "1 extent of an object is damaged".to_owned(),
        ConcernKind::Damage(count) => format!("{count} extents of objects are damaged"),
        ConcernKind::MissingKeys => "Keys of encrypted objects are missing".to_owned(),
        ConcernKind::ClockInDoubt => {
            "The clock of the server jumped ahead, so that nothing expires".to_owned()
        }
        ConcernKind::CertificateEnds(end) => {
            let now = view.console.clock.now();
            match *end > now {
                true => {
                    format!("The certificate ends in {}", text::days(end.distance(now).as_secs() / DAY_SECS))
                }
                false => "The certificate has expired".to_owned(),
            }
        }
        ConcernKind::SideOut(side, why) => format!(
            "Side {side} is not in the mirror: {why}. See to its disk, then restart the server, which fills it"
        ),
        ConcernKind::DiskFills => "The disk will be full within a week".to_owned(),
        ConcernKind::RemoteBehind => "The remote lacks the last writes".to_owned(),
        ConcernKind::MirrorUnreachable(name) => format!("The mirror {name} cannot reach its target"),
        ConcernKind::MirrorOccupied(name) => format!("The mirror {name} waits until it starts over"),
        ConcernKind::WebhookFails(name) => format!("The webhook {name} does not accept"),
        ConcernKind::BucketLogsFail(1) => "The access log of a bucket cannot be delivered".to_owned(),
        ConcernKind::BucketLogsFail(count) => {
            format!("The access logs of {count} buckets cannot be delivered")
        }
    }
}

/// The space of the disk, if it reports it.
fn disk(view: &View<'_>) -> Option<DiskSpace> {
    let service = &view.console.service;
    let (free, total) = service.health().disk?;
    let full = service.disk_full_in().map(|left| match left.as_secs() / DAY_SECS {
        0 => "full within a day".to_owned(),
        1 => "full in about a day".to_owned(),
        days => format!("full in about {days} days"),
    });
    Some(DiskSpace {
        used_percent: quota_bar::percent(total.saturating_sub(free), total),
        free: text::size(free),
        total: text::size(total),
        full: full.unwrap_or_default(),
    })
}
