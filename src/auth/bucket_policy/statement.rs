//! Statements of a policy (IAM reference, "IAM JSON policy elements").

use super::condition::{ClientLimit, Condition, PolicySyntax};
use super::context::PolicyContext;
use super::json::{StrictJson, StrictMembers};
use super::pattern::{GlobPattern, GlobSyntax};
use super::publicity;
use super::statement_parts::{PolicyEffect, StatementConditions, StatementPlace, texts};
use crate::auth::action::{Action, ActionSet};

const ACTION_PREFIX: &str = "s3:";
const RESOURCE_PREFIX: &str = "arn:aws:s3:::";

/// Actions of S3 that a policy may name although no operation here asks for them: whether they
/// apply to objects.
const FOREIGN_ACTIONS: [(&str, bool); 2] = [("GetObjectTorrent", true), ("RestoreObject", true)];

/// The senders that a statement is about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PrincipalSet {
    /// All senders, anonymous ones included.
    Everyone,
    /// Users by name.
    Users(Vec<String>),
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PolicyStatement {
    /// Its identifier; unique in a policy.
    pub(super) sid: Option<String>,
    /// Whether it allows or denies.
    pub(super) effect: PolicyEffect,
    principals: PrincipalSet,
    actions: ActionSet,
    resources: Vec<GlobPattern>,
    conditions: StatementConditions,
}

/// The bucket of a policy, and how its texts are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyScope<'b> {
    /// The name of the bucket.
    pub(super) bucket: &'b str,
    /// Whether `${` begins a variable.
    pub(super) variables: bool,
}

impl PolicyScope<'_> {
    fn syntax(&self) -> PolicySyntax {
        PolicySyntax { variables: self.variables, lenient: false }
    }
}

impl PolicyStatement {
    /// Parses a statement.
    ///
    /// # Errors
    /// The first element that is missing, wrong or not supported, by name.
    pub(super) fn parse(
        json: &StrictJson,
        scope: PolicyScope<'_>,
        place: StatementPlace,
    ) -> Result<Self, String> {
        let known = ["Sid", "Effect", "Principal", "Action", "Resource", "Condition"];
        let members = StrictMembers::of(json, "a statement", &known)?;
        let effect = PolicyEffect::parse(members.required("Effect")?)?;
        let mut statement = Self {
            sid: members.get("Sid").map(|sid| sid.scalar().ok_or("`Sid` must be text")).transpose()?,
            effect,
            principals: PrincipalSet::parse(members.required("Principal")?)?,
            actions: ActionSet::default(),
            resources: texts(members.required("Resource")?, "Resource")?
                .iter()
                .map(|arn| resource(arn, scope))
                .collect::<Result<_, _>>()?,
            conditions: StatementConditions {
                effect,
                conditions: members
                    .get("Condition")
                    .map_or(Ok(Vec::new()), |conditions| Condition::parse_all(conditions, scope.syntax()))?,
                place,
            },
        };
        statement.add_actions(&texts(members.required("Action")?, "Action")?, scope.bucket)?;
        Ok(statement)
    }

    /// Adds the actions of these names. Each must apply to a resource of the statement, and each
    /// condition to it: S3 refuses others, and so finds many mistakes.
    fn add_actions(&mut self, names: &[String], bucket: &str) -> Result<(), String> {
        let context = PolicyContext::default();
        let names_bucket = self.resources.iter().any(|resource| resource.matches(bucket, &context));
        let names_objects = self.resources.iter().any(GlobPattern::reaches_objects);
        for name in names {
            let pattern = action(name)?;
            let matched = |known: &str| pattern.matches(&known.to_ascii_lowercase(), &context);
            let mut of_objects =
                known_actions().filter(|(known, _)| matched(known)).map(|(_, of)| of).peekable();
            if of_objects.peek().is_none() {
                return Err(format!("there is no action `{name}`"));
            }
            if !of_objects.any(|of_objects| if of_objects { names_objects } else { names_bucket }) {
                return Err(format!("the action `{name}` does not apply to any resource of its statement"));
            }
            if let Some(key) = self
                .conditions
                .iter()
                .map(Condition::key)
                .find(|key| !known_actions().any(|(known, _)| matched(known) && key.is_of_action(known)))
            {
                return Err(format!("the condition key `{key}` does not apply to the action `{name}`"));
            }
            for action in Action::ALL.iter().filter(|action| matched(action.as_str())) {
                self.actions.insert(*action);
            }
        }
        Ok(())
    }

    /// Whether it is about this request. `path` is `bucket` or `bucket/key`.
    pub(super) fn applies(&self, action: Action, path: &str, context: &PolicyContext<'_>) -> bool {
        self.names(action, context)
            && self.resources.iter().any(|resource| resource.matches(path, context))
            && self.conditions.hold(context)
    }

    /// Whether it is about this sender, action and request, for some object at least.
    pub(super) fn applies_to_some_object(&self, action: Action, context: &PolicyContext<'_>) -> bool {
        self.concerns(action, context) && self.resources.iter().any(GlobPattern::reaches_objects)
    }

    /// Whether it is about this sender, action and request, for every object.
    pub(super) fn denies_all_objects(
        &self,
        action: Action,
        bucket: &str,
        context: &PolicyContext<'_>,
    ) -> bool {
        let objects = format!("{bucket}/");
        self.concerns(action, context)
            && self.resources.iter().any(|resource| resource.covers_all_after(&objects))
    }

    fn concerns(&self, action: Action, context: &PolicyContext<'_>) -> bool {
        self.names(action, context) && self.conditions.hold(context)
    }

    fn names(&self, action: Action, context: &PolicyContext<'_>) -> bool {
        self.actions.contains(action) && self.principals.includes(context.user)
    }

    /// The most wildcards that one of its patterns has.
    pub(super) fn wildcards(&self) -> usize {
        let of_resources = self.resources.iter().map(GlobPattern::wildcards);
        of_resources.chain(self.conditions.iter().map(Condition::wildcards)).max().unwrap_or(0)
    }

    /// Whether a condition or a variable refers to the tags that a request gives an object.
    pub(super) fn reads_request_tags(&self) -> bool {
        self.conditions.iter().any(Condition::reads_request_tags)
            || self.resources.iter().any(GlobPattern::reads_request_tags)
    }

    /// The clients that it lets in: no others than the narrowest of its conditions does. A denial
    /// lets in nobody.
    pub(super) fn clients(&self) -> ClientLimit {
        if self.effect == PolicyEffect::Deny || self.principals != PrincipalSet::Everyone {
            return ClientLimit::Users;
        }
        let mut narrowest = ClientLimit::Everyone;
        for condition in self.conditions.iter() {
            match condition.clients() {
                ClientLimit::Users => return ClientLimit::Users,
                ClientLimit::Networks(networks) if !publicity::are_public(&networks) => {
                    narrowest = ClientLimit::Networks(networks);
                }
                ClientLimit::Networks(_) | ClientLimit::Everyone => {}
            }
        }
        narrowest
    }

    /// The users that it names.
    pub(super) fn principals(&self) -> impl Iterator<Item = &str> {
        let names = match &self.principals {
            PrincipalSet::Everyone => &[][..],
            PrincipalSet::Users(names) => names,
        };
        names.iter().map(String::as_str)
    }
}

impl PrincipalSet {
    fn parse(json: &StrictJson) -> Result<Self, String> {
        let names = match json {
            StrictJson::Text(all) if all == "*" => return Ok(Self::Everyone),
            StrictJson::Object(members) => match members.as_slice() {
                [(kind, names)] if kind == "AWS" => texts(names, "Principal")?,
                [(kind, _), ..] => return Err(format!("the principal type `{kind}` is not supported")),
                [] => return Err("`Principal` names nobody".to_owned()),
            },
            _ => return Err("`Principal` must be `*` or `{\"AWS\": ...}`".to_owned()),
        };
        if names.iter().any(|name| name == "*") {
            return Ok(Self::Everyone);
        }
        names.iter().map(|name| user_name(name)).collect::<Result<_, _>>().map(Self::Users)
    }

    fn includes(&self, user: Option<&str>) -> bool {
        match self {
            Self::Everyone => true,
            Self::Users(names) => user.is_some_and(|user| names.iter().any(|name| name == user)),
        }
    }
}

/// The user that a principal names: by name, or by an ARN of any account.
fn user_name(principal: &str) -> Result<String, String> {
    let unsupported = || {
        Err(format!(
            "the principal `{principal}` is neither a user's name nor `arn:aws:iam::ACCOUNT:user/NAME`"
        ))
    };
    let name = match principal.strip_prefix("arn:") {
        None => principal,
        Some(arn) => match arn.strip_prefix("aws:iam::").and_then(|rest| rest.split_once(":user/")) {
            Some((_, name)) => name,
            None => return unsupported(),
        },
    };
    if name.is_empty() || name.contains(['*', '?', '/', ':']) { unsupported() } else { Ok(name.to_owned()) }
}

/// The pattern of an action, in lower case and without the name of the service.
fn action(name: &str) -> Result<GlobPattern, String> {
    let syntax = GlobSyntax { wildcards: true, variables: false, lenient: false };
    let lower = name.to_ascii_lowercase();
    match lower.strip_prefix(ACTION_PREFIX) {
        Some(action) => GlobPattern::parse(action, syntax),
        None if lower == "*" => GlobPattern::parse("*", syntax),
        None => Err(format!("the action `{name}` does not begin with `{ACTION_PREFIX}`")),
    }
}

/// Every action that a policy may name, and whether it applies to objects.
fn known_actions() -> impl Iterator<Item = (&'static str, bool)> {
    let ours = Action::ALL.iter().map(|action| (action.as_str(), action.applies_to_objects()));
    ours.chain(FOREIGN_ACTIONS)
}

/// The pattern of a resource, without the start that all resources of S3 share. It must stay within
/// the bucket.
fn resource(arn: &str, scope: PolicyScope<'_>) -> Result<GlobPattern, String> {
    let refused = || {
        format!("the resource `{arn}` is not of this bucket: write `{RESOURCE_PREFIX}{}/...`", scope.bucket)
    };
    let path = arn.strip_prefix(RESOURCE_PREFIX).ok_or_else(refused)?;
    let rest = path.strip_prefix(scope.bucket).ok_or_else(refused)?;
    if !rest.is_empty() && !rest.starts_with(['/', '*', '?']) {
        return Err(refused());
    }
    GlobPattern::parse(path, GlobSyntax { wildcards: true, variables: scope.variables, lenient: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_action_that_is_served_counts_as_foreign() {
        for (foreign, _) in FOREIGN_ACTIONS {
            assert!(Action::ALL.iter().all(|action| action.as_str() != foreign), "{foreign} is served");
        }
    }
}
