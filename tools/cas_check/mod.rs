//! The command `cas-check`: a contract test of the conditional writes of an S3 store.

mod contract;
mod link;
mod place;
mod race;
mod report;
mod session;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::Args;

use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use contract::CHECKS;
use link::{Finding, Link};
use place::{Place, Versions};
use report::{CheckResult, Report};
use session::Session;
use siltstone::client::{Endpoint, RequestSigner};

pub(crate) const HELP: &str = "\
Programs that coordinate by an object store (leases, table formats, backups) rely on conditional writes: If-None-Match: * creates
a key once, and If-Match replaces or deletes a key only if nobody else has changed it. Some stores ignore these headers, and some
decide them without a lock. This command finds out: it creates twice, writes with stale and with current entity tags, lets many
writers race for one key, and reads after each write and after each refused write. Everything happens in a bucket without versions,
and then in the same bucket with versions.

The bucket is made and removed, unless --bucket names one that exists: then only the keys of the check are removed, and the versions
setting stays as it is. The data directory is not used.

Examples:
  siltstone-tools cas-check http://127.0.0.1:9000
      With the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
  siltstone-tools cas-check https://s3.eu-central-1.amazonaws.com --region eu-central-1 --rounds 10
  siltstone-tools --json cas-check http://127.0.0.1:9000 | jq -r .verdict

Exit status:
  0  every check holds
  1  a check does not hold, is refused by the store, or was not finished
  2  nothing could be checked, or wrong arguments";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint of the store: http://HOST:PORT or https://HOST:PORT
    #[arg(value_name = "URL")]
    endpoint: String,
    /// Bucket to work in; made and removed if it does not exist [default: a new one]
    #[arg(long, value_name = "NAME")]
    bucket: Option<String>,
    /// Access key of a user who may read, write and delete, and make a bucket
    #[arg(long, value_name = "KEY", env = "AWS_ACCESS_KEY_ID", hide_env_values = true)]
    access_key: String,
    /// Its secret key
    #[arg(long, value_name = "KEY", env = "AWS_SECRET_ACCESS_KEY", hide_env_values = true)]
    secret_key: String,
    /// Session token of temporary keys
    #[arg(long, value_name = "TOKEN", env = "AWS_SESSION_TOKEN", hide_env_values = true)]
    session_token: Option<String>,
    /// Region that requests are signed for
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// Rounds of each race; a tenth of them for multipart uploads
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Connections that race for a key
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=64))]
    connections: u16,
    /// Time after which no further request is sent, except for the removal of keys
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Certificate authorities of an https endpoint, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "SSL_CERT_FILE")]
    ca_file: Option<PathBuf>,
}

/// Checks the store, and prints the results with a verdict.
pub(crate) fn run(arguments: &Arguments, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let endpoint =
        Endpoint::resolve(&arguments.endpoint, arguments.ca_file.as_deref()).map_err(Failure::Command)?;
    let signer = RequestSigner::new(&arguments.access_key, &arguments.secret_key, &arguments.region);
    let signer = signer.signing_bodies(arguments.session_token.clone());
    let stopped = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stopped))?;
    let failed = |why: String| Failure::of(&arguments.endpoint, why);
    let place =
        Place::open(&endpoint, signer, arguments.bucket.clone(), &arguments.region).map_err(failed)?;
    let link = Link::new(&place, stopped, begun + arguments.timeout);
    let checked = check_all(link, arguments, json);
    let removed = place.close();
    let (results, requests) = checked.map_err(failed)?;
    let report = Report {
        endpoint: arguments.endpoint.clone(),
        bucket: place.bucket.name.clone(),
        rounds: arguments.rounds,
        connections: arguments.connections,
        requests,
        elapsed: begun.elapsed(),
        results,
    };
    report.write(json, out)?;
    removed.map_err(|why| Failure::of(format!("keys are left in the bucket {}", place.bucket.name), why))?;
    Ok(if report.passes() { Outcome::Success } else { Outcome::Findings })
}

/// All checks, without versions and with them as far as the bucket allows; and the number of
/// requests.
fn check_all(link: Link<'_>, arguments: &Arguments, json: bool) -> Result<(Vec<CheckResult>, u64), String> {
    let place = link.place;
    let size = (arguments.rounds, arguments.connections.into());
    let steps: u32 = CHECKS.iter().map(|check| (check.steps)(arguments.rounds)).sum();
    let passes = if place.made { 2 } else { 1 };
    let mut session = Session::new(link, size, (Meter::of_steps(json), (steps * passes).into()))?;
    let mut results = Vec::new();
    check_with(place.versions(), &mut session, &mut results);
    if place.made && place.versions() == Versions::Off {
        match place.enable_versions() {
            Ok(()) => check_with(Versions::On, &mut session, &mut results),
            Err(why) => {
                results.extend(CHECKS.iter().map(|check| CheckResult::not_offered(check, &why)));
            }
        }
    }
    Ok((results, session.finish()))
}

fn check_with(versions: Versions, session: &mut Session<'_>, results: &mut Vec<CheckResult>) {
    let first = results.len();
    for check in &CHECKS {
        let mut earlier = results[first..].iter();
        let refused = earlier.any(|earlier| check.needs == Some(earlier.name) && earlier.is_refused());
        let outcome = if refused {
            Err(Finding::Refused("not tried, since the condition is refused".to_owned()))
        } else {
            session.reconnect().and_then(|()| (check.run)(session))
        };
        results.push(CheckResult::new(check, versions, outcome));
    }
}
