//! Calls about users and their keys.

use super::answers::date;
use super::{IamCall, IamRequest, PATH};
use crate::auth::{NameKind, Users};
use crate::base::limits::IAM_NAME_MAX_CHARS;
use crate::s3::query_call::CallWriter;
use crate::s3::{CallError, Response};
use crate::service::iam_changes::IamChange;
use crate::service::users::{UserChange, UserEntry, UserError};

pub(super) const CALLS: &[IamCall] = &[
    IamCall { name: "CreateUser", params: &["UserName", "Path"], run: create },
    IamCall { name: "GetUser", params: &["UserName"], run: get },
    IamCall { name: "UpdateUser", params: &["UserName", "NewUserName", "NewPath"], run: update },
    IamCall { name: "DeleteUser", params: &["UserName"], run: delete },
    IamCall { name: "ListUsers", params: &["PathPrefix", "Marker", "MaxItems"], run: list },
    IamCall { name: "CreateAccessKey", params: &["UserName"], run: create_key },
    IamCall { name: "UpdateAccessKey", params: &["UserName", "AccessKeyId", "Status"], run: update_key },
    IamCall { name: "DeleteAccessKey", params: &["UserName", "AccessKeyId"], run: delete_key },
    IamCall { name: "ListAccessKeys", params: &["UserName", "Marker", "MaxItems"], run: list_keys },
];

const ACTIVE: &str = "Active";
const INACTIVE: &str = "Inactive";

impl IamRequest<'_> {
    /// The users.
    pub(super) fn users(&self) -> Result<Vec<UserEntry>, CallError> {
        let mut users = self.service.users(self.caller).map_err(|error| self.refusal(&error))?;
        // Requests without a signature are no user of IAM.
        users.retain(|user| user.name != Users::ANONYMOUS);
        Ok(users)
    }

    /// A user by its name.
    pub(super) fn user(&self, name: &str) -> Result<UserEntry, CallError> {
        let found = self.users()?.into_iter().find(|user| user.name == name);
        found.ok_or_else(|| self.refusal(&UserError::Unknown { kind: "user", name: name.to_owned() }))
    }

    /// The user that is named, or else who asks.
    fn named_or_own(&self) -> Result<String, CallError> {
        match (self.params.get("UserName"), self.caller.user_in_policies()) {
            (Some(name), _) if !name.is_empty() => Ok(name.to_owned()),
            (_, Some(own)) => Ok(own.to_owned()),
            _ => Err(CallError::validation("Must specify userName when calling with non-User credentials")),
        }
    }
}

/// Writes what all answers about a user hold of it.
pub(super) fn write_user(element: &mut CallWriter, user: &UserEntry) {
    element.leaf("Path", PATH);
    element.leaf("UserName", &user.name);
    element.leaf("UserId", &user.id);
    element.leaf("Arn", &NameKind::User.arn(&user.name));
    date(element, "CreateDate", user.created.as_deref());
}

fn create(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.new_name("UserName", IAM_NAME_MAX_CHARS)?;
    asked.change(&UserChange::Iam(IamChange::CreateUser { name: name.clone() }))?;
    // Who may make users may be one who must not list them.
    let users = asked.directory()?.list().map_err(|error| asked.refusal(&error))?;
    let made = users.into_iter().find(|user| user.name == name).unwrap_or_default();
    Ok(asked.answer(|result| result.element("User", |user| write_user(user, &made))))
}

fn get(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let user = match asked.params.get("UserName").filter(|name| !name.is_empty()) {
        Some(name) => asked.user(name)?,
        // Who somebody is, he may know, as by GetCallerIdentity.
        None => {
            let own = asked.service.own_entry(asked.caller).map_err(|error| asked.refusal(&error))?;
            let message = "Must specify userName when calling with non-User credentials";
            own.ok_or_else(|| CallError::validation(message))?
        }
    };
    Ok(asked.answer(|result| result.element("User", |element| write_user(element, &user))))
}

/// A bucket belongs to the name of a user, so that none gets another one.
fn update(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.required("UserName")?;
    asked.user(name)?;
    match asked.params.get("NewUserName").is_none_or(|new| new.is_empty() || new == name) {
        true => Ok(asked.answer(|_| {})),
        false => Err(CallError::new(
            409,
            "EntityTemporarilyUnmodifiable",
            "NewUserName: users are not renamed here, since buckets belong to the name of their user",
        )),
    }
}

fn delete(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.required("UserName")?.to_owned();
    asked.done(&UserChange::Iam(IamChange::DeleteUser { name }))
}

fn list(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let page = asked.page(asked.users()?, |user| &user.name)?;
    Ok(asked.answer(|result| page.write(result, "Users", write_user)))
}

fn create_key(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let user = asked.named_or_own()?;
    let keys = asked.change(&UserChange::Iam(IamChange::AddKey { user: user.clone() }))?;
    let keys = keys.ok_or_else(|| CallError::validation("this user has no keys"))?;
    Ok(asked.answer(|result| {
        result.element("AccessKey", |element| {
            element.leaf("UserName", &user);
            element.leaf("AccessKeyId", &keys.access_key);
            element.leaf("Status", ACTIVE);
            // The only time that it is shown.
            element.leaf("SecretAccessKey", keys.secret_key.reveal());
        });
    }))
}

fn update_key(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let access_key = asked.required("AccessKeyId")?.to_owned();
    let active = match asked.required("Status")? {
        ACTIVE => true,
        INACTIVE => false,
        _ => return Err(CallError::validation("Status is Active or Inactive")),
    };
    let user = asked.named_or_own()?;
    asked.done(&UserChange::Iam(IamChange::SetKeyStatus { user, access_key, active }))
}

fn delete_key(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let access_key = asked.required("AccessKeyId")?.to_owned();
    let user = asked.named_or_own()?;
    asked.done(&UserChange::Iam(IamChange::DeleteKey { user, access_key }))
}

fn list_keys(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let user = asked.user(&asked.named_or_own()?)?;
    let page = asked.page(user.access_keys.clone(), |access_key| access_key)?;
    Ok(asked.answer(|result| {
        page.write(result, "AccessKeyMetadata", |member, access_key| {
            let is_inactive = user.inactive_keys.contains(access_key);
            member.leaf("UserName", &user.name);
            member.leaf("AccessKeyId", access_key);
            member.leaf("Status", if is_inactive { INACTIVE } else { ACTIVE });
            date(member, "CreateDate", user.keys_created.get(access_key).map(String::as_str));
        });
    }))
}
