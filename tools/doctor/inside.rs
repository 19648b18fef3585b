//! Checks of a host and a data directory: functions of facts alone.

use std::time::Duration;

use bytesize::ByteSize;
use siltstone::base::Timestamp;

use super::facts::{HostFacts, KeysFacts, ServerFigures, ServerProcess, SidesFacts, StoreKeyFacts};
use super::finding::Finding;

/// File systems over a network, or of a virtual machine's host.
const REMOTE_KINDS: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "glusterfs", "afs"];
/// File systems that end with the machine or the container.
const VOLATILE_KINDS: [&str; 4] = ["tmpfs", "ramfs", "overlay", "aufs"];
/// Mount options that let a disk lose what was synced.
const UNSAFE_OPTIONS: [&str; 6] =
    ["nobarrier", "barrier=0", "data=writeback", "nointegrity", "norecovery", "noload"];
/// The longest median of a sync that no disk reaches.
const SYNC_FREE_MICROS: u64 = 15;
/// The median of a sync above which small puts are slow.
const SYNC_SLOW_MICROS: u64 = 100_000;
/// Free space that is too little: less than this, or than one in `FREE_SHARE`.
const FREE_MIN_BYTES: u64 = 2 << 30;
const FREE_SHARE: u64 = 20;
const FREE_INODES_MIN: u64 = 1_000;
/// The connections that are open by default, and the segments and files beside them.
const FILES_MIN: u64 = 10_240;
const BACKUP_OLD: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const SCRUB_OLD: Duration = Duration::from_secs(45 * 24 * 60 * 60);
/// A log that a start reads in seconds.
const LOG_LONG_BYTES: u64 = 2 << 30;
const CHECKPOINT_OLD: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The age of a probe of the remote that the interval of a week does not explain.
const PROBE_OLD: Duration = Duration::from_secs(15 * 24 * 60 * 60);
/// A lag of the log on the remote that an interruption does not explain.
const SHIP_LAG_SECS: f64 = 600.0;

/// The names of the checks of a host.
pub(super) const HOST_CHECKS: [&str; 19] = [
    "file-system",
    "mount-options",
    "sync-free",
    "sync-slow",
    "space",
    "inodes",
    "descriptors",
    "memory",
    "owner",
    "permissions",
    "secrets",
    "keys",
    "store-key",
    "backup",
    "checkpoint",
    "store",
    "sides",
    "side-disks",
    "side-files",
];
/// The names of the checks of a server's metrics.
pub(super) const FIGURE_CHECKS: [&str; 11] = [
    "scrub",
    "damage",
    "repair",
    "read-only",
    "remote",
    "remote-probe",
    "clock-behind",
    "clock-held",
    "memory-refused",
    "keys-missing",
    "bucket-logs",
];

/// The findings of a host.
pub(super) fn examine(facts: &HostFacts) -> Vec<Finding> {
    let mut findings: Vec<_> = [
        file_system(facts),
        mount_options(facts),
        sync_time(facts),
        space(facts),
        inodes(facts),
        owner(facts),
        permissions(facts),
        backup(facts),
        checkpoint(facts),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.extend(secrets(facts));
    findings.extend(facts.keys.iter().flat_map(keys));
    findings.extend(facts.store_key.iter().flat_map(|store_key| self::store_key(store_key, facts)));
    findings.extend(store(facts));
    findings.extend(facts.sides.iter().flat_map(sides));
    if let Some(server) = &facts.server {
        findings.extend([descriptors(server), memory(server)].into_iter().flatten());
    }
    findings
}

fn file_system(facts: &HostFacts) -> Option<Finding> {
    let kind = &facts.mount.kind;
    let dir = facts.dir.display();
    if VOLATILE_KINDS.contains(&&**kind) {
        let what = format!("{dir} is on {kind}, whose contents end with the machine or the container");
        return Some(Finding::error(
            "file-system",
            what,
            "move it to a disk: --data-dir, or a volume of the container (-v NAME:/data)",
        ));
    }
    let remote = REMOTE_KINDS.contains(&&**kind) || kind.starts_with("fuse");
    let what =
        format!("{dir} is on {kind}: locks and syncs are those of another host, which may confirm too early");
    remote.then(|| {
        Finding::warning("file-system", what, "use a local disk (ext4, xfs, btrfs, zfs) as --data-dir")
    })
}

fn mount_options(facts: &HostFacts) -> Option<Finding> {
    let point = facts.mount.point.display();
    if facts.mount.options.iter().any(|option| option == "ro") {
        let what = format!("{point} is mounted read-only");
        return Some(Finding::error(
            "mount-options",
            what,
            format!("look for disk errors (dmesg), then: mount -o remount,rw {point}"),
        ));
    }
    let bad: Vec<_> =
        facts.mount.options.iter().filter(|option| UNSAFE_OPTIONS.contains(&&***option)).collect();
    let bad = bad.iter().map(|option| option.as_str()).collect::<Vec<_>>().join(",");
    let what = format!("{point} is mounted with {bad}: a power failure loses what was synced");
    (!bad.is_empty()).then(|| {
        Finding::error("mount-options", what, format!("remove {bad} from the line of {point} in /etc/fstab"))
    })
}

fn sync_time(facts: &HostFacts) -> Option<Finding> {
    let Some(micros) = facts.sync_micros else {
        let what = format!("nothing can be written to {}", facts.dir.display());
        return Some(Finding::warning("sync-slow", what, "run doctor as the user of the server"));
    };
    if micros <= SYNC_FREE_MICROS {
        let what =
            format!("a sync takes {micros} us, which no disk needs: a layer below confirms without writing");
        let change = "zfs set sync=standard; cache=none or writethrough of the virtual disk; no libeatmydata; write cache of the RAID controller with a battery";
        return Some(Finding::error("sync-free", what, change));
    }
    let what = format!("a sync takes {} ms, and each put waits for one or two", micros / 1_000);
    (micros >= SYNC_SLOW_MICROS).then(|| {
        Finding::warning(
            "sync-slow",
            what,
            "use an SSD, ideally with power loss protection, or a quieter disk",
        )
    })
}

fn space(facts: &HostFacts) -> Option<Finding> {
    let free = facts.space.free_bytes;
    let total = facts.space.total_bytes;
    let what = format!("{} of {} are free", ByteSize(free), ByteSize(total));
    let change = "delete objects or other files, enlarge the file system, or set a remote and --local-max";
    match free {
        _ if free < FREE_MIN_BYTES.min(total / 10) => Some(Finding::error("space", what, change)),
        _ if free < total / FREE_SHARE => Some(Finding::warning("space", what, change)),
        _ => None,
    }
}

fn inodes(facts: &HostFacts) -> Option<Finding> {
    let free = facts.space.free_inodes;
    let total = facts.space.total_inodes;
    let few = total > 0 && free < FREE_INODES_MIN.min(total / 10);
    let what = format!("{free} of {total} inodes are free, and each segment needs one");
    few.then(|| {
        Finding::error("inodes", what, "remove small files (df -i), or make the file system with more inodes")
    })
}

fn descriptors(server: &ServerProcess) -> Option<Finding> {
    let limit = server.files_max.filter(|limit| *limit < FILES_MIN)?;
    let what = format!("the server may open {limit} files, which leaves few connections and segments");
    Some(Finding::warning(
        "descriptors",
        what,
        "LimitNOFILE=65536 in the unit, ulimits: nofile: 65536 in the container, or ulimit -Hn 65536",
    ))
}

/// The options, if both are set, must fit into the limit. Defaults are made to fit.
fn memory(server: &ServerProcess) -> Option<Finding> {
    let limit = server.memory_limit.as_ref()?;
    let planned = server.memory_max.unwrap_or_default().saturating_add(server.index_max.unwrap_or_default());
    let allowed = ByteSize(limit.bytes);
    let what = format!(
        "--memory-max and --index-max add up to {}, and the limit is {allowed} ({})",
        ByteSize(planned),
        limit.source
    );
    let change = format!("lower them below {allowed}, or {}", limit.source.remedy());
    (planned > limit.bytes).then(|| Finding::error("memory", what, change))
}

fn owner(facts: &HostFacts) -> Option<Finding> {
    let dir = facts.dir.display();
    let user = facts.server.as_ref().map_or(facts.owner, |server| server.user);
    if user != facts.owner && user != 0 {
        let what = format!("{dir} belongs to uid {}, and the server runs as uid {user}", facts.owner);
        return Some(Finding::error("owner", what, format!("chown -R {user} {dir}")));
    }
    let (file, other) = facts.foreign_file.as_ref()?;
    let what = format!("{} belongs to uid {other}, and its directory to uid {}", file.display(), facts.owner);
    Some(Finding::error("owner", what, format!("chown -R {} {dir}", facts.owner)))
}

fn permissions(facts: &HostFacts) -> Option<Finding> {
    let dir = facts.dir.display();
    let mode = facts.mode & 0o7777;
    let what = format!("others may write to {dir} (mode {mode:o})");
    (mode & 0o022 != 0).then(|| Finding::error("permissions", what, format!("chmod 700 {dir}")))
}

fn secrets(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, mode) in &facts.open_secrets {
        let file = file.display();
        let mode = mode & 0o7777;
        let what = format!("others may read or write {file} (mode {mode:o}), which holds secrets");
        findings.push(Finding::error("secrets", what, format!("chmod 600 {file}")));
    }
    findings
}

fn keys(keys: &KeysFacts) -> Vec<Finding> {
    let file = keys.file.display();
    if let Some(why) = &keys.unreadable {
        let what = format!("the keys of encrypted objects cannot be read: {why}");
        let change = format!("siltstone-tools key check {file}, or put a copy back");
        return vec![Finding::error("keys", what, change)];
    }
    let on_same_disk = keys.on_same_disk.then(|| {
        let what = format!(
            "{file} is on the disk of the data: who takes the disk has the keys of encrypted objects"
        );
        Finding::note(
            "keys",
            what,
            "keep it on another disk or as a credential of systemd (--keys-file), if that matters",
        )
    });
    let without_copy = (!keys.without_copy.is_empty()).then(|| {
        let what = format!("no copy of these keys was seen: {}", keys.without_copy.join(", "));
        let change = format!(
            "copy {file} to another place, then: siltstone-tools key confirm COPY --keys-file {file}"
        );
        Finding::note("keys", what, change)
    });
    on_same_disk.into_iter().chain(without_copy).collect()
}

fn store_key(store_key: &StoreKeyFacts, facts: &HostFacts) -> Vec<Finding> {
    let dir = facts.dir.display();
    let mut findings = Vec::new();
    if let Some(fault) = &store_key.fault {
        let what = format!("{fault}; without the other one nothing in {dir} can be read");
        let change =
            format!("siltstone-tools --data-dir {dir} --store-key-file FILE {}", store_key.mending_command);
        findings.push(Finding::error("store-key", what, change));
    }
    let Some(file) = store_key.file.as_ref().map(|file| file.display()) else { return findings };
    if store_key.is_inside {
        let what = format!("{file} is in the data directory that it opens, where it protects nothing");
        let change = format!("move it to another disk, and change --store-key-file {file}");
        findings.push(Finding::error("store-key", what, change));
    } else if store_key.on_same_disk {
        let what = format!("{file} is on the disk of the data: who takes the disk opens the data directory");
        let change = format!(
            "move it to another disk or into a credential of systemd, and change --store-key-file {file}"
        );
        findings.push(Finding::warning("store-key", what, change));
    }
    findings
}

fn backup(facts: &HostFacts) -> Option<Finding> {
    let backup = facts.backup.as_ref()?;
    let dir = backup.dir.display();
    let command = format!("run each day: siltstone-tools --data-dir {} backup {dir}", facts.dir.display());
    let Some(made) = backup.made else {
        return Some(Finding::error("backup", format!("{dir} has no complete backup"), command));
    };
    if facts.now.since(made) > BACKUP_OLD {
        return Some(Finding::error("backup", format!("the backup in {dir} is of {made}"), command));
    }
    let what = format!("the backup in {dir} is on the same disk as the data");
    backup.on_same_disk.then(|| Finding::warning("backup", what, "back up to another disk or host"))
}

fn checkpoint(facts: &HostFacts) -> Option<Finding> {
    let store = &facts.store;
    let old =
        store.checkpoint.is_none_or(|made| facts.now.since(made) > CHECKPOINT_OLD) && store.groups_behind > 0;
    let made = store
        .checkpoint
        .map_or_else(|| "there is none".to_owned(), |made| format!("the newest is of {made}"));
    let what =
        format!("a start has to read {} of log after the last checkpoint; {made}", ByteSize(store.log_bytes));
    let change = "let the server run and stop it by SIGTERM with time enough (--shutdown-timeout, TimeoutStopSec=), and see its log";
    (old && store.log_bytes > LOG_LONG_BYTES).then(|| Finding::warning("checkpoint", what, change))
}

fn sides(sides: &SidesFacts) -> Vec<Finding> {
    let [one, other] = &sides.dirs;
    let mut findings = Vec::new();
    if let Some(refusal) = &sides.refusal {
        let what = format!("a start is refused: {refusal}");
        findings.push(Finding::error("sides", what, "see the guide, disks: a side is missing or comes back"));
    }
    if let Some(side) = &sides.incomplete {
        let what = format!("the side {} is missing, or lacks what the other one has", side.display());
        let change = "bring its disk back and restart the server, which fills it; a lost one: siltstone-tools disk replace";
        findings.push(Finding::warning("sides", what, change));
    }
    if sides.share_disk {
        let what =
            format!("{} and {} are on one disk: both are lost with it", one.display(), other.display());
        findings.push(Finding::error("side-disks", what, "move one of them to another disk"));
    }
    if let Some(witness) = &sides.witness_on_side {
        let what = format!("{} is on the disk of a side, and is lost with that", witness.display());
        findings.push(Finding::warning("side-disks", what, "--pair-witness: a file on a third disk"));
    }
    if !sides.unequal.is_empty() {
        let what = format!("{} differs between the sides, or is on one alone", sides.unequal.join(" and "));
        findings.push(Finding::warning("side-files", what, "restart the server: it copies the newer one"));
    }
    findings
}

fn store(facts: &HostFacts) -> Vec<Finding> {
    let dir = facts.dir.display();
    let unreadable = facts.store.unreadable.iter().map(|why| {
        Finding::error(
            "store",
            format!("{dir} cannot be read: {why}"),
            "correct --data-dir, or restore a backup",
        )
    });
    let damage = facts.store.damage.iter().map(|damage| {
        let change =
            format!("stop the server, run siltstone-tools --data-dir {dir} verify, and restore a backup");
        Finding::error("store", format!("damage: {damage}"), change)
    });
    unreadable.chain(damage).collect()
}

/// The findings of a running server.
pub(super) fn examine_figures(figures: &ServerFigures, now: Timestamp) -> Vec<Finding> {
    let above = |value: Option<f64>, bound: f64| value.is_some_and(|value| value > bound);
    let mut findings = Vec::new();
    if above(figures.bad_extents, 0.0) || above(figures.damaged_places, 0.0) {
        let change =
            "stop the server, run siltstone-tools verify, and restore a backup of the objects that it names";
        findings.push(Finding::error("damage", "the server has found damage", change));
    }
    if above(figures.repaired_segments, 0.0) || above(figures.repair_waiting, 0.0) {
        findings.push(Finding::warning(
            "repair",
            "the disk had bad bytes, which the remote served in their place",
            "look at the disk: smartctl -a, the kernel's log; GET /-/api/1/state lists the files",
        ));
    }
    if above(figures.replaced_log_files, 0.0) {
        findings.push(Finding::warning(
            "repair",
            "the log or a checkpoint was damaged, and a new checkpoint has replaced it",
            "look at the disk: smartctl -a, the kernel's log; GET /-/api/1/state lists the files",
        ));
    }
    if above(figures.read_only, 0.0) {
        findings.push(Finding::error(
            "read-only",
            "the store takes no writes",
            "see the log of the server, check the disk, restart",
        ));
    }
    let scrubbed = figures.scrub_finished.map(|secs| Timestamp::from_millis((secs * 1_000.0) as u64));
    if above(figures.live_bytes, 0.0) && scrubbed.is_some_and(|end| now.since(end) > SCRUB_OLD) {
        let what = match scrubbed.filter(|end| end.as_millis() > 0) {
            Some(end) => format!("the last scrub ended at {end}"),
            None => "no scrub has ended since the start of the server".to_owned(),
        };
        findings.push(Finding::note("scrub", what, "raise --scrub-rate, so that a pass ends within weeks"));
    }
    if above(figures.ship_lag, SHIP_LAG_SECS) {
        let what = format!(
            "the remote has not had the whole log for {} seconds",
            figures.ship_lag.unwrap_or_default()
        );
        findings.push(Finding::error(
            "remote",
            what,
            "siltstone-tools remote probe; see the section [remote] and upload_rate",
        ));
    }
    findings.extend(remote_probe(figures, now));
    if above(figures.clock_behind, 60.0) {
        let what = "the clock is behind the lock clock";
        findings.push(Finding::warning("clock-behind", what, "timedatectl set-ntp true"));
    }
    if above(figures.clock_held, 0.0) {
        let what = "the clock jumped ahead, so that nothing expires by its age";
        findings.push(Finding::warning(
            "clock-held",
            what,
            "timedatectl set-ntp true, or siltstone clock accept",
        ));
    }
    if above(figures.keys_missing, 0.0) {
        findings.push(Finding::error(
            "keys-missing",
            "the key ring lacks keys of encrypted objects, which cannot be read: siltstone key uses names them",
            "put keys.toml back from its copy, or name it by --keys-file; then SIGHUP (systemctl reload siltstone)",
        ));
    }
    if above(figures.bucket_logs_failing, 0.0) {
        let lost = figures.lost_log_records.unwrap_or_default();
        findings.push(Finding::warning(
            "bucket-logs",
            format!("the access logs of some buckets cannot be delivered; {lost} records were dropped so far"),
            "the server's log names the buckets and why: make the target again, raise its quota, or aws s3api put-bucket-logging",
        ));
    }
    let index_full =
        figures.index_bytes.zip(figures.index_max_bytes).is_some_and(|(used, max)| used > max * 0.9);
    if above(figures.memory_refused, 0.0) || index_full {
        let what = "requests were refused for lack of memory, or the index is nearly full";
        findings.push(Finding::warning("memory-refused", what, "raise --memory-max or --index-max"));
    }
    findings
}

/// The outcome of the last probe of the remote, and its age.
fn remote_probe(figures: &ServerFigures, now: Timestamp) -> Option<Finding> {
    let change =
        "siltstone-tools remote probe says why; look for an upgrade of the remote, or a proxy in front of it";
    if figures.remote_unfit_for_tier.is_some_and(|value| value > 0.0) {
        return Some(Finding::error("remote-probe", "the remote does not keep what is sent there", change));
    }
    if figures.remote_unfit_for_takeover.is_some_and(|value| value > 0.0) {
        let what = "the remote does not decide between two hosts, so that --takeover-after is not safe";
        return Some(Finding::warning("remote-probe", what, change));
    }
    let probed = figures.remote_probed.filter(|secs| *secs > 0.0);
    let probed = probed.map(|secs| Timestamp::from_millis((secs * 1_000.0) as u64))?;
    let what = format!("the last probe of the remote ended at {probed}");
    let change = "see the log of the server: the remote may be away, or belong to another store";
    (now.since(probed) > PROBE_OLD).then(|| Finding::warning("remote-probe", what, change))
}
