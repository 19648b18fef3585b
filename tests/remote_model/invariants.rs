//! The promises that each state of the model keeps.

use super::objects::*;
use super::protocol::{Safeguard, Scenario};
use super::state::{Activity, HostState, ReturnPoint, WorldState};

/// The histories after each parcel of the adopted chain, oldest first, each with the parcel's name.
/// `None` where the chain breaks.
///
/// The chain is that of a restore: the highest epoch with a cut, and the former epochs that the
/// cuts name. Parcels that were deleted count, since their names were once up.
fn adopted(scenario: &Scenario, world: &WorldState) -> Option<Vec<(usize, usize, Entries)>> {
    let objects = &world.objects;
    let top = newest_epoch(objects)?;
    let mut epochs = objects.adopted_epochs(top)?;
    if !scenario.keeps(Safeguard::EpochInNames) {
        epochs = vec![(0, PARCELS - 1)];
    }
    let mut chain = vec![(0, 0, 0)];
    let mut history = 0;
    for (epoch, last) in epochs.into_iter().rev() {
        for counter in 1..=last {
            match objects.parcels[epoch][counter] {
                Some(parcel) if parcel.previous == history => history |= parcel.entries,
                Some(_) => return None,
                None if epoch == top || !scenario.keeps(Safeguard::EpochInNames) => break,
                None => return None,
            }
            chain.push((epoch, counter, history));
        }
    }
    Some(chain)
}

/// The highest epoch with a cut.
fn newest_epoch(objects: &RemoteObjects) -> Option<usize> {
    (0..EPOCHS).rev().find(|&epoch| objects.cuts[epoch].is_some())
}

/// The points of the adopted chain before the newest one that a restore finds, each with the root
/// that it begins with.
pub(super) fn earlier_points(scenario: &Scenario, world: &WorldState) -> Vec<(ReturnPoint, Entries)> {
    let (Some(chain), Some(newest)) = (adopted(scenario, world), newest_epoch(&world.objects)) else {
        return Vec::new();
    };
    let mut points = Vec::new();
    for (index, &(former, last, history)) in chain.iter().enumerate().take(chain.len() - 1) {
        if let Some(root) = root_before(world, &chain[..=index])
            && restores(scenario, world, &chain, history)
        {
            let root = chain[root].2;
            let cut = CutObject { former, last, history, gives_up: true };
            points.push((ReturnPoint { newest, root, cut }, root));
        }
    }
    points
}

/// The place of the newest root among the names of a chain.
fn root_before(world: &WorldState, names: &[(usize, usize, Entries)]) -> Option<usize> {
    let roots = newest_epoch(&world.objects).map(|top| world.objects.adopted_roots(top)).unwrap_or_default();
    names.iter().rposition(|(_, _, history)| roots.iter().any(|(_, _, root)| root == history))
}

/// The next history of the adopted chain after `history`.
pub(super) fn point_after(scenario: &Scenario, world: &WorldState, history: Entries) -> Option<Entries> {
    let chain = adopted(scenario, world)?;
    let index = chain.iter().position(|&(_, _, h)| h == history)?;
    chain.get(index + 1).map(|&(_, _, h)| h)
}

/// The history of the adopted chain.
pub(super) fn newest_history(scenario: &Scenario, world: &WorldState) -> Entries {
    adopted(scenario, world).and_then(|chain| chain.last().copied()).map_or(0, |(_, _, history)| history)
}

/// The first promise that `world` breaks.
pub(super) fn violated(scenario: &Scenario, world: &WorldState) -> Option<&'static str> {
    let Some(chain) = adopted(scenario, world) else {
        return Some("the adopted chain is contiguous");
    };
    let newest = chain.last().map_or(0, |&(_, _, history)| history);
    if world.promised & !newest != 0 {
        return Some("what was answered as shipped is in the adopted chain");
    }
    if world.claimed_behind {
        return Some("a host whose log is behind when it starts claims nothing");
    }
    if world.claimed_unseen {
        return Some("a host claims after a claim that it has seen");
    }
    if world.started_beside {
        return Some("a start that goes on at once ends the epoch of no living host");
    }
    if world.hosts.iter().any(|host| host.activity == Activity::Serving && host.shipped & !host.log != 0) {
        return Some("a host that writes has the log that it continues");
    }
    let living = || world.hosts.iter().filter(|host| host.activity != Activity::Gone);
    if scenario.has_starts()
        && living().next().is_some()
        && living().all(|host| host.activity == Activity::Fenced)
    {
        return Some("one of the hosts that live may come to write");
    }
    let unlisted = |host: &HostState| host.answered & !(newest | host.log | host.divergent) != 0;
    if world.hosts.iter().any(unlisted) {
        return Some("an answered group is adopted, or in the log of its host, or listed as divergent");
    }
    if scenario.tier && (0..WRITES).any(|k| bytes_lost(scenario, world, newest, k)) {
        return Some("an answered object has its bytes somewhere");
    }
    let restorable = |&(_, _, point): &(usize, usize, Entries)| {
        point & world.window != world.window || restores(scenario, world, &chain, point)
    };
    if scenario.tier && !chain.iter().all(restorable) {
        return Some("a restore to any point of the window finds each object");
    }
    None
}

fn in_a_parcel(scenario: &Scenario, world: &WorldState, k: usize) -> bool {
    !scenario.own_lane
        && (0..EPOCHS).any(|e| {
            (1..PARCELS).any(|n| world.objects.parcel(e, n).is_some_and(|p| p.entries & written(k) != 0))
        })
}

fn bytes_lost(scenario: &Scenario, world: &WorldState, newest: Entries, k: usize) -> bool {
    let known_dead =
        world.hosts.iter().fold(newest, |all, host| all | host.log | host.divergent) & dead(k) != 0;
    let answered = world.hosts.iter().any(|host| host.answered & written(k) != 0);
    let kept = world.hosts.iter().any(|host| host.local & (1 << k) != 0)
        || (0..EPOCHS).any(|epoch| world.objects.has_segment(epoch, k))
        || in_a_parcel(scenario, world, k);
    answered && !known_dead && !kept
}

/// Whether a restore to `point` finds the newest root before it, each parcel from there, and the
/// bytes of each live object.
fn restores(
    scenario: &Scenario,
    world: &WorldState,
    chain: &[(usize, usize, Entries)],
    point: Entries,
) -> bool {
    let objects = &world.objects;
    let before = chain.iter().take_while(|(_, _, history)| *history & point == *history);
    let names: Vec<_> = before.copied().collect();
    let Some(root) = root_before(world, &names) else { return false };
    let present =
        |&(epoch, n, _): &(usize, usize, Entries)| objects.parcel(scenario.name_epoch(epoch), n).is_some();
    let data = |k: usize| {
        point & (written(k) | dead(k)) != written(k)
            || in_a_parcel(scenario, world, k)
            || (0..EPOCHS).any(|e| point & remote(e, k) != 0 && objects.has_segment(e, k))
    };
    names[root + 1..].iter().all(present) && (0..WRITES).all(data)
}
