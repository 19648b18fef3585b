//! Checks of the remote that a configuration file names: the way to it, its bucket, its mark, its
//! owner's heartbeat.

use std::io;
use std::time::{Duration, SystemTime};

use siltstone::base::Timestamp;
use siltstone::format::{Heartbeat, RemoteMark, StoreId};
use siltstone::remote::{Remote, RemoteSettings, read_mark};

use super::connection;
use super::finding::{Finding, Severity};
use super::session::{Ask, Session};
use super::wire::Reply;

/// The names of the checks.
pub(super) const REMOTE_CHECKS: [&str; 9] = [
    "remote-reach",
    "remote-tls",
    "remote-clock",
    "remote-keys",
    "remote-bucket",
    "remote-mark",
    "remote-versions",
    "remote-lifecycle",
    "remote-alive",
];

/// The longest time of one call.
const WITHIN: Duration = Duration::from_secs(20);
/// The age of a heartbeat that no interval of `--ship-every` explains.
const SIGN_OLD: Duration = Duration::from_secs(60 * 60);
/// The longest heartbeat.
const SIGN_MAX_BYTES: u64 = 512;

/// A remote, as it answers.
#[derive(Debug)]
pub(super) struct RemoteFacts {
    pub(super) now: Timestamp,
    /// Bucket, prefix and endpoint, for messages.
    pub(super) name: String,
    /// Status and code of the answer to the first listing, and its message.
    pub(super) listing: (u16, String, String),
    /// The mark; or why it cannot be read.
    pub(super) mark: Result<Option<RemoteMark>, String>,
    /// The store in the data directory, if one was named.
    pub(super) store: Option<StoreId>,
    /// Whether the bucket has versions; `None` where it does not say.
    pub(super) is_versioned: Option<bool>,
    /// The rules of its lifecycle; `None` where it does not say.
    pub(super) lifecycle_rules: Option<usize>,
    /// The newest heartbeat below the prefix, and whether there is a log at all.
    pub(super) heartbeat: Option<Timestamp>,
    pub(super) has_log: bool,
}

/// The findings of a remote.
///
/// # Errors
/// The settings are wrong: a message.
pub(super) fn examine(settings: &RemoteSettings, store: Option<StoreId>) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let server = &settings.server;
    let target = connection::connect_trusting(&server.endpoint, &server.trust, &mut findings)?;
    if let Some(target) = target {
        let signer = server.signer();
        let session = Session { target, signer, bucket: settings.bucket.clone() };
        let gathered = gather(&session, settings, store).map_err(|error| error.to_string());
        match gathered {
            Ok((reply, facts)) => {
                findings.extend(connection::check_date(&reply, facts.now));
                findings.extend(judge(&facts));
            }
            Err(why) => findings.push(Finding::error("http", format!("it does not answer: {why}"), "")),
        }
    }
    Ok(findings.into_iter().map(of_remote).collect())
}

/// A finding of the way to a server, as one of the way to the remote.
fn of_remote(finding: Finding) -> Finding {
    let (check, change) = match finding.check {
        "tls" => (
            "remote-tls",
            "renew the certificate of the remote, or correct ca_file or fingerprint in [remote]",
        ),
        "tls-expiry" => ("remote-tls", "renew the certificate of the remote"),
        "dns" | "tcp" | "http" => {
            ("remote-reach", "correct endpoint in [remote], start the remote, or open the way to it")
        }
        "clock-skew" => ("remote-clock", "synchronise both clocks (timedatectl set-ntp true)"),
        "date" => ("remote-clock", "let the proxy in front of the remote keep the header Date"),
        _ => return finding,
    };
    Finding { check, change: change.to_owned(), ..finding }
}

fn gather(
    session: &Session,
    settings: &RemoteSettings,
    store: Option<StoreId>,
) -> io::Result<(Reply, RemoteFacts)> {
    let prefix = settings.key_prefix();
    let query = [("list-type", "2"), ("max-keys", "1"), ("prefix", prefix.as_str())];
    let reply = session.ask(Ask { query: &query, ..Ask::default() })?;
    let element = |name| reply.element(name).unwrap_or_default();
    let mut facts = RemoteFacts {
        now: Timestamp::from_system(SystemTime::now()),
        name: format!("{settings:?}"),
        listing: (reply.status, element("Code"), element("Message")),
        mark: Ok(None),
        store,
        is_versioned: None,
        lifecycle_rules: None,
        heartbeat: None,
        has_log: false,
    };
    if reply.is_good() {
        let remote = settings.remote().map_err(io::Error::other)?;
        facts.mark = read_mark(remote.as_ref(), WITHIN).map_err(|why| why.to_string());
        facts.is_versioned = is_versioned(session)?;
        facts.lifecycle_rules = lifecycle_rules(session)?;
        facts.has_log = remote.list("claim/", "", WITHIN).is_ok_and(|page| !page.is_empty());
        facts.heartbeat = heartbeat_of(remote.as_ref());
    }
    Ok((reply, facts))
}

fn heartbeat_of(remote: &dyn Remote) -> Option<Timestamp> {
    let newest = remote.list("alive/", "", WITHIN).ok()?.pop()?;
    let part = remote.get_part(&newest.name, 0..SIGN_MAX_BYTES, WITHIN).ok()?;
    Heartbeat::decode(&part.bytes).ok().map(|heartbeat| heartbeat.made)
}

/// Whether new versions are kept. Remotes without versions, and users who may not ask, tell
/// nothing.
fn is_versioned(session: &Session) -> io::Result<Option<bool>> {
    let reply = session.ask(Ask { query: &[("versioning", "")], ..Ask::default() })?;
    let status = reply.element("Status");
    Ok(reply.is_good().then(|| status.is_some_and(|status| status == "Enabled")))
}

fn lifecycle_rules(session: &Session) -> io::Result<Option<usize>> {
    let reply = session.ask(Ask { query: &[("lifecycle", "")], ..Ask::default() })?;
    Ok(reply.is_good().then(|| reply.text().matches("<Rule>").count()))
}

/// The findings of facts alone.
pub(super) fn judge(facts: &RemoteFacts) -> Vec<Finding> {
    if let Some(refused) = listing(facts) {
        return vec![refused];
    }
    [mark(facts), versions(facts), lifecycle(facts), alive(facts)].into_iter().flatten().collect()
}

fn listing(facts: &RemoteFacts) -> Option<Finding> {
    let (status, code, message) = &facts.listing;
    if (200..300).contains(status) {
        return None;
    }
    let what = format!("{} answers a listing with {status} {code}: {message}", facts.name);
    let (check, change) = match code.as_str() {
        "NoSuchBucket" => ("remote-bucket", "make the bucket, or correct bucket in [remote]"),
        "RequestTimeTooSkewed" => ("remote-clock", "synchronise both clocks (timedatectl set-ntp true)"),
        "AuthorizationHeaderMalformed" => ("remote-keys", "correct region in [remote]"),
        "AccessDenied" => {
            ("remote-keys", "allow the user GetObject, PutObject, DeleteObject and ListBucket there")
        }
        _ if matches!(status, 401 | 403) => ("remote-keys", "correct access_key and secret_key in [remote]"),
        _ => ("remote-reach", "correct endpoint in [remote], and see the log of the remote"),
    };
    Some(Finding::error(check, what, change))
}

fn mark(facts: &RemoteFacts) -> Option<Finding> {
    let name = &facts.name;
    let error = Severity::Error;
    let (severity, what, change) = match (&facts.mark, facts.store) {
        (Ok(Some(mark)), Some(store)) if mark.store != store => {
            (error, format!("{name} belongs to another store"), "choose a prefix of its own in [remote]")
        }
        (Ok(Some(_)), _) => return None,
        (Ok(None), _) => (
            Severity::Warning,
            format!("{name} is marked for no store, so that nothing is sent there"),
            "siltstone-tools --data-dir DIR remote --config FILE init",
        ),
        (Err(why), _) => (
            error,
            format!("the mark of {name} cannot be read: {why}"),
            "correct encryption_key_file in [remote], or choose another prefix",
        ),
    };
    Some(Finding { severity, ..Finding::error("remote-mark", what, change) })
}

fn versions(facts: &RemoteFacts) -> Option<Finding> {
    let what =
        format!("the bucket of {} keeps old versions, so that what is deleted there stays", facts.name);
    let change =
        "suspend the versions of the bucket, or let its lifecycle remove noncurrent ones after a day";
    let is_kept = facts.is_versioned == Some(true) && facts.lifecycle_rules.unwrap_or(0) == 0;
    is_kept.then(|| Finding::warning("remote-versions", what, change))
}

fn lifecycle(facts: &RemoteFacts) -> Option<Finding> {
    let count = facts.lifecycle_rules.unwrap_or(0);
    let what =
        format!("the bucket of {} has {count} rules of a lifecycle, which may remove segments", facts.name);
    let change = "see that no rule expires or moves current objects below the prefix of [remote]";
    (count > 0).then(|| Finding::warning("remote-lifecycle", what, change))
}

fn alive(facts: &RemoteFacts) -> Option<Finding> {
    let age = facts.heartbeat.map(|made| facts.now.since(made));
    let what = match facts.heartbeat {
        Some(made) => format!("the last heartbeat on {} is of {made}", facts.name),
        None => format!("{} has a log, and no heartbeat of its writer", facts.name),
    };
    let change = "see whether the server with --ship runs; if it is gone: siltstone promote on the standby, or remote restore";
    let is_silent = facts.has_log && age.is_none_or(|age| age > SIGN_OLD);
    is_silent.then(|| Finding::warning("remote-alive", what, change))
}
