//! The identity of a sender, and the proof of a permission.

use std::sync::Arc;

use crate::auth::users::User;
use crate::auth::{Action, Resource};
use crate::s3::{ErrorCode, S3Error};

/// The authenticated sender of a request. Its permissions are those of the users file that it was authenticated against,
/// even if the file is replaced during the request.
#[derive(Debug, Clone)]
pub struct Identity(Arc<User>);

impl Identity {
    pub(super) fn new(user: Arc<User>) -> Self {
        Self(user)
    }

    /// The name in the users file, which becomes the owner of buckets and uploads.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Whether the request was not signed.
    pub fn is_anonymous(&self) -> bool {
        self.0.is_anonymous()
    }

    /// The proof that this user may do `action` on `resource`.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub(super) fn authorize(&self, action: Action, resource: Resource<'_>) -> Result<Authorized, S3Error> {
        if self.0.may(action, resource) {
            Ok(Authorized { identity: self.clone(), action })
        } else {
            Err(S3Error::new(ErrorCode::AccessDenied))
        }
    }
}

/// The proof of a permission. Only authorization makes one, and every operation requires one.
#[derive(Debug, Clone)]
pub struct Authorized {
    identity: Identity,
    action: Action,
}

impl Authorized {
    /// The sender.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The name of the sender, which becomes the owner of what the operation creates.
    pub fn user(&self) -> &str {
        self.identity.name()
    }

    /// The permitted action.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Whether the same user may also do `action` on a bucket or on one of its objects: for permissions that an operation
    /// checks itself, such as `ListBucket` before it reports a missing key.
    pub fn may(&self, action: Action, bucket: &str, key: Option<&str>) -> bool {
        let resource = match key {
            Some(key) => Resource::Object { bucket, key },
            None => Resource::Bucket(bucket),
        };
        self.identity.0.may(action, resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Users;

    fn identity() -> Identity {
        let text = "[[user]]\nname = \"eve\"\naccess_key = \"AK\"\nsecret_key = \"s\"\n\
                    allow = [{ actions = [\"GetObject\", \"ListBucket\"], resources = [\"b\", \"b/p*\"] }]";
        Identity::new(Arc::clone(Users::parse(text).unwrap().find("AK").unwrap().user()))
    }

    #[test]
    fn a_permitted_action_yields_a_proof_that_names_the_user() {
        let resource = Resource::Object { bucket: "b", key: "p1" };
        let proof = identity().authorize(Action::GetObject, resource).unwrap();
        assert_eq!((proof.user(), proof.action()), ("eve", Action::GetObject));
        assert!(!proof.identity().is_anonymous());
    }

    #[test]
    fn an_action_without_permission_is_access_denied() {
        let resource = Resource::Object { bucket: "b", key: "q" };
        assert_eq!(
            identity().authorize(Action::GetObject, resource).unwrap_err().code,
            ErrorCode::AccessDenied
        );
    }

    #[test]
    fn a_proof_answers_for_other_permissions_of_its_user() {
        let proof = identity().authorize(Action::ListBucket, Resource::Bucket("b")).unwrap();
        assert!(proof.may(Action::GetObject, "b", Some("p2")));
        assert!(proof.may(Action::ListBucket, "b", None));
        assert!(!proof.may(Action::GetObject, "b", Some("q")));
        assert!(!proof.may(Action::GetObject, "c", Some("p2")));
        assert!(!proof.may(Action::DeleteObject, "b", Some("p2")));
    }
}
