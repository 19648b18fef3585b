//! What the statements of all policies have: an effect, and conditions.

use super::condition::Condition;
use super::context::PolicyContext;
use super::json::StrictJson;

/// Whether a statement allows or denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyEffect {
    /// `Allow`
    Allow,
    /// `Deny`
    Deny,
}

impl PolicyEffect {
    pub(super) fn parse(json: &StrictJson) -> Result<Self, String> {
        match json.scalar().as_deref() {
            Some("Allow") => Ok(Self::Allow),
            Some("Deny") => Ok(Self::Deny),
            _ => Err("`Effect` must be `Allow` or `Deny`".to_owned()),
        }
    }
}

/// The place of a statement, by which what was found about its conditions is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatementPlace {
    /// The serial number of the policy.
    pub(super) policy: u64,
    /// The number of the statement in it.
    pub(super) nth: usize,
}

/// The conditions of a statement, all of which must hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StatementConditions {
    pub(super) effect: PolicyEffect,
    pub(super) conditions: Vec<Condition>,
    /// Its policy, and its number there.
    pub(super) place: StatementPlace,
}

impl StatementConditions {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.conditions.iter()
    }

    /// Whether all hold.
    pub(super) fn hold(&self, context: &PolicyContext<'_>) -> bool {
        let hold = match context.memo {
            Some(memo) => memo.recall(self.place.policy, self.place.nth, || self.of_request_hold(context)),
            None => self.of_request_hold(context),
        };
        // Where a value is too long to be compared, this holds for a denial, whatever the object.
        hold && self
            .conditions
            .iter()
            .filter(|condition| condition.is_of_object())
            .all(|condition| condition.is_beyond(context) || condition.holds(context))
    }

    /// Whether the conditions hold that depend on the request alone.
    fn of_request_hold(&self, context: &PolicyContext<'_>) -> bool {
        if self.conditions.iter().any(|condition| condition.is_beyond(context)) {
            return self.effect == PolicyEffect::Deny;
        }
        self.conditions
            .iter()
            .filter(|condition| !condition.is_of_object())
            .all(|condition| condition.holds(context))
    }
}

/// The texts of an element that is a text or a list of texts.
///
/// # Errors
/// It is neither, or empty; the text names the element.
pub(super) fn texts(json: &StrictJson, element: &str) -> Result<Vec<String>, String> {
    let mut texts = Vec::new();
    for value in json.elements() {
        let StrictJson::Text(text) = value else {
            return Err(format!("`{element}` must be text or a list of texts"));
        };
        texts.push(text.clone());
    }
    if texts.is_empty() { Err(format!("`{element}` is empty")) } else { Ok(texts) }
}
