//! What the disks of a pair hold, and what a start makes of it.

use std::collections::BTreeSet;

/// A rule of the protocol. The search loses data without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Rule {
    /// A generation without the side that failed is marked on the other one before the answer.
    MarkBeforeAnswer,
    /// A start with one side begins a generation.
    GenerationAtOneSidedStart,
    /// An addition that was given up begins a generation.
    GenerationAfterGivenUpAddition,
    /// An addition marks the new side before the one that was there.
    NewSideFirst,
    /// A generation counts once the marks of all its members have it.
    CountsOnAllMembers,
    /// A side says that it is filled before its first byte changes.
    FillingIsMarked,
    /// The tails of both sides are made equal before the first read.
    LevelBeforeRead,
    /// A side is overwritten only if the other one's line has its generation. Without the rule the
    /// higher count of generations wins.
    LinesDecide,
    /// A side that is not the only member of its generation needs the witness, or an operator.
    OnlyMemberStarts,
    /// The witness is written before the answer.
    WitnessBeforeAnswer,
    /// The witness is written after the mark.
    WitnessAfterMark,
    /// A side does not start alone if the witness has a generation that it knows nothing of.
    WitnessIsAsked,
}

/// A set of small numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Bits(u32);

impl Bits {
    pub(super) fn of(numbers: &[u8]) -> Self {
        Self(numbers.iter().fold(0, |bits, number| bits | 1 << number))
    }

    pub(super) fn has(self, number: u8) -> bool {
        self.0 & 1 << number != 0
    }

    pub(super) fn with(self, number: u8) -> Self {
        Self(self.0 | 1 << number)
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }
}

/// Who is whole since when. Written to the sides and to the witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Generation {
    /// A random number in the product.
    pub(super) id: u8,
    /// The disks that are whole in it.
    pub(super) members: Bits,
    /// The generations before it.
    pub(super) line: Bits,
}

impl Generation {
    /// Whether a generation is this one or before it.
    pub(super) fn knows(&self, id: u8) -> bool {
        self.id == id || self.line.has(id)
    }

    /// The one after it.
    pub(super) fn next(&self, id: u8, members: Bits) -> Self {
        Self { id, members, line: self.line.with(self.id) }
    }

    fn is_alone(&self) -> bool {
        self.members.len() == 1
    }
}

/// A side's own words about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Mark {
    /// An empty disk, or the directory below one that is not mounted.
    None,
    /// It is being filled: what it holds is a mixture.
    Filling,
    Whole(Generation),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    pub(super) mark: Mark,
    /// The durable groups, in order.
    pub(super) log: Vec<u8>,
    /// Whether a part of its bytes are those of another disk.
    pub(super) is_mixture: bool,
}

impl Disk {
    pub(super) fn empty() -> Self {
        Self { mark: Mark::None, log: Vec::new(), is_mixture: false }
    }

    pub(super) fn generation(&self) -> Option<Generation> {
        match self.mark {
            Mark::Whole(generation) => Some(generation),
            Mark::None | Mark::Filling => None,
        }
    }

    pub(super) fn groups(&self) -> Bits {
        Bits::of(&self.log)
    }
}

/// A side that is there, at a start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) disk: u8,
    pub(super) generation: Generation,
}

/// What a start does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Both are whole in one generation.
    Pair,
    /// This disk goes on alone.
    Alone(u8),
    /// Nothing without an operator's word.
    Refused,
}

pub(super) struct Rules<'a> {
    pub(super) removed: &'a BTreeSet<Rule>,
    pub(super) witness: Option<Generation>,
}

impl Rules<'_> {
    fn hold(&self, rule: Rule) -> bool {
        !self.removed.contains(&rule)
    }

    /// What a start does with two sides that are there and not being filled.
    pub(super) fn of_two(&self, one: Found, other: Found) -> Verdict {
        if one.generation.id == other.generation.id {
            return Verdict::Pair;
        }
        // The older one is no member of the newer generation: it may be that of an exchanged disk,
        // and the third disk, which is not there, the newest one.
        if self.may_overwrite(one, other) {
            return self.of_one(one);
        }
        if self.may_overwrite(other, one) {
            return self.of_one(other);
        }
        Verdict::Refused
    }

    /// What a start does with the only side that can be read.
    pub(super) fn of_one(&self, side: Found) -> Verdict {
        let known = self.witness.is_none_or(|witness| side.generation.knows(witness.id));
        let is_named = self.witness.is_some_and(|witness| witness.members.has(side.disk)) && known;
        let is_only = side.generation.is_alone() || !self.hold(Rule::OnlyMemberStarts);
        if is_named || is_only && (known || !self.hold(Rule::WitnessIsAsked)) {
            return Verdict::Alone(side.disk);
        }
        Verdict::Refused
    }

    /// Whether `stale` has nothing that `source` lacks.
    pub(super) fn may_overwrite(&self, source: Found, stale: Found) -> bool {
        if !self.hold(Rule::LinesDecide) {
            return source.generation.line.len() > stale.generation.line.len();
        }
        source.counts(self, stale) && source.generation.knows(stale.counted(self, source))
    }
}

impl Found {
    /// Whether the generation of this side counts beside the other one that is there.
    fn counts(&self, rules: &Rules<'_>, other: Self) -> bool {
        let names_other = self.generation.members.has(other.disk);
        let other_has_it = other.generation.knows(self.generation.id);
        !names_other || other_has_it || !rules.hold(Rule::CountsOnAllMembers)
    }

    /// The generation that counts of this side, beside the other one: where its own is that of an
    /// addition that did not reach the other one, the generation of the other one.
    fn counted(&self, rules: &Rules<'_>, other: Self) -> u8 {
        if self.counts(rules, other) { self.generation.id } else { other.generation.id }
    }
}
