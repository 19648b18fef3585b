//! The programs `curl` and `wget`, as far as the health checks of compose files use them: one page
//! of the health of a server on this host. They are links to this program, in an image that has
//! neither.

use std::ffi::OsString;
use std::thread;
use std::time::Duration;

use clap::{ArgAction, Parser};

use super::target::{Answer, PATIENCE, READY_PAGE, Target};
use super::{not_ready, why_refused, write};
use crate::cli::error::CliError;

/// The pages of the health.
const PAGES: [&str; 6] = [
    READY_PAGE,
    "/-/health",
    "/minio/health/live",
    "/minio/health/ready",
    "/minio/health/cluster",
    "/minio/health/cluster/read",
];
/// RustFS has its page there, where a bucket would be here.
const RUSTFS_PAGE: &str = "/health";
/// The outputs that a health check names.
const OUTPUTS: [&str; 2] = ["-", "/dev/null"];
/// The pause before another try, where none is named (curl, `--retry`, doubles it from here).
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The longest pause before another try.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);

const CURL_REFUSED: u8 = 7;
const CURL_STATUS: u8 = 22;
const WGET_REFUSED: u8 = 4;
const WGET_STATUS: u8 = 8;

/// Asks for a page of the health of the server on this host, as `curl` does; nothing else
#[derive(Debug, Parser)]
#[command(name = "curl", disable_version_flag = true)]
struct Curl {
    /// Exit with 22 when the status is 400 or more
    #[arg(short, long, alias = "fail-with-body")]
    fail: bool,
    /// No message on standard error
    #[arg(short, long)]
    silent: bool,
    /// A message on standard error in spite of --silent
    #[arg(short = 'S', long)]
    show_error: bool,
    /// Ask for the headers alone
    #[arg(short = 'I', long)]
    head: bool,
    /// Show the headers, too
    #[arg(short, long)]
    include: bool,
    /// GET or HEAD
    #[arg(short = 'X', long, value_name = "METHOD", value_parser = ["GET", "HEAD"])]
    request: Option<String>,
    /// `-` or /dev/null
    #[arg(short, long, value_name = "FILE", value_parser = OUTPUTS)]
    output: Option<String>,
    /// The longest wait for a connection and for each part of the answer, in seconds
    #[arg(short, long, value_name = "SECONDS", value_parser = seconds)]
    max_time: Option<Duration>,
    /// As --max-time
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    connect_timeout: Option<Duration>,
    /// Tries after the first, where the server says that it is not ready
    #[arg(long, value_name = "TIMES", default_value_t = 0)]
    retry: u32,
    /// The pause before each of them, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    retry_delay: Option<Duration>,
    /// Try again where the connection is refused, too
    #[arg(long, alias = "retry-all-errors")]
    retry_connrefused: bool,
    /// Accepted: a certificate of this host is not verified
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Accepted: these pages lead nowhere else
    #[arg(short = 'L', long)]
    location: bool,
    /// Accepted
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Accepted
    #[arg(long)]
    no_progress_meter: bool,
    /// Accepted
    #[arg(short = 'q', long)]
    disable: bool,
    /// The page
    #[arg(value_name = "URL")]
    pages: Vec<String>,
    /// The page
    #[arg(long)]
    url: Vec<String>,
}

/// Asks for a page of the health of the server on this host, as `wget` does; nothing else
#[derive(Debug, Parser)]
#[command(name = "wget", disable_version_flag = true)]
struct Wget {
    /// No message
    #[arg(short, long)]
    quiet: bool,
    /// Ask for the headers alone
    #[arg(long)]
    spider: bool,
    /// `-` or /dev/null; without it nothing is written
    #[arg(short = 'O', long, value_name = "FILE", value_parser = OUTPUTS)]
    output_document: Option<String>,
    /// The longest wait for a connection and for each part of the answer, in seconds
    #[arg(short = 'T', long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// The number of tries
    #[arg(short, long, value_name = "TIMES", default_value_t = 1)]
    tries: u32,
    /// Accepted: a certificate of this host is not verified
    #[arg(long)]
    no_check_certificate: bool,
    /// Accepted; with -v the two letters of -nv
    #[arg(short)]
    n: bool,
    /// Accepted
    #[arg(short, long)]
    verbose: bool,
    /// Accepted
    #[arg(long)]
    no_verbose: bool,
    /// Accepted
    #[arg(short = 'S', long)]
    server_response: bool,
    /// The page
    #[arg(value_name = "URL")]
    pages: Vec<String>,
}

/// What a health check asks for, and how often.
struct Check {
    target: Target,
    method: &'static str,
    patience: Duration,
    /// At least one.
    tries: u32,
    /// Between two tries.
    delay: Option<Duration>,
    /// Whether a connection that is refused is tried again, too.
    retries_refused: bool,
}

/// Runs as `curl`.
///
/// # Errors
/// With curl's exit status: 7 without a server, 22 where `--fail` is given and the server is not
/// ready, 2 for anything that is no health check.
pub(crate) fn curl(arguments: &[OsString]) -> Result<(), CliError> {
    let curl = Curl::try_parse_from(arguments).map_err(|error| only_health("curl", &why_refused(&error)))?;
    let head = curl.head || curl.request.as_deref() == Some("HEAD");
    let check = Check {
        target: page("curl", curl.pages.iter().chain(&curl.url))?,
        method: if head { "HEAD" } else { "GET" },
        patience: curl.max_time.or(curl.connect_timeout).unwrap_or(PATIENCE),
        tries: curl.retry.saturating_add(1),
        delay: curl.retry_delay,
        retries_refused: curl.retry_connrefused,
    };
    let outcome = check.run();
    let quiet = curl.silent && !curl.show_error;
    let answer = outcome.map_err(|why| failure(CURL_REFUSED, why, quiet))?;
    if curl.fail && answer.status >= 400 {
        return Err(failure(CURL_STATUS, format!("the server is {}", not_ready(&answer)), quiet));
    }
    let shown = curl.output.as_deref() != Some("/dev/null");
    show(&answer, shown && (head || curl.include), shown && !head)
}

/// Runs as `wget`.
///
/// # Errors
/// With wget's exit status: 4 without a server, 8 where it is not ready, 2 for anything that is no
/// health check.
pub(crate) fn wget(arguments: &[OsString]) -> Result<(), CliError> {
    let wget = Wget::try_parse_from(arguments).map_err(|error| only_health("wget", &why_refused(&error)))?;
    let check = Check {
        target: page("wget", wget.pages.iter())?,
        method: if wget.spider { "HEAD" } else { "GET" },
        patience: wget.timeout.unwrap_or(PATIENCE),
        tries: wget.tries.max(1),
        delay: None,
        retries_refused: false,
    };
    let answer = check.run().map_err(|why| failure(WGET_REFUSED, why, wget.quiet))?;
    if answer.status >= 400 {
        return Err(failure(WGET_STATUS, format!("the server is {}", not_ready(&answer)), wget.quiet));
    }
    show(&answer, false, wget.output_document.as_deref() == Some("-"))
}

impl Check {
    /// The last answer.
    ///
    /// # Errors
    /// There was none at the last try.
    fn run(&self) -> Result<Answer, String> {
        let mut delay = self.delay.unwrap_or(RETRY_DELAY);
        for _ in 1..self.tries {
            match self.target.ask(self.method, self.patience) {
                Ok(answer) if answer.status < 500 => return Ok(answer),
                Err(why) if !self.retries_refused => return Err(why),
                _ => {}
            }
            thread::sleep(delay);
            if self.delay.is_none() {
                delay = (delay * 2).min(RETRY_DELAY_MAX);
            }
        }
        self.target.ask(self.method, self.patience)
    }
}

/// The page of the one URL.
fn page<'u>(program: &str, mut urls: impl Iterator<Item = &'u String>) -> Result<Target, CliError> {
    let url = urls.next().ok_or_else(|| only_health(program, "there is no URL"))?;
    if urls.next().is_some() {
        return Err(only_health(program, "there are several URLs"));
    }
    // curl and wget take a URL without a scheme.
    let full = if url.contains("://") { url.clone() } else { format!("http://{url}") };
    let mut target = Target::parse(&full).map_err(|why| only_health(program, &format!("{url}: {why}")))?;
    if !target.is_on_this_host() {
        return Err(only_health(program, &format!("{url} is not on this host")));
    }
    // The path of the URL: a target without one has a page by default.
    let (_, after_scheme) = full.split_once("://").unwrap_or_default();
    let path = after_scheme.find('/').map_or("", |start| &after_scheme[start..]);
    let path = path.split('?').next().unwrap_or_default();
    match path.trim_end_matches('/') {
        RUSTFS_PAGE => target.path = READY_PAGE.to_owned(),
        page if PAGES.contains(&page) => {}
        _ => return Err(only_health(program, &format!("{url} is no page of the server's health"))),
    }
    Ok(target)
}

fn show(answer: &Answer, head: bool, body: bool) -> Result<(), CliError> {
    if head {
        write([answer.head.clone(), String::new()])?;
    }
    if body {
        write([answer.body.trim_end().to_owned()])?;
    }
    Ok(())
}

/// Parses a number of seconds, perhaps with a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(number)
        .ok()
        .filter(|span| !span.is_zero())
        .ok_or_else(|| format!("`{text}` is not a number of seconds above zero"))
}

fn failure(status: u8, why: String, quiet: bool) -> CliError {
    CliError::with_status(status, if quiet { String::new() } else { why })
}

fn only_health(program: &str, why: &str) -> CliError {
    CliError::usage(format!(
        "{why}. This {program} is Siltstone: it asks a server on this host for its health, as in `{program} \
         http://localhost:9000/minio/health/live`, and nothing else. The image siltstone:VERSION-debug has a shell and tools"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn health_checks_are_understood_in_the_forms_that_compose_files_have() {
        for check in [
            "curl -f http://127.0.0.1:1/minio/health/live",
            "curl -fsS http://127.0.0.1:1/minio/health/ready",
            "curl -sfILk --max-time 3 -o /dev/null http://[::1]:1/minio/health/cluster?maintenance=true",
            "curl --fail --silent --show-error --output /dev/null 127.0.0.1:1/-/ready",
            "curl --connect-timeout 0.5 -X GET --url http://127.0.0.1:1/health",
        ] {
            assert_eq!(curl(&words(check)).unwrap_err().status(), CURL_REFUSED.into(), "{check}");
        }
        for check in [
            "wget -q --spider http://127.0.0.1:1/minio/health/live",
            "wget -qO- http://127.0.0.1:1/minio/health/live",
            "wget -nv -t 1 -T 2 -O /dev/null http://127.0.0.1:1/minio/health/live",
            "wget --no-verbose --tries=1 --no-check-certificate --spider http://127.0.0.1:1/-/health",
        ] {
            assert_eq!(wget(&words(check)).unwrap_err().status(), WGET_REFUSED.into(), "{check}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_sentence() {
        for other in [
            "curl http://192.0.2.1/minio/health/live",
            "curl http://127.0.0.1:1/bucket/key",
            "curl http://127.0.0.1:1/",
            "curl -T file http://127.0.0.1:1/-/ready",
            "curl -d x http://127.0.0.1:1/-/ready",
            "curl -o /etc/passwd http://127.0.0.1:1/-/ready",
            "curl -X PUT http://127.0.0.1:1/-/ready",
            "curl -m 0 http://127.0.0.1:1/-/ready",
            "curl http://127.0.0.1:1/-/ready http://127.0.0.1:1/-/ready",
            "curl ftp://127.0.0.1/-/ready",
            "curl http://user:word@127.0.0.1:1/-/ready",
            "curl",
        ] {
            let error = curl(&words(other)).unwrap_err();
            assert_eq!(error.status(), 2.into(), "{other}");
            assert!(error.to_string().contains("This curl is Siltstone"), "{other}: {error}");
        }
        for other in ["wget http://127.0.0.1:1/x", "wget -O file http://127.0.0.1:1/-/ready", "wget"] {
            assert_eq!(wget(&words(other)).unwrap_err().status(), 2.into(), "{other}");
        }
    }
}
