//! The metrics of a store on two disks with the same bytes.

use super::Exposition;
use crate::base::Timestamp;

/// A directory of a mirrored store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorSide {
    /// Its letter in `--mirror A=B`.
    pub letter: char,
    /// Its path.
    pub dir: String,
    /// A word of [`MirrorSides::STATES`].
    pub state: &'static str,
    /// The beginning of that state.
    pub since: Timestamp,
    /// The reason why it is not used; empty where it is.
    pub why: String,
}

/// Both directories of a mirrored store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorSides {
    /// The directories.
    pub sides: [MirrorSide; 2],
    /// Bytes that the one that is filled still lacks.
    pub left_bytes: u64,
    /// Those of all that is copied to it; 0 until that is known.
    pub fill_bytes: u64,
    /// Files of one that were written anew with the bytes of the other.
    pub repaired_files: u64,
    /// Files with bad bytes that are not yet written anew.
    pub waiting_files: u64,
}

impl MirrorSides {
    /// The states of a directory: it has all bytes; it gets them; it is not used.
    pub const STATES: [&'static str; 3] = ["whole", "filling", "out"];

    /// Whether one of them has not all bytes.
    pub fn is_degraded(&self) -> bool {
        self.sides.iter().any(|side| side.state != "whole")
    }

    /// The part of the filling that is done; `None` until that is known.
    pub fn filled_percent(&self) -> Option<u64> {
        let left = self.left_bytes.min(self.fill_bytes);
        ((self.fill_bytes - left) * 100).checked_div(self.fill_bytes)
    }
}

/// Adds the state of both sides; without samples of them where a store has one directory.
pub(in crate::service) fn sides(page: &mut Exposition, figures: Option<&MirrorSides>) {
    let help = "The state of each side of a mirrored store: 1 for the one that it is in.";
    page.family("disk_side_state", "gauge", help);
    for side in figures.iter().flat_map(|figures| &figures.sides) {
        for state in MirrorSides::STATES {
            let labels = [("dir", side.dir.as_str()), ("state", state)];
            page.sample("disk_side_state", &labels, u64::from(side.state == state));
        }
    }
    let is_degraded = figures.is_some_and(MirrorSides::is_degraded);
    let help = "Whether a mirrored store has all its bytes on one side alone.";
    page.single("disk_degraded", "gauge", help, u64::from(is_degraded));
    let help = "Bytes that a side of a mirrored store still lacks while it is filled.";
    page.single("disk_fill_left_bytes", "gauge", help, figures.map_or(0, |figures| figures.left_bytes));
    let help = "Files of a side that had bad bytes, and were written anew with those of the other side.";
    page.single("disk_repaired_files_total", "counter", help, figures.map_or(0, |it| it.repaired_files));
    let help = "Files of a side that have bad bytes, and are not yet written anew.";
    page.single("disk_repair_waiting_files", "gauge", help, figures.map_or(0, |it| it.waiting_files));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_shown_in_one_state() {
        let mut figures = MirrorSides {
            sides: [('A', "whole"), ('B', "filling")].map(|(letter, state)| MirrorSide {
                letter,
                dir: format!("/{state}"),
                state,
                since: Timestamp::from_millis(1),
                why: String::new(),
            }),
            left_bytes: 7,
            fill_bytes: 21,
            repaired_files: 3,
            waiting_files: 1,
        };
        let shown = |figures: &MirrorSides| {
            let mut page = Exposition::default();
            sides(&mut page, Some(figures));
            String::from_utf8(page.finish()).unwrap()
        };
        let page = shown(&figures);
        assert!(page.contains("siltstone_disk_side_state{dir=\"/filling\",state=\"filling\"} 1\n"), "{page}");
        assert!(page.contains("siltstone_disk_side_state{dir=\"/filling\",state=\"whole\"} 0\n"), "{page}");
        assert!(page.contains("siltstone_disk_degraded 1\n"), "{page}");
        assert!(page.contains("siltstone_disk_fill_left_bytes 7\n"), "{page}");
        assert!(page.contains("siltstone_disk_repaired_files_total 3\n"), "{page}");
        assert!(page.contains("siltstone_disk_repair_waiting_files 1\n"), "{page}");
        assert_eq!(figures.filled_percent(), Some(66));
        figures.fill_bytes = 0;
        assert_eq!(figures.filled_percent(), None);
        figures.sides[1].state = "whole";
        assert!(shown(&figures).contains("siltstone_disk_degraded 0\n"));
    }
}
