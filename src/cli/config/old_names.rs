//! Variables of other servers that are read in place of ours.

use super::environment::Environment;
use super::keys::AdministratorKeys;
use super::layers::{LayeredOption, OptionFlags, ValueOrigin, checked_flag, is_option};
use super::notes::Notes;
use super::server;

/// A variable, the option that it sets, and the translation of its value.
type OldName = (&'static str, &'static str, fn(&str, &mut Notes) -> Result<String, String>);

/// The variables in order of precedence (MinIO, "Environment variables"; Bitnami, "MinIO" for the
/// default buckets).
const OPTIONS: [OldName; 10] = [
    ("MINIO_SITE_REGION", "region", region),
    ("MINIO_REGION", "region", region),
    ("MINIO_REGION_NAME", "region", region),
    ("MINIO_DOMAIN", "domain", domain),
    ("MINIO_DEFAULT_BUCKETS", "bucket", default_buckets),
    ("MINIO_API_CORS_ALLOW_ORIGIN", "cors_allow_origin", unchanged),
    ("MINIO_BROWSER", "console", console),
    ("MINIO_SERVER_URL", "public_url", unchanged),
    ("MINIO_BROWSER_REDIRECT_URL", "console_url", unchanged),
    ("MINIO_PROMETHEUS_AUTH_TYPE", "metrics", metrics),
];
/// The region that clients sign for unless they are told another.
const USUAL_REGION: &str = "us-east-1";
/// The beginnings of the names of those servers' variables.
const PREFIXES: [&str; 2] = ["MINIO_", "RUSTFS_"];

/// The options that such variables set, as flags, with a remark on each. `is_set` knows the options
/// that are set already.
///
/// # Errors
/// A value is not valid, in words for the operator.
pub(crate) fn options(
    environment: &Environment,
    is_set: impl Fn(&str) -> bool,
    notes: &mut Notes,
) -> Result<OptionFlags, String> {
    let mut flags = OptionFlags::new();
    for (old, option, translate) in OPTIONS {
        if !is_option(option) || is_set(option) {
            continue;
        }
        let Some(value) = environment.text(old)? else { continue };
        // An earlier name of the same option takes precedence.
        if flags.iter().any(|set| set.name == option) {
            continue;
        }
        let flag = translate(value.trim(), notes).and_then(|value| checked_flag(option, &value));
        flags.push(LayeredOption {
            name: option.to_owned(),
            flag: flag.map_err(|problem| format!("{old}: {problem}"))?,
            origin: ValueOrigin::Variable(old.to_owned()),
        });
        notes.info(format!("{old} is read in place of --{}", option.replace('_', "-")));
    }
    Ok(flags)
}

/// Remarks on variables of those servers that have no effect here.
pub(crate) fn note_unused(environment: &Environment, notes: &mut Notes) {
    let theirs = environment.names().filter(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
    let unused: Vec<_> = theirs.filter(|name| !is_used(name)).collect();
    if !unused.is_empty() {
        notes.info(format!("variables that are not used: {}", unused.join(", ")));
    }
}

/// Whether a variable of those servers has an effect here.
fn is_used(name: &str) -> bool {
    let sets_option = OPTIONS.iter().any(|(old, option, _)| *old == name && is_option(option));
    sets_option || AdministratorKeys::reads(name) || server::VARIABLES.contains(&name)
}

fn unchanged(value: &str, _: &mut Notes) -> Result<String, String> {
    Ok(value.to_owned())
}

fn console(text: &str, _: &mut Notes) -> Result<String, String> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => Ok("on".to_owned()),
        "off" | "false" | "0" => Ok("off".to_owned()),
        other => Err(format!("`{other}` is neither on nor off")),
    }
}

/// Without a signature for everyone, or, where MinIO wants a token, for this host.
fn metrics(text: &str, _: &mut Notes) -> Result<String, String> {
    match text {
        "public" => Ok("open".to_owned()),
        "jwt" => Ok("local".to_owned()),
        other => Err(format!("`{other}` is neither public nor jwt")),
    }
}

/// The region, and after it the usual one.
fn region(name: &str, _: &mut Notes) -> Result<String, String> {
    Ok(if name == USUAL_REGION { name.to_owned() } else { format!("{name},{USUAL_REGION}") })
}

/// MinIO takes several domains.
fn domain(names: &str, notes: &mut Notes) -> Result<String, String> {
    let (first, others) = names.split_once(',').unwrap_or((names, ""));
    if !others.is_empty() {
        notes.warn(format!("MINIO_DOMAIN: only the first domain is used, not {others}"));
    }
    Ok(first.trim().to_owned())
}

/// `NAME[:ACCESS]`, separated by commas, semicolons or spaces. ACCESS means the same as in `mc
/// anonymous set`.
fn default_buckets(text: &str, notes: &mut Notes) -> Result<String, String> {
    let named = text.split(|c: char| matches!(c, ',' | ';') || c.is_whitespace());
    let mut buckets = Vec::new();
    for bucket in named.filter(|bucket| !bucket.is_empty()) {
        buckets.push(default_bucket(bucket, notes)?);
    }
    Ok(buckets.join(","))
}

fn default_bucket(bucket: &str, notes: &mut Notes) -> Result<String, String> {
    let (name, access) = bucket.split_once(':').unwrap_or((bucket, "none"));
    let everyone = match access {
        "none" | "private" => return Ok(name.to_owned()),
        "download" => "list and read",
        "upload" => "write and delete",
        "public" => "list, read, write and delete",
        other => return Err(format!("`{other}` is none of download, upload, public and none")),
    };
    notes.warn(format!(
        "MINIO_DEFAULT_BUCKETS: {bucket} lets everyone {everyone} objects; SILTSTONE_BUCKETS={name}:public lets them read objects by name"
    ));
    Ok(format!("{name}:mc-{access}"))
}
