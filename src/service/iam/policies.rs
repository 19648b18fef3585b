//! Calls about policies by name. Each has one version: a new one takes its place.

use std::collections::HashSet;

use serde_json::Value;

use super::answers::{VERSION, date, document};
use super::{IamCall, IamRequest, PATH};
use crate::auth::{NameKind, READY_MADE_POLICIES, check_policy_document};
use crate::base::Timestamp;
use crate::base::limits::IAM_LONG_NAME_MAX_CHARS;
use crate::s3::query_call::CallWriter;
use crate::s3::{CallError, Response};
use crate::service::iam_changes::IamChange;
use crate::service::policies::{PolicyChange, PolicyEntry};
use crate::service::users::{UserChange, UserError};

pub(super) const CALLS: &[IamCall] = &[
    IamCall { name: "CreatePolicy", params: &["PolicyName", "PolicyDocument", "Path"], run: create },
    IamCall { name: "GetPolicy", params: &["PolicyArn"], run: get },
    IamCall { name: "GetPolicyVersion", params: &["PolicyArn", "VersionId"], run: get_version },
    IamCall { name: "ListPolicyVersions", params: &["PolicyArn", "Marker", "MaxItems"], run: list_versions },
    IamCall {
        name: "CreatePolicyVersion",
        params: &["PolicyArn", "PolicyDocument", "SetAsDefault"],
        run: create_version,
    },
    IamCall { name: "SetDefaultPolicyVersion", params: &["PolicyArn", "VersionId"], run: set_default },
    IamCall { name: "DeletePolicyVersion", params: &["PolicyArn", "VersionId"], run: delete_version },
    IamCall { name: "DeletePolicy", params: &["PolicyArn"], run: delete },
    IamCall {
        name: "ListPolicies",
        params: &["Scope", "OnlyAttached", "PathPrefix", "PolicyUsageFilter", "Marker", "MaxItems"],
        run: list,
    },
    IamCall {
        name: "ListEntitiesForPolicy",
        params: &["PolicyArn", "EntityFilter", "PathPrefix", "PolicyUsageFilter", "Marker", "MaxItems"],
        run: list_entities,
    },
];

/// Who has a policy.
struct PolicyUse {
    /// The kind, in the words of the answer.
    list: &'static str,
    name: String,
    id: String,
    policies: Vec<String>,
}

impl IamRequest<'_> {
    /// The policies, the ready-made ones last.
    pub(super) fn policies(&self) -> Result<Vec<PolicyEntry>, CallError> {
        self.service.policies(self.caller).map_err(|error| self.refusal(&error))
    }

    /// The policy that the ARN of the request names.
    fn policy(&self) -> Result<PolicyEntry, CallError> {
        let name = name_of_arn(self.required("PolicyArn")?)?;
        let found = self.policies()?.into_iter().find(|policy| policy.name == name);
        found.ok_or_else(|| self.refusal(&UserError::Unknown { kind: "policy", name: name.to_owned() }))
    }

    /// The version that the request names, which is the only one.
    fn check_version(&self, policy: &PolicyEntry) -> Result<(), CallError> {
        match self.required("VersionId")? == VERSION {
            true => Ok(()),
            false => {
                let told = format!("the policy `{}` has the version {VERSION} alone", policy.name);
                Err(CallError::new(404, "NoSuchEntity", told))
            }
        }
    }

    /// Who has policies, and which.
    fn uses(&self) -> Result<Vec<PolicyUse>, CallError> {
        let users = self.users()?.into_iter().map(|user| PolicyUse {
            list: "User",
            name: user.name,
            id: user.id,
            policies: user.policies,
        });
        let groups = self.groups()?.into_iter().map(|group| PolicyUse {
            list: "Group",
            id: NameKind::Group.unique_id(&group.name, instant(group.created.as_deref())),
            name: group.name,
            policies: group.policies,
        });
        let roles = self.roles()?.into_iter().map(|role| PolicyUse {
            list: "Role",
            name: role.name,
            id: role.id,
            policies: role.policies,
        });
        Ok(users.chain(groups).chain(roles).collect())
    }
}

fn instant(created: Option<&str>) -> Option<Timestamp> {
    created.and_then(Timestamp::parse_iso8601)
}

/// The ARN of a policy.
pub(super) fn policy_arn(name: &str, ready_made: bool) -> String {
    match ready_made {
        true => format!("arn:aws:iam::aws:policy/{name}"),
        false => NameKind::Policy.arn(name),
    }
}

/// The name in the ARN of a policy of this account, or of a ready-made one.
pub(super) fn name_of_arn(arn: &str) -> Result<&str, CallError> {
    let of_account = NameKind::Policy.arn("");
    let of_aws = policy_arn("", true);
    if let Some(name) = arn.strip_prefix(&of_aws).filter(|name| is_ready_made(name)) {
        return Ok(name);
    }
    let own = arn.strip_prefix(&of_account).filter(|name| !is_ready_made(name) && !name.is_empty());
    own.ok_or_else(|| {
        if arn.starts_with("arn:") && arn.contains(":policy/") {
            return CallError::new(404, "NoSuchEntity", "there is no policy with this ARN");
        }
        CallError::new(400, "InvalidInput", "PolicyArn is not the ARN of a policy")
    })
}

fn is_ready_made(name: &str) -> bool {
    READY_MADE_POLICIES.iter().any(|policy| policy.name == name)
}

/// Checks the document of a policy.
pub(super) fn check_document(text: &str) -> Result<(), CallError> {
    check_policy_document(text).map_err(malformed)?;
    // IAM refuses ids of statements that are there twice; those of sessions may be.
    let value: Value = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
    let statements = value.get("Statement").and_then(Value::as_array);
    let mut seen = HashSet::new();
    for statement in statements.into_iter().flatten() {
        if let Some(id) = statement.get("Sid").and_then(Value::as_str)
            && !id.is_empty()
            && !seen.insert(id)
        {
            return Err(malformed(format!("Statement IDs (SID) in a single policy must be unique: `{id}`")));
        }
    }
    Ok(())
}

fn malformed(problem: String) -> CallError {
    CallError::new(400, "MalformedPolicyDocument", problem)
}

fn write_policy(element: &mut CallWriter, policy: &PolicyEntry, attached: usize) {
    element.leaf("PolicyName", &policy.name);
    let created = instant(policy.created.as_deref());
    element.leaf("PolicyId", &NameKind::Policy.unique_id(&policy.name, created));
    element.leaf("Arn", &policy_arn(&policy.name, policy.ready_made));
    element.leaf("Path", PATH);
    element.leaf("DefaultVersionId", VERSION);
    element.plain("AttachmentCount", attached);
    element.plain("PermissionsBoundaryUsageCount", 0);
    element.plain("IsAttachable", true);
    date(element, "CreateDate", policy.created.as_deref());
    date(element, "UpdateDate", policy.created.as_deref());
}

fn write_version(element: &mut CallWriter, policy: &PolicyEntry) {
    element.leaf("VersionId", VERSION);
    element.plain("IsDefaultVersion", true);
    date(element, "CreateDate", policy.created.as_deref());
}

fn attached_to(uses: &[PolicyUse], policy: &str) -> usize {
    uses.iter().filter(|holder| holder.policies.iter().any(|held| held == policy)).count()
}

fn create(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = asked.new_name("PolicyName", IAM_LONG_NAME_MAX_CHARS)?;
    let text = asked.required("PolicyDocument")?;
    check_document(text)?;
    let document = text.to_owned();
    asked.change(&UserChange::Iam(IamChange::CreatePolicy { name: name.clone(), document }))?;
    let policies = asked.directory()?.policies().map_err(|error| asked.refusal(&error))?;
    let made = policies.into_iter().find(|policy| policy.name == name).unwrap_or_default();
    Ok(asked.answer(|result| result.element("Policy", |policy| write_policy(policy, &made, 0))))
}

fn get(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let policy = asked.policy()?;
    let attached = attached_to(&asked.uses()?, &policy.name);
    Ok(asked.answer(|result| result.element("Policy", |element| write_policy(element, &policy, attached))))
}

fn get_version(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let policy = asked.policy()?;
    asked.check_version(&policy)?;
    Ok(asked.answer(|result| {
        result.element("PolicyVersion", |version| {
            document(version, "Document", &policy.document);
            write_version(version, &policy);
        });
    }))
}

fn list_versions(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let policy = asked.policy()?;
    let page = asked.page(vec![VERSION], |version| version)?;
    Ok(asked.answer(|result| {
        page.write(result, "Versions", |member, _| write_version(member, &policy));
    }))
}

/// The new version takes the place of the only one, so that it must be the default.
fn create_version(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = name_of_arn(asked.required("PolicyArn")?)?.to_owned();
    let text = asked.required("PolicyDocument")?;
    check_document(text)?;
    if !asked.flag("SetAsDefault")? {
        let told = "a policy has one version here, so that a new one is the default: set SetAsDefault";
        return Err(CallError::new(409, "LimitExceeded", told));
    }
    let document = text.to_owned();
    asked.change(&UserChange::Iam(IamChange::ReplacePolicy { name: name.clone(), document }))?;
    let policies = asked.directory()?.policies().map_err(|error| asked.refusal(&error))?;
    let made = policies.into_iter().find(|policy| policy.name == name).unwrap_or_default();
    Ok(asked.answer(|result| result.element("PolicyVersion", |version| write_version(version, &made))))
}

fn set_default(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let policy = asked.policy()?;
    asked.check_version(&policy)?;
    Ok(asked.answer(|_| {}))
}

fn delete_version(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let policy = asked.policy()?;
    asked.check_version(&policy)?;
    Err(CallError::new(409, "DeleteConflict", "Cannot delete the default version of a policy."))
}

fn delete(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let name = name_of_arn(asked.required("PolicyArn")?)?.to_owned();
    asked.done(&UserChange::Policies(PolicyChange::DeletePolicy { name }))
}

fn list(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let mut policies = asked.policies()?;
    match asked.params.get("Scope").unwrap_or("All") {
        "All" => {}
        "AWS" => policies.retain(|policy| policy.ready_made),
        "Local" => policies.retain(|policy| !policy.ready_made),
        _ => return Err(CallError::validation("Scope is All, AWS or Local")),
    }
    match asked.params.get("PolicyUsageFilter") {
        None | Some("PermissionsPolicy") => {}
        Some("PermissionsBoundary") => policies.clear(),
        Some(_) => return Err(CallError::validation("PolicyUsageFilter is not one of IAM's")),
    }
    let uses = asked.uses()?;
    if asked.flag("OnlyAttached")? {
        policies.retain(|policy| attached_to(&uses, &policy.name) > 0);
    }
    let page = asked.page(policies, |policy| &policy.name)?;
    Ok(asked.answer(|result| {
        page.write(result, "Policies", |member, policy| {
            write_policy(member, policy, attached_to(&uses, &policy.name));
        });
    }))
}

fn list_entities(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let policy = asked.policy()?;
    let mut uses = asked.uses()?;
    uses.retain(|holder| holder.policies.contains(&policy.name));
    match asked.params.get("EntityFilter") {
        None => {}
        Some(kind @ ("User" | "Group" | "Role")) => uses.retain(|holder| holder.list == kind),
        Some(_) => uses.clear(),
    }
    if asked.params.get("PolicyUsageFilter") == Some("PermissionsBoundary") {
        uses.clear();
    }
    let page = asked.page(uses, |holder| &holder.name)?;
    Ok(asked.answer(|result| {
        for kind in ["User", "Group", "Role"] {
            result.element(&format!("Policy{kind}s"), |list| {
                for holder in page.entries().iter().filter(|holder| holder.list == kind) {
                    list.element("member", |member| {
                        member.leaf(&format!("{kind}Name"), &holder.name);
                        member.leaf(&format!("{kind}Id"), &holder.id);
                    });
                }
            });
        }
        page.end(result);
    }))
}
