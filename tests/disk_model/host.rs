//! The host that serves a pair of disks, and what happens to both.

use std::collections::{BTreeSet, VecDeque};

use super::disks::{Bits, Disk, Found, Generation, Mark, Rule, Rules, Verdict};
use crate::support::explorer::StateMachine;

/// The disks that exist: two, and an empty one for an exchange.
const DISKS: usize = 3;

/// The bounds of a search.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) writes: u8,
    /// Crashes, errors, removals, exchanges, forced starts, a lost witness: all together.
    pub(super) faults: u8,
    pub(super) has_witness: bool,
    /// The rules that are left out.
    pub(super) removed: BTreeSet<Rule>,
    /// The invariant that is looked at; all of them without.
    pub(super) only: Option<&'static str>,
}

/// One durable effect, or one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Effect {
    /// The host's generation is marked on a disk.
    Mark(u8),
    /// A disk says that it is being filled.
    MarkFilling(u8),
    Witness,
    /// The log of the source is continued on a disk that lacks its end.
    Level(u8),
    /// The first bytes of a disk are overwritten.
    BeginCopy(u8),
    /// A disk holds what the source holds.
    EndCopy(u8),
    /// A disk is in use from now on.
    Join(u8),
    Serve,
    Append(u8, u8),
    Answer(u8),
}

impl Effect {
    /// The disk that it writes to.
    fn disk(self) -> Option<u8> {
        match self {
            Self::Mark(disk) | Self::MarkFilling(disk) | Self::Level(disk) | Self::Append(disk, _) => {
                Some(disk)
            }
            Self::BeginCopy(disk) | Self::EndCopy(disk) => Some(disk),
            Self::Witness | Self::Join(_) | Self::Serve | Self::Answer(_) => None,
        }
    }
}

/// A process, and what it knows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Host {
    generation: Generation,
    /// The disks that are written to.
    in_use: Vec<u8>,
    /// The disk that is being filled.
    filled: Option<u8>,
    is_serving: bool,
    todo: VecDeque<Effect>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    disks: [Disk; DISKS],
    /// The disks that are there.
    slots: Vec<u8>,
    witness: Option<Generation>,
    host: Option<Host>,
    /// The number of the next generation.
    next: u8,
    writes: u8,
    faults: u8,
    answered: Bits,
    /// What was read: also groups without an answer.
    seen: Bits,
    /// Whether an operator has started a side against the marks, knowing what it may lack.
    was_forced: bool,
    /// Whether a disk was ever taken out.
    was_removed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Do(Effect),
    FailWithoutEffect(Effect),
    FailWithEffect(Effect),
    Write(u8),
    Read,
    Fill(u8),
    Replace(u8),
    Crash,
    Start,
    StartForced(u8),
    Resolve(u8),
    Remove(u8),
    Return(u8),
    LoseWitness,
}

pub(super) const MISSING: &str = "an answered group is missing from what is served";
pub(super) const UNSEEN: &str = "what was read is missing from what is served";
pub(super) const OVERWRITTEN: &str = "an answered group is on no disk";
pub(super) const MIXTURE: &str = "a mixture is served";
const UNEQUAL: &str = "the sides that are served differ";
pub(super) const REFUSED: &str = "a start is refused although no disk was ever taken out";
const STUCK: &str = "the sides do not become whole again";

impl Scenario {
    fn hold(&self, rule: Rule) -> bool {
        !self.removed.contains(&rule)
    }

    fn rules(&self, state: &State) -> Rules<'_> {
        Rules { removed: &self.removed, witness: state.witness }
    }
}

impl State {
    fn disk(&mut self, disk: u8) -> &mut Disk {
        &mut self.disks[usize::from(disk)]
    }

    fn disk_at(&self, disk: u8) -> &Disk {
        &self.disks[usize::from(disk)]
    }

    fn is_there(&self, disk: u8) -> bool {
        self.slots.contains(&disk)
    }

    /// The sides that are there and whole by their own words.
    fn found(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for disk in self.slots.iter().copied() {
            if let Some(generation) = self.disk_at(disk).generation() {
                found.push(Found { disk, generation });
            }
        }
        found
    }

    fn new_generation(&mut self) -> u8 {
        self.next += 1;
        self.next - 1
    }

    /// The verdict of a start without an operator.
    fn verdict(&self, scenario: &Scenario) -> Verdict {
        let rules = scenario.rules(self);
        match self.found()[..] {
            [one, other] => rules.of_two(one, other),
            // A side that is there and is being filled was overwritten from the one that is whole,
            // and by this one's generation.
            [side] => rules.of_one(side),
            _ => Verdict::Refused,
        }
    }

    /// Starts with one disk, in a generation of its own.
    fn start_alone(&mut self, scenario: &Scenario, disk: u8) {
        let Some(found) = self.disk_at(disk).generation() else { return };
        let generation = if scenario.hold(Rule::GenerationAtOneSidedStart) {
            found.next(self.new_generation(), Bits::of(&[disk]))
        } else {
            Generation { members: Bits::of(&[disk]), ..found }
        };
        let mut todo = VecDeque::from(marking(scenario, &[disk]));
        todo.push_back(Effect::Serve);
        self.host = Some(Host { generation, in_use: vec![disk], filled: None, is_serving: false, todo });
    }

    /// Starts with two disks of one generation.
    fn start_pair(&mut self, scenario: &Scenario) {
        let mut in_use = self.slots.clone();
        let Some(generation) = self.disk_at(in_use[0]).generation() else { return };
        let mut todo = VecDeque::new();
        if scenario.hold(Rule::LevelBeforeRead) {
            // The one with more groups is the source.
            in_use.sort_by_key(|disk| std::cmp::Reverse(self.disk_at(*disk).log.len()));
            todo.push_back(Effect::Level(in_use[1]));
        }
        if scenario.has_witness && self.witness != Some(generation) {
            todo.push_back(Effect::Witness);
        }
        todo.push_back(Effect::Serve);
        self.host = Some(Host { generation, in_use, filled: None, is_serving: false, todo });
    }

    fn start(&mut self, scenario: &Scenario, verdict: Verdict) {
        match verdict {
            Verdict::Pair => self.start_pair(scenario),
            Verdict::Alone(disk) => self.start_alone(scenario, disk),
            Verdict::Refused => {}
        }
    }

    /// Has an effect. Appends to a mixture are none of its log.
    fn apply(&mut self, effect: Effect) {
        let Some(host) = self.host.clone() else { return };
        let source = host.in_use[0];
        match effect {
            Effect::Mark(disk) => self.disk(disk).mark = Mark::Whole(host.generation),
            Effect::MarkFilling(disk) => self.disk(disk).mark = Mark::Filling,
            Effect::Witness => self.witness = Some(host.generation),
            Effect::BeginCopy(disk) => {
                let filled = self.disk(disk);
                filled.is_mixture = true;
                filled.log.clear();
            }
            Effect::Level(disk) => self.disk(disk).log = self.disk_at(source).log.clone(),
            Effect::EndCopy(disk) => {
                let log = self.disk_at(source).log.clone();
                let filled = self.disk(disk);
                filled.log = log;
                filled.is_mixture = false;
            }
            Effect::Append(disk, group) => self.disk(disk).log.push(group),
            Effect::Answer(group) => self.answered = self.answered.with(group),
            Effect::Join(_) | Effect::Serve => {}
        }
    }

    /// What the host knows after an effect that came to its end.
    fn advance(&mut self, effect: Effect) {
        let Some(host) = &mut self.host else { return };
        host.todo.pop_front();
        match effect {
            Effect::Join(disk) => {
                host.in_use.push(disk);
                host.filled = None;
            }
            Effect::Serve => host.is_serving = true,
            _ => {}
        }
    }

    /// The host learns that an effect failed.
    fn fail(&mut self, scenario: &Scenario, effect: Effect) {
        let Some(failed) = effect.disk() else { return };
        let Some(mut host) = self.host.take() else { return };
        let is_filled = host.filled == Some(failed);
        let rest: Vec<u8> = host.in_use.iter().copied().filter(|disk| *disk != failed).collect();
        // The last side: no write is taken any more, and the process ends.
        let Some(survivor) = rest.first().copied() else { return };
        host.in_use = rest;
        host.todo.retain(|later| later.disk() != Some(failed) && !matches!(later, Effect::Join(_)));
        if is_filled {
            host.todo.retain(|later| !matches!(later, Effect::Mark(_) | Effect::Witness));
            host.filled = None;
        }
        if !is_filled || scenario.hold(Rule::GenerationAfterGivenUpAddition) {
            host.generation = host.generation.next(self.new_generation(), Bits::of(&[survivor]));
            let marks = marking(scenario, &[survivor]);
            if scenario.hold(Rule::MarkBeforeAnswer) {
                for effect in marks.into_iter().rev() {
                    if effect == Effect::Witness && !scenario.hold(Rule::WitnessBeforeAnswer) {
                        host.todo.push_back(effect);
                    } else {
                        host.todo.push_front(effect);
                    }
                }
            } else {
                host.todo.extend(marks);
            }
        } else if let Some(before) = self.disks[usize::from(survivor)].generation() {
            host.generation = before;
        }
        self.host = Some(host);
    }

    /// Begins to fill a disk that is there.
    fn fill(&mut self, scenario: &Scenario, disk: u8) {
        let Some(host) = &mut self.host else { return };
        host.filled = Some(disk);
        if scenario.hold(Rule::FillingIsMarked) {
            host.todo.push_back(Effect::MarkFilling(disk));
        }
        host.todo.push_back(Effect::BeginCopy(disk));
    }

    /// Ends the filling: no write comes between these effects.
    fn end_fill(&mut self, scenario: &Scenario, disk: u8) {
        let id = self.new_generation();
        let Some(host) = &mut self.host else { return };
        let source = host.in_use[0];
        host.generation = host.generation.next(id, Bits::of(&[source, disk]));
        host.todo.push_back(Effect::EndCopy(disk));
        let sides = if scenario.hold(Rule::NewSideFirst) { [disk, source] } else { [source, disk] };
        host.todo.extend(marking(scenario, &sides));
        host.todo.push_back(Effect::Join(disk));
    }

    /// The host, while it serves.
    fn served(&self) -> Option<&Host> {
        self.host.as_ref().filter(|host| host.is_serving)
    }

    /// The groups that are read now.
    fn read_groups(&self) -> Option<Bits> {
        self.served().map(|host| self.disk_at(host.in_use[0]).groups())
    }
}

/// The marks of disks, one after another, and the witness.
fn marking(scenario: &Scenario, disks: &[u8]) -> Vec<Effect> {
    let mut effects: Vec<Effect> = disks.iter().copied().map(Effect::Mark).collect();
    if scenario.has_witness && scenario.hold(Rule::WitnessAfterMark) {
        effects.push(Effect::Witness);
    } else if scenario.has_witness {
        effects.insert(0, Effect::Witness);
    }
    effects
}

impl StateMachine for Scenario {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let generation = Generation { id: 0, members: Bits::of(&[0, 1]), line: Bits::default() };
        let side = Disk { mark: Mark::Whole(generation), ..Disk::empty() };
        State {
            disks: [side.clone(), side, Disk::empty()],
            slots: vec![0, 1],
            witness: Some(generation).filter(|_| self.has_witness),
            host: None,
            next: 1,
            writes: self.writes,
            faults: self.faults,
            answered: Bits::default(),
            seen: Bits::default(),
            was_forced: false,
            was_removed: false,
        }
    }

    fn successors(&self, state: &State, found: &mut Vec<(Step, State)>) {
        match &state.host {
            None => self.stopped(state, found),
            Some(host) => self.running(state, host, found),
        }
        self.plugged(state, found);
    }

    fn violation(&self, state: &State) -> Option<&'static str> {
        INVARIANTS
            .iter()
            .filter(|(name, _)| self.only.is_none_or(|only| only == *name))
            .find(|(_, is_broken)| is_broken(self, state))
            .map(|(name, _)| *name)
    }
}

/// Whether a state breaks an invariant.
type IsBroken = fn(&Scenario, &State) -> bool;

/// All invariants.
const INVARIANTS: [(&str, IsBroken); 7] = [
    (OVERWRITTEN, Scenario::has_overwritten),
    (MIXTURE, Scenario::serves_a_mixture),
    (MISSING, Scenario::misses_an_answer),
    (UNSEEN, Scenario::misses_a_read),
    (UNEQUAL, Scenario::has_unequal_sides),
    (REFUSED, Scenario::refuses_untouched_disks),
    (STUCK, Scenario::stays_in_part),
];

impl Scenario {
    fn has_overwritten(&self, state: &State) -> bool {
        let mut somewhere = Bits::default();
        for disk in &state.disks {
            somewhere = somewhere.union(disk.groups());
        }
        !somewhere.contains(state.answered)
    }

    fn serves_a_mixture(&self, state: &State) -> bool {
        let served = state.served();
        served.is_some_and(|host| host.in_use.iter().any(|disk| state.disk_at(*disk).is_mixture))
    }

    fn misses_an_answer(&self, state: &State) -> bool {
        !state.was_forced && state.read_groups().is_some_and(|groups| !groups.contains(state.answered))
    }

    fn misses_a_read(&self, state: &State) -> bool {
        !state.was_forced && state.read_groups().is_some_and(|groups| !groups.contains(state.seen))
    }

    fn has_unequal_sides(&self, state: &State) -> bool {
        let Some(host) = state.served().filter(|host| host.todo.is_empty()) else { return false };
        let source = &state.disk_at(host.in_use[0]).log;
        host.in_use.iter().any(|disk| state.disk_at(*disk).log != *source)
    }

    fn refuses_untouched_disks(&self, state: &State) -> bool {
        let is_stopped = state.host.is_none();
        is_stopped && !state.was_removed && !state.was_forced && state.verdict(self) == Verdict::Refused
    }

    fn stays_in_part(&self, state: &State) -> bool {
        !self.ends_whole(state.clone())
    }
}

impl Scenario {
    fn stopped(&self, state: &State, found: &mut Vec<(Step, State)>) {
        let verdict = state.verdict(self);
        if verdict != Verdict::Refused {
            let mut next = state.clone();
            next.start(self, verdict);
            found.push((Step::Start, next));
            return;
        }
        if state.faults == 0 {
            return;
        }
        for side in state.found() {
            let mut next = state.clone();
            next.faults -= 1;
            next.was_forced = true;
            let step = if state.found().len() == 2 {
                // The other side is set aside, as it is.
                next.slots = vec![side.disk];
                Step::Resolve(side.disk)
            } else {
                Step::StartForced(side.disk)
            };
            next.start_alone(self, side.disk);
            found.push((step, next));
        }
    }

    fn running(&self, state: &State, host: &Host, found: &mut Vec<(Step, State)>) {
        if let Some(effect) = host.todo.front().copied() {
            self.effect(state, effect, found);
        } else {
            self.begin(state, host, found);
        }
        if state.faults > 0 {
            let mut next = state.clone();
            next.faults -= 1;
            next.host = None;
            found.push((Step::Crash, next));
        }
    }

    fn effect(&self, state: &State, effect: Effect, found: &mut Vec<(Step, State)>) {
        let is_there = effect.disk().is_none_or(|disk| state.is_there(disk));
        if is_there {
            let mut next = state.clone();
            next.apply(effect);
            next.advance(effect);
            found.push((Step::Do(effect), next));
        } else {
            let mut next = state.clone();
            next.fail(self, effect);
            found.push((Step::FailWithoutEffect(effect), next));
        }
        if effect.disk().is_none() || state.faults == 0 || !is_there {
            return;
        }
        let mut without = state.clone();
        without.faults -= 1;
        let mut with = without.clone();
        with.apply(effect);
        without.fail(self, effect);
        with.fail(self, effect);
        found.push((Step::FailWithoutEffect(effect), without));
        found.push((Step::FailWithEffect(effect), with));
    }

    /// What a host begins that has nothing to do.
    fn begin(&self, state: &State, host: &Host, found: &mut Vec<(Step, State)>) {
        if !host.is_serving {
            return;
        }
        let read = state.seen.union(state.disk_at(host.in_use[0]).groups());
        if read != state.seen {
            let mut next = state.clone();
            next.seen = read;
            found.push((Step::Read, next));
        }
        if state.writes > 0 {
            let mut next = state.clone();
            let group = state.writes;
            next.writes -= 1;
            if let Some(host) = &mut next.host {
                host.todo.extend(host.in_use.iter().map(|disk| Effect::Append(*disk, group)));
                host.todo.push_back(Effect::Answer(group));
            }
            found.push((Step::Write(group), next));
        }
        if let Some(disk) = host.filled {
            let mut next = state.clone();
            next.end_fill(self, disk);
            found.push((Step::Fill(disk), next));
        } else if let Some((step, disk)) = self.fillable(state, host) {
            let mut next = state.clone();
            next.fill(self, disk);
            found.push((step, next));
        }
    }

    /// The disk beside the only one in use, if it may be overwritten.
    fn fillable(&self, state: &State, host: &Host) -> Option<(Step, u8)> {
        let [source] = host.in_use[..] else { return None };
        let disk = state.slots.iter().copied().find(|disk| *disk != source)?;
        match state.disk_at(disk).mark {
            // An operator has named it: it may be the directory of a disk that is not mounted.
            Mark::None => Some((Step::Replace(disk), disk)),
            Mark::Filling => Some((Step::Fill(disk), disk)),
            Mark::Whole(generation) => {
                let source = Found { disk: source, generation: host.generation };
                let stale = Found { disk, generation };
                self.rules(state).may_overwrite(source, stale).then_some((Step::Fill(disk), disk))
            }
        }
    }

    /// What happens to the disks and to the witness.
    fn plugged(&self, state: &State, found: &mut Vec<(Step, State)>) {
        if state.slots.len() < 2 {
            for disk in 0..DISKS as u8 {
                if !state.is_there(disk) {
                    let mut next = state.clone();
                    next.slots.push(disk);
                    next.slots.sort_unstable();
                    found.push((Step::Return(disk), next));
                }
            }
        }
        if state.faults == 0 {
            return;
        }
        for disk in state.slots.iter().copied() {
            let mut next = state.clone();
            next.faults -= 1;
            next.slots.retain(|there| *there != disk);
            next.was_removed = true;
            found.push((Step::Remove(disk), next));
        }
        if state.witness.is_some() {
            let mut next = state.clone();
            next.faults -= 1;
            next.witness = None;
            found.push((Step::LoseWitness, next));
        }
    }

    /// Whether two disks are whole and equal after a start with those that an operator has, and the
    /// filling of the other one.
    fn ends_whole(&self, mut state: State) -> bool {
        if state.host.is_none() {
            let verdict = match state.verdict(self) {
                Verdict::Refused => {
                    // An operator starts one that is whole by its own words, wherever it is.
                    let whole = (0..DISKS as u8).find(|disk| state.disk_at(*disk).generation().is_some());
                    let Some(disk) = whole else { return false };
                    state.slots = vec![disk];
                    Verdict::Alone(disk)
                }
                verdict => verdict,
            };
            state.start(self, verdict);
        }
        for _ in 0..40 {
            let Some(host) = state.host.clone() else { return true };
            if let Some(effect) = host.todo.front().copied() {
                if effect.disk().is_none_or(|disk| state.is_there(disk)) {
                    state.apply(effect);
                    state.advance(effect);
                } else {
                    state.fail(self, effect);
                }
                continue;
            }
            if host.in_use.len() == 2 {
                let [one, other] = host.in_use[..] else { return false };
                return state.disk_at(one).log == state.disk_at(other).log;
            }
            match (host.filled, self.fillable(&state, &host)) {
                (Some(disk), _) => state.end_fill(self, disk),
                (None, Some((_, disk))) => state.fill(self, disk),
                // Apart, or no second disk.
                (None, None) => return true,
            }
        }
        false
    }
}
