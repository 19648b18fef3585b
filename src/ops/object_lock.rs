//! Object lock: the configurations of buckets, the retentions and legal holds of versions.

use std::time::Duration;

use super::access::{self, Place};
use super::amend::amend;
use super::client_error::ForClient as _;
use super::lookup::LoadedVersion;
use super::stored_document::{self, StoredDocument};
use super::{Context, body, lookup};
use crate::auth::{Action, Authorized};
use crate::s3::integrity::Integrity;
use crate::s3::object_lock::{
    LEGAL_HOLD_ROOT, LockConfiguration, LockHeaders, LockMode, LockRetention, legal_hold_name,
    parse_legal_hold,
};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Operation, Response, S3Error};
use crate::store::{
    BucketConfigurationKind, ConfiguredBucket, ObjectControls, Retention, RetentionMode, VersionRecord,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const BYPASS: &str = "bypass-governance-retention";

impl StoredDocument for LockConfiguration {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::ObjectLock;
    /// The bucket is locked, without a default retention.
    const UNREADABLE: Option<Self> = Some(Self { default: None });

    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Err(ErrorCode::ObjectLockConfigurationNotFoundError)
    }
}

/// PutObjectRetention. Durable on return.
pub(super) fn put_retention(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let (found, stated) = read_change(context, proof, call)?;
    let retention = stated.retention.map(|retention| stored(retention, context)).transpose()?;
    let bypass = bypasses_governance(context, proof, call, Place::target(call))?;
    amend(context, call, found, 200, |version| {
        context.store.set_retention(call.bucket(), call.key(), version, retention, bypass)
    })
}

/// GetObjectRetention.
pub(super) fn get_retention(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let found = lookup::outline(context, proof, call)?;
    let Some(retention) = found.version.controls.retention else { return Err(not_locked(context, call)) };
    let mut document = context.document(LockRetention::ROOT);
    shown(retention).render(&mut document);
    Ok(xml(200, document))
}

/// PutObjectLegalHold. Durable on return.
pub(super) fn put_legal_hold(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let (found, stated) = read_change(context, proof, call)?;
    let held = stated.legal_hold == Some(true);
    amend(context, call, found, 200, |version| {
        context.store.set_legal_hold(call.bucket(), call.key(), version, held)
    })
}

/// The version that a call changes, and what its body states.
fn read_change(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<(LoadedVersion, LockHeaders), S3Error> {
    body::announced_length(&call.request.body)?;
    check_enabled(context, call)?;
    let found = lookup::target(context, proof, call)?;
    let stated = match call.body_lock {
        Some(stated) => stated,
        None => read_stated(context, call)?,
    };
    Ok((found, stated))
}

/// What the body of a PutObjectRetention or PutObjectLegalHold states.
pub(super) fn read_stated(context: &Context, call: &mut Call<'_>) -> Result<LockHeaders, S3Error> {
    let request = body::read_document(context, call)?;
    if call.operation == Operation::PutObjectLegalHold {
        let held = parse_legal_hold(body::parse(&request, LEGAL_HOLD_ROOT)?.root())?;
        return Ok(LockHeaders { legal_hold: Some(held), ..LockHeaders::default() });
    }
    let retention = LockRetention::parse(body::parse(&request, LockRetention::ROOT)?.root())?;
    Ok(LockHeaders { retention, ..LockHeaders::default() })
}

/// GetObjectLegalHold.
pub(super) fn get_legal_hold(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let found = lookup::outline(context, proof, call)?;
    let Some(held) = found.version.controls.legal_hold else { return Err(not_locked(context, call)) };
    let mut document = context.document(LEGAL_HOLD_ROOT);
    document.leaf("Status", legal_hold_name(held));
    Ok(xml(200, document))
}

/// The retention of an object that states none, by the default of its bucket.
pub(super) fn default_retention(context: &Context, bucket: &ConfiguredBucket) -> Option<Retention> {
    let (mode, period) = stored_document::stored::<LockConfiguration>(bucket)?.default?;
    let mode = stored_mode(mode);
    let until = context.store.retention_start(mode).plus(DAY.saturating_mul(period.days() as u32));
    Some(Retention { mode, until })
}

/// The retention and the legal hold of a new object: its headers', else the default of the
/// bucket. Either takes a declared digest of the body, in a header or a trailer: what cannot be
/// replaced must not be stored damaged.
///
/// # Errors
/// `InvalidArgument`; `InvalidRequest` for a bucket without object lock or a body without a digest;
/// `AccessDenied`.
pub(super) fn of_new_object(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    integrity: Option<&Integrity>,
    bucket: &ConfiguredBucket,
) -> Result<ObjectControls, S3Error> {
    let headers = LockHeaders::parse(call.vendor())?;
    let Some(lock) = stored_document::stored::<LockConfiguration>(bucket) else {
        return if headers.is_empty() { Ok(ObjectControls::default()) } else { Err(not_enabled()) };
    };
    // S3 wants a digest with every object under a lock: one that nobody can delete is to be the one
    // that was sent.
    if let Some(integrity) = integrity.filter(|_| !headers.is_empty() || lock.default.is_some()) {
        check_digest(integrity, "Put Object")?;
    }
    check_headers(&headers, context, proof, call)?;
    let stated = headers.retention.map(|retention| stored(retention, context)).transpose()?;
    Ok(ObjectControls {
        retention: stated.or_else(|| default_retention(context, bucket)),
        legal_hold: headers.legal_hold,
        ..ObjectControls::default()
    })
}

/// Checks that a request with the bytes of an object under object lock declares a digest of them.
///
/// # Errors
/// `InvalidRequest`.
fn check_digest(integrity: &Integrity, requests: &str) -> Result<(), S3Error> {
    if integrity.is_claimed() {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::InvalidRequest).message(format!(
        "Content-MD5 OR x-amz-checksum- HTTP header is required for {requests} requests with Object Lock parameters"
    )))
}

/// Checks that a part of an object that will be under object lock declares a digest of its bytes.
///
/// # Errors
/// `InvalidRequest`.
pub(super) fn check_part(controls: &ObjectControls, integrity: &Integrity) -> Result<(), S3Error> {
    let is_locked = controls.retention.is_some() || controls.legal_hold.is_some();
    if is_locked { check_digest(integrity, "Put Part") } else { Ok(()) }
}

fn check_headers(
    headers: &LockHeaders,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<(), S3Error> {
    if headers.retention.is_some() {
        access::check(context, proof, call, Action::PutObjectRetention, Place::target(call))?;
    }
    if headers.legal_hold.is_some() {
        access::check(context, proof, call, Action::PutObjectLegalHold, Place::target(call))?;
    }
    Ok(())
}

/// Whether a deletion or a change of a retention disregards governance mode: by a header and a
/// permission of its own.
///
/// # Errors
/// `AccessDenied`: the header without the permission.
pub(super) fn bypasses_governance(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    place: Place<'_>,
) -> Result<bool, S3Error> {
    let asked = asks_to_bypass(call);
    if asked {
        access::check(context, proof, call, Action::BypassGovernanceRetention, place)?;
    }
    Ok(asked)
}

/// Refuses the header of deletions from a bucket without object lock, as S3 does: its sender
/// expects locks that are not there.
///
/// # Errors
/// `InvalidArgument`; `NoSuchBucket`.
pub(super) fn check_bypass_is_of_use(context: &Context, call: &Call<'_>) -> Result<(), S3Error> {
    let Some(value) = call.vendor_header(BYPASS) else { return Ok(()) };
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    if bucket.configuration(LockConfiguration::KIND).is_some() {
        return Ok(());
    }
    let name = format!("{}{BYPASS}", call.dialect.header_prefix());
    let message = format!("{name} is only applicable to Object Lock enabled buckets.");
    Err(S3Error::invalid_argument(&name, value, message))
}

/// Whether the header asks to disregard governance mode.
pub(super) fn asks_to_bypass(call: &Call<'_>) -> bool {
    call.vendor_header(BYPASS).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Adds the retention and the legal hold to a response, as far as the caller may read them (S3 API
/// reference, GetObject).
pub(super) fn add_headers(
    mut response: Response,
    version: &VersionRecord,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Response {
    let retention = version.controls.retention;
    let held = version.controls.is_held();
    if retention.is_none() && !held {
        return response;
    }
    let place = Place::target(call).found(version);
    let may = |action| access::may(context, proof, call, action, place);
    if let Some(retention) = retention.filter(|_| may(Action::GetObjectRetention)) {
        let LockRetention { mode, until } = shown(retention);
        response = response
            .header("p-object-lock-mode", mode.as_str())
            .header("p-object-lock-retain-until-date", until.to_iso8601());
    }
    if held && may(Action::GetObjectLegalHold) {
        response = response.header("p-object-lock-legal-hold", legal_hold_name(true));
    }
    response
}

fn check_enabled(context: &Context, call: &Call<'_>) -> Result<(), S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    match bucket.configuration(LockConfiguration::KIND) {
        Some(_) => Ok(()),
        None => Err(not_enabled()),
    }
}

/// The error of a read of what a version does not have. A version that has it is shown in any
/// bucket: after a rebuild from the segments the configuration of the bucket is missing, and the
/// version locked as before.
fn not_locked(context: &Context, call: &Call<'_>) -> S3Error {
    match check_enabled(context, call) {
        Ok(()) => S3Error::new(ErrorCode::NoSuchObjectLockConfiguration).element("Key", call.key()),
        Err(error) => error,
    }
}

fn not_enabled() -> S3Error {
    S3Error::new(ErrorCode::InvalidRequest).message("Bucket is missing Object Lock Configuration")
}

/// The retention as it is stored.
///
/// # Errors
/// `InvalidArgument` for a time that is not in the future.
fn stored(retention: LockRetention, context: &Context) -> Result<Retention, S3Error> {
    let mode = stored_mode(retention.mode);
    if retention.until <= context.store.lock_time(mode) {
        let message = "The retain until date must be in the future!";
        return Err(S3Error::invalid_argument("RetainUntilDate", &retention.until.to_iso8601(), message));
    }
    Ok(Retention { mode, until: retention.until })
}

fn stored_mode(mode: LockMode) -> RetentionMode {
    match mode {
        LockMode::Governance => RetentionMode::Governance,
        LockMode::Compliance => RetentionMode::Compliance,
    }
}

fn shown(retention: Retention) -> LockRetention {
    let mode = match retention.mode {
        RetentionMode::Governance => LockMode::Governance,
        RetentionMode::Compliance => LockMode::Compliance,
    };
    LockRetention { mode, until: retention.until }
}
