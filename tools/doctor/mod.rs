//! The command `doctor`: examines a server from the outside, and its host and data directory from
//! the inside.

mod access;
mod connection;
mod facts;
mod finding;
mod gather;
mod inside;
mod remote;
mod requests;
mod session;
#[cfg(test)]
mod tests;
mod wire;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use siltstone::base::{Entropy as _, OsEntropy, Timestamp};
use siltstone::client::RequestSigner;

use crate::data_dir::DataDir;
use crate::metrics_token::MetricsTokenFile;
use crate::outcome::{Failure, Outcome};
use crate::server_keys::ServerKeys;
use finding::{Finding, Severity};
use session::Session;
use wire::Target;

pub(crate) const HELP: &str = "\
Looks for faults around a server, and names each with the line or option to change. With --endpoint it sends requests as clients do, through
all proxies on the way: address, TLS, clock, region, paths, headers, bodies, chunked uploads, ranges, conditions, CORS. It works in a bucket of
its own, which it removes, or below a prefix of --bucket. With a data directory it looks at the file system, syncs, space, limits,
permissions, backup and checkpoint; the server may run. With --remote it looks at the bucket that a section [remote] names: the way there, keys,
mark, versions, lifecycle, heartbeat. The data directory is DATA_DIR, or that of
--data-dir, which without a server and a remote has its default.

Examples:
  siltstone-tools doctor /srv/objects --backup /mnt/usb/objects
  siltstone-tools doctor /srv/objects --remote /etc/siltstone.toml
  siltstone-tools doctor --endpoint https://s3.example.net --access-key KEY --secret-key SECRET
  siltstone-tools --json doctor --endpoint http://127.0.0.1:9000 | jq '.findings[].check'

Exit status:
  0  no findings, or notes alone
  1  warnings or errors
  2  nothing could be examined, or wrong arguments";

/// The checks of the way to a server.
const WAY_CHECKS: [&str; 6] = ["dns", "tcp", "tls", "tls-expiry", "http", "clock-skew"];
/// The checks of keys and addresses.
const ACCESS_CHECKS: [&str; 6] =
    ["keys", "signature", "region", "path-style", "virtual-host-style", "delete"];

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The data directory to examine
    #[arg(value_name = "DATA_DIR")]
    dir: Option<PathBuf>,
    /// URL of the server, as clients name it
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    #[command(flatten)]
    keys: ServerKeys,
    #[command(flatten)]
    token: MetricsTokenFile,
    /// Region that requests are signed for
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// Bucket to work in, instead of one that is made and removed
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Certificate authorities of an https endpoint, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "SSL_CERT_FILE")]
    ca_file: Option<PathBuf>,
    /// Configuration file with the section [remote] to look at
    #[arg(long, value_name = "FILE")]
    remote: Option<PathBuf>,
    /// Directory of backups to look at
    #[arg(long, value_name = "DIR")]
    backup: Option<PathBuf>,
}

/// The course of an examination.
#[derive(Default)]
struct Examination {
    findings: Vec<Finding>,
    checked: Vec<&'static str>,
}

/// Examines, and prints the findings.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    variable: &dyn Fn(&str) -> Option<String>,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let mut examination = Examination::default();
    if let Some(url) = &arguments.endpoint {
        examination.of_server(url, arguments).map_err(Failure::Command)?;
    }
    let is_alone = arguments.endpoint.is_none() && arguments.remote.is_none();
    let dir = arguments.dir.as_deref().or_else(|| (is_alone || data_dir.is_named()).then_some(&**data_dir));
    let dir = dir.map(|dir| data_dir.beside(dir));
    if let Some(dir) = &dir {
        let facts = gather::gather(dir, arguments.backup.as_deref());
        let facts = facts.map_err(|error| Failure::of(dir.display(), error))?;
        examination.findings.extend(inside::examine(&facts));
        examination.checked.extend(inside::HOST_CHECKS);
    }
    if let Some(config) = &arguments.remote {
        let settings = crate::remote::settings(config, variable)?;
        let store = crate::remote::store_in(dir.as_ref().unwrap_or(data_dir)).ok();
        let found = remote::examine(&settings, store).map_err(Failure::Command)?;
        examination.findings.extend(found);
        examination.checked.extend(remote::REMOTE_CHECKS);
    }
    let Examination { mut findings, checked } = examination;
    finding::write(&mut findings, &checked, json, out)?;
    let worst = findings.iter().map(|finding| finding.severity).max();
    Ok(if worst > Some(Severity::Note) { Outcome::Findings } else { Outcome::Success })
}

impl Examination {
    fn of_server(&mut self, url: &str, arguments: &Arguments) -> Result<(), String> {
        self.checked.extend(WAY_CHECKS);
        let target = connection::connect(url, arguments.ca_file.as_deref(), &mut self.findings)?;
        let Some(target) = target else { return Ok(()) };
        if !connection::check_ready(&target, &mut self.findings) {
            return Ok(());
        }
        self.of_figures(&target, &arguments.token.header_line()?);
        if arguments.keys.access_key.is_empty() {
            let what = "requests with signatures are not examined";
            self.findings.push(Finding::note("keys", what, "name keys by --access-key and --secret-key"));
            return Ok(());
        }
        let mut random = [0; 8];
        OsEntropy.fill(&mut random);
        let prefix = format!("siltstone-doctor-{}", siltstone::base::digest::to_hex(&random));
        let bucket = arguments.bucket.clone().unwrap_or_else(|| prefix.clone());
        let signer =
            RequestSigner::new(&arguments.keys.access_key, &arguments.keys.secret_key, &arguments.region);
        let session = Session { target, signer, bucket };
        self.of_requests(&session, &prefix, arguments.bucket.is_none());
        Ok(())
    }

    /// Looks at the metrics, where the server shows them: without the token in `lines` to some
    /// clients alone.
    fn of_figures(&mut self, target: &Target, lines: &str) {
        if let Ok(page) = connection::page(target, "/-/metrics", lines)
            && page.status == 200
        {
            let figures = gather::figures_of(&page.text());
            let now = Timestamp::from_system(SystemTime::now());
            self.findings.extend(inside::examine_figures(&figures, now));
            self.checked.extend(inside::FIGURE_CHECKS);
        }
    }

    fn of_requests(&mut self, session: &Session, prefix: &str, create: bool) {
        self.checked.extend(ACCESS_CHECKS);
        match access::enter(session, create, &mut self.findings) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return self.broken("path-style", &error),
        }
        for (check, examine) in requests::CHECKS {
            self.add(check, examine(session, &format!("{prefix}/{check}")));
        }
        self.add("virtual-host-style", access::check_virtual_host(session));
        if create {
            self.add("cors", access::check_cors(session, &format!("{prefix}/cors")));
        }
        self.add("delete", access::leave(session, prefix, create));
    }

    fn add(&mut self, check: &'static str, checked: io::Result<Option<Finding>>) {
        if !self.checked.contains(&check) {
            self.checked.push(check);
        }
        match checked {
            Ok(finding) => self.findings.extend(finding),
            Err(error) => self.broken(check, &error),
        }
    }

    fn broken(&mut self, check: &'static str, error: &io::Error) {
        let what = format!("the connection ends in the midst of the check: {error}");
        self.findings.push(Finding::error(
            check,
            what,
            "see the logs of the proxy and of the server, and their timeouts",
        ));
    }
}
