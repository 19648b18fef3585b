//! The calls of IAM: users, keys, groups, policies, roles and providers of the users file, for
//! programs that manage those of AWS. They read and change by the functions of the API
//! (`service/users.rs`), with its permissions and its records; here are the forms of requests and
//! answers alone.

mod answers;
mod elsewhere;
mod groups;
mod holders;
mod policies;
mod providers;
mod roles;
mod trust;
mod users;

use super::Service;
use super::access_log::RequestLogEntry;
use super::users::{UserChange, UserDirectory, UserError};
use crate::auth::{Action, Identity, KeyPair};
use crate::s3::query_call::{CallParams, CallWriter, QueryApi};
use crate::s3::{CallError, Request, Response, query_call};

/// The only path of users, groups, roles and policies.
const PATH: &str = "/";
/// What every request may hold beside the parameters of its call.
const OF_ALL: [&str; 2] = ["Action", "Version"];

/// A call.
pub(super) struct IamCall {
    pub(super) name: &'static str,
    /// The parameters that it takes. A list of members is called by its start.
    params: &'static [&'static str],
    run: fn(&IamRequest<'_>) -> Result<Response, CallError>,
}

/// All calls, by their subjects.
const CALLS: [&[IamCall]; 7] = [
    users::CALLS,
    groups::CALLS,
    policies::CALLS,
    holders::CALLS,
    roles::CALLS,
    providers::CALLS,
    elsewhere::CALLS,
];

impl IamCall {
    /// The call of a name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        CALLS.iter().flat_map(|calls| calls.iter()).find(|call| call.name == name)
    }
}

/// A call with its sender.
struct IamRequest<'r> {
    service: &'r Service,
    call: &'static IamCall,
    caller: &'r Identity,
    request: &'r Request<'r>,
    params: &'r CallParams,
    request_id: &'r str,
}

impl Service {
    /// Answers a call of IAM.
    pub(super) fn iam(
        &self,
        call: &'static IamCall,
        caller: &Identity,
        request: &Request<'_>,
        params: &CallParams,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, CallError> {
        entry.session = caller.session().cloned();
        // Nobody must be made to change users by following a link.
        if request.headers.get("authorization").is_none() {
            return Err(CallError::new(403, "MissingAuthenticationToken", "Sign the call in its headers."));
        }
        let request_id = entry.id.as_str();
        let asked = IamRequest { service: self, call, caller, request, params, request_id };
        asked.check_params()?;
        (call.run)(&asked)
    }
}

impl IamRequest<'_> {
    /// Refuses parameters that the call would neglect, by name: whoever sends one expects an
    /// effect.
    fn check_params(&self) -> Result<(), CallError> {
        for (name, value) in self.params.iter() {
            let start = name.split(".member.").next().unwrap_or(name);
            if !OF_ALL.contains(&name) && !self.call.params.contains(&start) && !value.is_empty() {
                let call = self.call.name;
                return Err(CallError::validation(format!("{call} takes no {start} here")));
            }
        }
        for name in ["Path", "NewPath"] {
            if self.params.get(name).is_some_and(|path| path != PATH) {
                return Err(CallError::validation(format!("{name}: `/` is the only path here")));
            }
        }
        Ok(())
    }

    /// A parameter that must be there.
    fn required(&self, name: &str) -> Result<&str, CallError> {
        self.params.required(name)
    }

    /// The name in a parameter, of what is to be made.
    fn new_name(&self, param: &str, max_chars: usize) -> Result<String, CallError> {
        let name = self.required(param)?;
        let fits = name.len() <= max_chars
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c));
        match fits {
            true => Ok(name.to_owned()),
            false => Err(CallError::validation(format!(
                "{param} has 1 to {max_chars} characters of: letters, digits, _ + = , . @ -"
            ))),
        }
    }

    /// A parameter that says yes or no.
    fn flag(&self, name: &str) -> Result<bool, CallError> {
        match self.params.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(CallError::validation(format!("{name} is true or false"))),
        }
    }

    /// The users, for what the sender has just made.
    fn directory(&self) -> Result<&dyn UserDirectory, CallError> {
        self.service.directory().map_err(|error| self.refusal(&error))
    }

    /// Makes a change on behalf of the sender.
    fn change(&self, change: &UserChange) -> Result<Option<KeyPair>, CallError> {
        let made = self.service.change_user(self.caller, self.request, change);
        made.map_err(|error| self.refusal(&error))
    }

    /// Makes a change whose answer has no result.
    fn done(&self, change: &UserChange) -> Result<Response, CallError> {
        self.change(change)?;
        Ok(self.answer(|_| {}))
    }

    /// The answer whose result `fill` writes.
    fn answer(&self, fill: impl FnOnce(&mut CallWriter)) -> Response {
        query_call::answer(QueryApi::Iam, self.call.name, self.request_id, fill)
    }

    /// A refusal, by the name that IAM has for it (IAM API reference, "Common errors", and the
    /// errors of each call).
    fn refusal(&self, error: &UserError) -> CallError {
        let told = error.to_string();
        match error {
            UserError::Denied(permission) => self.denied(*permission),
            UserError::Unknown { .. } | UserError::Missing(_) => CallError::new(404, "NoSuchEntity", told),
            UserError::Taken { .. } => CallError::new(409, "EntityAlreadyExists", told),
            UserError::InUse(_) => CallError::new(409, "DeleteConflict", told),
            UserError::TooMany(_) => CallError::new(409, "LimitExceeded", told),
            UserError::Refused(_) => CallError::new(409, "EntityTemporarilyUnmodifiable", told),
            UserError::Invalid(_) => CallError::validation(told),
            UserError::Failed(_) => {
                log::error!("{} of IAM failed: {told}", self.call.name);
                let told =
                    "The users file or the audit log cannot be read or written: the server's log says why.";
                CallError::new(500, "ServiceFailure", told)
            }
        }
    }

    /// A refusal that says nothing of who or what is there.
    fn denied(&self, permission: Action) -> CallError {
        let arn = self.caller.caller().arn;
        let call = self.call.name;
        CallError::denied(format!(
            "User: {arn} is not authorized to perform: iam:{call} (it takes {permission} on `*`)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_guide_has_every_call_once() {
        let page = include_str!("../../guide/iam.md");
        let table = page.split("## Calls").nth(1).unwrap().split("\n- ").next().unwrap();
        let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
        let cells = rows.map(|row| row.split(" | ").nth(1).unwrap());
        let mut told = BTreeSet::new();
        for name in cells.flat_map(|cell| cell.split(", ")) {
            assert!(told.insert(name), "{name} is there twice");
        }
        let served: BTreeSet<_> = CALLS.iter().flat_map(|calls| calls.iter()).map(|call| call.name).collect();
        assert_eq!(told, served);
        assert_eq!(served.len(), CALLS.iter().map(|calls| calls.len()).sum::<usize>());
    }
}
