use std::io::Write as _;

use serde_json::Value;
use siltstone::base::limits::PAGE_BYTES;
use siltstone::format::{Features, FileHeader, GroupHeader, GroupKind, StoreId, log_path, segment_path};

use super::*;
use crate::support::client::eventually;
use crate::support::process::may_leave_core;

/// Runs `dump --json` on a file; every line must be an object.
fn dump(fixture: &Fixture, file: &str) -> (i32, Vec<Value>) {
    let output = fixture.dump(&["--json"], file);
    let lines = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (status(&output), lines)
}

fn of_kind<'l>(lines: &'l [Value], record: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["record"] == record).collect()
}

fn sequences(lines: &[Value]) -> Vec<u64> {
    of_kind(lines, "group").iter().map(|group| group["sequence"].as_u64().unwrap()).collect()
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    let entries = lines.iter().filter_map(|line| line["entries"].as_array()).flatten();
    entries.map(|entry| entry["kind"].as_str().unwrap()).collect()
}

#[test]
fn a_log_is_printed_group_by_group_with_its_entries() {
    let fixture = Fixture::new();
    let (status, lines) = dump(&fixture, &fixture.files(FileKind::Log)[0]);
    assert_eq!(
        (status, lines[0]["record"].as_str(), lines[0]["kind"].as_str()),
        (0, Some("file header"), Some("log"))
    );
    assert_eq!(sequences(&lines), (1..=12).collect::<Vec<_>>());
    let put = "version put";
    let expected =
        ["bucket put", put, put, "bucket put", put, put, put, put, put, "upload put", "part put", put];
    assert_eq!(kinds(&lines), expected);
    let small = &lines[2]["entries"][0];
    assert_eq!((small["key"].as_str(), small["record"]["size"].as_u64()), (Some("small"), Some(11)));
    assert_eq!(small["record"]["attributes"]["content-type"], "image/png");
    assert_eq!(small["record"]["extents"][0]["offset"], fixture.small.offset);
}

#[test]
fn a_checkpoint_is_printed_to_its_end() {
    let fixture = Fixture::new();
    let (status, lines) = dump(&fixture, &fixture.files(FileKind::Checkpoint)[1]);
    assert_eq!((status, lines[0]["kind"].as_str()), (0, Some("checkpoint")));
    let first = *kinds(&lines).first().unwrap();
    let last = *kinds(&lines).last().unwrap();
    assert_eq!((first, last), ("bucket put", "checkpoint end"));
    assert_eq!(lines.last().unwrap()["entries"].as_array().unwrap().last().unwrap()["versions"], 7);
}

/// Readers of the log skip kinds from 128 on; the dump shows them.
#[test]
fn a_checkpoint_is_printed_with_the_bytes_written_so_far() {
    let fixture = Fixture::new();
    let (_, lines) = dump(&fixture, &fixture.files(FileKind::Checkpoint)[1]);
    let entries: Vec<_> = lines.iter().filter_map(|line| line["entries"].as_array()).flatten().collect();
    let written: Vec<_> = entries.iter().filter(|entry| entry["kind"] == "written bytes").collect();
    assert_eq!(written.len(), 1);
    assert!(written[0]["payload"].as_u64() > Some(300_000), "{written:?}");
    assert!(written[0]["log"].as_u64() > Some(0), "{written:?}");
}

#[test]
fn an_entry_of_an_unknown_kind_is_printed_with_its_number() {
    let fixture = Fixture::new();
    let file = log_path(9);
    let store = StoreId([7; 16]);
    let created = siltstone::base::Timestamp::from_millis(1);
    let features = Features::NONE;
    let header = FileHeader { kind: FileKind::Log, store, number: 9, features, created, previous_crc: 0 };
    let group = GroupHeader {
        kind: GroupKind::Log,
        sequence: 9,
        stable: 8,
        file_len: 0,
        time: created,
        pack: None,
        previous_crc: 0,
    };
    let mut made = fs::File::create(fixture.path(&file)).unwrap();
    made.write_all(&header.encode()).unwrap();
    made.write_all(&group.encode_group(&store, 1, &[200, 2, 1, 1]).0).unwrap();
    let (status, lines) = dump(&fixture, &file);
    assert_eq!((status, of_kind(&lines, "group")[0]["entries"][0]["kind"].as_u64()), (0, Some(200)));
}

#[test]
fn segments_are_printed_extent_by_extent_with_what_they_are() {
    let fixture = Fixture::new();
    let mut keys = Vec::new();
    let mut footers = 0;
    for file in fixture.files(FileKind::Segment) {
        let (status, lines) = dump(&fixture, &file);
        assert_eq!((status, lines[0]["kind"].as_str()), (0, Some("segment")), "{lines:#?}");
        footers += of_kind(&lines, "footer").len();
        for extent in of_kind(&lines, "extent") {
            assert_eq!(
                (extent["payload"].as_str(), extent["offset"].as_u64().unwrap() % 64),
                (Some("good"), 0)
            );
            keys.push(extent["descriptor"]["key"].as_str().unwrap().to_owned());
        }
    }
    let records = dump(&fixture, &segment_path(fixture.small.segment)).1;
    let small = &of_kind(&records, "extent")[0]["descriptor"];
    assert_eq!((small["purpose"].as_str(), small["owner"].as_str()), (Some("object record"), Some("admin")));
    assert_eq!((&small["sources"], small["record"]["size"].as_u64()), (&Value::from(vec![0; 0]), Some(11)));
    keys.sort_unstable();
    let mut expected = vec!["film"];
    expected.extend(["large"; 10]);
    expected.extend(["late", "small"]);
    assert_eq!(keys, expected);
    assert!(footers > 0);
}

#[test]
fn the_same_records_are_printed_as_text() {
    let fixture = Fixture::new();
    let output = fixture.dump(&[], &segment_path(fixture.small.segment));
    assert_eq!(status(&output), 0);
    let text = stdout(&output);
    let extent = format!("\n  {} extent: segment 0000000000000001, payload_len 11,", fixture.small.offset);
    assert!(text.contains(&extent), "{text}");
    for part in
        ["  0 file header: kind segment, ", "payload good", "bucket_name photos, key small, ", "null yes"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_dump_continues_after_a_damaged_group() {
    let fixture = Fixture::new();
    let log = &fixture.files(FileKind::Log)[0];
    fixture.flip(log, 3 * PAGE_BYTES + 150, 1);
    let (status, lines) = dump(&fixture, log);
    assert_eq!((status, sequences(&lines)), (1, vec![1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]));
    let damaged = of_kind(&lines, "damaged");
    assert_eq!((damaged.len(), damaged[0]["offset"].as_u64()), (1, Some(3 * PAGE_BYTES)));
    assert_eq!(damaged[0]["why"], "body of group 3: the body CRC does not match");
}

#[test]
fn a_group_out_of_sequence_is_reported() {
    let fixture = Fixture::new();
    let log = &fixture.files(FileKind::Log)[0];
    fixture.change(log, |bytes| {
        let page = PAGE_BYTES as usize;
        bytes.copy_within(4 * page..5 * page, 3 * page);
    });
    let (status, lines) = dump(&fixture, log);
    assert_eq!(status, 1);
    let why = of_kind(&lines, "damaged")[0]["why"].as_str().unwrap();
    assert!(why.starts_with("the next group must have sequence 3 and previous CRC "), "{why}");
}

#[test]
fn a_damaged_extent_is_reported_and_its_neighbours_are_printed() {
    let fixture = Fixture::new();
    let file = segment_path(fixture.large.segment);
    let intact = dump(&fixture, &file).1;
    fixture.flip(&file, fixture.large.offset + 64 + 70_000, 1);
    let (status, lines) = dump(&fixture, &file);
    assert_eq!((status, lines.len()), (1, intact.len()));
    let damaged = lines.iter().find(|line| line["offset"] == fixture.large.offset).unwrap();
    assert!(damaged["payload"].as_str().unwrap().contains("the block has CRC"), "{damaged}");
    assert_eq!(damaged["descriptor"]["key"], "large");
    fixture.flip(&file, fixture.large.offset + 20, 1);
    let (status, lines) = dump(&fixture, &file);
    assert_eq!((status, of_kind(&lines, "extent").len()), (1, of_kind(&intact, "extent").len() - 1));
    let why = of_kind(&lines, "damaged")[0]["why"].as_str().unwrap();
    assert_eq!(why, "extent header: the header CRC does not match");
}

#[test]
fn records_are_printed_without_the_first_page() {
    let fixture = Fixture::new();
    for kind in FileKind::ALL {
        let file = &fixture.files(kind)[0];
        let intact = dump(&fixture, file).1;
        fixture.change(file, |bytes| bytes[..PAGE_BYTES as usize].fill(0));
        let (status, lines) = dump(&fixture, file);
        assert_eq!((status, lines[0]["record"].as_str()), (1, Some("damaged")));
        assert_eq!(lines[1..], intact[1..], "{file}");
    }
}

#[test]
fn no_bytes_bring_it_down() {
    let fixture = Fixture::new();
    let entropy = SeededEntropy::new(11);
    let mut paths = Vec::new();
    for round in 0..60 {
        for kind in FileKind::ALL {
            let files = fixture.files(kind);
            let mut content = fs::read(fixture.path(&files[round % files.len()])).unwrap();
            content.truncate(120_000);
            spoil(&mut content, round, &entropy);
            let path = fixture.path(&format!("{round}{}", kind.suffix()));
            fs::write(&path, content).unwrap();
            paths.push(path.to_str().unwrap().to_owned());
        }
    }
    for json in [true, false] {
        let mut args = vec!["dump"];
        args.extend(paths.iter().map(String::as_str));
        args.extend(json.then_some("--json"));
        let output = run(&args);
        assert_eq!((status(&output), stderr(&output).as_str()), (1, ""));
    }
}

/// Damage of many kinds, from a few bytes to everything.
fn spoil(content: &mut Vec<u8>, round: usize, entropy: &SeededEntropy) {
    let below = |end: usize| entropy.next_u64() as usize % end;
    match round % 4 {
        0 => *content = bytes(round as u64, 30_000),
        1 => {
            let behind = bytes(round as u64, 30_000);
            content.truncate(PAGE_BYTES as usize);
            content.extend(behind);
        }
        2 => content.truncate(below(60_000)),
        _ => (0..200).for_each(|_| {
            let at = below(content.len());
            content[at] = entropy.next_u64() as u8;
        }),
    }
}

#[test]
fn impossible_lengths_are_refused() {
    let fixture = Fixture::new();
    let file = segment_path(9);
    let store = StoreId([7; 16]);
    let created = siltstone::base::Timestamp::from_millis(1);
    let features = Features::NONE;
    let header = FileHeader { kind: FileKind::Segment, store, number: 9, features, created, previous_crc: 0 };
    let extent = siltstone::format::ExtentHeader {
        segment: 9,
        offset: PAGE_BYTES,
        payload_len: 16 << 20,
        descriptor_len: u32::MAX,
        check: 0,
        descriptor_crc: 0,
    };
    let mut made = fs::File::create(fixture.path(&file)).unwrap();
    made.write_all(&header.encode()).unwrap();
    made.write_all(&extent.encode(&store)).unwrap();
    // As long as the header announces, and empty.
    made.set_len(PAGE_BYTES + extent.extent_len()).unwrap();
    let output = limited(&fixture.path(&file));
    assert_eq!(status(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("a descriptor has at most"), "{}", stdout(&output));
}

/// Dumps a file with half a gibibyte of address space.
fn limited(path: &Path) -> Output {
    let tool = env!("CARGO_BIN_EXE_siltstone-tools");
    let script = format!("ulimit -v 524288; exec '{tool}' dump '{}'", path.display());
    Command::new("sh").args(["-c", &script]).output().unwrap()
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let fixture = Fixture::new();
    let log = fixture.path(&fixture.files(FileKind::Log)[0]);
    let output = run(&["dump", "/nonexistent/file", log.to_str().unwrap()]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("/nonexistent/file: No such file"), "{}", stderr(&output));
    assert!(stdout(&output).contains("group: sequence 12"));
}

#[test]
fn a_closed_output_pipe_is_not_reported() {
    let fixture = Fixture::new();
    let log = fixture.path(&fixture.files(FileKind::Log)[0]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    // More than a pipe holds.
    command.arg("dump").args(vec![log; 50]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(stderr(&child.wait_with_output().unwrap()), "");
}

/// The tool waits at a pipe meanwhile.
#[test]
fn the_tools_leave_no_core_file() {
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut tool = Command::new(env!("CARGO_BIN_EXE_siltstone-tools"));
    let mut running =
        tool.arg("dump").arg(&pipe).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("no core file is forbidden", || !may_leave_core(running.id()));
    running.kill().unwrap();
    running.wait().unwrap();
}
