//! The values that audited operations change, as text for the audit log.

use serde_json::{Value, json};

use super::configurations::{object_acl, recorded_owner};
use super::{Context, version_id};
use crate::base::Quota;
use crate::s3::Call;
use crate::s3::acl::POLICY_ROOT;
use crate::s3::object_lock::legal_hold_name;
use crate::store::{BucketConfigurationKind, Retention, RetentionMode, Selector, VersionRecord, Versioning};

/// The value that an audited operation changes. Its record has it from before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuditedValue {
    /// Nothing that is kept.
    None,
    /// A bucket with its configurations.
    Bucket,
    /// The versioning state of a bucket.
    Versioning,
    /// A configuration of a bucket.
    Configuration(BucketConfigurationKind),
    /// The quota of an owner.
    OwnerQuota,
    /// A version of an object.
    Version,
    /// The access control list of a version.
    ObjectAcl,
    /// The retention of a version.
    Retention,
    /// The legal hold of a version.
    LegalHold,
}

/// The value that a call changes, as it is now; `None` if there is none. Documents are as stored; a
/// version and a bucket are JSON objects.
pub(super) fn state(context: &Context, call: &Call<'_>, value: AuditedValue) -> Option<String> {
    match value {
        AuditedValue::None => None,
        AuditedValue::Bucket => bucket(context, call),
        AuditedValue::Versioning => versioning(context, call),
        AuditedValue::Configuration(kind) => configuration(context, call, kind),
        AuditedValue::OwnerQuota => owner_quota(context, call),
        AuditedValue::Version => Some(describe(&target(context, call)?).to_string()),
        AuditedValue::ObjectAcl => acl(context, call, &target(context, call)?),
        AuditedValue::Retention => Some(retention(target(context, call)?.controls.retention?)),
        AuditedValue::LegalHold => {
            Some(legal_hold_name(target(context, call)?.controls.is_held()).to_owned())
        }
    }
}

/// The version that a deletion would remove, as JSON; `None` if there is none.
pub(super) fn version_state(context: &Context, call: &Call<'_>, key: &str, named: &str) -> Option<String> {
    let which = version_id::parse(context, named)?;
    Some(describe(&find(context, call, key, which)?).to_string())
}

fn find(context: &Context, call: &Call<'_>, key: &str, which: Selector) -> Option<VersionRecord> {
    Some(context.store.find_outline(call.bucket(), key, which).ok()?.version)
}

/// The version that the call addresses.
fn target(context: &Context, call: &Call<'_>) -> Option<VersionRecord> {
    let which = version_id::selector(context, call).ok()?;
    find(context, call, call.key(), which)
}

fn acl(context: &Context, call: &Call<'_>, version: &VersionRecord) -> Option<String> {
    let owner = context.store.bucket(call.bucket()).ok()?.owner;
    let mut document = context.document(POLICY_ROOT);
    let recorded = recorded_owner(version.controls.users.as_deref());
    let owner = recorded.map_or(owner, |owner| owner.name.clone());
    object_acl(version).render_policy(&mut document, &owner);
    String::from_utf8(document.finish()).ok()
}

fn describe(version: &VersionRecord) -> Value {
    json!({
        "modified": version.modified.to_iso8601(),
        "delete_marker": version.delete_marker,
        "size": version.size,
        "etag": version.etag.to_string(),
        "retention": version.controls.retention.map(retention),
        "legal_hold": version.controls.is_held(),
    })
}

fn retention(retention: Retention) -> String {
    let mode = match retention.mode {
        RetentionMode::Governance => "GOVERNANCE",
        RetentionMode::Compliance => "COMPLIANCE",
    };
    format!("{mode} until {}", retention.until.to_iso8601())
}

fn bucket(context: &Context, call: &Call<'_>) -> Option<String> {
    let found = context.store.configured_bucket(call.bucket()).ok()?;
    let mut described = json!({ "owner": found.info.owner, "versioning": status(found.info.versioning) });
    for (kind, _, name) in BucketConfigurationKind::TABLE {
        if let Some(set) = found.configuration(kind) {
            described[name] = String::from_utf8_lossy(set.document()).into();
        }
    }
    Some(described.to_string())
}

fn versioning(context: &Context, call: &Call<'_>) -> Option<String> {
    status(context.store.bucket(call.bucket()).ok()?.versioning).map(str::to_owned)
}

fn status(versioning: Versioning) -> Option<&'static str> {
    match versioning {
        Versioning::Unset => None,
        Versioning::Enabled => Some("Enabled"),
        Versioning::Suspended => Some("Suspended"),
    }
}

fn owner_quota(context: &Context, call: &Call<'_>) -> Option<String> {
    let stored = context.store.limited_owner(call.query.get("owner")?).stored?;
    String::from_utf8(Quota::document(&stored)).ok()
}

fn configuration(context: &Context, call: &Call<'_>, kind: BucketConfigurationKind) -> Option<String> {
    let bucket = context.store.configured_bucket(call.bucket()).ok()?;
    Some(String::from_utf8_lossy(bucket.configuration(kind)?.document()).into_owned())
}
