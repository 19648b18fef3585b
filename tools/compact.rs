//! The command `compact`.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytesize::ByteSize;
use clap::Args;
use serde_json::{Value, json};
use siltstone::base::limits::MIB;
use siltstone::base::{OsEntropy, SystemClock};
use siltstone::fs::Fs;
use siltstone::log::Damage;
use siltstone::offline;
use siltstone::offline::compact::{CompactProgress, Compacted, Footprint};

use crate::data_dir::DataDir;
use crate::outcome::{Failure, Outcome};
use crate::progress::Meter;
use crate::show;

pub(crate) const HELP: &str = "\
Moves all live data into full segments, removes the dead bytes, and replaces the log by a new checkpoint. A running server does
the same by itself, but waits until a segment is half empty. The server must be stopped.

The command may be interrupted at any time, by Ctrl-C, kill -9 or a power cut. Nothing is lost, since a server takes the same
steps while clients use it, and the next attempt continues. It needs free space for one more segment and one more checkpoint,
and refuses at the beginning if there is too little.

Examples:
  siltstone-tools compact
      Compact ./siltstone-data.
  siltstone-tools --data-dir /srv/objects compact && siltstone-tools --data-dir /srv/objects verify
  siltstone-tools --data-dir /srv/objects --json compact | jq '.before.data_bytes - .after.data_bytes'

Exit status:
  0  the store has its smallest size
  1  damaged data was left where it is: each finding names file, offset and expected content
  2  not done or not finished: interrupted, no store there, no space, a server has it open, or wrong arguments";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Size of segments, as set for the server
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    segment_size: ByteSize,
}

/// Compacts a store.
pub(crate) fn run(
    data_dir: &DataDir,
    arguments: &Arguments,
    json: bool,
    out: &mut dyn Write,
) -> Result<Outcome, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())
            .map_err(|error| Failure::of(data_dir.display(), &error))?;
    }
    let mut meter = Meter::start(json);
    let fs: Arc<dyn Fs> = data_dir.disk()?;
    let clock = Arc::new(SystemClock);
    let segment_max_bytes = arguments.segment_size.as_u64().max(MIB);
    let done = offline::compact(&fs, clock, &OsEntropy, segment_max_bytes, &mut |progress| {
        let CompactProgress { moved_bytes, total_bytes } = progress;
        meter.update("moving live data", moved_bytes.min(total_bytes), total_bytes);
        !stop.load(Ordering::Relaxed)
    });
    meter.finish();
    let done = done.map_err(|error| Failure::of(data_dir.display(), &error))?;
    if json {
        show::json(out, &describe(&done))?;
    } else {
        write_text(&done, out)?;
    }
    Ok(match (done.stopped, done.damage.is_empty()) {
        (true, _) => Outcome::Failed,
        (false, false) => Outcome::Findings,
        (false, true) => Outcome::Success,
    })
}

fn write_text(done: &Compacted, out: &mut dyn Write) -> io::Result<()> {
    done.damage.iter().try_for_each(|damage| writeln!(out, "finding: {damage}"))?;
    for (when, Footprint { segments, data_bytes, metadata_bytes }) in
        [("before", done.before), ("after", done.after)]
    {
        writeln!(out, "{when}: {data_bytes} bytes in {segments} segments, {metadata_bytes} of metadata")?;
    }
    writeln!(out, "live: {} bytes, {} of them moved", done.live_bytes, done.moved_bytes)?;
    if done.stopped {
        writeln!(out, "interrupted: nothing is lost, and the next attempt continues from here")?;
    }
    Ok(())
}

fn describe(done: &Compacted) -> Value {
    let footprint = |Footprint { segments, data_bytes, metadata_bytes }: Footprint| json!({ "segments": segments, "data_bytes": data_bytes, "metadata_bytes": metadata_bytes });
    let findings = done.damage.iter().map(|damage| {
        let Damage { file, offset, what } = damage;
        json!({ "file": file, "offset": offset, "what": what })
    });
    json!({
        "findings": findings.collect::<Value>(),
        "before": footprint(done.before),
        "after": footprint(done.after),
        "live_bytes": done.live_bytes,
        "moved_bytes": done.moved_bytes,
        "finished": !done.stopped,
    })
}
