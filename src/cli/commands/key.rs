//! The `key` commands, which ask a running server about the keys of encrypted objects.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use serde_json::Value;
use siltstone::keys::{self, KeyRing};

use super::api_client::{self, ApiClient, ServerAddress, number_in, text_in};
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::run::key_ring::KeysFile;

/// The server options that also apply to these commands.
pub(crate) const OPTIONS: [&str; 7] =
    ["config", "data_dir", "users", "keys_file", "listen", "region", "log_level"];

/// The time after which progress is shown again.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone key uses
      How many versions, uploads and parts need each key.
  siltstone key rewrap
      Give everything that is encrypted under an earlier key to the key that has taken its place. No byte of an object is written.
      It may be ended at any time: the next run passes over what is done.
  siltstone key rewrap --rate 100
  siltstone key destroy 20261126-4f6c9a2e51b03d77
      Remove a retired key that nothing needs, for good. It asks first.

Keys are made and retired in their file, by siltstone-tools key. The commands ask the running server, at the address of --listen without
--endpoint, and sign with the keys of an administrator: SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// What a destroyed key still opens.
const STILL_HELD: &str = "\
These still have what this key opens, and become unreadable with it:
  segments            a rebuild of a lost log finds the wraps of before, for as long as the objects live, also after compaction
  older metadata      checkpoints and files of the log that are kept, as for a rewind
  the log on a remote  parcels and roots within --ship-window
  backups             of before the keys were wrapped anew
Copies of the ring that have the key open all of that. Only where they are gone, too, it is unreadable for everybody.
It cannot be undone.";

/// A `key` command.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Show the keys, and how many versions, uploads and parts need each
    Uses {
        /// As the server answers, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Wrap the keys of objects by the keys of the ring that have taken the place of others
    Rewrap(RewrapArguments),
    /// Remove a retired key that nothing needs from the running server and from the file of its
    /// ring
    Destroy(DestroyArguments),
}

/// The arguments of `rewrap`.
#[derive(Debug, Args)]
pub(crate) struct RewrapArguments {
    /// Keys that are wrapped in a second, at most
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    rate: u64,
    #[command(flatten)]
    server: ServerAddress,
}

/// The arguments of `destroy`.
#[derive(Debug, Args)]
pub(crate) struct DestroyArguments {
    /// Id of the key
    #[arg(id = "name", value_name = "ID")]
    key: String,
    /// The id once more, for programs that cannot be asked
    #[arg(long, value_name = "ID")]
    confirm: Option<String>,
    #[command(flatten)]
    server: ServerAddress,
}

/// Runs a command.
///
/// # Errors
/// A message for the operator: the server cannot be asked or refuses, or the file of the ring
/// cannot be changed.
pub(crate) fn run(
    command: &KeyCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    match command {
        KeyCommand::Uses { json, server } => {
            let text = ApiClient::open(server, options, environment)?.ask("GET", "keys", b"")?;
            let lines = if *json { vec![text] } else { lines_of(&api_client::parsed(&text)?) };
            announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the keys: {e}")))
        }
        KeyCommand::Rewrap(arguments) => rewrap(arguments, options, environment),
        KeyCommand::Destroy(arguments) => destroy(arguments, options, environment),
    }
}

fn lines_of(answer: &Value) -> Vec<String> {
    let keys = answer["keys"].as_array().cloned().unwrap_or_default();
    keys.iter().map(line_of).collect()
}

fn line_of(key: &Value) -> String {
    let id = text_in(key, "id");
    let state = text_in(key, "state");
    let name = text_in(key, "name");
    let uses = number_in(key, "uses");
    format!("{id}\t{state}\t{uses}\t{name}").trim_end().to_owned()
}

/// Asks for one step after another. Progress goes to standard error.
fn rewrap(
    arguments: &RewrapArguments,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let mut client = ApiClient::open(&arguments.server, options, environment)?;
    let mut request: &[u8] = br#"{"begin": true}"#;
    let mut before = 0;
    let mut told = Instant::now();
    loop {
        let answer = client.ask_document("POST", "keys/rewrap", request)?;
        let rewrapped = number_in(&answer, "rewrapped");
        if told.elapsed() >= PROGRESS_EVERY {
            let progress = format!(
                "{} records looked at, of {} versions and more",
                number_in(&answer, "seen"),
                number_in(&answer, "of")
            );
            // A closed standard error does not end the work.
            let _ = writeln!(io::stderr(), "{progress}; {rewrapped} wrapped anew");
            told = Instant::now();
        }
        if answer["more"] != true {
            return end_of_rewrap(&mut client, rewrapped, number_in(&answer, "unavailable"));
        }
        thread::sleep(pause_after(rewrapped.saturating_sub(before), arguments.rate));
        before = rewrapped;
        request = b"{}";
    }
}

/// The pause after so many keys.
fn pause_after(keys: u64, rate: u64) -> Duration {
    Duration::from_secs_f64(keys as f64 / rate as f64)
}

fn end_of_rewrap(client: &mut ApiClient, rewrapped: u64, unavailable: u64) -> Result<(), CliError> {
    let keys = client.ask_document("GET", "keys", b"")?;
    let mut lines = vec![format!("{rewrapped} wrapped anew, {unavailable} not opened")];
    lines.extend(lines_of(&keys));
    announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the outcome: {e}")))?;
    match unavailable {
        0 => Ok(()),
        _ => Err(CliError::refused("the ring of the server lacks keys that records name")),
    }
}

fn destroy(
    arguments: &DestroyArguments,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    let id = &arguments.key;
    let mut client = ApiClient::open(&arguments.server, options, environment)?;
    let keys = client.ask_document("GET", "keys", b"")?;
    let is_in_effect = check_destroyable(&keys, id).map_err(CliError::refused)?;
    let file = KeysFile::of(options, environment).into_secret_file();
    let path = file.path().display().to_string();
    // Before anything is destroyed: this command may be on another host than the file, or ask
    // another server than that of the file.
    let text = file.read().map_err(CliError::refused)?;
    check_is_ring_of(&keys, file.path(), &text, id).map_err(CliError::refused)?;
    keys::without_key(&text, id).map_err(|e| CliError::refused(format!("{path}: {e}")))?;
    confirm(id, arguments.confirm.as_deref())?;
    if is_in_effect {
        client.ask("DELETE", &format!("keys/of/{id}"), b"")?;
    }
    let removed = file.edit(|text| {
        let text = text.ok_or_else(|| format!("{path} is gone"))?;
        // Again, while nobody else edits the file: a server that was started meanwhile has the key.
        let keys = client.ask_document("GET", "keys", b"").map_err(|e| e.to_string())?;
        if check_destroyable(&keys, id)? {
            return Err("the server has read it again".to_owned());
        }
        check_is_ring_of(&keys, file.path(), text, id)?;
        keys::without_key(text, id).map_err(|e| format!("{path}: {e}"))
    });
    removed.map_err(|problem| {
        CliError::refused(format!(
            "{path} still has the key, though not the server: {problem}; run the command again"
        ))
    })?;
    announce::lines([format!("the key {id} is destroyed: it is gone from the server and from {path}")])
        .map_err(|e| CliError::refused(format!("cannot show the outcome: {e}")))
}

/// Whether the server has a key that may go. One that it has destroyed was given up by a run of the
/// command that ended before the file was changed.
///
/// # Errors
/// A message for the operator: the key may not go.
fn check_destroyable(answer: &Value, id: &str) -> Result<bool, String> {
    let keys = answer["keys"].as_array().cloned().unwrap_or_default();
    let destroyed = answer["destroyed"].as_array().cloned().unwrap_or_default();
    let Some(key) = keys.iter().find(|key| key["id"] == id) else {
        // Another server than that of the file lacks the key, too.
        return match destroyed.iter().any(|destroyed| destroyed == id) {
            true => Ok(false),
            false => Err(format!(
                "the server has no key `{id}`, and has not destroyed one of that id since its start: ask the server of the ring. \
                 Who knows that no record of that server needs the key may remove it from the file by hand"
            )),
        };
    };
    let uses = key["uses"].as_u64().unwrap_or(0);
    let state = key["state"].as_str().unwrap_or_default();
    if state == "missing" {
        return Err(format!("the server has no key `{id}`, which {uses} versions, uploads and parts need"));
    }
    if uses > 0 {
        return Err(format!(
            "{uses} versions, uploads and parts need the key {id}: siltstone key rewrap, or delete them"
        ));
    }
    if state != "retired" {
        return Err(format!(
            "the key {id} is not retired: siltstone-tools key retire {id}, then let the server read the file again (SIGHUP)"
        ));
    }
    Ok(true)
}

/// Refuses a file that is not the one of the ring of the server, or has other keys beside `id`: the
/// key would go from a ring that may need it.
fn check_is_ring_of(answer: &Value, file: &Path, text: &str, id: &str) -> Result<(), String> {
    let path = file.display();
    let named = answer["file"].as_str().unwrap_or_default();
    let is_same =
        fs::canonicalize(named).ok().is_some_and(|named| fs::canonicalize(file).ok() == Some(named));
    if !is_same {
        return Err(format!(
            "the ring of the server is in `{named}` on its host, and not in {path}: run the command there, with the settings of the server. \
             Where the server has a copy, such as a credential of systemd, remove the key from the original by hand once siltstone key uses \
             shows that nothing needs it, and restart the server"
        ));
    }
    let ring = KeyRing::parse(text).map_err(|error| format!("in {path}, {error}"))?;
    let others = ring.iter().filter(|key| key.id != id);
    let of_file: BTreeSet<_> = others.map(|key| format!("{} {}", key.id, key.created.to_iso8601())).collect();
    let mut of_server = BTreeSet::new();
    for key in answer["keys"].as_array().into_iter().flatten() {
        if key["id"] != id && key["state"] != "missing" {
            of_server.insert(format!("{} {}", text_in(key, "id"), text_in(key, "created")));
        }
    }
    match of_file == of_server {
        true => Ok(()),
        false => Err(format!(
            "the server has other keys than {path}: let it read the file again (SIGHUP), or ask the server of that file"
        )),
    }
}

/// Says what goes with the key, and asks for its id.
fn confirm(id: &str, given: Option<&str>) -> Result<(), CliError> {
    let typed = match given {
        Some(given) => given.to_owned(),
        None => {
            let mut shown = io::stderr().lock();
            let asked = write!(shown, "{STILL_HELD}\nType the id of the key to destroy it: ");
            asked.and_then(|()| shown.flush()).map_err(|e| CliError::refused(format!("cannot ask: {e}")))?;
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            read.map_err(|e| CliError::refused(format!("cannot read the answer: {e}")))?;
            line.trim().to_owned()
        }
    };
    match typed == id {
        true => Ok(()),
        false => Err(CliError::refused("that is not the id of the key: nothing is destroyed")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use siltstone::base::{SeededEntropy, Timestamp};

    use super::*;

    #[test]
    fn only_a_retired_key_that_nothing_needs_may_go() {
        let key = |state: &str, uses: u64| {
            let keys = json!({ "keys": [{ "id": "k", "state": state, "uses": uses }] });
            check_destroyable(&keys, "k")
        };
        assert_eq!(key("retired", 0), Ok(true));
        assert!(key("retired", 1).unwrap_err().contains("rewrap"));
        assert!(key("former", 0).unwrap_err().contains("retire"));
        assert!(key("missing", 1).is_err());
        assert_eq!(check_destroyable(&json!({ "keys": [], "destroyed": ["j", "k"] }), "k"), Ok(false));
        assert!(check_destroyable(&json!({ "keys": [], "destroyed": ["j"] }), "k").is_err());
        assert!(check_destroyable(&json!({ "keys": [] }), "k").is_err());
    }

    #[test]
    fn a_file_is_edited_only_if_it_has_the_keys_of_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys.toml");
        let text = keys::first_file(Timestamp::from_millis(1), &SeededEntropy::new(1));
        fs::write(&path, &text).unwrap();
        fs::write(dir.path().join("copy"), &text).unwrap();
        let own = KeyRing::parse(&text).unwrap().current().unwrap().id.clone();
        let key = json!({ "id": own, "state": "current", "created": "1970-01-01T00:00:00.001Z" });
        let gone = json!({ "id": "lost", "state": "missing", "created": null });
        let check = |file: &Path, keys: Value, id: &str| {
            check_is_ring_of(&json!({ "file": path, "keys": keys }), file, &text, id)
        };
        assert_eq!(check(&path, json!([key, gone, { "id": "k", "state": "retired" }]), "k"), Ok(()));
        assert_eq!(check(&path, json!([]), &own), Ok(()));
        assert!(check(&path, json!([gone]), "k").unwrap_err().contains("other keys"));
        assert!(check(&path, json!([key, { "id": "j", "state": "former" }]), "k").is_err());
        assert!(check(&dir.path().join("copy"), json!([key]), "k").unwrap_err().contains("on its host"));
    }

    #[test]
    fn the_id_is_asked_for_as_it_is() {
        assert!(confirm("k", Some("k")).is_ok() && confirm("k", Some("K")).is_err());
    }

    #[test]
    fn a_rate_bounds_the_keys_of_a_second() {
        assert_eq!(pause_after(256, 1000), Duration::from_millis(256));
        assert_eq!(pause_after(0, 1), Duration::ZERO);
    }
}
