//! Calls about groups and their members.

use super::answers::date;
use super::users::write_user;
use super::{IamCall, IamRequest, PATH};
use crate::auth::NameKind;
use crate::base::Timestamp;
use crate::base::limits::IAM_LONG_NAME_MAX_CHARS;
use crate::s3::query_call::CallWriter;
use crate::s3::{CallError, Response};
use crate::service::iam_changes::IamChange;
use crate::service::policies::{GroupEntry, PolicyChange};
use crate::service::users::{UserChange, UserError};

pub(super) const CALLS: &[IamCall] = &[
    IamCall { name: "CreateGroup", params: &["GroupName", "Path"], run: create },
    IamCall { name: "GetGroup", params: &["GroupName", "Marker", "MaxItems"], run: get },
    IamCall { name: "UpdateGroup", params: &["GroupName", "NewGroupName", "NewPath"], run: update },
    IamCall { name: "DeleteGroup", params: &["GroupName"], run: delete },
    IamCall { name: "ListGroups", params: &["PathPrefix", "Marker", "MaxItems"], run: list },
    IamCall { name: "AddUserToGroup", params: &["GroupName", "UserName"], run: add_user },
    IamCall { name: "RemoveUserFromGroup", params: &["GroupName", "UserName"], run: remove_user },
    IamCall { name: "ListGroupsForUser", params: &["UserName", "Marker", "MaxItems"], run: list_of_user },
];

impl IamRequest<'_> {
    /// The groups.
    pub(super) fn groups(&self) -> Result<Vec<GroupEntry>, CallError> {
        self.service.groups(self.caller).map_err(|error| self.refusal(&error))
    }

    /// A group by its name.
    pub(super) fn group(&self, name: &str) -> Result<GroupEntry, CallError> {
        let found = self.groups()?.into_iter().find(|group| group.name == name);
        found.ok_or_else(|| self.refusal(&UserError::Unknown { kind: "group", name: name.to_owned() }))
    }
}

fn write_group(element: &mut CallWriter, group: &GroupEntry) {
    let created = group.created.as_deref().and_then(Timestamp::parse_iso8601);
    element.leaf("Path", PATH);
    element.leaf("GroupName", &group.name);
    element.leaf("GroupId", &NameKind::Group.unique_id(&group.name, created));
    element.leaf("Arn", &NameKind::Group.arn(&group.name));
    date(element, "CreateDate", group.created.as_deref());
}

fn create(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.new_name("GroupName", IAM_LONG_NAME_MAX_CHARS)?;
    asked.change(&UserChange::Iam(IamChange::CreateGroup { name: name.clone() }))?;
    // Who may make groups may be one who must not list them.
    let groups = asked.directory()?.groups().map_err(|error| asked.refusal(&error))?;
    let made = groups.into_iter().find(|group| group.name == name).unwrap_or_default();
    Ok(asked.answer(|result| result.element("Group", |group| write_group(group, &made))))
}

fn get(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let group = asked.group(asked.required("GroupName")?)?;
    let mut members = asked.users()?;
    members.retain(|user| group.members.contains(&user.name));
    let page = asked.page(members, |user| &user.name)?;
    Ok(asked.answer(|result| {
        result.element("Group", |element| write_group(element, &group));
        page.write(result, "Users", write_user);
    }))
}

fn update(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.required("GroupName")?;
    asked.group(name)?;
    match asked.params.get("NewGroupName").is_none_or(|new| new.is_empty() || new == name) {
        true => Ok(asked.answer(|_| {})),
        false => Err(CallError::new(
            409,
            "EntityTemporarilyUnmodifiable",
            "NewGroupName: groups are not renamed here: make another one",
        )),
    }
}

fn delete(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.required("GroupName")?.to_owned();
    asked.done(&UserChange::Iam(IamChange::DeleteGroup { name }))
}

fn list(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let page = asked.page(asked.groups()?, |group| &group.name)?;
    Ok(asked.answer(|result| page.write(result, "Groups", write_group)))
}

fn add_user(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let group = asked.required("GroupName")?.to_owned();
    let user = asked.required("UserName")?.to_owned();
    asked.done(&UserChange::Policies(PolicyChange::AddMember { group, user }))
}

fn remove_user(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let group = asked.required("GroupName")?.to_owned();
    let user = asked.required("UserName")?.to_owned();
    asked.done(&UserChange::Policies(PolicyChange::RemoveMember { group, user }))
}

fn list_of_user(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let user = asked.user(asked.required("UserName")?)?;
    let mut groups = asked.groups()?;
    groups.retain(|group| group.members.contains(&user.name));
    let page = asked.page(groups, |group| &group.name)?;
    Ok(asked.answer(|result| page.write(result, "Groups", write_group)))
}
