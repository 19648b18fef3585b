//! A scripted day in the life of a store, until something goes wrong.

use super::model::Model;
use super::steps::{If, Step, Which};
use super::*;

use Step::{Checkpoint, Configure, Create, Delete, Drop, Put, Reclaim, Reopen};

/// Everything that changes a store, small and large, with conditions, versions, buckets that come
/// and go, checkpoints and restarts.
pub(super) const WORK: &[Step] = &[
    Create("a"),
    Put("a", "small", 1, 100, If::Always),
    Put("a", "blocks", 2, 70_000, If::Always),
    Configure("a", None),
    Put("a", "big", 3, 300_000, If::Absent),
    Configure("a", Some("first")),
    Put("a", "small", 4, 5_000, If::Is(1, 100)),
    Put("a", "empty", 5, 0, If::Always),
    Delete("a", &[("blocks", Which::Current)]),
    Reclaim,
    Step::Versioning("a", Versioning::Enabled),
    Put("a", "small", 6, 6_000, If::Always),
    Put("a", "small", 7, 66_000, If::Always),
    Delete("a", &[("small", Which::Current)]),
    Step::DeleteLong("a"),
    Put("a", "small", 8, 800, If::Absent),
    Put("a", "small", 9, 900, If::Absent),
    Put("a", "small", 10, 1_000, If::Is(8, 800)),
    Checkpoint,
    Delete("a", &[("small", Which::Nth(2)), ("big", Which::Null), ("never", Which::Current)]),
    Configure("a", Some("second")),
    Step::Initiate("a", "film"),
    Step::Part("a", "film", 2, 30, 120_000),
    Step::Part("a", "film", 1, 31, 70_000),
    Step::Part("a", "film", 5, 32, 500),
    Step::Part("a", "film", 2, 33, 300),
    Step::Copy("a", "small", "twin", 100..900),
    Reclaim,
    Reopen { close: true },
    Step::Tag("a", "small", "blue"),
    Step::Publish("a", "small"),
    Step::Retain("a", "small", 1_000),
    Step::Complete("a", "film", &[1, 2]),
    Step::Retain("a", "film", 2_000),
    Step::Copy("a", "film", "small", 0..70_300),
    Step::Retain("a", "film", 3_000),
    Delete("a", &[("film", Which::Nth(0)), ("twin", Which::Nth(0))]),
    Step::Versioning("a", Versioning::Suspended),
    Put("a", "small", 11, 1_100, If::Always),
    Delete("a", &[("small", Which::Current), ("big", Which::Current), ("small", Which::Null)]),
    Delete("a", &[("small", Which::Nth(1)), ("never", Which::Nth(0)), ("big", Which::Nth(0))]),
    Reclaim,
    Create("b"),
    Configure("b", Some("of b")),
    Configure("a", None),
    Create("a"),
    Put("b", "x", 12, 200, If::Always),
    Drop("b"),
    Delete("b", &[("x", Which::Current)]),
    Drop("b"),
    Reopen { close: false },
    Create("b"),
    Put("b", "x", 13, 140_000, If::Always),
    Step::Publish("b", "x"),
    Step::Initiate("b", "film"),
    Checkpoint,
    Step::Part("b", "film", 1, 34, 400),
    Step::Abort("b", "film"),
    Step::Initiate("b", "x"),
    Put("b", "y", 14, 10, If::Always),
    Reclaim,
];

/// What keeps moving and taking away busy: small objects in smaller segments, of which a few
/// outlive the others, versions, copies that share extents, and parts.
pub(super) const CHURN: &[Step] = &[
    Create("a"),
    Put("a", "k1", 1, 6_000, If::Always),
    Put("a", "k2", 2, 9_000, If::Always),
    Put("a", "k3", 3, 2_000, If::Always),
    Put("a", "k4", 4, 9_000, If::Always),
    Put("a", "large", 5, 70_000, If::Always),
    Step::Initiate("a", "film"),
    Step::Part("a", "film", 1, 30, 3_000),
    Step::Part("a", "film", 2, 31, 80_000),
    Step::Copy("a", "k3", "twin", 100..1_900),
    Put("a", "k2", 6, 100, If::Always),
    Delete("a", &[("k4", Which::Current)]),
    Reclaim,
    Step::Part("a", "film", 2, 32, 500),
    Step::Tag("a", "k1", "blue"),
    Step::Retain("a", "k1", 1_000),
    Step::Publish("a", "large"),
    Checkpoint,
    Put("a", "large", 7, 300, If::Always),
    Delete("a", &[("k3", Which::Current)]),
    Reclaim,
    Step::Complete("a", "film", &[1, 2]),
    Step::Retain("a", "k1", 2_000),
    Step::Retain("a", "film", 1_000),
    Step::Versioning("a", Versioning::Enabled),
    Put("a", "k1", 8, 9_000, If::Always),
    Put("a", "k1", 9, 9_000, If::Always),
    Delete("a", &[("k1", Which::Nth(1)), ("k2", Which::Current)]),
    Reopen { close: false },
    Reclaim,
    Step::Copy("a", "film", "twin", 500..3_400),
    Put("a", "k5", 10, 9_000, If::Always),
    Delete("a", &[("k5", Which::Nth(0)), ("film", Which::Nth(0))]),
    Reclaim,
    Checkpoint,
    Put("a", "last", 11, 9_000, If::Always),
    Reclaim,
    Put("a", "last", 12, 10, If::Always),
];

/// What goes on after a recovery.
pub(super) const MORE_WORK: &[Step] = &[
    Create("c"),
    Configure("c", Some("third")),
    Put("c", "small", 20, 2_000, If::Always),
    Put("c", "big", 21, 150_000, If::Always),
    Checkpoint,
    Delete("c", &[("small", Which::Current)]),
    Reclaim,
    Reopen { close: false },
    Put("c", "last", 22, 300, If::Absent),
];

/// What a crash may leave: what was acknowledged, or that and the step that was under way.
pub(super) struct InDoubt {
    pub(super) before: Model,
    pub(super) after: Model,
}

impl InDoubt {
    pub(super) fn nothing(model: Model) -> Self {
        Self { before: model.clone(), after: model }
    }

    /// Opens the store and reads what has become of it.
    pub(super) fn recover(&self, fs: &SimFs, options: StoreOptions) -> Result<(Store, Model), OpenError> {
        let store = open_with(fs, options)?;
        let health = store.health();
        assert_eq!((health.read_only, health.damage), (None, vec![]));
        let found = Model::of(&store);
        assert!(
            self.before.agrees_with(&found) || self.after.agrees_with(&found),
            "acknowledged: {:#?}\nunder way: {:#?}\nfound: {found:#?}",
            self.before,
            self.after
        );
        Ok((store, found))
    }
}

/// Where the steps came to an end before their time.
pub(super) struct Halt {
    pub(super) doubt: InDoubt,
    /// The store, where it was open.
    pub(super) store: Option<Store>,
    /// What the step that failed was answered.
    pub(super) error: Option<StoreError>,
}

impl Halt {
    fn not_open(model: Model) -> Box<Self> {
        Box::new(Self { doubt: InDoubt::nothing(model), store: None, error: None })
    }

    fn during(step: &Step, mut model: Model, store: Store, error: StoreError) -> Box<Self> {
        model.learn_ids(&store);
        let after = model.after(step).unwrap_or_else(|_| model.clone());
        Box::new(Self { doubt: InDoubt { before: model, after }, store: Some(store), error: Some(error) })
    }
}

/// Does the steps until one fails that ought not to.
pub(super) fn work(
    fs: &SimFs,
    options: StoreOptions,
    steps: &[Step],
    mut model: Model,
) -> Result<Model, Box<Halt>> {
    let Ok(mut store) = open_with(fs, options) else {
        return Err(Halt::not_open(model));
    };
    for step in steps {
        assert_eq!(store.health().torn_groups, 0, "whoever had the store before left it in good order");
        if let Reopen { close } = step {
            model.learn_ids(&store);
            if *close {
                store.close();
            }
            drop(store);
            match open_with(fs, options) {
                Ok(again) => store = again,
                Err(_) => return Err(Halt::not_open(model)),
            }
            continue;
        }
        match (step.run(&store), model.after(step)) {
            (Ok(()), Ok(after)) => model = after,
            (Err(error), Err(refusal)) if error == refusal => {}
            (Ok(()), Err(refusal)) => panic!("{step:?} ought to have been refused: {refusal}"),
            (Err(error), _) => return Err(Halt::during(step, model, store, error)),
        }
    }
    model.learn_ids(&store);
    Ok(model)
}
