//! The cost of a sweep of lifecycle rules that takes a third of the keys, and of others' requests
//! meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use siltstone::base::SystemClock;
use siltstone::ops::{LifecycleSweeper, SweepTotals};
use siltstone::store::{BucketConfigurationKind, Selector, Store};

use super::objects::put;
use super::{BUCKET, SMALL, busy, open, resident};

/// A third of the sizes that the keys are given is above this one.
const THIRD: &str = "<LifecycleConfiguration><Rule><ID>third</ID><Status>Enabled</Status><Filter>\
    <ObjectSizeGreaterThan>1353333</ObjectSizeGreaterThan></Filter><Expiration><Days>1</Days></Expiration></Rule>\
    </LifecycleConfiguration>";
const OTHER: &str = "others";
const OTHER_KEYS: usize = 1_000;

/// The times of requests, ascending.
struct Times(Vec<Duration>);

impl Times {
    fn percentile(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

pub(super) fn sweep(keys: u64, dir: &Path) {
    let store = Arc::new(open(dir));
    store.create_bucket(OTHER, "bench").expect("the bucket is new");
    (0..OTHER_KEYS).for_each(|nth| put(&store, OTHER, &nth.to_string(), &SMALL));
    let pause = || std::thread::sleep(Duration::from_secs(5));
    let ((), alone) = beside(&store, pause);
    tell("alone", &alone);
    let document = Some(THIRD.as_bytes().to_vec());
    let kind = BucketConfigurationKind::Lifecycle;
    store.set_bucket_configuration(BUCKET, kind, document).expect("the bucket is there");
    let before = resident();
    let start = Instant::now();
    let ((totals, processor), others) = beside(&store, || sweep_once(&store));
    assert!(totals.versions > keys / 4, "{totals:?}");
    println!(
        "sweep of {keys} keys: {} expired in {:.1?}, {processor:.1?} of processor; {} MiB more memory",
        totals.versions,
        start.elapsed(),
        resident().saturating_sub(before) >> 20
    );
    tell("beside the sweep", &others);
    let ratio = others[0].percentile(99).as_secs_f64() / alone[0].percentile(99).as_secs_f64();
    println!("99 of 100 GETs beside the sweep: {ratio:.2} times as long");
    store.close();
}

/// The totals, and the processor time of the thread that sweeps, commits included.
fn sweep_once(store: &Arc<Store>) -> (SweepTotals, Duration) {
    let start = busy();
    let mut sweeper = LifecycleSweeper::new(store.clone(), Arc::new(SystemClock));
    let totals = sweeper.sweep_due(&|| false, &mut |_| {}).expect("the disk works");
    (totals, busy() - start)
}

/// Does some work beside a thread of GETs and one of PUTs. Returns the times of these.
fn beside<T>(store: &Store, work: impl FnOnce() -> T) -> (T, [Times; 2]) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let gets = scope.spawn(|| repeat(&stop, |nth| get(store, &(nth % OTHER_KEYS).to_string())));
        let puts =
            scope.spawn(|| repeat(&stop, |nth| put(store, OTHER, &(nth % OTHER_KEYS).to_string(), &SMALL)));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        (done, [gets, puts].map(|thread| thread.join().expect("no request fails")))
    })
}

/// A request every two milliseconds, so that the load is light.
fn repeat(stop: &AtomicBool, request: impl Fn(usize)) -> Times {
    let mut times = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        request(times.len());
        times.push(start.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    times.sort_unstable();
    Times(times)
}

fn get(store: &Store, key: &str) {
    let found = store.find(OTHER, key, Selector::Current).expect("the key is there");
    let mut reader = store.read(&found, 0..found.version.size).expect("it can be read");
    let mut buffer = SMALL;
    while reader.read(&mut buffer).expect("it can be read") > 0 {}
}

fn tell(when: &str, [gets, puts]: &[Times; 2]) {
    for (name, times) in [("GET", gets), ("PUT", puts)] {
        let [half, most, longest] = [50, 99, 100].map(|percent| times.percentile(percent));
        println!(
            "{name} of 4 KiB {when}: {half:.0?}, 99 of 100 within {most:.0?}, the longest {longest:.1?}"
        );
    }
}
