//! The command `bench`: measures a running S3 server under load. The loop is closed: each client
//! has a connection of its own, and sends the next request after the answer to the last one.

mod load;
mod plot;
mod report;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use siltstone::base::{Entropy, OsEntropy};

use crate::outcome::{Failure, Outcome};
use load::Load;
use report::Result as Measured;
use siltstone::client::{self, Bucket, Endpoint, HttpConnection, RequestSigner};

pub(crate) const HELP: &str = "\
Creates a bucket, measures each operation at each size and number of clients in turn, and removes the bucket with its objects,
also after Ctrl-C. Requests are signed with AWS Signature Version 4, so that other S3 servers can be measured in the same way.
The data directory is not used.

Examples:
  SILTSTONE_ACCESS_KEY=... SILTSTONE_SECRET_KEY=... siltstone-tools bench
      Ten seconds for each of put, get, head, list and delete, with objects of 4 KiB and 16 clients.
  siltstone-tools bench --sizes 4KiB,1MiB --clients 1,16,64 --operations put,get --duration 30s --plot bench.svg
  siltstone-tools --json bench --endpoint http://192.0.2.7:9000 | jq '.results[] | [.operation, .per_second]'

Exit status:
  0  all requests succeeded
  1  some failed: the table counts them
  2  nothing could be measured, or wrong arguments";

/// An operation to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Operation {
    /// PutObject under a new key
    Put,
    /// GetObject of a random object
    Get,
    /// HeadObject of a random object
    Head,
    /// ListObjectsV2, a page of 1,000 keys
    List,
    /// DeleteObject until none is left
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Endpoint of the server: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9000")]
    endpoint: String,
    /// Certificate authorities of an https endpoint, as PEM, instead of those of the system
    #[arg(long, value_name = "FILE", env = "SSL_CERT_FILE")]
    ca_file: Option<PathBuf>,
    /// Access key of a user who may create a bucket and fill it
    #[arg(long, value_name = "KEY", env = "SILTSTONE_ACCESS_KEY", hide_env_values = true)]
    access_key: String,
    /// Its secret key
    #[arg(long, value_name = "KEY", env = "SILTSTONE_SECRET_KEY", hide_env_values = true)]
    secret_key: String,
    /// Region that requests are signed for
    #[arg(long, value_name = "NAME", default_value = "us-east-1")]
    region: String,
    /// Operations to measure, in the order of this list
    #[arg(long, value_delimiter = ',', default_value = "put,get,head,list,delete")]
    operations: Vec<Operation>,
    /// Sizes of objects
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "4KiB")]
    sizes: Vec<ByteSize>,
    /// Numbers of clients
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "16", value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: Vec<u16>,
    /// Duration of the measurement of each operation
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Objects to put before operations other than put are measured
    #[arg(long, value_name = "N", default_value_t = 1000)]
    objects: u64,
    /// Draw throughput and latencies into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Each client holds one object in memory.
const SIZE_MAX: ByteSize = ByteSize::mib(256);

/// Measures, and prints the results.
pub(crate) fn run(arguments: &Arguments, json: bool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(size) = arguments.sizes.iter().find(|size| **size > SIZE_MAX) {
        return Err(Failure::of(size, format!("objects have at most {SIZE_MAX}")));
    }
    let endpoint =
        Endpoint::resolve(&arguments.endpoint, arguments.ca_file.as_deref()).map_err(Failure::Command)?;
    let signer = RequestSigner::new(&arguments.access_key, &arguments.secret_key, &arguments.region);
    let bucket = Bucket::new(format!("bench-{:016x}", OsEntropy.next_u64()), &endpoint, signer);
    let stopped = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stopped))?;
    let mut connection =
        HttpConnection::open(&endpoint).map_err(|why| Failure::of(&arguments.endpoint, why))?;
    make(&bucket, &mut connection).map_err(|why| Failure::of(&arguments.endpoint, why))?;
    let results = measure_all(arguments, &bucket, &endpoint, &stopped);
    remove(&bucket, &mut connection)
        .map_err(|why| Failure::of(format!("the bucket {} is left with its objects", bucket.name), why))?;
    let results = results?;
    report::write(&results, json, out)?;
    if let Some(path) = &arguments.plot {
        plot::draw(&results, path).map_err(|why| Failure::of(path.display(), why))?;
    }
    let failed = results.iter().any(|result| result.errors() > 0);
    Ok(if failed { Outcome::Findings } else { Outcome::Success })
}

fn make(bucket: &Bucket, connection: &mut HttpConnection) -> Result<(), String> {
    let answer = connection.exchange(&bucket.create()).map_err(|error| error.to_string())?;
    match answer.status {
        200 => Ok(()),
        _ => Err(format!("the bucket cannot be created: {}", answer.refusal())),
    }
}

fn measure_all(
    arguments: &Arguments,
    bucket: &Bucket,
    endpoint: &Endpoint,
    stopped: &AtomicBool,
) -> Result<Vec<Measured>, Failure> {
    let mut operations = arguments.operations.clone();
    operations.sort_unstable();
    operations.dedup();
    let mut results = Vec::new();
    for size in &arguments.sizes {
        for clients in &arguments.clients {
            let load = Load::new(bucket, endpoint, size.as_u64(), (*clients).into(), stopped);
            for operation in &operations {
                if *operation != Operation::Put {
                    load.fill_up(arguments.objects).map_err(|why| Failure::of(&arguments.endpoint, why))?;
                }
                if load.is_stopped() {
                    return Ok(results);
                }
                eprintln!("{} {size} with {clients} clients", operation.name());
                results.push(load.measure(*operation, arguments.duration));
            }
        }
    }
    Ok(results)
}

/// Removes the bucket with its objects, a page at a time.
fn remove(bucket: &Bucket, connection: &mut HttpConnection) -> Result<(), String> {
    loop {
        let page = connection.exchange(&bucket.list()).map_err(|error| error.to_string())?;
        let keys = client::keys(&page.text())?;
        if keys.is_empty() {
            break;
        }
        let answer = connection.exchange(&bucket.delete_all(&keys)).map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(answer.refusal());
        }
    }
    let answer = connection.exchange(&bucket.delete()).map_err(|error| error.to_string())?;
    if answer.status == 204 { Ok(()) } else { Err(answer.refusal()) }
}
