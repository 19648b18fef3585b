//! Rules that forms describe, as parts of the documents of S3.

use super::form;
use super::s3_client::Refusal;
use crate::s3::cors::{CorsConfiguration, CorsRule};
use crate::s3::object_lock::{LockConfiguration, LockMode, LockPeriod};
use crate::s3::website::WebsiteConfiguration;
use crate::s3::{QueryParams, XmlConfiguration};
use crate::xml::Writer;

/// The website of a form: index document and error document. Stored routing rules stay, and a
/// redirection of everything ends.
///
/// # Errors
/// There is no index document; the errors of the documents.
pub(super) fn website(stored: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let index = form::required(fields, "index")?;
    let error = fields.get("error").filter(|error| !error.is_empty());
    let old = parsed::<WebsiteConfiguration>(stored)?;
    let site = WebsiteConfiguration::of_documents(index, error, old.as_ref());
    Ok(document(&site.map_err(|error| Refusal::of_error(&error))?))
}

/// The index document and the error document of a stored website; empty for none.
pub(super) fn website_fields(stored: &str) -> (String, String) {
    match WebsiteConfiguration::from_document(stored.as_bytes()) {
        Some(WebsiteConfiguration::Pages(pages)) => {
            (pages.index_suffix().to_owned(), pages.error_key().unwrap_or_default().to_owned())
        }
        Some(WebsiteConfiguration::RedirectAll { .. }) | None => Default::default(),
    }
}

/// The cross-origin rules with the rule of a form: origins and headers, one a line, and methods.
///
/// # Errors
/// There is no origin or no method, a number is none, or a value is refused by S3.
pub(super) fn with_cors_rule(stored: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let rule = CorsRule {
        origins: lines(fields, "origins"),
        methods: form::all(fields, "method").map(str::to_owned).collect(),
        headers: lines(fields, "headers"),
        expose_headers: lines(fields, "exposed"),
        max_age_secs: number(fields, "max_age")?,
        ..CorsRule::default()
    };
    if rule.origins.is_empty() || rule.methods.is_empty() {
        return Err(Refusal::new(400, "A rule needs an origin and a method."));
    }
    let rules = parsed::<CorsConfiguration>(stored)?.unwrap_or_default().with(rule);
    let rules = rules.map_err(|error| Refusal::of_error(&error))?;
    Ok(document(&rules).replace("><CORSRule>", ">\n<CORSRule>"))
}

/// The policy with a statement of a form: reading below a prefix, for everyone or for a user, who
/// may list there, too.
///
/// # Errors
/// The stored policy is no JSON object with a list of statements, or a field is missing.
pub(super) fn with_statement(stored: &str, bucket: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let prefix = fields.get("prefix").unwrap_or_default();
    if prefix.contains(['*', '?', '$']) {
        return Err(Refusal::new(400, "The prefix has a character with a meaning in policies: * ? $"));
    }
    let objects = format!("arn:aws:s3:::{bucket}/{prefix}*");
    let added = match form::required(fields, "template")? {
        "public" => vec![serde_json::json!({
            "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": objects,
        })],
        "reader" => {
            let user = serde_json::json!({ "AWS": form::required(fields, "user")? });
            let read = serde_json::json!({
                "Effect": "Allow", "Principal": user,
                "Action": ["s3:GetObject", "s3:GetObjectVersion"], "Resource": objects,
            });
            let mut list = serde_json::json!({
                "Effect": "Allow", "Principal": user, "Action": "s3:ListBucket",
                "Resource": format!("arn:aws:s3:::{bucket}"),
            });
            if !prefix.is_empty() {
                list["Condition"] =
                    serde_json::json!({ "StringLike": { "s3:prefix": format!("{prefix}*") } });
            }
            vec![read, list]
        }
        _ => return Err(Refusal::new(400, "There is no such form.")),
    };
    let mut policy = match stored {
        "" => serde_json::json!({ "Version": "2012-10-17", "Statement": [] }),
        stored => serde_json::from_str(stored).map_err(|_| not_mergeable())?,
    };
    // A single statement stands without its list.
    if let Some(single) = policy.get("Statement").filter(|statement| statement.is_object()).cloned() {
        policy["Statement"] = serde_json::Value::Array(vec![single]);
    }
    let statements = policy.get_mut("Statement").and_then(serde_json::Value::as_array_mut);
    let statements = statements.ok_or_else(not_mergeable)?;
    for statement in added {
        if !statements.contains(&statement) {
            statements.push(statement);
        }
    }
    Ok(format!("{policy:#}"))
}

/// The object lock configuration with the default retention of a form; without days none.
///
/// # Errors
/// The mode or the number is none.
pub(super) fn default_retention(fields: &QueryParams) -> Result<String, Refusal> {
    let name = form::required(fields, "mode")?;
    let mode = LockMode::named(name).ok_or_else(|| Refusal::new(400, "There is no such mode."))?;
    let days = number(fields, "days")?;
    let lock = LockConfiguration { default: days.map(|days| (mode, LockPeriod::Days(days.into()))) };
    Ok(document(&lock.checked().map_err(|error| Refusal::of_error(&error))?))
}

pub(super) fn number(fields: &QueryParams, name: &str) -> Result<Option<u32>, Refusal> {
    let given = fields.get(name).map(str::trim).filter(|text| !text.is_empty());
    let parsed =
        given.map(|text| text.parse().map_err(|_| Refusal::new(400, format!("`{text}` is no number."))));
    parsed.transpose()
}

fn lines(fields: &QueryParams, name: &str) -> Vec<String> {
    let lines = fields.get(name).unwrap_or_default().lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The stored configuration; `None` where there is none. One that cannot be read must not be
/// replaced.
fn parsed<C: XmlConfiguration>(stored: &str) -> Result<Option<C>, Refusal> {
    match stored {
        "" => Ok(None),
        stored => C::from_document(stored.as_bytes()).map(Some).ok_or_else(not_mergeable),
    }
}

/// The document of a configuration as people edit it, without a declaration.
pub(super) fn document<C: XmlConfiguration>(configuration: &C) -> String {
    element(C::ROOT, |root| configuration.render(root))
}

/// An element without the declaration of a document.
pub(super) fn element(name: &str, content: impl FnOnce(&mut Writer)) -> String {
    let mut document = Writer::new(name, None);
    content(&mut document);
    let text = String::from_utf8_lossy(&document.finish()).into_owned();
    match text.split_once("?>") {
        Some((_, element)) => element.trim_start().to_owned(),
        None => text,
    }
}

/// The refusal to change a document that this program cannot read.
pub(super) fn not_mergeable() -> Refusal {
    Refusal::new(409, "The stored document has another form. Edit it as text in the settings.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> QueryParams {
        QueryParams::parse(text).unwrap()
    }

    #[test]
    fn a_cross_origin_rule_is_added_to_the_stored_ones() {
        let form = fields("origins=https://a%0D%0Ahttps://b&method=GET&method=PUT&headers=*");
        let one = with_cors_rule("", &form).unwrap();
        assert_eq!(
            one,
            "<CORSConfiguration>\n<CORSRule><AllowedOrigin>https://a</AllowedOrigin><AllowedOrigin>https://b</AllowedOrigin>\
             <AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>*</AllowedHeader></CORSRule>\
             </CORSConfiguration>"
        );
        let two = with_cors_rule(&one, &fields("origins=*&method=GET&max_age=5")).unwrap();
        assert!(two.contains("https://b") && two.contains("<MaxAgeSeconds>5</MaxAgeSeconds>"));
        assert_eq!(with_cors_rule("<Other/>", &form).unwrap_err().status, 409);
        for wrong in ["origins=*", "method=GET", "origins=*&method=PATCH", "origins=*&method=GET&max_age=x"] {
            assert_eq!(with_cors_rule("", &fields(wrong)).unwrap_err().status, 400, "{wrong}");
        }
    }

    #[test]
    fn a_default_retention_has_a_known_mode_and_a_length_that_s3_takes() {
        let lock = |text: &str| default_retention(&fields(text));
        assert!(lock("mode=GOVERNANCE&days=2").unwrap().contains("<Mode>GOVERNANCE</Mode><Days>2</Days>"));
        assert!(!lock("mode=GOVERNANCE&days=").unwrap().contains("<Rule>"));
        for wrong in ["mode=", "mode=OTHER&days=1", "mode=COMPLIANCE&days=0", "mode=COMPLIANCE&days=99999"] {
            assert_eq!(lock(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }

    #[test]
    fn a_website_keeps_its_routing_rules() {
        let form = fields("index=i%26.html&error=");
        let one = website("", &form).unwrap();
        assert_eq!(
            one,
            "<WebsiteConfiguration><IndexDocument><Suffix>i&amp;.html</Suffix></IndexDocument></WebsiteConfiguration>"
        );
        let rule = "<RoutingRule><Condition><KeyPrefixEquals>old/</KeyPrefixEquals></Condition><Redirect>\
            <ReplaceKeyPrefixWith>new/</ReplaceKeyPrefixWith></Redirect></RoutingRule>";
        let stored = format!(
            "<?xml version=\"1.0\"?><WebsiteConfiguration xmlns=\"x\"><IndexDocument><Suffix>a</Suffix></IndexDocument>\
             <ErrorDocument><Key>e.html</Key></ErrorDocument><RoutingRules>{rule}</RoutingRules></WebsiteConfiguration>"
        );
        let changed = website(&stored, &form).unwrap();
        assert!(changed.contains(rule) && !changed.contains("e.html"), "{changed}");
        assert_eq!(website_fields(&stored), ("a".to_owned(), "e.html".to_owned()));
        assert_eq!(website_fields(&changed).0, "i&.html");
        assert_eq!(website_fields("<no"), (String::new(), String::new()));
        assert_eq!(website("<no", &form).unwrap_err().status, 409);
        let moved = "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>h</HostName></RedirectAllRequestsTo></WebsiteConfiguration>";
        assert_eq!(website(moved, &form).unwrap(), one);
        assert!(website("", &fields("error=x")).is_err());
    }

    #[test]
    fn a_statement_is_added_once() {
        let public = fields("template=public&prefix=open/");
        let one = with_statement("", "b", &public).unwrap();
        assert!(one.contains("arn:aws:s3:::b/open/*") && with_statement(&one, "b", &public).unwrap() == one);
        let two = with_statement(&one, "b", &fields("template=reader&user=ada%22&prefix=")).unwrap();
        let policy: serde_json::Value = serde_json::from_str(&two).unwrap();
        assert_eq!(policy["Statement"].as_array().unwrap().len(), 3);
        assert_eq!(policy["Statement"][1]["Principal"]["AWS"], "ada\"");
        let single = r#"{"Statement":{"Effect":"Deny"}}"#;
        let merged: serde_json::Value =
            serde_json::from_str(&with_statement(single, "b", &public).unwrap()).unwrap();
        assert_eq!(merged["Statement"].as_array().unwrap().len(), 2);
        for (stored, form) in [
            ("[]", "template=public"),
            ("", "template=owner"),
            ("", "template=reader"),
            ("", "template=public&prefix=*"),
        ] {
            assert!(with_statement(stored, "b", &fields(form)).is_err(), "{stored} {form}");
        }
    }
}
