//! The history of figures over restarts, damage and a full disk.

use super::*;
use crate::format::{BucketSize, DaySizes, HISTORY, History, HistorySample};

fn history(requests: u64) -> History {
    let sample = HistorySample { minute: 29_000_000, requests, ..HistorySample::default() };
    let day = DaySizes { day: 20_000, sizes: vec![BucketSize { bucket: 1, bytes: 5 }] };
    History { minutes: [sample].into(), hours: [sample].into(), days: [day].into() }
}

#[test]
fn a_history_outlives_restarts_and_crashes() {
    let fs = SimFs::new();
    let store = open(&fs);
    assert_eq!(store.history(), History::default());
    store.save_history(&history(1)).unwrap();
    store.save_history(&history(2)).unwrap();
    // No close: what was saved is durable.
    let fs = fs.kill();
    let store = open(&fs);
    assert_eq!(store.history(), history(2));
    store.close();
    drop(store);
    assert_eq!(verify(&fs, &mut |_| {}).unwrap().findings.len(), 0);
    assert_eq!(open(&fs).history(), history(2));
}

#[test]
fn a_damaged_history_is_reported_and_begins_anew() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.save_history(&history(1)).unwrap();
    store.close();
    drop(store);
    fs.damage(HISTORY, 20, 1).unwrap();
    let found = verify(&fs, &mut |_| {}).unwrap().findings;
    assert_eq!(found.iter().map(|f| f.damage.file.as_str()).collect::<Vec<_>>(), [HISTORY]);
    let store = open(&fs);
    assert_eq!(store.history(), History::default());
    assert_eq!(store.health().damage.len(), 1);
    assert_eq!(store.health().read_only, None);
    store.save_history(&history(2)).unwrap();
    store.close();
    drop(store);
    let store = open(&fs);
    assert_eq!((store.history(), store.health().damage.len()), (history(2), 0));
}
