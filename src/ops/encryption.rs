//! The encryption of objects: what a write asks for, with the keys of the ring and the default of
//! its bucket; the keys that reads state; and what both are answered.

use std::borrow::Cow;
use std::ops::Deref;

use super::client_error::ForClient as _;
use super::key_errors::NO_RING;
use super::stored_document::{self, StoredDocument};
use super::{Context, memory};
use crate::base::Reservation;
use crate::keys::{KeyRing, RingKey, UnusableKey};
use crate::s3::bucket_encryption::{BlockedTypes, BucketEncryption, DefaultEncryption};
use crate::s3::encryption::{self, CustomerKey, KeyHolder, KmsRequest, RequestedEncryption, ShownEncryption};
use crate::s3::{Call, ErrorCode, RequestId, Response, S3Error};
use crate::store::{
    BucketConfigurationKind, ConfiguredBucket, EncryptionKind, MasterKey, NewEncryption, OpenedKey, Selector,
    StoreError, UploadRecord, VersionRecord, WrappedKey,
};

const PLAIN_HTTP: &str = "Requests specifying Server Side Encryption with Customer provided keys must be made over a secure connection.";
const UPLOAD_KEY_NEEDED: &str = "The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.";
const UPLOAD_KEY_WRONG: &str = "The provided encryption parameters did not match the ones used originally.";

impl StoredDocument for BucketEncryption {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Encryption;

    /// A server that encrypts all objects says so.
    fn unset(context: &Context) -> Result<Self, ErrorCode> {
        match context.encrypt_objects {
            true => Ok(Self::OF_ALL),
            false => Err(ErrorCode::ServerSideEncryptionConfigurationNotFoundError),
        }
    }
}

/// Refuses a customer's key that others on the way could read. A client on this host, or a proxy
/// on it, is asked over its loopback addresses.
///
/// # Errors
/// `InvalidRequest`.
pub(super) fn check_connection(context: &Context, call: &Call<'_>) -> Result<(), S3Error> {
    if !encryption::states_customer_key(call.vendor()) || call.request.secure || context.takes_keys_over_http
    {
        return Ok(());
    }
    // Nobody else reads what stays on this host.
    if call.request.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback()) {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::InvalidRequest).message(PLAIN_HTTP))
}

/// The encryption of a new object or upload.
#[derive(Debug, Clone, Default)]
pub(super) struct ChosenEncryption {
    /// What the store is asked for; `None` for bytes in the clear.
    pub(super) new: Option<NewEncryption>,
    /// What the response shows.
    shown: Option<ShownEncryption>,
}

impl ChosenEncryption {
    /// The encryption that the headers ask for, else that of the bucket, else that of the server.
    ///
    /// # Errors
    /// Those of [`RequestedEncryption::from_headers`]; `AccessDenied` for a kind that the bucket
    /// blocks; `InvalidRequest` without a ring; `KMS.NotFoundException` and `KMS.DisabledException`
    /// for a key that cannot encrypt; `NoSuchBucket`.
    pub(super) fn of_new_object(context: &Context, call: &Call<'_>) -> Result<Self, S3Error> {
        let requested = RequestedEncryption::from_headers(call.vendor())?;
        let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
        Self::of_request(context, requested, &bucket, &call.id)
    }

    /// The encryption of an object of which nothing is asked for: that of the bucket, else that of
    /// the server.
    ///
    /// # Errors
    /// As [`Self::of_new_object`].
    pub(super) fn of_bucket(
        context: &Context,
        bucket: &ConfiguredBucket,
        id: &RequestId,
    ) -> Result<Self, S3Error> {
        Self::of_request(context, RequestedEncryption::Unstated, bucket, id)
    }

    fn of_request(
        context: &Context,
        requested: RequestedEncryption,
        bucket: &ConfiguredBucket,
        id: &RequestId,
    ) -> Result<Self, S3Error> {
        let configured = stored_document::read::<BucketEncryption>(bucket, id)?;
        let is_blocked = configured.is_some_and(|it| it.blocked == Some(BlockedTypes::Customer));
        if is_blocked && matches!(requested, RequestedEncryption::Customer(_)) {
            return Err(S3Error::new(ErrorCode::AccessDenied)
                .message("The bucket blocks Server Side Encryption with Customer provided keys."));
        }
        let default = configured.and_then(|configured| configured.default.as_ref());
        let bucket_key = configured.and_then(|configured| configured.bucket_key).unwrap_or(false);
        match (requested, default) {
            (RequestedEncryption::Customer(customer), _) => Ok(Self::customer(customer)),
            (RequestedEncryption::Kms(request), _) => Self::kms(context, request, bucket_key),
            (RequestedEncryption::Unstated, Some(DefaultEncryption::Kms(key))) => {
                Self::kms(context, KmsRequest { key: key.clone(), ..KmsRequest::default() }, bucket_key)
            }
            (RequestedEncryption::Unstated, None) if !context.encrypt_objects => Ok(Self::default()),
            (RequestedEncryption::S3 | RequestedEncryption::Unstated, _) => Self::s3(context),
        }
    }

    fn s3(context: &Context) -> Result<Self, S3Error> {
        current_key(&context.keys.get())?;
        Ok(Self { new: Some(NewEncryption::S3), shown: Some(ShownEncryption::S3) })
    }

    fn kms(context: &Context, request: KmsRequest, of_bucket: bool) -> Result<Self, S3Error> {
        let ring = context.keys.get();
        let key = match request.key.as_deref().filter(|name| !KeyRing::is_default_alias(name)) {
            None => current_key(&ring)?,
            Some(name) => ring.named(name).map_err(|why| unusable(why, name))?,
        };
        let bucket_key = request.bucket_key.unwrap_or(of_bucket);
        let shown = ShownEncryption::Kms {
            key: key.shown_name().to_owned(),
            context: request.context.clone(),
            bucket_key,
        };
        let new = NewEncryption::Kms { key_id: key.id.clone(), context: request.context, bucket_key };
        Ok(Self { new: Some(new), shown: Some(shown) })
    }

    fn customer(customer: CustomerKey) -> Self {
        Self {
            new: Some(NewEncryption::Customer(customer.key)),
            shown: Some(ShownEncryption::Customer { md5: customer.md5 }),
        }
    }

    /// What the response shows.
    pub(super) fn shown(&self) -> Option<&ShownEncryption> {
        self.shown.as_ref()
    }

    /// Whether a copy of a version onto itself would have another encryption. Of the keys of the
    /// ring for objects that name none, one is as good as another.
    pub(super) fn changes(&self, version: &VersionRecord) -> bool {
        match (&self.new, key_of(version)) {
            (None, None) => false,
            (Some(NewEncryption::S3), Some(old)) => old.kind != EncryptionKind::S3,
            (Some(NewEncryption::Kms { key_id, context, bucket_key }), Some(old)) => {
                old.kind != EncryptionKind::Kms
                    || (key_id, context, *bucket_key) != (&old.key_id, &old.context, old.bucket_key)
            }
            (Some(NewEncryption::Customer(_)), Some(_)) | (Some(_), None) | (None, Some(_)) => true,
        }
    }

    /// Whether this is the kind of a version.
    pub(super) fn is_kind_of(&self, version: &VersionRecord) -> bool {
        let kind = self.new.as_ref().map(|new| match new {
            NewEncryption::S3 => EncryptionKind::S3,
            NewEncryption::Kms { .. } => EncryptionKind::Kms,
            NewEncryption::Customer(_) => EncryptionKind::Customer,
        });
        kind == key_of(version).map(|wrapped| wrapped.kind)
    }
}

fn current_key(ring: &KeyRing) -> Result<&RingKey, S3Error> {
    ring.current().ok_or_else(|| S3Error::new(ErrorCode::InvalidRequest).message(NO_RING))
}

fn unusable(why: UnusableKey, name: &str) -> S3Error {
    match why {
        UnusableKey::Unknown => S3Error::new(ErrorCode::KmsNotFoundException)
            .message(format!("Key '{name}' does not exist"))
            .element("KeyId", name),
        UnusableKey::Retired => S3Error::new(ErrorCode::KmsDisabledException)
            .message(format!("Key '{name}' is retired"))
            .element("KeyId", name),
    }
}

/// What becomes of the headers that choose a kind of encryption, in requests that have no choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherKinds {
    /// Reads refuse them.
    Refused,
    /// Requests that add to an upload ignore them: its kind was decided before.
    Ignored,
}

impl Context {
    /// Whether the current version of a key can be read without a customer's key.
    pub fn opens(&self, bucket: &str, key: &str) -> bool {
        if !self.store.has_encrypted() {
            return true;
        }
        let found = self.store.find(bucket, key, Selector::Current);
        found.is_ok_and(|found| self.store.check_key(&found.version, None).is_ok())
    }
}

/// The customer's key that a request states for an object that it reads.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadKey(Option<CustomerKey>);

impl ReadKey {
    /// The key for the object or upload that the request addresses.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn of_target(call: &Call<'_>, other_kinds: OtherKinds) -> Result<Self, S3Error> {
        if other_kinds == OtherKinds::Refused {
            encryption::refuse_kind(call.vendor())?;
        }
        CustomerKey::from_headers(call.vendor(), KeyHolder::Target).map(Self)
    }

    /// The key of the source of a copy.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(super) fn of_source(call: &Call<'_>) -> Result<Self, S3Error> {
        CustomerKey::from_headers(call.vendor(), KeyHolder::CopySource).map(Self)
    }

    /// The key.
    pub(super) fn key(&self) -> Option<&MasterKey> {
        self.0.as_ref().map(|customer| &customer.key)
    }

    /// Opens the key of an object, before anything of the object is told.
    ///
    /// # Errors
    /// `InvalidRequest` for an object without or with another kind of encryption, `AccessDenied`
    /// for another key, `KMS.NotFoundException` where the ring lacks the key.
    pub(super) fn open(
        &self,
        context: &Context,
        call: &Call<'_>,
        version: &VersionRecord,
    ) -> Result<OpenedKey, S3Error> {
        context.store.open_key(version, self.key()).for_client(call)
    }

    /// As [`ReadKey::open`], for what tells of an object and reads none of its bytes. Nothing but
    /// sealed checksums takes a key of the ring: without it the others of a HEAD are told all the
    /// same (S3 API reference, HeadObject, `x-amz-checksum-mode`: with it alone a KMS key has to be
    /// usable).
    ///
    /// # Errors
    /// As of [`ReadKey::open`]; those of the ring only where `wants_checksums`, and the record
    /// seals them.
    pub(super) fn open_to_tell(
        &self,
        context: &Context,
        call: &Call<'_>,
        version: &VersionRecord,
        wants_checksums: bool,
    ) -> Result<OpenedKey, S3Error> {
        let seals = key_of(version).is_some_and(|wrapped| wrapped.kind.seals_digests());
        match context.store.open_key(version, self.key()) {
            Err(StoreError::KeyUnavailable(_) | StoreError::WrongRingKey(_))
                if !(seals && wants_checksums) =>
            {
                Ok(OpenedKey::default())
            }
            opened => opened.for_client(call),
        }
    }

    /// Whether the client of an upload under a key of its own does not state that key. To complete
    /// one, it is only needed for checksums (S3 API reference, CompleteMultipartUpload).
    pub(super) fn is_left_out(&self, upload: &UploadRecord) -> bool {
        let kind = upload.encryption.as_ref().map(|wrapped| wrapped.kind);
        self.0.is_none() && kind == Some(EncryptionKind::Customer)
    }

    /// Opens the key of an upload.
    ///
    /// # Errors
    /// `InvalidRequest`: another key is no question of permission here (S3 API reference,
    /// UploadPart).
    pub(super) fn open_upload(
        &self,
        context: &Context,
        call: &Call<'_>,
        upload: &UploadRecord,
    ) -> Result<OpenedKey, S3Error> {
        match context.store.open_upload_key(upload, self.key()) {
            Err(StoreError::WrongCustomerKey) => {
                Err(S3Error::new(ErrorCode::InvalidRequest).message(UPLOAD_KEY_WRONG))
            }
            Err(StoreError::CustomerKeyNeeded) => {
                Err(S3Error::new(ErrorCode::InvalidRequest).message(UPLOAD_KEY_NEEDED))
            }
            opened => opened.for_client(call),
        }
    }

    /// What responses show of an object or upload that this key opens. `wrapped` is its key.
    pub(super) fn shown(&self, context: &Context, wrapped: Option<&WrappedKey>) -> Option<ShownEncryption> {
        let wrapped = wrapped?;
        match wrapped.kind {
            EncryptionKind::S3 => Some(ShownEncryption::S3),
            EncryptionKind::Kms => {
                let ring = context.keys.get();
                let key = ring.by_id(&wrapped.key_id).map_or(wrapped.key_id.as_str(), RingKey::shown_name);
                Some(ShownEncryption::Kms {
                    key: key.to_owned(),
                    context: wrapped.context.clone(),
                    bucket_key: wrapped.bucket_key,
                })
            }
            EncryptionKind::Customer => {
                self.0.as_ref().map(|customer| ShownEncryption::Customer { md5: customer.md5.clone() })
            }
        }
    }
}

/// The key of a version; `None` for one in the clear.
pub(super) fn key_of(version: &VersionRecord) -> Option<&WrappedKey> {
    version.encryption.as_ref().and_then(|encryption| encryption.keys.first())
}

/// Adds the headers of an encryption to a response.
pub(super) fn add_headers(shown: Option<&ShownEncryption>, response: Response) -> Response {
    let headers = shown.map(ShownEncryption::headers).unwrap_or_default();
    headers.into_iter().fold(response, |response, (name, value)| response.header(name, value))
}

/// Adds them to the answer that the copy of a client is still valid, which tells of the object,
/// too.
pub(super) fn add_to_not_modified(shown: Option<&ShownEncryption>, error: S3Error) -> S3Error {
    if error.code != ErrorCode::NotModified {
        return error;
    }
    let headers = shown.map(ShownEncryption::headers).unwrap_or_default();
    headers.into_iter().fold(error, |error, (name, value)| error.header(name, value))
}

/// A version with the checksums of its bytes and of its parts in the clear.
pub(super) struct OpenedVersion<'v> {
    version: Cow<'v, VersionRecord>,
    _held: Reservation,
}

impl Deref for OpenedVersion<'_> {
    type Target = VersionRecord;

    fn deref(&self) -> &VersionRecord {
        &self.version
    }
}

impl<'v> OpenedVersion<'v> {
    /// The version as it is recorded.
    pub(super) fn recorded(version: &'v VersionRecord) -> Self {
        Self { version: Cow::Borrowed(version), _held: Reservation::default() }
    }

    /// The version with what its record seals, of which `key` is the opened one.
    ///
    /// # Errors
    /// `InternalError` where that does not open; `SlowDown` without memory.
    pub(super) fn open(
        context: &Context,
        version: &'v VersionRecord,
        key: &OpenedKey,
        call: &Call<'_>,
    ) -> Result<Self, S3Error> {
        if !key_of(version).is_some_and(|wrapped| wrapped.kind.seals_digests()) {
            return Ok(Self::recorded(version));
        }
        let held = memory::for_version(context, version)?;
        let digests = context.store.opened_digests(version, key).for_client(call)?;
        let mut opened = version.clone();
        opened.checksums = digests.checksums;
        let parts = opened.upload.iter_mut().flat_map(|assembly| &mut assembly.parts);
        for (part, checksum) in parts.zip(digests.parts) {
            part.checksum = checksum;
        }
        Ok(Self { version: Cow::Owned(opened), _held: held })
    }
}
