//! The races: in each round all connections send at once, and exactly one write may be done.

use std::sync::Barrier;
use std::thread;

use super::link::Precondition::{Absent, None as Always, Tag};
use super::link::{Content, Finding, Link, Precondition, Reply, unfinished};
use super::session::{Session, expect_content};
use siltstone::client::{HttpConnection, SignedRequest};

/// The most repetitions of a round in which every write is asked for another attempt (409).
const REPETITIONS_MAX: u32 = 5;

/// The part of one connection in a round.
struct Entry {
    request: SignedRequest<'static>,
    /// The content of the key if the request is done.
    content: Content,
    /// The request for the case that it is not.
    cleanup: Option<SignedRequest<'static>>,
}

/// An entry after the race.
struct Attempt {
    reply: Reply,
    content: Content,
    /// The content of the key, read after a clear answer.
    seen: Option<Content>,
}

/// Prepares the entry of the connection with that number.
type Enter<'e> = &'e (dyn Fn(&mut HttpConnection, usize) -> Result<Entry, Finding> + Sync);

pub(super) fn create(session: &mut Session<'_>) -> Result<String, Finding> {
    let mut connections = session.connect_racers()?;
    for round in 0..session.rounds {
        until_won(round, |attempt| {
            let key = session.link.key(&format!("create-race-{round}-{attempt}"));
            let won = run(&session.link, &mut connections, &key, &|_, _| {
                Ok(Entry::put(&session.link, &key, Absent))
            })?;
            session.lists(&key, 1)?;
            Ok(won)
        })?;
        session.step_is_over("create-race");
    }
    Ok(remark(session.rounds, session.racers))
}

pub(super) fn replace(session: &mut Session<'_>) -> Result<String, Finding> {
    let key = session.link.key("replace-race");
    let mut connections = session.connect_racers()?;
    let first = session.link.put(&key, &session.link.content(), Always);
    let mut etag = session.done(&first, "a put")?;
    for round in 0..session.rounds {
        etag = until_won(round, |_| {
            run(&session.link, &mut connections, &key, &|_, _| {
                Ok(Entry::put(&session.link, &key, Tag(&etag)))
            })
        })?;
        session.step_is_over("replace-race");
    }
    Ok(remark(session.rounds, session.racers))
}

pub(super) fn delete(session: &mut Session<'_>) -> Result<String, Finding> {
    let key = session.link.key("delete-race");
    let mut connections = session.connect_racers()?;
    for round in 0..session.rounds {
        let first = session.link.put(&key, &session.link.content(), Always);
        let etag = session.done(&first, "a put")?;
        until_won(round, |_| {
            // Half of them replace it, so that deletes also race with puts.
            run(&session.link, &mut connections, &key, &|_, number| {
                Ok(match number % 2 {
                    0 => Entry::put(&session.link, &key, Tag(&etag)),
                    _ => Entry::delete(&session.link, &key, Tag(&etag)),
                })
            })
        })?;
        session.step_is_over("delete-race");
    }
    Ok(remark(session.rounds, session.racers))
}

pub(super) fn multipart(session: &mut Session<'_>) -> Result<String, Finding> {
    let rounds = multipart_rounds(session.rounds);
    let mut connections = session.connect_racers()?;
    for round in 0..rounds {
        until_won(round, |attempt| {
            let key = session.link.key(&format!("multipart-race-{round}-{attempt}"));
            let won = run(&session.link, &mut connections, &key, &|connection, _| {
                Entry::completion(&session.link, connection, &key)
            })?;
            session.lists(&key, 1)?;
            Ok(won)
        })?;
        session.step_is_over("multipart-race");
    }
    Ok(remark(rounds, session.racers))
}

/// Each entry takes two requests more than a put.
pub(super) fn multipart_rounds(rounds: u32) -> u32 {
    rounds.div_ceil(10)
}

fn remark(rounds: u32, racers: usize) -> String {
    format!("{rounds} rounds of {racers}, one outcome in each")
}

/// Repeats a round while all its writes are asked for another attempt. Gives the entity tag of the
/// winner.
fn until_won(
    round: u32,
    mut run: impl FnMut(u32) -> Result<Option<String>, Finding>,
) -> Result<String, Finding> {
    for attempt in 0..REPETITIONS_MAX {
        let won = run(attempt).map_err(|finding| match finding {
            Finding::Broken(why) => Finding::Broken(format!("in round {}: {why}", round + 1)),
            other => other,
        })?;
        if let Some(etag) = won {
            return Ok(etag);
        }
    }
    Err(unfinished(format!("round {}: all writes were answered 409, {REPETITIONS_MAX} times", round + 1)))
}

/// Runs a round. Gives the entity tag of the winner, which is empty for deletions; `None` if all
/// writes were answered 409.
fn run(
    link: &Link<'_>,
    connections: &mut [HttpConnection],
    key: &str,
    enter: Enter<'_>,
) -> Result<Option<String>, Finding> {
    let start = Barrier::new(connections.len());
    let attempts: Result<Vec<Attempt>, Finding> = thread::scope(|scope| {
        let mut racers = Vec::new();
        for (number, connection) in connections.iter_mut().enumerate() {
            let start = &start;
            racers.push(scope.spawn(move || {
                let entry = enter(connection, number);
                start.wait();
                entry?.race(link, connection, key)
            }));
        }
        racers.into_iter().map(|racer| racer.join().expect("a racer does not panic")).collect()
    });
    judge(key, &attempts?)
}

/// Checks that one write was done, or only deletions, and that every read shows the outcome.
fn judge(key: &str, attempts: &[Attempt]) -> Result<Option<String>, Finding> {
    let done: Vec<_> = attempts.iter().filter(|attempt| matches!(attempt.reply, Reply::Done(_))).collect();
    let writes = done.iter().filter(|attempt| attempt.content.is_some()).count();
    let Some(winner) = done.first() else { return without_winner(attempts) };
    if writes > 1 {
        return Err(Finding::Broken(format!("{writes} writers of {key} were told that they had won")));
    }
    if writes == 1 && done.len() > 1 {
        let told = format!("a writer and a deleter of {key} were both told that they had won");
        return Err(Finding::Broken(told));
    }
    for seen in attempts.iter().filter_map(|attempt| attempt.seen.as_ref()) {
        expect_content(key, seen, &winner.content)?;
    }
    match &winner.reply {
        Reply::Done(etag) => Ok(Some(etag.clone())),
        _ => Ok(None),
    }
}

fn without_winner(attempts: &[Attempt]) -> Result<Option<String>, Finding> {
    let unknown = attempts.iter().find_map(|attempt| match &attempt.reply {
        Reply::Other(_, why) | Reply::Lost(why) => Some(why.clone()),
        _ => None,
    });
    match unknown {
        Some(why) => Err(unfinished(format!("no write was answered as done: {why}"))),
        None if attempts.iter().all(|attempt| matches!(attempt.reply, Reply::Unmet(409))) => Ok(None),
        None => {
            Err(Finding::Broken("every write was refused, although the condition held at first".to_owned()))
        }
    }
}

impl Entry {
    fn put(link: &Link<'_>, key: &str, condition: Precondition<'_>) -> Self {
        let content = link.content();
        Self { request: link.put(key, &content, condition), content: Some(content), cleanup: None }
    }

    fn delete(link: &Link<'_>, key: &str, condition: Precondition<'_>) -> Self {
        Self { request: link.delete(key, condition), content: None, cleanup: None }
    }

    fn completion(link: &Link<'_>, connection: &mut HttpConnection, key: &str) -> Result<Self, Finding> {
        let content = link.content();
        let upload = link.upload(connection, key, &content)?;
        let request = link.complete(key, &upload, Absent);
        Ok(Self { request, content: Some(content), cleanup: Some(link.abort(key, &upload)) })
    }

    fn race(self, link: &Link<'_>, connection: &mut HttpConnection, key: &str) -> Result<Attempt, Finding> {
        let reply = link.send(connection, &self.request)?;
        let clear = matches!(reply, Reply::Done(_) | Reply::Unmet(404 | 412));
        let seen = if clear { Some(link.read(connection, key)?.0) } else { None };
        if let Some(cleanup) = self.cleanup.filter(|_| !matches!(reply, Reply::Done(_))) {
            let _ = link.send(connection, &cleanup);
        }
        Ok(Attempt { reply, content: self.content, seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(reply: Reply, content: Option<&str>, seen: Option<&str>) -> Attempt {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let clear = matches!(reply, Reply::Done(_) | Reply::Unmet(404 | 412));
        Attempt { reply, content: content.map(bytes), seen: clear.then(|| seen.map(bytes)) }
    }

    fn done() -> Reply {
        Reply::Done("tag".to_owned())
    }

    #[test]
    fn one_writer_wins_and_all_see_its_bytes() {
        let judge = |attempts: &[Attempt]| judge("k", attempts);
        let lost = |seen| attempt(Reply::Unmet(412), Some("b"), seen);
        let won = || attempt(done(), Some("a"), Some("a"));
        assert_eq!(judge(&[lost(Some("a")), won()]), Ok(Some("tag".to_owned())));
        for broken in [
            vec![won(), attempt(done(), Some("b"), Some("a"))],
            vec![won(), attempt(done(), None, Some("a"))],
            vec![won(), lost(Some("b"))],
            vec![won(), lost(None)],
            vec![lost(Some("b")), lost(Some("b"))],
        ] {
            assert!(matches!(judge(&broken), Err(Finding::Broken(_))));
        }
    }

    #[test]
    fn several_deleters_may_be_told_that_the_key_is_gone() {
        let gone = || attempt(done(), None, None);
        let late = |seen| attempt(Reply::Unmet(404), Some("b"), seen);
        assert_eq!(judge("k", &[gone(), gone(), late(None)]), Ok(Some("tag".to_owned())));
        assert!(judge("k", &[gone(), late(Some("b"))]).is_err());
    }

    #[test]
    fn without_a_winner_conflicts_ask_for_another_round_and_lost_answers_prove_nothing() {
        let conflict = || attempt(Reply::Unmet(409), Some("a"), None);
        assert_eq!(judge("k", &[conflict(), conflict()]), Ok(None));
        let lost = attempt(Reply::Lost("gone".to_owned()), Some("a"), None);
        assert!(matches!(judge("k", &[conflict(), lost]), Err(Finding::Unfinished(_))));
    }
}
