//! The protocols that keep a store on a remote, checked in all interleavings before code rests on
//! them.
//!
//! A store ships its log to a bucket of another S3 server and moves sealed segments there, so that
//! another host can take over and a restore can go back in time. The [`explorer`](crate::support::explorer) visits each
//! reachable state of a small model: hosts that write, ship, tier, delete, crash and take over
//! ([`protocol`], [`tier`], [`state`]) around a remote with linearizable requests ([`objects`]).
//! Any host may stall for ever between any two steps. A request may go without an answer; it then
//! lands at any later time, several times, or never.
//!
//! # Objects
//!
//! | object | name holds | put |
//! |---|---|---|
//! | claim | epoch | If-None-Match: *, never deleted |
//! | cut: former epoch, its last adopted parcel, the history up to there | epoch | If-None-Match: *, never deleted |
//! | parcel: a piece of the log with the history before it | epoch, counter | the same bytes at each try |
//! | root: checkpoint and the names that a restore needs | epoch, counter | the same bytes at each try |
//! | floor: the base by which an epoch deletes | epoch, counter | the same bytes at each try |
//! | segment | epoch, id | the same bytes at each try |
//!
//! # Protocol
//!
//! **Ship.** One parcel is in flight. The writer freezes it, puts it until an answer comes, and
//! then sends HEAD for the next claim. 404 means shipped: in sync mode the group is answered now.
//! Any claim means fenced: nothing more is answered, and the groups that are not shipped are kept
//! and listed.
//!
//! **Take over**, and each start: (1) create the next claim; (2) look for the newest cut below it,
//! downwards; (3) get the newest root of that epoch; (4) get parcels from there to the first 404;
//! (5) create the cut; (6) serve. An epoch without a cut when (2) passes it is void: its writer
//! finds the higher claim before it answers anything.
//!
//! **Tier.** Log *segment leaving*, put and verify the segment, log *segment remote*, ship that,
//! evict.
//!
//! **Delete.** The *base* is the newest adopted root that is as old as the window. A segment goes
//! when it is dead at the base. A parcel goes when the base covers it and each object in it is
//! dead, or its segment remote, at the base. The deleter chooses, sends HEAD for the next claim,
//! and deletes on 404 alone. A root before the base goes. A root after it may go, too, unless its
//! name says that it may become a base: every 24th root of an epoch, from the first on. A segment
//! under the key of a lower epoch that neither the adopted log nor the own unshipped tail calls
//! remote is a stranger and may go.
//!
//! **Go back.** A restore to an earlier point notes the newest epoch, the root that it begins with,
//! and the point. Its host creates the next claim, finds no cut of a later epoch than the noted
//! one, looks at the floors of all epochs, and creates a cut that adopts the log up to the point. A
//! floor after the noted root refuses it.
//!
//! # Proof in short
//!
//! The old writer puts its parcel and then looks for the claim; the new one creates the claim and
//! then looks for the parcel. With linearizable requests one of them sees the other. The deleter
//! puts the base and then looks for the claim; a takeover creates the claim and then looks for the
//! root. So a takeover that the deleter does not see begins at the base or later, where it reads
//! nothing that goes. Adopted histories only grow and the base only moves on, hence a dead key
//! stays dead while the deleter stalls. An epoch that goes back sees the floor of each deleter that
//! does not see its claim, and the point is not before that floor.
//!
//! # Rules that the search added
//!
//! The first sketch lacked these; the search loses data without each of them.
//!
//! - **The cut is created once.** After a time-out the same bytes are sent again. A takeover that
//!   reads the parcels again and overwrites its cut is cut back when the first request lands late
//!   ([`Safeguard::CutIsFrozen`]).
//! - **A takeover reads from the newest root**, which it gets after its claim. A host that reads on
//!   from where it stopped following takes a deleted parcel for the end of the chain
//!   ([`Safeguard::ReadFromRoot`]).
//! - **Dead at the base**, not only absent from all roots of the window. An object that was born
//!   and died between two roots is in no root, yet a restore to the time between needs it; and a
//!   parcel older than the window is needed while the newest root that covers it is younger
//!   ([`Safeguard::DeadAtBase`]).
//! - **Local pages go after *segment remote* is shipped.** A fenced host logs it for itself alone.
//!   The next epoch takes the segment for a stranger, and the group that the old host answered in
//!   async mode has its bytes nowhere ([`Safeguard::EvictAfterShipped`]).
//! - **A start on the own newest epoch ships the unshipped tail** in the new epoch. It was answered
//!   in async mode ([`Safeguard::TailGoesOn`]).
//! - **A key that the unshipped tail names is no stranger**, though its epoch is lower and no root
//!   or parcel names it yet ([`Safeguard::TailNamesKeys`]).
//! - **Names tell which roots may become a base.** A stalled deleter may take any other root; the
//!   next epoch must not have made it the base meanwhile ([`Safeguard::LastingRootsStay`]).
//! - **The floor is up before a delete, and is read after the claim.** Otherwise a base that has
//!   moved on, or a stalled deleter, takes the bytes that an epoch goes back to
//!   ([`Safeguard::FloorBeforeDelete`], [`Safeguard::FloorAfterClaim`]).
//!
//! - **A directory that goes on as it is has the whole log before it claims**, and after its claim,
//!   too. Otherwise an old copy of it ends the epoch of the living writer, or goes on without a
//!   part of the log ([`Safeguard::DescentBeforeClaim`], [`Safeguard::DescentAfterClaim`]).
//! - **A writer that finds a later claim without a cut claims again**, as soon as it likes: a
//!   claimant that failed between the two leaves no host that writes otherwise
//!   ([`Safeguard::ClaimsAgain`]). It finds a cut that landed meanwhile after its claim, as others
//!   do.
//! - **A host that has lost a claim looks at the log again** before it claims another, and one that
//!   was taken over sets its changes aside and follows. Otherwise hosts fence one another, until
//!   none is left ([`Safeguard::LosersLook`], [`Safeguard::LosersFollow`]).
//! - **A start by the one command goes on at once only behind its own claim**, and otherwise waits
//!   for a heartbeat. Its directory may have all of the log beside a host that writes
//!   ([`Safeguard::OwnClaimGoesOn`]). Groups that came between its look and its claim are adopted,
//!   and its own after the common ones are set aside, as before each fill
//!   ([`Safeguard::AsideBeforeFill`]).
//! - **A 404 is no end where a witness speaks for more.** A remote that hides parcels for a while
//!   ends the log of a takeover early; the heartbeat and a listing tell ([`hidden`]).
//!
//! # Stores without a log
//!
//! Stores that send segments and no log claim epochs, too: [`epochs`] has them with copies and
//! clones of their directories, and with an operator who forgets `--ship`.
//!
//! # Limits of the model
//!
//! Up to three hosts where they race, and one start in an old directory or a copy. Clones of a
//! disk, which have the number of the claim, are in [`epochs`] alone. In the other searches two
//! hosts, up to three epochs, two writes, one unanswered request and one crash in the searches of
//! epochs; two hosts, two epochs, one segment, one root, one delete and stalls in those of the
//! tier. `SILTSTONE_MODEL_DEEP=1` widens the bounds: three hosts or four epochs, and crashes and
//! unanswered requests beside the deleter. Checkpoint and root are one object. One object fills a
//! segment: half-dead segments are not rewritten. A restore to an earlier point reads at one
//! instant, and ends with a whole parcel.

use std::collections::BTreeSet;
use std::time::Instant;

mod epochs;
mod hidden;
mod invariants;
mod objects;
mod protocol;
mod state;
mod tier;

use protocol::{Safeguard, Scenario};

use crate::support::explorer::explore;
use crate::support::is_long;

/// Widens the bounds of the searches that expect no violation.
const DEEP: &str = "SILTSTONE_MODEL_DEEP";
/// The states that an ordinary run looks at in a search that expects no violation. The model names
/// nothing of the product: what it holds changes with the model alone.
const STATES_MAX: usize = 60_000;

const SHIPPED: &str = "answered as shipped";
const CONTIGUOUS: &str = "chain is contiguous";
const RESTORE: &str = "restore to any point";
const BYTES: &str = "bytes somewhere";
const LISTED: &str = "listed as divergent";
const BEHIND: &str = "claims nothing";
const SEEN: &str = "claim that it has seen";
const CONTINUES: &str = "has the log that it continues";
const WRITER: &str = "may come to write";
const BESIDE: &str = "ends the epoch of no living host";

fn epochs(sync: bool) -> Scenario {
    Scenario {
        hosts: 2,
        epochs: 3,
        writes: 2,
        parcels: 3,
        roots: 0,
        deletes: 0,
        root_deletes: false,
        returns: 0,
        boots: 0,
        one_command: false,
        deaths: 0,
        unanswered: 1,
        crashes: 1,
        sync,
        tier: false,
        own_lane: false,
        removed: BTreeSet::new(),
    }
}

fn tier(sync: bool) -> Scenario {
    let parcels = if sync { 4 } else { 3 };
    let bounds = Scenario { epochs: 2, writes: 1, parcels, roots: 1, deletes: 1, ..epochs(sync) };
    Scenario { unanswered: 0, crashes: 0, tier: true, ..bounds }
}

fn large_uploads() -> Scenario {
    Scenario { own_lane: true, crashes: 1, ..tier(false) }
}

fn roots_go(sync: bool) -> Scenario {
    Scenario { root_deletes: true, roots: 2, parcels: 3, deletes: 2, ..tier(sync) }
}

fn returning(sync: bool) -> Scenario {
    Scenario { returns: 1, ..tier(sync) }
}

/// A host is started in an old directory as if it were that of the writer.
fn booting(sync: bool) -> Scenario {
    Scenario { epochs: 4, boots: 1, crashes: 0, ..epochs(sync) }
}

/// Two hosts that are started by the one command after each end of their processes, also in a copy
/// of the directory of the other one.
fn one_command(sync: bool) -> Scenario {
    Scenario { one_command: true, boots: 1, crashes: 1, unanswered: 0, ..epochs(sync) }
}

/// Three hosts that take over from one another, one of which goes for good.
fn racing(sync: bool) -> Scenario {
    Scenario { hosts: 3, writes: 1, parcels: 2, deaths: 1, unanswered: 0, crashes: 0, ..epochs(sync) }
}

/// Searches `scenario`, or `wider` where the environment asks for it, and expects no violation. An
/// ordinary run leaves the farthest states of large scenarios out.
fn holds(scenario: Scenario, wider: Scenario) {
    let is_deep = std::env::var_os(DEEP).is_some();
    let scenario = if is_deep { wider } else { scenario };
    let states_max = if is_deep || is_long() { usize::MAX } else { STATES_MAX };
    let begun = Instant::now();
    let result = explore(&scenario, states_max);
    let states = result.states;
    let transitions = result.transitions;
    let depth = result.depth;
    println!(
        "{states} states, {transitions} transitions, depth {depth}, {:?}: {scenario:?}",
        begun.elapsed()
    );
    assert!(result.violation.is_none(), "{:#?}", result.violation);
    assert!(states > 1000, "{states} states");
}

/// Expects that `scenario` breaks `invariant` without `safeguard`. A search of at least its bounds
/// holds with it.
fn breaks_without(safeguard: Safeguard, mut scenario: Scenario, invariant: &str) {
    scenario.removed.insert(safeguard);
    let violation = explore(&scenario, usize::MAX).violation;
    let (violated, path) = violation.unwrap_or_else(|| panic!("{safeguard:?} is not needed"));
    println!("without {safeguard:?}: {violated}: {path:#?}");
    assert!(violated.contains(invariant), "{violated}: {path:#?}");
}

#[test]
fn takeovers_lose_nothing_in_sync() {
    holds(epochs(true), Scenario { epochs: 4, crashes: 2, unanswered: 2, ..epochs(true) });
}

#[test]
fn takeovers_lose_nothing_shipped_in_async() {
    holds(epochs(false), Scenario { hosts: 3, ..epochs(false) });
}

#[test]
fn deletes_take_nothing_that_is_needed_in_sync() {
    holds(tier(true), Scenario { unanswered: 1, crashes: 1, ..tier(true) });
}

#[test]
fn deletes_take_nothing_that_is_needed_in_async() {
    holds(tier(false), Scenario { roots: 2, deletes: 2, ..tier(false) });
}

#[test]
fn deletes_take_nothing_that_is_needed_of_large_uploads() {
    holds(large_uploads(), Scenario { unanswered: 1, deletes: 2, ..large_uploads() });
}

#[test]
fn a_collector_of_claims_loses_answered_writes() {
    breaks_without(Safeguard::ClaimsStay, epochs(true), SHIPPED);
}

#[test]
fn a_collector_of_cuts_breaks_the_chain() {
    breaks_without(Safeguard::CutsStay, epochs(true), CONTIGUOUS);
}

#[test]
fn an_answer_before_the_claim_check_is_lost() {
    breaks_without(Safeguard::ClaimCheckAfterParcel, epochs(true), SHIPPED);
}

#[test]
fn a_delete_without_the_claim_check_cuts_a_takeover_short() {
    breaks_without(Safeguard::ClaimCheckAfterRoot, tier(true), SHIPPED);
}

#[test]
fn a_delete_before_the_root_breaks_restores() {
    breaks_without(Safeguard::RootBeforeDelete, tier(true), RESTORE);
}

#[test]
fn a_parcel_before_the_base_is_needed_while_younger_roots_cover_it() {
    breaks_without(Safeguard::DeadAtBase, tier(true), RESTORE);
}

#[test]
fn a_segment_between_two_roots_is_needed_within_the_window() {
    breaks_without(Safeguard::DeadAtBase, large_uploads(), RESTORE);
}

#[test]
fn names_without_the_epoch_are_overwritten() {
    breaks_without(Safeguard::EpochInNames, epochs(true), SHIPPED);
}

#[test]
fn an_intent_that_counts_as_a_copy_loses_the_object() {
    breaks_without(Safeguard::IntentIsNoCopy, tier(true), RESTORE);
}

#[test]
fn a_retry_with_other_bytes_is_overwritten_by_the_first_try() {
    breaks_without(Safeguard::SameBytesOnRetry, epochs(false), SHIPPED);
}

#[test]
fn a_remote_that_ignores_if_none_match_has_two_epochs() {
    breaks_without(Safeguard::AtomicCreate, Scenario { unanswered: 0, ..epochs(true) }, SHIPPED);
}

#[test]
fn a_second_cut_is_overwritten_by_the_first() {
    breaks_without(Safeguard::CutIsFrozen, epochs(true), CONTIGUOUS);
}

#[test]
fn pages_that_go_before_the_parcel_are_the_last_copy() {
    breaks_without(Safeguard::EvictAfterShipped, tier(false), BYTES);
}

#[test]
fn a_takeover_that_reads_from_where_it_stopped_ends_at_a_deleted_parcel() {
    breaks_without(Safeguard::ReadFromRoot, tier(true), SHIPPED);
}

#[test]
fn a_start_without_the_unshipped_tail_loses_answered_groups() {
    breaks_without(Safeguard::TailGoesOn, epochs(false), LISTED);
}

#[test]
fn a_key_of_the_unshipped_tail_is_not_a_stranger() {
    breaks_without(Safeguard::TailNamesKeys, large_uploads(), RESTORE);
}

#[test]
fn deletes_of_roots_take_nothing_that_is_needed() {
    holds(roots_go(false), Scenario { parcels: 4, ..roots_go(true) });
}

#[test]
fn a_root_that_a_stalled_deleter_takes_may_be_the_next_base() {
    breaks_without(Safeguard::LastingRootsStay, roots_go(false), RESTORE);
}

#[test]
fn an_epoch_that_goes_back_finds_all_that_it_needs() {
    holds(returning(false), Scenario { root_deletes: true, crashes: 1, ..returning(true) });
}

#[test]
fn a_base_that_is_not_told_takes_what_an_epoch_goes_back_to() {
    breaks_without(Safeguard::FloorBeforeDelete, returning(false), RESTORE);
}

#[test]
fn a_floor_that_is_read_before_the_claim_is_passed_by_a_stalled_deleter() {
    breaks_without(Safeguard::FloorAfterClaim, returning(false), RESTORE);
}

#[test]
fn a_stale_directory_that_is_opened_as_a_writer_loses_nothing_and_ends_no_epoch() {
    holds(booting(true), Scenario { boots: 2, ..booting(true) });
    holds(booting(false), Scenario { unanswered: 2, ..booting(false) });
}

#[test]
fn a_stale_directory_that_claims_before_it_looks_fences_the_writer() {
    breaks_without(Safeguard::DescentBeforeClaim, booting(true), BEHIND);
}

#[test]
fn a_directory_that_looks_only_before_its_claim_gives_up_what_came_since() {
    breaks_without(Safeguard::DescentAfterClaim, booting(true), CONTINUES);
}

#[test]
fn a_claim_without_a_cut_ends_all_epochs_where_no_writer_claims_again() {
    breaks_without(Safeguard::ClaimsAgain, booting(true), WRITER);
}

#[test]
fn hosts_that_are_started_by_one_command_lose_nothing_whatever_their_directories_are() {
    holds(one_command(true), Scenario { epochs: 4, crashes: 2, ..one_command(true) });
    holds(one_command(false), Scenario { epochs: 4, crashes: 2, ..one_command(false) });
}

#[test]
fn a_start_that_goes_on_behind_the_claim_of_another_host_ends_its_epoch() {
    breaks_without(Safeguard::OwnClaimGoesOn, one_command(true), BESIDE);
}

#[test]
fn a_start_that_looks_only_before_its_claim_gives_up_what_came_since() {
    breaks_without(Safeguard::DescentAfterClaim, one_command(true), CONTINUES);
}

#[test]
fn a_fill_without_a_directory_aside_loses_the_names_of_answered_writes() {
    breaks_without(Safeguard::AsideBeforeFill, one_command(false), LISTED);
}

#[test]
fn hosts_that_race_lose_nothing_and_one_is_left() {
    holds(racing(true), Scenario { unanswered: 1, ..racing(true) });
    holds(racing(false), Scenario { epochs: 4, ..racing(false) });
}

#[test]
fn a_loser_that_claims_on_fences_the_winner() {
    breaks_without(Safeguard::LosersLook, racing(true), SEEN);
}

#[test]
fn a_host_that_was_taken_over_and_does_not_follow_is_of_no_use_when_the_other_goes() {
    breaks_without(Safeguard::LosersFollow, Scenario { hosts: 2, ..racing(true) }, WRITER);
}
