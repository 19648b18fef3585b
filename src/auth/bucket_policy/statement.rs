//! Statements of a policy (IAM reference, "IAM JSON policy elements").

use super::condition::{ClientLimit, Condition, PolicySyntax};
use super::context::PolicyContext;
use super::json::{StrictJson, StrictMembers};
use super::pattern::{GlobPattern, GlobSyntax};
use super::publicity;
use super::statement_parts::{PolicyEffect, StatementConditions, StatementPlace, texts};
use crate::auth::action::{Action, ActionSet};
use crate::auth::session::arn::{assumed_role, federated_user};

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
    /// These.
    Named(Vec<Principal>),
    /// All but these, anonymous ones included (`NotPrincipal`).
    AllBut(Vec<Principal>),
}

/// Whom a statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::auth) enum Principal {
    /// A user, and the sessions that it makes of itself.
    User(String),
    /// A role: all of its sessions.
    Role(String),
    /// One session: of a role, or a federated user's, by its ARN with the account of the server.
    SenderSession(String),
    /// All users and roles.
    Account,
    /// A service of AWS, which sends no requests here.
    Service,
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PolicyStatement {
    /// Whether it allows or denies.
    pub(super) effect: PolicyEffect,
    principals: PrincipalSet,
    actions: ActionSet,
    resources: Vec<GlobPattern>,
    /// Whether it is about all resources of the bucket but those.
    all_but: bool,
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
        let known = [
            "Sid",
            "Effect",
            "Principal",
            "NotPrincipal",
            "Action",
            "NotAction",
            "Resource",
            "NotResource",
            "Condition",
        ];
        let members = StrictMembers::of(json, "a statement", &known)?;
        // A name for people. IAM wants each once in a policy, S3 does not (IAM user guide, "Sid").
        if let Some(sid) = members.get("Sid") {
            sid.scalar().ok_or("`Sid` must be text")?;
        }
        let effect = PolicyEffect::parse(members.required("Effect")?)?;
        let (resources, all_but) = either(members, "Resource", "NotResource")?;
        let mut statement = Self {
            effect,
            principals: PrincipalSet::of(members, effect)?,
            actions: ActionSet::default(),
            resources: texts(resources, if all_but { "NotResource" } else { "Resource" })?
                .iter()
                .map(|arn| resource(arn, scope))
                .collect::<Result<_, _>>()?,
            all_but,
            conditions: StatementConditions {
                effect,
                conditions: members
                    .get("Condition")
                    .map_or(Ok(Vec::new()), |conditions| Condition::parse_all(conditions, scope.syntax()))?,
                place,
            },
        };
        let (actions, but_these) = either(members, "Action", "NotAction")?;
        let names = texts(actions, if but_these { "NotAction" } else { "Action" })?;
        statement.add_actions(&names, but_these, scope.bucket)?;
        Ok(statement)
    }

    /// Adds the actions of these names. Each must apply to a resource of the statement, and each
    /// condition to it: S3 refuses others, and so finds many mistakes.
    fn add_actions(&mut self, names: &[String], but_these: bool, bucket: &str) -> Result<(), String> {
        let context = PolicyContext::default();
        let is_free = self.all_but || but_these;
        let names_bucket =
            is_free || self.resources.iter().any(|resource| resource.matches(bucket, &context));
        let names_objects = is_free || self.resources.iter().any(GlobPattern::reaches_objects);
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
            let unfit = self
                .conditions
                .iter()
                .map(Condition::key)
                .find(|key| !known_actions().any(|(known, _)| matched(known) && key.is_of_action(known)));
            if let Some(key) = unfit.filter(|_| !but_these) {
                return Err(format!("the condition key `{key}` does not apply to the action `{name}`"));
            }
            for action in Action::ALL.iter().filter(|action| matched(action.as_str())) {
                self.actions.insert(*action);
            }
        }
        if but_these {
            self.actions = others_of_buckets(self.actions);
        }
        Ok(())
    }

    /// Whether it is about this request. `path` is `bucket` or `bucket/key`.
    pub(super) fn applies(&self, action: Action, path: &str, context: &PolicyContext<'_>) -> bool {
        self.names(action, context)
            && self.resources.iter().any(|resource| resource.matches(path, context)) != self.all_but
            && self.conditions.hold(context)
    }

    /// Whether it is about this sender, action and request, for some object at least.
    pub(super) fn applies_to_some_object(
        &self,
        action: Action,
        bucket: &str,
        context: &PolicyContext<'_>,
    ) -> bool {
        let some = match self.all_but {
            true => !self.covers_all_objects(bucket),
            false => self.resources.iter().any(GlobPattern::reaches_objects),
        };
        some && self.concerns(action, context)
    }

    /// Whether it is about this sender, action and request, for every object.
    pub(super) fn denies_all_objects(
        &self,
        action: Action,
        bucket: &str,
        context: &PolicyContext<'_>,
    ) -> bool {
        let all = match self.all_but {
            true => !self.resources.iter().any(GlobPattern::reaches_objects),
            false => self.covers_all_objects(bucket),
        };
        all && self.concerns(action, context)
    }

    fn covers_all_objects(&self, bucket: &str) -> bool {
        let objects = format!("{bucket}/");
        self.resources.iter().any(|resource| resource.covers_all_after(&objects))
    }

    /// Whether it names the session of the sender itself.
    pub(super) fn names_session(&self, context: &PolicyContext<'_>) -> bool {
        let session = context.principal.and_then(|principal| principal.session_arn.as_deref());
        match (&self.principals, session) {
            (PrincipalSet::Named(names), Some(arn)) => {
                names.iter().any(|name| matches!(name, Principal::SenderSession(named) if named == arn))
            }
            _ => false,
        }
    }

    fn concerns(&self, action: Action, context: &PolicyContext<'_>) -> bool {
        self.names(action, context) && self.conditions.hold(context)
    }

    fn names(&self, action: Action, context: &PolicyContext<'_>) -> bool {
        self.actions.contains(action) && self.principals.includes(context)
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

    /// Whom it names.
    pub(super) fn principals(&self) -> impl Iterator<Item = &Principal> {
        let names = match &self.principals {
            PrincipalSet::Everyone => &[][..],
            PrincipalSet::Named(names) | PrincipalSet::AllBut(names) => names,
        };
        names.iter()
    }
}

impl PrincipalSet {
    fn of(members: StrictMembers<'_>, effect: PolicyEffect) -> Result<Self, String> {
        let (json, but_these) = either(members, "Principal", "NotPrincipal")?;
        let element = if but_these { "NotPrincipal" } else { "Principal" };
        if but_these && effect == PolicyEffect::Allow {
            return Err("`NotPrincipal` with `Allow` would let in everyone else".to_owned());
        }
        match (Self::parse(json, element)?, but_these) {
            (Self::Everyone, true) => Err("`NotPrincipal` leaves nobody".to_owned()),
            (Self::Named(names), true) => Ok(Self::AllBut(names)),
            (named, _) => Ok(named),
        }
    }

    fn parse(json: &StrictJson, element: &str) -> Result<Self, String> {
        let names = match json {
            StrictJson::Text(all) if all == "*" => return Ok(Self::Everyone),
            StrictJson::Object(members) => members,
            _ => return Err(format!("`{element}` must be `*` or `{{\"AWS\": ...}}`")),
        };
        let mut named = Vec::new();
        let mut everyone = false;
        for (kind, names) in names {
            for name in texts(names, element)? {
                match kind.as_str() {
                    "AWS" if name == "*" => everyone = true,
                    "AWS" => named.push(Principal::parse(&name)?),
                    "Service" if name.ends_with(".amazonaws.com") => named.push(Principal::Service),
                    "Service" => return Err(format!("the principal `{name}` is no service of AWS")),
                    _ => return Err(format!("the principal type `{kind}` is not supported")),
                }
            }
        }
        match (everyone, named.is_empty()) {
            (true, _) => Ok(Self::Everyone),
            (false, true) => Err(format!("`{element}` names nobody")),
            (false, false) => Ok(Self::Named(named)),
        }
    }

    fn includes(&self, context: &PolicyContext<'_>) -> bool {
        match self {
            Self::Everyone => true,
            Self::Named(names) => names.iter().any(|name| name.includes(context)),
            // The account as such is no sender: its users and roles are named one by one.
            Self::AllBut(names) => {
                !names.iter().any(|name| *name != Principal::Account && name.includes(context))
            }
        }
    }
}

impl Principal {
    /// Parses the name of a user, or an ARN of any account.
    fn parse(text: &str) -> Result<Self, String> {
        let Some(arn) = text.strip_prefix("arn:") else {
            return if is_name(text) { Ok(Self::User(text.to_owned())) } else { Err(unsupported(text)) };
        };
        let parts: Vec<_> = arn.splitn(5, ':').collect();
        let &["aws", service, "", _, resource] = parts.as_slice() else { return Err(unsupported(text)) };
        match (service, resource.split_once('/')) {
            ("iam", None) if resource == "root" => Ok(Self::Account),
            ("iam", Some(("user", name))) if is_name(name) => Ok(Self::User(name.to_owned())),
            ("iam", Some(("role", name))) if is_name(name) => Ok(Self::Role(name.to_owned())),
            ("sts", Some(("federated-user", name))) if is_name(name) => {
                Ok(Self::SenderSession(federated_user(name)))
            }
            ("sts", Some(("assumed-role", rest))) => match rest.split_once('/') {
                Some((role, session)) if is_name(role) && is_name(session) => {
                    Ok(Self::SenderSession(assumed_role(role, session)))
                }
                _ => Err(unsupported(text)),
            },
            _ => Err(unsupported(text)),
        }
    }

    fn includes(&self, context: &PolicyContext<'_>) -> bool {
        match self {
            Self::User(name) => context.user == Some(name.as_str()),
            Self::Role(name) => context.principal.is_some_and(|it| it.role.as_deref() == Some(name.as_str())),
            Self::SenderSession(arn) => {
                context.principal.is_some_and(|it| it.session_arn.as_deref() == Some(arn.as_str()))
            }
            Self::Account => context.user.is_some() || context.principal.is_some(),
            Self::Service => false,
        }
    }
}

fn unsupported(principal: &str) -> String {
    format!(
        "the principal `{principal}` is neither a user's name nor an ARN of a user, a role, a session or an account"
    )
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['*', '?', '/', ':'])
}

/// The value of the element of a statement, or of the one that stands for all others, and whether
/// it is that one.
fn either<'j>(
    members: StrictMembers<'j>,
    name: &str,
    negated: &str,
) -> Result<(&'j StrictJson, bool), String> {
    match (members.get(name), members.get(negated)) {
        (Some(_), Some(_)) => Err(format!("a statement has `{name}` or `{negated}`, not both")),
        (None, Some(json)) => Ok((json, true)),
        _ => Ok((members.required(name)?, false)),
    }
}

/// The actions that policies of buckets may allow and deny, but for these.
fn others_of_buckets(named: ActionSet) -> ActionSet {
    let mut others = ActionSet::default();
    for action in Action::ALL.iter().filter(|action| action.is_of_existing_bucket()) {
        if !named.contains(*action) {
            others.insert(*action);
        }
    }
    others
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
    let path = arn.strip_prefix(RESOURCE_PREFIX);
    let rest = path.and_then(|path| path.strip_prefix(scope.bucket));
    let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with(['/', '*', '?']));
    let Some(path) = path.filter(|_| rest.is_some()) else {
        return Err(format!(
            "the resource `{arn}` is not of this bucket: write `{RESOURCE_PREFIX}{}/...`",
            scope.bucket
        ));
    };
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
