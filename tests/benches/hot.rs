//! What the hot paths cost: `cargo bench --bench hot` times them; `tests/benches/count.sh` has
//! their instructions counted and holds them against the ceilings that are recorded beside it.

mod objects;
mod paths;

use divan::Bencher;

use paths::{PATHS, Walk, ready};

/// How often a path is gone before it is counted: buffers have grown and keys are derived then.
const WARM_UP: usize = 20;

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("--count") => count(&args.next().expect("--count takes the name of a path")),
        Some("--names") => PATHS.iter().for_each(|(name, _)| println!("{name}")),
        _ => divan::main(),
    }
}

#[divan::bench(args = PATHS.iter().map(|(name, _)| *name))]
fn path(bencher: Bencher<'_, '_>, name: &str) {
    bencher.bench_local(ready(name));
}

/// Goes a path once where a tool counts what [`counted`] does.
fn count(name: &str) {
    let mut walk = ready(name);
    (0..WARM_UP).for_each(|_| walk());
    counted(&mut walk);
}

/// The name that the tool is told.
#[inline(never)]
fn counted(walk: &mut Walk) {
    std::hint::black_box(walk)();
}
