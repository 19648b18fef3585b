//! The API for programs at `/-/api/1/`: users and their keys, policies and groups, quotas,
//! placements of buckets, mirrors, webhooks, the keys of encrypted objects, and the state of the
//! server, as JSON. `openapi.json` describes it. Requests are signed as S3 requests are.

mod clock;
mod keys;
mod mirrors;
mod placements;
mod policies;
mod quotas;
mod webhooks;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::access_log::RequestLogEntry;
use super::users::{GrantEntry, NewServiceAccount, UserChange, UserError, check};
use super::{MirrorSide, MirrorSides, Service};
use crate::auth::{Action, Identity, KeyPair};
use crate::base::Timestamp;
use crate::ops::{BadFile, CopyFindings, FastDiskFigures, RemoteProbed, RepairFigures};
use crate::s3::{Dialect, Method, QueryParams, Request, Response, ResponseBody, S3Error, uri};
use policies::PolicyResource;
use quotas::QuotaHolder;
use webhooks::webhook_document;

/// The description of the API (OpenAPI 3.1).
const DESCRIPTION: &str = include_str!("openapi.json");
/// Bytes of a request body.
const BODY_MAX_BYTES: usize = 64 << 10;
/// The most lost copies that the state names.
const LOST_SHOWN_MAX: usize = 100;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NewUser {
    name: String,
    #[serde(default)]
    allow: Vec<GrantEntry>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Grants {
    allow: Vec<GrantEntry>,
}

/// An error of the API.
struct ApiError {
    status: u16,
    code: &'static str,
    message: String,
    allowed: Option<&'static str>,
}

impl ApiError {
    fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), allowed: None }
    }

    fn not_allowed(resource: &ApiResource) -> Self {
        let methods = resource.methods();
        let message = format!("Here are {methods}.");
        Self { allowed: Some(methods), ..Self::new(405, "MethodNotAllowed", message) }
    }

    fn not_found() -> Self {
        Self::new(404, "NotFound", "There is nothing at this path. /-/api/1/openapi.json describes the API.")
    }

    fn respond(self) -> Response {
        let response = document(self.status, &json!({ "code": self.code, "message": self.message }));
        match self.allowed {
            Some(methods) => response.header("Allow", methods),
            None => response,
        }
    }
}

impl From<UserError> for ApiError {
    fn from(error: UserError) -> Self {
        let (status, code) = match error {
            UserError::Denied(_) => (403, "AccessDenied"),
            UserError::Unknown { kind: "user", .. } => (404, "NoSuchUser"),
            UserError::Unknown { .. } => (404, "NoSuchEntity"),
            UserError::Invalid(_)
            | UserError::Taken { .. }
            | UserError::Missing(_)
            | UserError::InUse(_)
            | UserError::TooMany(_) => (400, "InvalidRequest"),
            UserError::Refused(_) => (409, "Conflict"),
            UserError::Failed(_) => (500, "InternalError"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<S3Error> for ApiError {
    fn from(error: S3Error) -> Self {
        Self::new(error.status(), error.code.as_str(), error.message.clone())
    }
}

/// A resource of the API.
#[derive(Debug, PartialEq, Eq)]
enum ApiResource {
    Users,
    User(String),
    Grants(String),
    Keys(String),
    PreviousKeys(String),
    Sessions(String),
    ServiceAccounts(String),
    ServiceAccount { user: String, account: String },
    Policies(PolicyResource),
    Quota(QuotaHolder),
    Placement(String),
    State,
    Clock,
    ClockAcceptance,
    RingKeys,
    RingKey(String),
    Rewrap,
    Mirrors,
    MirrorResync(String),
    Webhooks,
}

impl ApiResource {
    fn of(path: &str) -> Option<Self> {
        let parts: Vec<_> = path.split('/').collect();

        if let Some(resource) = PolicyResource::of(&parts) {
            return Some(Self::Policies(resource));
        }
        Some(match parts.as_slice() {
            ["users"] => Self::Users,
            ["users", user] => Self::User(name_in(user)?),
            ["users", user, "grants"] => Self::Grants(name_in(user)?),
            ["users", user, "keys"] => Self::Keys(name_in(user)?),
            ["users", user, "keys", "previous"] => Self::PreviousKeys(name_in(user)?),
            ["users", user, "sessions"] => Self::Sessions(name_in(user)?),
            ["users", user, "service-accounts"] => Self::ServiceAccounts(name_in(user)?),
            ["users", user, "service-accounts", account] => {
                Self::ServiceAccount { user: name_in(user)?, account: name_in(account)? }
            }
            ["users", user, "quota"] => Self::Quota(QuotaHolder::Owner(name_in(user)?)),
            ["buckets", bucket, "quota"] => Self::Quota(QuotaHolder::Bucket(name_in(bucket)?)),
            ["buckets", bucket, "placement"] => Self::Placement(name_in(bucket)?),
            ["quotas"] => Self::Quota(QuotaHolder::All),
            ["state"] => Self::State,
            ["clock"] => Self::Clock,
            ["clock", "accept"] => Self::ClockAcceptance,
            ["keys"] => Self::RingKeys,
            ["keys", "rewrap"] => Self::Rewrap,
            ["keys", "of", id] => Self::RingKey(name_in(id)?),
            ["mirrors"] => Self::Mirrors,
            ["webhooks"] => Self::Webhooks,
            ["mirrors", mirror, "resync"] => Self::MirrorResync(name_in(mirror)?),
            _ => return None,
        })
    }

    fn methods(&self) -> &'static str {
        match self {
            Self::Policies(resource) => resource.methods(),
            Self::Users | Self::ServiceAccounts(_) => "GET, POST",
            Self::User(_) => "GET, DELETE",
            Self::Grants(_) => "PUT",
            Self::Keys(_) | Self::MirrorResync(_) | Self::ClockAcceptance | Self::Rewrap => "POST",
            Self::PreviousKeys(_) | Self::Sessions(_) | Self::RingKey(_) | Self::ServiceAccount { .. } => {
                "DELETE"
            }
            Self::Quota(QuotaHolder::Bucket(_) | QuotaHolder::Owner(_)) | Self::Placement(_) => {
                "GET, PUT, DELETE"
            }
            Self::Quota(QuotaHolder::All)
            | Self::State
            | Self::Clock
            | Self::RingKeys
            | Self::Mirrors
            | Self::Webhooks => "GET",
        }
    }

    fn allows(&self, method: &Method) -> bool {
        self.methods().split(", ").any(|allowed| allowed == method.as_str())
    }
}

/// The name in a part of a path; `None` where it is empty or not UTF-8.
fn name_in(part: &str) -> Option<String> {
    uri::decode_path(part).ok().filter(|name| !name.is_empty())
}

impl Service {
    /// Handles a request for `/-/api/1/{path}`.
    pub(super) fn api(&self, path: &str, request: Request<'_>, entry: &mut RequestLogEntry) -> Response {
        entry.operation = "Administration";
        if path == "openapi.json" && request.method == Method::Get {
            return json_text(200, DESCRIPTION.to_owned());
        }
        self.answer_api(path, request, entry).unwrap_or_else(|error| {
            entry.error = Some(error.code);
            error.respond()
        })
    }

    fn answer_api(
        &self,
        path: &str,
        mut request: Request<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, ApiError> {
        let query = QueryParams::parse(&request.query)?;
        let identity = self
            .authenticator
            .authenticate(&mut request, &query, Dialect::Aws)
            .inspect_err(|error| self.log_failed_signature(error, &request, entry))?;
        entry.user = Some(identity.name().to_owned());
        entry.session = identity.session().cloned();
        check_signed(&identity, &request)?;
        let resource = ApiResource::of(path).ok_or_else(ApiError::not_found)?;
        match &resource {
            resource if !resource.allows(&request.method) => Err(ApiError::not_allowed(resource)),
            ApiResource::Quota(holder) => Ok(self.quota(holder, &identity, request, entry)?),
            ApiResource::Placement(bucket) => Ok(self.placement(bucket, &identity, request, entry)?),
            resource => {
                let body = read(&mut request)?;
                self.at_resource(resource, &identity, &request, &body)
            }
        }
    }

    fn at_resource(
        &self,
        resource: &ApiResource,
        identity: &Identity,
        request: &Request<'_>,
        body: &[u8],
    ) -> Result<Response, ApiError> {
        match (resource, &request.method) {
            (ApiResource::Users, Method::Get) => {
                Ok(document(200, &json!({ "users": self.users(identity)? })))
            }
            (ApiResource::Users, Method::Post) => {
                let NewUser { name, allow } = parsed(body)?;
                let change = UserChange::Create { name: name.clone(), allow };
                let keys = self.change_user(identity, request, &change)?;
                Ok(document(201, &shown(&name, keys.as_ref())))
            }
            (ApiResource::User(user), Method::Get) => {
                let found = self.users(identity)?.into_iter().find(|entry| entry.name == *user);
                let found = found.ok_or_else(|| UserError::Unknown { kind: "user", name: user.clone() })?;
                Ok(document(200, &json!(found)))
            }
            (ApiResource::User(user), Method::Delete) => {
                self.change_user(identity, request, &UserChange::Delete { name: user.clone() })?;
                Ok(done())
            }
            (ApiResource::Grants(user), Method::Put) => {
                let Grants { allow } = parsed(body)?;
                self.change_user(identity, request, &UserChange::SetGrants { name: user.clone(), allow })?;
                Ok(done())
            }
            (ApiResource::Keys(user), Method::Post) => {
                let change = UserChange::RotateKeys { name: user.clone() };
                let keys = self.change_user(identity, request, &change)?;
                Ok(document(201, &shown(user, keys.as_ref())))
            }
            (ApiResource::PreviousKeys(user), Method::Delete) => {
                let change = UserChange::RemovePreviousKeys { name: user.clone() };
                self.change_user(identity, request, &change)?;
                Ok(done())
            }
            (ApiResource::Sessions(user), Method::Delete) => {
                self.change_user(identity, request, &UserChange::RevokeSessions { name: user.clone() })?;
                Ok(done())
            }
            (ApiResource::ServiceAccounts(user), Method::Get) => {
                let accounts = self.service_accounts(identity, user)?;
                Ok(document(200, &json!({ "service_accounts": accounts })))
            }
            (ApiResource::ServiceAccounts(user), Method::Post) => {
                let account: NewServiceAccount = parsed(body)?;
                let named = account.name.clone();
                let change = UserChange::CreateServiceAccount { user: user.clone(), account };
                let keys = self.change_user(identity, request, &change)?;
                Ok(document(201, &shown(&named, keys.as_ref())))
            }
            (ApiResource::ServiceAccount { user, account }, Method::Delete) => {
                let change =
                    UserChange::DeleteServiceAccount { user: user.clone(), account: account.clone() };
                self.change_user(identity, request, &change)?;
                Ok(done())
            }
            (ApiResource::Policies(resource), _) => self.at_policies(resource, identity, request, body),
            (ApiResource::State, Method::Get) => self.state(identity),
            (ApiResource::Clock, Method::Get) => self.clock_state(identity),
            (ApiResource::ClockAcceptance, Method::Post) => self.accept_clock_of_api(identity, request),
            (ApiResource::RingKeys, Method::Get) => self.ring_keys(identity),
            (ApiResource::RingKey(id), Method::Delete) => self.destroy_key_of_api(identity, request, id),
            (ApiResource::Rewrap, Method::Post) => self.rewrap_of_api(identity, request, body),
            (ApiResource::Mirrors, Method::Get) => self.mirrors(identity),
            (ApiResource::Webhooks, Method::Get) => self.webhooks(identity),
            (ApiResource::MirrorResync(name), Method::Post) => self.resync_mirror(identity, request, name),
            (resource, _) => Err(ApiError::not_allowed(resource)),
        }
    }

    fn state(&self, identity: &Identity) -> Result<Response, ApiError> {
        check(identity, Action::AdminGetState)?;
        let health = self.context.health();
        let unshipped = self.context.store.ship_obstacle();
        let replaced = self.context.store.replaced_log_files();
        Ok(document(
            200,
            &json!({
                "version": env!("CARGO_PKG_VERSION"),
                "writable": health.read_only_reason.is_none() && !health.disk_full && !health.index_full
                    && unshipped.is_none(),
                "not_shipped": unshipped,
                "read_only": health.read_only,
                "disk_full": health.disk_full,
                "index_full": health.index_full,
                "stopped_thread": health.stopped_thread,
                "buckets": health.buckets,
                "versions": health.versions,
                "live_bytes": health.live_bytes,
                "index_bytes": health.index_bytes,
                "index_max_bytes": health.index_max_bytes,
                "segments": health.segments,
                "fast_disk": self.context.store.fast_disk().as_ref().map(fast_disk_document),
                "disk_mirror": self.mirror_sides().as_ref().map(disk_mirror_document),
                "reclaimed_bytes": health.reclaimed_bytes,
                "scrub": {
                    "finished": health.scrub.finished.map(Timestamp::to_iso8601),
                    "bytes": health.scrub.bytes,
                    "damaged_extents": health.scrub.bad,
                    "log_finished": health.scrub.log_finished.map(Timestamp::to_iso8601),
                    "replaced_log_files": replaced.iter().map(bad_file_document).collect::<Vec<_>>(),
                },
                "remote_epoch": self.context.store.tier_figures().map(|tier| tier.epoch),
                "remote_refused": self.context.store.remote_refusal().map(|why| why.to_string()),
                "remote_probe": self.context.store.remote_probed().as_ref().map(probe_document),
                "remote_copies": self.context.store.copy_findings().as_ref().map(copies_document),
                "repairs": self.context.store.repair_figures().as_ref().map(repairs_document),
                "webhooks": self.webhook_states().iter().map(webhook_document).collect::<Vec<_>>(),
                "damage": health.damage.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
        ))
    }
}

/// What the comparisons of the copies on the remote have found.
fn copies_document(found: &CopyFindings) -> Value {
    let lost = found.lost.iter().take(LOST_SHOWN_MAX);
    let lost: Vec<_> = lost.map(|(name, why)| json!({ "name": name, "problem": why })).collect();
    json!({
        "listed": found.listed.map(Timestamp::to_iso8601),
        "lost": lost,
        "lost_count": found.lost.len(),
        "resent": found.resent,
    })
}

/// The fast one of two disks.
fn fast_disk_document(figures: &FastDiskFigures) -> Value {
    json!({
        "free_bytes": figures.space.map(|(free, _)| free),
        "total_bytes": figures.space.map(|(_, total)| total),
        "moved_segments": figures.moved_segments,
        "moved_bytes": figures.moved_bytes,
        "shadow_lag_groups": figures.shadow_lag_groups,
        "shadow_given_up": figures.is_shadow_given_up,
    })
}

/// Two disks with the same bytes.
fn disk_mirror_document(figures: &MirrorSides) -> Value {
    let side_document = |side: &MirrorSide| {
        json!({
            "side": side.letter.to_string(),
            "dir": side.dir,
            "state": side.state,
            "since": side.since.to_iso8601(),
            "reason": Some(&side.why).filter(|why| !why.is_empty()),
        })
    };
    json!({
        "degraded": figures.is_degraded(),
        "sides": figures.sides.iter().map(side_document).collect::<Vec<_>>(),
        "fill_left_bytes": figures.left_bytes,
        "fill_bytes": figures.fill_bytes,
        "repaired_files": figures.repaired_files,
        "waiting_files": figures.waiting_files,
    })
}

/// The local bytes that were found bad, and whose copies on the remote are good.
fn repairs_document(figures: &RepairFigures) -> Value {
    json!({
        "served_reads": figures.served_reads,
        "repaired_segments": figures.repaired_segments,
        "waiting": figures.waiting.iter().map(bad_file_document).collect::<Vec<_>>(),
        "repaired": figures.repaired.iter().map(bad_file_document).collect::<Vec<_>>(),
    })
}

fn bad_file_document(bad: &BadFile) -> Value {
    json!({
        "file": bad.file,
        "offset": bad.offset,
        "problem": bad.what,
        "found": bad.found.to_iso8601(),
        "repaired": bad.repaired.map(Timestamp::to_iso8601),
    })
}

/// The outcome of the last probe of the remote.
fn probe_document(probed: &RemoteProbed) -> Value {
    json!({
        "finished": probed.at.to_iso8601(),
        "keeps_objects": probed.keeps_objects,
        "decides_races": probed.decides_races,
        "problem": probed.problem,
    })
}

/// Checks that the request is signed in its headers, and its body with it: neither a link nor a
/// changed body may change users.
fn check_signed(identity: &Identity, request: &Request<'_>) -> Result<(), ApiError> {
    if identity.is_anonymous() || request.headers.get("authorization").is_none() {
        let message = "Sign the request in its headers, with the keys of an administrator.";
        return Err(ApiError::new(403, "AccessDenied", message));
    }
    let hash = request.headers.get_str("x-amz-content-sha256").unwrap_or_default();
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hash || request.method == Method::Get {
        true => Ok(()),
        false => Err(ApiError::new(
            400,
            "InvalidRequest",
            "Sign the body: x-amz-content-sha256 is to be its SHA-256.",
        )),
    }
}

fn read(request: &mut Request<'_>) -> Result<Vec<u8>, ApiError> {
    request.body.read_short(BODY_MAX_BYTES)?.ok_or_else(|| {
        let message = format!("A body has at most {BODY_MAX_BYTES} bytes.");
        ApiError::new(413, "MaxMessageLengthExceeded", message)
    })
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::new(400, "MalformedJSON", error.to_string()))
}

/// New keys, the only time that they are shown.
fn shown(name: &str, keys: Option<&KeyPair>) -> Value {
    match keys {
        Some(keys) => {
            json!({ "name": name, "access_key": keys.access_key, "secret_key": keys.secret_key.reveal() })
        }
        None => json!({ "name": name }),
    }
}

fn done() -> Response {
    Response::new(204)
}

fn document(status: u16, value: &Value) -> Response {
    json_text(status, format!("{value}\n"))
}

fn json_text(status: u16, text: String) -> Response {
    Response::new(status)
        .header("Content-Type", "application/json")
        // The answer may hold a secret key.
        .header("Cache-Control", "no-store")
        .with_body(ResponseBody::Bytes(text.into_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_description_has_every_resource_with_its_methods() {
        let description: Value = serde_json::from_str(DESCRIPTION).unwrap();
        let told: BTreeSet<_> = description["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys().filter(|name| *name != "parameters");
                let named = path
                    .replace("{name}", "n")
                    .replace("{user}", "u")
                    .replace("{policy}", "p")
                    .replace("{account}", "a");
                methods.map(move |method| (named.clone(), method.to_uppercase()))
            })
            .collect();
        let paths = [
            "users",
            "users/n",
            "users/n/grants",
            "users/n/keys",
            "users/n/keys/previous",
            "users/n/sessions",
            "users/n/policies/p",
            "users/n/service-accounts",
            "users/n/service-accounts/a",
            "users/n/quota",
            "policies",
            "policies/n",
            "groups",
            "groups/n",
            "groups/n/members/u",
            "groups/n/policies/p",
            "buckets/n/quota",
            "buckets/n/placement",
            "clock",
            "clock/accept",
            "keys",
            "keys/rewrap",
            "keys/of/n",
            "mirrors",
            "mirrors/n/resync",
            "quotas",
            "state",
            "webhooks",
        ];
        let served = paths.iter().flat_map(|path| {
            let methods = ApiResource::of(path).unwrap().methods();
            methods.split(", ").map(move |method| (format!("/{path}"), method.to_owned()))
        });
        assert_eq!(told, served.collect());
    }

    #[test]
    fn a_probe_is_told_with_its_first_problem() {
        let at = Timestamp::from_millis(0);
        let problem = Some("it ignores conditions".to_owned());
        let probed = RemoteProbed { at, keeps_objects: true, decides_races: false, problem };
        let told = json!({
            "finished": "1970-01-01T00:00:00.000Z",
            "keeps_objects": true,
            "decides_races": false,
            "problem": "it ignores conditions",
        });
        assert_eq!(probe_document(&probed), told);
    }

    #[test]
    fn paths_name_resources() {
        assert_eq!(ApiResource::of("users/a%2Fb%20c"), Some(ApiResource::User("a/b c".to_owned())));
        for path in
            ["", "users/", "users//keys", "users/a/keys/", "buckets//quota", "buckets/b", "state/x", "other"]
        {
            assert_eq!(ApiResource::of(path), None, "{path}");
        }
    }
}
