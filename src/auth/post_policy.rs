//! The policy document of a form (S3 API reference, "POST Policy"): conditions that its fields and
//! its file must meet.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::auth::bucket_policy::json::StrictJson;
use crate::base::Timestamp;
use crate::s3::form::PostForm;
use crate::s3::{ErrorCode, S3Error};

/// The prefix of fields that no condition needs to name.
const IGNORED: &str = "x-ignore-";

/// A parsed policy document.
#[derive(Debug, PartialEq)]
pub(super) struct PostPolicy {
    expiration: Timestamp,
    conditions: Vec<PostCondition>,
}

/// A condition, and its form in errors.
#[derive(Debug, PartialEq)]
struct PostCondition {
    test: FieldTest,
    shown: String,
}

#[derive(Debug, PartialEq)]
enum FieldTest {
    /// The field has this value.
    Equals(String, String),
    /// The value of the field begins so.
    StartsWith(String, String),
    /// The file has a length in this range.
    Length(RangeInclusive<u64>),
    /// A condition that nothing meets, such as one on a name without `$`.
    Never,
}

impl PostPolicy {
    /// Parses a document in base64.
    ///
    /// # Errors
    /// `InvalidPolicyDocument` with the first problem.
    pub(super) fn parse(encoded: &str) -> Result<Self, S3Error> {
        let text = BASE64.decode(encoded).map_err(|_| invalid("invalid Base64 encoding."))?;
        let Ok(StrictJson::Object(members)) = StrictJson::parse(&text) else {
            return Err(invalid("Invalid JSON."));
        };
        let mut expiration = None;
        let mut conditions = None;
        for (name, value) in &members {
            match name.as_str() {
                "expiration" => expiration = Some(parse_expiration(value)?),
                "conditions" => conditions = Some(parse_conditions(value)?),
                other => return Err(invalid(&format!("Unexpected: '{}'", other.to_lowercase()))),
            }
        }
        Ok(Self {
            expiration: expiration.ok_or_else(|| invalid("Policy missing expiration."))?,
            conditions: conditions.ok_or_else(|| invalid("Policy missing conditions."))?,
        })
    }

    /// Checks that the policy is valid at `now`, that `form`, sent to `bucket`, meets every
    /// condition, and that a condition names every field besides `exempt` ones. Returns the lengths
    /// that the file may have.
    ///
    /// # Errors
    /// `AccessDenied` with the first condition that does not hold.
    pub(super) fn check(
        &self,
        form: &PostForm,
        bucket: &str,
        exempt: &[&str],
        now: Timestamp,
    ) -> Result<RangeInclusive<u64>, S3Error> {
        if now > self.expiration {
            return Err(denied("Policy expired."));
        }
        let value_of =
            |name: &str| if name.eq_ignore_ascii_case("bucket") { Some(bucket) } else { form.get(name) };
        let mut lengths = 0..=u64::MAX;
        for condition in &self.conditions {
            if !condition.test.holds(value_of) {
                return Err(denied(&format!("Policy Condition failed: {}", condition.shown)));
            }
            if let FieldTest::Length(range) = &condition.test {
                lengths = *lengths.start().max(range.start())..=*lengths.end().min(range.end());
            }
        }
        self.check_coverage(form, exempt)?;
        Ok(lengths)
    }

    /// Whether a condition names the field.
    fn covers(&self, name: &str) -> bool {
        let mut fields = self.conditions.iter().filter_map(|condition| condition.test.field());
        fields.any(|field| field.eq_ignore_ascii_case(name))
    }

    fn check_coverage(&self, form: &PostForm, exempt: &[&str]) -> Result<(), S3Error> {
        let mut extra = Vec::new();
        for (name, _) in form.iter() {
            let is_ignored =
                name.get(..IGNORED.len()).is_some_and(|start| start.eq_ignore_ascii_case(IGNORED));
            let is_exempt = is_ignored || exempt.iter().any(|other| other.eq_ignore_ascii_case(name));
            if !is_exempt && !self.covers(name) {
                extra.push(name);
            }
        }
        if extra.is_empty() {
            Ok(())
        } else {
            Err(denied(&format!("Extra input fields: {}", extra.join(", "))))
        }
    }
}

impl FieldTest {
    fn holds<'v>(&self, value_of: impl Fn(&str) -> Option<&'v str>) -> bool {
        match self {
            Self::Equals(name, wanted) => value_of(name) == Some(wanted.as_str()),
            Self::StartsWith(name, wanted) => {
                value_of(name).is_some_and(|value| starts_with(name, value, wanted))
            }
            Self::Length(_) => true,
            Self::Never => false,
        }
    }

    /// The field that the condition is about.
    fn field(&self) -> Option<&str> {
        match self {
            Self::Equals(name, _) | Self::StartsWith(name, _) => Some(name),
            Self::Length(_) | Self::Never => None,
        }
    }
}

/// Whether a value begins so; of a list of media types, each.
fn starts_with(name: &str, value: &str, wanted: &str) -> bool {
    if name.eq_ignore_ascii_case("content-type") && value.contains(',') {
        return value.split(',').all(|part| part.trim_ascii().starts_with(wanted));
    }
    value.starts_with(wanted)
}

fn parse_expiration(value: &StrictJson) -> Result<Timestamp, S3Error> {
    let text = value.scalar().unwrap_or_default();
    Timestamp::parse_iso8601(&text).ok_or_else(|| invalid(&format!("Invalid 'expiration' value: '{text}'")))
}

fn parse_conditions(value: &StrictJson) -> Result<Vec<PostCondition>, S3Error> {
    let StrictJson::List(conditions) = value else {
        return Err(invalid("Invalid 'conditions' value: must be a List."));
    };
    conditions.iter().map(parse_condition).collect()
}

fn parse_condition(value: &StrictJson) -> Result<PostCondition, S3Error> {
    match value {
        StrictJson::Object(members) => match &members[..] {
            [(name, StrictJson::Text(value))] => Ok(PostCondition {
                shown: shown("eq", &format!("${name}"), value),
                test: FieldTest::Equals(name.clone(), value.clone()),
            }),
            [_] => Err(invalid("Invalid Simple-Condition: value must be a string.")),
            _ => Err(invalid(
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
            )),
        },
        StrictJson::List(items) => parse_list(items),
        _ => Err(invalid("Invalid condition test: must be a List or Object.")),
    }
}

/// A condition as a list: an operator and its operands.
fn parse_list(items: &[StrictJson]) -> Result<PostCondition, S3Error> {
    let [operator, operands @ ..] = items else {
        return Err(invalid("Invalid Condition: missing operation identifier."));
    };
    let StrictJson::Text(operator) = operator else { return Err(invalid("Invalid JSON.")) };
    let [first, second] = operands else {
        return Err(invalid(&format!("Invalid {operator}: wrong number of arguments.")));
    };
    let texts = (first.scalar(), second.scalar());
    let (Some(first_text), Some(second_text)) = &texts else { return Err(invalid("Invalid JSON.")) };
    let shown = shown(operator, first_text, second_text);
    let test = match operator.to_ascii_lowercase().as_str() {
        "eq" => field_test(first, second, FieldTest::Equals)?,
        "starts-with" => field_test(first, second, FieldTest::StartsWith)?,
        "content-length-range" => length_test(first, second)?,
        _ => return Err(invalid(&format!("Invalid Condition: unknown operation '{operator}'."))),
    };
    Ok(PostCondition { test, shown })
}

fn field_test(
    name: &StrictJson,
    value: &StrictJson,
    test: fn(String, String) -> FieldTest,
) -> Result<FieldTest, S3Error> {
    let StrictJson::Text(name) = name else { return Err(invalid("Invalid JSON.")) };
    let StrictJson::Text(value) = value else { return Err(invalid("Invalid JSON.")) };
    Ok(name.strip_prefix('$').map_or(FieldTest::Never, |name| test(name.to_owned(), value.clone())))
}

/// Bounds are numbers, as such or as text.
fn length_test(least: &StrictJson, most: &StrictJson) -> Result<FieldTest, S3Error> {
    Ok(match (length_bound(least)?, length_bound(most)?) {
        (Some(least), Some(most)) => FieldTest::Length(least..=most),
        _ => FieldTest::Never,
    })
}

/// `None` for a text that is no number: no length passes it.
fn length_bound(value: &StrictJson) -> Result<Option<u64>, S3Error> {
    match value {
        StrictJson::Number(text) => text.parse().map(Some).map_err(|_| invalid("Invalid JSON.")),
        StrictJson::Text(text) => Ok(text.parse().ok()),
        _ => Err(invalid("Invalid JSON.")),
    }
}

/// A condition in the form of a list.
fn shown(operator: &str, first: &str, second: &str) -> String {
    format!("[{}, {}, {}]", quoted(operator), quoted(first), quoted(second))
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn invalid(problem: &str) -> S3Error {
    S3Error::new(ErrorCode::InvalidPolicyDocument).message(format!("Invalid Policy: {problem}"))
}

fn denied(problem: &str) -> S3Error {
    S3Error::new(ErrorCode::AccessDenied).message(format!("Invalid according to Policy: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPIRATION: &str = "2015-12-30T12:00:00.000Z";
    const EXEMPT: [&str; 2] = ["policy", "X-Amz-Signature"];

    fn now() -> Timestamp {
        Timestamp::parse_iso8601("2015-12-30T12:00:00Z").unwrap()
    }

    fn parse(document: &str) -> Result<PostPolicy, S3Error> {
        PostPolicy::parse(&BASE64.encode(document))
    }

    /// The lengths that a policy with these conditions permits for a form sent to `b`.
    fn check(conditions: &str, fields: &[(&str, &str)]) -> Result<RangeInclusive<u64>, String> {
        let document = format!("{{\"expiration\": \"{EXPIRATION}\", \"conditions\": [{conditions}]}}");
        let policy = parse(&document).unwrap();
        policy.check(&PostForm::of(fields), "b", &EXEMPT, now()).map_err(|error| {
            assert_eq!(error.code, ErrorCode::AccessDenied);
            error.message.strip_prefix("Invalid according to Policy: ").unwrap().to_owned()
        })
    }

    fn passes(conditions: &str, fields: &[(&str, &str)]) -> bool {
        check(conditions, fields).is_ok()
    }

    #[test]
    fn a_value_is_equal_or_begins_so() {
        for exact in ["{\"key\": \"a/b\"}", "[\"eq\", \"$key\", \"a/b\"]", "[\"EQ\", \"$Key\", \"a/b\"]"] {
            assert!(passes(exact, &[("KEY", "a/b")]), "{exact}");
            for other in ["a/b/c", "a/", "A/b", ""] {
                let shown = check(exact, &[("key", other)]).unwrap_err();
                assert!(shown.to_lowercase().ends_with("failed: [\"eq\", \"$key\", \"a/b\"]"), "{shown}");
            }
        }
        let prefix = "[\"StArTs-WiTh\", \"$key\", \"a/\"]";
        assert!(passes(prefix, &[("key", "a/")]) && passes(prefix, &[("key", "a/b")]));
        for other in ["a", "b/a/", "A/b"] {
            let failed = "Policy Condition failed: [\"StArTs-WiTh\", \"$key\", \"a/\"]";
            assert_eq!(check(prefix, &[("key", other)]).unwrap_err(), failed);
        }
        assert!(passes("[\"starts-with\", \"$key\", \"\"]", &[("key", "anything")]));
    }

    #[test]
    fn every_condition_must_hold_also_on_absent_fields() {
        let both = "{\"key\": \"k\"}, [\"starts-with\", \"$key\", \"x\"]";
        assert_eq!(
            check(both, &[("key", "k")]).unwrap_err(),
            "Policy Condition failed: [\"starts-with\", \"$key\", \"x\"]"
        );
        for absent in ["[\"starts-with\", \"$acl\", \"\"]", "{\"acl\": \"\"}", "[\"eq\", \"acl\", \"\"]"] {
            assert!(!passes(absent, &[]), "{absent}");
        }
        assert!(
            !passes("[\"eq\", \"acl\", \"private\"]", &[("acl", "private")]),
            "a name without its dollar sign"
        );
    }

    #[test]
    fn the_bucket_is_that_of_the_request() {
        assert!(passes("{\"bucket\": \"b\"}", &[]) && passes("{\"BucKet\": \"b\"}", &[("bucket", "other")]));
        let failed = "Policy Condition failed: [\"eq\", \"$bucket\", \"other\"]";
        assert_eq!(check("{\"bucket\": \"other\"}", &[("bucket", "other")]).unwrap_err(), failed);
    }

    #[test]
    fn a_list_of_media_types_is_tested_one_by_one() {
        let images = "[\"starts-with\", \"$Content-Type\", \"image/\"]";
        assert!(passes(images, &[("content-type", "image/jpg, image/png,image/gif")]));
        assert!(!passes(images, &[("content-type", "image/jpg,text/plain")]));
        assert!(passes("[\"starts-with\", \"$key\", \"a\"]", &[("key", "a,b")]));
    }

    #[test]
    fn every_field_but_the_exempt_ones_is_covered() {
        let exempt = [("Policy", "p"), ("x-amz-signature", "s"), ("X-Ignore-A", "1")];
        assert!(passes("", &exempt));
        let more = [&exempt[..], &[("key", "k"), ("Acl", "private"), ("submit", "")]].concat();
        let shown = check("{\"key\": \"k\"}, [\"content-length-range\", 0, 9]", &more).unwrap_err();
        assert_eq!(shown, "Extra input fields: Acl, submit");
    }

    #[test]
    fn lengths_are_those_that_every_range_permits() {
        assert_eq!(check("", &[]), Ok(0..=u64::MAX));
        assert_eq!(check("[\"content-length-range\", 5, \"10\"]", &[]), Ok(5..=10));
        let two = "[\"content-length-range\", 5, 10], [\"Content-Length-Range\", 0, 7]";
        assert_eq!(check(two, &[]), Ok(5..=7));
        let shown = check("[\"content-length-range\", \"test\", 10]", &[]).unwrap_err();
        assert_eq!(shown, "Policy Condition failed: [\"content-length-range\", \"test\", \"10\"]");
    }

    #[test]
    fn a_policy_expires() {
        let policy = parse(&format!("{{\"conditions\": [], \"expiration\": \"{EXPIRATION}\"}}")).unwrap();
        let at = |now| policy.check(&PostForm::default(), "b", &EXEMPT, now).map_err(|error| error.message);
        assert!(at(now()).is_ok());
        let later = now().plus(std::time::Duration::from_millis(1));
        assert_eq!(at(later).unwrap_err(), "Invalid according to Policy: Policy expired.");
    }

    #[test]
    fn malformed_documents_name_their_problem() {
        let conditions = |text: &str| format!("{{\"expiration\": \"{EXPIRATION}\", \"conditions\": {text}}}");
        let deep = "[".repeat(10_000);
        for (document, problem) in [
            (String::new(), "Invalid JSON."),
            ("[]".to_owned(), "Invalid JSON."),
            (deep, "Invalid JSON."),
            ("{\"expiration\": 1,".to_owned(), "Invalid JSON."),
            ("{\"conditions\": [], \"conditions\": []}".to_owned(), "Invalid JSON."),
            ("{\"Statement\": []}".to_owned(), "Unexpected: 'statement'"),
            ("{\"conditions\": []}".to_owned(), "Policy missing expiration."),
            (format!("{{\"expiration\": \"{EXPIRATION}\"}}"), "Policy missing conditions."),
            (
                "{\"expiration\": \"2015-12-30 12:00\"}".to_owned(),
                "Invalid 'expiration' value: '2015-12-30 12:00'",
            ),
            (conditions("{}"), "Invalid 'conditions' value: must be a List."),
            (conditions("[1]"), "Invalid condition test: must be a List or Object."),
            (conditions("[[]]"), "Invalid Condition: missing operation identifier."),
            (conditions("[[\"ne\", \"$a\", \"b\"]]"), "Invalid Condition: unknown operation 'ne'."),
            (conditions("[[\"eq\", \"$a\"]]"), "Invalid eq: wrong number of arguments."),
            (
                conditions("[[\"content-length-range\", 0]]"),
                "Invalid content-length-range: wrong number of arguments.",
            ),
            (conditions("[[\"eq\", \"$a\", \"b\", \"c\"]]"), "Invalid eq: wrong number of arguments."),
            (conditions("[[\"eq\", \"$a\", 1]]"), "Invalid JSON."),
            (conditions("[[\"content-length-range\", -1, 0]]"), "Invalid JSON."),
            (conditions("[[\"content-length-range\", 0, 1.5]]"), "Invalid JSON."),
            (conditions("[{\"a\": 1}]"), "Invalid Simple-Condition: value must be a string."),
            (
                conditions("[{}]"),
                "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
            ),
        ] {
            let error = parse(&document).unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidPolicyDocument);
            assert_eq!(error.message, format!("Invalid Policy: {problem}"), "{document}");
        }
        let message = PostPolicy::parse("e30").unwrap_err().message;
        assert_eq!(message, "Invalid Policy: invalid Base64 encoding.");
    }
}
