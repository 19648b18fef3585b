//! The configurations of a bucket, after its objects: what the server takes is set, and what it does
//! not take is told.
//!
//! The order matters: a default retention would lock what is still to come, and rules of a lifecycle
//! would take it, so that both are set when everything is there.

use serde_json::Value;
use siltstone::transfer::{PeerError, PeerLink, Tags, put_tags, tags_of};
use siltstone::xml::Document;

use super::super::threads::Transfer;
use super::target::{MARK, put_document};
use crate::minio::format::bucket_metadata::{BucketMetadata, SUBRESOURCES};

/// The configurations that have no counterpart, and why.
const UNKEPT: [(&str, &str); 3] = [
    ("NotificationConfigXML", "events go to webhooks, which are set up in the server's configuration"),
    ("ReplicationConfigXML", "a mirror of the bucket takes its place"),
    ("BucketTargetsConfigJSON", "the targets of replication; a mirror takes its place"),
];
/// The documents that are put as they are, before the policy.
const PLAIN: [&str; 6] = [
    "ObjectLockConfigXML",
    "CorsConfigXML",
    "EncryptionConfigXML",
    "WebsiteConfigXML",
    "OwnershipControlsConfigXML",
    "LoggingConfigXML",
];
/// Refuses policies for everybody, so that it is put after the policy, which it may contradict.
const ACCESS_BLOCK: &str = "PublicAccessBlockConfigXML";
/// The elements of a versioning document that MinIO alone knows.
const PREFIX_EXCEPTIONS: [&str; 2] = ["ExcludedPrefixes", "ExcludeFolders"];
/// What makes a rule of a lifecycle one that is not known here.
const STRANGE_IN_RULES: [&str; 4] =
    ["Transition>", "DelMarkerExpiration", "ExpiredObjectAllVersions", "AllVersionsExpiration"];

/// The configurations of one bucket, on their way to a bucket that this import made.
pub(in super::super) struct Configuring<'c, 'p> {
    pub(in super::super) bucket: &'c str,
    pub(in super::super) metadata: &'c BucketMetadata,
    pub(in super::super) link: &'c mut PeerLink<'p>,
    pub(in super::super) transfer: &'c Transfer,
}

impl Configuring<'_, '_> {
    /// Sets all of them.
    pub(in super::super) fn run(&mut self) {
        self.versioning();
        self.tags();
        self.quota();
        for field in PLAIN {
            self.put(field);
        }
        self.policy();
        self.put(ACCESS_BLOCK);
        for (field, why) in UNKEPT {
            if self.metadata.documents.contains_key(field) {
                self.transfer.report().remark("configurations not kept", &self.name(field), why);
            }
        }
        self.lifecycle();
    }

    fn text(&self, field: &str) -> Option<String> {
        let document = self.metadata.documents.get(field)?;
        Some(String::from_utf8_lossy(document).into_owned())
    }

    /// A configuration in reports.
    fn name(&self, field: &str) -> String {
        let kind = field.trim_end_matches("XML").trim_end_matches("JSON").trim_end_matches("Config");
        format!("{}, {}", self.bucket, kind.to_ascii_lowercase())
    }

    fn refused(&self, field: &str, error: PeerError, document: &str) {
        let why = format!("{}; it is {document}", error.text());
        self.transfer.report().find("configurations refused", &self.name(field), &why);
    }

    fn versioning(&mut self) {
        const FIELD: &str = "VersioningConfigXML";
        let Some(document) = self.text(FIELD) else { return };
        for exception in PREFIX_EXCEPTIONS {
            if document.contains(exception) {
                let why = format!("{exception}: all keys have versions");
                self.transfer.report().remark("configurations not kept", &self.name(FIELD), &why);
            }
        }
        if document.contains("<Status>Suspended</Status>") {
            let suspended = "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>";
            if let Err(error) = put_document(self.link, "", &[("versioning", "")], suspended.as_bytes()) {
                self.refused(FIELD, error, suspended);
            }
        }
    }

    fn put(&mut self, field: &str) {
        let Some(document) = self.text(field) else { return };
        let known = SUBRESOURCES.into_iter().find(|(of, _)| *of == field);
        let Some((_, subresource)) = known else { return };
        if let Err(error) = put_document(self.link, "", &[(subresource, "")], document.as_bytes()) {
            self.refused(field, error, &document);
        }
    }

    /// The tags, beside that of the import.
    fn tags(&mut self) {
        const FIELD: &str = "TaggingConfigXML";
        let Some(text) = self.text(FIELD) else { return };
        let mark = tags_of(self.link, "", None).ok().flatten().unwrap_or_default();
        let mut tags: Tags = mark.into_iter().filter(|(name, _)| name == MARK).collect();
        if let Ok(document) = Document::parse(text.as_bytes()) {
            for set in document.root().children() {
                for tag in set.children() {
                    let value =
                        |name: &str| tag.child_text(name).ok().flatten().unwrap_or_default().into_owned();
                    tags.push((value("Key"), value("Value")));
                }
            }
        }
        tags.sort();
        if let Err(error) = put_tags(self.link, "", None, &tags) {
            self.refused(FIELD, error, &text);
        }
    }

    fn quota(&mut self) {
        const FIELD: &str = "QuotaConfigJSON";
        let Some(text) = self.text(FIELD) else { return };
        let quota: Value = serde_json::from_str(&text).unwrap_or_default();
        let number = |name: &str| quota[name].as_u64().filter(|number| *number > 0);
        if number("rate").is_some() || number("requests").is_some() || quota["quotatype"] == "fifo" {
            let why = "rates, requests and quotas that delete the oldest objects are not known";
            self.transfer.report().remark("configurations not kept", &self.name(FIELD), why);
        }
        let Some(bytes) = number("size").or(number("quota")).filter(|_| quota["quotatype"] != "fifo") else {
            return;
        };
        let document = format!("{{\"bytes\":{bytes}}}");
        if let Err(error) = put_document(self.link, "", &[("quota", "")], document.as_bytes()) {
            self.refused(FIELD, error, &text);
        }
    }

    /// A policy that is refused leaves the bucket private.
    fn policy(&mut self) {
        const FIELD: &str = "PolicyConfigJSON";
        let Some(text) = self.text(FIELD) else { return };
        if let Err(error) = put_document(self.link, "", &[("policy", "")], text.as_bytes()) {
            if text.contains("\"Deny\"") {
                let why = "it denies something, so that grants of users reach further without it";
                self.transfer.report().find("configurations refused", &self.name(FIELD), why);
            }
            self.refused(FIELD, error, &text);
        }
    }

    /// The rules; those that are not known here are left out, and named.
    fn lifecycle(&mut self) {
        const FIELD: &str = "LifecycleConfigXML";
        let Some(text) = self.text(FIELD) else { return };
        let (kept, strange) = rules_of(&text);
        for rule in strange {
            self.transfer.report().find(
                "configurations refused",
                &self.name(FIELD),
                &format!("the rule {rule}"),
            );
        }
        if kept.is_empty() {
            return;
        }
        let document = format!("<LifecycleConfiguration>{}</LifecycleConfiguration>", kept.concat());
        if let Err(error) = put_document(self.link, "", &[("lifecycle", "")], document.as_bytes()) {
            self.refused(FIELD, error, &document);
        }
    }
}

/// The rules that are known here, and the others.
fn rules_of(document: &str) -> (Vec<&str>, Vec<&str>) {
    const START: &str = "<Rule>";
    const END: &str = "</Rule>";
    let mut rules = Vec::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once(START) {
        let Some((_, next)) = after.split_once(END) else { break };
        let start = document.len() - after.len() - START.len();
        rules.push(&document[start..document.len() - next.len()]);
        rest = next;
    }
    rules.into_iter().partition(|rule| !STRANGE_IN_RULES.iter().any(|strange| rule.contains(strange)))
}

#[cfg(test)]
mod tests {
    use super::rules_of;

    #[test]
    fn rules_that_are_not_known_are_told_apart() {
        let known = "<Rule><ID>a</ID><Expiration><Days>1</Days></Expiration></Rule>";
        let strange = "<Rule><ID>b</ID><Transition><Days>1</Days></Transition></Rule>";
        let document = format!(
            "<LifecycleConfiguration>{known}{strange}<ExpiryUpdatedAt>x</ExpiryUpdatedAt></LifecycleConfiguration>"
        );
        assert_eq!(rules_of(&document), (vec![known], vec![strange]));
        assert_eq!(rules_of("<Rule>"), (vec![], vec![]));
    }
}
