//! Patterns of policies: `*` for any run of characters, `?` for one, and variables such as
//! `${aws:username}`.

use std::borrow::Cow;

use memchr::memmem;

use super::condition_key::{CLAIM_IN_BUCKET_POLICY, ConditionKey};
use super::context::PolicyContext;
use crate::base::limits::POLICY_VALUE_MAX_BYTES;

/// The version of the policy language from which on `${` begins a variable.
pub(super) const VERSION_WITH_VARIABLES: &str = "2012-10-17";

/// One token of a piece.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GlobToken {
    /// These characters.
    Text(String),
    AnyChar,
    /// The value of a key in the request.
    Variable(ConditionKey),
}

/// A pattern, parsed: the pieces between its `*`. The first is at the start of the text, the last
/// at its end, and each of the others where it first fits after the one before it. So no `*` is
/// ever tried again, and the time does not depend on their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GlobPattern {
    first: GlobPiece,
    /// Without empty ones, except that the last may be empty.
    others: Vec<GlobPiece>,
}

/// What is between two `*`. No two texts are neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct GlobPiece(Vec<GlobToken>);

/// How a pattern is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GlobSyntax {
    /// Whether `*` and `?` are wildcards.
    pub(super) wildcards: bool,
    /// Whether `${` begins a variable.
    pub(super) variables: bool,
    /// Whether variables of unknown keys stand for absent values.
    pub(super) lenient: bool,
}

impl GlobPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A variable that is unknown, has a default or does not end; the text names it.
    pub(super) fn parse(text: &str, syntax: GlobSyntax) -> Result<Self, String> {
        let mut pieces = vec![GlobPiece::default()];
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let last = pieces.last_mut().expect("there is a first piece");
            rest = match rest.strip_prefix("${").filter(|_| syntax.variables) {
                Some(inside) => {
                    let (name, after) =
                        inside.split_once('}').ok_or_else(|| format!("`{text}` has a `${{` without `}}`"))?;
                    last.push(variable(name, syntax.lenient)?);
                    after
                }
                None => {
                    match first {
                        '*' if syntax.wildcards => pieces.push(GlobPiece::default()),
                        '?' if syntax.wildcards => last.push(GlobToken::AnyChar),
                        literal => last.push(GlobToken::Text(literal.into())),
                    }
                    &rest[first.len_utf8()..]
                }
            };
        }
        let last = pieces.len() - 1;
        let mut others = pieces.split_off(1);
        let mut nth = 0;
        // `**` is `*`. An empty last piece stays: it says that the pattern goes on.
        others.retain(|piece| {
            nth += 1;
            nth == last || !piece.0.is_empty()
        });
        Ok(Self { first: pieces.remove(0), others })
    }

    /// Whether it has a character that is no wildcard.
    pub(super) fn has_text(&self) -> bool {
        self.pieces().flat_map(|piece| &piece.0).any(|token| matches!(token, GlobToken::Text(_)))
    }

    /// The number of its `*` and `?`.
    pub(super) fn wildcards(&self) -> usize {
        let tokens = self.pieces().flat_map(|piece| &piece.0);
        self.others.len() + tokens.filter(|token| **token == GlobToken::AnyChar).count()
    }

    fn pieces(&self) -> impl Iterator<Item = &GlobPiece> {
        [&self.first].into_iter().chain(&self.others)
    }

    /// Whether the whole `text` matches. A variable without a single value in the request matches
    /// nothing.
    pub(super) fn matches(&self, text: &str, context: &PolicyContext<'_>) -> bool {
        // Most patterns differ from a text in their first one: all resources of a policy begin with
        // the name of the bucket.
        if let Some(GlobToken::Text(start)) = self.first.0.first()
            && !text.starts_with(start.as_str())
        {
            return false;
        }
        self.matches_rest(text, context).is_some()
    }

    fn matches_rest(&self, text: &str, context: &PolicyContext<'_>) -> Option<()> {
        let text = self.first.resolved(context)?.strip_from_start(text)?;
        // The last piece is at the end, and each other one at the first place where it fits: that
        // leaves the most to those after it, so that no place has to be tried again.
        let Some((last, middle)) = self.others.split_last() else { return text.is_empty().then_some(()) };
        let mut text = last.resolved(context)?.strip_from_end(text)?;
        for piece in middle {
            text = piece.resolved(context)?.find_in(text)?;
        }
        Some(())
    }

    /// Whether the whole `text` matches a pattern without wildcards, without regard to the case of
    /// ASCII letters.
    pub(super) fn equals_ignoring_case(&self, text: &str, context: &PolicyContext<'_>) -> bool {
        let Some(piece) = self.first.resolved(context) else { return false };
        match piece.0.as_slice() {
            [] => text.is_empty(),
            [GlobToken::Text(all)] => all.eq_ignore_ascii_case(text),
            _ => false,
        }
    }

    /// Whether an object's path can match a pattern of a bucket's resources: it goes on after the
    /// name of the bucket.
    pub(super) fn reaches_objects(&self) -> bool {
        match self.first.0.as_slice() {
            [] => !self.others.is_empty(),
            [GlobToken::Text(start)] => start.contains('/') || !self.others.is_empty(),
            _ => true,
        }
    }

    /// Whether some text that begins with `start` may match, and is longer. Says yes in doubt.
    pub(super) fn may_go_beyond(&self, start: &str) -> bool {
        let (lead, rest) = match self.first.0.as_slice() {
            [GlobToken::Text(lead), rest @ ..] => (lead.as_str(), rest),
            rest => ("", rest),
        };
        match lead.len() > start.len() {
            true => lead.starts_with(start),
            false => start.starts_with(lead) && !(rest.is_empty() && self.others.is_empty()),
        }
    }

    /// Whether it has neither wildcards nor variables.
    pub(super) fn is_literal(&self) -> bool {
        self.others.is_empty() && self.first.0.iter().all(|token| matches!(token, GlobToken::Text(_)))
    }

    /// Whether a variable stands for a tag that a request gives an object.
    pub(super) fn reads_request_tags(&self) -> bool {
        self.pieces().flat_map(|piece| &piece.0).any(|token| match token {
            GlobToken::Variable(key) => key.is_of_request_tags(),
            _ => false,
        })
    }

    /// The keys that its variables stand for.
    pub(super) fn variables(&self) -> impl Iterator<Item = &ConditionKey> {
        self.pieces().flat_map(|piece| &piece.0).filter_map(|token| match token {
            GlobToken::Variable(key) => Some(key),
            GlobToken::Text(_) | GlobToken::AnyChar => None,
        })
    }

    /// Whether every path that begins with `start` matches: the pattern is `start` or less of it,
    /// then `*`.
    pub(super) fn covers_all_after(&self, start: &str) -> bool {
        let is_open = matches!(self.others.as_slice(), [last] if last.0.is_empty());
        let first = match self.first.0.as_slice() {
            [] => Some(""),
            [GlobToken::Text(first)] => Some(first.as_str()),
            _ => None,
        };
        is_open && first.is_some_and(|first| start.starts_with(first))
    }
}

impl GlobPiece {
    fn push(&mut self, token: GlobToken) {
        match (self.0.last_mut(), token) {
            (Some(GlobToken::Text(last)), GlobToken::Text(more)) => last.push_str(&more),
            (_, token) => self.0.push(token),
        }
    }

    /// The piece with the values of its variables; `None` where a value is missing or longer than
    /// what is compared.
    fn resolved(&self, context: &PolicyContext<'_>) -> Option<Cow<'_, Self>> {
        if !self.0.iter().any(|token| matches!(token, GlobToken::Variable(_))) {
            return Some(Cow::Borrowed(self));
        }
        let mut resolved = Self::default();
        for token in &self.0 {
            match token {
                GlobToken::Variable(key) => {
                    let value = key.single_value(context)?;
                    if value.len() > POLICY_VALUE_MAX_BYTES {
                        return None;
                    }
                    if !value.is_empty() {
                        resolved.push(GlobToken::Text(value.into_owned()));
                    }
                }
                other => resolved.push(other.clone()),
            }
        }
        Some(Cow::Owned(resolved))
    }

    /// What is left of a text that begins with the piece.
    fn strip_from_start<'t>(&self, mut text: &'t str) -> Option<&'t str> {
        for token in &self.0 {
            text = match token {
                GlobToken::Text(literal) => text.strip_prefix(literal.as_str())?,
                GlobToken::AnyChar => after_first(text)?,
                GlobToken::Variable(_) => return None,
            };
        }
        Some(text)
    }

    /// What is left of a text that ends with the piece.
    fn strip_from_end<'t>(&self, mut text: &'t str) -> Option<&'t str> {
        for token in self.0.iter().rev() {
            text = match token {
                GlobToken::Text(literal) => text.strip_suffix(literal.as_str())?,
                GlobToken::AnyChar => {
                    let mut characters = text.chars();
                    characters.next_back()?;
                    characters.as_str()
                }
                GlobToken::Variable(_) => return None,
            };
        }
        Some(text)
    }

    /// What follows the first place in a text that the piece fits.
    fn find_in<'t>(&self, text: &'t str) -> Option<&'t str> {
        if let [GlobToken::Text(literal)] = self.0.as_slice() {
            let end = memmem::find(text.as_bytes(), literal.as_bytes()).map(|at| at + literal.len());
            work::count(end.unwrap_or(text.len()));
            return Some(&text[end?..]);
        }
        if self.0.iter().all(|token| *token == GlobToken::AnyChar) {
            return self.strip_from_start(text);
        }
        PieceSearch::of(self).find_in(text)
    }
}

/// A search for a piece with `?`: all places at once that the piece may begin at, one bit each
/// (Baeza-Yates and Gonnet, "A new approach to text searching", 1992). The time is the length of
/// the text for every 64 characters of the piece.
struct PieceSearch {
    /// The places of each character in the piece, including `?`, by character.
    places: Vec<(char, Vec<u64>)>,
    /// The places of `?`.
    any: Vec<u64>,
    len: usize,
}

impl PieceSearch {
    fn of(piece: &GlobPiece) -> Self {
        let mut characters = Vec::new();
        for token in &piece.0 {
            match token {
                GlobToken::Text(literal) => characters.extend(literal.chars().map(Some)),
                GlobToken::AnyChar | GlobToken::Variable(_) => characters.push(None),
            }
        }
        let len = characters.len();
        let mut any = vec![0; len.div_ceil(64)];
        for at in (0..len).filter(|at| characters[*at].is_none()) {
            any[at / 64] |= 1 << (at % 64);
        }
        let mut distinct: Vec<char> = characters.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut places: Vec<_> = distinct.into_iter().map(|character| (character, any.clone())).collect();
        for (at, character) in characters.iter().enumerate() {
            let found =
                character.map(|character| places.binary_search_by_key(&character, |(known, _)| *known));
            if let Some(Ok(nth)) = found {
                places[nth].1[at / 64] |= 1 << (at % 64);
            }
        }
        Self { places, any, len }
    }

    fn find_in<'t>(&self, text: &'t str) -> Option<&'t str> {
        // A longer piece fits nowhere, whatever its characters.
        if self.len > text.len() {
            return None;
        }
        // A bit says that the piece up to its character ends here. One step for each character of
        // the text, whatever the piece: with many `?` a search that goes back would take the
        // product of both lengths.
        let mut begun = vec![0_u64; self.any.len()];
        for (at, character) in text.char_indices() {
            work::count(begun.len());
            let known = self.places.binary_search_by_key(&character, |(known, _)| *known);
            let places = known.map_or(&self.any, |nth| &self.places[nth].1);
            let mut carry = 1;
            for (word, places) in begun.iter_mut().zip(places) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & places;
                carry = next;
            }
            let last = self.len - 1;
            if begun[last / 64] >> (last % 64) & 1 == 1 {
                return Some(&text[at + character.len_utf8()..]);
            }
        }
        None
    }
}

/// What matching costs, in bytes and words that are compared, for tests.
mod work {
    #[cfg(test)]
    thread_local! {
        pub(super) static DONE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    #[inline]
    pub(super) fn count(_units: usize) {
        #[cfg(test)]
        DONE.set(DONE.get() + _units);
    }
}

/// `*`, `?` and `$` stand for themselves; others name a key of the request.
fn variable(name: &str, lenient: bool) -> Result<GlobToken, String> {
    match name {
        "*" | "?" | "$" => Ok(GlobToken::Text(name.to_owned())),
        name if name.contains(',') => {
            Err(format!("the variable `${{{name}}}` has a default, which is not supported"))
        }
        name => match ConditionKey::parse(name) {
            Ok(key) if key.claim().is_some() && !lenient => Err(CLAIM_IN_BUCKET_POLICY.to_owned()),
            Ok(key) if key.has_single_value() => Ok(GlobToken::Variable(key)),
            Err(_) if lenient => Ok(GlobToken::Variable(ConditionKey::Unknown(name.to_owned()))),
            _ => Err(format!("the variable `${{{name}}}` is unknown")),
        },
    }
}

fn after_first(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    characters.next()?;
    Some(characters.as_str())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: GlobSyntax = GlobSyntax { wildcards: true, variables: true, lenient: false };

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

    proptest! {
        #[test]
        fn long_pieces_agree_with_the_definition(
            piece in "[ab?]{60,140}",
            before in "[ab]{0,40}",
            inside in "[ab]{140}",
            after in "[abé]{0,40}",
            fits in any::<bool>(),
        ) {
            let fill = inside.chars().cycle();
            let fitting: String =
                piece.chars().zip(fill).map(|(c, other)| if c == '?' && fits { other } else { c }).collect();
            let text = [before, fitting, after].concat();
            let pattern = format!("*{piece}*");
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = naive(&chars(&piece), &chars(&text));
            prop_assert_eq!(matches(&pattern, &text), expected);
        }

        #[test]
        fn a_pattern_with_characters_of_several_bytes_agrees(pattern in "[aé*?]{0,7}", text in "[aéü]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &text), model(&chars(&pattern), &chars(&text)));
        }
    }

    /// Whether a piece fits somewhere, tried at every place.
    fn naive(piece: &[char], text: &[char]) -> bool {
        let fits = |there: &[char]| piece.iter().zip(there).all(|(wanted, c)| *wanted == '?' || wanted == c);
        text.windows(piece.len()).any(fits)
    }

    fn work_of(pattern: &str, text: &str) -> usize {
        let before = work::DONE.get();
        matches(pattern, text);
        work::DONE.get() - before
    }

    #[test]
    fn no_pattern_costs_the_product_of_the_lengths() {
        let text = "a".repeat(16 * 1024);
        let long = "a".repeat(1000);
        let dots = "a?".repeat(500);
        for pattern in [
            "*a".repeat(1000) + "b",
            format!("*{long}b*"),
            format!("*{long}b*").repeat(9),
            "*a*b".repeat(1000),
            "?*".repeat(5_000) + "b",
        ] {
            let work = work_of(&pattern, &text);
            assert!(work <= text.len(), "{}: {work}", &pattern[..7]);
        }
        let words = 1001_usize.div_ceil(64);
        assert!(work_of(&format!("*{dots}b*"), &text) <= words * text.len());
        assert!(
            work_of(&format!("*{dots}b*").repeat(10), &text) <= words * text.len(),
            "the first fits nowhere"
        );
    }

    #[test]
    fn many_stars_match_as_few_do() {
        let pattern = "*a".repeat(1000);
        assert!(!matches(&pattern, &"b".repeat(1000)));
        assert!(!matches(&pattern, &"a".repeat(999)));
        assert!(matches(&pattern, &"a".repeat(1000)));
    }

    #[test]
    fn wildcards_are_counted() {
        for (pattern, count) in [("", 0), ("a", 0), ("*", 1), ("a*b?c*", 3), ("${*}?", 1), ("**", 1)] {
            assert_eq!(GlobPattern::parse(pattern, ALL).unwrap().wildcards(), count, "{pattern}");
        }
    }
}
