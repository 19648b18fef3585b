//! Rules that forms describe, as parts of the documents of S3.

use std::borrow::Cow;

use super::form;
use super::s3_client::Refusal;
use crate::s3::QueryParams;
use crate::xml::{Document, Writer};

/// The lifecycle rules with the rule of a form.
///
/// # Errors
/// As [`lifecycle_rule`].
pub(super) fn with_lifecycle_rule(stored: &str, fields: &QueryParams) -> Result<String, Refusal> {
    inserted(stored, "LifecycleConfiguration", &lifecycle_rule(fields)?)
}

/// The rule of a form: prefix, days, days of older versions, days of uploads.
///
/// # Errors
/// The form asks for nothing, or a number is none.
pub(super) fn lifecycle_rule(fields: &QueryParams) -> Result<String, Refusal> {
    let days = number(fields, "days")?;
    let noncurrent = number(fields, "noncurrent_days")?;
    let abort = number(fields, "abort_days")?;
    if (days, noncurrent, abort) == (None, None, None) {
        return Err(Refusal::new(400, "Give at least one number of days."));
    }
    let status = if fields.get("status") == Some("Disabled") { "Disabled" } else { "Enabled" };
    Ok(element("Rule", |rule| {
        if let Some(id) = fields.get("id").filter(|id| !id.is_empty()) {
            rule.leaf("ID", id);
        }
        rule.element("Filter", |filter| {
            filter.leaf("Prefix", fields.get("prefix").unwrap_or_default());
        });
        rule.leaf("Status", status);
        let parts = [
            ("Expiration", "Days", days),
            ("NoncurrentVersionExpiration", "NoncurrentDays", noncurrent),
            ("AbortIncompleteMultipartUpload", "DaysAfterInitiation", abort),
        ];
        for (action, name, days) in parts {
            let Some(days) = days else { continue };
            rule.element(action, |action| action.plain(name, days));
        }
    }))
}

/// The website of a form: index document and error document. Stored routing rules stay, and a
/// redirection of everything ends.
///
/// # Errors
/// There is no index document.
pub(super) fn website(stored: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let index = form::required(fields, "index")?;
    let document = element("WebsiteConfiguration", |site| {
        site.element("IndexDocument", |document| document.leaf("Suffix", index));
        if let Some(error) = fields.get("error").filter(|error| !error.is_empty()) {
            site.element("ErrorDocument", |document| document.leaf("Key", error));
        }
    });
    let routing = stored.find("<RoutingRules>").zip(stored.rfind("</RoutingRules>"));
    match routing.and_then(|(begin, end)| stored.get(begin..end)) {
        Some(rules) => inserted(&document, "WebsiteConfiguration", &format!("{rules}</RoutingRules>")),
        None => Ok(document),
    }
}

/// The index document and the error document of a stored website; empty for none.
pub(super) fn website_fields(stored: &str) -> (String, String) {
    let Ok(document) = Document::parse(stored.as_bytes()) else { return Default::default() };
    let of = |element: &str, name: &str| {
        let part = document.root().child(element).ok()??;
        part.child_text(name).ok()?.map(Cow::into_owned)
    };
    (of("IndexDocument", "Suffix").unwrap_or_default(), of("ErrorDocument", "Key").unwrap_or_default())
}

/// The cross-origin rules with the rule of a form: origins and headers, one a line, and methods.
///
/// # Errors
/// There is no origin or no method, or a number is none.
pub(super) fn with_cors_rule(stored: &str, fields: &QueryParams) -> Result<String, Refusal> {
    let origins = lines(fields, "origins");
    let methods = form::all(fields, "method").collect::<Vec<_>>();
    if origins.is_empty() || methods.is_empty() {
        return Err(Refusal::new(400, "A rule needs an origin and a method."));
    }
    let age = number(fields, "max_age")?;
    let rule = element("CORSRule", |rule| {
        origins.iter().for_each(|origin| rule.leaf("AllowedOrigin", origin));
        methods.iter().for_each(|method| rule.leaf("AllowedMethod", method));
        lines(fields, "headers").iter().for_each(|header| rule.leaf("AllowedHeader", header));
        lines(fields, "exposed").iter().for_each(|header| rule.leaf("ExposeHeader", header));
        if let Some(age) = age {
            rule.plain("MaxAgeSeconds", age);
        }
    });
    inserted(stored, "CORSConfiguration", &rule)
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
    let new = || serde_json::json!({ "Version": "2012-10-17", "Statement": [] });
    let mut policy = match stored {
        "" => new(),
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
/// The number is none.
pub(super) fn default_retention(fields: &QueryParams) -> Result<String, Refusal> {
    let mode = form::required(fields, "mode")?;
    let days = number(fields, "days")?;
    let document = element("ObjectLockConfiguration", |lock| {
        lock.leaf("ObjectLockEnabled", "Enabled");
        let Some(days) = days else { return };
        lock.element("Rule", |rule| {
            rule.element("DefaultRetention", |retention| {
                retention.leaf("Mode", mode);
                retention.plain("Days", days);
            });
        });
    });
    Ok(document)
}

fn number(fields: &QueryParams, name: &str) -> Result<Option<u32>, Refusal> {
    let given = fields.get(name).map(str::trim).filter(|text| !text.is_empty());
    let parsed =
        given.map(|text| text.parse().map_err(|_| Refusal::new(400, format!("`{text}` is no number."))));
    parsed.transpose()
}

fn lines<'f>(fields: &'f QueryParams, name: &str) -> Vec<&'f str> {
    let lines = fields.get(name).unwrap_or_default().lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

/// An element without the declaration of a document.
fn element(name: &str, content: impl FnOnce(&mut Writer)) -> String {
    let mut document = Writer::new(name, None);
    content(&mut document);
    let text = String::from_utf8_lossy(&document.finish()).into_owned();
    text.split_once("?>").map_or(text.clone(), |(_, element)| element.trim_start().to_owned())
}

/// A document with a further child at its end.
fn inserted(stored: &str, root: &str, child: &str) -> Result<String, Refusal> {
    if stored.is_empty() {
        return Ok(format!("<{root}>\n{child}\n</{root}>"));
    }
    let (before, after) = stored.rsplit_once(&format!("</{root}>")).ok_or_else(not_mergeable)?;
    Ok(format!("{before}\n{child}\n</{root}>{after}"))
}

fn not_mergeable() -> Refusal {
    Refusal::new(409, "The stored document has another form. Edit it as text in the settings.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> QueryParams {
        QueryParams::parse(text).unwrap()
    }

    #[test]
    fn a_rule_is_added_to_the_stored_ones() {
        let one = with_lifecycle_rule("", &fields("prefix=a%26b/&days=30&abort_days=7&id=first")).unwrap();
        let rule = "<Rule><ID>first</ID><Filter><Prefix>a&amp;b/</Prefix></Filter><Status>Enabled</Status>\
                    <Expiration><Days>30</Days></Expiration><AbortIncompleteMultipartUpload>\
                    <DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>";
        assert_eq!(one, format!("<LifecycleConfiguration>\n{rule}\n</LifecycleConfiguration>"));
        let two = with_lifecycle_rule(&one, &fields("noncurrent_days=1")).unwrap();
        assert!(two.contains(rule) && two.contains("<NoncurrentDays>1</NoncurrentDays>"));
        for wrong in ["", "prefix=a", "days=-1", "days=x"] {
            assert!(with_lifecycle_rule("", &fields(wrong)).is_err(), "{wrong}");
        }
        assert!(with_cors_rule("<Other/>", &fields("origins=*&method=GET")).is_err());
        let cors =
            with_cors_rule("", &fields("origins=https://a%0D%0Ahttps://b&method=GET&method=PUT&headers=*"));
        assert_eq!(
            cors.unwrap(),
            "<CORSConfiguration>\n<CORSRule><AllowedOrigin>https://a</AllowedOrigin><AllowedOrigin>https://b</AllowedOrigin>\
             <AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>*</AllowedHeader></CORSRule>\n\
             </CORSConfiguration>"
        );
    }

    #[test]
    fn a_website_keeps_its_routing_rules() {
        let form = fields("index=i%26.html&error=");
        let one = website("", &form).unwrap();
        assert_eq!(
            one,
            "<WebsiteConfiguration><IndexDocument><Suffix>i&amp;.html</Suffix></IndexDocument></WebsiteConfiguration>"
        );
        let stored = "<?xml version=\"1.0\"?><WebsiteConfiguration xmlns=\"x\"><IndexDocument><Suffix>a</Suffix></IndexDocument>\
            <ErrorDocument><Key>e.html</Key></ErrorDocument><RoutingRules><RoutingRule/></RoutingRules></WebsiteConfiguration>";
        let changed = website(stored, &form).unwrap();
        assert!(
            changed.contains("<RoutingRules><RoutingRule/></RoutingRules>") && !changed.contains("e.html")
        );
        assert_eq!(website_fields(stored), ("a".to_owned(), "e.html".to_owned()));
        assert_eq!(website_fields(&changed).0, "i&.html");
        assert_eq!(website_fields("<no"), (String::new(), String::new()));
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
