//! DeleteObject and DeleteObjects.

use super::access::{self, Place};
use super::client_error::{self, ForClient as _};
use super::{Context, audit, body, memory, new_object, object_lock, version_id};
use crate::auth::{Action, Authorized};
use crate::base::limits::DELETE_OBJECTS_MAX;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, NamedObject, ObjectKey, Response, S3Error, VersionDeletion, conditions};
use crate::store::{DeleteCondition, Deleted, Deletion, Selector, StoreError};
use crate::xml::{Element, Writer};

/// DeleteObject. The status is 204 even if nothing was deleted. Durable on return.
pub(super) fn one(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let which = version_id::selector(context, call)?;
    let mut condition = conditions::delete_condition(call.headers(), call.vendor())?;
    if !condition.is_none() {
        new_object::check_may_compare(context, proof, call, Place::target(call))?;
    }
    if proof.depends_on_object() {
        condition.owner = access::check_deletion(context, proof, call, proof.action(), Place::target(call))?;
    }
    let deletion = Deletion { key: call.key().to_owned(), which, condition };
    object_lock::check_bypass_is_of_use(context, call)?;
    object_lock::bypasses_governance(context, proof, call, Place::target(call))?;
    let results = delete_from(context, call, vec![deletion])?;
    let deleted = results.into_iter().next().expect("one result for one deletion");
    let deleted = deleted.for_client(call)?;
    let mut response = Response::new(204);
    if deleted.delete_marker {
        response = response.header("p-delete-marker", "true");
    }
    // An id of no version is echoed as sent.
    let version = match call.query.get("versionId") {
        Some(named) => Some(named.to_owned()),
        None => deleted.version.map(|version| version.text(context.store.client_ids())),
    };
    if let Some(version) = version {
        response = response.header("p-version-id", version);
    }
    Ok(response)
}

/// One `Object` element of a DeleteObjects request.
struct ObjectIdentifier {
    key: String,
    version: Option<String>,
    condition: DeleteCondition,
}

/// DeleteObjects. All deletions are one commit, durable on return.
pub(super) fn many(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    object_lock::check_bypass_is_of_use(context, call)?;
    let request = body::read_claimed_document(context, call)?;
    let (object, quiet) = parse(&request)?;
    note_named_versions(context, call, &object);
    let held = memory::for_deletions(context, object.iter().map(|object| object.key.as_str()))?;
    let results = delete(context, proof, call, &object)?;
    note_outcomes(call, &object, &results);
    let mut document = context.long_document("DeleteResult", &held);
    for (object, result) in object.iter().zip(results) {
        match result {
            Ok(deleted) if !quiet => write_deleted(context, &mut document, object, deleted),
            Ok(_) => {}
            Err(error) => write_error(&mut document, object, &error),
        }
    }
    Ok(xml(200, document).holding(held))
}

/// Notes the versions that the request names, if they are audited.
fn note_named_versions(context: &Context, call: &mut Call<'_>, object: &[ObjectIdentifier]) {
    if call.deletions.is_none() {
        return;
    }
    let mut noted = Vec::new();
    for object in object {
        let Some(version) = object.version.clone() else { continue };
        let before = audit::version_state(context, call, &object.key, &version);
        noted.push(VersionDeletion { key: object.key.clone(), version, before, error: None });
    }
    call.deletions = Some(noted);
}

/// Adds the outcomes to the noted versions.
fn note_outcomes(call: &mut Call<'_>, object: &[ObjectIdentifier], results: &[Result<Deleted, S3Error>]) {
    let of_versions = object.iter().zip(results).filter(|(object, _)| object.version.is_some());
    let noted = call.deletions.iter_mut().flatten();
    for (noted, (_, result)) in noted.zip(of_versions) {
        noted.error = result.as_ref().err().map(|error| error.code);
    }
    if let Some(named) = &mut call.named_objects {
        named.extend(object.iter().zip(results).map(|(object, result)| NamedObject {
            key: object.key.clone(),
            version: object.version.clone(),
            error: result.as_ref().err().map(|error| error.code),
        }));
    }
}

fn parse(request: &[u8]) -> Result<(Vec<ObjectIdentifier>, bool), S3Error> {
    let document = body::parse(request, "Delete")?;
    let root = document.root();
    let object = root.all("Object").map(parse_object).collect::<Result<Vec<_>, _>>()?;
    if object.is_empty() || object.len() > DELETE_OBJECTS_MAX {
        return Err(body::malformed_because("from 1 to 1000 objects can be deleted at once"));
    }
    if object.iter().any(|object| object.key.is_empty()) {
        return Err(body::malformed_because("every Object has a Key"));
    }
    let quiet = root.child_text("Quiet").map_err(body::malformed)?;
    Ok((object, quiet.is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))))
}

fn parse_object(object: Element<'_>) -> Result<ObjectIdentifier, S3Error> {
    let size = match child_text(object, "Size")? {
        Some(size) => Some(conditions::expected_size(&size).ok_or_else(|| unreadable("Size"))?),
        None => None,
    };
    let modified = match child_text(object, "LastModifiedTime")? {
        Some(time) => Some(conditions::expected_time(&time).ok_or_else(|| unreadable("LastModifiedTime"))?),
        None => None,
    };
    Ok(ObjectIdentifier {
        key: child_text(object, "Key")?.unwrap_or_default(),
        version: child_text(object, "VersionId")?.filter(|version| !version.is_empty()),
        condition: DeleteCondition {
            if_match: child_text(object, "ETag")?,
            size,
            modified,
            ..DeleteCondition::default()
        },
    })
}

fn child_text(object: Element<'_>, name: &str) -> Result<Option<String>, S3Error> {
    let text = object.child_text(name).map_err(body::malformed)?;
    Ok(text.map(std::borrow::Cow::into_owned))
}

fn unreadable(name: &str) -> S3Error {
    body::malformed_because(&format!("the {name} of an Object is unreadable"))
}

/// One result for each object. A failed deletion does not prevent the others.
fn delete(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    object: &[ObjectIdentifier],
) -> Result<Vec<Result<Deleted, S3Error>>, S3Error> {
    let checked: Vec<_> = object.iter().map(|object| check(object, context, proof, call)).collect();
    let deletions: Vec<_> = checked.iter().filter_map(|checked| checked.as_ref().ok().cloned()).collect();
    // The results of those that were let through, among the refusals in their places.
    let mut results = delete_from(context, call, deletions)?.into_iter();
    let mut all = Vec::with_capacity(checked.len());
    for checked in checked {
        all.push(checked.and_then(|_| {
            let result = results.next().expect("one result for each deletion");
            result.map_err(|error| client_error::to_client_error(&error, &call.id))
        }));
    }
    Ok(all)
}

/// Deletes what the sender may delete, in governance mode, too, if the call asks for it.
fn delete_from(
    context: &Context,
    call: &Call<'_>,
    deletions: Vec<Deletion>,
) -> Result<Vec<Result<Deleted, StoreError>>, S3Error> {
    // Who may not bypass it was refused before, object by object.
    let deleted = match object_lock::asks_to_bypass(call) {
        true => context.store.delete_bypassing_governance(call.bucket(), deletions),
        false => context.store.delete(call.bucket(), deletions),
    };
    deleted.for_client(call)
}

fn check(
    object: &ObjectIdentifier,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Deletion, S3Error> {
    let key = ObjectKey::new(object.key.clone())?;
    let (which, action) = match object.version.as_deref() {
        None => (Selector::Current, Action::DeleteObject),
        Some(text) => {
            let which =
                version_id::parse(context, text).ok_or_else(|| S3Error::new(ErrorCode::NoSuchVersion))?;
            (which, Action::DeleteObjectVersion)
        }
    };
    let place = Place::object(call.bucket(), key.as_str()).version(object.version.as_deref());
    let owner = access::check_deletion(context, proof, call, action, place)?;
    object_lock::bypasses_governance(context, proof, call, place)?;
    if !object.condition.is_none() {
        new_object::check_may_compare(context, proof, call, place)?;
    }
    let condition = DeleteCondition { owner, ..object.condition.clone() };
    Ok(Deletion { key: object.key.clone(), which, condition })
}

fn write_deleted(context: &Context, document: &mut Writer, object: &ObjectIdentifier, deleted: Deleted) {
    document.element("Deleted", |entry| {
        entry.leaf("Key", &object.key);
        if let Some(version) = &object.version {
            entry.leaf("VersionId", version);
        }
        if deleted.delete_marker {
            entry.leaf("DeleteMarker", "true");
            if let Some(version) = deleted.version {
                entry.leaf("DeleteMarkerVersionId", &version.text(context.store.client_ids()));
            }
        }
    });
}

fn write_error(document: &mut Writer, object: &ObjectIdentifier, error: &S3Error) {
    document.element("Error", |entry| {
        entry.leaf("Key", &object.key);
        if let Some(version) = &object.version {
            entry.leaf("VersionId", version);
        }
        entry.leaf("Code", error.code.as_str());
        entry.leaf("Message", &error.message);
    });
}
