//! Restarts, and losses of power in the middle of work.

use std::sync::Arc;

use siltstone::base::{ManualClock, SeededEntropy, Timestamp};
use siltstone::fs::sim::{CrashPolicy, SimFs};
use siltstone::ops::LifecycleSweeper;
use siltstone::store::{Store, StoreOptions};

use super::comparison::{check_bytes, difference, learn_ids};
use super::model::Model;
use super::run::Run;
use super::{DAY, IDLE_DAYS};

/// A loss of power: after how many operations of the disk, and what survives.
#[derive(Debug, Clone, Copy)]
pub(super) struct PowerCut {
    pub(super) after: u64,
    pub(super) policy: CrashPolicy,
}

pub(super) fn open(fs: &SimFs, clock: &Arc<ManualClock>) -> (Arc<Store>, LifecycleSweeper) {
    let options = StoreOptions {
        log_file_max_bytes: 256 * 1024,
        keep_free_bytes: 0,
        idle_group_after: None,
        checkpoint_after_bytes: 16 * 1024,
        abort_uploads_after: Some(std::time::Duration::from_millis(IDLE_DAYS * DAY)),
        ..StoreOptions::default()
    };
    let store = Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options);
    let store = Arc::new(store.expect("the store opens"));
    store.watch_clock().unwrap();
    let sweeper = LifecycleSweeper::new(store.clone(), clock.clone());
    (store, sweeper)
}

impl Run {
    /// Another run with the same store, which may go on in its own way. The store of this one is
    /// ended.
    pub(super) fn fork(&self) -> Self {
        let fs = self.fs.kill();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(self.true_time())));
        clock.set_wall(Timestamp::from_millis(self.now()));
        clock.set_synchronized(true);
        let opened = Some(open(&fs, &clock));
        let model = self.model.clone();
        let swept = Default::default();
        let draw = SeededEntropy::new(1);
        Self { draw, clock, fs, opened, model, swept, seen: self.seen }
    }

    /// Ends the store, as a process that is dropped or by a loss of power, and opens it again.
    pub(super) fn restart(&mut self, crash: Option<CrashPolicy>) {
        println!("restart: {crash:?}");
        if let Some(policy) = crash {
            self.fs = self.fs.crash(policy);
        }
        self.opened = None;
        self.opened = Some(open(&self.fs, &self.clock));
        self.swept.clear();
        let health = self.store().health();
        assert_eq!((health.read_only, health.damage), (None, vec![]));
    }

    pub(super) fn drawn_cut(&self) -> Option<PowerCut> {
        let policy = *self.draw.one_of(&[CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(7)]);
        self.draw.one_in(3).then(|| PowerCut { after: 1 + self.draw.below(6), policy })
    }

    /// Does some work. If the power goes meanwhile, the store must be in one of these states
    /// afterwards.
    pub(super) fn until<T>(
        &mut self,
        cut: Option<PowerCut>,
        states: &[Model],
        work: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let stop = cut.map(|cut| self.fs.operations() + cut.after);
        stop.into_iter().for_each(|stop| self.fs.stop_at(stop));
        let done = work(self);
        match cut.filter(|_| stop.is_some_and(|stop| self.fs.operations() >= stop)) {
            Some(cut) => {
                self.after_crash(cut, states);
                None
            }
            None => {
                self.fs.stop_at(u64::MAX);
                Some(done)
            }
        }
    }

    /// The store is in one of these states.
    pub(super) fn after_crash(&mut self, cut: PowerCut, states: &[Model]) {
        self.restart(Some(cut.policy));
        let store = self.store().clone();
        let compared = states.iter().cloned().map(|mut state| {
            learn_ids(&store, &mut state);
            (difference(&store, &state), state)
        });
        let compared: Vec<_> = compared.collect();
        let Some((_, state)) = compared.iter().find(|(difference, _)| difference.is_none()) else {
            panic!("in no state: {:?}", compared.iter().map(|(it, _)| it).collect::<Vec<_>>());
        };
        self.model = state.clone();
        check_bytes(&store, &self.model);
    }
}
