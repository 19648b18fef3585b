//! The rules of a lifecycle document, one by one: shown, and changed or removed without a change of
//! the others.

use super::rules;
use super::s3_client::Refusal;
use super::text;
use crate::s3::lifecycle::{
    Expiration, LifecycleActions, LifecycleConfiguration, LifecycleRule, NoncurrentAge, Transition,
};
use crate::s3::{QueryParams, XmlConfiguration as _};

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

/// The rules of a document.
pub(super) fn listed(document: &str) -> Vec<ListedRule> {
    parsed(document).unwrap_or_default().iter().map(outline).collect()
}

/// The form of the rule with an id.
///
/// # Errors
/// There is none.
pub(super) fn form(document: &str, id: &str) -> Result<RuleForm, Refusal> {
    let rules = parsed(document)?;
    let rule = &rules[place(&rules, id)?];
    Ok(plain_fields(rule).map_or_else(|| RuleForm::Text(text(rule)), RuleForm::Fields))
}

/// The document with the rule of a form at its end.
///
/// # Errors
/// The errors of the form and of the rules.
pub(super) fn with(document: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let mut rules = parsed(document)?;
    rules.push(rule_of(fields)?);
    written(rules)
}

/// The document without the rule with an id; empty if no rule is left.
///
/// # Errors
/// There is none.
pub(super) fn without(document: &str, id: &str) -> Result<String, Refusal> {
    let mut rules = parsed(document)?;
    rules.remove(place(&rules, id)?);
    written(rules)
}

/// The document with the rule of a form, or its XML, in place of the rule with an id.
///
/// # Errors
/// There is none; the errors of the form and of the rules.
pub(super) fn replaced(document: &str, id: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let mut rules = parsed(document)?;
    let place = place(&rules, id)?;
    rules[place] = match fields.get("rule_text") {
        Some(text) => LifecycleRule::from_text(text).map_err(|error| Refusal::of_error(&error))?,
        None => rule_of(fields)?,
    };
    written(rules)
}

/// The stored rules. A document that cannot be read must not be replaced.
fn parsed(document: &str) -> Result<Vec<LifecycleRule>, Refusal> {
    if document.is_empty() {
        return Ok(Vec::new());
    }
    let configuration = LifecycleConfiguration::from_document(document.as_bytes());
    Ok(configuration.ok_or_else(rules::not_mergeable)?.rules().to_vec())
}

fn written(rules: Vec<LifecycleRule>) -> Result<String, Refusal> {
    if rules.is_empty() {
        return Ok(String::new());
    }
    let configuration = LifecycleConfiguration::new(rules).map_err(|error| Refusal::of_error(&error))?;
    Ok(rules::document(&configuration).replace("><Rule>", ">\n<Rule>"))
}

/// The place of the rule with an id.
///
/// # Errors
/// There is none.
fn place(rules: &[LifecycleRule], id: &str) -> Result<usize, Refusal> {
    let found = rules.iter().position(|rule| rule.id == id);
    found.ok_or_else(|| Refusal::new(409, "The bucket has no rule of this name any more."))
}

/// The rule of a form: prefix, days, days of older versions, days of uploads.
///
/// # Errors
/// The form asks for nothing, or a number is none.
fn rule_of(fields: &QueryParams) -> Result<LifecycleRule, Refusal> {
    let days = rules::number(fields, "days")?;
    let noncurrent_days = rules::number(fields, "noncurrent_days")?;
    let abort_days = rules::number(fields, "abort_days")?;
    if (days, noncurrent_days, abort_days) == (None, None, None) {
        return Err(Refusal::new(400, "Give at least one number of days."));
    }
    let actions = LifecycleActions {
        expiration: days.map(Expiration::Days),
        noncurrent: noncurrent_days.map(|days| NoncurrentAge { days, newer: None }),
        abort_days,
        ..LifecycleActions::default()
    };
    let id = fields.get("id").unwrap_or_default();
    let prefix = fields.get("prefix").unwrap_or_default();
    let enabled = fields.get("status") != Some("Disabled");
    Ok(LifecycleRule::new(id, prefix, enabled, actions))
}

/// The XML of a rule.
fn text(rule: &LifecycleRule) -> String {
    let document = rules::element("Rules", |rules| rule.render_element(rules));
    let rule = document.strip_prefix("<Rules>").and_then(|rest| rest.strip_suffix("</Rules>"));
    rule.unwrap_or_default().to_owned()
}

fn outline(rule: &LifecycleRule) -> ListedRule {
    ListedRule {
        id: rule.id.clone(),
        keys: keys(rule),
        actions: actions(&rule.actions),
        is_enabled: rule.enabled,
    }
}

fn keys(rule: &LifecycleRule) -> String {
    let keys = match rule.prefix() {
        "" => "all keys".to_owned(),
        prefix => format!("keys that begin with {prefix}"),
    };
    if rule.has_conditions() { format!("{keys}, with conditions on tags or sizes") } else { keys }
}

fn actions(actions: &LifecycleActions) -> Vec<String> {
    let mut sentences = Vec::new();
    match actions.expiration {
        Some(Expiration::Days(days)) => sentences.push(format!("objects expire after {}", text::days(days))),
        Some(Expiration::Date(date)) => sentences.push(format!("objects expire on {date}")),
        Some(Expiration::DeleteMarker(_)) => {
            sentences.push("delete markers without versions go".to_owned());
        }
        None => {}
    }
    if let Some(age) = actions.noncurrent {
        sentences.push(format!("older versions{} go after {}", beyond(age), text::days(age.days)));
    }
    match actions.transition {
        Some(Transition::Days(days)) => {
            sentences.push(format!("objects become COLD after {}", text::days(days)));
        }
        Some(Transition::Date(date)) => sentences.push(format!("objects become COLD on {date}")),
        None => {}
    }
    if let Some(age) = actions.noncurrent_transition {
        sentences.push(format!("older versions{} become COLD after {}", beyond(age), text::days(age.days)));
    }
    if let Some(days) = actions.abort_days {
        sentences.push(format!("unfinished uploads are aborted after {}", text::days(days)));
    }
    sentences
}

fn beyond(age: NoncurrentAge) -> String {
    age.newer.map(|kept| format!(" beyond the newest {kept}")).unwrap_or_default()
}

/// The fields of a rule; `None` if it has more than the form has.
fn plain_fields(rule: &LifecycleRule) -> Option<RuleFields> {
    let LifecycleActions { expiration, noncurrent, transition, noncurrent_transition, abort_days } =
        rule.actions;
    let days = match expiration {
        Some(Expiration::Days(days)) => Some(days),
        Some(Expiration::Date(_) | Expiration::DeleteMarker(_)) => return None,
        None => None,
    };
    let moves = transition.is_some() || noncurrent_transition.is_some();
    let keeps_some = noncurrent.is_some_and(|age| age.newer.is_some());
    // Browsers leave line ends out of a field.
    let has_lines = [rule.id.as_str(), rule.prefix()].iter().any(|text| text.contains(['\r', '\n']));
    if rule.is_of_old_form() || rule.has_conditions() || moves || keeps_some || has_lines {
        return None;
    }

    Some(RuleFields {
        id: rule.id.clone(),
        prefix: rule.prefix().to_owned(),
        days: typed(days),
        noncurrent_days: typed(noncurrent.map(|age| age.days)),
        abort_days: typed(abort_days),
        is_disabled: !rule.enabled,
    })
}

/// Days as they are typed into a field; empty without any.
fn typed(days: Option<u32>) -> String {
    days.map(|days| days.to_string()).unwrap_or_default()
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
    fn a_rule_is_added_to_the_stored_ones() {
        let fields = |text: &str| QueryParams::parse(text).unwrap();
        let one = with("", &fields("prefix=a%26b/&days=30&abort_days=7&id=first")).unwrap();
        let rule = "<Rule><ID>first</ID><Filter><Prefix>a&amp;b/</Prefix></Filter><Status>Enabled</Status>\
                    <Expiration><Days>30</Days></Expiration><AbortIncompleteMultipartUpload>\
                    <DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>";
        assert_eq!(one, format!("<LifecycleConfiguration>\n{rule}</LifecycleConfiguration>"));
        let two = with(&one, &fields("noncurrent_days=1")).unwrap();
        assert!(two.contains(rule) && two.contains("<NoncurrentDays>1</NoncurrentDays>"));
        assert_eq!(with(&one, &fields("days=3&id=first")).unwrap_err().status, 400, "the id is in use");
        assert_eq!(with("<Other/>", &fields("days=3")).unwrap_err().status, 409);
        for wrong in ["", "prefix=a", "days=-1", "days=x", "days=0"] {
            assert_eq!(with("", &fields(wrong)).unwrap_err().status, 400, "{wrong}");
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
        let moving = "<Rule><ID>cold</ID><Filter/><Status>Enabled</Status><Transition><Days>30</Days>\
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
        let rule =
            "<Rule><ID>t</ID><Filter/><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>";
        let text = QueryParams::parse(&format!("rule_text={}", rule.replace('/', "%2F"))).unwrap();
        let by_text = replaced(&stored, "tags", &text).unwrap();
        assert!(by_text.contains(&format!("{rule}\n<Rule><ID>a&amp;b")), "{by_text}");
        let incomplete = QueryParams::parse("rule_text=%3CRule%3E%3CID%3Et%3C%2FID%3E%3C%2FRule%3E").unwrap();
        assert_eq!(replaced(&stored, "tags", &incomplete).unwrap_err().status, 400);
        let one = without(&stored, "tags").unwrap();
        assert_eq!(one, format!("<LifecycleConfiguration>\n{PLAIN}</LifecycleConfiguration>"));
        assert_eq!(without(&one, "a&b").unwrap(), "");
        assert!(without(&one, "tags").is_err());
    }
}
