//! The rules by which objects of a bucket are sent to mirrors of the operator (S3 API reference,
//! PutBucketReplication; S3 user guide, "Replication configuration file elements").

use super::elements::{check_children, child, invalid, missing, text};
use super::rule_filter::RuleFilter;
use super::{ErrorCode, S3Error, XmlConfiguration};
use crate::base::limits::REPLICATION_RULES_MAX;
use crate::xml::{Element, Writer};

/// The stored name of the status that versions have which a mirror wrote, and the name of the
/// header after its prefix (S3 API reference, GetObject, "x-amz-replication-status").
pub const REPLICATION_STATUS: &str = "replication-status";
/// That status.
pub const REPLICA: &str = "REPLICA";

/// ARNs of buckets: the name after it is that of a mirror.
const ARN_PREFIX: &str = "arn:aws:s3:::";
/// The longest id, in characters.
const ID_LEN_MAX_CHARS: usize = 255;

/// The rules of a bucket, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationConfiguration {
    /// The role, which is kept and means nothing: the operator gave the mirror its keys.
    role: String,
    rules: Vec<ReplicationRule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ReplicationRule {
    id: String,
    is_enabled: bool,
    /// `None` in rules of the first version.
    priority: Option<u32>,
    filter: RuleFilter,
    /// `None` where the rule says nothing.
    sends_markers: Option<bool>,
    /// Whether the rule says that it holds for objects that are there. It always does.
    states_existing: bool,
    /// The name of the mirror.
    mirror: String,
}

/// A version that rules are asked about.
#[derive(Debug, Clone, Copy)]
pub struct ReplicationCandidate<'v> {
    pub key: &'v str,
    /// A delete marker has none.
    pub tags: &'v [(String, String)],
    pub delete_marker: bool,
}

impl ReplicationConfiguration {
    /// The names of the mirrors that rules send to; one may occur several times.
    pub fn mirrors(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.mirror)
    }

    /// Whether a rule in force sends to that mirror.
    pub fn names(&self, mirror: &str) -> bool {
        self.enabled(mirror).next().is_some()
    }

    /// Whether some version of that key may be sent to the mirror.
    pub fn may_send(&self, mirror: &str, key: &str) -> bool {
        self.enabled(mirror).any(|rule| key.starts_with(rule.filter.prefix()))
    }

    /// Whether a version is sent to the mirror. Of several rules that apply, the one with the
    /// highest priority decides about delete markers.
    pub fn sends(&self, mirror: &str, version: ReplicationCandidate<'_>) -> bool {
        let rules = self.enabled(mirror).filter(|rule| rule.filter.includes(version.key, version.tags));
        let Some(rule) = rules.max_by_key(|rule| rule.priority) else { return false };
        !version.delete_marker || rule.sends_markers()
    }

    fn enabled<'r>(&'r self, mirror: &'r str) -> impl Iterator<Item = &'r ReplicationRule> {
        self.rules.iter().filter(move |rule| rule.is_enabled && rule.mirror == mirror)
    }

    fn check(&self) -> Result<(), S3Error> {
        for (at, rule) in self.rules.iter().enumerate() {
            let before = &self.rules[..at];
            if before.iter().any(|other| other.id == rule.id) {
                return Err(invalid("Rule Id must be unique. Found same Id for more than one rules"));
            }
            if let Some(priority) = rule.priority
                && before.iter().any(|other| other.priority == rule.priority)
            {
                return Err(invalid(format!("Found duplicate priorities in rules: {priority}")));
            }
            if rule.filter.is_plain_prefix() {
                rule.check_first_version(before)?;
            }
        }
        let first = self.rules.iter().filter(|rule| rule.filter.is_plain_prefix()).count();
        match first == 0 || first == self.rules.len() {
            true => Ok(()),
            false => Err(invalid("All rules have a Filter, or none has.")),
        }
    }
}

impl XmlConfiguration for ReplicationConfiguration {
    const ROOT: &'static str = "ReplicationConfiguration";

    /// Reads the root element.
    ///
    /// # Errors
    /// `MalformedXML` for a missing, repeated or unknown element; `InvalidRequest` for rules that
    /// S3 refuses; `NotImplemented` for what mirrors do not do, by its name.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        check_children(root, &["Role", "Rule"])?;
        let role = text(root, "Role")?.ok_or_else(|| missing("Role"))?;
        let count = root.all("Rule").count();
        if count == 0 {
            return Err(missing("Rule"));
        }
        if count > REPLICATION_RULES_MAX {
            return Err(invalid(format!("A bucket has at most {REPLICATION_RULES_MAX} replication rules.")));
        }
        let mut rules = Vec::new();
        for (rule, number) in root.all("Rule").zip(1_usize..) {
            rules.push(ReplicationRule::parse(rule, number)?);
        }
        let parsed = Self { role, rules };
        parsed.check()?;
        Ok(parsed)
    }

    fn render(&self, document: &mut Writer) {
        document.leaf("Role", &self.role);
        for rule in &self.rules {
            document.element("Rule", |element| rule.render(element));
        }
    }
}

impl ReplicationRule {
    const CHILDREN: [&str; 10] = [
        "ID",
        "Priority",
        "Prefix",
        "Filter",
        "Status",
        "SourceSelectionCriteria",
        "ExistingObjectReplication",
        "DeleteMarkerReplication",
        "DeleteReplication",
        "Destination",
    ];

    fn parse(rule: Element<'_>, number: usize) -> Result<Self, S3Error> {
        check_children(rule, &Self::CHILDREN)?;
        let is_enabled = status(rule)?.ok_or_else(|| missing("Status"))?;
        let destination = child(rule, "Destination")?.ok_or_else(|| missing("Destination"))?;
        if let Some(criteria) = child(rule, "SourceSelectionCriteria")? {
            check_children(criteria, &["SseKmsEncryptedObjects", "ReplicaModifications"])?;
            refuse_enabled(criteria, "SseKmsEncryptedObjects")?;
            refuse_enabled(criteria, "ReplicaModifications")?;
        }
        // An extension of MinIO.
        refuse_enabled(rule, "DeleteReplication")?;
        let states_existing = status_of(rule, "ExistingObjectReplication")?;
        if states_existing == Some(false) {
            return Err(unserved(
                "ExistingObjectReplication",
                "Objects that are there already are sent, too: leave ExistingObjectReplication out.",
            ));
        }
        let rule = Self {
            id: id_of(rule, number)?,
            is_enabled,
            priority: priority_of(rule)?,
            filter: RuleFilter::parse(rule, RuleFilter::OF_OBJECTS)?,
            sends_markers: status_of(rule, "DeleteMarkerReplication")?,
            states_existing: states_existing.is_some(),
            mirror: mirror_of(destination)?,
        };
        rule.check_second_version()?;
        Ok(rule)
    }

    /// Rules with a filter say more than those of the first version.
    fn check_second_version(&self) -> Result<(), S3Error> {
        if self.filter.is_plain_prefix() {
            return Ok(());
        }
        let missing = match (self.priority, self.sends_markers) {
            (None, _) => "Priority",
            (_, None) => "DeleteMarkerReplication",
            (Some(_), Some(true)) if self.filter.has_tags() => {
                return Err(invalid(
                    "Delete marker replication is not supported if any Tag filter is specified.",
                ));
            }
            (Some(_), Some(_)) => return Ok(()),
        };
        Err(invalid(format!(
            "{missing} must be specified for this version of Cross Region Replication configuration schema."
        )))
    }

    /// Rules of the first version have neither priorities nor overlaps.
    fn check_first_version(&self, before: &[Self]) -> Result<(), S3Error> {
        if self.priority.is_some() || self.sends_markers.is_some() {
            return Err(invalid("Priority and DeleteMarkerReplication take a Filter."));
        }
        let prefix = self.filter.prefix();
        let overlapping = before.iter().map(|other| other.filter.prefix());
        match overlapping.into_iter().find(|other| other.starts_with(prefix) || prefix.starts_with(other)) {
            Some(other) => Err(invalid(format!("Found overlapping prefixes '{other}' and '{prefix}'"))),
            None => Ok(()),
        }
    }

    /// Rules of the first version send delete markers.
    fn sends_markers(&self) -> bool {
        self.sends_markers.unwrap_or(true)
    }

    fn render(&self, element: &mut Writer) {
        element.leaf("ID", &self.id);
        if let Some(priority) = self.priority {
            element.plain("Priority", priority);
        }
        self.filter.render(element);
        element.leaf("Status", status_text(self.is_enabled));
        if self.states_existing {
            element.element("ExistingObjectReplication", |it| it.leaf("Status", status_text(true)));
        }
        if let Some(sends) = self.sends_markers {
            element.element("DeleteMarkerReplication", |it| it.leaf("Status", status_text(sends)));
        }
        element.element("Destination", |it| it.leaf("Bucket", &format!("{ARN_PREFIX}{}", self.mirror)));
    }
}

fn id_of(rule: Element<'_>, number: usize) -> Result<String, S3Error> {
    let id = text(rule, "ID")?.filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| format!("rule-{number}"));
    match id.chars().count() <= ID_LEN_MAX_CHARS {
        true => Ok(id),
        false => Err(invalid(format!("An ID has at most {ID_LEN_MAX_CHARS} characters."))),
    }
}

fn priority_of(rule: Element<'_>) -> Result<Option<u32>, S3Error> {
    let Some(priority) = text(rule, "Priority")? else { return Ok(None) };
    let number = priority.trim().parse::<u32>().ok().filter(|number| *number <= i32::MAX as u32);
    number.map(Some).ok_or_else(|| S3Error::malformed_xml("<Priority> is a number from 0 to 2147483647"))
}

/// The mirror that a destination names. Parts that mirrors do not have are refused by name.
fn mirror_of(destination: Element<'_>) -> Result<String, S3Error> {
    const UNSERVED: [&str; 3] = ["Account", "AccessControlTranslation", "EncryptionConfiguration"];
    check_children(
        destination,
        &["Bucket", "StorageClass", "ReplicationTime", "Metrics", UNSERVED[0], UNSERVED[1], UNSERVED[2]],
    )?;
    for name in UNSERVED {
        if child(destination, name)?.is_some() {
            return Err(unserved(name, "The operator configured the mirror, its keys and its bucket."));
        }
    }
    refuse_enabled(destination, "ReplicationTime")?;
    refuse_enabled(destination, "Metrics")?;
    if text(destination, "StorageClass")?.is_some_and(|class| class.trim() != "STANDARD") {
        return Err(unserved("StorageClass", "The target chooses the storage class."));
    }
    let arn = text(destination, "Bucket")?.ok_or_else(|| missing("Bucket"))?;
    match arn.trim().strip_prefix(ARN_PREFIX).filter(|name| !name.is_empty()) {
        Some(name) => Ok(name.to_owned()),
        None => {
            Err(S3Error::invalid_argument("Bucket", &arn, "Invalid bucket ARN. It is arn:aws:s3:::MIRROR."))
        }
    }
}

/// The `Status` of an element: whether it is `Enabled`.
fn status(element: Element<'_>) -> Result<Option<bool>, S3Error> {
    match text(element, "Status")?.as_deref().map(str::trim) {
        None => Ok(None),
        Some("Enabled") => Ok(Some(true)),
        Some("Disabled") => Ok(Some(false)),
        Some(_) => Err(S3Error::malformed_xml("<Status> is Enabled or Disabled")),
    }
}

/// The `Status` of a child that has to have one; `None` without that child.
fn status_of(element: Element<'_>, name: &str) -> Result<Option<bool>, S3Error> {
    let Some(found) = child(element, name)? else { return Ok(None) };
    status(found)?.map(Some).ok_or_else(|| missing("Status"))
}

fn status_text(is_enabled: bool) -> &'static str {
    if is_enabled { "Enabled" } else { "Disabled" }
}

/// Refuses a part that is in force. One that is not says nothing.
fn refuse_enabled(element: Element<'_>, name: &str) -> Result<(), S3Error> {
    match status_of(element, name)? {
        Some(true) => Err(unserved(name, "Mirrors do not do this.")),
        _ => Ok(()),
    }
}

fn unserved(name: &str, message: &str) -> S3Error {
    S3Error::new(ErrorCode::NotImplemented).message(message).element("ArgumentName", name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::Document;

    const TO: &str = "<Destination><Bucket>arn:aws:s3:::away</Bucket></Destination>";
    const ON: &str = "<Status>Enabled</Status>";

    fn parse(rules: &str) -> Result<ReplicationConfiguration, ErrorCode> {
        let text = format!("<ReplicationConfiguration><Role>r</Role>{rules}</ReplicationConfiguration>");
        let document = Document::parse(text.as_bytes()).unwrap();
        ReplicationConfiguration::parse(document.root()).map_err(|error| error.code)
    }

    fn rule(priority: u32, filter: &str, markers: &str) -> String {
        format!(
            "<Rule><ID>{priority}</ID><Priority>{priority}</Priority><Filter>{filter}</Filter>{ON}\
             <DeleteMarkerReplication><Status>{markers}</Status></DeleteMarkerReplication>{TO}</Rule>"
        )
    }

    fn sends(
        rules: &ReplicationConfiguration,
        key: &str,
        tags: &[(&str, &str)],
        delete_marker: bool,
    ) -> bool {
        let tags: Vec<_> = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        rules.sends("away", ReplicationCandidate { key, tags: &tags, delete_marker })
    }

    const TAG: &str = "<Tag><Key>k</Key><Value>v</Value></Tag>";

    #[test]
    fn both_versions_come_back_as_they_were_written() {
        let first = format!("<Rule><ID>a</ID><Prefix>p/</Prefix>{ON}{TO}</Rule>");
        let and = format!("<And><Prefix>a b</Prefix>{TAG}</And>");
        for rules in [first, rule(1, "", "Enabled"), rule(1, TAG, "Disabled"), rule(7, &and, "Disabled")] {
            let parsed = parse(&rules).unwrap();
            let document = String::from_utf8(parsed.to_document()).unwrap();
            assert!(document.contains(&rules.replace("<Filter></Filter>", "<Filter/>")), "{document}");
            assert_eq!(ReplicationConfiguration::from_document(document.as_bytes()), Some(parsed));
        }
    }

    #[test]
    fn the_rule_with_the_highest_priority_decides_about_delete_markers() {
        let both = rule(1, "", "Enabled") + &rule(2, "<Prefix>keep/</Prefix>", "Disabled");
        let rules = parse(&both).unwrap();
        assert!(sends(&rules, "keep/a", &[], false) && sends(&rules, "b", &[], true));
        assert!(!sends(&rules, "keep/a", &[], true));
        assert!(!rules.names("other") && rules.names("away"));
    }

    #[test]
    fn filters_that_s3_refuses_are_refused() {
        let twice = format!("<And>{TAG}{TAG}</And>");
        for (filter, code) in [
            ("<And></And>", ErrorCode::MalformedXML),
            (&*format!("<Prefix>p</Prefix>{TAG}"), ErrorCode::MalformedXML),
            ("<ObjectSizeLessThan>5</ObjectSizeLessThan>", ErrorCode::MalformedXML),
            (&twice, ErrorCode::InvalidRequest),
        ] {
            assert_eq!(parse(&rule(1, filter, "Disabled")), Err(code), "{filter}");
        }
    }

    #[test]
    fn filters_select_by_prefix_and_by_all_tags() {
        let rules = parse(&rule(1, &format!("<And><Prefix>p/</Prefix>{TAG}</And>"), "Disabled")).unwrap();
        assert!(sends(&rules, "p/a", &[("x", "y"), ("k", "v")], false));
        assert!(!sends(&rules, "p/a", &[("k", "w")], false) && !sends(&rules, "q", &[("k", "v")], false));
        assert!(rules.may_send("away", "p/a") && !rules.may_send("away", "q"));
        let off = rule(1, "", "Enabled").replace(ON, "<Status>Disabled</Status>");
        assert!(!sends(&parse(&off).unwrap(), "a", &[], false));
        let first = parse(&format!("<Rule><Prefix/>{ON}{TO}</Rule>")).unwrap();
        assert!(sends(&first, "a", &[], true), "the first version sends delete markers");
    }

    #[test]
    fn what_mirrors_do_not_do_is_refused_by_name_and_its_default_is_taken() {
        for (part, enabled) in
            [("ReplicationTime", ErrorCode::NotImplemented), ("Metrics", ErrorCode::NotImplemented)]
        {
            for (status, expected) in [("Enabled", Some(enabled)), ("Disabled", None)] {
                let more = format!("<{part}><Status>{status}</Status></{part}></Destination>");
                let text = rule(1, "", "Disabled").replace("</Destination>", &more);
                assert_eq!(parse(&text).err(), expected, "{part} {status}");
            }
        }
        for part in ["Account", "AccessControlTranslation", "EncryptionConfiguration"] {
            let text = rule(1, "", "Disabled").replace("</Destination>", &format!("<{part}/></Destination>"));
            assert_eq!(parse(&text).err(), Some(ErrorCode::NotImplemented), "{part}");
        }
        let criteria = "<SourceSelectionCriteria><ReplicaModifications><Status>Enabled</Status>\
            </ReplicaModifications></SourceSelectionCriteria></Rule>";
        let text = rule(1, "", "Disabled").replace("</Rule>", criteria);
        assert_eq!(parse(&text).err(), Some(ErrorCode::NotImplemented));
        let existing =
            "<ExistingObjectReplication><Status>Disabled</Status></ExistingObjectReplication></Rule>";
        let text = rule(1, "", "Disabled").replace("</Rule>", existing);
        assert_eq!(parse(&text).err(), Some(ErrorCode::NotImplemented));
    }

    #[test]
    fn rules_that_s3_refuses_are_refused() {
        let plain = |prefix: &str| format!("<Rule><Prefix>{prefix}</Prefix>{ON}{TO}</Rule>");
        for (rules, expected) in [
            (String::new(), ErrorCode::MalformedXML),
            (format!("<Rule>{ON}{TO}</Rule>"), ErrorCode::MalformedXML),
            (format!("<Rule><Prefix/>{ON}</Rule>"), ErrorCode::MalformedXML),
            (format!("<Rule><Prefix/><Status>On</Status>{TO}</Rule>"), ErrorCode::MalformedXML),
            (rule(1, &format!("<Prefix/>{TAG}"), "Disabled"), ErrorCode::MalformedXML),
            (rule(1, TAG, "Enabled"), ErrorCode::InvalidRequest),
            (format!("<Rule><Filter/>{ON}{TO}</Rule>"), ErrorCode::InvalidRequest),
            (rule(1, "", "Enabled") + &rule(1, "", "Enabled"), ErrorCode::InvalidRequest),
            (plain("a") + &plain("ab"), ErrorCode::InvalidRequest),
            (plain("a") + &rule(1, "", "Enabled"), ErrorCode::InvalidRequest),
            (rule(1, "", "Enabled").replace(":::away", ":::"), ErrorCode::InvalidArgument),
        ] {
            assert_eq!(parse(&rules).err(), Some(expected), "{rules}");
        }
        assert!(parse(&(plain("a") + &plain("b"))).is_ok());
    }
}
