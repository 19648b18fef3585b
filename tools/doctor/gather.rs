//! The collection of facts from this host (Linux, `proc(5)`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use bytesize::ByteSize;
use siltstone::base::{SystemClock, Timestamp};
use siltstone::disks::{MirrorPlaces, OtherUse};
use siltstone::format;
use siltstone::fs::{OsFs, SecretFile, memory_limit, mount_of, share_disk};
use siltstone::keys::KeyRing;
use siltstone::offline;
use siltstone::vault::{DirectoryKeys, is_inside};

use super::facts::{
    BackupFacts, HostFacts, KeysFacts, ServerFigures, ServerProcess, SidesFacts, Space, StoreFacts,
    StoreKeyFacts,
};
use crate::data_dir::DataDir;

/// Files whose time is measured.
const SYNCS: usize = 9;
/// Files of secrets below the data directory.
const SECRETS: [&str; 1] = ["users.toml"];
/// Files beside the store that both sides of a mirror have.
const SIDE_FILES: [&str; 4] = ["users.toml", KEYS, format::KEYS, format::KEYS_COPY];
/// The file of the key ring below the data directory.
const KEYS: &str = "keys.toml";

/// The facts of `dir`.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn gather(data_dir: &DataDir, backup: Option<&Path>) -> io::Result<HostFacts> {
    let dir = fs::canonicalize(&**data_dir)?;
    let metadata = fs::metadata(&dir)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let secrets = SECRETS.map(|name| dir.join(name));
    let server = server_of(&dir);
    let keys_file = server.as_ref().and_then(|server| server.keys_file.clone());
    let keys_file = keys_file.unwrap_or_else(|| dir.join(KEYS));
    let store_key_file = server.as_ref().and_then(|server| server.store_key_file.clone());
    let store_key_file = store_key_file.or_else(|| data_dir.store_key_file().map(Path::to_owned));
    let secrets = secrets.into_iter().chain([keys_file.clone()]).chain(store_key_file.clone());
    let open_secrets = secrets.filter_map(|file| {
        let mode = fs::metadata(&file).ok()?.mode();
        (mode & 0o077 != 0).then_some((file, mode))
    });
    Ok(HostFacts {
        now: Timestamp::from_system(SystemTime::now()),
        mount: mount_of(&mounts, &dir),
        sync_micros: measure_sync(&dir).ok(),
        space: space_of(&dir)?,
        owner: metadata.uid(),
        mode: metadata.mode(),
        foreign_file: foreign_file(&dir, metadata.uid()),
        open_secrets: open_secrets.collect(),
        server,
        keys: keys_of(&keys_file, &dir),
        store_key: store_key_of(&data_dir.beside(&dir), store_key_file),
        backup: backup.map(|backup| backup_of(backup, metadata.dev())),
        store: store_of(&data_dir.beside(&dir)),
        sides: data_dir.mirror().as_ref().map(sides_of),
        dir,
    })
}

/// The facts of both sides of a mirror.
fn sides_of(places: &MirrorPlaces) -> SidesFacts {
    let dirs = places.sides.clone();
    let [one, other] = &dirs;
    let of_witness = |witness: &PathBuf| {
        let dir = witness.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        dirs.iter().any(|side| share_disk(dir, side))
    };
    let mut facts = SidesFacts {
        share_disk: share_disk(one, other),
        witness_on_side: places.witness.clone().filter(of_witness),
        dirs: dirs.clone(),
        ..SidesFacts::default()
    };
    match places.home() {
        Err(error) => facts.refusal = Some(error.to_string()),
        Ok(home) if home.other == OtherUse::Equal => {
            facts.unequal = SIDE_FILES.into_iter().filter(|name| !is_equal(name, one, other)).collect();
        }
        Ok(home) => facts.incomplete = Some(dirs[1 - home.source].clone()),
    }
    facts
}

/// Whether a file is the same in both directories, or in neither.
fn is_equal(name: &str, one: &Path, other: &Path) -> bool {
    fs::read(one.join(name)).ok() == fs::read(other.join(name)).ok()
}

/// The median time of a sync of 4 KiB, in microseconds.
fn measure_sync(dir: &Path) -> io::Result<u64> {
    let path = dir.join(format!(".doctor-{}", std::process::id()));
    let measured = File::create_new(&path).and_then(|mut file| {
        let mut micros = Vec::new();
        for _ in 0..SYNCS {
            file.write_all(&[0x5a; 4096])?;
            let start = Instant::now();
            file.sync_all()?;
            micros.push(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        micros.sort_unstable();
        Ok(micros[SYNCS / 2])
    });
    // A failure leaves an empty file, which no command takes for one of the store.
    let _ = fs::remove_file(&path);
    measured
}

fn space_of(dir: &Path) -> io::Result<Space> {
    let stats = rustix::fs::statvfs(dir)?;
    Ok(Space {
        free_bytes: stats.f_bavail.saturating_mul(stats.f_frsize),
        total_bytes: stats.f_blocks.saturating_mul(stats.f_frsize),
        free_inodes: stats.f_favail,
        total_inodes: stats.f_files,
    })
}

/// A file of the store that belongs to another user than the directory.
fn foreign_file(dir: &Path, owner: u32) -> Option<(PathBuf, u32)> {
    let entries =
        ["", "data", "meta"].into_iter().filter_map(|name| fs::read_dir(dir.join(name)).ok()).flatten();
    entries.filter_map(Result::ok).find_map(|entry| {
        let user = entry.metadata().ok()?.uid();
        (user != owner).then(|| (entry.path(), user))
    })
}

/// The process that has the lock of the directory, by `/proc/locks`.
fn server_of(dir: &Path) -> Option<ServerProcess> {
    let lock = fs::metadata(dir.join(format::LOCK)).ok()?;
    let pid = holder(&fs::read_to_string("/proc/locks").ok()?, lock.ino())?;
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let words: Vec<String> = read("cmdline").split('\0').map(str::to_owned).collect();
    let variables: Vec<String> = read("environ").split('\0').map(str::to_owned).collect();
    let size = |option: &str, variable: &str| {
        option_of(&words, &variables, option, variable)?.parse::<ByteSize>().ok()
    };
    let working_dir = PathBuf::from(format!("/proc/{pid}/cwd"));
    let options = ServerFiles::of(&words, &variables, &working_dir);
    Some(ServerProcess {
        pid,
        keys_file: options.ring(),
        store_key_file: options.file("store_key_file"),
        user: fs::metadata(format!("/proc/{pid}")).ok()?.uid(),
        files_max: hard_limit_of_files(&read("limits")),
        memory_limit: memory_limit(Path::new("/"), &pid.to_string()),
        memory_max: size("--memory-max", "SILTSTONE_MEMORY_MAX").map(|size| size.0),
        index_max: size("--index-max", "SILTSTONE_INDEX_MAX").map(|size| size.0),
    })
}

/// The files that the options of a server name: on its command line, in its environment, or in its
/// configuration file, where that can be read.
struct ServerFiles<'s> {
    words: &'s [String],
    variables: &'s [String],
    config: toml::Table,
    working_dir: &'s Path,
}

impl<'s> ServerFiles<'s> {
    fn of(words: &'s [String], variables: &'s [String], working_dir: &'s Path) -> Self {
        let config = option_of(words, variables, "--config", "SILTSTONE_CONFIG");
        let text = config.and_then(|file| fs::read_to_string(working_dir.join(file)).ok());
        let config = text.and_then(|text| text.parse().ok()).unwrap_or_default();
        Self { words, variables, config, working_dir }
    }

    /// The file of the option that the configuration file calls `name`.
    fn file(&self, name: &str) -> Option<PathBuf> {
        let flag = format!("--{}", name.replace('_', "-"));
        let variable = format!("SILTSTONE_{}", name.to_uppercase());
        let given = option_of(self.words, self.variables, &flag, &variable);
        let given = given.or_else(|| Some(self.config.get(name)?.as_str()?.to_owned()));
        // A path that is absolute replaces that of the process.
        given.map(|file| self.working_dir.join(file))
    }

    /// The file of the key ring, as the server chooses it; `None` for that in the data directory.
    fn ring(&self) -> Option<PathBuf> {
        if let Some(named) = self.file("keys_file") {
            return Some(named);
        }
        let credentials = value_after(self.variables, "CREDENTIALS_DIRECTORY");
        let credential = credentials.map(|dir| Path::new(&dir).join(KEYS)).filter(|file| file.exists());
        credential.or_else(|| Some(self.file("users")?.with_file_name(KEYS)))
    }
}

/// The process with a lock on the inode.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let suffix = format!(":{inode}");
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let at = fields.iter().position(|field| field.ends_with(&suffix))?;
        fields.get(at.checked_sub(1)?)?.parse().ok().filter(|pid| *pid > 0)
    })
}

/// The value of an option on a command line, or of its variable.
fn option_of(words: &[String], variables: &[String], option: &str, variable: &str) -> Option<String> {
    if let Some(value) = value_after(words, option) {
        return Some(value);
    }
    if let Some(at) = words.iter().position(|word| word == option) {
        return words.get(at + 1).cloned();
    }
    value_after(variables, variable)
}

/// The value of the first text of the form `name=value`.
fn value_after(texts: &[String], name: &str) -> Option<String> {
    texts.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

fn hard_limit_of_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// What opens the directory `dir`; `None` where it is not encrypted.
fn store_key_of(dir: &DataDir, file: Option<PathBuf>) -> Option<StoreKeyFacts> {
    let keys = DirectoryKeys::read(&OsFs::new(&**dir));
    // What cannot be read is a finding of the check of the store.
    let found = match &keys {
        Ok(None) => return None,
        Ok(found) => found.as_ref(),
        Err(_) => None,
    };
    Some(StoreKeyFacts {
        is_inside: file.as_ref().is_some_and(|file| is_inside(file, dir)),
        on_same_disk: file.as_ref().is_some_and(|file| share_disk(file, dir)),
        file,
        fault: found.and_then(|keys| keys.fault().map(ToString::to_string)),
        mending_command: found.map(DirectoryKeys::mending_command).unwrap_or_default(),
    })
}

/// The file of the key ring; `None` without one. `dir` has the data.
fn keys_of(file: &Path, dir: &Path) -> Option<KeysFacts> {
    if !file.exists() {
        return None;
    }
    let facts =
        KeysFacts { file: file.to_owned(), on_same_disk: share_disk(file, dir), ..KeysFacts::default() };
    let read = SecretFile::new(file.to_owned()).read();
    let parsed = read.and_then(|text| match KeyRing::parse(&text) {
        Ok(ring) => Ok((ring, KeyRing::confirmed_copy(&text))),
        Err(error) => Err(error.to_string()),
    });
    Some(match parsed {
        Err(why) => KeysFacts { unreadable: Some(why), ..facts },
        Ok((ring, confirmed)) => {
            let without_copy = ring.iter().filter(|key| confirmed.is_none_or(|time| key.created > time));
            KeysFacts { without_copy: without_copy.map(|key| key.id.clone()).collect(), ..facts }
        }
    })
}

fn backup_of(dir: &Path, device: u64) -> BackupFacts {
    let modified = fs::metadata(dir.join("CURRENT")).and_then(|metadata| metadata.modified());
    BackupFacts {
        dir: dir.to_owned(),
        made: modified.ok().map(Timestamp::from_system),
        on_same_disk: fs::metadata(dir).is_ok_and(|metadata| metadata.dev() == device),
    }
}

fn store_of(dir: &DataDir) -> StoreFacts {
    let unreadable = |why: String| StoreFacts { unreadable: Some(why), ..StoreFacts::default() };
    let disk = match dir.disk() {
        Err(failure) => return unreadable(failure.to_string()),
        Ok(disk) => disk,
    };
    match offline::stats(disk.as_ref(), &SystemClock, 0) {
        Err(error) => unreadable(error.to_string()),
        Ok(stats) => StoreFacts {
            unreadable: None,
            damage: stats.damage.iter().map(ToString::to_string).collect(),
            checkpoint: stats.newest_checkpoint,
            groups_behind: stats.groups_behind,
            log_bytes: stats.log.len,
        },
    }
}

/// The figures on the page of metrics.
pub(super) fn figures_of(page: &str) -> ServerFigures {
    let value = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse().ok())
    };
    ServerFigures {
        scrub_finished: value("siltstone_scrub_finished_timestamp_seconds"),
        bad_extents: value("siltstone_scrub_bad_extents"),
        damaged_places: value("siltstone_store_damaged_places"),
        repaired_segments: value("siltstone_repair_segments_total"),
        replaced_log_files: value("siltstone_repair_log_files_total"),
        repair_waiting: value("siltstone_repair_waiting_segments"),
        read_only: value("siltstone_store_read_only"),
        ship_lag: value("siltstone_ship_lag_seconds"),
        remote_probed: value("siltstone_remote_probe_timestamp_seconds"),
        remote_unfit_for_tier: value("siltstone_remote_unfit{mode=\"tier\"}"),
        remote_unfit_for_takeover: value("siltstone_remote_unfit{mode=\"takeover\"}"),
        clock_behind: value("siltstone_clock_behind_seconds"),
        clock_held: value("siltstone_clock_held"),
        memory_refused: value("siltstone_memory_refused_total"),
        index_bytes: value("siltstone_memory_index_bytes"),
        index_max_bytes: value("siltstone_memory_index_max_bytes"),
        live_bytes: value("siltstone_store_live_bytes"),
        keys_missing: value("siltstone_keys_missing"),
        bucket_logs_failing: value("siltstone_bucket_logs_failing"),
        lost_log_records: value("siltstone_bucket_log_lost_records_total"),
    }
}
