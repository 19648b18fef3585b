//! Calls about roles, as far as the users file has them: who may assume one is a list of names.

use super::answers::{date, document};
use super::trust::{trust_document, trust_of};
use super::{IamCall, IamRequest, PATH};
use crate::auth::NameKind;
use crate::base::limits::{IAM_NAME_MAX_CHARS, ROLE_SESSION_MAX_SECS, SESSION_MIN_SECS};
use crate::s3::query_call::CallWriter;
use crate::s3::{CallError, Response};
use crate::service::iam_changes::{IamChange, RoleTrust};
use crate::service::policies::RoleEntry;
use crate::service::users::{UserChange, UserError};

pub(super) const CALLS: &[IamCall] = &[
    IamCall {
        name: "CreateRole",
        params: &["RoleName", "Path", "AssumeRolePolicyDocument", "MaxSessionDuration"],
        run: create,
    },
    IamCall { name: "GetRole", params: &["RoleName"], run: get },
    IamCall { name: "UpdateRole", params: &["RoleName", "MaxSessionDuration"], run: update },
    IamCall { name: "UpdateAssumeRolePolicy", params: &["RoleName", "PolicyDocument"], run: update_trust },
    IamCall { name: "DeleteRole", params: &["RoleName"], run: delete },
    IamCall { name: "ListRoles", params: &["PathPrefix", "Marker", "MaxItems"], run: list },
];

impl IamRequest<'_> {
    /// The roles.
    pub(super) fn roles(&self) -> Result<Vec<RoleEntry>, CallError> {
        self.service.roles(self.caller).map_err(|error| self.refusal(&error))
    }

    /// A role by its name.
    pub(super) fn role(&self, name: &str) -> Result<RoleEntry, CallError> {
        let found = self.roles()?.into_iter().find(|role| role.name == name);
        found.ok_or_else(|| self.refusal(&UserError::Unknown { kind: "role", name: name.to_owned() }))
    }

    /// The longest session that the request sets.
    fn max_duration(&self) -> Result<Option<u64>, CallError> {
        let Some(secs) = self.params.number("MaxSessionDuration")? else { return Ok(None) };
        match (SESSION_MIN_SECS..=ROLE_SESSION_MAX_SECS).contains(&secs) {
            true => Ok(Some(secs)),
            false => {
                let range = format!("from {SESSION_MIN_SECS} to {ROLE_SESSION_MAX_SECS}");
                Err(CallError::validation(format!("MaxSessionDuration is {range}")))
            }
        }
    }

    /// Makes a change of who assumes a role. A name that nobody has is a fault of the document.
    fn change_trust(&self, change: IamChange) -> Result<(), CallError> {
        let change = UserChange::Iam(change);
        let made = self.service.change_user(self.caller, self.request, &change);
        made.map(drop).map_err(|error| match error {
            UserError::Invalid(told) => CallError::new(400, "MalformedPolicyDocument", told),
            other => self.refusal(&other),
        })
    }

    /// Who may assume a role, by the document in a parameter.
    fn trust(&self, param: &str) -> Result<RoleTrust, CallError> {
        let told = trust_of(self.required(param)?);
        told.map_err(|told| CallError::new(400, "MalformedPolicyDocument", told))
    }
}

fn write_role(element: &mut CallWriter, role: &RoleEntry) {
    element.leaf("Path", PATH);
    element.leaf("RoleName", &role.name);
    element.leaf("RoleId", &role.id);
    element.leaf("Arn", &NameKind::Role.arn(&role.name));
    date(element, "CreateDate", role.created.as_deref());
    document(element, "AssumeRolePolicyDocument", &trust_document(role));
    element.plain("MaxSessionDuration", role.max_duration_secs);
}

fn create(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.new_name("RoleName", IAM_NAME_MAX_CHARS)?;
    let trust = asked.trust("AssumeRolePolicyDocument")?;
    let max_duration_secs = asked.max_duration()?;
    asked.change_trust(IamChange::CreateRole { name: name.clone(), trust, max_duration_secs })?;
    let roles = asked.directory()?.roles().map_err(|error| asked.refusal(&error))?;
    let made = roles.into_iter().find(|role| role.name == name).unwrap_or_default();
    Ok(asked.answer(|result| result.element("Role", |role| write_role(role, &made))))
}

fn get(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let role = asked.role(asked.required("RoleName")?)?;
    Ok(asked.answer(|result| result.element("Role", |element| write_role(element, &role))))
}

fn update(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let role = asked.required("RoleName")?.to_owned();
    match asked.max_duration()? {
        Some(secs) => asked.done(&UserChange::Iam(IamChange::SetMaxDuration { role, secs })),
        None => asked.role(&role).map(|_| asked.answer(|_| {})),
    }
}

fn update_trust(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let role = asked.required("RoleName")?.to_owned();
    let trust = asked.trust("PolicyDocument")?;
    asked.change_trust(IamChange::SetTrust { role, trust })?;
    Ok(asked.answer(|_| {}))
}

fn delete(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.required("RoleName")?.to_owned();
    asked.done(&UserChange::Iam(IamChange::DeleteRole { name }))
}

fn list(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let page = asked.page(asked.roles()?, |role| &role.name)?;
    Ok(asked.answer(|result| page.write(result, "Roles", write_role)))
}
