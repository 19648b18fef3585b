//! Entity tags and the conditions of writes on them (RFC 9110, sections 8.8.3 and 13.1). Reads,
//! writes, copies, deletions and lists of parts all compare tags by the rules in this file.

/// A tag without surrounding whitespace and quotes. A quote on one side only is part of the tag,
/// which then equals no tag of the store.
pub fn bare(tag: &str) -> &str {
    let tag = tag.trim();
    tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(tag)
}

/// Whether two tags are equal; either may lack its quotes.
pub fn same(a: &str, b: &str) -> bool {
    bare(a) == bare(b)
}

/// Whether `If-Match` with `list` holds for `etag`: strong comparison; `*` matches any tag.
pub fn matches_strongly(list: &str, etag: &str) -> bool {
    list.trim() == "*" || list.split(',').any(|tag| same(tag, etag))
}

/// Whether `If-None-Match` with `list` fails for `etag`: weak comparison, which ignores the prefix
/// `W/`; `*` matches any tag.
pub fn matches_weakly(list: &str, etag: &str) -> bool {
    list.trim() == "*" || list.split(',').any(|tag| same(without_weakness(tag), etag))
}

/// A tag of a list without the prefix `W/`.
fn without_weakness(tag: &str) -> &str {
    tag.trim().strip_prefix("W/").unwrap_or(tag)
}

/// The condition of a put. It is checked at the commit, so that exactly one of two racing writers
/// succeeds. A delete marker counts as absent. Lists of tags are kept as the client sent them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WriteCondition {
    /// No condition.
    #[default]
    None,
    /// The key has no current version.
    IfAbsent,
    /// The current version has one of these entity tags; `*` stands for any.
    IfMatch(String),
    /// There is no current version, or it has none of these entity tags.
    IfNoneMatch(String),
    /// Two conditions. The first that fails determines the error.
    Both(Box<(Self, Self)>),
}

/// The reason for which a condition fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmet {
    /// It requires a current version, and there is none.
    Absent,
    /// It fails for the current version.
    Failed,
}

impl WriteCondition {
    /// Checks the condition against the entity tag of the current version, if there is one.
    ///
    /// # Errors
    /// The reason for which it fails.
    pub fn check(&self, current: Option<&str>) -> Result<(), Unmet> {
        match (self, current) {
            (Self::None, _) | (Self::IfAbsent | Self::IfNoneMatch(_), None) => Ok(()),
            (Self::IfAbsent, Some(_)) => Err(Unmet::Failed),
            (Self::IfMatch(_), None) => Err(Unmet::Absent),
            (Self::IfMatch(list), Some(etag)) => holds(matches_strongly(list, etag)),
            (Self::IfNoneMatch(list), Some(etag)) => holds(!matches_weakly(list, etag)),
            (Self::Both(both), _) => both.0.check(current).and_then(|()| both.1.check(current)),
        }
    }

    /// Whether the outcome depends on the content of the current version, and so reveals something
    /// of it.
    pub fn tells_content(&self) -> bool {
        match self {
            Self::None | Self::IfAbsent => false,
            Self::IfMatch(_) | Self::IfNoneMatch(_) => true,
            Self::Both(both) => both.0.tells_content() || both.1.tells_content(),
        }
    }
}

fn holds(holds: bool) -> Result<(), Unmet> {
    if holds { Ok(()) } else { Err(Unmet::Failed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "\"abc\"";

    #[test]
    fn quotes_and_whitespace_around_a_tag_do_not_count_but_a_single_quote_does() {
        for tag in ["abc", "\"abc\"", " \"abc\" ", "abc "] {
            assert!(same(tag, TAG), "{tag}");
        }
        for tag in ["\"abc", "abc\"", "\"\"abc\"\"", "\"", "", "ABC", "W/\"abc\""] {
            assert!(!same(tag, TAG), "{tag}");
        }
    }

    #[test]
    fn a_list_matches_by_any_of_its_tags_and_weak_ones_match_weakly_alone() {
        for list in ["*", " * ", "\"x\", \"abc\"", "x,abc"] {
            assert!(matches_strongly(list, TAG) && matches_weakly(list, TAG), "{list}");
        }
        for list in ["", "\"x\"", "\"abc", "**"] {
            assert!(!matches_strongly(list, TAG) && !matches_weakly(list, TAG), "{list}");
        }
        assert!(!matches_strongly("W/\"abc\"", TAG) && matches_weakly("\"x\", W/\"abc\"", TAG));
    }

    #[test]
    fn each_condition_holds_or_says_why_not() {
        use WriteCondition::{Both, IfAbsent, IfMatch, IfNoneMatch, None as Nothing};
        let both = |a: &WriteCondition, b: &WriteCondition| Both(Box::new((a.clone(), b.clone())));
        let is = IfMatch("abc".to_owned());
        let is_not = IfNoneMatch("abc".to_owned());
        let other = IfNoneMatch("x".to_owned());
        for (condition, present, absent) in [
            (Nothing, Ok(()), Ok(())),
            (IfAbsent, Err(Unmet::Failed), Ok(())),
            (is.clone(), Ok(()), Err(Unmet::Absent)),
            (IfMatch("x".to_owned()), Err(Unmet::Failed), Err(Unmet::Absent)),
            (is_not.clone(), Err(Unmet::Failed), Ok(())),
            (other.clone(), Ok(()), Ok(())),
            (both(&is, &other), Ok(()), Err(Unmet::Absent)),
            (both(&is, &is_not), Err(Unmet::Failed), Err(Unmet::Absent)),
            (both(&IfAbsent, &is), Err(Unmet::Failed), Err(Unmet::Absent)),
        ] {
            assert_eq!(condition.check(Some(TAG)), present, "{condition:?}");
            assert_eq!(condition.check(None), absent, "{condition:?}");
        }
        assert!(!IfAbsent.tells_content() && !both(&Nothing, &IfAbsent).tells_content());
        assert!(is.tells_content() && is_not.tells_content() && both(&IfAbsent, &is).tells_content());
    }
}
