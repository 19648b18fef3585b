//! The documents and headers of object lock (S3 user guide, "Locking objects with Object Lock").

use super::{ErrorCode, S3Error, VendorHeaders, XmlConfiguration};
use crate::base::Timestamp;
use crate::xml::{Element, Writer};

/// The longest default retention in days (S3 API reference, DefaultRetention; a year counts 365).
const DAYS_MAX: u64 = 36_500;
const YEAR_DAYS: u64 = 365;

/// The mode of a retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Those with `BypassGovernanceRetention` may end it early.
    Governance,
    /// It cannot be ended early.
    Compliance,
}

/// A retention that a client states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRetention {
    pub mode: LockMode,
    /// Its end.
    pub until: Timestamp,
}

/// The period that new objects of a bucket are retained for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockPeriod {
    Days(u64),
    /// Years of 365 days.
    Years(u64),
}

/// The object lock of a bucket, with the retention of new objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockConfiguration {
    /// The default retention.
    pub default: Option<(LockMode, LockPeriod)>,
}

/// The object lock headers of a new object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockHeaders {
    pub retention: Option<LockRetention>,
    pub legal_hold: Option<bool>,
}

impl LockMode {
    /// The name in documents and headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Governance => "GOVERNANCE",
            Self::Compliance => "COMPLIANCE",
        }
    }

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Governance, Self::Compliance].into_iter().find(|mode| mode.as_str() == name)
    }
}

impl LockPeriod {
    /// Its length in days.
    pub fn days(self) -> u64 {
        match self {
            Self::Days(days) => days,
            Self::Years(years) => years.saturating_mul(YEAR_DAYS),
        }
    }

    fn parse(days: Option<&str>, years: Option<&str>) -> Result<Self, S3Error> {
        let (name, text) = match (days, years) {
            (Some(days), None) => ("Days", days),
            (None, Some(years)) => ("Years", years),
            _ => return Err(S3Error::malformed_xml("a default retention has either Days or Years")),
        };
        let Ok(given) = text.trim().parse::<i64>() else {
            return Err(S3Error::malformed_xml("a period is a whole number"));
        };
        let length = u64::try_from(given).ok().filter(|length| *length > 0).ok_or_else(|| {
            let message = "Default retention period must be a positive integer value.";
            S3Error::invalid_argument(name, &given.to_string(), message)
        })?;
        let period = if name == "Days" { Self::Days(length) } else { Self::Years(length) };
        match period.days() {
            ..=DAYS_MAX => Ok(period),
            _ => Err(S3Error::new(ErrorCode::InvalidRetentionPeriod)),
        }
    }
}

impl XmlConfiguration for LockConfiguration {
    const ROOT: &'static str = "ObjectLockConfiguration";

    /// Reads the element `ObjectLockConfiguration`.
    ///
    /// # Errors
    /// `MalformedXML`; `InvalidArgument` and `InvalidRetentionPeriod` for the length of the period.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        check_names(root, &["ObjectLockEnabled", "Rule"])?;
        if text(root, "ObjectLockEnabled")?.as_deref() != Some("Enabled") {
            return Err(S3Error::malformed_xml("ObjectLockEnabled is Enabled"));
        }
        let Some(rule) = child(root, "Rule")? else { return Ok(Self::default()) };
        check_names(rule, &["DefaultRetention"])?;
        let retention = child(rule, "DefaultRetention")?
            .ok_or_else(|| S3Error::malformed_xml("a Rule has a DefaultRetention"))?;
        check_names(retention, &["Mode", "Days", "Years"])?;
        let mode = mode(retention)?.ok_or_else(|| S3Error::malformed_xml("there is no Mode"))?;
        let days = text(retention, "Days")?;
        let years = text(retention, "Years")?;
        let period = LockPeriod::parse(days.as_deref(), years.as_deref())?;
        Ok(Self { default: Some((mode, period)) })
    }

    fn render(&self, document: &mut Writer) {
        document.leaf("ObjectLockEnabled", "Enabled");
        let Some((mode, period)) = self.default else { return };
        document.element("Rule", |rule| {
            rule.element("DefaultRetention", |retention| {
                retention.leaf("Mode", mode.as_str());
                match period {
                    LockPeriod::Days(days) => retention.plain("Days", days),
                    LockPeriod::Years(years) => retention.plain("Years", years),
                }
            });
        });
    }
}

impl LockRetention {
    /// The name of the root element.
    pub const ROOT: &'static str = "Retention";

    /// Reads the element `Retention`; `None` for an empty one, which removes the retention.
    ///
    /// # Errors
    /// `MalformedXML`.
    pub fn parse(root: Element<'_>) -> Result<Option<Self>, S3Error> {
        check_names(root, &["Mode", "RetainUntilDate"])?;
        match (mode(root)?, text(root, "RetainUntilDate")?) {
            (None, None) => Ok(None),
            (Some(mode), Some(date)) => {
                let until = Timestamp::parse_iso8601(&date);
                let until = until.ok_or_else(|| S3Error::malformed_xml("RetainUntilDate is no date"))?;
                Ok(Some(Self { mode, until }))
            }
            _ => Err(S3Error::malformed_xml("a Retention has a Mode and a RetainUntilDate")),
        }
    }

    /// Writes the retention below the root element.
    pub fn render(self, document: &mut Writer) {
        document.leaf("Mode", self.mode.as_str());
        document.plain("RetainUntilDate", self.until);
    }
}

/// The name of the root element of a legal hold.
pub const LEGAL_HOLD_ROOT: &str = "LegalHold";

/// Reads the element `LegalHold`.
///
/// # Errors
/// `MalformedXML`.
pub fn parse_legal_hold(root: Element<'_>) -> Result<bool, S3Error> {
    check_names(root, &["Status"])?;
    let status = text(root, "Status")?;
    status.as_deref().and_then(held).ok_or_else(|| S3Error::malformed_xml("Status is ON or OFF"))
}

/// The name of a legal hold.
pub fn legal_hold_name(held: bool) -> &'static str {
    if held { "ON" } else { "OFF" }
}

fn held(name: &str) -> Option<bool> {
    [true, false].into_iter().find(|held| legal_hold_name(*held) == name)
}

/// The headers of a retention and of a legal hold, without their prefix.
const MODE_HEADER: &str = "object-lock-mode";
const DATE_HEADER: &str = "object-lock-retain-until-date";
const HOLD_HEADER: &str = "object-lock-legal-hold";

impl LockHeaders {
    /// Reads the headers `p-object-lock-mode`, `p-object-lock-retain-until-date` and
    /// `p-object-lock-legal-hold`.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn parse(headers: VendorHeaders<'_>) -> Result<Self, S3Error> {
        let text = |name| headers.get(name).map(|value| str::from_utf8(value).unwrap_or_default());
        let retention = match (text(MODE_HEADER), text(DATE_HEADER)) {
            (None, None) => None,
            (Some(mode), Some(date)) => Some(LockRetention {
                mode: LockMode::named(mode)
                    .ok_or_else(|| invalid(headers, MODE_HEADER, mode, "Unknown wormMode directive."))?,
                until: Timestamp::parse_iso8601(date).ok_or_else(|| {
                    let message = "The retain until date must be provided in ISO 8601 format.";
                    invalid(headers, DATE_HEADER, date, message)
                })?,
            }),
            (mode, _) => {
                let missing = if mode.is_some() { DATE_HEADER } else { MODE_HEADER };
                let message =
                    "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied.";
                return Err(invalid(headers, missing, "", message));
            }
        };
        let hold = text(HOLD_HEADER).map(|name| {
            let message = "Legal Hold must be either of 'ON' or 'OFF'.";
            held(name).ok_or_else(|| invalid(headers, HOLD_HEADER, name, message))
        });
        Ok(Self { retention, legal_hold: hold.transpose()? })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn invalid(headers: VendorHeaders<'_>, name: &str, value: &str, message: &str) -> S3Error {
    let header = format!("{}{name}", headers.dialect().header_prefix());
    S3Error::invalid_argument(&header, value, message)
}

fn mode(element: Element<'_>) -> Result<Option<LockMode>, S3Error> {
    let Some(name) = text(element, "Mode")? else { return Ok(None) };
    match LockMode::named(&name) {
        Some(mode) => Ok(Some(mode)),
        None => Err(S3Error::malformed_xml("Mode is GOVERNANCE or COMPLIANCE")),
    }
}

fn text(element: Element<'_>, name: &str) -> Result<Option<String>, S3Error> {
    let text = element.child_text(name).map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
    Ok(text.map(|text| text.trim().to_owned()))
}

fn child<'d>(element: Element<'d>, name: &str) -> Result<Option<Element<'d>>, S3Error> {
    element.child(name).map_err(|error| S3Error::malformed_xml(&error.to_string()))
}

fn check_names(element: Element<'_>, known: &[&str]) -> Result<(), S3Error> {
    match element.children().map(Element::name).find(|name| !known.contains(name)) {
        Some(unknown) => Err(S3Error::malformed_xml(&format!("<{unknown}> is unknown"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::Document;

    fn configuration(inner: &str) -> Result<LockConfiguration, ErrorCode> {
        let text = format!("<{0}>{inner}</{0}>", LockConfiguration::ROOT);
        LockConfiguration::parse(Document::parse(text.as_bytes()).unwrap().root()).map_err(|error| error.code)
    }

    fn rule(inner: &str) -> Result<LockConfiguration, ErrorCode> {
        configuration(&format!(
            "<ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>{inner}</DefaultRetention></Rule>"
        ))
    }

    #[test]
    fn configurations_come_back_as_they_were_written() {
        for default in [
            None,
            Some((LockMode::Governance, LockPeriod::Days(1))),
            Some((LockMode::Compliance, LockPeriod::Years(100))),
        ] {
            let mut writer = Writer::new(LockConfiguration::ROOT, None);
            LockConfiguration { default }.render(&mut writer);
            let text = writer.finish();
            let read = LockConfiguration::parse(Document::parse(&text).unwrap().root());
            assert_eq!(read, Ok(LockConfiguration { default }));
        }
    }

    #[test]
    fn other_configurations_are_refused() {
        for wrong in ["", "<ObjectLockEnabled>Disabled</ObjectLockEnabled>", "<Enabled/>"] {
            assert_eq!(configuration(wrong), Err(ErrorCode::MalformedXML), "{wrong}");
        }
        let enabled = "<ObjectLockEnabled>Enabled</ObjectLockEnabled>";
        assert_eq!(configuration(&format!("{enabled}<Rule/>")), Err(ErrorCode::MalformedXML));
        for (inner, code) in [
            ("<Mode>GOVERNANCE</Mode>", ErrorCode::MalformedXML),
            ("<Days>1</Days>", ErrorCode::MalformedXML),
            ("<Mode>governance</Mode><Days>1</Days>", ErrorCode::MalformedXML),
            ("<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>", ErrorCode::MalformedXML),
            ("<Mode>GOVERNANCE</Mode><Days>one</Days>", ErrorCode::MalformedXML),
            ("<Mode>GOVERNANCE</Mode><Days>0</Days>", ErrorCode::InvalidArgument),
            ("<Mode>GOVERNANCE</Mode><Years>-1</Years>", ErrorCode::InvalidArgument),
            ("<Mode>GOVERNANCE</Mode><Days>36501</Days>", ErrorCode::InvalidRetentionPeriod),
            ("<Mode>GOVERNANCE</Mode><Years>101</Years>", ErrorCode::InvalidRetentionPeriod),
        ] {
            assert_eq!(rule(inner), Err(code), "{inner}");
        }
        assert!(rule("<Mode>GOVERNANCE</Mode><Years>100</Years>").is_ok());
    }

    #[test]
    fn a_retention_has_both_fields_or_none() {
        let parse = |inner: &str| {
            let text = format!("<Retention>{inner}</Retention>");
            LockRetention::parse(Document::parse(text.as_bytes()).unwrap().root()).map_err(|error| error.code)
        };
        let date = "<RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate>";
        let read = parse(&format!("<Mode>COMPLIANCE</Mode>{date}")).unwrap().unwrap();
        assert_eq!(
            (read.mode, read.until.to_iso8601().as_str()),
            (LockMode::Compliance, "2030-01-01T00:00:00.000Z")
        );
        assert_eq!(parse(""), Ok(None));
        for wrong in [
            date,
            "<Mode>COMPLIANCE</Mode>",
            "<Mode>COMPLIANCE</Mode><RetainUntilDate>soon</RetainUntilDate>",
        ] {
            assert_eq!(parse(wrong), Err(ErrorCode::MalformedXML), "{wrong}");
        }
    }

    #[test]
    fn a_legal_hold_is_on_or_off() {
        let parse = |status: &str| {
            let text = format!("<LegalHold><Status>{status}</Status></LegalHold>");
            parse_legal_hold(Document::parse(text.as_bytes()).unwrap().root()).map_err(|error| error.code)
        };
        assert_eq!(
            (parse("ON"), parse("OFF"), parse("on")),
            (Ok(true), Ok(false), Err(ErrorCode::MalformedXML))
        );
    }
}
