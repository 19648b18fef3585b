//! The documents of a bucket in words: what is in force, a sentence for each rule.

use super::grant_words::{action_in_words, resource_in_words};
use super::text;
use crate::s3::XmlConfiguration as _;
use crate::s3::cors::CorsConfiguration;
use crate::s3::object_lock::{LockConfiguration, LockMode};
use crate::s3::website::WebsiteConfiguration;

/// The statements of a bucket policy: `Everyone may read objects: all objects of b`.
pub(super) fn policy(text: &str) -> Vec<String> {
    let policy: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    match &policy["Statement"] {
        serde_json::Value::Array(statements) => statements.iter().map(statement).collect(),
        // A single statement stands without its list.
        single if single.is_object() => vec![statement(single)],
        _ => Vec::new(),
    }
}

fn statement(statement: &serde_json::Value) -> String {
    let who = match principals(&statement["Principal"]) {
        names if !names.is_empty() => names,
        _ => format!("Everyone but {}", principals(&statement["NotPrincipal"])),
    };
    let verb = if statement["Effect"] == "Deny" { "may not" } else { "may" };
    let actions = texts(&statement["Action"]);
    let actions = match &*actions {
        [] => {
            format!("do anything but {}", in_words(&texts(&statement["NotAction"]), "s3:", action_in_words))
        }
        ["*" | "s3:*"] => "do everything".to_owned(),
        actions => in_words(actions, "s3:", action_in_words),
    };
    let resources = texts(&statement["Resource"]);
    let resources = match resources.is_empty() {
        true => format!("all but {}", in_words(&texts(&statement["NotResource"]), ARN, resource_in_words)),
        false => in_words(&resources, ARN, resource_in_words),
    };
    let conditions = if statement["Condition"].is_object() { ", under conditions" } else { "" };
    format!("{who} {verb} {actions}: {resources}{conditions}")
}

/// The beginning of the names of buckets and objects in policies.
const ARN: &str = "arn:aws:s3:::";

/// The names of principals; empty for none.
fn principals(value: &serde_json::Value) -> String {
    let names = match value {
        serde_json::Value::Object(kinds) => kinds.values().flat_map(texts).collect(),
        other => texts(other),
    };
    match names.contains(&"*") {
        true => "Everyone".to_owned(),
        false => names.join(", "),
    }
}

/// A text, or the texts of a list.
fn texts(value: &serde_json::Value) -> Vec<&str> {
    match value {
        serde_json::Value::Array(list) => list.iter().filter_map(serde_json::Value::as_str).collect(),
        other => other.as_str().into_iter().collect(),
    }
}

fn in_words(names: &[&str], beginning: &str, words: fn(&str) -> String) -> String {
    let named = names.iter().map(|name| words(name.strip_prefix(beginning).unwrap_or(name)));
    named.collect::<Vec<_>>().join(", ")
}

/// The cross-origin rules: `Pages of https://a.example may send GET and PUT`.
pub(super) fn cors(text: &str) -> Vec<String> {
    let rules = CorsConfiguration::from_document(text.as_bytes()).unwrap_or_default();
    let sentences = rules.rules().iter().map(|rule| {
        let all = rule.origins.iter().any(|origin| origin == "*");
        let origins = if all { "all sites".to_owned() } else { rule.origins.join(", ") };
        format!("Pages of {origins} may send {}", rule.methods.join(", "))
    });
    sentences.collect()
}

/// The object lock of a bucket.
pub(super) fn object_lock(text: &str) -> String {
    if text.is_empty() {
        return "Object lock is off: versions can be deleted at any time.".to_owned();
    }
    match LockConfiguration::from_document(text.as_bytes()).and_then(|lock| lock.default) {
        None => "Object lock is on. New versions are locked only where a program asks for it.".to_owned(),
        Some((mode, period)) => {
            let days = text::days(period.days());
            let who = match mode {
                LockMode::Governance => "governance: users with a special permission may shorten it",
                LockMode::Compliance => "compliance: nobody may shorten it",
            };
            format!("New versions can be neither replaced nor deleted for {days} ({who}).")
        }
    }
}

/// The website of a bucket; `None` without one.
pub(super) fn website(text: &str) -> Option<String> {
    match WebsiteConfiguration::from_document(text.as_bytes())? {
        WebsiteConfiguration::RedirectAll { host, .. } => Some(format!("All requests are led to {host}.")),
        WebsiteConfiguration::Pages(pages) => {
            let errors = match pages.error_key() {
                Some(key) => format!("errors show {key}"),
                None => "errors have a plain page".to_owned(),
            };
            Some(format!("Each folder shows its {}, and {errors}.", pages.index_suffix()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_as_what_they_allow_or_refuse() {
        let told = policy(
            r#"{"Statement":[
                {"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/open/*"},
                {"Effect":"Deny","Principal":{"AWS":["ada","arn:aws:iam::1:user/bob"]},"Action":["s3:DeleteObject","s3:PutObject"],
                 "Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"],"Condition":{"Bool":{"aws:SecureTransport":"false"}}},
                {"Effect":"Deny","NotPrincipal":{"AWS":"ada"},"NotAction":"s3:GetObject","NotResource":"arn:aws:s3:::b/k"}]}"#,
        );
        assert_eq!(
            told,
            [
                "Everyone may read objects: objects of b that begin with open/",
                "ada, arn:aws:iam::1:user/bob may not delete objects, write objects: the bucket b, all objects of b, under conditions",
                "Everyone but ada may not do anything but read objects: all but the object k of b",
            ]
        );
        let single =
            r#"{"Statement":{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"*","Resource":"*"}}"#;
        assert_eq!(policy(single), ["Everyone may do everything: everywhere"]);
        for other in ["", "{}", "[", "{\"Statement\":7}"] {
            assert!(policy(other).is_empty(), "{other}");
        }
    }

    #[test]
    fn documents_are_told_and_others_are_nothing() {
        let rule = "<CORSRule><AllowedOrigin>https://a.example</AllowedOrigin><AllowedOrigin>https://b.example</AllowedOrigin>\
            <AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod></CORSRule>";
        let every = "<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule>";
        assert_eq!(
            cors(&format!("<CORSConfiguration>{rule}{every}</CORSConfiguration>")),
            [
                "Pages of https://a.example, https://b.example may send GET, PUT",
                "Pages of all sites may send GET"
            ]
        );
        assert!(cors("<no").is_empty() && website("<no").is_none() && website("").is_none());
        let lock = |rule: &str| {
            object_lock(&format!(
                "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>{rule}</ObjectLockConfiguration>"
            ))
        };
        let days = "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>";
        assert!(lock(days).contains("for 1 day (compliance: nobody"), "{}", lock(days));
        assert!(
            lock("").starts_with("Object lock is on.") && object_lock("").starts_with("Object lock is off")
        );
        let site = "<WebsiteConfiguration><IndexDocument><Suffix>i.html</Suffix></IndexDocument></WebsiteConfiguration>";
        assert_eq!(website(site).unwrap(), "Each folder shows its i.html, and errors have a plain page.");
        let moved = "<WebsiteConfiguration><RedirectAllRequestsTo><HostName>h</HostName></RedirectAllRequestsTo></WebsiteConfiguration>";
        assert_eq!(website(moved).unwrap(), "All requests are led to h.");
    }
}
