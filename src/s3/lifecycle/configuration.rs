//! The rules of a bucket, as they are read, written and asked.

use std::collections::HashSet;

use super::elements::{check_children, invalid, missing};
use super::evaluation::{self, Expiry, ExpiryFacts};
use super::minimum_size::TransitionMinimumSize;
use super::prefix_index::PrefixIndex;
use super::rule::LifecycleRule;
use crate::base::Timestamp;
use crate::base::limits::LIFECYCLE_RULES_MAX;
use crate::s3::{S3Error, XmlConfiguration};
use crate::xml::{Document, Element, Writer};

/// The rules of a bucket, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleConfiguration {
    rules: Vec<LifecycleRule>,
    /// The minimum size for transitions.
    pub minimum: TransitionMinimumSize,
    /// Enabled rules by which versions expire.
    of_versions: PrefixIndex,
    /// Enabled rules that move versions.
    of_transitions: PrefixIndex,
    /// Enabled rules that abort uploads.
    of_uploads: PrefixIndex,
}

impl LifecycleConfiguration {
    fn parse_rules(root: Element<'_>, minimum: TransitionMinimumSize) -> Result<Self, S3Error> {
        match root.all("Rule").count() {
            0 => return Err(missing("Rule")),
            1..=LIFECYCLE_RULES_MAX => {}
            _ => {
                return Err(invalid(format!(
                    "The number of lifecycle rules should not exceed allowed limit of {LIFECYCLE_RULES_MAX} rules."
                )));
            }
        }
        let mut rules = root.all("Rule").map(LifecycleRule::parse).collect::<Result<Vec<_>, _>>()?;
        check_ids(&rules)?;
        make_ids(&mut rules);
        Ok(Self::of_rules(rules, minimum))
    }

    fn of_rules(rules: Vec<LifecycleRule>, minimum: TransitionMinimumSize) -> Self {
        let of_versions = prefix_index(&rules, |rule| rule.actions.expires_versions());
        let of_transitions = prefix_index(&rules, |rule| rule.actions.moves_versions());
        let of_uploads = prefix_index(&rules, |rule| rule.actions.abort_days.is_some());
        Self { rules, minimum, of_versions, of_transitions, of_uploads }
    }

    /// A configuration of these rules.
    ///
    /// # Errors
    /// As of [`XmlConfiguration::parse`].
    pub fn new(rules: Vec<LifecycleRule>) -> Result<Self, S3Error> {
        Self::of_rules(rules, TransitionMinimumSize::default()).checked()
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[LifecycleRule] {
        &self.rules
    }

    /// Whether a rule that is in force may take or move a version.
    pub fn concerns_versions(&self) -> bool {
        !self.of_versions.is_empty() || !self.of_transitions.is_empty()
    }

    /// Whether a rule that is in force aborts uploads.
    pub fn aborts_uploads(&self) -> bool {
        !self.of_uploads.is_empty()
    }

    /// The id of a rule by the number in [`Expiry::rule`].
    ///
    /// # Panics
    /// With a number of another configuration.
    pub fn rule_id(&self, number: usize) -> &str {
        &self.rules[number].id
    }

    /// The earliest expiry of a version; `None` if no rule ever takes it. Of two at the same
    /// moment, the first rule's. It allocates nothing, unless tags are loaded.
    pub fn expiry(&self, facts: &ExpiryFacts<'_>) -> Option<Expiry> {
        evaluation::expiry(&self.rules, self.of_versions.rules_of(facts.key), facts)
    }

    /// The earliest transition of a version to the class COLD; `None` if no rule ever moves it.
    /// Otherwise as [`Self::expiry`].
    pub fn transition(&self, facts: &ExpiryFacts<'_>) -> Option<Expiry> {
        evaluation::transition(&self.rules, self.of_transitions.rules_of(facts.key), self.minimum, facts)
    }

    /// The earliest abort of an upload that was initiated at this time; `None` if no rule aborts
    /// it. Later parts do not defer it.
    pub fn abort_at(&self, key: &[u8], initiated: Timestamp) -> Option<Expiry> {
        evaluation::abort(&self.rules, self.of_uploads.rules_of(key), initiated)
    }
}

fn prefix_index(rules: &[LifecycleRule], is_wanted: fn(&LifecycleRule) -> bool) -> PrefixIndex {
    let wanted = rules.iter().enumerate().filter(|(_, rule)| rule.enabled && is_wanted(rule));
    PrefixIndex::new(wanted.map(|(number, rule)| (rule.filter.prefix(), number)))
}

impl XmlConfiguration for LifecycleConfiguration {
    const ROOT: &'static str = "LifecycleConfiguration";

    /// Reads the root element. Rules without an id get one.
    ///
    /// # Errors
    /// `MalformedXML` for a missing, repeated or unknown element; `InvalidRequest` for more than
    /// 1,000 rules and for combinations that S3 refuses; `InvalidArgument` for a number, date or id
    /// that it refuses; `InvalidTag`; `InvalidStorageClass` for a transition to another class than
    /// COLD.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        check_children(root, &["Rule"])?;
        Self::parse_rules(root, TransitionMinimumSize::default())
    }

    fn render(&self, document: &mut Writer) {
        for rule in &self.rules {
            rule.render_element(document);
        }
    }

    fn from_document(bytes: &[u8]) -> Option<Self> {
        let document = Document::parse(bytes).ok()?;
        let root = document.root();
        check_children(root, &["Rule", TransitionMinimumSize::ELEMENT]).ok()?;
        let minimum = root.child_text(TransitionMinimumSize::ELEMENT).ok()?;
        let minimum = minimum.map(|name| TransitionMinimumSize::named(&name)).transpose().ok()?;
        Self::parse_rules(root, minimum.unwrap_or_default()).ok()
    }

    fn to_document_in(&self, namespace: Option<&str>) -> Vec<u8> {
        let mut document = Writer::new(Self::ROOT, namespace);
        document.leaf(TransitionMinimumSize::ELEMENT, self.minimum.as_str());
        self.render(&mut document);
        document.finish()
    }
}

fn check_ids(rules: &[LifecycleRule]) -> Result<(), S3Error> {
    let mut seen = HashSet::new();
    let repeated = rules.iter().find(|rule| !rule.id.is_empty() && !seen.insert(&rule.id));
    repeated.map_or(Ok(()), |rule| {
        let message = "Rule ID must be unique. Found same ID for more than one rule";
        Err(S3Error::invalid_argument("ID", &rule.id, message))
    })
}

/// Gives each rule without an id one by its number, so that the same document gets the same ids
/// again.
fn make_ids(rules: &mut [LifecycleRule]) {
    let mut taken: HashSet<String> = rules.iter().map(|rule| rule.id.clone()).collect();
    let unnamed = rules.iter_mut().enumerate().filter(|(_, rule)| rule.id.is_empty());
    for (at, rule) in unnamed {
        let base = format!("rule-{}", at + 1);
        let others = (1..).map(|more| format!("{base}.{more}"));
        let free = std::iter::once(base.clone()).chain(others).find(|id| !taken.contains(id));
        rule.id = free.unwrap_or(base);
        taken.insert(rule.id.clone());
    }
}
