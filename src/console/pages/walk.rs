//! Walks over the keys of a bucket, in steps that a page waits for. Each step goes on where the one
//! before it has stopped.

use std::time::Duration;

use super::super::s3_client::Refusal;
use super::View;
use crate::service::{KeyPlace, WalkedKey};

/// The limits of a step.
#[derive(Clone, Copy)]
pub(super) struct StepLimits {
    /// A further part is begun within that time; a part reads some thousand versions.
    time: Duration,
    pub(super) keys: usize,
}

impl StepLimits {
    /// The step of a page whose subject the walk is.
    pub(super) const PAGE: Self = Self { time: Duration::from_millis(80), keys: 200 };
    /// The step of a page that shows a number beside its subject.
    pub(super) const GLANCE: Self = Self { time: Duration::from_millis(15), keys: 1_000 };
}

/// The keys for which a person looks.
#[derive(Clone, Copy)]
pub(super) enum Sought<'a> {
    /// Those of deleted objects that can come back.
    Deleted,
    /// Those of objects whose names below the folder contain a text, in upper or lower case.
    Named(&'a str),
}

/// What one step has found.
pub(super) struct WalkStep {
    pub(super) keys: Vec<WalkedKey>,
    /// The key after which the next step begins, if there is one.
    pub(super) next: Option<String>,
}

impl WalkStep {
    /// Walks below a prefix, from the key `after` on.
    ///
    /// # Errors
    /// The user may not list the prefix; there is no such bucket; there is no memory.
    pub(super) fn read(
        view: &View<'_>,
        place: KeyPlace<'_>,
        sought: Sought<'_>,
        limits: StepLimits,
    ) -> Result<Self, Refusal> {
        let clock = &*view.console.clock;
        let begun = clock.instant();
        let mut step = Self { keys: Vec::new(), next: place.after.map(str::to_owned) };
        loop {
            let further = KeyPlace { after: step.next.as_deref(), ..place };
            let part = part(view, further, sought)?;
            step.keys.extend(part.keys);
            step.next = part.next;
            if step.keys.len() > limits.keys {
                step.keys.truncate(limits.keys);
                step.next = step.keys.last().map(|last| last.key.clone());
            }
            let is_over = step.keys.len() == limits.keys || clock.instant() - begun >= limits.time;
            if step.next.is_none() || is_over {
                return Ok(step);
            }
        }
    }
}

fn part(
    view: &View<'_>,
    place: KeyPlace<'_>,
    sought: Sought<'_>,
) -> Result<crate::service::WalkedKeys, Refusal> {
    let service = &view.console.service;
    let identity = &view.visitor.identity;
    let found = match sought {
        Sought::Deleted => service.deleted_keys(identity, view.request, place),
        Sought::Named(text) => {
            let text = text.to_lowercase();
            service.sought_keys(identity, view.request, place, &|key| {
                let name = key.strip_prefix(place.prefix).unwrap_or(key);
                name.to_lowercase().contains(&text)
            })
        }
    };
    found.map_err(|error| Refusal::of_error(&error))
}
