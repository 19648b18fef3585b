//! The rules of a lifecycle document, one by one: shown, and changed or removed without a change of
//! the others.

use super::rules;
use super::s3_client::Refusal;
use crate::s3::QueryParams;
use crate::xml::{Document, Element};

const BEGIN: &str = "<Rule>";
const END: &str = "</Rule>";

/// A rule, for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedRule {
    pub(super) id: String,
    /// The keys that it is about.
    pub(super) keys: String,
    /// Its actions, one a sentence.
    pub(super) actions: Vec<String>,
    pub(super) is_enabled: bool,
}

/// The fields of the form of a rule. Numbers are as they are typed; empty for none.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RuleFields {
    pub(super) id: String,
    pub(super) prefix: String,
    pub(super) days: String,
    pub(super) noncurrent_days: String,
    pub(super) abort_days: String,
    pub(super) is_disabled: bool,
}

/// A stored rule, to be changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RuleForm {
    /// The form has all that the rule has.
    Fields(RuleFields),
    /// The XML of a rule that has more, such as tags.
    Text(String),
}

/// A document in pieces: the text before the rules, the rules, and the text after them.
struct Pieces<'d> {
    head: &'d str,
    rules: Vec<&'d str>,
    tail: &'d str,
}

impl<'d> Pieces<'d> {
    /// Cuts a document as the server writes it, without attributes and comments. A `<` of a value
    /// is escaped there.
    fn of(document: &'d str) -> Self {
        let (head, mut tail) = document.split_at(document.find(BEGIN).unwrap_or(document.len()));
        let mut rules = Vec::new();
        while let Some(end) = tail.starts_with(BEGIN).then(|| tail.find(END)).flatten() {
            let (rule, rest) = tail.split_at(end + END.len());
            rules.push(rule);
            tail = rest.trim_start();
        }
        Self { head, rules, tail }
    }

    /// The place of the rule with an id.
    ///
    /// # Errors
    /// There is none.
    fn place(&self, id: &str) -> Result<usize, Refusal> {
        let found =
            self.rules.iter().position(|rule| read(rule, |rule| value(rule, "ID")).as_deref() == Some(id));
        found.ok_or_else(|| Refusal::new(409, "The bucket has no rule of this name any more."))
    }

    fn join(&self) -> String {
        match self.rules.is_empty() {
            true => String::new(),
            false => format!("{}{}{}", self.head, self.rules.join("\n"), self.tail),
        }
    }
}

/// The rules of a document.
pub(super) fn listed(document: &str) -> Vec<ListedRule> {
    Pieces::of(document).rules.iter().filter_map(|rule| read(rule, |rule| Some(outline(rule)))).collect()
}

/// The form of the rule with an id.
///
/// # Errors
/// There is none.
pub(super) fn form(document: &str, id: &str) -> Result<RuleForm, Refusal> {
    let pieces = Pieces::of(document);
    let rule = pieces.rules[pieces.place(id)?];
    Ok(read(rule, plain_fields).map_or_else(|| RuleForm::Text(rule.to_owned()), RuleForm::Fields))
}

/// The document without the rule with an id; empty if no rule is left.
///
/// # Errors
/// There is none.
pub(super) fn without(document: &str, id: &str) -> Result<String, Refusal> {
    let mut pieces = Pieces::of(document);
    pieces.rules.remove(pieces.place(id)?);
    Ok(pieces.join())
}

/// The document with the rule of a form, or its XML, in place of the rule with an id.
///
/// # Errors
/// There is none; the errors of the form.
pub(super) fn replaced(document: &str, id: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let mut pieces = Pieces::of(document);
    let place = pieces.place(id)?;
    let rule = match fields.get("rule_text") {
        Some(text) => text.to_owned(),
        None => rules::lifecycle_rule(fields)?,
    };
    pieces.rules[place] = &rule;
    Ok(pieces.join())
}

fn read<T>(rule: &str, answer: impl FnOnce(Element<'_>) -> Option<T>) -> Option<T> {
    Document::parse(rule.as_bytes()).ok().and_then(|document| answer(document.root()))
}

fn part<'d>(element: Element<'d>, name: &str) -> Option<Element<'d>> {
    element.child(name).ok().flatten()
}

fn value(element: Element<'_>, name: &str) -> Option<String> {
    part(element, name).map(|part| part.text().into_owned())
}

fn outline(rule: Element<'_>) -> ListedRule {
    ListedRule {
        id: value(rule, "ID").unwrap_or_default(),
        keys: keys(rule),
        actions: actions(rule),
        is_enabled: value(rule, "Status").as_deref() == Some("Enabled"),
    }
}

fn keys(rule: Element<'_>) -> String {
    // A rule of the older form has no filter.
    let filter = part(rule, "Filter").unwrap_or(rule);
    let all = part(filter, "And").unwrap_or(filter);
    let prefix = value(all, "Prefix").filter(|prefix| !prefix.is_empty());
    let keys =
        prefix.map_or_else(|| "all keys".to_owned(), |prefix| format!("keys that begin with {prefix}"));
    let names = ["Tag", "ObjectSizeGreaterThan", "ObjectSizeLessThan"];
    match all.children().any(|condition| names.contains(&condition.name())) {
        true => format!("{keys}, with conditions on tags or sizes"),
        false => keys,
    }
}

fn actions(rule: Element<'_>) -> Vec<String> {
    let of = |action: &str, name: &str| value(part(rule, action)?, name);
    let beyond = |action: &str| {
        let kept = of(action, "NewerNoncurrentVersions");
        kept.map(|kept| format!(" beyond the newest {kept}")).unwrap_or_default()
    };
    let kept = beyond("NoncurrentVersionExpiration");
    let moved_beyond = beyond("NoncurrentVersionTransition");
    let sentences = [
        of("Expiration", "Days").map(|days| format!("objects expire after {days} days")),
        of("Expiration", "Date").map(|date| format!("objects expire on {date}")),
        of("Expiration", "ExpiredObjectDeleteMarker")
            .map(|_| "delete markers without versions go".to_owned()),
        of("NoncurrentVersionExpiration", "NoncurrentDays")
            .map(|days| format!("older versions{kept} go after {days} days")),
        of("Transition", "Days").map(|days| format!("objects become COLD after {days} days")),
        of("Transition", "Date").map(|date| format!("objects become COLD on {date}")),
        of("NoncurrentVersionTransition", "NoncurrentDays")
            .map(|days| format!("older versions{moved_beyond} become COLD after {days} days")),
        of("AbortIncompleteMultipartUpload", "DaysAfterInitiation")
            .map(|days| format!("unfinished uploads are aborted after {days} days")),
    ];
    sentences.into_iter().flatten().collect()
}

/// The fields of a rule; `None` if it has more than the form has.
fn plain_fields(rule: Element<'_>) -> Option<RuleFields> {
    let known = [
        "ID",
        "Filter",
        "Status",
        "Expiration",
        "NoncurrentVersionExpiration",
        "AbortIncompleteMultipartUpload",
    ];
    has_only(rule, &known)?;
    let of = |action: &str, name: &str| match part(rule, action) {
        Some(action) => has_only(action, &[name]).and_then(|()| value(action, name)),
        None => Some(String::new()),
    };
    let fields = RuleFields {
        id: value(rule, "ID")?,
        prefix: of("Filter", "Prefix")?,
        days: of("Expiration", "Days")?,
        noncurrent_days: of("NoncurrentVersionExpiration", "NoncurrentDays")?,
        abort_days: of("AbortIncompleteMultipartUpload", "DaysAfterInitiation")?,
        is_disabled: value(rule, "Status")? == "Disabled",
    };
    // Browsers leave line ends out of a field.
    let is_line = |text: &str| !text.contains(['\r', '\n']);
    Some(fields).filter(|fields| is_line(&fields.id) && is_line(&fields.prefix))
}

fn has_only(element: Element<'_>, names: &[&str]) -> Option<()> {
    element.children().all(|child| names.contains(&child.name())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "<Rule><ID>a&amp;b</ID><Filter><Prefix>logs/&lt;Rule&gt;</Prefix></Filter><Status>Disabled</Status>\
        <Expiration><Days>5</Days></Expiration></Rule>";
    const TAGGED: &str = "<Rule><ID>tags</ID><Filter><And><Prefix>x</Prefix><Tag><Key>k</Key><Value>v</Value></Tag></And></Filter>\
        <Status>Enabled</Status><NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays>\
        <NewerNoncurrentVersions>2</NewerNoncurrentVersions></NoncurrentVersionExpiration></Rule>";

    fn document(rules: &str) -> String {
        format!("<?xml version=\"1.0\"?><LifecycleConfiguration xmlns=\"x\">{rules}</LifecycleConfiguration>")
    }

    #[test]
    fn rules_are_listed_for_people() {
        let listed = listed(&document(&format!("{PLAIN}{TAGGED}")));
        let shown: Vec<_> = listed
            .iter()
            .map(|rule| (&*rule.id, &*rule.keys, rule.actions.join("; "), rule.is_enabled))
            .collect();
        assert_eq!(
            shown,
            [
                ("a&b", "keys that begin with logs/<Rule>", "objects expire after 5 days".to_owned(), false),
                (
                    "tags",
                    "keys that begin with x, with conditions on tags or sizes",
                    "older versions beyond the newest 2 go after 3 days".to_owned(),
                    true
                ),
            ]
        );
        for other in [
            "",
            "<Other/>",
            "<LifecycleConfiguration><Rule>",
            "<LifecycleConfiguration></LifecycleConfiguration>",
        ] {
            assert!(super::listed(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn the_form_has_all_of_a_plain_rule_and_others_are_text() {
        let stored = document(&format!("{TAGGED}{PLAIN}"));
        let fields = RuleFields {
            id: "a&b".to_owned(),
            prefix: "logs/<Rule>".to_owned(),
            days: "5".to_owned(),
            is_disabled: true,
            ..RuleFields::default()
        };
        assert_eq!(form(&stored, "a&b").unwrap(), RuleForm::Fields(fields));
        assert_eq!(form(&stored, "tags").unwrap(), RuleForm::Text(TAGGED.to_owned()));
        let dated = PLAIN.replace("<Days>5</Days>", "<Date>2026-01-01T00:00:00Z</Date>");
        assert!(matches!(form(&document(&dated), "a&b"), Ok(RuleForm::Text(_))));
        assert_eq!(form(&stored, "other").unwrap_err().status, 409);
    }

    #[test]
    fn a_rule_with_transitions_is_shown_and_changed_as_text() {
        let moving = "<Rule><ID>cold</ID><Filter></Filter><Status>Enabled</Status><Transition><Days>30</Days>\
            <StorageClass>COLD</StorageClass></Transition><NoncurrentVersionTransition><NoncurrentDays>7</NoncurrentDays>\
            <NewerNoncurrentVersions>2</NewerNoncurrentVersions><StorageClass>COLD</StorageClass></NoncurrentVersionTransition></Rule>";
        let stored = document(&format!("{moving}{PLAIN}"));
        let expected = [
            "objects become COLD after 30 days",
            "older versions beyond the newest 2 become COLD after 7 days",
        ];
        assert_eq!(listed(&stored)[0].actions, expected);
        assert_eq!(form(&stored, "cold").unwrap(), RuleForm::Text(moving.to_owned()));
        let fields = QueryParams::parse("id=new&days=7&status=Enabled").unwrap();
        assert!(replaced(&stored, "a&b", &fields).unwrap().contains(moving), "the others stay");
    }

    #[test]
    fn a_rule_is_replaced_or_removed_and_the_others_stay() {
        let stored = document(&format!("{TAGGED}{PLAIN}"));
        let fields = QueryParams::parse("id=new&days=7&status=Enabled").unwrap();
        let changed = replaced(&stored, "a&b", &fields).unwrap();
        assert!(changed.contains(TAGGED) && changed.contains("<ID>new</ID>") && !changed.contains("logs/"));
        assert!(changed.find("tags") < changed.find("new"), "the order stays: {changed}");
        let text = QueryParams::parse("rule_text=%3CRule%3E%3CID%3Et%3C%2FID%3E%3C%2FRule%3E").unwrap();
        assert!(
            replaced(&stored, "tags", &text).unwrap().contains("<Rule><ID>t</ID></Rule>\n<Rule><ID>a&amp;b")
        );
        let one = without(&stored, "tags").unwrap();
        assert_eq!(one, document(PLAIN));
        assert_eq!(without(&one, "a&b").unwrap(), "");
        assert!(without(&one, "tags").is_err());
    }
}
