//! Claims of tokens of OpenID providers, by their names.

use serde_json::{Map, Value};

/// The claim that is called `path`, or else the one to which the names lead that `path` has between
/// its dots.
pub fn claim_at<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    // A name with dots may also be a claim's own.
    claims.get(path).or_else(|| nested(claims, path))
}

fn nested<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    let (first, rest) = path.split_once('.')?;
    let mut value = claims.get(first)?;
    for name in rest.split('.') {
        value = value.get(name)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_found_by_a_name_or_a_way() {
        let claims = serde_json::json!({"role": "b", "realm_access": {"roles": ["c"]}, "https://x.y/z": "d"});
        let found = |path: &str| claim_at(claims.as_object().unwrap(), path).map(Value::to_string);
        assert_eq!(found("role").as_deref(), Some("\"b\""));
        assert_eq!(found("realm_access.roles").as_deref(), Some("[\"c\"]"));
        assert_eq!(found("https://x.y/z").as_deref(), Some("\"d\""));
        for none in ["none", "role.x", "realm_access.none", "realm_access.roles.0", ""] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
