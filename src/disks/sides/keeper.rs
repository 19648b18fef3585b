//! The marks of both sides while a store uses them, and the generations that begin meanwhile
//! (data-format.md, section 24).

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use super::mark::MarkFile;
use super::states::SideStates;
use super::witness::WitnessFile;
use crate::base::{Clock, Entropy, NOT_POISONED};
use crate::format::{FileKind, Generation, GenerationId, SideId, SideState, StoreId, number_of};
use crate::fs::{Side, SideKeeper, SideUse};

/// All that is marked.
pub(super) struct Marks {
    pub(super) mirror: StoreId,
    /// The mark of each side that is there.
    pub(super) files: [Option<MarkFile>; 2],
    pub(super) witness: Option<WitnessFile>,
    /// The generation in force.
    pub(super) generation: Generation,
    /// Whether a side may have the mark of an addition that did not come to its end.
    pub(super) may_be_added: bool,
}

/// Keeps the marks.
pub(super) struct MarkKeeper {
    marks: Mutex<Marks>,
    pub(super) states: SideStates,
    entropy: Arc<dyn Entropy>,
    clock: Arc<dyn Clock>,
}

/// A random id.
pub(super) fn random_id(entropy: &dyn Entropy) -> [u8; 16] {
    let mut id = [0; 16];
    entropy.fill(&mut id);
    id
}

impl MarkKeeper {
    pub(super) fn new(marks: Marks, entropy: Arc<dyn Entropy>, clock: Arc<dyn Clock>) -> Self {
        let states = SideStates::whole_since(marks.generation.begun, Arc::clone(&clock));
        Self { marks: Mutex::new(marks), states, entropy, clock }
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().expect(NOT_POISONED)
    }

    /// Begins a generation of `members`, and marks them in that order, and the witness. In force,
    /// durably, on return.
    ///
    /// # Errors
    /// Of the disks: nothing may be answered any more.
    pub(super) fn begin_generation(&self, members: &[Side], sealed_below: u64) -> io::Result<()> {
        let mut marks = self.marks();
        let mut ids = Vec::new();
        for side in members {
            ids.push(marks.id_of(*side)?);
        }
        let id = GenerationId(random_id(self.entropy.as_ref()));
        let now = self.clock.now();
        let generation = marks.generation.next(id, ids, sealed_below, now);
        marks.may_be_added |= members.len() > 1;
        for side in members {
            marks.file(*side)?.write(SideState::Whole, generation.clone())?;
        }
        marks.generation = generation;
        marks.write_witness(now)?;
        marks.may_be_added = false;
        Ok(())
    }

    /// As [`MarkKeeper::begin_generation`], of one side. Where it is the only member already, since the
    /// witness alone failed, that is tried again.
    fn go_on_alone(&self, side: Side, sealed_below: u64) -> io::Result<()> {
        {
            let mut marks = self.marks();
            let id = marks.id_of(side)?;
            if marks.generation.is_of_only(id) && !marks.may_be_added {
                let now = self.clock.now();
                return marks.write_witness(now);
            }
        }
        self.begin_generation(&[side], sealed_below)
    }

    /// Has the witness name the generation in force.
    ///
    /// # Errors
    /// Of its disk.
    pub(super) fn write_witness(&self) -> io::Result<()> {
        self.marks().write_witness(self.clock.now())
    }

    /// Marks a side as one that is being filled, in the generation in force or that of its own mark.
    /// Durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn mark_filling(&self, side: Side, in_force: bool) -> io::Result<()> {
        let mut marks = self.marks();
        let generation = match in_force {
            true => marks.generation.clone(),
            false => marks.file(side)?.mark().generation.clone(),
        };
        marks.file(side)?.write(SideState::Filling, generation)
    }
}

impl Marks {
    fn file(&mut self, side: Side) -> io::Result<&mut MarkFile> {
        self.files[side.index()].as_mut().ok_or_else(|| io::Error::other("the side has no mark"))
    }

    fn id_of(&mut self, side: Side) -> io::Result<SideId> {
        Ok(self.file(side)?.mark().side)
    }

    pub(super) fn write_witness(&mut self, now: crate::base::Timestamp) -> io::Result<()> {
        match &mut self.witness {
            Some(witness) => witness.write(self.mirror, &self.generation, now),
            None => Ok(()),
        }
    }
}

impl SideKeeper for MarkKeeper {
    fn drop_side(&self, dropped: Side, dirty: &[String], why: &io::Error) -> io::Result<()> {
        self.go_on_alone(dropped.other(), sealed_below(dirty))?;
        let letter = dropped.letter();
        log::error!(
            "side {letter} of the mirror is dropped, and the store goes on with the other one: {why}"
        );
        self.states.note(dropped, SideUse::Out, &why.to_string());
        let Some(mut file) = self.marks().files[dropped.index()].take() else { return Ok(()) };
        let before = file.mark().clone();
        if before.state == SideState::Whole {
            // Nobody waits for it: the disk may not answer.
            let told = thread::Builder::new().name("told".to_owned());
            let _ = told.spawn(move || file.write(SideState::Told, before.generation));
        }
        Ok(())
    }
}

/// The lowest id of a segment among files whose last writes may be missing; beyond all where there is
/// none.
fn sealed_below(dirty: &[String]) -> u64 {
    let ids = dirty.iter().filter_map(|path| {
        let name = path.strip_prefix(FileKind::Segment.dir())?.strip_prefix('/')?;
        let name = name.split_once(FileKind::Segment.suffix())?.0;
        number_of(FileKind::Segment, &format!("{name}{}", FileKind::Segment.suffix()))
    });
    ids.min().unwrap_or(u64::MAX)
}
