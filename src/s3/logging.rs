//! The access log of a bucket in another one (S3 API reference, PutBucketLogging; S3 user guide,
//! "Logging requests with server access logging").

use super::elements::{check_children, child, missing, text};
use super::{ErrorCode, S3Error, XmlConfiguration};
use crate::base::Timestamp;
use crate::base::limits::LOG_PREFIX_MAX_BYTES;
use crate::xml::{Element, Writer};

/// The account in the keys of partitioned logs.
const ACCOUNT: &str = "000000000000";

/// Where the access log of a bucket goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BucketLogging {
    /// `None` for nowhere.
    pub target: Option<LogTarget>,
}

/// The place of the objects of a log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogTarget {
    pub bucket: String,
    /// The beginning of their keys.
    pub prefix: String,
    /// `None` where the configuration states no format, which is then the simple one.
    pub format: Option<LogKeyFormat>,
}

/// The form of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogKeyFormat {
    /// `SimplePrefix`: the time of the delivery.
    Simple,
    /// `PartitionedPrefix`: the account, the region, the bucket and the day before.
    Partitioned(LogDay),
}

/// The day in a partitioned key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogDay {
    /// `EventTime`: of the requests, which are all of one day.
    OfEvents,
    /// `DeliveryTime`
    OfDelivery,
}

impl LogDay {
    const TABLE: [(&'static str, Self); 2] =
        [("EventTime", Self::OfEvents), ("DeliveryTime", Self::OfDelivery)];

    fn as_str(self) -> &'static str {
        Self::TABLE.iter().find(|(_, day)| *day == self).map_or("", |(name, _)| name)
    }
}

/// What the key of an object of a log is made of.
#[derive(Debug, Clone, Copy)]
pub struct LogObject<'o> {
    pub region: &'o str,
    /// The bucket whose requests it records.
    pub source: &'o str,
    /// A time within the day of its requests.
    pub of_events: Timestamp,
    pub delivered: Timestamp,
    /// Differs from that of all others.
    pub unique: u64,
}

impl LogTarget {
    /// Whether the requests of each day have objects of their own.
    pub fn is_by_day(&self) -> bool {
        self.format == Some(LogKeyFormat::Partitioned(LogDay::OfEvents))
    }

    /// The key of an object.
    pub fn key(&self, object: LogObject<'_>) -> String {
        let LogObject { region, source, of_events, delivered, unique } = object;
        let prefix = &self.prefix;
        let day = match self.format.unwrap_or(LogKeyFormat::Simple) {
            LogKeyFormat::Simple => return format!("{prefix}{}-{unique:016X}", to_second(delivered)),
            LogKeyFormat::Partitioned(LogDay::OfDelivery) => to_second(delivered),
            // The time of the day would say that all requests are of that second.
            LogKeyFormat::Partitioned(LogDay::OfEvents) => format!("{}-00-00-00", date(of_events)),
        };
        let folders = day[..10].replace('-', "/");
        format!("{prefix}{ACCOUNT}/{region}/{source}/{folders}/{day}-{unique:016X}")
    }
}

/// `2026-01-31`
fn date(time: Timestamp) -> String {
    time.to_iso8601().chars().take(10).collect()
}

/// `2026-01-31-23-59-59`
fn to_second(time: Timestamp) -> String {
    time.to_iso8601().chars().take(19).map(|c| if matches!(c, ':' | 'T') { '-' } else { c }).collect()
}

impl XmlConfiguration for BucketLogging {
    const ROOT: &'static str = "BucketLoggingStatus";

    /// Reads the root element.
    ///
    /// # Errors
    /// `MalformedXML`; `InvalidArgument` for a prefix that leaves no room for the rest of the keys;
    /// `NotImplemented` for grants.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        check_children(root, &["LoggingEnabled"])?;
        let target = child(root, "LoggingEnabled")?.map(LogTarget::parse).transpose()?;
        Ok(Self { target })
    }

    fn render(&self, document: &mut Writer) {
        let Some(target) = &self.target else { return };
        document.element("LoggingEnabled", |enabled| {
            enabled.leaf("TargetBucket", &target.bucket);
            if let Some(format) = target.format {
                enabled.element("TargetObjectKeyFormat", |element| format.render(element));
            }
            enabled.leaf("TargetPrefix", &target.prefix);
        });
    }
}

impl LogTarget {
    fn parse(enabled: Element<'_>) -> Result<Self, S3Error> {
        check_children(enabled, &["TargetBucket", "TargetGrants", "TargetObjectKeyFormat", "TargetPrefix"])?;
        let bucket = text(enabled, "TargetBucket")?.ok_or_else(|| missing("TargetBucket"))?;
        let prefix = text(enabled, "TargetPrefix")?.ok_or_else(|| missing("TargetPrefix"))?;
        if prefix.len() > LOG_PREFIX_MAX_BYTES {
            let message = format!("The prefix of a log has at most {LOG_PREFIX_MAX_BYTES} bytes.");
            return Err(S3Error::invalid_argument("TargetPrefix", &prefix, message));
        }
        let has_grants =
            child(enabled, "TargetGrants")?.is_some_and(|grants| grants.children().next().is_some());
        if has_grants {
            return Err(S3Error::new(ErrorCode::NotImplemented)
                .message(
                    "The objects of a log have no grants. Let a policy of the target bucket allow reads.",
                )
                .element("ArgumentName", "TargetGrants"));
        }
        let format = child(enabled, "TargetObjectKeyFormat")?.map(LogKeyFormat::parse).transpose()?;
        Ok(Self { bucket: bucket.trim().to_owned(), prefix, format })
    }
}

impl LogKeyFormat {
    fn parse(element: Element<'_>) -> Result<Self, S3Error> {
        check_children(element, &["SimplePrefix", "PartitionedPrefix"])?;
        let simple = child(element, "SimplePrefix")?;
        match (simple, child(element, "PartitionedPrefix")?) {
            (Some(simple), None) => {
                check_children(simple, &[])?;
                Ok(Self::Simple)
            }
            (None, Some(partitioned)) => {
                check_children(partitioned, &["PartitionDateSource"])?;
                let name = text(partitioned, "PartitionDateSource")?
                    .ok_or_else(|| missing("PartitionDateSource"))?;
                let named = LogDay::TABLE.iter().find(|(known, _)| *known == name.trim());
                let (_, day) = named.ok_or_else(|| {
                    S3Error::malformed_xml("<PartitionDateSource> is EventTime or DeliveryTime")
                })?;
                Ok(Self::Partitioned(*day))
            }
            (None, None) => Err(missing("SimplePrefix")),
            (Some(_), Some(_)) => Err(S3Error::malformed_xml("<TargetObjectKeyFormat> has one format")),
        }
    }

    fn render(self, element: &mut Writer) {
        match self {
            Self::Simple => element.element("SimplePrefix", |_| {}),
            Self::Partitioned(day) => element.element("PartitionedPrefix", |partitioned| {
                partitioned.leaf("PartitionDateSource", day.as_str());
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::Document;

    fn parse(inner: &str) -> Result<BucketLogging, ErrorCode> {
        let text = format!("<BucketLoggingStatus>{inner}</BucketLoggingStatus>");
        BucketLogging::parse(Document::parse(text.as_bytes()).unwrap().root()).map_err(|error| error.code)
    }

    fn enabled(more: &str) -> Result<BucketLogging, ErrorCode> {
        parse(&format!(
            "<LoggingEnabled><TargetBucket>logs</TargetBucket>{more}<TargetPrefix>a b/</TargetPrefix></LoggingEnabled>"
        ))
    }

    #[test]
    fn a_configuration_comes_back_as_it_was_written() {
        let of_day = |day| Some(LogKeyFormat::Partitioned(day));
        for (format, expected) in [
            ("", None),
            ("<SimplePrefix/>", Some(LogKeyFormat::Simple)),
            (
                "<PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix>",
                of_day(LogDay::OfEvents),
            ),
            (
                "<PartitionedPrefix><PartitionDateSource>DeliveryTime</PartitionDateSource></PartitionedPrefix>",
                of_day(LogDay::OfDelivery),
            ),
        ] {
            let format = match format {
                "" => String::new(),
                _ => format!("<TargetObjectKeyFormat>{format}</TargetObjectKeyFormat>"),
            };
            let read = enabled(&format).unwrap();
            let target = read.target.clone().unwrap();
            assert_eq!((&*target.bucket, &*target.prefix, target.format), ("logs", "a b/", expected));
            assert_eq!(BucketLogging::from_document(&read.to_document()), Some(read));
        }
        assert_eq!(parse("").unwrap(), BucketLogging::default());
        assert!(enabled("<TargetGrants/>").is_ok());
    }

    #[test]
    fn other_documents_are_refused() {
        let malformed = |inner: &str| assert_eq!(parse(inner), Err(ErrorCode::MalformedXML), "{inner}");
        malformed("<Other/>");
        malformed("<LoggingEnabled/>");
        malformed("<LoggingEnabled><TargetBucket>b</TargetBucket></LoggingEnabled>");
        malformed("<LoggingEnabled><TargetPrefix>b</TargetPrefix></LoggingEnabled>");
        for format in [
            "",
            "<SimplePrefix><X/></SimplePrefix>",
            "<PartitionedPrefix/>",
            "<PartitionedPrefix><PartitionDateSource>Now</PartitionDateSource></PartitionedPrefix>",
            "<SimplePrefix/><SimplePrefix/>",
            "<SimplePrefix/><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix>",
        ] {
            let format = format!("<TargetObjectKeyFormat>{format}</TargetObjectKeyFormat>");
            assert_eq!(enabled(&format), Err(ErrorCode::MalformedXML), "{format}");
        }
        assert_eq!(enabled("<ObjectRollTime>5</ObjectRollTime>"), Err(ErrorCode::MalformedXML));
        let grants = "<TargetGrants><Grant><Permission>READ</Permission></Grant></TargetGrants>";
        assert_eq!(enabled(grants), Err(ErrorCode::NotImplemented));
        let long = "x".repeat(LOG_PREFIX_MAX_BYTES + 1);
        let long = format!(
            "<LoggingEnabled><TargetBucket>b</TargetBucket><TargetPrefix>{long}</TargetPrefix></LoggingEnabled>"
        );
        assert_eq!(parse(&long), Err(ErrorCode::InvalidArgument));
    }

    #[test]
    fn keys_have_the_forms_of_the_reference() {
        let target = |format| LogTarget { bucket: "logs".into(), prefix: "p/".into(), format };
        let object = LogObject {
            region: "eu",
            source: "photos",
            of_events: Timestamp::parse_iso8601("2026-01-31T12:00:00Z").unwrap(),
            delivered: Timestamp::parse_iso8601("2026-02-01T00:04:05.678Z").unwrap(),
            unique: 0xab,
        };
        let of_day = |day| Some(LogKeyFormat::Partitioned(day));
        for (format, expected) in [
            (None, "p/2026-02-01-00-04-05-00000000000000AB"),
            (Some(LogKeyFormat::Simple), "p/2026-02-01-00-04-05-00000000000000AB"),
            (
                of_day(LogDay::OfDelivery),
                "p/000000000000/eu/photos/2026/02/01/2026-02-01-00-04-05-00000000000000AB",
            ),
            (
                of_day(LogDay::OfEvents),
                "p/000000000000/eu/photos/2026/01/31/2026-01-31-00-00-00-00000000000000AB",
            ),
        ] {
            assert_eq!(target(format).key(object), expected);
            assert_eq!(target(format).is_by_day(), format == of_day(LogDay::OfEvents));
        }
    }
}
