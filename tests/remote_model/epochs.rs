//! Who may change the remote: stores that send segments and no log, copies of their directories,
//! and an operator who forgets `--ship`.
//!
//! Each directory notes the newest claim that it has held, and a number that a copy of the file
//! does not have. A start claims the next epoch only from there; a deleter looks for the next
//! claim. The directory that the operator relies on is the *right* one: another becomes it by the
//! operator's word, with no server at work, as the first that claims of copies that were made
//! before any claim, or as a clone of the disk that has started last.
//!
//! A look and the delete after it are one step here: who stalls between them for longer than a
//! request may take is not modelled. An operator who goes back to a directory whose objects are
//! gone loses them, which is no fault of the protocol.

use std::collections::BTreeSet;

use crate::support::explorer::{StateMachine, explore};

const EPOCHS: usize = 5;

/// A rule that a test takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EpochRule {
    /// Nothing is deleted without an epoch.
    EpochBeforeDelete,
    /// A start claims only where the directory has held the newest claim.
    NewestClaimIsOwn,
    /// A directory whose note has another number is a copy, and claims nothing.
    NumberOfTheNote,
    /// A deleter looks for the next claim.
    LookBeforeDelete,
    /// A start without `--ship` is refused where the remote has a log.
    LogIsContinued,
}

#[derive(Clone, Debug)]
struct EpochScenario {
    /// Whether a copy has the number of the original, as on a cloned disk.
    clones: bool,
    /// Whether another host has taken over the log of the first directory; else there is no log.
    has_log: bool,
    removed: BTreeSet<EpochRule>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Process {
    Down,
    Claiming {
        epoch: usize,
    },
    Holding {
        epoch: usize,
    },
    /// It runs, and changes nothing on the remote.
    Refused,
}

/// A claim with its nonce; epoch 0 for none.
type ClaimNote = (usize, u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Directory {
    is_there: bool,
    has_number: bool,
    held: ClaimNote,
    tried: ClaimNote,
    /// Whether its index names the one segment.
    needs_segment: bool,
    /// Whether it waits to delete that segment.
    drops_segment: bool,
    process: Process,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    claims: [u8; EPOCHS],
    has_segment: bool,
    hosts: [Directory; 2],
    right: usize,
    nonces: u8,
    crashes: u8,
}

const NAMES: [&str; 2] = ["the first directory", "the other directory"];

impl World {
    fn newest(&self) -> usize {
        self.claims.iter().rposition(|claim| *claim != 0).unwrap_or(0)
    }

    /// Whether a directory has all that it needs.
    fn is_whole(&self, h: usize) -> bool {
        !self.hosts[h].needs_segment || self.has_segment
    }
}

impl EpochScenario {
    fn new(clones: bool, has_log: bool) -> Self {
        Self { clones, has_log, removed: BTreeSet::new() }
    }

    fn keeps(&self, rule: EpochRule) -> bool {
        !self.removed.contains(&rule)
    }

    /// The process of a directory after it has looked at the remote.
    fn judged(&self, world: &World, h: usize) -> Process {
        let host = &world.hosts[h];
        let newest = world.newest();
        let claim = (newest, world.claims[newest]);
        let is_own = newest == 0 || host.held == claim || host.tried == claim;
        if self.keeps(EpochRule::NewestClaimIsOwn) && !is_own {
            return Process::Refused;
        }
        if self.keeps(EpochRule::NumberOfTheNote) && !host.has_number && newest > 0 {
            return Process::Refused;
        }
        Process::Claiming { epoch: newest + 1 }
    }

    fn started(&self, world: &World, h: usize) -> Option<World> {
        let is_log_refused = self.has_log && self.keeps(EpochRule::LogIsContinued);
        if world.hosts[h].process != Process::Down || is_log_refused || world.newest() + 1 == EPOCHS {
            return None;
        }
        let mut next = world.clone();
        next.hosts[h].process = self.judged(world, h);
        if let Process::Claiming { epoch } = next.hosts[h].process {
            let newest = world.newest();
            next.nonces += 1;
            next.hosts[h].held = (newest, world.claims[newest]);
            next.hosts[h].tried = (epoch, next.nonces);
            next.hosts[h].has_number = true;
        }
        Some(next)
    }

    fn claim(&self, world: &World, h: usize, epoch: usize) -> World {
        let mut next = world.clone();
        if next.claims[epoch] != 0 {
            next.hosts[h].process = Process::Refused;
            return next;
        }
        next.claims[epoch] = next.hosts[h].tried.1;
        next.hosts[h].held = next.hosts[h].tried;
        next.hosts[h].process = Process::Holding { epoch };
        // A copy that was made before the first claim has no note to be told by: the first claim
        // says which is right.
        if (self.clones || epoch == 1) && next.is_whole(h) {
            next.right = h;
        }
        next
    }

    fn delete(&self, world: &World, h: usize) -> Option<World> {
        let host = &world.hosts[h];
        let mut next = world.clone();
        match host.process {
            _ if !host.drops_segment => return None,
            Process::Holding { epoch } => {
                let is_claimed = world.claims.get(epoch + 1).is_some_and(|claim| *claim != 0);
                if self.keeps(EpochRule::LookBeforeDelete) && is_claimed {
                    next.hosts[h].process = Process::Refused;
                    return Some(next);
                }
            }
            Process::Refused if !self.keeps(EpochRule::EpochBeforeDelete) => {}
            _ => return None,
        }
        next.has_segment = false;
        next.hosts[h].drops_segment = false;
        Some(next)
    }

    /// The operator says that a directory is the right one, after the servers were stopped: an
    /// epoch is claimed for it, whichever server starts next.
    fn adopt(world: &World, h: usize) -> Option<World> {
        let is_idle = world.hosts.iter().all(|host| host.process == Process::Down);
        if !is_idle || world.right == h || !world.hosts[h].is_there || !world.is_whole(h) {
            return None;
        }
        let epoch = world.newest() + 1;
        if epoch == EPOCHS {
            return None;
        }
        let mut next = world.clone();
        next.nonces += 1;
        next.right = h;
        next.claims[epoch] = next.nonces;
        next.hosts[h].held = (epoch, next.nonces);
        next.hosts[h].has_number = true;
        Some(next)
    }

    fn host_steps(&self, world: &World, h: usize, found: &mut Vec<((&'static str, &'static str), World)>) {
        let host = &world.hosts[h];
        if !host.is_there {
            return;
        }
        let mut add = |step, next: Option<World>| {
            found.extend(next.map(|next| ((NAMES[h], step), next)));
        };
        add("is started without --ship", self.started(world, h));
        if let Process::Claiming { epoch } = host.process {
            add("claims an epoch", Some(self.claim(world, h, epoch)));
        }
        add("deletes the segment", self.delete(world, h));
        add("is adopted", Self::adopt(world, h));
        let runs = matches!(host.process, Process::Holding { .. } | Process::Refused);
        if runs && host.needs_segment {
            let mut next = world.clone();
            next.hosts[h].needs_segment = false;
            next.hosts[h].drops_segment = true;
            add("deletes its object", Some(next));
        }
        if host.process != Process::Down && world.crashes < 3 {
            let mut next = world.clone();
            next.crashes += 1;
            next.hosts[h].process = Process::Down;
            add("stops", Some(next));
        }
    }
}

impl StateMachine for EpochScenario {
    type State = World;
    type Step = (&'static str, &'static str);

    fn start(&self) -> World {
        let first = Directory {
            is_there: true,
            has_number: true,
            held: (0, 0),
            tried: (0, 0),
            needs_segment: true,
            drops_segment: false,
            process: Process::Down,
        };
        let mut world = World {
            claims: [0; EPOCHS],
            has_segment: true,
            hosts: [first, Directory { is_there: false, ..first }],
            right: 0,
            nonces: 2,
            crashes: 0,
        };
        if self.has_log {
            // The first directory has begun the log, and the other host has taken it over.
            world.claims[1] = 1;
            world.claims[2] = 2;
            world.hosts[0].held = (1, 1);
            world.hosts[1] =
                Directory { is_there: true, held: (2, 2), process: Process::Holding { epoch: 2 }, ..first };
            world.right = 1;
        }
        world
    }

    fn successors(&self, world: &World, found: &mut Vec<(Self::Step, World)>) {
        let hosts = if self.has_log { 0..1 } else { 0..2 };
        hosts.for_each(|h| self.host_steps(world, h, found));
        if !world.hosts[1].is_there {
            let mut next = world.clone();
            let original = world.hosts[0];
            next.hosts[1] = Directory {
                has_number: self.clones && original.has_number,
                process: Process::Down,
                ..original
            };
            found.push((("the operator", "copies the directory"), next));
        }
    }

    fn violation(&self, world: &World) -> Option<&'static str> {
        if !world.is_whole(world.right) {
            return Some("the objects of the right directory are there");
        }
        let runs = |host: &Directory| matches!(host.process, Process::Holding { .. } | Process::Refused);
        let writers = world.hosts.iter().filter(|host| runs(host)).count();
        (self.has_log && writers > 1).then_some("one host of a log answers writes")
    }
}

fn holds(scenario: &EpochScenario) {
    let result = explore(scenario, usize::MAX);
    println!("{} states, {} transitions: {scenario:?}", result.states, result.transitions);
    assert!(result.violation.is_none(), "{:#?}", result.violation);
    assert!(result.states > 100 || scenario.has_log, "{} states", result.states);
}

fn breaks_without(rule: EpochRule, mut scenario: EpochScenario, invariant: &str) {
    scenario.removed.insert(rule);
    let violation = explore(&scenario, usize::MAX).violation;
    let (violated, path) = violation.unwrap_or_else(|| panic!("{rule:?} is not needed"));
    println!("without {rule:?}: {violated}: {path:#?}");
    assert!(violated.contains(invariant), "{violated}: {path:#?}");
}

const OBJECTS: &str = "objects of the right directory";

#[test]
fn copies_and_clones_take_nothing_from_the_right_directory() {
    holds(&EpochScenario::new(false, false));
    holds(&EpochScenario::new(true, false));
    holds(&EpochScenario::new(false, true));
}

#[test]
fn a_store_that_deletes_without_an_epoch_takes_the_objects_of_another() {
    breaks_without(EpochRule::EpochBeforeDelete, EpochScenario::new(false, false), OBJECTS);
}

#[test]
fn a_copy_that_is_not_told_from_the_original_takes_its_objects() {
    breaks_without(EpochRule::NumberOfTheNote, EpochScenario::new(false, false), OBJECTS);
}

#[test]
fn an_old_directory_that_claims_again_takes_the_objects_of_the_adopted_one() {
    breaks_without(EpochRule::NewestClaimIsOwn, EpochScenario::new(false, false), OBJECTS);
}

#[test]
fn a_store_that_does_not_look_deletes_after_the_next_epoch_was_claimed() {
    breaks_without(EpochRule::LookBeforeDelete, EpochScenario::new(true, false), OBJECTS);
}

#[test]
fn a_start_that_forgets_to_ship_writes_beside_the_host_that_took_over() {
    breaks_without(EpochRule::LogIsContinued, EpochScenario::new(false, true), "one host of a log");
}
