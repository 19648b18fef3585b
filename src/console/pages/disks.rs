//! The disks of the store, as a part of the page of the state.

use super::super::shown_time::ShownTime;
use super::super::text;
use super::View;
use super::quota_bar;
use crate::service::{DiskDirectory, DiskRole, Health, MirrorSide, MirrorSides};

/// The part of the page.
pub(super) struct DiskTable {
    pub(super) rows: Vec<DiskRow>,
    /// What was repaired on a mirror; empty without one.
    pub(super) repaired: String,
    /// The directories of a mirror with a side that is out, as an option names them; empty otherwise.
    pub(super) to_replace: String,
}

/// A directory of the store.
pub(super) struct DiskRow {
    pub(super) role: String,
    pub(super) dir: String,
    pub(super) file_system: String,
    pub(super) space: Option<SpaceShown>,
    pub(super) state: DiskState,
    /// The beginning of the state, where it is known.
    pub(super) since: Option<ShownTime>,
}

/// Space of a file system.
pub(super) struct SpaceShown {
    pub(super) used_percent: u64,
    pub(super) free: String,
    pub(super) total: String,
}

/// The state of a directory, in words.
pub(super) struct DiskState {
    pub(super) words: String,
    /// The class of the words: none, `warned` or `serious`.
    pub(super) class: &'static str,
}

impl DiskState {
    fn good(words: &str) -> Self {
        Self { words: words.to_owned(), class: "" }
    }

    fn warned(words: String) -> Self {
        Self { words, class: "warned" }
    }

    fn serious(words: String) -> Self {
        Self { words, class: "serious" }
    }
}

/// The disks, if the user may see them.
pub(super) fn of(view: &View<'_>, health: &Health) -> Option<DiskTable> {
    let service = &view.console.service;
    let directories = service.directories(&view.visitor.identity).ok()?;
    let mirror = service.mirror_sides();
    let has_shadow = service.fast_disk().is_none_or(|fast| !fast.is_shadow_given_up);
    let rows = directories.iter().map(|directory| {
        let side = mirror.as_ref().and_then(|mirror| side_of(mirror, directory.role));
        let state = match (&mirror, side) {
            (Some(mirror), Some(side)) => state_of_side(mirror, side),
            _ => state_of(health, directory.role, has_shadow),
        };
        row(directory, side, state)
    });
    let rows: Vec<_> = rows.collect();
    let out = mirror.as_ref().filter(|mirror| mirror.sides.iter().any(|side| side.state == "out"));
    Some(DiskTable {
        rows,
        repaired: mirror.as_ref().map(repaired).unwrap_or_default(),
        to_replace: out
            .map(|mirror| format!("{}={}", mirror.sides[0].dir, mirror.sides[1].dir))
            .unwrap_or_default(),
    })
}

fn side_of(mirror: &MirrorSides, role: DiskRole) -> Option<&MirrorSide> {
    mirror.sides.iter().find(|side| role == DiskRole::Side(side.letter))
}

fn row(directory: &DiskDirectory, side: Option<&MirrorSide>, state: DiskState) -> DiskRow {
    DiskRow {
        role: match directory.role {
            DiskRole::Data => "Data".to_owned(),
            DiskRole::Fast => "Fast".to_owned(),
            DiskRole::Side(letter) => format!("Side {letter}"),
        },
        dir: text::visible(&directory.dir).into_owned(),
        file_system: text::visible(&directory.file_system).into_owned(),
        space: directory.space.map(|(free, total)| SpaceShown {
            used_percent: quota_bar::percent(total.saturating_sub(free), total),
            free: text::size(free),
            total: text::size(total),
        }),
        state,
        since: side.map(|side| ShownTime::of_day(&side.since.to_iso8601())),
    }
}

/// The state of a directory of a store without a mirror.
fn state_of(health: &Health, role: DiskRole, has_shadow: bool) -> DiskState {
    if let Some(reason) = health.read_only_reason {
        return DiskState::serious(format!("Takes no writes: {reason}"));
    }
    if role == DiskRole::Fast && !has_shadow {
        return DiskState::warned("In use; its log has no shadow for the next minutes".to_owned());
    }
    DiskState::good("In use")
}

fn state_of_side(mirror: &MirrorSides, side: &MirrorSide) -> DiskState {
    match (side.state, mirror.filled_percent()) {
        ("whole", _) => DiskState::good("Has all bytes"),
        ("filling", Some(percent)) => DiskState::warned(format!(
            "Is being filled: {percent} %, {} are left",
            text::size(mirror.left_bytes)
        )),
        ("filling", None) => DiskState::warned("Is being filled".to_owned()),
        _ => DiskState::serious(format!("Not in the mirror: {}", text::visible(&side.why))),
    }
}

/// What was repaired, in words.
fn repaired(mirror: &MirrorSides) -> String {
    let files = match mirror.repaired_files {
        0 => "No file of one side was repaired with the bytes of the other since the start".to_owned(),
        1 => "1 file of one side was repaired with the bytes of the other since the start".to_owned(),
        count => {
            format!(
                "{} files of one side were repaired with the bytes of the other since the start",
                text::count(count)
            )
        }
    };
    match mirror.waiting_files {
        0 => format!("{files}."),
        1 => format!("{files}; 1 with bad bytes waits."),
        count => format!("{files}; {} with bad bytes wait.", text::count(count)),
    }
}
