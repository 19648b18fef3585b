//! The checks: the contract of conditional writes, step by step.

use super::link::Finding;
use super::link::Precondition::{Absent, None as Always, Tag};
use super::race;
use super::session::Session;

/// The statuses that refuse a write whose condition does not hold. 409 asks for another attempt (S3
/// user guide, "Conditional writes").
const UNMET: [u16; 2] = [412, 409];
/// The statuses of a replacement where nothing is.
const ABSENT: [u16; 3] = [404, 412, 409];

/// A check.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// The check without which this one has no sense.
    pub(crate) needs: Option<&'static str>,
    /// Gives a remark about the success.
    pub(crate) run: fn(&mut Session<'_>) -> Result<String, Finding>,
    /// The steps for a number of rounds.
    pub(crate) steps: fn(u32) -> u32,
}

/// All checks, in the order in which they run.
pub(crate) const CHECKS: [Check; 8] = [
    Check { name: "create", title: "PutObject with If-None-Match: *", needs: None, run: create, steps: once },
    Check {
        name: "create-race",
        title: "writers of one absent key",
        needs: Some("create"),
        run: race::create,
        steps: every,
    },
    Check { name: "replace", title: "PutObject with If-Match", needs: None, run: replace, steps: once },
    Check {
        name: "replace-race",
        title: "writers with one entity tag",
        needs: Some("replace"),
        run: race::replace,
        steps: every,
    },
    Check { name: "delete", title: "DeleteObject with If-Match", needs: None, run: delete, steps: once },
    Check {
        name: "delete-race",
        title: "writers and deleters with one entity tag",
        needs: Some("delete"),
        run: race::delete,
        steps: every,
    },
    Check {
        name: "multipart",
        title: "CompleteMultipartUpload with If-None-Match: * and If-Match",
        needs: None,
        run: multipart,
        steps: once,
    },
    Check {
        name: "multipart-race",
        title: "completions of uploads to one absent key",
        needs: Some("multipart"),
        run: race::multipart,
        steps: race::multipart_rounds,
    },
];

fn once(_: u32) -> u32 {
    1
}

fn every(rounds: u32) -> u32 {
    rounds
}

fn create(session: &mut Session<'_>) -> Result<String, Finding> {
    let key = session.link.key("create");
    let first = session.link.content();
    let second = session.link.content();
    let request = session.link.put(&key, &first, Absent);
    let etag = session.done(&request, "a put with If-None-Match: * of an absent key")?;
    session.shows(&key, &first, &etag)?;
    let request = session.link.put(&key, &second, Absent);
    session.refused(&request, &UNMET, "a second put with If-None-Match: *")?;
    session.shows(&key, &first, &etag)?;
    session.lists(&key, 1)?;
    let request = session.link.delete(&key, Always);
    session.done(&request, "a deletion")?;
    session.shows_nothing(&key)?;
    let request = session.link.put(&key, &second, Absent);
    let etag = session.done(&request, "a put with If-None-Match: * of a deleted key")?;
    session.shows(&key, &second, &etag)?;
    session.step_is_over("create");
    Ok("twice, and again after a deletion".to_owned())
}

fn replace(session: &mut Session<'_>) -> Result<String, Finding> {
    let key = session.link.key("replace");
    let absent = session.link.key("replace-absent");
    let [first, second, third] = [(); 3].map(|()| session.link.content());
    let request = session.link.put(&key, &first, Always);
    let old = session.done(&request, "a put")?;
    let request = session.link.put(&key, &second, Tag(&old));
    let etag = session.done(&request, "a put with the current If-Match")?;
    session.shows(&key, &second, &etag)?;
    let request = session.link.put(&key, &third, Tag(&old));
    session.refused(&request, &UNMET, "a put with a stale If-Match")?;
    session.shows(&key, &second, &etag)?;
    session.lists(&key, 2)?;
    let request = session.link.put(&absent, &third, Tag(&etag));
    session.refused(&request, &ABSENT, "a put with If-Match of an absent key")?;
    session.shows_nothing(&absent)?;
    session.step_is_over("replace");
    Ok("with the current tag, a stale one, and of an absent key".to_owned())
}

fn delete(session: &mut Session<'_>) -> Result<String, Finding> {
    let key = session.link.key("delete");
    let first = session.link.content();
    let second = session.link.content();
    let request = session.link.put(&key, &first, Always);
    let old = session.done(&request, "a put")?;
    let request = session.link.put(&key, &second, Always);
    let etag = session.done(&request, "a put")?;
    let request = session.link.delete(&key, Tag(&old));
    session.refused(&request, &UNMET, "a deletion with a stale If-Match")?;
    session.shows(&key, &second, &etag)?;
    let request = session.link.delete(&key, Tag(&etag));
    session.done(&request, "a deletion with the current If-Match")?;
    session.shows_nothing(&key)?;
    session.step_is_over("delete");
    Ok("with a stale tag and the current one".to_owned())
}

fn multipart(session: &mut Session<'_>) -> Result<String, Finding> {
    let key = session.link.key("multipart");
    let [first, second, third] = [(); 3].map(|()| session.link.content());
    let upload = session.upload(&key, &first)?;
    let request = session.link.complete(&key, &upload, Absent);
    let old = session.done(&request, "a completion with If-None-Match: * of an absent key")?;
    session.shows(&key, &first, &old)?;
    let upload = session.upload(&key, &third)?;
    let request = session.link.complete(&key, &upload, Absent);
    session.refused(&request, &UNMET, "a completion with If-None-Match: * of an existing key")?;
    session.abort(&key, &upload);
    session.shows(&key, &first, &old)?;
    let upload = session.upload(&key, &second)?;
    let request = session.link.complete(&key, &upload, Tag(&old));
    let etag = session.done(&request, "a completion with the current If-Match")?;
    session.shows(&key, &second, &etag)?;
    let upload = session.upload(&key, &third)?;
    let request = session.link.complete(&key, &upload, Tag(&old));
    session.refused(&request, &UNMET, "a completion with a stale If-Match")?;
    session.abort(&key, &upload);
    session.shows(&key, &second, &etag)?;
    session.lists(&key, 2)?;
    session.step_is_over("multipart");
    Ok("of an absent and an existing key, with the current tag and a stale one".to_owned())
}
