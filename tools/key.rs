//! The command `key`: makes, shows and retires the keys of encrypted objects.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use siltstone::base::{Clock as _, OsEntropy, SystemClock};
use siltstone::format::LOCK;
use siltstone::fs::SecretFile;
use siltstone::keys::{self, KeyRing, RingKey};
use siltstone::vault::is_inside;

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::show;

/// The file of the ring in a data directory.
pub(crate) const NAME: &str = "keys.toml";

pub(crate) const HELP: &str = "\
The key ring is the file of the keys of encrypted objects: keys.toml in the data directory, or the file that --keys-file names. The first
start of a server makes it. Without it nothing that is encrypted can be read. No command shows a key. A running server reads a changed
file on SIGHUP (systemctl reload siltstone). siltstone key asks a running server which keys are needed, gives objects to other keys, and
destroys keys.

Examples:
  siltstone-tools --data-dir /srv/objects key list
  siltstone-tools key create /etc/siltstone/keys.toml
      Make a ring in another place, for a server with --keys-file.
  siltstone-tools --data-dir /srv/objects key add
      Make a new key, which becomes the current one: new objects are encrypted under it.
  siltstone-tools --data-dir /srv/objects key add --name invoices
      Make a key that clients ask for by its name (aws:kms).
  siltstone-tools --data-dir /srv/objects key retire 20261126-4f6c9a2e51b03d77
      Let a key open what is encrypted under it, and nothing new be encrypted under it.
  siltstone-tools --data-dir /srv/objects key confirm /mnt/usb/keys.toml
      See that a copy has every key, and note that for siltstone-tools doctor.

Exit status:
  0  success; for check and confirm: nothing is wrong
  1  for check: the ring has no current key, or others may read it; for confirm: the copy lacks keys
  2  the file cannot be read or changed, or wrong arguments";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// File of the ring, instead of keys.toml in the data directory
    #[arg(long, value_name = "FILE", env = "SILTSTONE_KEYS_FILE", global = true)]
    keys_file: Option<PathBuf>,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Make a ring with one key
    Create {
        /// The file, which does not exist
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Make a new key: the current one, or one that clients name
    Add {
        /// The name by which clients ask for the key; the newest of several with one name encrypts
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Show the keys, without their secrets
    List,
    /// Check the file of a ring
    Check {
        /// The file, instead of that of the store
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Compare a copy with the ring, and note in the ring that it was seen
    Confirm {
        /// The copy
        #[arg(value_name = "COPY")]
        copy: PathBuf,
    },
    /// Encrypt nothing new under a key; what is encrypted under it stays readable
    Retire {
        /// The id of the key
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Runs a command on a ring.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let copy = data_dir.other_side().map(|other| other.join(NAME));
    let refusal = data_dir.mirror().and_then(|places| places.home().err()).map(|error| error.to_string());
    let in_data_dir = SecretFile::new(data_dir.join(NAME)).with_copy(copy).refusing(refusal);
    let ring = RingFile(arguments.keys_file.clone().map_or(in_data_dir, SecretFile::new));
    match &arguments.command {
        KeyCommand::Create { file } => create(&RingFile(SecretFile::new(file.clone())), json, out),
        KeyCommand::Add { name } => add(&ring, name.as_deref(), json, out),
        KeyCommand::List => list(&ring, json, out),
        KeyCommand::Check { file } => match file {
            Some(file) => check(&RingFile(SecretFile::new(file.clone())), json, out),
            None => check(&ring, json, out),
        },
        KeyCommand::Confirm { copy } => {
            check_elsewhere(copy, ring.0.path(), data_dir)?;
            confirm(&ring, &RingFile(SecretFile::new(copy.clone())), json, out)
        }
        KeyCommand::Retire { id } => retire(&ring, id, json, out),
    }
}

/// The file of a ring.
struct RingFile(SecretFile);

impl RingFile {
    fn path(&self) -> String {
        self.0.path().display().to_string()
    }

    fn read(&self) -> Result<KeyRing, Failure> {
        let text = self.0.read().map_err(Failure::Command)?;
        KeyRing::parse(&text).map_err(|error| Failure::of(self.path(), error))
    }

    /// Changes a ring that is there.
    fn edit(&self, change: impl FnOnce(&str) -> Result<String, keys::KeyTextError>) -> Result<(), Failure> {
        let edited = self.0.edit(|text| {
            let text = text.ok_or_else(|| {
                format!("there is no {}: make one with siltstone-tools key create", self.path())
            })?;
            change(text).map_err(|error| format!("{}: {error}", self.path()))
        });
        edited.map_err(Failure::Command)
    }
}

fn create(ring: &RingFile, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let made = ring.0.edit(|text| match text {
        Some(_) => {
            Err(format!("{}: the file exists: add a key to it with siltstone-tools key add", ring.path()))
        }
        None => Ok(keys::first_file(SystemClock.now(), &OsEntropy)),
    });
    made.map_err(Failure::Command)?;
    let made = ring.read()?;
    let id = made.current().map(|key| key.id.as_str()).unwrap_or_default();
    write_made(ring, id, json, out)?;
    if !json {
        writeln!(
            out,
            "without this file nothing of what is encrypted can be read: keep a copy in another place"
        )?;
    }
    Ok(Outcome::Success)
}

fn add(ring: &RingFile, name: Option<&str>, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let mut made = String::new();
    ring.edit(|text| {
        let (text, id) = keys::with_new_key(text, name, SystemClock.now(), &OsEntropy)?;
        made = id;
        Ok(text)
    })?;
    write_made(ring, &made, json, out)?;
    if !json {
        writeln!(out, "a running server uses it once it reads the file again (SIGHUP); copy the file anew")?;
    }
    Ok(Outcome::Success)
}

fn write_made(ring: &RingFile, id: &str, json: bool, out: &mut dyn Write) -> std::io::Result<()> {
    if json {
        return show::json(out, &json!({ "file": ring.path(), "key": id }));
    }
    writeln!(out, "{}: made the key {id}", ring.path())
}

fn list(ring: &RingFile, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let ring = ring.read()?;
    let current = ring.current().map(|key| key.id.as_str());
    let described: Vec<_> = ring.iter().map(|key| describe(key, current)).collect();
    if json {
        show::json(out, &Value::from(described))?;
        return Ok(Outcome::Success);
    }
    for key in &described {
        let text = |field: &str| key[field].as_str().unwrap_or_default().to_owned();
        let line = format!("{}  {}  {:8}{}", text("id"), text("created"), text("state"), text("name"));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(Outcome::Success)
}

fn describe(key: &RingKey, current: Option<&str>) -> Value {
    let state = match key {
        key if key.retired => "retired",
        key if Some(key.id.as_str()) == current => "current",
        key if key.name.is_some() => "named",
        _ => "former",
    };
    json!({ "id": key.id, "created": key.created.to_string(), "state": state, "name": key.name })
}

fn check(file: &RingFile, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let ring = file.read()?;
    let mut problems = Vec::new();
    if ring.current().is_none() {
        problems.push("it has no current key: siltstone-tools key add".to_owned());
    }
    if file.0.is_open_to_others() {
        problems.push(format!("others may read it: chmod 600 {}", file.path()));
    }
    let keys = ring.iter().count();
    if json {
        show::json(out, &json!({ "file": file.path(), "keys": keys, "problems": problems }))?;
    } else {
        for problem in &problems {
            writeln!(out, "{}: {problem}", file.path())?;
        }
        writeln!(out, "{}: keys {keys}, problems {}", file.path(), problems.len())?;
    }
    Ok(if problems.is_empty() { Outcome::Success } else { Outcome::Findings })
}

fn confirm(ring: &RingFile, copy: &RingFile, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let seen = SystemClock.now();
    let found = keys::compared(&ring.read()?, &copy.read()?);
    let is_whole = found.missing.is_empty() && found.other.is_empty();
    if is_whole {
        ring.edit(|text| keys::with_confirmed_copy(text, seen))?;
    }
    if json {
        let described = json!({ "copy": copy.path(), "missing": found.missing, "other": found.other });
        show::json(out, &described)?;
    } else {
        for id in &found.missing {
            writeln!(out, "{}: it lacks the key {id}", copy.path())?;
        }
        for id in &found.other {
            writeln!(out, "{}: its key {id} is another one", copy.path())?;
        }
        if is_whole {
            writeln!(out, "{}: it has every key of {}", copy.path(), ring.path())?;
        }
    }
    Ok(if is_whole { Outcome::Success } else { Outcome::Findings })
}

/// Fails where a copy is lost together with the ring.
fn check_elsewhere(copy: &Path, ring: &Path, data_dir: &Path) -> Result<(), Failure> {
    if is_same_file(ring, copy) {
        return Err(Failure::of(copy.display(), "it is the ring itself: name a copy in another place"));
    }
    let ring = std::path::absolute(ring)?;
    let beside_ring = ring.parent().filter(|dir| dir.join(LOCK).exists());
    if is_inside(copy, data_dir) || beside_ring.is_some_and(|dir| is_inside(copy, dir)) {
        let why = "it is in the data directory, and lost with it: name a copy in another place";
        return Err(Failure::of(copy.display(), why));
    }
    Ok(())
}

/// Whether two paths lead to one file, be it by links of either kind.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) else { return false };
    one.dev() == other.dev() && one.ino() == other.ino()
}

fn retire(ring: &RingFile, id: &str, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    ring.edit(|text| keys::with_retired_key(text, id))?;
    if json {
        show::json(out, &json!({ "file": ring.path(), "key": id }))?;
        return Ok(Outcome::Success);
    }
    writeln!(
        out,
        "{}: the key {id} is retired: it opens what is encrypted under it, and encrypts nothing new",
        ring.path()
    )?;
    if ring.read()?.current().is_none() {
        writeln!(out, "no key is current now: siltstone-tools key add")?;
    }
    Ok(Outcome::Success)
}
