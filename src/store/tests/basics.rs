use super::*;

#[test]
fn objects_of_every_size_come_back_also_after_reopening() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    let sizes = [0, 1, 65_535, 65_536, 65_537, 131_072, 131_073, 1 << 20, (16 << 20) + 5];
    for (seed, size) in sizes.into_iter().enumerate() {
        put(&store, "b", &format!("k{size}"), &bytes(seed as u64, size)).unwrap();
    }
    let check = |store: &Store| {
        for (seed, size) in sizes.into_iter().enumerate() {
            assert_eq!(get(store, "b", &format!("k{size}")).unwrap(), bytes(seed as u64, size), "{size}");
        }
    };
    check(&store);
    drop(store);
    let store = open(&fs);
    check(&store);
    store.close();
    drop(store);
    check(&open(&fs));
}

#[test]
fn ranges_are_cut_from_blocks_and_extents() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    let whole = bytes(1, (16 << 20) + 200_000);
    put(&store, "b", "k", &whole).unwrap();
    let version = store.find("b", "k", Selector::Current).unwrap().version;
    assert!(version.extents.len() > 1);
    let edges = [0, 1, 65_535, 65_536, 65_537, (16 << 20) - 1, 16 << 20, (16 << 20) + 1, whole.len()];
    for (at, from) in edges.into_iter().enumerate() {
        for to in edges[at..].iter().copied() {
            let range = from as u64..to as u64;
            assert_eq!(read_all(&store, &version, range).unwrap(), whole[from..to], "{from}..{to}");
        }
    }
}

#[test]
fn deleting_follows_the_versioning_of_the_bucket() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"first").unwrap();
    assert_eq!(
        delete(&store, "b", "k", Selector::Current),
        Ok(Deleted { delete_marker: false, version: None })
    );
    assert_eq!(get(&store, "b", "k"), Err(StoreError::NoSuchKey));

    put(&store, "b", "k", b"null").unwrap();
    store.set_versioning("b", Versioning::Enabled).unwrap();
    let written = put(&store, "b", "k", b"named").unwrap();
    assert!(!written.null);
    let marked = delete(&store, "b", "k", Selector::Current).unwrap();
    assert!(marked.delete_marker && matches!(marked.version, Some(VersionRef::Id(_))));
    assert!(store.find("b", "k", Selector::Current).unwrap().version.delete_marker);
    assert!(keys(&store, "b").is_empty());
    assert_eq!(store.find("b", "k", Selector::Null).unwrap().version.size, 4);
    assert_eq!(store.delete_bucket("b"), Err(StoreError::BucketNotEmpty));

    store.set_versioning("b", Versioning::Suspended).unwrap();
    let marked = delete(&store, "b", "k", Selector::Current).unwrap();
    assert_eq!(marked, Deleted { delete_marker: true, version: Some(VersionRef::Null) });
    assert_eq!(
        store.find("b", "k", Selector::Null).unwrap().version.size,
        0,
        "the marker took the null version's place"
    );
    let removed = delete(&store, "b", "k", Selector::Null).unwrap();
    assert_eq!(removed, Deleted { delete_marker: true, version: Some(VersionRef::Null) });
    let named = Selector::Id(written.id);
    assert_eq!(store.find("b", "k", named).unwrap().version.size, 5);
    assert!(!delete(&store, "b", "k", named).unwrap().delete_marker);
    assert_eq!(store.find("b", "k", named), Err(StoreError::NoSuchVersion));
}

#[test]
fn a_condition_is_decided_at_the_commit() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    assert_eq!(
        put_if(&store, "b", "k", b"x", WriteCondition::IfMatch("*".into())),
        Err(StoreError::NoSuchKey)
    );
    put_if(&store, "b", "k", b"x", WriteCondition::IfAbsent).unwrap();
    assert_eq!(put_if(&store, "b", "k", b"y", WriteCondition::IfAbsent), Err(StoreError::PreconditionFailed));
    let tag = ETag::Md5(Md5::of(b"x")).to_string();
    let stale = WriteCondition::IfMatch("\"0\"".into());
    assert_eq!(put_if(&store, "b", "k", b"y", stale), Err(StoreError::PreconditionFailed));
    put_if(&store, "b", "k", b"y", WriteCondition::IfMatch(tag.trim_matches('"').into())).unwrap();
    assert_eq!(get(&store, "b", "k").unwrap(), b"y");
}

#[test]
fn of_many_who_race_for_an_absent_key_one_wins() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    for round in 0..50 {
        let key = format!("k{round}");
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..4u8)
                .map(|racer| {
                    scope.spawn({
                        let store = &store;
                        let key = &key;
                        move || put_if(store, "b", key, &[racer], WriteCondition::IfAbsent)
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        let winner = outcomes.iter().position(Result::is_ok).expect("somebody wins");
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        assert_eq!(get(&store, "b", &key).unwrap(), [winner as u8]);
    }
}

#[test]
fn a_bucket_made_again_is_another_one() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    let mut writer = store.writer("b", "k", None).unwrap();
    writer.write(bytes(1, 200_000)).unwrap();
    store.delete_bucket("b").unwrap();
    store.create_bucket("b", "admin").unwrap();
    assert_eq!(writer.commit(commit_of(b"")), Err(StoreError::NoSuchBucket));
    assert!(keys(&store, "b").is_empty());
    assert_eq!(store.create_bucket("b", "other"), Err(StoreError::BucketExists { owner: "admin".into() }));
}

#[test]
fn the_last_group_of_a_version_is_not_before_its_commit_however_long_that_took() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    let last_of = |key: &str| {
        let version = store.find("b", key, Selector::Current).unwrap().version;
        store.last_group_of(version.id)
    };
    // Large, so that it has its id before its commit.
    let mut slow = store.writer("b", "slow", Some(200_000)).unwrap();
    slow.write(bytes(1, 200_000)).unwrap();
    put(&store, "b", "first", b"x").unwrap();
    let first = store.published_sequence();
    assert_eq!(last_of("first"), first);
    put(&store, "b", "second", b"x").unwrap();
    assert_eq!(last_of("first"), first, "a later version says nothing of an earlier one");
    slow.commit(commit_of(&bytes(1, 200_000))).unwrap();
    assert_eq!(last_of("slow"), store.published_sequence());
    let known = store.find("b", "slow", Selector::Current).unwrap().version.id;
    drop(store);
    let store = open(&fs);
    assert!(store.last_group_of(known) >= first + 2, "after a start it may be any group until then");
}

#[test]
fn an_abandoned_writer_leaves_nothing_to_be_seen() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    let mut writer = store.writer("b", "k", Some(300_000)).unwrap();
    writer.write(bytes(1, 200_000)).unwrap();
    drop(writer);
    put(&store, "b", "j", &bytes(2, 100_000)).unwrap();
    drop(store);
    assert_eq!(keys(&open(&fs), "b"), ["j"]);
}

#[test]
fn bytes_that_are_handed_over_with_their_memory_stand_behind_those_before() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    let all = bytes(4, 150_000);
    // In a pack, over its limit with the second piece, and beyond it from the start.
    for (first, end) in
        [(0, 0), (0, 9), (7, 9), (0, 65_536), (40_000, 65_536), (40_000, 70_000), (0, 150_000)]
    {
        let mut writer = store.writer("b", "k", None).unwrap();
        writer.write(&all[..first]).unwrap();
        writer.write(all[first..end].to_vec()).unwrap();
        writer.commit(commit_of(&all[..end])).unwrap();
        assert!(get(&store, "b", "k").unwrap() == all[..end], "{first} of {end}");
    }
}

#[test]
fn a_writer_knows_the_crc_of_what_it_took_however_it_came() {
    let store = open(&SimFs::new());
    store.create_bucket("b", "admin").unwrap();
    for size in [0, 100, 65_536, 65_537, 500_000, (16 << 20) + 70_000] {
        let all = bytes(3, size);
        for expected in [Some(size as u64), None] {
            let mut writer = store.writer("b", "k", expected).unwrap();
            all.chunks(77_777).for_each(|piece| writer.write(piece).unwrap());
            assert_eq!(writer.crc32(), crate::base::digest::Crc32::of(&all), "{size}");
            writer.commit(commit_of(&all)).unwrap();
            assert_eq!(get(&store, "b", "k").unwrap(), all);
        }
    }
}

#[test]
fn what_is_read_at_each_start_counts_towards_the_next_checkpoint() {
    let fs = SimFs::new();
    let options = StoreOptions { checkpoint_after_bytes: 200_000, ..options() };
    let log_bytes = || fs.files().iter().filter(|(path, _)| path.ends_with(".log")).map(|(_, len)| len).sum();
    open_with(&fs, options).unwrap().create_bucket("b", "admin").unwrap();
    let mut most: u64 = 0;
    for round in 0..20 {
        // It ends as by a crash, each time long before the log has grown enough.
        let store = open_with(&fs, options).unwrap();
        (0..20).for_each(|at| assert!(put(&store, "b", &format!("{round}-{at}"), b"").is_ok()));
        drop(store);
        most = most.max(log_bytes());
    }
    // What two checkpoints cover, what has been written since, and the zeros of each file.
    assert!(most < 3 * 200_000 + 4 * 270_000, "the log had {most} bytes");
    assert!(fs.files().iter().any(|(path, _)| path.ends_with(".checkpoint")));
}
