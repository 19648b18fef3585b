//! Each prepared fault of a host is named by its check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use siltstone::base::Timestamp;
use siltstone::format::{RemoteMark, StoreId};
use siltstone::fs::{MemoryLimit, MemoryLimitSource, Mount, mount_of};

use super::facts::{
    BackupFacts, HostFacts, KeysFacts, ServerProcess, SidesFacts, Space, StoreFacts, StoreKeyFacts,
};
use super::gather::figures_of;
use super::inside::{examine, examine_figures};
use super::remote::{RemoteFacts, judge};

const GIB: u64 = 1 << 30;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn now() -> Timestamp {
    Timestamp::parse_iso8601("2026-01-31T12:00:00.000Z").unwrap()
}

fn before(time: Duration) -> Timestamp {
    Timestamp::from_millis(now().as_millis() - u64::try_from(time.as_millis()).unwrap())
}

fn healthy() -> HostFacts {
    let options = ["rw", "noatime", "errors=remount-ro"].map(str::to_owned).into();
    HostFacts {
        now: now(),
        dir: PathBuf::from("/srv/objects"),
        mount: Mount {
            root: "/".into(),
            point: "/srv".into(),
            kind: "ext4".to_owned(),
            options,
            ..Mount::default()
        },
        sync_micros: Some(900),
        space: Space {
            free_bytes: 50 * GIB,
            total_bytes: 100 * GIB,
            free_inodes: 90_000,
            total_inodes: 100_000,
        },
        owner: 1000,
        mode: 0o40700,
        foreign_file: None,
        open_secrets: vec![],
        keys: Some(KeysFacts { file: "/etc/siltstone/keys.toml".into(), ..KeysFacts::default() }),
        store_key: Some(StoreKeyFacts { file: Some("/media/store.key".into()), ..StoreKeyFacts::default() }),
        server: Some(ServerProcess {
            pid: 7,
            user: 1000,
            keys_file: None,
            store_key_file: None,
            files_max: Some(65_536),
            memory_limit: Some(MemoryLimit { bytes: 4 * GIB, source: MemoryLimitSource::Machine }),
            memory_max: Some(GIB),
            index_max: Some(2 * GIB),
        }),
        backup: Some(BackupFacts { dir: "/mnt/b".into(), made: Some(before(DAY)), on_same_disk: false }),
        store: StoreFacts {
            checkpoint: Some(before(DAY)),
            groups_behind: 10,
            log_bytes: 4 * GIB,
            ..StoreFacts::default()
        },
        sides: Some(SidesFacts { dirs: ["/srv/one".into(), "/srv/two".into()], ..SidesFacts::default() }),
    }
}

/// The checks that find something after a change of the facts.
fn named(change: impl FnOnce(&mut HostFacts)) -> Vec<&'static str> {
    let mut facts = healthy();
    change(&mut facts);
    examine(&facts).iter().map(|finding| finding.check).collect()
}

#[test]
fn sides_that_do_not_protect_each_other_are_named() {
    let with = |change: fn(&mut SidesFacts)| named(|facts| change(facts.sides.as_mut().unwrap()));
    assert_eq!(with(|_| ()), [""; 0]);
    assert_eq!(with(|sides| sides.share_disk = true), ["side-disks"]);
    assert_eq!(with(|sides| sides.witness_on_side = Some("/srv/one/w".into())), ["side-disks"]);
    assert_eq!(with(|sides| sides.incomplete = Some("/srv/two".into())), ["sides"]);
    assert_eq!(with(|sides| sides.refusal = Some("apart".to_owned())), ["sides"]);
    assert_eq!(with(|sides| sides.unequal = vec!["users.toml"]), ["side-files"]);
}

fn server(facts: &mut HostFacts) -> &mut ServerProcess {
    facts.server.as_mut().unwrap()
}

fn store_key(facts: &mut HostFacts) -> &mut StoreKeyFacts {
    facts.store_key.as_mut().unwrap()
}

fn keys(facts: &mut HostFacts) -> &mut KeysFacts {
    facts.keys.as_mut().unwrap()
}

#[test]
fn a_healthy_host_has_no_findings() {
    assert_eq!(named(|_| {}), Vec::<&str>::new());
    assert_eq!(named(|facts| facts.server = None), Vec::<&str>::new());
    assert_eq!(named(|facts| server(facts).user = 0), Vec::<&str>::new(), "root may use any directory");
    assert_eq!(named(|facts| facts.backup = None), Vec::<&str>::new());
    assert_eq!(named(|facts| facts.space.total_inodes = 0), Vec::<&str>::new(), "btrfs tells none");
}

#[test]
fn each_fault_of_a_host_is_named_alone() {
    assert_eq!(named(|facts| facts.mount.kind = "tmpfs".into()), ["file-system"]);
    assert_eq!(named(|facts| facts.mount.kind = "nfs4".into()), ["file-system"]);
    assert_eq!(named(|facts| facts.mount.kind = "fuse.sshfs".into()), ["file-system"]);
    assert_eq!(named(|facts| facts.mount.options.push("nobarrier".into())), ["mount-options"]);
    assert_eq!(named(|facts| facts.mount.options = vec!["ro".into()]), ["mount-options"]);
    assert_eq!(named(|facts| facts.sync_micros = Some(3)), ["sync-free"]);
    assert_eq!(named(|facts| facts.sync_micros = Some(400_000)), ["sync-slow"]);
    assert_eq!(named(|facts| facts.space.free_bytes = GIB), ["space"]);
    assert_eq!(named(|facts| facts.space.free_inodes = 3), ["inodes"]);
    assert_eq!(named(|facts| server(facts).files_max = Some(1024)), ["descriptors"]);
    assert_eq!(named(|facts| server(facts).memory_max = Some(3 * GIB)), ["memory"]);
    assert_eq!(named(|facts| facts.owner = 0), ["owner"]);
    assert_eq!(named(|facts| facts.foreign_file = Some(("/srv/objects/LOCK".into(), 0))), ["owner"]);
    assert_eq!(named(|facts| facts.mode = 0o40777), ["permissions"]);
    assert_eq!(named(|facts| facts.open_secrets.push(("/u".into(), 0o100_644))), ["secrets"]);
    assert_eq!(named(|facts| keys(facts).unreadable = Some("line 1".into())), ["keys"]);
    assert_eq!(named(|facts| keys(facts).on_same_disk = true), ["keys"]);
    assert_eq!(named(|facts| keys(facts).without_copy.push("20260131-1".into())), ["keys"]);
    assert_eq!(named(|facts| facts.keys = None), Vec::<&str>::new());
    assert_eq!(named(|facts| store_key(facts).is_inside = true), ["store-key"]);
    assert_eq!(named(|facts| store_key(facts).on_same_disk = true), ["store-key"]);
    assert_eq!(named(|facts| store_key(facts).fault = Some("KEYS: it is missing".into())), ["store-key"]);
    assert_eq!(named(|facts| store_key(facts).file = None), Vec::<&str>::new());
    assert_eq!(named(|facts| facts.store_key = None), Vec::<&str>::new());
    assert_eq!(named(|facts| facts.backup.as_mut().unwrap().made = Some(before(30 * DAY))), ["backup"]);
    assert_eq!(named(|facts| facts.backup.as_mut().unwrap().made = None), ["backup"]);
    assert_eq!(named(|facts| facts.backup.as_mut().unwrap().on_same_disk = true), ["backup"]);
    assert_eq!(named(|facts| facts.store.checkpoint = Some(before(60 * DAY))), ["checkpoint"]);
    assert_eq!(named(|facts| facts.store.damage.push("a file".into())), ["store"]);
    assert_eq!(named(|facts| facts.store.unreadable = Some("no store".into())), ["store"]);
}

#[test]
fn findings_name_the_line_to_change() {
    let mut facts = healthy();
    facts.owner = 0;
    facts.open_secrets = vec![("/srv/objects/users.toml".into(), 0o100_644)];
    let changes: Vec<_> = examine(&facts).into_iter().map(|finding| finding.change).collect();
    assert_eq!(changes, ["chown -R 1000 /srv/objects", "chmod 600 /srv/objects/users.toml"]);
}

#[test]
fn each_fault_in_the_metrics_is_named_alone() {
    let named = |page: &str| -> Vec<_> {
        examine_figures(&figures_of(page), now()).iter().map(|finding| finding.check).collect()
    };
    let scrubbed = |days: u32| {
        let secs = before(days * DAY).as_secs();
        format!("siltstone_store_live_bytes 5\nsiltstone_scrub_finished_timestamp_seconds {secs}\n")
    };
    assert_eq!(named(""), Vec::<&str>::new());
    assert_eq!(figures_of(&scrubbed(1)).live_bytes, Some(5.0));
    assert_eq!(named(&scrubbed(1)), Vec::<&str>::new());
    assert_eq!(named(&scrubbed(60)), ["scrub"]);
    assert_eq!(
        named("siltstone_store_live_bytes 0\nsiltstone_scrub_finished_timestamp_seconds 0\n"),
        Vec::<&str>::new()
    );
    assert_eq!(named("siltstone_scrub_bad_extents 1\n"), ["damage"]);
    assert_eq!(named("siltstone_repair_segments_total 1\n"), ["repair"]);
    assert_eq!(named("siltstone_repair_waiting_segments 1\n"), ["repair"]);
    assert_eq!(named("siltstone_repair_log_files_total 1\n"), ["repair"]);
    assert_eq!(named("siltstone_store_read_only 1\n"), ["read-only"]);
    assert_eq!(named("siltstone_ship_lag_seconds 3600\n"), ["remote"]);
    let probed = |days: u32| {
        named(&format!("siltstone_remote_probe_timestamp_seconds {}\n", before(days * DAY).as_secs()))
    };
    assert_eq!(probed(9), Vec::<&str>::new());
    assert_eq!(probed(20), ["remote-probe"]);
    assert_eq!(named("siltstone_remote_unfit{mode=\"tier\"} 1\n"), ["remote-probe"]);
    assert_eq!(named("siltstone_remote_unfit{mode=\"takeover\"} 1\n"), ["remote-probe"]);
    let unknown = "siltstone_remote_unfit{mode=\"takeover\"} 0\nsiltstone_remote_probe_timestamp_seconds 0\n";
    assert_eq!(named(unknown), Vec::<&str>::new());
    assert_eq!(named("siltstone_clock_behind_seconds 90\n"), ["clock-behind"]);
    assert_eq!(named("siltstone_clock_held 1\n"), ["clock-held"]);
    assert_eq!(named("siltstone_keys_missing 1\n"), ["keys-missing"]);
    assert_eq!(named("siltstone_keys_missing 0\n"), Vec::<&str>::new());
    assert_eq!(named("siltstone_bucket_logs_failing 2\n"), ["bucket-logs"]);
    assert_eq!(named("siltstone_bucket_log_lost_records_total 7\n"), Vec::<&str>::new());
    assert_eq!(
        named("siltstone_memory_index_bytes 95\nsiltstone_memory_index_max_bytes 100\n"),
        ["memory-refused"]
    );
}

#[test]
fn the_mount_of_a_directory_is_the_closest_above_it() {
    let lines = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
                 30 22 8:2 / /srv rw,noatime - xfs /dev/sdb1 rw,nobarrier\n\
                 31 22 0:5 / /srv/ob rw - tmpfs tmpfs rw\n\
                 32 22 0:6 / /my\\040disk ro - nfs4 host:/ rw\nno mount\n";
    assert_eq!(mount_of(lines, Path::new("/srv/objects")).kind, "xfs");
    assert!(mount_of(lines, Path::new("/srv/objects")).options.contains(&"nobarrier".to_owned()));
    assert_eq!(mount_of(lines, Path::new("/home")).kind, "ext4");
    assert_eq!(mount_of(lines, Path::new("/my disk/a")).kind, "nfs4");
}

/// A remote without faults.
fn good_remote() -> RemoteFacts {
    let store = StoreId([7; 16]);
    RemoteFacts {
        now: now(),
        name: "cold/box of http://127.0.0.1:9000".to_owned(),
        listing: (200, String::new(), String::new()),
        mark: Ok(Some(RemoteMark { store, made: before(400 * DAY), decides_races: true })),
        store: Some(store),
        is_versioned: Some(false),
        lifecycle_rules: Some(0),
        heartbeat: Some(before(DAY / 1000)),
        has_log: true,
    }
}

/// The checks that find something after a change of the facts.
fn named_of_remote(change: impl FnOnce(&mut RemoteFacts)) -> Vec<&'static str> {
    let mut facts = good_remote();
    change(&mut facts);
    judge(&facts).iter().map(|finding| finding.check).collect()
}

#[test]
fn a_good_remote_has_no_findings() {
    assert_eq!(named_of_remote(|_| {}), Vec::<&str>::new());
    assert_eq!(named_of_remote(|facts| facts.store = None), Vec::<&str>::new());
    let asks_nothing = |facts: &mut RemoteFacts| (facts.is_versioned, facts.lifecycle_rules) = (None, None);
    assert_eq!(named_of_remote(asks_nothing), Vec::<&str>::new(), "a user who may not ask");
    let without_log = |facts: &mut RemoteFacts| (facts.has_log, facts.heartbeat) = (false, None);
    assert_eq!(named_of_remote(without_log), Vec::<&str>::new());
}

#[test]
fn each_fault_of_a_remote_is_named_alone() {
    let refused = |status: u16, code: &str| {
        named_of_remote(|facts| facts.listing = (status, code.to_owned(), String::new()))
    };
    assert_eq!(refused(404, "NoSuchBucket"), ["remote-bucket"]);
    assert_eq!(refused(403, "InvalidAccessKeyId"), ["remote-keys"]);
    assert_eq!(refused(403, "SignatureDoesNotMatch"), ["remote-keys"]);
    assert_eq!(refused(403, "AccessDenied"), ["remote-keys"]);
    assert_eq!(refused(400, "AuthorizationHeaderMalformed"), ["remote-keys"]);
    assert_eq!(refused(403, "RequestTimeTooSkewed"), ["remote-clock"]);
    assert_eq!(refused(502, ""), ["remote-reach"]);
    assert_eq!(named_of_remote(|facts| facts.store = Some(StoreId([8; 16]))), ["remote-mark"]);
    assert_eq!(named_of_remote(|facts| facts.mark = Ok(None)), ["remote-mark"]);
    assert_eq!(named_of_remote(|facts| facts.mark = Err("encrypted".to_owned())), ["remote-mark"]);
    assert_eq!(named_of_remote(|facts| facts.is_versioned = Some(true)), ["remote-versions"]);
    assert_eq!(named_of_remote(|facts| facts.lifecycle_rules = Some(1)), ["remote-lifecycle"]);
    assert_eq!(named_of_remote(|facts| facts.heartbeat = Some(before(DAY))), ["remote-alive"]);
    assert_eq!(named_of_remote(|facts| facts.heartbeat = None), ["remote-alive"]);
}
