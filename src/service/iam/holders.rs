//! Calls about the policies of users, groups and roles: those that are attached, and those that
//! belong to one of them alone. The parameter with the name says of which kind it is.

use std::collections::BTreeMap;

use super::answers::document;
use super::policies::{check_document, name_of_arn, policy_arn};
use super::{IamCall, IamRequest};
use crate::auth::READY_MADE_POLICIES;
use crate::base::limits::IAM_LONG_NAME_MAX_CHARS;
use crate::s3::{CallError, Response};
use crate::service::iam_changes::IamChange;
use crate::service::policies::{PolicyChange, PolicyHolder};
use crate::service::users::{UserChange, UserError};

const OF_USER: &str = "UserName";
const OF_GROUP: &str = "GroupName";
const OF_ROLE: &str = "RoleName";

pub(super) const CALLS: &[IamCall] = &[
    IamCall { name: "AttachUserPolicy", params: &[OF_USER, "PolicyArn"], run: attach },
    IamCall { name: "AttachGroupPolicy", params: &[OF_GROUP, "PolicyArn"], run: attach },
    IamCall { name: "AttachRolePolicy", params: &[OF_ROLE, "PolicyArn"], run: attach },
    IamCall { name: "DetachUserPolicy", params: &[OF_USER, "PolicyArn"], run: detach },
    IamCall { name: "DetachGroupPolicy", params: &[OF_GROUP, "PolicyArn"], run: detach },
    IamCall { name: "DetachRolePolicy", params: &[OF_ROLE, "PolicyArn"], run: detach },
    IamCall {
        name: "ListAttachedUserPolicies",
        params: &[OF_USER, "PathPrefix", "Marker", "MaxItems"],
        run: list_attached,
    },
    IamCall {
        name: "ListAttachedGroupPolicies",
        params: &[OF_GROUP, "PathPrefix", "Marker", "MaxItems"],
        run: list_attached,
    },
    IamCall {
        name: "ListAttachedRolePolicies",
        params: &[OF_ROLE, "PathPrefix", "Marker", "MaxItems"],
        run: list_attached,
    },
    IamCall { name: "PutUserPolicy", params: &[OF_USER, "PolicyName", "PolicyDocument"], run: put },
    IamCall { name: "PutGroupPolicy", params: &[OF_GROUP, "PolicyName", "PolicyDocument"], run: put },
    IamCall { name: "PutRolePolicy", params: &[OF_ROLE, "PolicyName", "PolicyDocument"], run: put },
    IamCall { name: "GetUserPolicy", params: &[OF_USER, "PolicyName"], run: get },
    IamCall { name: "GetGroupPolicy", params: &[OF_GROUP, "PolicyName"], run: get },
    IamCall { name: "GetRolePolicy", params: &[OF_ROLE, "PolicyName"], run: get },
    IamCall { name: "DeleteUserPolicy", params: &[OF_USER, "PolicyName"], run: delete },
    IamCall { name: "DeleteGroupPolicy", params: &[OF_GROUP, "PolicyName"], run: delete },
    IamCall { name: "DeleteRolePolicy", params: &[OF_ROLE, "PolicyName"], run: delete },
    IamCall { name: "ListUserPolicies", params: &[OF_USER, "Marker", "MaxItems"], run: list },
    IamCall { name: "ListGroupPolicies", params: &[OF_GROUP, "Marker", "MaxItems"], run: list },
    IamCall { name: "ListRolePolicies", params: &[OF_ROLE, "Marker", "MaxItems"], run: list },
];

/// The policies of a user, a group or a role.
struct HeldPolicies {
    attached: Vec<String>,
    inline: BTreeMap<String, String>,
}

impl IamRequest<'_> {
    /// Of whom the policies are.
    fn holder(&self) -> Result<PolicyHolder, CallError> {
        let takes = |param| self.call.params.contains(&param);
        if takes(OF_USER) {
            return Ok(PolicyHolder::User(self.required(OF_USER)?.to_owned()));
        }
        if takes(OF_GROUP) {
            return Ok(PolicyHolder::Group(self.required(OF_GROUP)?.to_owned()));
        }
        Ok(PolicyHolder::Role(self.required(OF_ROLE)?.to_owned()))
    }

    fn held(&self, holder: &PolicyHolder) -> Result<HeldPolicies, CallError> {
        Ok(match holder {
            PolicyHolder::User(name) => {
                let user = self.user(name)?;
                HeldPolicies { attached: user.policies, inline: user.inline_policies }
            }
            PolicyHolder::Group(name) => {
                let group = self.group(name)?;
                HeldPolicies { attached: group.policies, inline: group.inline_policies }
            }
            PolicyHolder::Role(name) => {
                let role = self.role(name)?;
                HeldPolicies { attached: role.policies, inline: role.inline_policies }
            }
        })
    }
}

fn attach(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let to = asked.holder()?;
    let policy = name_of_arn(asked.required("PolicyArn")?)?.to_owned();
    asked.done(&UserChange::Policies(PolicyChange::Attach { to, policy }))
}

fn detach(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let from = asked.holder()?;
    let policy = name_of_arn(asked.required("PolicyArn")?)?.to_owned();
    asked.done(&UserChange::Policies(PolicyChange::Detach { from, policy }))
}

fn list_attached(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let mut attached = asked.held(&asked.holder()?)?.attached;
    // Documents without a name stand there as well. No call takes those away.
    attached.retain(|policy| !policy.trim_start().starts_with('{'));
    let page = asked.page(attached, |policy| policy)?;
    Ok(asked.answer(|result| {
        page.write(result, "AttachedPolicies", |member, policy| {
            let ready_made = READY_MADE_POLICIES.iter().any(|known| known.name == policy);
            member.leaf("PolicyName", policy);
            member.leaf("PolicyArn", &policy_arn(policy, ready_made));
        });
    }))
}

fn put(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let of = asked.holder()?;
    let policy = asked.new_name("PolicyName", IAM_LONG_NAME_MAX_CHARS)?;
    let text = asked.required("PolicyDocument")?;
    check_document(text)?;
    let document = text.to_owned();
    asked.done(&UserChange::Iam(IamChange::PutInline { of, policy, document }))
}

fn get(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let holder = asked.holder()?;
    let policy = asked.required("PolicyName")?;
    let inline = asked.held(&holder)?.inline;
    let text = inline
        .get(policy)
        .ok_or_else(|| asked.refusal(&UserError::Unknown { kind: "policy", name: policy.to_owned() }))?;
    let of = match &holder {
        PolicyHolder::User(_) => OF_USER,
        PolicyHolder::Group(_) => OF_GROUP,
        PolicyHolder::Role(_) => OF_ROLE,
    };
    Ok(asked.answer(|result| {
        result.leaf(of, holder.name());
        result.leaf("PolicyName", policy);
        document(result, "PolicyDocument", text);
    }))
}

fn delete(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let of = asked.holder()?;
    let policy = asked.required("PolicyName")?.to_owned();
    asked.done(&UserChange::Iam(IamChange::DeleteInline { of, policy }))
}

fn list(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let inline = asked.held(&asked.holder()?)?.inline;
    let page = asked.page(inline.into_keys().collect(), |policy: &String| policy)?;
    Ok(asked.answer(|result| {
        page.write(result, "PolicyNames", |member, policy| member.text(policy));
    }))
}
