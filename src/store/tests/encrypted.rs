//! The tests of the tier and of the log on a remote, with a remote whose objects are encrypted.

use super::tier::{ENCRYPTED, NOTHING_LOCAL, Tiered, encrypted, key, refuses_cold_reads, work};
use super::{ship, ship_crashes, tier, *};
use crate::format::RemoteMark;

#[test]
fn the_tier_holds() {
    encrypted(&[
        tier::what_went_to_the_remote_is_read_from_there_and_kept_as_far_as_there_is_room,
        tier::without_the_remote_the_store_starts_lists_reads_what_is_here_and_takes_writes,
        tier::nothing_is_given_back_before_its_copy_was_compared,
        tier::an_intent_is_repeated_under_its_name_after_a_crash,
        tier::the_copy_of_a_segment_that_died_is_dropped_and_deleted_after_a_while,
        tier::a_page_that_a_crash_left_empty_is_fetched_again_and_a_rotten_one_too,
        tier::the_phases_of_copies_survive_a_checkpoint_and_a_crash,
        tier::many_readers_of_one_place_are_served_by_one_fetch,
        tier::a_fetch_that_is_cut_in_its_midst_goes_on_with_another,
        tier::a_slow_remote_holds_a_reader_for_some_two_seconds,
        tier::a_cold_range_is_one_request_and_one_more_where_the_tables_are_lost,
        tier::where_the_remote_is_away_writes_go_on_until_the_limit_and_deletes_beyond_it,
        tier::nothing_is_read_from_the_remote_of_another_store_and_the_own_one_is_asked_again,
    ]);
}

#[test]
fn the_tier_holds_whatever_fails() {
    encrypted(&[tier::whatever_fails_what_was_answered_is_read_back]);
}

#[test]
fn the_log_holds() {
    encrypted(&[
        ship::a_restored_store_has_what_was_shipped_and_ships_on,
        ship::nothing_is_written_before_the_epoch_has_begun_and_reads_go_on,
        ship::a_synchronous_write_is_on_the_remote_when_it_is_answered,
        ship::a_host_that_was_taken_over_answers_no_write,
        ship::no_bytes_go_before_their_end_is_shipped,
        ship::a_damaged_object_is_named_and_nothing_is_restored,
        ship::an_answer_that_was_lost_does_not_end_an_epoch,
        ship::a_look_for_the_next_claim_that_failed_is_made_up_for_before_anything_counts_as_shipped,
        ship::many_objects_of_any_size_fit_into_parcels_that_are_read_back,
    ]);
}

#[test]
fn the_log_holds_whatever_fails() {
    encrypted(&[
        ship::a_root_makes_a_restore_short_and_every_point_of_a_crash_leads_to_a_store,
        ship_crashes::whatever_fails_what_was_answered_is_on_the_remote,
    ]);
}

/// A text that no metadata has by chance.
const MARKER: &[u8] = b"a text that is on the remote, or is not";

fn shows_marker(remote: &crate::remote::sim::SimRemote) -> bool {
    let shows =
        |name: &String| remote.bytes(name).unwrap().windows(MARKER.len()).any(|window| window == MARKER);
    remote.names().iter().any(shows)
}

fn sends_marker() {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    store.ship_log_from(
        ShipOptions {
            mode: ShipMode::Async,
            root_every: Duration::from_secs(3600),
            window: Duration::from_secs(7 * 24 * 3600),
            lag_max: None,
        },
        None,
    );
    store.ship_step(&SeededEntropy::new(5)).unwrap();
    put_one(&store);
    store.ship_step(&SeededEntropy::new(5)).unwrap();
    assert_eq!(shows_marker(&tiered.remote), !ENCRYPTED.get(), "in parcels");
    assert!(work(&store).unwrap().sent > 0);
    assert_eq!(shows_marker(&tiered.remote), !ENCRYPTED.get(), "in segments, too");
    assert!(tiered.remote.names().len() >= 6, "{:?}", tiered.remote.names());
}

#[test]
fn nothing_of_a_store_is_readable_on_an_encrypted_remote() {
    sends_marker();
    encrypted(&[sends_marker]);
}

#[test]
fn a_key_that_is_not_given_is_named() {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    put_one(&store);
    ENCRYPTED.set(true);
    tiered.mark(&store);
    ENCRYPTED.set(false);
    let id = key().id().to_string();
    let why = work(&store).unwrap_err().to_string();
    assert!(why.contains(&id) && why.contains("encryption_key_file"), "{why}");
    assert!(tiered.copies().is_empty());
    let restored = restore_from_remote(&tiered.remote, &SimFs::new(), tiered.clock.as_ref(), &mut |_| ());
    assert!(restored.unwrap_err().to_string().contains(&id));
}

#[test]
fn a_remote_without_encryption_takes_no_encrypted_objects() {
    let tiered = Tiered::new(NOTHING_LOCAL);
    let store = tiered.open_on(&tiered.fs);
    let mark = tiered.remote.bytes(RemoteMark::NAME).unwrap();
    drop(store);
    ENCRYPTED.set(true);
    let store = tiered.open_on(&tiered.fs);
    tiered.remote.place(RemoteMark::NAME, &mark);
    let why = store.check_remote_mark().unwrap_err().to_string();
    ENCRYPTED.set(false);
    assert!(why.contains("not encrypted"), "{why}");
}

/// Cold reads of a store whose remote was written in one way, and is read in the other.
fn read_with_the_wrong_key(was_encrypted: bool, what: &str) {
    ENCRYPTED.set(was_encrypted);
    let (tiered, store) = Tiered::filled(NOTHING_LOCAL);
    assert!(work(&store).unwrap().given_back_bytes > 0);
    store.close();
    drop(store);
    ENCRYPTED.set(!was_encrypted);
    let store = tiered.open_unmarked(&tiered.fs);
    refuses_cold_reads(&store, what);
    store.close();
    drop(store);
    ENCRYPTED.set(was_encrypted);
    let store = tiered.open_unmarked(&tiered.fs);
    assert!(get(&store, "b", "k1").is_ok(), "nothing was lost");
    store.close();
    ENCRYPTED.set(false);
}

#[test]
fn a_cold_read_without_its_key_is_no_damage_and_names_the_key() {
    read_with_the_wrong_key(
        true,
        &format!("{}: name the file with that key as `encryption_key_file`", key().id()),
    );
}

#[test]
fn a_cold_read_with_a_key_where_none_is_due_is_no_damage_and_says_so() {
    read_with_the_wrong_key(false, "encryption_key_file has to go");
}

/// An object in a sealed segment.
fn put_one(store: &Store) {
    store.create_bucket("b", "admin").unwrap();
    put(store, "b", "k", &MARKER.repeat(20_000)).unwrap();
    store.shared.segments.retire(|_| true);
    put(store, "b", "last", b"x").unwrap();
    reclaim_all(store).unwrap();
}
