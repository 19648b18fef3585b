//! Patterns of policies: `*` for any run of characters, `?` for one, and variables such as `${aws:username}`.

use std::borrow::Cow;

use super::condition_key::ConditionKey;
use super::context::PolicyContext;

/// The version of the policy language from which on `${` begins a variable.
pub(super) const VERSION_WITH_VARIABLES: &str = "2012-10-17";

/// One piece of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GlobToken {
    /// This character.
    Literal(char),
    /// Any one character.
    AnyChar,
    /// Any run of characters, also an empty one.
    AnyRun,
    /// The value of a key in the request.
    Variable(ConditionKey),
}

/// A pattern, parsed. Most differ late from the texts that they are compared with, since all resources of a policy begin with
/// the name of the bucket. The literal start is therefore compared as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GlobPattern {
    start: String,
    rest: Vec<GlobToken>,
}

/// How a pattern is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GlobSyntax {
    /// Whether `*` and `?` are wildcards.
    pub(super) wildcards: bool,
    /// Whether `${` begins a variable.
    pub(super) variables: bool,
}

impl GlobPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A variable that is unknown, has a default or does not end; the text names it.
    pub(super) fn parse(text: &str, syntax: GlobSyntax) -> Result<Self, String> {
        let (mut tokens, mut rest) = (Vec::new(), text);
        while let Some(first) = rest.chars().next() {
            rest = match rest.strip_prefix("${").filter(|_| syntax.variables) {
                Some(inside) => {
                    let (name, after) =
                        inside.split_once('}').ok_or_else(|| format!("`{text}` has a `${{` without `}}`"))?;
                    tokens.push(variable(name)?);
                    after
                }
                None => {
                    tokens.push(match first {
                        '*' if syntax.wildcards => GlobToken::AnyRun,
                        '?' if syntax.wildcards => GlobToken::AnyChar,
                        literal => GlobToken::Literal(literal),
                    });
                    &rest[first.len_utf8()..]
                }
            };
        }
        Ok(Self::of(&tokens))
    }

    fn of(tokens: &[GlobToken]) -> Self {
        let literal = |token: &GlobToken| match token {
            GlobToken::Literal(character) => Some(*character),
            _ => None,
        };
        let start: String = tokens.iter().map_while(literal).collect();
        let rest = tokens[start.chars().count()..].to_vec();
        Self { start, rest }
    }

    /// Whether the whole `text` matches. A variable without a single value in the request matches nothing.
    pub(super) fn matches(&self, text: &str, context: &PolicyContext<'_>) -> bool {
        let Some(text) = text.strip_prefix(self.start.as_str()) else { return false };
        self.resolved(context).is_some_and(|tokens| glob(&tokens, text))
    }

    /// The same without regard to the case of ASCII letters.
    pub(super) fn matches_ignoring_case(&self, text: &str, context: &PolicyContext<'_>) -> bool {
        let fold = |token: &GlobToken| match token {
            GlobToken::Literal(character) => GlobToken::Literal(character.to_ascii_lowercase()),
            other => other.clone(),
        };
        let start = self.start.to_ascii_lowercase();
        let folded = self.resolved(context).map(|tokens| tokens.iter().map(fold).collect::<Vec<_>>());
        let text = text.to_ascii_lowercase();
        text.strip_prefix(&start).zip(folded).is_some_and(|(text, tokens)| glob(&tokens, text))
    }

    /// Whether an object's path can match a pattern of a bucket's resources: it goes on after the name of the bucket.
    pub(super) fn reaches_objects(&self) -> bool {
        self.start.contains('/') || !self.rest.is_empty()
    }

    /// Whether a variable stands for a tag that a request gives an object.
    pub(super) fn reads_request_tags(&self) -> bool {
        let is_tag =
            |token: &GlobToken| matches!(token, GlobToken::Variable(key) if key.is_of_request_tags());
        self.rest.iter().any(is_tag)
    }

    /// Whether every path that begins with `start` matches: the pattern is `start` or less of it, then `*`.
    pub(super) fn covers_all_after(&self, start: &str) -> bool {
        self.rest == [GlobToken::AnyRun] && start.starts_with(&self.start)
    }

    /// What follows the start, with the values of its variables; `None` where a value is missing.
    fn resolved(&self, context: &PolicyContext<'_>) -> Option<Cow<'_, [GlobToken]>> {
        if !self.rest.iter().any(|token| matches!(token, GlobToken::Variable(_))) {
            return Some(Cow::Borrowed(&self.rest));
        }
        let mut tokens = Vec::with_capacity(self.rest.len());
        for token in &self.rest {
            match token {
                GlobToken::Variable(key) => {
                    tokens.extend(key.single_value(context)?.chars().map(GlobToken::Literal));
                }
                other => tokens.push(other.clone()),
            }
        }
        Some(Cow::Owned(tokens))
    }
}

/// `*`, `?` and `$` stand for themselves; others name a key of the request.
fn variable(name: &str) -> Result<GlobToken, String> {
    match name {
        "*" | "?" | "$" => Ok(GlobToken::Literal(name.chars().next().unwrap_or('$'))),
        name if name.contains(',') => {
            Err(format!("the variable `${{{name}}}` has a default, which is not supported"))
        }
        name => match ConditionKey::parse(name) {
            Ok(key) if key.has_single_value() => Ok(GlobToken::Variable(key)),
            _ => Err(format!("the variable `${{{name}}}` is unknown")),
        },
    }
}

/// Matches with one point of return, the latest `*`: time is at most the product of both lengths.
fn glob(pattern: &[GlobToken], text: &str) -> bool {
    let (mut pattern, mut text, mut retry) = (pattern, text, None);
    loop {
        let next = text.chars().next();
        match (pattern.split_first(), next) {
            (Some((GlobToken::AnyRun, rest)), _) => {
                retry = Some((rest, text));
                pattern = rest;
            }
            (Some((token, rest)), Some(character)) if is_one(token, character) => {
                (pattern, text) = (rest, after_first(text));
            }
            (None, None) => return true,
            _ => match &mut retry {
                Some((rest, from)) if !from.is_empty() => {
                    *from = after_first(from);
                    (pattern, text) = (rest, from);
                }
                _ => return false,
            },
        }
    }
}

fn after_first(text: &str) -> &str {
    let mut characters = text.chars();
    characters.next();
    characters.as_str()
}

fn is_one(token: &GlobToken, character: char) -> bool {
    match token {
        GlobToken::Literal(literal) => *literal == character,
        GlobToken::AnyChar => true,
        GlobToken::AnyRun | GlobToken::Variable(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: GlobSyntax = GlobSyntax { wildcards: true, variables: true };

    fn matches(pattern: &str, text: &str) -> bool {
        let context = PolicyContext { user: Some("ann*"), ..PolicyContext::default() };
        GlobPattern::parse(pattern, ALL).unwrap().matches(text, &context)
    }

    /// Recursion over the pattern, as the language is defined.
    fn model(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|skipped| model(rest, &text[skipped..])),
            Some((first, rest)) => text
                .split_first()
                .is_some_and(|(c, others)| (*first == '?' || first == c) && model(rest, others)),
        }
    }

    proptest! {
        #[test]
        fn matching_agrees_with_its_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &text), model(&chars(&pattern), &chars(&text)));
        }
    }

    #[test]
    fn variables_are_literal_text() {
        assert!(matches("home/${aws:username}/*", "home/ann*/photo"));
        assert!(!matches("home/${aws:username}/*", "home/anna/photo"));
        assert!(matches("${*}${?}${$}", "*?$"));
        let nameless = PolicyContext::default();
        assert!(!GlobPattern::parse("${aws:username}*", ALL).unwrap().matches("", &nameless));
    }

    #[test]
    fn unknown_variables_are_refused_by_name() {
        for (pattern, named) in [
            ("${aws:nonsense}", "`${aws:nonsense}` is unknown"),
            ("${aws:username, 'x'}", "has a default"),
            ("a${b", "without `}`"),
        ] {
            let error = GlobPattern::parse(pattern, ALL).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
        let old = GlobSyntax { variables: false, ..ALL };
        assert!(GlobPattern::parse("${b", old).unwrap().matches("${b", &PolicyContext::default()));
    }

    #[test]
    fn many_stars_take_no_more_than_the_product_of_the_lengths() {
        let pattern = "*a".repeat(1000);
        assert!(!matches(&pattern, &"b".repeat(1000)));
        assert!(!matches(&pattern, &"a".repeat(999)));
        assert!(matches(&pattern, &"a".repeat(1000)));
    }
}
