use std::io::{PipeReader, PipeWriter, Read, Write};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use siltstone::format::segment_path;

use super::*;

type Kept = Vec<(String, Vec<u8>)>;

fn check_kept(dir: &Path, kept: &Kept) {
    let store = open(dir);
    for (key, bytes) in kept {
        let found = store.find("photos", key, Selector::Current).unwrap();
        let mut read = vec![0; bytes.len()];
        let mut done = 0;
        let mut reader = store.read(&found, 0..found.version.size).unwrap();
        while done < read.len() {
            done += reader.read(&mut read[done..]).unwrap();
        }
        assert!(read == *bytes, "{key}");
    }
}

/// A data directory with mostly dead bytes, by a store with small segments.
fn sparse(count: u64) -> (TempDir, Kept) {
    let dir = tempfile::tempdir().unwrap();
    let options = StoreOptions { segment_max_bytes: 1 << 20, keep_free_bytes: 0, ..StoreOptions::default() };
    let disk = Arc::new(OsFs::new(dir.path()));
    let store = Store::open(disk, Arc::new(SystemClock), &OsEntropy, options).unwrap();
    store.create_bucket("photos", "admin").unwrap();
    let mut kept = vec![];
    for at in 0..count {
        let key = format!("{at}");
        let mut bytes = vec![0; if at % 2 == 0 { 300_000 } else { 3_000 }];
        SeededEntropy::new(at).fill(&mut bytes);
        put(&store, &key, &bytes);
        if at % 5 == 0 {
            kept.push((key, bytes));
        } else {
            let deletion = Deletion { key, which: Selector::Current, condition: DeleteCondition::default() };
            store.delete("photos", vec![deletion]).unwrap();
        }
    }
    store.close();
    (dir, kept)
}

fn compact(dir: &Path, args: &[&str]) -> Output {
    run(&[&["--data-dir", dir.to_str().unwrap()], args].concat())
}

#[test]
fn a_data_directory_is_compacted_and_healthy() {
    let (dir, kept) = sparse(60);
    let output = compact(dir.path(), &["--json", "compact", "--segment-size", "1MiB"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |when: &str, what: &str| done[when][what].as_u64().unwrap();
    let live = done["live_bytes"].as_u64().unwrap();
    assert!(number("before", "data_bytes") > 3 * live, "{done:#}");
    assert!(number("after", "data_bytes") * 2 <= live * 3, "{done:#}");
    assert_eq!(done["finished"], true);
    let output = compact(dir.path(), &["verify"]);
    assert_eq!(status(&output), 0, "{}", stdout(&output));
    check_kept(dir.path(), &kept);
}

#[test]
fn damage_is_reported_and_a_store_in_use_is_left_alone() {
    let (dir, _) = sparse(60);
    let store = open(dir.path());
    let extent = store.find("photos", "10", Selector::Current).unwrap().version.extents[0];
    let output = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"))
        .args(["--data-dir", dir.path().to_str().unwrap(), "compact"])
        .output()
        .unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("another process uses"), "{}", stderr(&output));
    drop(store);
    let path = dir.path().join(segment_path(extent.segment));
    let mut bytes = fs::read(&path).unwrap();
    bytes[extent.offset as usize + 100_000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = compact(dir.path(), &["compact", "--segment-size", "1MiB"]);
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains(&format!("finding: {}", segment_path(extent.segment))));
}

#[test]
fn a_missing_store_is_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let output = compact(dir.path(), &["compact"]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("there is no store in it"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A pipe that is full except for `room` bytes: a longer write blocks until the pipe is read.
fn nearly_full_pipe(room: usize) -> (PipeReader, PipeWriter, u64) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let mut filled = 0;
    while let Ok(len) = writer.write(&[b'.'; 4096]) {
        filled += len;
    }
    // A pipe frees whole pages only, and the last page is filled up by the next write.
    let mut rest = vec![0; filled];
    let mut all = &reader;
    all.read_exact(&mut rest).unwrap();
    writer.write_all(&vec![b'.'; filled - room]).unwrap();
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer, (filled - room) as u64)
}

/// Ctrl-C after part of the work: the tool blocks before its end, since nothing reads its reports.
#[test]
fn an_interrupted_compaction_loses_nothing_and_the_next_one_finishes() {
    let (dir, kept) = sparse(200);
    let first = "moving live data 0%\n";
    let (mut reader, writer, filled) = nearly_full_pipe(first.len() + 4);
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    command.args(["--data-dir", dir.path().to_str().unwrap(), "compact", "--segment-size", "1MiB"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
    drop(command);
    while ioctl_fionread(&reader).unwrap() < filled + first.len() as u64 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut told = Vec::new();
    reader.read_to_end(&mut told).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&told).trim_start_matches('.').to_owned();
    assert_eq!(status(&output), 2, "{told}{}", stdout(&output));
    assert!(told.starts_with(first) && !told.contains("100%"), "{told}");
    assert!(stdout(&output).contains("interrupted: nothing is lost"), "{}", stdout(&output));
    check_kept(dir.path(), &kept);
    assert_eq!(status(&compact(dir.path(), &["verify"])), 0);

    let output = compact(dir.path(), &["--json", "compact", "--segment-size", "1MiB"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(done["after"]["data_bytes"].as_u64().unwrap() * 2 <= done["live_bytes"].as_u64().unwrap() * 3);
    assert_eq!(status(&compact(dir.path(), &["verify"])), 0);
    check_kept(dir.path(), &kept);
}
