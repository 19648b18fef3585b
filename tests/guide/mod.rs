//! The guide (`src/guide`), held against the code: its values, its examples and its commands.

mod clients;
mod commands;
mod links;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use siltstone::auth::{Action, Users};
use siltstone::base::limits::{self, GIB, KIB, MIB, TIB};
use siltstone::ops::actions;
use siltstone::s3::operation::{Route, RouteCondition};
use siltstone::s3::{ErrorCode, Operation};

pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The text of a page.
fn page(name: &str) -> String {
    read(&format!("src/guide/{name}.md"))
}

/// The rows of the first table below that heading of a file, without the two lines of its head.
pub(crate) fn rows(path: &str, heading: &str) -> Vec<Vec<String>> {
    let text = read(path);
    let (_, section) = text.split_once(&format!("{heading}\n")).unwrap();
    let lines =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.skip(2).map(cells).collect()
}

/// The number with commas between its thousands.
fn number(n: u64) -> String {
    if n < 1000 { n.to_string() } else { format!("{},{:03}", number(n / 1000), n % 1000) }
}

/// A size in the largest unit of which it is a small whole number: keys are counted in bytes.
fn size(bytes: u64) -> String {
    let units = [(TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    match units.iter().find(|(unit, _)| bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", number(bytes / unit)),
        None => format!("{} bytes", number(bytes)),
    }
}

/// A row: what is limited, to what, and what is answered beyond it.
type Limit = (&'static str, String, &'static str);

/// Holds a table against the code. Codes are checked to be answered with the status that stands
/// before them.
fn hold_limits(heading: &str, expected: &[Limit]) {
    let rows = rows("src/guide/limits.md", heading);
    let expected = expected
        .iter()
        .map(|(name, value, beyond)| vec![(*name).to_owned(), value.clone(), (*beyond).to_owned()]);
    assert_eq!(rows, expected.collect::<Vec<_>>());
    let answers = rows
        .iter()
        .filter_map(|row| row[2].split_once(' ').filter(|(status, _)| status.parse::<u16>().is_ok()));
    for (status, code) in answers.filter(|(_, code)| !code.contains(' ')) {
        let known = ErrorCode::ALL.iter().find(|known| known.as_str() == code).expect(code);
        assert_eq!(known.status().to_string(), status, "{code}");
    }
}

#[test]
fn the_limits_of_calls_of_iam_are_those_of_the_code() {
    let values = [
        limits::USER_KEYS_MAX.to_string(),
        format!("{} characters", limits::IAM_NAME_MAX_CHARS),
        format!("{} characters", limits::IAM_LONG_NAME_MAX_CHARS),
        number(limits::IAM_PAGE_MAX_ITEMS),
        limits::ISSUERS_MAX.to_string(),
        limits::ISSUER_AUDIENCES_MAX.to_string(),
        format!("{} bytes", limits::ISSUER_URL_MAX_BYTES),
        format!("{}, of {} characters", limits::ISSUER_THUMBPRINTS_MAX, limits::ISSUER_THUMBPRINT_CHARS),
    ];
    let told: Vec<_> = rows("src/guide/limits.md", "## Limits of calls of IAM")
        .into_iter()
        .map(|row| row[1].clone())
        .collect();
    assert_eq!(told, values);
}

#[test]
fn the_limits_of_sessions_are_those_of_the_code() {
    let hours = |secs: u64| secs / (60 * 60);
    let values = [
        size(limits::QUERY_BODY_MAX_BYTES as u64),
        format!("{} characters", number(limits::SESSION_POLICY_MAX_CHARS as u64)),
        limits::SESSION_POLICIES_MAX.to_string(),
        size(limits::MANAGED_POLICY_MAX_BYTES as u64),
        size(limits::SESSION_TOKEN_MAX_BYTES as u64),
        limits::SESSION_TAGS_MAX.to_string(),
        format!(
            "at least {} minutes; of a role {} hours at most, for a caller in a session {} hour, of a user {} hours",
            limits::SESSION_MIN_SECS / 60,
            hours(limits::ROLE_SESSION_MAX_SECS),
            hours(limits::CHAINED_SESSION_MAX_SECS),
            hours(limits::USER_SESSION_MAX_SECS)
        ),
        limits::ISSUERS_MAX.to_string(),
        format!("{} seconds", limits::OIDC_FETCH_MAX_SECS),
        size(limits::OIDC_DOCUMENT_MAX_BYTES as u64),
        format!("{} a minute", limits::WEB_IDENTITY_FAILURES_MAX),
        limits::OPENED_SESSIONS_MAX.to_string(),
    ];
    let told: Vec<_> =
        rows("src/guide/limits.md", "## Limits of sessions").into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(told, values);
}

#[test]
fn the_limits_are_those_of_the_code() {
    let bucket =
        format!("{} to {} bytes", limits::BUCKET_NAME_LEN_MIN_BYTES, limits::BUCKET_NAME_LEN_MAX_BYTES);
    let skew = format!("{} minutes", limits::CLOCK_SKEW_MAX_SECS / 60);
    let validity = format!("{} days", limits::PRESIGNED_EXPIRES_MAX_SECS / (24 * 60 * 60));
    let tags = limits::TAGS_MAX.to_string();
    let chunk_line = format!("{} bytes", limits::AWS_CHUNK_LINE_MAX_BYTES);
    hold_limits(
        "# Limits",
        &[
            (
                "object key",
                format!("{} bytes", number(limits::KEY_LEN_MAX_BYTES as u64)),
                "400 KeyTooLongError",
            ),
            ("bucket name", bucket, "400 InvalidBucketName"),
            (
                "buckets of an owner whose quota has no other limit",
                format!("{}, or `--buckets-max`", number(limits::BUCKETS_MAX_DEFAULT)),
                "400 TooManyBuckets",
            ),
            (
                "bytes of the index of a bucket or owner with a quota",
                match limits::INDEX_QUOTA_SHARE {
                    4 => "a quarter of `--index-max`, or its limit `index_bytes`".to_owned(),
                    other => format!("one of {other} parts"),
                },
                "403 QuotaExceeded",
            ),
            ("single put, copy or part", size(limits::PUT_SIZE_MAX_BYTES), "400 EntityTooLarge"),
            ("object", size(limits::OBJECT_SIZE_MAX_BYTES), "400 EntityTooLarge"),
            (
                "part but the last",
                format!("{} at least", size(limits::PART_SIZE_MIN_BYTES)),
                "400 EntityTooSmall",
            ),
            ("parts of an object", number(limits::PART_NUMBER_MAX.into()), "400 InvalidArgument"),
            (
                "user metadata of an object",
                size(limits::USER_METADATA_MAX_BYTES as u64),
                "400 MetadataTooLarge",
            ),
            (
                "system metadata of an object: the names and values of its six standard headers and its redirect location",
                size(limits::SYSTEM_METADATA_MAX_BYTES as u64),
                "400 MetadataTooLarge",
            ),
            (
                "redirect location of an object",
                size(limits::REDIRECT_LOCATION_MAX_BYTES as u64),
                "400 InvalidRedirectLocation",
            ),
            (
                "encryption context of SSE-KMS, in base64 as the header has it",
                size(limits::ENCRYPTION_CONTEXT_MAX_BYTES as u64),
                "400 InvalidArgument",
            ),
            ("tags of an object", tags, "400 BadRequest"),
            ("tags of a bucket", limits::BUCKET_TAGS_MAX.to_string(), "400 BadRequest"),
            ("key of a tag", format!("{} characters", limits::TAG_KEY_LEN_MAX_CHARS), "400 InvalidTag"),
            ("value of a tag", format!("{} characters", limits::TAG_VALUE_LEN_MAX_CHARS), "400 InvalidTag"),
            (
                "keys, versions, uploads or parts on a page of a listing",
                number(limits::PAGE_LEN_MAX as u64),
                "1,000 are shown",
            ),
            (
                "objects in one DeleteObjects request",
                number(limits::DELETE_OBJECTS_MAX as u64),
                "400 MalformedXML",
            ),
            ("website configuration", size(limits::WEBSITE_MAX_BYTES as u64), "400 MaxMessageLengthExceeded"),
            ("routing rules of a website", number(limits::ROUTING_RULES_MAX as u64), "400 InvalidRequest"),
            ("bucket policy", size(limits::BUCKET_POLICY_MAX_BYTES as u64), "400 MalformedPolicy"),
            (
                "`*` and `?` in one pattern of a bucket policy",
                limits::POLICY_WILDCARDS_MAX.to_string(),
                "400 MalformedPolicy; one that was put before is evaluated",
            ),
            (
                "value of a header or parameter that a condition of a bucket policy compares",
                size(limits::POLICY_VALUE_MAX_BYTES as u64),
                "an `Allow` with the condition does not apply, a `Deny` does",
            ),
            (
                "names in `Access-Control-Request-Headers`",
                limits::CORS_REQUEST_HEADERS_MAX.to_string(),
                "no CORS rule allows the preflight",
            ),
            (
                "CORS configuration of a bucket",
                size(limits::CORS_MAX_BYTES as u64),
                "400 MaxMessageLengthExceeded",
            ),
            ("rules of a CORS configuration", limits::CORS_RULES_MAX.to_string(), "400 InvalidRequest"),
            (
                "event notifications of a bucket",
                number(limits::NOTIFICATIONS_MAX as u64),
                "400 InvalidArgument",
            ),
            (
                "replication rules of a bucket",
                number(limits::REPLICATION_RULES_MAX as u64),
                "400 InvalidRequest",
            ),
            (
                "rules of a lifecycle configuration",
                number(limits::LIFECYCLE_RULES_MAX as u64),
                "400 InvalidRequest",
            ),
            (
                "prefix of the objects of a bucket's log",
                format!("{} bytes", limits::LOG_PREFIX_MAX_BYTES),
                "400 InvalidArgument",
            ),
            (
                "records of buckets' logs that wait in memory",
                format!(
                    "{} of one log, {} of all",
                    size(limits::LOG_WAITING_MAX_BYTES as u64),
                    size(limits::LOGS_WAITING_MAX_BYTES as u64)
                ),
                "they are dropped, first those that cannot be delivered",
            ),
            ("XML request body", size(limits::XML_BODY_MAX_BYTES as u64), "400 MaxMessageLengthExceeded"),
            (
                "list of the parts of an upload",
                size(limits::PART_LIST_MAX_BYTES as u64),
                "400 MaxMessageLengthExceeded",
            ),
            ("checksums announced as trailers", number(limits::TRAILERS_MAX as u64), "400 InvalidRequest"),
            ("line before an `aws-chunked` chunk", chunk_line.clone(), "400 InvalidChunkSizeError"),
            ("trailer line after such chunks", chunk_line, "400 MalformedTrailerError"),
            (
                "name or key of a user",
                format!("{} bytes", limits::CREDENTIAL_LEN_MAX_BYTES),
                "the users file is refused",
            ),
            (
                "fields of a form before its file, and those after it",
                size(limits::FORM_FIELDS_MAX_BYTES as u64),
                "400 MaxPostPreDataLengthExceeded",
            ),
            (
                "boundary of a form",
                format!("{} bytes", limits::FORM_BOUNDARY_MAX_BYTES),
                "400 MalformedPOSTRequest",
            ),
            ("difference between the clocks of client and server", skew, "403 RequestTimeTooSkewed"),
            ("validity of a presigned URL", validity, "400 AuthorizationQueryParametersError"),
        ],
    );
}

#[test]
fn the_limits_of_connections_are_those_of_the_code() {
    let head = format!("{} s", limits::HEAD_DEADLINE_DEFAULT_SECS);
    let rate = size(limits::RATE_MIN_DEFAULT_BYTES_PER_SEC);
    let earning = |secs: u64, of: &str| format!("{secs} s, and 1 s for each {rate} {of}");
    let unread = format!("{}, {} ms", size(limits::UNREAD_BODY_MAX_BYTES), limits::UNREAD_BODY_WAIT_MILLIS);
    let drained = format!("{}, {} s", size(limits::DRAIN_MAX_BYTES), limits::DRAIN_DEADLINE_DEFAULT_SECS);
    let flag = |name: &str| format!("`--{name}`");
    let memory = format!("{}, {} ms", flag("memory-max"), limits::MEMORY_PATIENCE_MILLIS);
    hold_limits(
        "## Limits of connections",
        &[
            (
                "request line and headers",
                size(limits::HEAD_MAX_BYTES as u64),
                "400 RequestHeaderSectionTooLarge",
            ),
            (
                "header lines of a request",
                number(limits::HEADERS_MAX as u64),
                "400 RequestHeaderSectionTooLarge",
            ),
            ("time for the whole head", head.clone(), "400 RequestTimeout"),
            ("time for a TLS handshake", head, "no answer"),
            ("time without a request", flag("idle-timeout"), "no answer"),
            (
                "wait for the bytes of a body",
                earning(limits::READ_STALL_BUDGET_DEFAULT_SECS, "received"),
                "400 RequestTimeout",
            ),
            (
                "wait for a client that reads its response",
                earning(limits::WRITE_STALL_BUDGET_DEFAULT_SECS, "sent"),
                "the response is cut",
            ),
            (
                "both waits, while other requests wait for a worker",
                format!("a {}th", limits::UNDER_LOAD_FACTOR),
                "as above",
            ),
            (
                "wait of a worker for such a client, while other requests wait for a worker",
                format!("{} ms", limits::YIELD_AFTER_MILLIS),
                "the response waits without a worker",
            ),
            ("line before a chunk", size(limits::CHUNK_LINE_MAX_BYTES as u64), "400 InvalidRequest"),
            (
                "chunk extensions and trailer lines of a body",
                size(limits::CHUNK_EXTRA_MAX_BYTES as u64),
                "400 InvalidRequest",
            ),
            ("rest of a body read after its refusal", unread, "the connection is closed"),
            ("bytes and time that a refused client may go on sending", drained, "the connection is cut"),
            ("connections", flag("max-connections"), "the longest idle one is closed, or 503 SlowDown"),
            ("connections of one address", flag("max-connections-per-address"), "the same among those"),
            ("requests that wait for a worker", flag("queue"), "503 SlowDown"),
            ("requests at a time", flag("workers"), "they wait"),
            ("memory of requests, beyond the share of each worker", memory, "503 SlowDown"),
            ("memory of the index", flag("index-max"), "507 InsufficientStorage"),
            (
                "open files: connections, and segments of requests",
                "`ulimit -n`, divided at the start".to_owned(),
                "503 SlowDown",
            ),
            (
                "bodies that count as small",
                size(limits::SMALL_BODY_MAX_BYTES),
                "three quarters of the workers serve them",
            ),
        ],
    );
}

/// The request of an operation as the table shows it.
fn request(row: &Route) -> String {
    let line = format!("{} {}", row.method.as_str(), row.level.path());
    let line = if row.subresource.is_empty() { line } else { format!("{line}?{}", row.subresource) };
    match row.condition {
        RouteCondition::None => format!("`{line}`"),
        RouteCondition::Parameter(name, value) => format!("`{line}?{name}={value}`"),
        RouteCondition::Present(name) => format!("`{line}&{name}`"),
        RouteCondition::CopySource => format!("`{line}` with `x-amz-copy-source`"),
    }
}

#[test]
fn the_operations_are_those_of_the_code() {
    let expected: BTreeSet<_> =
        Operation::TABLE.iter().map(|row| (row.operation.as_str().to_owned(), request(row))).collect();
    let listed: BTreeSet<_> = rows("src/guide/operations.md", "# Operations")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(listed, expected);
}

/// The actions that stand in a text, in their order.
pub(crate) fn actions_in(text: &str) -> Vec<Action> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter_map(|word| Action::ALL.iter().copied().find(|action| action.as_str() == word)).collect()
}

#[test]
fn the_permissions_are_those_of_the_code() {
    for row in rows("src/guide/operations.md", "# Operations") {
        let route = Operation::TABLE.iter().find(|route| route.operation.as_str() == row[0]).unwrap();
        let current = actions(route.operation, false);
        let of_version = actions(route.operation, true);
        let mut expected = current.to_vec();
        if of_version != current {
            expected.extend(of_version);
        }
        assert_eq!(actions_in(&row[2]), expected, "{}", row[0]);
    }
}

#[test]
fn every_action_is_explained() {
    let explained: Vec<_> = rows("src/guide/operations.md", "# Operations")
        .iter()
        .chain(&rows("src/guide/users.md", "## Actions"))
        .flat_map(|row| actions_in(row.get(2).unwrap_or(&row[0])))
        .collect();
    let missing: Vec<_> = Action::ALL.iter().filter(|action| !explained.contains(action)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Every `--flag` of the help, with its environment variable and its default.
fn options_of_the_help() -> BTreeSet<(String, String, String)> {
    let output = Command::new(env!("CARGO_BIN_EXE_siltstone")).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, options) = help.split_once("Options:\n").unwrap();
    let (options, _) = options.split_once("Examples:").unwrap();
    let between = |text: &str, start: &str, end: &str| {
        let (_, rest) = text.split_once(start)?;
        rest.split_once(end).map(|(found, _)| found.to_owned())
    };
    let described = options.split("\n      --").filter_map(|text| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let flag = words.split(' ').next()?.trim_start_matches('-').to_owned();
        let variable = between(&words, "[env: ", "=")?;
        Some((flag, variable, between(&words, "[default: ", "]").unwrap_or_else(|| "none".to_owned())))
    });
    described.collect()
}

#[test]
fn the_options_are_those_of_the_help() {
    let code = |cell: &str| cell.trim_matches('`').to_owned();
    let listed: BTreeSet<_> = rows("src/guide/configuration.md", "# Configuration")
        .iter()
        .map(|row| {
            let flag = code(&row[0]).trim_start_matches('-').split(' ').next().unwrap().to_owned();
            (flag, code(&row[1]), code(&row[2]))
        })
        .collect();
    assert_eq!(listed, options_of_the_help());
}

#[test]
fn what_memory_is_set_aside_for_is_as_in_the_code() {
    let text = page("memory").replace('\n', " ");
    let told = [
        format!("{} for the program", size(limits::MEMORY_OF_PROCESS_BYTES)),
        format!("{} for each worker", size(limits::MEMORY_OF_WORKER_BYTES)),
        format!("{} for each connection", size(limits::MEMORY_OF_CONNECTION_BYTES)),
        format!("({} with TLS)", size(limits::MEMORY_OF_TLS_CONNECTION_BYTES)),
        format!("{} for each place in the queue", size(2 * limits::UNRESERVED_HEAD_BYTES as u64)),
        format!(
            "from {} to {}",
            size(limits::MEMORY_DEFAULT_MIN_BYTES),
            size(limits::MEMORY_DEFAULT_MAX_BYTES)
        ),
        format!("The least is {}", size(limits::MEMORY_MIN_BYTES)),
    ];
    for told in told {
        assert!(text.contains(&told), "the page does not say {told:?}");
    }
}

#[test]
fn the_users_of_the_example_are_accepted() {
    let page = page("users");
    Users::parse(block(&page, "toml")).unwrap();
    Users::parse(block(&self::page("backups"), "toml")).unwrap();
}

/// The first block of that language.
pub(crate) fn block<'t>(text: &'t str, language: &str) -> &'t str {
    let (_, rest) = text.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_library_documents_every_page() {
    let shown = read("src/guide.rs");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide");
    let pages = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = pages.filter(|name| name.ends_with(".md"));
    let missing: Vec<_> = pages.filter(|page| !shown.contains(&format!("guide/{page}\""))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
