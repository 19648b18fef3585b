//! The command `top`: a live view of a running server, from its metrics alone.

mod keys;
mod page;
mod report;
mod view;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::metrics_token::MetricsTokenFile;
use crate::outcome::{Failure, Outcome};
use keys::TerminalKeys;
use page::MetricsPage;
use siltstone::client::Fetch;
use view::ServerView;

pub(crate) const HELP: &str = "\
Reads the metrics of a running server again and again, and shows the differences: requests by operation with their rates and
latencies, commits, disk, memory, reclaimed space, and the largest buckets. No keys are needed: by default the server shows its
metrics to clients on its own host, with --metrics open to all, and to others by a token. The data directory is not used.

Examples:
  siltstone-tools top
      The server at http://127.0.0.1:9000, every two seconds until q or Ctrl-C.
  siltstone-tools top --endpoint https://objects.example --ca-file ca.pem --interval 10s
  siltstone-tools top --endpoint https://objects.example --metrics-token-file metrics.token
  siltstone-tools --json top --once | jq '.requests[] | [.operation, .per_second, .latency_ms.p99]'
      One view of an interval, for a script. Without --once every view is one line.

Exit status:
  0  the view was shown
  2  the server does not answer or does not show its metrics, or wrong arguments";

/// The longest page of metrics.
const PAGE_MAX_BYTES: usize = 4 << 20;
/// The longest silence of the server.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clears the screen of a terminal, and moves to its upper left corner (ECMA-48, ED and CUP).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint of the server: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9000")]
    endpoint: String,
    /// Certificate authorities of an https endpoint, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "SSL_CERT_FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    token: MetricsTokenFile,
    /// Time between two views, over which rates and latencies are taken
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// Show one view, and end
    #[arg(long)]
    once: bool,
    /// Number of the largest buckets to name
    #[arg(long, value_name = "N", default_value_t = 10)]
    buckets: usize,
}

/// Shows views until it is stopped, or one.
pub(crate) fn run(arguments: &Arguments, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let of_endpoint = |why| Failure::of(&arguments.endpoint, why);
    let mut before = read(arguments).map_err(of_endpoint)?;
    let mut read_at = Instant::now();
    let is_shown = !json && !arguments.once && io::stdout().is_terminal();
    let keys = if is_shown { TerminalKeys::take() } else { None };
    loop {
        if wait(arguments.interval, keys.as_ref()) {
            return Ok(Outcome::Success);
        }
        let page = read(arguments);
        let now = Instant::now();
        match page {
            Ok(page) => {
                let view = ServerView::between(&before, &page, now - read_at, arguments.buckets);
                show(&view, arguments, json, out)?;
                before = page;
                read_at = now;
            }
            Err(why) if arguments.once => return Err(of_endpoint(why)),
            // A server that starts again is shown again.
            Err(why) => eprintln!("siltstone-tools: {}: {why}", arguments.endpoint),
        }
        if arguments.once {
            return Ok(Outcome::Success);
        }
    }
}

/// Waits, at most until a key ends the view. Returns whether one did.
fn wait(interval: Duration, keys: Option<&TerminalKeys>) -> bool {
    match keys {
        Some(keys) => keys.wait_for_end(interval),
        None => {
            thread::sleep(interval);
            false
        }
    }
}

fn read(arguments: &Arguments) -> Result<MetricsPage, String> {
    let url = format!("{}/-/metrics", arguments.endpoint.trim_end_matches('/'));
    let authorities = arguments.ca_file.as_deref();
    let lines = arguments.token.header_line()?;
    let fetch = Fetch {
        url: &url,
        authorities,
        time_max: PATIENCE,
        body_max_bytes: PAGE_MAX_BYTES,
        lines: &lines,
        form: None,
    };
    let answer = fetch.run()?;
    match answer.status {
        200 => MetricsPage::parse(&answer.text()),
        status => Err(format!("the server answers {status} {}", answer.text().trim_end())),
    }
}

fn show(view: &ServerView, arguments: &Arguments, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        writeln!(out, "{}", report::describe(view))?;
    } else {
        if !arguments.once && io::stdout().is_terminal() {
            write!(out, "{CLEAR}")?;
        }
        report::write_text(view, &arguments.endpoint, out)?;
    }
    out.flush()
}
