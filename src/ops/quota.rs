//! Quotas of buckets and owners, as JSON: an extension beside S3.

use serde_json::{Value, json};

use super::client_error::ForClient as _;
use super::{Context, body, memory};
use crate::auth::Authorized;
use crate::base::Quota;
use crate::base::limits::CREDENTIAL_LEN_MAX_BYTES;
use crate::s3::{Call, Response, ResponseBody, S3Error};
use crate::store::{LimitedBucket, LimitedOwner, OwnerUsage, Usage};

/// The memory of one bucket or owner in the report of all quotas.
const ROW_BYTES: u64 = 4096;

/// A limit of a bucket or an owner, and its usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaLimit {
    /// Whether an owner has it, rather than a bucket.
    pub of_owner: bool,
    /// The name of the bucket or the owner.
    pub name: String,
    /// The name of the limit.
    pub limit: &'static str,
    /// The limit.
    pub allowed: u64,
    /// The usage.
    pub used: u64,
}

impl Context {
    /// All limits that quotas set, by buckets and then by owners. The cost grows with the number of
    /// buckets.
    pub fn quota_limits(&self) -> Vec<QuotaLimit> {
        let mut limits = Vec::new();
        for limited in self.store.limited_buckets() {
            add_limits_of_bucket(&mut limits, &limited);
        }
        for limited in self.store.limited_owners() {
            add_limits_of_owner(&mut limits, &limited);
        }
        limits
    }

    /// The limits of a bucket; none without a quota, and for a missing bucket.
    pub fn limits_of_bucket(&self, bucket: &str) -> Vec<QuotaLimit> {
        let mut limits = Vec::new();
        if let Ok(Some(limited)) = self.store.limited_bucket(bucket) {
            add_limits_of_bucket(&mut limits, &limited);
        }
        limits
    }

    /// The limits of an owner; none without a quota.
    pub fn limits_of_owner(&self, owner: &str) -> Vec<QuotaLimit> {
        let mut limits = Vec::new();
        add_limits_of_owner(&mut limits, &self.store.limited_owner(owner));
        limits
    }
}

fn add_limits_of_bucket(limits: &mut Vec<QuotaLimit>, limited: &LimitedBucket) {
    let usage = OwnerUsage { buckets: 0, content: limited.content };
    add_limits(limits, false, &limited.bucket, &limited.in_force, &usage);
}

fn add_limits_of_owner(limits: &mut Vec<QuotaLimit>, limited: &LimitedOwner) {
    add_limits(limits, true, &limited.owner, &limited.in_force, &limited.usage);
}

/// Adds the limits that a quota sets.
fn add_limits(limits: &mut Vec<QuotaLimit>, of_owner: bool, name: &str, quota: &Quota, usage: &OwnerUsage) {
    let rows = [
        ("bytes", quota.bytes, usage.content.bytes()),
        ("objects", quota.objects, usage.content.objects()),
        ("uploads", quota.uploads, usage.content.uploads.count),
        ("index_bytes", quota.index_bytes, usage.content.index_bytes),
        ("buckets", quota.buckets, usage.buckets),
    ];
    for (limit, allowed, used) in rows {
        if let Some(allowed) = allowed {
            limits.push(QuotaLimit { of_owner, name: name.to_owned(), limit, allowed, used });
        }
    }
}

/// PutBucketQuota. A quota without limits removes the bucket's. Durable on return.
pub(super) fn put_of_bucket(
    context: &Context,
    _: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let quota = read(context, call)?;
    if let Some(buckets) = quota.buckets {
        let message = "A bucket has no buckets: only owners have this limit.";
        return Err(S3Error::invalid_argument("buckets", &buckets.to_string(), message));
    }
    context.store.set_bucket_quota(call.bucket(), set(&quota)).for_client(call)?;
    Ok(Response::new(200))
}

/// GetBucketQuota: the quota, without limits if there is none, and the usage.
pub(super) fn get_of_bucket(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let limited = context.store.limited_bucket(call.bucket()).for_client(call)?;
    let quota = limited.as_ref().map(|limited| limited.quota).unwrap_or_default();
    let in_force = limited.map(|limited| limited.in_force).unwrap_or_default();
    let usage = context.store.usage(call.bucket()).for_client(call)?;
    Ok(answer(&json!({ "quota": quota, "in_force": in_force, "used": used(&usage) })))
}

/// DeleteBucketQuota. Durable on return.
pub(super) fn delete_of_bucket(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    context.store.set_bucket_quota(call.bucket(), None).for_client(call)?;
    Ok(Response::new(204))
}

/// PutOwnerQuota. A quota without limits removes the owner's. Durable on return.
pub(super) fn put_of_owner(
    context: &Context,
    _: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    let owner = owner(call)?.ok_or_else(without_owner)?.to_owned();
    let quota = read(context, call)?;
    context.store.set_owner_quota(&owner, set(&quota)).for_client(call)?;
    Ok(Response::new(200))
}

/// GetOwnerQuota: the quota of an owner, or all quotas of the server.
pub(super) fn get_of_owner(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let store = &context.store;
    if let Some(owner) = owner(call)? {
        return Ok(answer(&owner_row(&store.limited_owner(owner))));
    }
    let buckets = store.limited_buckets();
    let owners = store.limited_owners();
    let held = memory::reserve(context, ROW_BYTES * (buckets.len() + owners.len()) as u64)?;
    let buckets: Vec<_> = buckets.iter().map(bucket_row).collect();
    let owners: Vec<_> = owners.iter().map(owner_row).collect();
    Ok(answer(&json!({ "buckets": buckets, "owners": owners })).holding(held))
}

/// DeleteOwnerQuota. Durable on return.
pub(super) fn delete_of_owner(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let owner = owner(call)?.ok_or_else(without_owner)?;
    context.store.set_owner_quota(owner, None).for_client(call)?;
    Ok(Response::new(204))
}

/// The response to HeadBucket with the quota of the bucket.
pub(super) fn add_headers(response: Response, limited: &LimitedBucket) -> Response {
    let LimitedBucket { quota, content, .. } = limited;
    let limits = [("p-quota-bytes", quota.bytes), ("p-quota-objects", quota.objects)];
    let limits = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
    let used = [("p-quota-bytes-used", content.bytes()), ("p-quota-objects-used", content.objects())];
    limits.chain(used).fold(response, |response, (name, value)| response.header(name, value.to_string()))
}

fn read(context: &Context, call: &mut Call<'_>) -> Result<Quota, S3Error> {
    let text = body::read_text(context, call)?;
    Quota::parse(&text).map_err(|reason| {
        let given = String::from_utf8_lossy(&text);
        S3Error::invalid_argument("quota", &given, format!("The quota is not valid: {reason}"))
    })
}

fn set(quota: &Quota) -> Option<&Quota> {
    (!quota.is_empty()).then_some(quota)
}

/// The owner that the request names; `None` if it names none.
fn owner<'c>(call: &'c Call<'_>) -> Result<Option<&'c str>, S3Error> {
    let Some(owner) = call.query.get("owner") else { return Ok(None) };
    let fits = (1..=CREDENTIAL_LEN_MAX_BYTES).contains(&owner.len()) && !owner.chars().any(char::is_control);
    fits.then_some(Some(owner))
        .ok_or_else(|| invalid_owner(owner, "The parameter owner is not the name of a user."))
}

fn without_owner() -> S3Error {
    invalid_owner("", "The parameter owner is missing.")
}

fn invalid_owner(owner: &str, reason: &str) -> S3Error {
    S3Error::invalid_argument("owner", owner, reason)
}

fn used(usage: &Usage) -> Value {
    json!({
        "bytes": usage.bytes(),
        "objects": usage.objects(),
        "uploads": usage.uploads.count,
        "index_bytes": usage.index_bytes,
    })
}

fn bucket_row(limited: &LimitedBucket) -> Value {
    let LimitedBucket { bucket, owner, quota, in_force, content } = limited;
    json!({ "bucket": bucket, "owner": owner, "quota": quota, "in_force": in_force, "used": used(content) })
}

fn owner_row(limited: &LimitedOwner) -> Value {
    let LimitedOwner { owner, stored, configured, in_force, usage } = limited;
    let mut row = json!({
        "owner": owner,
        "quota": stored.unwrap_or_default(),
        "users_file": configured.unwrap_or_default(),
        "in_force": in_force,
        "used": used(&usage.content),
    });
    row["used"]["buckets"] = usage.buckets.into();
    row
}

fn answer(value: &Value) -> Response {
    let response = Response::new(200).header("Content-Type", "application/json");
    response.with_body(ResponseBody::Bytes(value.to_string().into_bytes()))
}
