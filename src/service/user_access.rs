//! What a user may do in each bucket, for administrators.

use super::Service;
use super::users::{UserEntry, UserError, check};
use crate::auth::{Action, Identity, Resource};
use crate::s3::Request;

/// A key that hardly anybody has: a permission for it is one for the whole bucket.
const ANY_KEY: &str = "\u{7f}any";

/// The part of a bucket in which something is allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AccessExtent {
    #[default]
    Nothing,
    /// Keys that begin as a grant of the user says, at least.
    Part,
    Whole,
}

/// What a user may do in a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketAccess {
    pub list: AccessExtent,
    pub read: AccessExtent,
    /// To make objects where there are none.
    pub add: AccessExtent,
    pub replace: AccessExtent,
    pub delete: AccessExtent,
}

impl Service {
    /// What a user may do in each of `buckets` by a request like `request`, in their order: by its
    /// grants and policies, those of its groups and those of the buckets.
    ///
    /// # Errors
    /// [`UserError::Denied`]; [`UserError::Unknown`] for a user who is not in effect.
    pub fn access_of(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        user: &UserEntry,
        buckets: &[&str],
    ) -> Result<Vec<BucketAccess>, UserError> {
        check(identity, Action::AdminListUsers)?;
        let found = self.authenticator.identity_of_user(&user.name, request);
        let found = found.ok_or_else(|| UserError::Unknown { kind: "user", name: user.name.clone() })?;
        let resources: Vec<_> = user.allow.iter().flat_map(|grant| &grant.resources).collect();
        let mut access = Vec::with_capacity(buckets.len());
        for bucket in buckets {
            let starts: Vec<_> = resources.iter().filter_map(|resource| start_in(resource, bucket)).collect();
            let asked = AskedAccess { service: self, user: &found, request, bucket, starts: &starts };
            access.push(BucketAccess {
                list: asked.listing(),
                read: asked.objects(&[Action::GetObject]),
                add: asked.objects(&[Action::PutObject, Action::CreateObject]),
                replace: asked.objects(&[Action::PutObject]),
                delete: asked.objects(&[Action::DeleteObject]),
            });
        }
        Ok(access)
    }
}

/// The beginning of keys of a bucket that a resource of a grant names; `None` for a resource
/// elsewhere, and for the whole bucket.
fn start_in<'r>(resource: &'r str, bucket: &str) -> Option<&'r str> {
    let key = resource.strip_prefix(bucket)?.strip_prefix('/')?;
    let start = key.strip_suffix('*').unwrap_or(key);
    (!start.is_empty()).then_some(start)
}

/// A question about a user and a bucket.
struct AskedAccess<'a> {
    service: &'a Service,
    user: &'a Identity,
    request: &'a Request<'a>,
    bucket: &'a str,
    /// The beginnings of keys that its grants name.
    starts: &'a [&'a str],
}

impl AskedAccess<'_> {
    fn listing(&self) -> AccessExtent {
        let may =
            |prefix: &str| self.may(&[Action::ListBucket], Resource::Prefix { bucket: self.bucket, prefix });
        self.extent(may(""), &may)
    }

    fn objects(&self, actions: &[Action]) -> AccessExtent {
        let may = |key: &str| self.may(actions, Resource::Object { bucket: self.bucket, key });
        self.extent(may(ANY_KEY), &may)
    }

    fn extent(&self, is_whole: bool, may: &dyn Fn(&str) -> bool) -> AccessExtent {
        match is_whole {
            true => AccessExtent::Whole,
            false if self.starts.iter().any(|start| may(start)) => AccessExtent::Part,
            false => AccessExtent::Nothing,
        }
    }

    fn may(&self, actions: &[Action], resource: Resource<'_>) -> bool {
        let call = self.service.call_like(self.request);
        self.service.context.authorize_for(self.user, &call, actions, resource).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_name_beginnings_of_keys() {
        for (resource, start) in [
            ("photos/2026/*", Some("2026/")),
            ("photos/one.jpg", Some("one.jpg")),
            ("photos/*", None),
            ("photos", None),
            ("photos2/x", None),
            ("*", None),
        ] {
            assert_eq!(start_in(resource, "photos"), start, "{resource}");
        }
    }
}
