use serde_json::Value;
use siltstone::base::limits::{BLOCK_BYTES, PAGE_BYTES};
use siltstone::format::{ExtentHeader, segment_path};

use super::*;

/// Runs `verify --json`; the answer must be one object.
fn look(fixture: &Fixture) -> (i32, Value) {
    let output = fixture.tool(&["verify", "--json"]);
    (status(&output), serde_json::from_slice(&output.stdout).unwrap())
}

/// Causes damage, and expects a finding at that file and offset, with that key if one is given.
fn expect(damage: impl FnOnce(&Fixture), file: &str, offset: u64, key: Option<&str>) {
    let fixture = Fixture::new();
    damage(&fixture);
    let damaged = fixture.contents();
    let (status, report) = look(&fixture);
    assert_eq!(status, 1, "{report:#}");
    let findings = report["findings"].as_array().unwrap();
    let here = |finding: &&Value| {
        finding["file"] == file && finding["offset"] == offset && finding["key"].as_str() == key
    };
    let found = findings.iter().find(here);
    assert!(found.is_some(), "nothing at {file}, {offset}, {key:?} in {findings:#?}");
    if key.is_some() {
        assert_eq!(found.unwrap()["bucket"], "photos");
        assert_eq!(found.unwrap()["version"].as_str().unwrap().len(), 32);
    }
    assert!(fixture.contents() == damaged, "what is damaged is not mended in silence");
}

/// The extents of a healthy fixture, which are the same in all.
fn places() -> (ExtentRef, ExtentRef) {
    let fixture = Fixture::new();
    (fixture.small, fixture.large)
}

fn nth(kind: FileKind, at: usize) -> String {
    Fixture::new().files(kind).remove(at)
}

#[test]
fn a_healthy_store_has_no_findings_and_nothing_is_written() {
    let fixture = Fixture::new();
    let before = fixture.contents();
    let (status, report) = look(&fixture);
    assert_eq!((status, report["findings"].as_array().unwrap().len()), (0, 0), "{report:#}");
    let counts = &report["counts"];
    let expected = [("buckets", 1), ("versions", 8), ("uploads", 1), ("checkpoints", 2), ("log_files", 1)];
    expected.iter().for_each(|(name, count)| assert_eq!(counts[name], *count, "{name}"));
    let segments = report["segments"].as_array().unwrap();
    assert_eq!(segments.len(), fixture.files(FileKind::Segment).len());
    assert!(segments.iter().any(|segment| segment["sealed"] == true), "{segments:#?}");
    assert!(segments.iter().all(|s| s["live"].as_u64() <= s["len"].as_u64()));
    assert!(fixture.contents() == before);
}

#[test]
fn text_lines_name_object_file_and_offset() {
    let fixture = Fixture::new();
    let healthy = fixture.tool(&["verify"]);
    assert_eq!(status(&healthy), 0);
    assert!(stdout(&healthy).ends_with("nothing is wrong\n"), "{}", stdout(&healthy));
    assert!(stderr(&healthy).contains("reading objects 100%"), "{}", stderr(&healthy));
    let block = fixture.small.offset + 64;
    let file = segment_path(fixture.small.segment);
    fixture.flip(&file, block, 1);
    let damaged = fixture.tool(&["verify"]);
    assert_eq!(status(&damaged), 1);
    let text = stdout(&damaged);
    let line = text.lines().find(|line| line.starts_with("finding: ")).unwrap();
    assert!(line.starts_with("finding: bucket photos, key \"small\", version "), "{line}");
    assert!(
        line.contains(&format!(" (null): {file} is damaged at offset {block}: the block has CRC")),
        "{line}"
    );
    assert!(text.ends_with("1 finding\n"), "{text}");
}

#[test]
fn a_flipped_bit_in_a_payload_is_found() {
    let (small, large) = places();
    let at = small.offset + 64;
    let file = segment_path(small.segment);
    expect(|fixture| fixture.flip(&file, at + 3, 8), &file, at, Some("small"));
    let second = large.offset + 64 + BLOCK_BYTES;
    let file = segment_path(large.segment);
    expect(|fixture| fixture.flip(&file, second + 77, 1), &file, second, Some("large"));
}

#[test]
fn a_flipped_bit_in_a_block_table_is_found() {
    let (_, large) = places();
    let table = large.offset + 64 + u64::from(large.payload_len);
    let file = segment_path(large.segment);
    expect(|fixture| fixture.flip(&file, table + 5, 1), &file, table, Some("large"));
}

#[test]
fn a_flipped_bit_in_a_descriptor_is_found() {
    let (small, large) = places();
    for (extent, key) in [(small, "small"), (large, "large")] {
        let payload_len = u64::from(extent.payload_len);
        let at = extent.offset + 64 + payload_len + ExtentHeader::table_len(payload_len);
        let file = segment_path(extent.segment);
        expect(|fixture| fixture.flip(&file, at + 9, 1), &file, at, Some(key));
    }
}

#[test]
fn a_flipped_bit_in_an_extent_header_is_found() {
    let (small, _) = places();
    let file = segment_path(small.segment);
    for byte in [0, 24, 63] {
        expect(|fixture| fixture.flip(&file, small.offset + byte, 1), &file, small.offset, Some("small"));
    }
}

#[test]
fn a_flipped_bit_in_a_group_is_found() {
    let file = nth(FileKind::Log, 0);
    for byte in [10, 130] {
        expect(|fixture| fixture.flip(&file, PAGE_BYTES + byte, 1), &file, PAGE_BYTES, None);
    }
}

#[test]
fn a_flipped_bit_in_either_checkpoint_is_found() {
    for at in [0, 1] {
        let file = nth(FileKind::Checkpoint, at);
        expect(|fixture| fixture.flip(&file, PAGE_BYTES + 200, 1), &file, PAGE_BYTES, None);
    }
}

#[test]
fn a_flipped_bit_in_any_file_header_is_found() {
    for kind in FileKind::ALL {
        let file = nth(kind, 0);
        for byte in [0, 16, 32, 2000] {
            expect(|fixture| fixture.flip(&file, byte, 1), &file, 0, None);
        }
    }
}

#[test]
fn the_objects_in_a_segment_with_a_bad_header_are_named() {
    let (small, _) = places();
    let file = segment_path(small.segment);
    expect(|fixture| fixture.flip(&file, 100, 1), &file, small.offset, Some("small"));
}

#[test]
fn a_damaged_footer_is_found() {
    let fixture = Fixture::new();
    let (_, report) = look(&fixture);
    let sealed = report["segments"].as_array().unwrap().iter().find(|s| s["sealed"] == true).unwrap();
    let file = sealed["file"].as_str().unwrap();
    let len = sealed["len"].as_u64().unwrap();
    expect(|fixture| fixture.flip(file, len - PAGE_BYTES + 9, 1), file, len - PAGE_BYTES, None);
}

#[test]
fn a_missing_segment_is_found_with_all_that_was_in_it() {
    let (small, large) = places();
    for (extent, key) in [(small, "small"), (large, "large")] {
        let file = segment_path(extent.segment);
        let remove = |fixture: &Fixture| fs::remove_file(fixture.path(&file)).unwrap();
        expect(remove, &file, 0, None);
        expect(remove, &file, extent.offset, Some(key));
    }
}

#[test]
fn a_segment_that_was_cut_off_is_found() {
    let (small, _) = places();
    let file = segment_path(small.segment);
    let cut = |fixture: &Fixture| fixture.change(&file, |bytes| bytes.truncate(small.offset as usize + 70));
    expect(cut, &file, small.offset + 64, Some("small"));
}

#[test]
fn segments_that_were_swapped_are_found() {
    let swap = |fixture: &Fixture| {
        let aside = fixture.path("data/aside");
        let [one, two] = [1, 2].map(|id| fixture.path(&segment_path(id)));
        fs::rename(&one, &aside).unwrap();
        fs::rename(&two, &one).unwrap();
        fs::rename(&aside, &two).unwrap();
    };
    expect(swap, &segment_path(1), 0, None);
    expect(swap, &segment_path(2), 0, None);
}

#[test]
fn a_log_that_was_cut_off_or_is_gone_is_found() {
    let file = nth(FileKind::Log, 0);
    for len in [8192 + 10, 100_000, 2000] {
        let fixture = Fixture::new();
        fixture.change(&file, |bytes| bytes.truncate(len));
        let (status, report) = look(&fixture);
        assert_eq!((status, report["findings"][0]["file"].as_str()), (1, Some(file.as_str())), "{report:#}");
    }
    let fixture = Fixture::new();
    fs::remove_file(fixture.path(&file)).unwrap();
    let (status, report) = look(&fixture);
    assert_eq!(status, 1);
    assert!(report["findings"][0]["what"].as_str().unwrap().contains("meta/*.log is missing"), "{report:#}");
    // The objects of the checkpoint are checked all the same.
    assert!(report["counts"]["extents"].as_u64().unwrap() > 0, "{report:#}");
}

#[test]
fn a_file_of_another_store_is_found() {
    let other = Fixture::new();
    let file = nth(FileKind::Segment, 0);
    let foreign = fs::read(other.path(&file)).unwrap();
    expect(|fixture| fixture.change(&file, |bytes| *bytes = foreign), &file, 0, None);
}

#[test]
fn no_flip_of_any_bit_brings_it_down() {
    let fixture = Fixture::new();
    let entropy = SeededEntropy::new(7);
    let files: Vec<_> = FileKind::ALL.into_iter().flat_map(|kind| fixture.files(kind)).collect();
    for _ in 0..40 {
        let file = &files[entropy.next_u64() as usize % files.len()];
        // Mostly in data: the log consists of zeros for the most part.
        let len = fs::metadata(fixture.path(file)).unwrap().len().min(60_000);
        let at = entropy.next_u64() % len;
        let mask = 1 << (entropy.next_u64() % 8);
        fixture.flip(file, at, mask);
        let output = fixture.tool(&["verify", "--json"]);
        assert!(matches!(status(&output), 0 | 1), "{file} at {at}: {}", stderr(&output));
        fixture.flip(file, at, mask);
    }
    assert_eq!(look(&fixture).0, 0);
}

#[test]
fn a_store_in_use_is_not_checked() {
    let fixture = Fixture::new();
    let store = open(fixture.dir.path());
    let refused = fixture.tool(&["verify"]);
    assert_eq!((status(&refused), stdout(&refused).as_str()), (2, ""));
    assert!(stderr(&refused).contains("another process uses this data directory"), "{}", stderr(&refused));
    drop(store);
    assert_eq!(look(&fixture).0, 0);
}

#[test]
fn a_directory_without_a_store_is_refused_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for path in [dir.path(), &missing] {
        let refused = run(&["--data-dir", path.to_str().unwrap(), "verify"]);
        assert_eq!(status(&refused), 2);
        let expected = format!("siltstone-tools: {}: there is no store in it", path.display());
        assert!(stderr(&refused).starts_with(&expected), "{}", stderr(&refused));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}
