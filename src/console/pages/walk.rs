//! Walks over the keys of a bucket, in steps that a page waits for. Each step goes on where the one
//! before it has stopped.

use std::time::Duration;

use super::super::s3_client::Refusal;
use super::View;
use super::find::Wanted;
use crate::service::{KeyPlace, WalkedKey};

/// The limits of a step.
#[derive(Clone, Copy)]
pub(super) struct WalkLimits {
    /// A further part is begun within that time; a part reads some thousand versions.
    time: Duration,
    pub(super) keys: usize,
}

impl WalkLimits {
    /// The step of a page whose subject the walk is. With the rest of the page it takes less than
    /// 100 ms.
    pub(super) const PAGE: Self = Self { time: Duration::from_millis(60), keys: 200 };
    /// The way to one key that a page leads on to.
    const NEIGHBOUR: Self = Self { time: Duration::from_millis(15), keys: 1 };
}

/// The keys for which a person looks.
#[derive(Clone, Copy)]
pub(super) enum Sought<'a> {
    /// Those of deleted objects that can come back.
    Deleted,
    /// Those of objects that a form asks for.
    Wanted(Wanted<'a>),
    /// Those of the folder itself.
    Here,
}

/// The objects before and after one in its folder.
#[derive(Default)]
pub(super) struct Neighbours {
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
}

impl Neighbours {
    /// The neighbours of the key `of`, as far as they are found in a short time: an index goes
    /// forward alone, so the way to the previous one begins at the start of the folder.
    pub(super) fn read(view: &View<'_>, bucket: &str, folder: &str, of: &str) -> Self {
        let after = KeyPlace { bucket, prefix: folder, after: Some(of) };
        let next = WalkStep::read(view, after, Sought::Here, WalkLimits::NEIGHBOUR);
        let next = next.ok().and_then(|step| step.keys.into_iter().next());
        Self { previous: previous(view, bucket, folder, of), next: next.map(|next| next.key) }
    }
}

fn previous(view: &View<'_>, bucket: &str, folder: &str, of: &str) -> Option<String> {
    let clock = &*view.console.clock;
    let begun = clock.instant();
    let mut previous = None;
    let mut after = None;
    while clock.instant() - begun < WalkLimits::NEIGHBOUR.time {
        let part =
            part(view, KeyPlace { bucket, prefix: folder, after: after.as_deref() }, Sought::Here).ok()?;
        for walked in part.keys {
            if walked.key.as_str() >= of {
                return previous;
            }
            previous = Some(walked.key);
        }
        after = part.next.filter(|next| next.as_str() < of);
        if after.is_none() {
            return previous;
        }
    }
    None
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
        limits: WalkLimits,
    ) -> Result<Self, Refusal> {
        let mut keys = Vec::new();
        let next = walk_parts(view, place, sought, limits.time, |part| {
            keys.extend(part);
            keys.len() < limits.keys
        })?;
        if keys.len() <= limits.keys {
            return Ok(Self { keys, next });
        }
        keys.truncate(limits.keys);
        let next = keys.last().map(|last| last.key.clone());
        Ok(Self { keys, next })
    }
}

/// How many keys a step has met.
#[derive(Default)]
pub(super) struct WalkCount {
    pub(super) keys: u64,
    /// The key after which the next step begins, if there is one.
    pub(super) next: Option<String>,
}

impl WalkCount {
    /// Counts the keys below a prefix, from the key `after` on. A further part is begun within
    /// `time`.
    ///
    /// # Errors
    /// As of [`WalkStep::read`].
    pub(super) fn read(
        view: &View<'_>,
        place: KeyPlace<'_>,
        sought: Sought<'_>,
        time: Duration,
    ) -> Result<Self, Refusal> {
        let mut keys = 0;
        let next = walk_parts(view, place, sought, time, |part| {
            keys += part.len() as u64;
            true
        })?;
        Ok(Self { keys, next })
    }
}

/// Walks below a prefix, from the key `place.after` on, until `take` wants no more, or `time` is over
/// at the end of a part. Returns the key after which the next step begins, if there is one.
///
/// # Errors
/// As of [`WalkStep::read`].
fn walk_parts(
    view: &View<'_>,
    place: KeyPlace<'_>,
    sought: Sought<'_>,
    time: Duration,
    mut take: impl FnMut(Vec<WalkedKey>) -> bool,
) -> Result<Option<String>, Refusal> {
    let clock = &*view.console.clock;
    let begun = clock.instant();
    let mut next = place.after.map(str::to_owned);
    loop {
        let further = KeyPlace { after: next.as_deref(), ..place };
        let part = part(view, further, sought)?;
        let wants_more = take(part.keys);
        next = part.next;
        if next.is_none() || !wants_more || clock.instant() - begun >= time {
            return Ok(next);
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
        Sought::Wanted(wanted) => {
            let text = wanted.name.to_lowercase();
            let found = service.sought_keys(identity, view.request, place, &|key| {
                name_below(place.prefix, key).to_lowercase().contains(&text)
            });
            let now = view.console.clock.now();
            found.map(|mut found| {
                found.keys.retain(|object| wanted.admits(object, now));
                found
            })
        }
        Sought::Here => service.sought_keys(identity, view.request, place, &|key| {
            let name = name_below(place.prefix, key);
            !name.is_empty() && !name.contains('/')
        }),
    };
    found.map_err(|error| Refusal::of_error(&error))
}

fn name_below<'k>(prefix: &str, key: &'k str) -> &'k str {
    key.strip_prefix(prefix).unwrap_or(key)
}
