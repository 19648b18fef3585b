//! Permissions: the facts about buckets, objects and requests that the evaluator asks for.
//! Operations ask here for every permission beside the one that they were called with.

use std::cell::{Cell, OnceCell};

use super::{Context, configurations, version_id};
use crate::auth::{
    AccessFacts, AclPlace, Action, Authorized, BucketPolicy, ConditionMemo, ExistingTags, Identity,
    PolicyContext, Resource, StatedEncryption, StatedHeader,
};
use crate::s3::acl::{AclGroup, AclPermission, AclPermissions, AclUser, GroupGrants};
use crate::s3::object_lock::legal_hold_name;
use crate::s3::{
    Call, CopySourceHeader, ErrorCode, PublicAccessBlock, S3Error, TargetResource, encryption, tags,
};
use crate::store::{ConfiguredBucket, EncryptionKind, OwnerCondition, Selector, VersionRecord};

/// The object or bucket of a permission.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    resource: Resource<'a>,
    /// The version that the request names.
    version: Option<&'a str>,
    /// The version itself, where it has been looked up.
    found: Option<&'a VersionRecord>,
    /// The future owner of a bucket that is to be created.
    creator: Option<&'a str>,
    /// Whether the request makes the object, and its sender will own it.
    is_own: bool,
    /// The tags that the request gives the object, where they come from another object.
    tags: Option<&'a [(String, String)]>,
}

impl<'a> Place<'a> {
    /// The object that `call` addresses.
    pub(super) fn target(call: &'a Call<'_>) -> Self {
        let place = Self::object(call.bucket(), call.key());
        Self { version: call.query.get("versionId"), ..place }
    }

    /// An object.
    pub(super) fn object(bucket: &'a str, key: &'a str) -> Self {
        Self::of(Resource::Object { bucket, key })
    }

    /// A bucket.
    pub(super) fn bucket(bucket: &'a str) -> Self {
        Self::of(Resource::Bucket(bucket))
    }

    /// A bucket that `creator` is about to create, and so to own.
    pub(super) fn new_bucket(bucket: &'a str, creator: &'a str) -> Self {
        Self { creator: Some(creator), ..Self::bucket(bucket) }
    }

    fn of(resource: Resource<'a>) -> Self {
        Self { resource, version: None, found: None, creator: None, is_own: false, tags: None }
    }

    /// The same object, which the request makes, and which its sender will own.
    pub(super) fn own(self) -> Self {
        Self { is_own: true, ..self }
    }

    /// The same object, of which the request names this version.
    pub(super) fn version(self, version: Option<&'a str>) -> Self {
        Self { version, ..self }
    }

    /// The same object, which gets these tags instead of those in the headers.
    pub(super) fn tags(self, tags: &'a [(String, String)]) -> Self {
        Self { tags: Some(tags), ..self }
    }

    /// Whether the request names a version.
    pub(super) fn names_version(&self) -> bool {
        self.version.is_some()
    }

    /// The same object, which was found to be this version.
    pub(super) fn found(self, found: &'a VersionRecord) -> Self {
        Self { found: Some(found), ..self }
    }
}

impl Context {
    /// The proof that the sender of `call` may do one of `actions` on `resource`.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn authorize_for(
        &self,
        identity: &Identity,
        call: &Call<'_>,
        actions: &[Action],
        resource: Resource<'_>,
    ) -> Result<Authorized, S3Error> {
        let place = Place::of(resource).version(call.query.get("versionId"));
        let mut refusal = None;
        for action in actions {
            let facts = StoredFacts::new(self, call, identity, *action, place);
            match identity.authorize(*action, resource, &facts) {
                Ok(proof) => return Ok(proof),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| S3Error::new(ErrorCode::AccessDenied)))
    }
}

/// The resource of the permission for a call: its target, or the keys that it lists.
pub(super) fn resource<'a>(call: &'a Call<'_>, is_listing: bool) -> Resource<'a> {
    match &call.target {
        TargetResource::Service => Resource::Service,
        TargetResource::Bucket(bucket) if is_listing => {
            Resource::Prefix { bucket, prefix: call.query.get("prefix").unwrap_or_default() }
        }
        TargetResource::Bucket(bucket) => Resource::Bucket(bucket),
        TargetResource::Object { bucket, key } => Resource::Object { bucket, key: key.as_str() },
    }
}

/// Whether the sender of a call may also do `action` in another place.
pub(super) fn may(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    action: Action,
    place: Place<'_>,
) -> bool {
    proof.may(action, place.resource, &further_facts(context, proof, call, action, place))
}

/// The facts for a further decision about the sender of a call.
fn further_facts<'a>(
    context: &'a Context,
    proof: &'a Authorized,
    call: &'a Call<'_>,
    action: Action,
    place: Place<'a>,
) -> StoredFacts<'a> {
    let facts = StoredFacts::new(context, call, proof.identity(), action, place);
    // The prefix of a key is another for each key, and the memo is of the whole request.
    let memo = (!facts.is_of_absence()).then(|| proof.memo());
    StoredFacts { memo, ..facts }
}

/// Checks a further permission of the sender of a call.
///
/// # Errors
/// `AccessDenied`.
pub(super) fn check(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    action: Action,
    place: Place<'_>,
) -> Result<(), S3Error> {
    match may(context, proof, call, action, place) {
        true => Ok(()),
        false => Err(S3Error::new(ErrorCode::AccessDenied)),
    }
}

/// Checks the permission of `proof` again for the version that was found in `place`, where the
/// decision depended on the object: another version may have taken its place since.
///
/// # Errors
/// `AccessDenied`.
pub(super) fn check_found(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    place: Place<'_>,
) -> Result<(), S3Error> {
    match proof.depends_on_object() {
        true => check(context, proof, call, proof.action(), place),
        false => Ok(()),
    }
}

/// Checks the permission to delete an object. The commit checks its owner again, where the decision
/// depended on it.
///
/// # Errors
/// `AccessDenied`.
pub(super) fn check_deletion(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    action: Action,
    place: Place<'_>,
) -> Result<OwnerCondition, S3Error> {
    let facts = further_facts(context, proof, call, action, place);
    if !proof.may(action, place.resource, &facts) {
        return Err(S3Error::new(ErrorCode::AccessDenied));
    }
    if !facts.uses_object() {
        return Ok(OwnerCondition::Any);
    }
    let users = facts.object().and_then(|version| version.controls.users.as_deref());
    Ok(match configurations::recorded_owner(users) {
        Some(owner) => OwnerCondition::User { name: owner.name.clone(), since: owner.since },
        None => OwnerCondition::Bucket,
    })
}

/// Whether the policy of a bucket depends on the tags that a request gives an object.
pub(super) fn policy_reads_tags(context: &Context, bucket: &str) -> bool {
    let bucket = context.store.configured_bucket(bucket);
    bucket.is_ok_and(|bucket| configurations::policy(&bucket).is_some_and(BucketPolicy::reads_request_tags))
}

/// The facts about one place and one call, each looked up when it is first asked for.
struct StoredFacts<'a> {
    context: &'a Context,
    call: &'a Call<'a>,
    identity: &'a Identity,
    action: Action,
    place: Place<'a>,
    bucket: OnceCell<Option<ConfiguredBucket>>,
    object: OnceCell<Option<VersionRecord>>,
    request_tags: OnceCell<Vec<(String, String)>>,
    uses_object: Cell<bool>,
    memo: Option<&'a ConditionMemo>,
}

impl<'a> StoredFacts<'a> {
    fn new(
        context: &'a Context,
        call: &'a Call<'a>,
        identity: &'a Identity,
        action: Action,
        place: Place<'a>,
    ) -> Self {
        let bucket = OnceCell::new();
        let object = OnceCell::new();
        let request_tags = OnceCell::new();
        Self {
            context,
            call,
            identity,
            action,
            place,
            bucket,
            object,
            request_tags,
            uses_object: Cell::new(false),
            memo: None,
        }
    }

    fn bucket(&self) -> Option<&ConfiguredBucket> {
        let name = self.place.resource.bucket()?;
        self.bucket.get_or_init(|| self.context.store.configured_bucket(name).ok()).as_ref()
    }

    /// The version of the object that the request addresses.
    fn object(&self) -> Option<&VersionRecord> {
        self.uses_object.set(true);
        let found = self.place.found.or_else(|| self.object.get_or_init(|| self.find()).as_ref());
        found.filter(|version| !version.delete_marker)
    }

    fn find(&self) -> Option<VersionRecord> {
        let Resource::Object { bucket, key } = self.place.resource else { return None };
        let which = match self.place.version {
            None => Selector::Current,
            Some(text) => version_id::parse(self.context, text)?,
        };
        self.context.store.find_outline(bucket, key, which).ok().map(|found| found.version)
    }

    /// Whether it is asked if the sender may learn that a key is missing.
    fn is_of_absence(&self) -> bool {
        self.action == Action::ListBucket && matches!(self.place.resource, Resource::Object { .. })
    }

    /// The prefix of a listing. Who may learn that a key is missing is decided as for a listing of
    /// that key, and not by what a request for an object states in its query.
    fn prefix(&self) -> Option<&str> {
        match self.place.resource {
            Resource::Object { key, .. } => self.is_of_absence().then_some(key),
            _ => self.of_listing("prefix"),
        }
    }

    /// A parameter of a listing.
    fn of_listing(&self, name: &str) -> Option<&str> {
        match self.place.resource {
            Resource::Object { .. } => None,
            _ => self.call.query.get(name),
        }
    }

    /// The tags that the request gives an object. Malformed ones are refused later.
    fn request_tags(&self) -> &[(String, String)] {
        let known = self.place.tags.or(self.call.body_tags.as_deref());
        known.unwrap_or_else(|| {
            self.request_tags.get_or_init(|| tags::from_header(self.call.vendor()).unwrap_or_default())
        })
    }
}

/// Whether anybody may put objects by the ACL of a bucket.
fn lets_all_write(acl: GroupGrants) -> bool {
    acl.includes(AclGroup::AllUsers, AclPermission::Write)
}

impl StoredFacts<'_> {
    /// Whom the ACL of the bucket lets put objects may also say who else has access to his own.
    /// Whom the users file lets put needs the permission for it there.
    fn own_new_object(&self, by_bucket: AclPermissions) -> AclPermissions {
        use crate::s3::acl::AclGroup::AuthenticatedUsers;
        let groups = match self.block().ignores_acls {
            true => GroupGrants::NONE,
            false => self.bucket_acl(),
        };
        let write = AclPermission::Write;
        let by_group = lets_all_write(groups) || groups.includes(AuthenticatedUsers, write);
        match by_group || by_bucket.includes(write) {
            true => AclPermissions::ALL,
            false => AclPermissions::NONE,
        }
    }

    /// The bucket and the key that are copied, as the copy reads them: a policy that names them
    /// must not be passed by another spelling.
    fn copy_source(&self) -> Option<String> {
        self.call.vendor_header("copy-source")?;
        let source = CopySourceHeader::from_headers(self.call.vendor()).ok()?;
        Some(format!("{}/{}", source.bucket, source.key.as_str()))
    }
}

impl AccessFacts for StoredFacts<'_> {
    fn owner(&self) -> Option<&str> {
        self.place.creator.or_else(|| self.bucket().map(|bucket| bucket.info.owner.as_str()))
    }

    fn policy(&self) -> Option<&BucketPolicy> {
        configurations::policy(self.bucket()?)
    }

    fn context(&self) -> PolicyContext<'_> {
        let call = self.call;
        PolicyContext {
            user: self.identity.user_in_policies(),
            principal: self.identity.principal(),
            source_ip: call.request.peer.map(|peer| peer.ip()),
            secure: call.request.secure,
            now: call.received,
            referer: call.headers().get_str("referer"),
            user_agent: call.headers().get_str("user-agent"),
            prefix: self.prefix(),
            delimiter: self.of_listing("delimiter"),
            max_keys: self.of_listing("max-keys"),
            canned_acl: call.vendor_header("acl"),
            encryption: self,
            version_id: self.place.version,
            request_tags: self.request_tags(),
            existing_tags: self,
            memo: self.memo,
        }
    }

    fn block(&self) -> PublicAccessBlock {
        self.bucket().map(configurations::block).unwrap_or_default()
    }

    fn has_acls(&self) -> bool {
        self.bucket().is_some_and(|bucket| configurations::ownership(self.context, bucket).has_acls())
    }

    fn bucket_acl(&self) -> GroupGrants {
        self.bucket().map(|bucket| configurations::bucket_acl(bucket).groups).unwrap_or_default()
    }

    /// Who may list the bucket may learn that there is no object, so its absence may be read like
    /// an object (S3 API reference, GetObject, "Permissions"). A denial of the policy still wins.
    fn object_acl(&self) -> GroupGrants {
        if self.place.is_own {
            // Of an anonymous sender, as `own_new_object` of a user.
            return match lets_all_write(self.bucket_acl()) {
                true => GroupGrants::NONE.with(AclGroup::AllUsers, AclPermission::WriteAcp),
                false => GroupGrants::NONE,
            };
        }
        match self.object() {
            Some(version) => configurations::object_groups(version),
            None => self.bucket_acl().readable(),
        }
    }

    fn named_in_acl(&self, place: AclPlace, user: AclUser<'_>) -> AclPermissions {
        let by_bucket = || {
            let acl = self.bucket().map(configurations::bucket_acl);
            acl.map_or(AclPermissions::NONE, |acl| acl.permissions_of(user))
        };
        match place {
            AclPlace::Bucket => by_bucket(),
            AclPlace::Object if self.place.is_own => self.own_new_object(by_bucket()),
            AclPlace::Object => match self.object() {
                Some(version) => configurations::named_in_object(version, user),
                None => by_bucket().only(AclPermissions::of(&[AclPermission::Read])),
            },
        }
    }

    /// A bucket stands for any object of it. DeleteObjects names its objects in the body, and decides
    /// each by itself.
    fn owns_object(&self, user: AclUser<'_>) -> bool {
        if matches!(self.place.resource, Resource::Bucket(_)) {
            return true;
        }
        self.object().is_some_and(|version| {
            let recorded = configurations::recorded_owner(version.controls.users.as_deref());
            match recorded {
                Some(owner) => configurations::is_owner(Some(owner), user),
                None => self.owner() == Some(user.name),
            }
        })
    }

    fn is_initiator(&self, user: &str) -> bool {
        self.uses_object.set(true);
        let Resource::Object { bucket, key } = self.place.resource else { return false };
        let id = self.call.query.get("uploadId");
        let id = id.and_then(|id| self.context.store.client_ids().upload(id));
        let upload = id.and_then(|id| self.context.store.upload_record(bucket, key, id).ok());
        upload.is_some_and(|upload| upload.initiator == user)
    }

    fn uses_object(&self) -> bool {
        self.uses_object.get()
    }
}

impl StatedEncryption for StoredFacts<'_> {
    /// The requests that add to an upload cannot state its kind (S3 API reference, UploadPart): a
    /// policy that wants it of all puts sees the kind that the upload has.
    fn stated(&self, header: StatedHeader) -> Option<String> {
        let name = match header {
            StatedHeader::Kind => encryption::KIND,
            StatedHeader::KmsKey => encryption::KMS_KEY_ID,
            StatedHeader::CustomerAlgorithm => encryption::CUSTOMER_ALGORITHM,
            StatedHeader::CopySource => return self.copy_source(),
            StatedHeader::MetadataDirective => "metadata-directive",
            StatedHeader::StorageClass => "storage-class",
            StatedHeader::GrantRead => "grant-read",
            StatedHeader::GrantWrite => "grant-write",
            StatedHeader::GrantReadAcp => "grant-read-acp",
            StatedHeader::GrantWriteAcp => "grant-write-acp",
            StatedHeader::GrantFullControl => "grant-full-control",
            StatedHeader::LockMode => "object-lock-mode",
            StatedHeader::LockUntil => "object-lock-retain-until-date",
            StatedHeader::LegalHold => "object-lock-legal-hold",
        };
        // The body of a change of an object's lock states what headers state of a new object.
        if let Some(stated) = &self.call.body_lock {
            return match header {
                StatedHeader::LockMode => stated.retention.map(|it| it.mode.as_str().to_owned()),
                StatedHeader::LockUntil => stated.retention.map(|it| it.until.to_iso8601()),
                StatedHeader::LegalHold => stated.legal_hold.map(|held| legal_hold_name(held).to_owned()),
                _ => None,
            };
        }
        if let Some(stated) = self.call.vendor_header(name) {
            return Some(stated.to_owned());
        }
        let upload = self.context.store.client_ids().upload(self.call.query.get("uploadId")?)?;
        let upload = self.context.store.upload_record(self.call.bucket(), self.call.key(), upload).ok()?;
        if header == StatedHeader::StorageClass {
            return Some(upload.storage_class.as_str().to_owned());
        }
        let wrapped = upload.encryption?;
        match (header, wrapped.kind) {
            (StatedHeader::Kind, EncryptionKind::S3) => Some(encryption::AES256.to_owned()),
            (StatedHeader::Kind, EncryptionKind::Kms) => Some(encryption::AWS_KMS.to_owned()),
            (StatedHeader::KmsKey, EncryptionKind::Kms) => {
                let ring = self.context.keys.get();
                let key = ring.by_id(&wrapped.key_id).map(|key| key.shown_name().to_owned());
                key.or(Some(wrapped.key_id))
            }
            (StatedHeader::CustomerAlgorithm, EncryptionKind::Customer) => {
                Some(encryption::AES256.to_owned())
            }
            _ => None,
        }
    }
}

impl ExistingTags for StoredFacts<'_> {
    fn value(&self, key: &str) -> Option<String> {
        if !self.action.has_existing_tags() {
            return None;
        }
        let tags = &self.object()?.tags;
        tags.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }
}
