//! Calls about what users of the users file never have, which programs send before they delete one:
//! their lists are empty. And calls about the account.

use super::{IamCall, IamRequest};
use crate::base::limits::USER_KEYS_MAX;
use crate::s3::{CallError, Response};
use crate::service::users::UserError;

pub(super) const CALLS: &[IamCall] = &[
    IamCall { name: "GetAccountSummary", params: &[], run: summary },
    IamCall { name: "ListAccountAliases", params: &["Marker", "MaxItems"], run: no_aliases },
    IamCall {
        name: "ListVirtualMFADevices",
        params: &["AssignmentStatus", "Marker", "MaxItems"],
        run: no_virtual_devices,
    },
    IamCall { name: "ListMFADevices", params: &["UserName", "Marker", "MaxItems"], run: no_devices },
    IamCall { name: "ListSSHPublicKeys", params: &["UserName", "Marker", "MaxItems"], run: no_ssh_keys },
    IamCall {
        name: "ListSigningCertificates",
        params: &["UserName", "Marker", "MaxItems"],
        run: no_certificates,
    },
    IamCall {
        name: "ListServiceSpecificCredentials",
        params: &["UserName", "ServiceName", "Marker", "MaxItems"],
        run: no_credentials,
    },
    IamCall {
        name: "ListInstanceProfilesForRole",
        params: &["RoleName", "Marker", "MaxItems"],
        run: no_profiles,
    },
    IamCall { name: "ListUserTags", params: &["UserName", "Marker", "MaxItems"], run: no_tags },
    IamCall { name: "ListRoleTags", params: &["RoleName", "Marker", "MaxItems"], run: no_tags },
    IamCall { name: "GetLoginProfile", params: &["UserName"], run: no_password },
    IamCall { name: "DeleteLoginProfile", params: &["UserName"], run: no_password },
];

/// An empty list of what a user or role could have, if there is such a one.
fn empty(asked: &IamRequest<'_>, list: &str) -> Result<Response, CallError> {
    match (asked.params.get("UserName"), asked.params.get("RoleName")) {
        (Some(name), _) => drop(asked.user(name)?),
        (None, Some(name)) => drop(asked.role(name)?),
        (None, None) => drop(asked.users()?),
    }
    Ok(asked.answer(|result| {
        result.element(list, |_| {});
        result.plain("IsTruncated", false);
    }))
}

fn no_aliases(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "AccountAliases")
}

fn no_virtual_devices(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "VirtualMFADevices")
}

fn no_devices(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "MFADevices")
}

fn no_ssh_keys(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "SSHPublicKeys")
}

fn no_certificates(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "Certificates")
}

fn no_credentials(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "ServiceSpecificCredentials")
}

fn no_profiles(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "InstanceProfiles")
}

fn no_tags(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    empty(asked, "Tags")
}

/// No user has a password: the console takes keys.
fn no_password(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let user = asked.user(asked.required("UserName")?)?;
    let told = UserError::Missing(format!("the user `{}` has no password", user.name));
    Err(asked.refusal(&told))
}

fn summary(asked: &IamRequest<'_>) -> Result<Response, CallError> {
    let users = asked.users()?.len();
    let groups = asked.groups()?.len();
    let roles = asked.roles()?.len();
    let providers = asked.providers()?.len();
    let policies = asked.policies()?.iter().filter(|policy| !policy.ready_made).count();
    let figures = [
        ("Users", users),
        ("Groups", groups),
        ("Roles", roles),
        ("Policies", policies),
        ("PolicyVersionsInUse", policies),
        ("VersionsPerPolicyQuota", 1),
        ("AccessKeysPerUserQuota", USER_KEYS_MAX),
        ("MFADevices", 0),
        ("MFADevicesInUse", 0),
        ("AccountMFAEnabled", 0),
        ("Providers", providers),
        ("ServerCertificates", 0),
        ("InstanceProfiles", 0),
    ];
    Ok(asked.answer(|result| {
        result.element("SummaryMap", |map| {
            for (name, figure) in figures {
                map.element("entry", |entry| {
                    entry.leaf("key", name);
                    entry.plain("value", figure);
                });
            }
        });
    }))
}
