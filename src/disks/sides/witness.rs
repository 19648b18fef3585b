//! The file on a third device that remembers the generation in force (data-format.md, section 24).

use std::io;
use std::sync::Arc;

use super::pages::MarkPages;
use crate::base::Timestamp;
use crate::disks::{DisksError, SidesRefusal};
use crate::format::{Generation, StoreId, WitnessMark};
use crate::fs::Fs;

/// The witness of a mirror.
pub(super) struct WitnessFile {
    /// The directory of the file.
    fs: Arc<dyn Fs>,
    name: String,
    /// `None` where there is no file.
    pages: Option<MarkPages<WitnessMark>>,
}

impl WitnessFile {
    /// Opens the file of that name, if there is one. What it says is durable.
    ///
    /// # Errors
    /// [`DisksError::BadMark`], and those of the disk.
    pub(super) fn open(fs: Arc<dyn Fs>, name: &str) -> Result<Self, DisksError> {
        let pages = MarkPages::open(fs.as_ref(), name, "")?;
        Ok(Self { fs, name: name.to_owned(), pages })
    }

    /// Whether there is a file.
    pub(super) fn is_there(&self) -> bool {
        self.pages.is_some()
    }

    /// What a witness says; `None` where there is none. Nothing is written.
    ///
    /// # Errors
    /// [`DisksError::BadMark`], and those of the disk.
    pub(super) fn read(fs: &dyn Fs, name: &str) -> Result<Option<WitnessMark>, DisksError> {
        MarkPages::read(fs, name)
    }

    /// The generation that it remembers; `None` where it was lost.
    ///
    /// # Errors
    /// [`SidesRefusal::OtherWitness`].
    pub(super) fn generation(&self, mirror: StoreId) -> Result<Option<&Generation>, SidesRefusal> {
        match self.pages.as_ref().map(MarkPages::newest) {
            None => Ok(None),
            Some(mark) if mark.mirror == mirror => Ok(Some(&mark.generation)),
            Some(_) => Err(SidesRefusal::OtherWitness),
        }
    }

    /// Remembers a generation, after the marks of the sides have it and before anything is acknowledged
    /// in it. Makes the file where there is none. Durable on return.
    ///
    /// # Errors
    /// Of the disk: it may remember either generation then.
    pub(super) fn write(
        &mut self,
        mirror: StoreId,
        generation: &Generation,
        now: Timestamp,
    ) -> io::Result<()> {
        let before = self.pages.as_ref().map_or(0, |pages| pages.newest().number);
        let mark = WitnessMark { mirror, number: before + 1, generation: generation.clone() };
        match &mut self.pages {
            Some(pages) => pages.write(mark),
            None => {
                let made = MarkPages::create(self.fs.as_ref(), &self.name, "", mirror, mark, now);
                self.pages = Some(made.map_err(io::Error::other)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{GenerationId, SideId};
    use crate::fs::sim::{CrashPolicy, SimFs};

    const MIRROR: StoreId = StoreId([9; 16]);

    fn now() -> Timestamp {
        Timestamp::from_millis(1)
    }

    fn generation(id: u8) -> Generation {
        Generation::first(GenerationId([id; 16]), vec![SideId([1; 16])], now())
    }

    fn open(disk: &SimFs) -> WitnessFile {
        WitnessFile::open(Arc::new(disk.clone()), "witness").unwrap()
    }

    fn id_of(disk: &SimFs) -> Option<u8> {
        open(disk).generation(MIRROR).unwrap().map(|generation| generation.id.0[0])
    }

    #[test]
    fn a_witness_is_made_and_remembers_the_last_generation() {
        let disk = SimFs::new();
        let mut witness = open(&disk);
        assert!(witness.generation(MIRROR).unwrap().is_none());
        for id in 1..4 {
            witness.write(MIRROR, &generation(id), now()).unwrap();
            assert_eq!(witness.generation(MIRROR).unwrap(), Some(&generation(id)));
            assert_eq!(id_of(&disk.copy().crash(CrashPolicy::DropAll)), Some(id));
            assert!(open(&disk.copy()).is_there());
        }
    }

    #[test]
    fn a_witness_of_another_mirror_is_refused() {
        let disk = SimFs::new();
        open(&disk).write(StoreId([8; 16]), &generation(1), now()).unwrap();
        assert!(matches!(open(&disk).generation(MIRROR), Err(SidesRefusal::OtherWitness)));
    }

    #[test]
    fn a_power_cut_leaves_the_old_generation_or_the_new_one() {
        for is_there in [false, true] {
            let mut cuts = 0;
            for at in 1.. {
                let disk = SimFs::new();
                if is_there {
                    open(&disk).write(MIRROR, &generation(1), now()).unwrap();
                }
                let mut witness = open(&disk);
                disk.stop_at(disk.operations() + at);
                let is_written = witness.write(MIRROR, &generation(2), now()).is_ok();
                if is_written && disk.sync_dir("").is_ok() {
                    break;
                }
                cuts += 1;
                let before = is_there.then_some(1);
                for seed in 0..20 {
                    let left = id_of(&disk.crash(CrashPolicy::Random(seed)));
                    assert!(left == Some(2) || left == before && !is_written, "operation {at}: {left:?}");
                }
            }
            assert!(cuts >= 4, "{cuts}");
        }
    }
}
