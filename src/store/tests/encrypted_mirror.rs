//! The tests of a mirror with sides that are encrypted, each with salts of its own.

use super::crashes::{sweep, sweep_of, tiny_segments};
use super::disks::{on_encrypted_disk, on_mirror};
use super::mirrored::{
    degraded, mirror, one_dies, power_cuts_during_a_filling, put_into_sealed, small_segments, store_on,
    store_with, two_disks,
};
use super::script::CHURN;
use super::*;
use crate::fs::sim::CrashPolicy;
use crate::fs::{Side, SideUse};

#[test]
fn an_encrypted_mirror_keeps_what_was_acknowledged_through_a_crash_at_every_operation() {
    on_encrypted_disk(|| on_mirror(|| sweep(options(), 13)));
}

#[test]
fn it_does_so_where_segments_are_emptied_and_go() {
    on_encrypted_disk(|| on_mirror(|| sweep_of(CHURN, tiny_segments(), 17)));
}

#[test]
fn it_does_so_where_the_log_goes_on_in_file_after_file() {
    let options = StoreOptions { log_file_max_bytes: 16_384, checkpoint_after_bytes: 30_000, ..options() };
    on_encrypted_disk(|| on_mirror(|| sweep(options, 23)));
}

#[test]
fn a_disk_of_it_that_dies_costs_nothing_and_is_filled_when_it_is_back() {
    on_encrypted_disk(|| {
        for dying in Side::BOTH {
            one_dies(CHURN, tiny_segments(), dying, 17);
        }
    });
}

#[test]
fn a_power_cut_during_a_filling_of_it_leaves_the_other_side_whole() {
    on_encrypted_disk(|| power_cuts_during_a_filling(11));
}

#[test]
fn rot_of_it_is_read_from_the_other_side_and_written_anew() {
    on_encrypted_disk(|| {
        let [first, second] = two_disks();
        let opened = mirror(&first, &second).unwrap();
        let store = store_with(&opened, small_segments());
        let path = put_into_sealed(&store, &first);
        assert_ne!(first.contents(&path).unwrap(), second.contents(&path).unwrap(), "their salts differ");
        let home = opened.home_of(&path);
        let rotten = [&first, &second][home.index()];
        let other = [&first, &second][home.other().index()];
        rotten.damage(&path, 80_000, 0xff).unwrap();
        assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000]);
        assert_eq!(opened.repair_step().unwrap().files, 1);
        other.stop_at(other.operations() + 1);
        assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000], "of that side alone");
    });
}

/// Space is given back in a file whose salt one side has lost: that side stays.
#[test]
fn a_hole_in_a_file_without_its_salt_drops_no_side() {
    on_encrypted_disk(|| {
        let [first, second] = two_disks();
        let opened = mirror(&first, &second).unwrap();
        let store = store_with(&opened, small_segments());
        let path = put_into_sealed(&store, &first);
        drop(store);
        drop(opened);
        let opened = mirror(&first, &second).unwrap();
        second.damage(&path, 20, 0xff).unwrap();
        let file = opened.fs().open(&path).unwrap();
        file.punch(8192, 4096).unwrap();
        assert_eq!(opened.uses(), [SideUse::Whole; 2]);
        assert_eq!(opened.repair_step().unwrap().files, 1, "it is written anew");
    });
}

/// Nothing of a file whose salt is zeros can be read, and zeros are no bytes of it.
#[test]
fn a_salt_of_zeros_is_that_of_one_side_alone() {
    on_encrypted_disk(|| {
        let [first, second] = two_disks();
        let opened = mirror(&first, &second).unwrap();
        let store = store_with(&opened, small_segments());
        let path = put_into_sealed(&store, &first);
        drop(store);
        drop(opened);
        second.overwrite(&path, 0, &[0; 4096]).unwrap();
        let opened = mirror(&first, &second).unwrap();
        let store = store_with(&opened, small_segments());
        first.stop_at(first.operations() + 1);
        put(&store, "b", "later", b"later").unwrap();
        assert_eq!(opened.uses(), [SideUse::Out, SideUse::Whole]);
        assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000], "of the second side alone");
    });
}

/// The first page of a file has its salt, without which nothing of it can be read.
#[test]
fn a_lost_salt_of_it_is_that_of_one_side_alone() {
    on_encrypted_disk(|| {
        let [first, second] = two_disks();
        let opened = mirror(&first, &second).unwrap();
        let store = store_with(&opened, small_segments());
        let path = put_into_sealed(&store, &first);
        let home = opened.home_of(&path);
        let rotten = [&first, &second][home.index()];
        let other = [&first, &second][home.other().index()];
        drop(store);
        drop(opened);
        let (log, _) = rotten.files().into_iter().rfind(|(path, _)| path.ends_with("1.log")).unwrap();
        for file in [&path, &log] {
            rotten.damage(file, 20, 0xff).unwrap();
        }
        let opened = mirror(&first, &second).unwrap();
        // A start makes the newest segments good; others are found when they are read.
        rotten.damage(&path, 20, 0xff).unwrap();
        let store = store_with(&opened, small_segments());
        assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000]);
        assert_eq!(opened.repair_step().unwrap().files, 1);
        put(&store, "b", "later", b"later").unwrap();
        other.stop_at(other.operations() + 1);
        assert_eq!(get(&store, "b", "large").unwrap(), [7; 200_000], "of that side alone");
        drop(store);
        drop(opened);
        let alone = degraded(&rotten.crash(CrashPolicy::DropAll), &SimFs::new()).unwrap();
        assert_eq!(get(&store_on(&alone), "b", "later").unwrap(), b"later");
    });
}
