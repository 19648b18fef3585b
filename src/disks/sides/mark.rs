//! The mark of a side (data-format.md, section 24).

use std::io;

use super::pages::MarkPages;
use crate::base::Timestamp;
use crate::disks::DisksError;
use crate::format::{FileKind, Generation, SIDE_MARK_NUMBER, SideMark, SideState, log_path};
use crate::fs::Fs;

/// The path of the mark of a side.
pub(super) fn side_mark_path() -> String {
    log_path(SIDE_MARK_NUMBER)
}

/// The mark of a side that may be written to.
pub(super) struct MarkFile {
    pages: MarkPages<SideMark>,
}

impl MarkFile {
    /// The mark of a directory; `None` where it has none. Nothing is written.
    ///
    /// # Errors
    /// [`DisksError::BadMark`], and those of the disk.
    pub(super) fn read(fs: &dyn Fs) -> Result<Option<SideMark>, DisksError> {
        MarkPages::read(fs, &side_mark_path())
    }

    /// Opens the mark of a directory; `None` where it has none. What it says is durable.
    ///
    /// # Errors
    /// [`DisksError::BadMark`], and those of the disk.
    pub(super) fn open(fs: &dyn Fs) -> Result<Option<Self>, DisksError> {
        let pages = MarkPages::open(fs, &side_mark_path(), FileKind::Log.dir())?;
        Ok(pages.map(|pages| Self { pages }))
    }

    /// Marks a directory as a side. Durable on return.
    ///
    /// # Errors
    /// Of the disk: the directory has the mark that it had, or this one.
    pub(super) fn create(fs: &dyn Fs, mark: SideMark, now: Timestamp) -> Result<Self, DisksError> {
        let dir = FileKind::Log.dir();
        fs.create_dir(dir)?;
        let mirror = mark.mirror;
        let pages = MarkPages::create(fs, &side_mark_path(), dir, mirror, mark, now)?;
        Ok(Self { pages })
    }

    /// The mark in force.
    pub(super) fn mark(&self) -> &SideMark {
        self.pages.newest()
    }

    /// Writes the mark anew. It is in force, durably, on return. It needs no space on the disk.
    ///
    /// # Errors
    /// Of the disk: either mark may be in force then.
    pub(super) fn write(&mut self, state: SideState, generation: Generation) -> io::Result<()> {
        let before = self.mark();
        let number = before.number + 1;
        let mark = SideMark { number, state, generation, ..*before };
        self.pages.write(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::PAGE_BYTES;
    use crate::format::{DecodeError, GenerationId, SideId, StoreId};
    use crate::fs::sim::{CrashPolicy, SimFs};
    use crate::log;

    const SIDE: SideId = SideId([1; 16]);

    fn now() -> Timestamp {
        Timestamp::from_millis(1)
    }

    fn generation(id: u8) -> Generation {
        Generation::first(GenerationId([id; 16]), vec![SIDE], now())
    }

    fn first() -> SideMark {
        SideMark {
            mirror: StoreId([9; 16]),
            side: SIDE,
            number: 1,
            state: SideState::Whole,
            generation: generation(1),
        }
    }

    fn marked() -> SimFs {
        let disk = SimFs::new();
        MarkFile::create(&disk, first(), now()).unwrap();
        disk
    }

    fn generation_of(disk: &SimFs) -> GenerationId {
        MarkFile::read(disk).unwrap().unwrap().generation.id
    }

    #[test]
    fn a_mark_is_kept_and_written_anew() {
        let disk = marked();
        assert_eq!(MarkFile::read(&disk).unwrap(), Some(first()));
        for id in 2..=5 {
            let mut file = MarkFile::open(&disk).unwrap().unwrap();
            file.write(SideState::Told, generation(id)).unwrap();
            file.write(SideState::Filling, generation(id)).unwrap();
            let expected = SideMark {
                number: u64::from(2 * id - 1),
                state: SideState::Filling,
                generation: generation(id),
                ..first()
            };
            assert_eq!(file.mark(), &expected);
            assert_eq!(
                MarkFile::read(&disk.copy().crash(CrashPolicy::DropAll)).unwrap(),
                Some(expected.clone())
            );
            assert_eq!(MarkFile::read(&disk.copy()).unwrap(), Some(expected));
            let files = disk.files();
            assert_eq!(files, [(side_mark_path(), 3 * PAGE_BYTES)]);
        }
    }

    #[test]
    fn a_directory_without_a_mark_has_none() {
        assert!(MarkFile::read(&SimFs::new()).unwrap().is_none());
        assert!(MarkFile::open(&SimFs::new()).unwrap().is_none());
    }

    /// Cuts the power at each operation of `change`, which marks a side with generation 2 in place of
    /// generation 1. Returns the number of cuts.
    fn cut_at_each(prepare: impl Fn() -> SimFs, change: impl Fn(&SimFs) -> Result<(), DisksError>) -> u64 {
        for at in 1.. {
            let disk = prepare();
            disk.stop_at(disk.operations() + at);
            if change(&disk).is_ok() {
                return at - 1;
            }
            let seeds = (0..20).map(|seed| CrashPolicy::Random(100 * at + seed));
            for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll].into_iter().chain(seeds) {
                let left = disk.crash(policy);
                let id = MarkFile::read(&left).unwrap().map(|mark| mark.generation.id.0[0]);
                assert!(matches!(id, None | Some(1 | 2)), "operation {at}, {policy:?}: {id:?}");
                let was_marked = MarkFile::read(&prepare()).unwrap().is_some();
                assert!(id.is_some() || !was_marked, "operation {at}, {policy:?}: no mark is left");
                // The next process goes on.
                if let Some(mut file) = MarkFile::open(&left).unwrap() {
                    file.write(SideState::Whole, generation(3)).unwrap();
                    assert_eq!(generation_of(&left.crash(CrashPolicy::DropAll)), GenerationId([3; 16]));
                }
            }
        }
        unreachable!("a change ends")
    }

    fn mark_again(disk: &SimFs) -> Result<(), DisksError> {
        let mut file = MarkFile::open(disk)?.expect("it is marked");
        file.write(SideState::Whole, generation(2))?;
        // The second page may be what failed.
        if disk.contents(&side_mark_path()).is_err() || disk.sync_dir("meta").is_err() {
            return Err(DisksError::Locked);
        }
        Ok(())
    }

    #[test]
    fn a_power_cut_at_any_operation_leaves_the_old_mark_or_the_new_one() {
        let cuts = cut_at_each(marked, mark_again);
        assert!(cuts >= 6, "{cuts}");
        let second_page = || {
            let disk = marked();
            disk.damage(&side_mark_path(), PAGE_BYTES, 1).unwrap();
            disk
        };
        let cuts = cut_at_each(second_page, mark_again);
        assert!(cuts >= 6, "{cuts}");
    }

    #[test]
    fn a_power_cut_while_a_side_is_marked_leaves_no_mark_or_a_whole_one() {
        let cuts = cut_at_each(SimFs::new, |disk| MarkFile::create(disk, first(), now()).map(|_| ()));
        assert!(cuts >= 6, "{cuts}");
    }

    #[test]
    fn a_mark_that_was_written_is_in_force_after_a_power_cut() {
        for at in 1..20 {
            let disk = marked();
            let mut file = MarkFile::open(&disk).unwrap().unwrap();
            disk.stop_at(disk.operations() + at);
            if file.write(SideState::Whole, generation(2)).is_ok() {
                for seed in 0..20 {
                    let left = disk.crash(CrashPolicy::Random(seed));
                    assert_eq!(generation_of(&left), GenerationId([2; 16]), "operation {at}");
                }
            }
        }
    }

    #[test]
    fn a_failed_sync_leaves_a_mark_and_the_next_one_is_durable() {
        let disk = marked();
        let mut file = MarkFile::open(&disk).unwrap().unwrap();
        disk.fail_sync_at(disk.syncs() + 1);
        assert!(file.write(SideState::Whole, generation(2)).is_err());
        assert_eq!(file.mark().generation.id, GenerationId([1; 16]));
        let left = disk.crash(CrashPolicy::DropAll);
        assert_eq!(generation_of(&left), GenerationId([1; 16]));

        let disk = marked();
        let mut file = MarkFile::open(&disk).unwrap().unwrap();
        disk.fail_sync_at(disk.syncs() + 1);
        assert!(file.write(SideState::Whole, generation(2)).is_err());
        file.write(SideState::Whole, generation(3)).unwrap();
        assert_eq!(generation_of(&disk.crash(CrashPolicy::DropAll)), GenerationId([3; 16]));
    }

    #[test]
    fn a_mark_is_written_on_a_full_disk() {
        let disk = marked();
        disk.set_capacity(3 * PAGE_BYTES);
        let mut file = MarkFile::open(&disk).unwrap().unwrap();
        file.write(SideState::Whole, generation(2)).unwrap();
        assert_eq!(generation_of(&disk), GenerationId([2; 16]));
    }

    #[test]
    fn damage_to_one_page_leaves_the_mark_in_force_and_to_both_refuses_the_side() {
        for page in [0, 1, 2] {
            let disk = marked();
            let mut file = MarkFile::open(&disk).unwrap().unwrap();
            file.write(SideState::Whole, generation(2)).unwrap();
            disk.damage(&side_mark_path(), page * PAGE_BYTES + 70, 1).unwrap();
            assert_eq!(generation_of(&disk), GenerationId([2; 16]), "page {page}");
            disk.make_unreadable(&side_mark_path(), page * PAGE_BYTES..(page + 1) * PAGE_BYTES).unwrap();
            assert_eq!(generation_of(&disk), GenerationId([2; 16]), "page {page}");
        }
        let disk = marked();
        for page in [1, 2] {
            disk.damage(&side_mark_path(), page * PAGE_BYTES + 70, 1).unwrap();
        }
        let refusal = MarkFile::read(&disk).unwrap_err();
        assert!(matches!(&refusal, DisksError::BadMark(path, _) if *path == side_mark_path()), "{refusal}");
        assert!(MarkFile::open(&disk).is_err());
        let disk = marked();
        disk.truncate(&side_mark_path(), PAGE_BYTES).unwrap();
        assert!(MarkFile::read(&disk).is_err());
    }

    #[test]
    fn a_mark_of_a_newer_version_is_refused_beside_a_good_one() {
        let disk = marked();
        let mut page = first().encode();
        page[8] = 2;
        let crc = crate::base::digest::Crc32::of(&page[..4092]);
        page[4092..].copy_from_slice(&crc.to_le_bytes());
        disk.overwrite(&side_mark_path(), 2 * PAGE_BYTES, &page).unwrap();
        let refusal = MarkFile::read(&disk).unwrap_err().to_string();
        assert!(refusal.contains(&DecodeError::Version(2).to_string()), "{refusal}");
    }

    #[test]
    fn a_program_that_opens_one_side_alone_is_refused() {
        let disk = marked();
        let refusal = log::open_file(&disk, FileKind::Log, SIDE_MARK_NUMBER, None).err().unwrap();
        assert!(refusal.to_string().contains("--mirror"), "{refusal}");
    }
}
