//! Conditions of policies (IAM reference, "IAM JSON policy elements: Condition operators").

use std::borrow::Cow;
use std::net::IpAddr;

use ipnet::IpNet;

use super::condition_key::{CLAIM_IN_BUCKET_POLICY, ConditionKey, ValueType};
use super::context::PolicyContext;
use super::json::StrictJson;
use super::number::Number as PolicyNumber;
use super::pattern::{GlobPattern, GlobSyntax};
use crate::base::limits::POLICY_VALUE_MAX_BYTES;
use crate::base::{Timestamp, parse_network};

/// The relation that a number or a date must have to the value of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Relation {
    fn holds<T: PartialOrd>(self, request: &T, policy: &T) -> bool {
        match self {
            Self::Equal => request == policy,
            Self::Less => request < policy,
            Self::LessOrEqual => request <= policy,
            Self::Greater => request > policy,
            Self::GreaterOrEqual => request >= policy,
        }
    }
}

/// The comparison of an operator, without its negation and quantifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Text { wildcards: bool, ignore_case: bool },
    Arn,
    Number(Relation),
    Date(Relation),
    Bool,
    Network,
    Null,
}

/// How many of the request's values must satisfy the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    /// The one value that there is.
    Single,
    /// `ForAllValues:`; holds without any value.
    All,
    /// `ForAnyValue:`; fails without any value.
    Any,
}

/// An operator such as `ForAllValues:StringNotLikeIfExists`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ConditionOperator {
    comparison: Comparison,
    negated: bool,
    quantifier: Quantifier,
    if_exists: bool,
}

impl ConditionOperator {
    const NAMED: [(&'static str, Comparison, bool); 26] = {
        use Comparison::{Arn, Bool, Date, Network, Null, Number, Text};
        use Relation::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        const EXACT: Comparison = Text { wildcards: false, ignore_case: false };
        const IGNORING_CASE: Comparison = Text { wildcards: false, ignore_case: true };
        const LIKE: Comparison = Text { wildcards: true, ignore_case: false };
        [
            ("StringEquals", EXACT, false),
            ("StringNotEquals", EXACT, true),
            ("StringEqualsIgnoreCase", IGNORING_CASE, false),
            ("StringNotEqualsIgnoreCase", IGNORING_CASE, true),
            ("StringLike", LIKE, false),
            ("StringNotLike", LIKE, true),
            // Both pairs are the same (IAM reference, "Amazon Resource Name (ARN) condition
            // operators").
            ("ArnEquals", Arn, false),
            ("ArnLike", Arn, false),
            ("ArnNotEquals", Arn, true),
            ("ArnNotLike", Arn, true),
            ("NumericEquals", Number(Equal), false),
            ("NumericNotEquals", Number(Equal), true),
            ("NumericLessThan", Number(Less), false),
            ("NumericLessThanEquals", Number(LessOrEqual), false),
            ("NumericGreaterThan", Number(Greater), false),
            ("NumericGreaterThanEquals", Number(GreaterOrEqual), false),
            ("DateEquals", Date(Equal), false),
            ("DateNotEquals", Date(Equal), true),
            ("DateLessThan", Date(Less), false),
            ("DateLessThanEquals", Date(LessOrEqual), false),
            ("DateGreaterThan", Date(Greater), false),
            ("DateGreaterThanEquals", Date(GreaterOrEqual), false),
            ("Bool", Bool, false),
            ("IpAddress", Network, false),
            ("NotIpAddress", Network, true),
            ("Null", Null, false),
        ]
    };

    fn parse(name: &str) -> Result<Self, String> {
        let (quantifier, rest) = match name.split_once(':') {
            None => (Quantifier::Single, name),
            Some(("ForAllValues", rest)) => (Quantifier::All, rest),
            Some(("ForAnyValue", rest)) => (Quantifier::Any, rest),
            Some(_) => return Err(unsupported(name)),
        };
        let (base, if_exists) = rest.strip_suffix("IfExists").map_or((rest, false), |base| (base, true));
        let found = Self::NAMED.iter().find(|(known, ..)| *known == base);
        let &(_, comparison, negated) = found.ok_or_else(|| unsupported(name))?;
        if comparison == Comparison::Null && (if_exists || quantifier != Quantifier::Single) {
            return Err(unsupported(name));
        }
        Ok(Self { comparison, negated, quantifier, if_exists })
    }

    fn value_type(self) -> Option<ValueType> {
        match self.comparison {
            Comparison::Text { .. } | Comparison::Arn => Some(ValueType::Text),
            Comparison::Number(_) => Some(ValueType::Number),
            Comparison::Date(_) => Some(ValueType::Date),
            Comparison::Bool => Some(ValueType::Bool),
            Comparison::Network => Some(ValueType::Address),
            Comparison::Null => None,
        }
    }
}

fn unsupported(operator: &str) -> String {
    format!("the condition operator `{operator}` is not supported")
}

/// A value of the policy, in the form that its operator compares.
#[derive(Debug, Clone, PartialEq)]
enum PolicyValue {
    Pattern(GlobPattern),
    Arn(ArnPattern),
    Number(PolicyNumber),
    Date(Timestamp),
    Bool(bool),
    Network(IpNet),
}

/// The clients to which a condition limits a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientLimit {
    /// To none.
    Everyone,
    /// Users by name.
    Users,
    /// Clients in these networks.
    Networks(Vec<IpNet>),
}

/// How the texts of a policy are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PolicySyntax {
    /// Whether `${` begins a variable.
    pub(super) variables: bool,
    /// Whether keys that are unknown count as absent. Others are refused.
    pub(super) lenient: bool,
}

/// One test: an operator, a key, and the values of the policy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Condition {
    operator: ConditionOperator,
    key: ConditionKey,
    values: Vec<PolicyValue>,
    /// The keys whose values it compares, each once: its own, and the keys of variables.
    compared: Vec<ConditionKey>,
}

impl Condition {
    /// Parses the element `Condition`: operators, each with keys, each with values.
    ///
    /// # Errors
    /// The first operator, key or value that is not supported, by name.
    pub(super) fn parse_all(json: &StrictJson, syntax: PolicySyntax) -> Result<Vec<Self>, String> {
        let StrictJson::Object(operators) = json else {
            return Err("`Condition` must be an object".to_owned());
        };
        let mut conditions = Vec::new();
        for (name, keys) in operators {
            let operator = ConditionOperator::parse(name)?;
            let StrictJson::Object(keys) = keys else {
                return Err(format!("the condition operator `{name}` must have an object of keys"));
            };
            for (key, values) in keys {
                conditions.push(Self::parse(operator, name, key, values, syntax)?);
            }
        }
        Ok(conditions)
    }

    fn parse(
        operator: ConditionOperator,
        operator_name: &str,
        key_name: &str,
        values: &StrictJson,
        syntax: PolicySyntax,
    ) -> Result<Self, String> {
        let key = match ConditionKey::parse(key_name) {
            Err(_) if syntax.lenient => ConditionKey::Unknown(key_name.to_owned()),
            Ok(key) if key.claim().is_some() && !syntax.lenient => {
                return Err(CLAIM_IN_BUCKET_POLICY.to_owned());
            }
            key => key?,
        };
        if operator.value_type().is_some_and(|value_type| !key.accepts(value_type)) {
            return Err(format!("`{operator_name}` cannot be applied to `{key_name}`"));
        }
        if operator.quantifier == Quantifier::Single && !key.has_single_value() {
            return Err(format!("`{key_name}` needs `ForAllValues:` or `ForAnyValue:`"));
        }
        let mut parsed = Vec::new();
        for value in values.elements() {
            let text = value.scalar().ok_or_else(|| format!("a value of `{key_name}` is no text"))?;
            let value = PolicyValue::parse(operator.comparison, &text, syntax);
            parsed.push(value.map_err(|reason| format!("the value `{text}` of `{key_name}`: {reason}"))?);
        }
        if parsed.is_empty() {
            return Err(format!("`{key_name}` has no value"));
        }
        let mut compared = vec![key.clone()];
        for variable in parsed.iter().flat_map(PolicyValue::variables) {
            if !compared.contains(variable) {
                compared.push(variable.clone());
            }
        }
        Ok(Self { operator, key, values: parsed, compared })
    }

    /// Whether it depends on the object, and not on the request alone.
    pub(super) fn is_of_object(&self) -> bool {
        self.compared.iter().any(ConditionKey::is_of_object)
    }

    /// Whether it would compare a value that is too long for it.
    pub(super) fn is_beyond(&self, context: &PolicyContext<'_>) -> bool {
        let known = self.compared.iter().filter(|key| !key.is_of_object() && !key.is_short());
        known.filter_map(|key| key.single_value(context)).any(|value| value.len() > POLICY_VALUE_MAX_BYTES)
    }

    /// The most wildcards that one of its values has.
    pub(super) fn wildcards(&self) -> usize {
        self.values.iter().flat_map(PolicyValue::patterns).map(GlobPattern::wildcards).max().unwrap_or(0)
    }

    /// The key that it refers to.
    pub(super) fn key(&self) -> &ConditionKey {
        &self.key
    }

    /// The keys whose values it compares.
    pub(super) fn compared(&self) -> &[ConditionKey] {
        &self.compared
    }

    /// Whether it holds for none but tokens with one of certain values of a claim.
    pub(super) fn binds_claim(&self) -> bool {
        let operator = &self.operator;
        let is_positive = !operator.negated && !operator.if_exists && operator.quantifier != Quantifier::All;
        self.key.claim().is_some() && is_positive && self.values.iter().all(|value| self.is_bound_by(value))
    }

    fn is_bound_by(&self, value: &PolicyValue) -> bool {
        match (self.operator.comparison, value) {
            (Comparison::Text { .. }, PolicyValue::Pattern(pattern)) => pattern.has_text(),
            (Comparison::Number(relation), _) => relation == Relation::Equal,
            _ => false,
        }
    }

    /// Whether it refers to the tags that a request gives an object.
    pub(super) fn reads_request_tags(&self) -> bool {
        self.key.is_of_request_tags()
            || self.values.iter().flat_map(PolicyValue::patterns).any(GlobPattern::reads_request_tags)
    }

    /// Whether the request satisfies it.
    pub(super) fn holds(&self, context: &PolicyContext<'_>) -> bool {
        if self.operator.comparison == Comparison::Network
            && self.key == ConditionKey::SourceIp
            && let Some(address) = context.source_ip
        {
            // The only known key with an address. Its text is not needed.
            // A client by IPv4 at a socket for both comes as an IPv6 address, and policies name the
            // plain one.
            let address = address.to_canonical();
            let is_in_any = self.values.iter().any(|value| match value {
                PolicyValue::Network(network) => network.contains(&address),
                _ => false,
            });
            return is_in_any != self.operator.negated;
        }
        let requested = self.key.values(context);
        if self.operator.comparison == Comparison::Null {
            return self.values.contains(&PolicyValue::Bool(requested.is_empty()));
        }
        let satisfies = |value: &Cow<'_, str>| self.any_equals(value, context) != self.operator.negated;
        match self.operator.quantifier {
            _ if requested.is_empty() && self.operator.if_exists => true,
            // A key that is absent equals nothing, so that "not equal" holds.
            Quantifier::Single if requested.is_empty() => self.operator.negated,
            // A claim with several values equals each of them.
            Quantifier::Single if !self.operator.negated => requested.iter().any(satisfies),
            // `ForAllValues` holds without any value, as in IAM: policies that mean otherwise add
            // `Null`.
            Quantifier::Single | Quantifier::All => requested.iter().all(satisfies),
            Quantifier::Any => requested.iter().any(satisfies),
        }
    }

    fn any_equals(&self, requested: &str, context: &PolicyContext<'_>) -> bool {
        self.values.iter().any(|value| value.compares(self.operator.comparison, requested, context))
    }

    /// The clients to which it limits a statement.
    pub(super) fn clients(&self) -> ClientLimit {
        let operator = &self.operator;
        // All of these hold for a request without the key.
        if operator.negated || operator.if_exists || operator.quantifier == Quantifier::All {
            return ClientLimit::Everyone;
        }
        match (&self.key, operator.comparison) {
            (ConditionKey::SourceIp, Comparison::Network) => {
                ClientLimit::Networks(self.values.iter().filter_map(PolicyValue::network).collect())
            }
            // No request has it.
            (ConditionKey::OfService(_), _) => ClientLimit::Users,
            (ConditionKey::UserName, Comparison::Text { wildcards: false, .. }) => {
                let are_names = self.values.iter().all(PolicyValue::is_literal);
                if are_names { ClientLimit::Users } else { ClientLimit::Everyone }
            }
            _ => ClientLimit::Everyone,
        }
    }
}

impl PolicyValue {
    fn parse(comparison: Comparison, text: &str, syntax: PolicySyntax) -> Result<Self, String> {
        match comparison {
            Comparison::Text { wildcards, .. } => {
                let PolicySyntax { variables, lenient } = syntax;
                GlobPattern::parse(text, GlobSyntax { wildcards, variables, lenient }).map(Self::Pattern)
            }
            Comparison::Arn => ArnPattern::parse(text, syntax).map(Self::Arn),
            Comparison::Number(_) => {
                PolicyNumber::parse(text).map(Self::Number).ok_or_else(|| "not a number".to_owned())
            }
            Comparison::Date(_) => date(text).map(Self::Date).ok_or_else(|| "not a date".to_owned()),
            Comparison::Bool | Comparison::Null => {
                boolean(text).map(Self::Bool).ok_or_else(|| "neither true nor false".to_owned())
            }
            Comparison::Network => parse_network(text).map(Self::Network),
        }
    }

    fn compares(&self, comparison: Comparison, requested: &str, context: &PolicyContext<'_>) -> bool {
        match (self, comparison) {
            (Self::Pattern(pattern), Comparison::Text { ignore_case: true, .. }) => {
                pattern.equals_ignoring_case(requested, context)
            }
            (Self::Pattern(pattern), _) => pattern.matches(requested, context),
            (Self::Arn(pattern), _) => pattern.matches(requested, context),
            (Self::Number(value), Comparison::Number(relation)) => {
                PolicyNumber::parse(requested).is_some_and(|requested| relation.holds(&requested, value))
            }
            (Self::Date(value), Comparison::Date(relation)) => {
                date(requested).is_some_and(|requested| relation.holds(&requested, value))
            }
            (Self::Bool(value), _) => boolean(requested) == Some(*value),
            (Self::Network(network), _) => {
                requested.parse::<IpAddr>().is_ok_and(|address| network.contains(&address.to_canonical()))
            }
            _ => false,
        }
    }

    fn patterns(&self) -> &[GlobPattern] {
        match self {
            Self::Pattern(pattern) => std::slice::from_ref(pattern),
            Self::Arn(ArnPattern { components }) => components,
            Self::Number(_) | Self::Date(_) | Self::Bool(_) | Self::Network(_) => &[],
        }
    }

    fn variables(&self) -> impl Iterator<Item = &ConditionKey> {
        self.patterns().iter().flat_map(GlobPattern::variables)
    }

    fn network(&self) -> Option<IpNet> {
        match self {
            Self::Network(network) => Some(*network),
            _ => None,
        }
    }

    /// Whether it is a text without a variable, which could stand for the name of every user.
    fn is_literal(&self) -> bool {
        matches!(self, Self::Pattern(pattern) if pattern.is_literal())
    }
}

/// An ARN with wildcards, which do not reach beyond a colon except in its last component.
#[derive(Debug, Clone, PartialEq)]
struct ArnPattern {
    /// `arn`, partition, service, region, account and resource; only one for any ARN.
    components: Vec<GlobPattern>,
}

impl ArnPattern {
    const COMPONENTS: usize = 6;

    fn parse(text: &str, syntax: PolicySyntax) -> Result<Self, String> {
        let PolicySyntax { variables, lenient } = syntax;
        let syntax = GlobSyntax { wildcards: true, variables, lenient };
        let texts: Vec<&str> = text.splitn(Self::COMPONENTS, ':').collect();
        if text != "*" && (texts.len() < Self::COMPONENTS || texts[0] != "arn") {
            return Err("no ARN, which begins with `arn:` and has six components".to_owned());
        }
        let components = texts.iter().map(|component| GlobPattern::parse(component, syntax));
        Ok(Self { components: components.collect::<Result<_, _>>()? })
    }

    fn matches(&self, requested: &str, context: &PolicyContext<'_>) -> bool {
        let texts: Vec<&str> = requested.splitn(self.components.len(), ':').collect();
        let mut pairs = self.components.iter().zip(&texts);
        texts.len() == self.components.len() && pairs.all(|(pattern, text)| pattern.matches(text, context))
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// A time of ISO 8601, a date without a time, or seconds since 1970.
fn date(text: &str) -> Option<Timestamp> {
    let seconds = text.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1000));
    seconds
        .map(Timestamp::from_millis)
        .or_else(|| Timestamp::parse_iso8601(text))
        .or_else(|| Timestamp::parse_iso8601(&format!("{text}T00:00:00Z")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::PrincipalFacts;

    const STRICT: PolicySyntax = PolicySyntax { variables: true, lenient: false };

    fn conditions(text: &str) -> Result<Vec<Condition>, String> {
        Condition::parse_all(&StrictJson::parse(text.as_bytes()).unwrap(), STRICT)
    }

    fn holds(text: &str, context: &PolicyContext<'_>) -> bool {
        conditions(text).unwrap().iter().all(|condition| condition.holds(context))
    }

    #[test]
    fn each_operator_compares_as_iam_says() {
        let tags = [("team".to_owned(), "Red".to_owned()), ("cost".to_owned(), "7".to_owned())];
        let context = PolicyContext {
            user: Some("ann"),
            source_ip: Some("192.0.2.77".parse().unwrap()),
            secure: true,
            now: Timestamp::parse_iso8601("2026-01-31T12:00:00Z").unwrap(),
            referer: Some("https://site.example/page"),
            prefix: Some("home/ann/"),
            max_keys: Some("100"),
            request_tags: &tags,
            existing_tags: &|key: &str| (key == "state").then(|| "open".to_owned()),
            ..PolicyContext::default()
        };
        for (expected, text) in [
            (true, r#"{"StringEquals": {"aws:username": ["bob", "ann"]}}"#),
            (false, r#"{"StringEquals": {"aws:username": "a*"}}"#),
            (false, r#"{"StringNotEquals": {"aws:username": ["bob", "ann"]}}"#),
            (true, r#"{"StringEqualsIgnoreCase": {"s3:RequestObjectTag/team": "rED"}}"#),
            (false, r#"{"StringNotEqualsIgnoreCase": {"s3:RequestObjectTag/team": "rED"}}"#),
            (true, r#"{"StringLike": {"aws:Referer": "https://site.example/*"}}"#),
            (false, r#"{"StringNotLike": {"aws:referer": "https://*"}}"#),
            (true, r#"{"StringLike": {"s3:prefix": "home/${aws:username}/*"}}"#),
            (true, r#"{"NumericLessThanEquals": {"s3:max-keys": 100}}"#),
            (false, r#"{"NumericLessThan": {"s3:max-keys": "100"}}"#),
            (true, r#"{"NumericGreaterThan": {"s3:max-keys": "99.5"}}"#),
            (true, r#"{"NumericNotEquals": {"s3:max-keys": [1, 2]}}"#),
            (true, r#"{"DateGreaterThan": {"aws:CurrentTime": "2026-01-31T11:59:59Z"}}"#),
            (false, r#"{"DateLessThan": {"aws:CurrentTime": "2026-01-31"}}"#),
            (true, r#"{"DateEquals": {"aws:EpochTime": "1769860800"}}"#),
            (true, r#"{"NumericGreaterThanEquals": {"aws:EpochTime": 1769860800}}"#),
            (true, r#"{"Bool": {"aws:SecureTransport": true}}"#),
            (false, r#"{"Bool": {"aws:SecureTransport": "FALSE"}}"#),
            (true, r#"{"IpAddress": {"aws:SourceIp": ["198.51.100.1", "192.0.2.0/24"]}}"#),
            (false, r#"{"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}"#),
            (true, r#"{"StringEquals": {"s3:ExistingObjectTag/state": "open"}}"#),
            (true, r#"{"Null": {"aws:UserAgent": "true", "aws:username": "false"}}"#),
            (true, r#"{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["team", "cost", "x"]}}"#),
            (false, r#"{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#),
            (true, r#"{"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#),
            (true, r#"{"ForAnyValue:StringNotEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#),
            (false, r#"{"ForAllValues:StringNotEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#),
            // All conditions must hold.
            (false, r#"{"Bool": {"aws:SecureTransport": true}, "StringEquals": {"aws:username": "bob"}}"#),
        ] {
            assert_eq!(holds(text, &context), expected, "{text}");
        }
    }

    #[test]
    fn an_absent_value_satisfies_negations_and_if_exists_alone() {
        let context = PolicyContext::default();
        for (expected, text) in [
            (false, r#"{"StringEquals": {"aws:Referer": "x"}}"#),
            (true, r#"{"StringNotEquals": {"aws:Referer": "x"}}"#),
            (true, r#"{"StringEqualsIfExists": {"aws:Referer": "x"}}"#),
            (false, r#"{"NumericLessThan": {"s3:max-keys": 5}}"#),
            (true, r#"{"NumericLessThanIfExists": {"s3:max-keys": 5}}"#),
            (false, r#"{"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}}"#),
            (true, r#"{"NotIpAddress": {"aws:SourceIp": "0.0.0.0/0"}}"#),
            (true, r#"{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": "x"}}"#),
            (false, r#"{"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": "x"}}"#),
            (false, r#"{"ForAnyValue:StringNotEquals": {"s3:RequestObjectTagKeys": "x"}}"#),
            (true, r#"{"Null": {"aws:Referer": true}}"#),
        ] {
            assert_eq!(holds(text, &context), expected, "{text}");
        }
    }

    #[test]
    fn arns_are_compared_by_components() {
        let principal = PrincipalFacts {
            arn: "arn:aws:iam::000000000000:role/job/of:ann".to_owned(),
            user_name: Some("ann".to_owned()),
            ..PrincipalFacts::default()
        };
        let context =
            PolicyContext { user: Some("ann"), principal: Some(&principal), ..PolicyContext::default() };
        for (expected, pattern) in [
            (true, "arn:aws:iam::000000000000:role/job/of:ann"),
            (true, "arn:aws:iam::*:role/*"),
            (true, "arn:*:*:*:*:*"),
            (true, "arn:aws:iam::????????????:role/job/of:${aws:username}"),
            (true, "*"),
            (false, "arn:aws:iam:*:role/*:x"),
            (false, "arn:aws:*:role/job/of:ann:x"),
            (false, "arn:aws:sts::*:role/*"),
            (false, "arn:aws:iam::000000000000:role/job"),
        ] {
            for (operator, is_equal) in
                [("ArnLike", true), ("ArnEquals", true), ("ArnNotLike", false), ("ArnNotEquals", false)]
            {
                let text = format!(r#"{{"{operator}": {{"aws:PrincipalArn": "{pattern}"}}}}"#);
                assert_eq!(holds(&text, &context), expected == is_equal, "{text}");
            }
        }
        // Requests of services have these; none comes here.
        for (expected, text) in [
            (false, r#"{"ArnLike": {"aws:SourceArn": "arn:aws:s3:::*"}}"#),
            (false, r#"{"StringEquals": {"aws:SourceAccount": "000000000000"}}"#),
            (true, r#"{"StringNotEquals": {"aws:SourceAccount": "000000000000"}}"#),
        ] {
            assert_eq!(holds(text, &context), expected, "{text}");
        }
    }

    #[test]
    fn a_lenient_reader_takes_unknown_keys_for_absent_ones() {
        let lenient = PolicySyntax { lenient: true, ..STRICT };
        let context = PolicyContext { prefix: Some("a"), ..PolicyContext::default() };
        for (expected, text) in [
            (false, r#"{"StringEquals": {"aws:PrincipalOrgID": "x"}}"#),
            (true, r#"{"StringNotEquals": {"aws:PrincipalOrgID": "x"}}"#),
            (true, r#"{"StringEqualsIfExists": {"kms:ViaService": "x"}}"#),
            (true, r#"{"Null": {"aws:nonsense": true}}"#),
            (false, r#"{"StringLike": {"s3:prefix": "${aws:nonsense}*"}}"#),
            (true, r#"{"StringNotLike": {"s3:prefix": "${aws:nonsense}*"}}"#),
        ] {
            let json = StrictJson::parse(text.as_bytes()).unwrap();
            let parsed = Condition::parse_all(&json, lenient).unwrap();
            assert_eq!(parsed.iter().all(|condition| condition.holds(&context)), expected, "{text}");
            assert!(conditions(text).is_err(), "{text}");
        }
        for text in [r#"{"Arnlike": {"aws:nonsense": "x"}}"#, r#"{"Bool": {"aws:nonsense": "maybe"}}"#] {
            let json = StrictJson::parse(text.as_bytes()).unwrap();
            assert!(Condition::parse_all(&json, lenient).is_err(), "{text}");
        }
    }

    #[test]
    fn unsupported_conditions_are_refused_by_name() {
        for (text, named) in [
            (r#"{"ArnAlike": {"aws:SourceArn": "x"}}"#, "`ArnAlike`"),
            (r#"{"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*"}}"#, "has six components"),
            (r#"{"ArnLike": {"aws:SourceIp": "*"}}"#, "`ArnLike` cannot be applied to `aws:SourceIp`"),
            (r#"{"NullIfExists": {"aws:Referer": true}}"#, "`NullIfExists`"),
            (r#"{"ForSomeValues:StringEquals": {"aws:Referer": "x"}}"#, "`ForSomeValues:StringEquals`"),
            (r#"{"StringEquals": {"aws:PrincipalOrgID": "x"}}"#, "`aws:PrincipalOrgID`"),
            (r#"{"StringEquals": {"s3:ExistingObjectTag/": "x"}}"#, "`s3:ExistingObjectTag/`"),
            (
                r#"{"StringEquals": {"aws:SourceIp": "192.0.2.1"}}"#,
                "`StringEquals` cannot be applied to `aws:SourceIp`",
            ),
            (r#"{"StringEquals": {"s3:RequestObjectTagKeys": "x"}}"#, "needs `ForAllValues:`"),
            (r#"{"IpAddress": {"aws:SourceIp": "192.0.2"}}"#, "neither an address nor a network"),
            (r#"{"NumericEquals": {"s3:max-keys": "many"}}"#, "not a number"),
            (r#"{"NumericEquals": {"s3:max-keys": "NaN"}}"#, "not a number"),
            (r#"{"DateLessThan": {"aws:CurrentTime": "soon"}}"#, "not a date"),
            (r#"{"Bool": {"aws:SecureTransport": "yes"}}"#, "neither true nor false"),
            (r#"{"StringEquals": {"aws:Referer": []}}"#, "has no value"),
            (r#"{"StringEquals": {"aws:Referer": null}}"#, "is no text"),
            (r#"{"StringEquals": ["aws:Referer"]}"#, "must have an object of keys"),
            (r#"[]"#, "`Condition` must be an object"),
            (r#"{"StringLike": {"aws:Referer": "${aws:nonsense}"}}"#, "`${aws:nonsense}` is unknown"),
        ] {
            let error = conditions(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
