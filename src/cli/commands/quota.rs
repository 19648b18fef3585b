//! The `quota` commands, which ask a running server.

use bytesize::ByteSize;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;
use siltstone::base::Quota;
use siltstone::client::encoded;
use siltstone::s3::BucketName;

use super::api_client::{self, ApiClient, ServerAddress};
use crate::cli::announce;
use crate::cli::config::environment::Environment;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  siltstone quota set bucket pictures --bytes 100GiB --objects 1000000
  siltstone quota set owner camera --bytes 1TiB --uploads 20 --buckets 3
      In place of the quota that it has: limits that are not named do not limit.
  siltstone quota show
  siltstone quota show owner camera --json
  siltstone quota remove bucket pictures
  siltstone quota show --endpoint https://objects.example --ca-file ca.pem

The commands ask the running server, at the address of --listen without --endpoint, and sign with the keys of an administrator:
SILTSTONE_ACCESS_KEY and SILTSTONE_SECRET_KEY, or else those in the users file.";

/// A `quota` command.
#[derive(Debug, Subcommand)]
pub(crate) enum QuotaCommand {
    /// Set the quota of a bucket or an owner, in place of the one that it has
    Set {
        #[command(flatten)]
        holder: HolderName,
        #[command(flatten)]
        limits: LimitArguments,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Show quotas and what is used of them: all, or that of a bucket or an owner
    Show {
        /// `bucket` or `owner`
        #[arg(requires = "name")]
        kind: Option<HolderKind>,
        /// Name of the bucket or of the user
        name: Option<String>,
        /// As the server answers, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerAddress,
    },
    /// Remove the quota of a bucket or an owner
    Remove {
        #[command(flatten)]
        holder: HolderName,
        #[command(flatten)]
        server: ServerAddress,
    },
}

/// The kinds of holders of quotas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HolderKind {
    /// A bucket
    Bucket,
    /// A user, for the sum of its buckets
    Owner,
}

/// The holder of a quota.
#[derive(Debug, Args)]
pub(crate) struct HolderName {
    /// `bucket` or `owner`
    kind: HolderKind,
    /// Name of the bucket or of the user
    name: String,
}

/// The limits of a quota.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct LimitArguments {
    /// Most bytes of all versions and of the parts of uploads, such as 500MiB or 10GiB
    #[arg(long, value_name = "SIZE")]
    bytes: Option<ByteSize>,
    /// Most versions, without delete markers
    #[arg(long, value_name = "N")]
    objects: Option<u64>,
    /// Most multipart uploads in progress
    #[arg(long, value_name = "N")]
    uploads: Option<u64>,
    /// Most bytes of the index, which keys, versions, delete markers, uploads, tags and
    /// configurations take [default: a quarter of --index-max]
    #[arg(long, value_name = "SIZE")]
    index_bytes: Option<ByteSize>,
    /// Most buckets; for owners alone
    #[arg(long, value_name = "N")]
    buckets: Option<u64>,
}

/// Runs a command.
///
/// # Errors
/// A message for the operator: wrong arguments, or the server cannot be asked or refuses.
pub(crate) fn run(
    command: &QuotaCommand,
    options: &ServerOptions,
    environment: &Environment,
) -> Result<(), CliError> {
    match command {
        QuotaCommand::Set { holder, limits, server } => {
            let quota = limits.quota(holder.kind)?;
            let path = path(Some(holder))?;
            ApiClient::open(server, options, environment)?.ask("PUT", &path, &quota.document()).map(drop)
        }
        QuotaCommand::Remove { holder, server } => {
            let path = path(Some(holder))?;
            ApiClient::open(server, options, environment)?.ask("DELETE", &path, &[]).map(drop)
        }
        QuotaCommand::Show { kind, name, json, server } => {
            let holder = kind.zip(name.as_ref()).map(|(kind, name)| HolderName { kind, name: name.clone() });
            let path = path(holder.as_ref())?;
            let text = ApiClient::open(server, options, environment)?.ask("GET", &path, &[])?;
            let lines = if *json { vec![text] } else { table(holder.as_ref(), &text)? };
            announce::lines(lines).map_err(|e| CliError::refused(format!("cannot show the quotas: {e}")))
        }
    }
}

impl LimitArguments {
    fn quota(&self, kind: HolderKind) -> Result<Quota, CliError> {
        let Self { bytes, objects, uploads, index_bytes, buckets } = *self;
        if kind == HolderKind::Bucket && buckets.is_some() {
            return Err(CliError::usage("--buckets: a bucket has no buckets; name an owner"));
        }
        let bytes = bytes.map(|size| size.as_u64());
        let index_bytes = index_bytes.map(|size| size.as_u64());
        Ok(Quota { bytes, objects, uploads, index_bytes, buckets })
    }
}

/// The path of a holder's quota, or that of all quotas.
///
/// # Errors
/// No bucket can have the name.
fn path(holder: Option<&HolderName>) -> Result<String, CliError> {
    Ok(match holder {
        Some(HolderName { kind: HolderKind::Bucket, name }) => {
            BucketName::new(name).map_err(|_| CliError::usage(format!("{name}: no bucket has this name")))?;
            format!("buckets/{name}/quota")
        }
        Some(HolderName { name, .. }) => format!("users/{}/quota", encoded(name)),
        None => "quotas".to_owned(),
    })
}

/// A line for each quota: its holder, and each limit with its usage.
fn table(holder: Option<&HolderName>, text: &str) -> Result<Vec<String>, CliError> {
    let answer = api_client::parsed(text)?;
    match holder {
        Some(HolderName { kind: HolderKind::Bucket, name }) => Ok(vec![line("bucket", name, &answer)]),
        Some(HolderName { name, .. }) => Ok(vec![line("owner", name, &answer)]),
        None => {
            let mut lines = Vec::new();
            for (list, kind) in [("buckets", "bucket"), ("owners", "owner")] {
                for row in answer[list].as_array().into_iter().flatten() {
                    lines.push(line(kind, text_of(&row[kind]), row));
                }
            }
            Ok(lines)
        }
    }
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The line of a holder: kind, name and limits, separated by tabs.
fn line(kind: &str, name: &str, row: &Value) -> String {
    let quota = Quota::parse(row["in_force"].to_string().as_bytes()).unwrap_or_default();
    let limits = [
        ("bytes", quota.bytes),
        ("objects", quota.objects),
        ("uploads", quota.uploads),
        ("index_bytes", quota.index_bytes),
        ("buckets", quota.buckets),
    ];
    let limits = limits.into_iter().filter_map(|(limit, allowed)| {
        let used = row["used"][limit].as_u64()?;
        let unit = limit.replace('_', " ");
        Some(match allowed {
            Some(allowed) => format!("{used} of {allowed} {unit}"),
            None => format!("{used} {unit}"),
        })
    });
    format!("{kind}\t{name}\t{}", limits.collect::<Vec<_>>().join(", "))
}
