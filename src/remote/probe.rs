//! The probe: finds out by trying for which modes a remote is fit. It writes below `probe/` and
//! removes its objects afterwards.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::digest::{Md5, to_hex};
use crate::base::{Entropy, NOT_POISONED, OsEntropy};
use crate::remote::{Body, NewObject, Remote, RemoteError, RemoteObject};

/// The longest time of one call.
const WITHIN: Duration = Duration::from_secs(60);
/// The length of the object of the first checks.
const OBJECT_BYTES: usize = 256 * 1024;
/// The length of the objects of every second pair of races: a remote that checks and then puts
/// takes longer between the two.
const LONG_BYTES: usize = 128 * 1024;
/// The chance that a remote is worse than its verdict says.
const DOUBT: f64 = 0.05;
/// The longest wait of a create for the others.
const COMPANY_MAX: Duration = Duration::from_secs(10);
/// The most pages of a listing that are looked at when the probe is over.
const PAGES_MAX: usize = 64;

/// The size of the races.
#[derive(Clone, Copy, Debug)]
pub struct ProbeSize {
    /// The number of races for one name.
    pub rounds: u32,
    /// The number of creates in each.
    pub racers: u16,
    /// The time after which the winner of each is read back: a put that was refused may land late.
    pub settle: Duration,
}

impl ProbeSize {
    /// The usual time after which winners are read back.
    pub const SETTLE: Duration = Duration::from_secs(2);
}

/// The property of a remote that a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteProperty {
    /// A put is found again by HEAD, with its length and its nonce.
    Put,
    /// GET returns the bytes of a put that was answered.
    Read,
    /// GET of a range returns that range.
    Range,
    /// A listing shows the objects in order from a name on.
    List,
    /// A second create of a name is refused, and changes nothing.
    Create,
    /// Of creates at the same time one wins, and its bytes stay. One race that is decided badly is
    /// enough against it.
    Race,
    /// A deleted object is gone.
    Delete,
}

impl RemoteProperty {
    /// The name of the check.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Read => "read",
            Self::Range => "range",
            Self::List => "list",
            Self::Create => "create",
            Self::Race => "race",
            Self::Delete => "delete",
        }
    }
}

/// The outcome of a check: a remark, or the reason why the property is not there.
pub struct ProbeCheck {
    /// The property.
    pub property: RemoteProperty,
    /// A remark of what was seen, or the reason.
    pub outcome: Result<String, String>,
}

/// The outcome of a probe.
pub struct ProbeReport {
    /// The checks in the order in which they were made.
    pub checks: Vec<ProbeCheck>,
    /// Why objects of the probe may be left, below which prefix.
    pub left: Option<String>,
    /// The races that were decided well.
    pub good_races: u32,
    /// Whether one was decided badly, which is no matter of a moment: another probe that sees none
    /// was lucky.
    pub is_proven_unfit: bool,
}

impl ProbeReport {
    /// Whether cold segments, pieces of the log and their restore can rely on the remote.
    pub fn keeps_objects(&self) -> bool {
        use RemoteProperty::{Delete, List, Put, Range, Read};
        [Put, Read, Range, List, Delete].into_iter().all(|property| self.holds(property))
    }

    /// Whether two hosts can agree by it which of them writes.
    pub fn decides_races(&self) -> bool {
        self.keeps_objects() && self.holds(RemoteProperty::Create) && self.holds(RemoteProperty::Race)
    }

    /// The races of which at most one is decided badly, unless the probe was as lucky as one in
    /// twenty; `None` where one was.
    pub fn one_bad_race_in(&self) -> Option<u32> {
        let is_good = self.decides_races() && self.good_races > 0;
        is_good.then(|| one_bad_race_in(self.good_races))
    }

    /// The first reason against [`ProbeReport::keeps_objects`], else against
    /// [`ProbeReport::decides_races`].
    pub fn first_problem(&self) -> Option<String> {
        let conditional = [RemoteProperty::Create, RemoteProperty::Race];
        let (races, others): (Vec<_>, Vec<_>) =
            self.checks.iter().partition(|check| conditional.contains(&check.property));
        for check in others.into_iter().chain(races) {
            if let Err(why) = &check.outcome {
                return Some(format!("{}: {why}", check.property.name()));
            }
        }
        None
    }

    fn holds(&self, property: RemoteProperty) -> bool {
        self.checks.iter().any(|check| check.property == property && check.outcome.is_ok())
    }
}

/// Probes a remote. `progress` receives the check, and how many steps of all are done.
///
/// # Errors
/// Nothing can be said, since the first put fails.
pub fn probe(
    remote: &dyn Remote,
    size: ProbeSize,
    mut progress: impl FnMut(&str, u64, u64),
) -> Result<ProbeReport, RemoteError> {
    let probe = RemoteProbe {
        remote,
        prefix: format!("probe/{}/", nonce()),
        good_races: AtomicU32::new(0),
        is_proven_unfit: AtomicBool::new(false),
    };
    let all = u64::from(size.rounds) + 6;
    progress("put", 0, all);
    let first = probe.put_first()?;
    let mut checks = vec![ProbeCheck { property: RemoteProperty::Put, outcome: first }];
    let steps: [(RemoteProperty, CheckFunction); 4] = [
        (RemoteProperty::Read, |probe| probe.read()),
        (RemoteProperty::Range, |probe| probe.range()),
        (RemoteProperty::List, |probe| probe.list()),
        (RemoteProperty::Create, |probe| probe.create()),
    ];
    for (number, (property, check)) in steps.into_iter().enumerate() {
        progress(property.name(), number as u64 + 1, all);
        checks.push(ProbeCheck { property, outcome: check(&probe) });
    }
    let races = probe.races(size, &mut |round| progress("race", 5 + u64::from(round), all));
    checks.push(ProbeCheck { property: RemoteProperty::Race, outcome: races });
    progress("delete", all - 1, all);
    checks.push(ProbeCheck { property: RemoteProperty::Delete, outcome: probe.delete() });
    let left = probe.remove_all().err().map(|why| format!("{}: {why}", probe.prefix));
    let good_races = probe.good_races.into_inner();
    let is_proven_unfit = probe.is_proven_unfit.into_inner();
    Ok(ProbeReport { checks, left, good_races, is_proven_unfit })
}

/// The largest share of bad races that a run of good ones leaves likely enough, as the number of
/// races with one of them.
fn one_bad_race_in(good: u32) -> u32 {
    let share = 1.0 - DOUBT.powf(1.0 / f64::from(good));
    (1.0 / share) as u32
}

type Finding = Result<String, String>;

type CheckFunction = fn(&RemoteProbe<'_>) -> Finding;

struct RemoteProbe<'r> {
    remote: &'r dyn Remote,
    /// The beginning of the names of this probe.
    prefix: String,
    good_races: AtomicU32,
    is_proven_unfit: AtomicBool,
}

/// A race whose winner is read back later.
struct DecidedRace {
    name: String,
    winner: String,
    round: u32,
    decided: Instant,
}

impl RemoteProbe<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn put(
        &self,
        name: &str,
        bytes: &[u8],
        nonce: &str,
        create_only: bool,
    ) -> Result<RemoteObject, RemoteError> {
        self.remote.put(&NewObject { name: &self.name(name), body: &bytes, nonce, create_only }, WITHIN)
    }

    fn get(&self, name: &str, range: std::ops::Range<usize>) -> Result<Vec<u8>, String> {
        let range = range.start as u64..range.end as u64;
        self.remote.get(&self.name(name), range, WITHIN).map_err(|why| why.to_string())
    }

    fn head(&self, name: &str) -> Result<Option<RemoteObject>, String> {
        self.remote.head(&self.name(name), WITHIN).map_err(|why| why.to_string())
    }

    fn put_first(&self) -> Result<Finding, RemoteError> {
        let bytes = bytes();
        let nonce = nonce();
        self.put("object", &bytes, &nonce, false)?;
        Ok(self.find_first(&bytes, &nonce))
    }

    fn find_first(&self, bytes: &[u8], nonce: &str) -> Finding {
        let found = self.head("object")?.ok_or("HEAD does not find an object that was put")?;
        if found.length != bytes.len() as u64 {
            return Err(format!("HEAD tells {} of {} bytes", found.length, bytes.len()));
        }
        if found.nonce.as_deref() != Some(nonce) {
            return Err("HEAD does not tell the metadata of the put".to_owned());
        }
        match found.md5 {
            Some(md5) if md5 == Md5::of(bytes) => Ok("entity tags are an MD5".to_owned()),
            Some(_) => Err("the entity tag is the MD5 of other bytes".to_owned()),
            None => Ok("entity tags are no MD5, so a sample is read back after an upload".to_owned()),
        }
    }

    fn read(&self) -> Finding {
        let read = self.get("object", 0..OBJECT_BYTES)?;
        if read != bytes() {
            return Err("GET returns other bytes than were put".to_owned());
        }
        match self.remote.get(&self.name("missing"), 0..1, WITHIN) {
            Err(RemoteError::Missing) => {}
            Err(why) => return Err(format!("GET of a missing object: {why}")),
            Ok(_) => return Err("GET returns an object that was never put".to_owned()),
        }
        match self.head("missing")? {
            None => Ok(format!("{OBJECT_BYTES} bytes")),
            Some(_) => Err("HEAD finds an object that was never put".to_owned()),
        }
    }

    fn range(&self) -> Finding {
        let whole = bytes();
        for range in [0..1, 1000..70_000, OBJECT_BYTES - 1..OBJECT_BYTES] {
            if self.get("object", range.clone())? != whole[range.clone()] {
                return Err(format!("GET of the bytes {range:?} returns others"));
            }
        }
        Ok("the first byte, a part, the last byte".to_owned())
    }

    fn list(&self) -> Finding {
        for name in ["list/1", "list/2", "list/3"] {
            self.put(name, b"listed", &nonce(), false).map_err(|why| why.to_string())?;
        }
        for (after, expected) in
            [("list/", &["list/1", "list/2", "list/3"][..]), ("list/1", &["list/2", "list/3"])]
        {
            let page = self.remote.list(&self.name("list/"), &self.name(after), WITHIN);
            let page = page.map_err(|why| why.to_string())?;
            let listed: Vec<_> = page.into_iter().map(|object| object.name).collect();
            let expected: Vec<_> = expected.iter().map(|name| self.name(name)).collect();
            if listed != expected {
                return Err(format!(
                    "a listing after {after} has {} of {} objects",
                    listed.len(),
                    expected.len()
                ));
            }
        }
        Ok("in order, from a name on".to_owned())
    }

    fn create(&self) -> Finding {
        let own = nonce();
        self.put("create", b"first", &own, true).map_err(|why| why.to_string())?;
        match self.put("create", b"other", &nonce(), true) {
            Err(RemoteError::Exists) => {}
            Err(why) => return Err(why.to_string()),
            Ok(_) => return Err("a second create of a name is answered with success".to_owned()),
        }
        if self.get("create", 0..5)? != b"first" {
            return Err("a create that was refused has replaced the object".to_owned());
        }
        // The client has to know its own put by the nonce: an answer that was lost looks the same.
        let repeated = self.put("create", b"first", &own, true);
        repeated.map_err(|why| format!("an own create, repeated: {why}"))?;
        Ok("the second is refused with 412".to_owned())
    }

    fn races(&self, size: ProbeSize, told: &mut dyn FnMut(u32)) -> Finding {
        let mut others = 0;
        let mut decided: VecDeque<DecidedRace> = VecDeque::new();
        for round in 0..size.rounds {
            told(round);
            let (race, unclear) = self.race(round, size.racers, race_length(round))?;
            others += unclear;
            decided.push_back(race);
            while decided.front().is_some_and(|race| race.decided.elapsed() >= size.settle) {
                decided.pop_front().map_or(Ok(()), |race| self.read_back(&race))?;
            }
        }
        for race in decided {
            thread::sleep(size.settle.saturating_sub(race.decided.elapsed()));
            self.read_back(&race)?;
        }
        let remark =
            if others > 0 { format!("; {others} creates got no clear answer") } else { String::new() };
        let bound = one_bad_race_in(self.good_races.load(Ordering::Relaxed));
        Ok(format!(
            "{} rounds of {} creates, and each winner is still there after {:?}; with a confidence of 95 %, at most one race in {bound} is \
             decided badly{remark}",
            size.rounds, size.racers, size.settle
        ))
    }

    /// One race. Returns it with the number of creates without a clear answer.
    fn race(&self, round: u32, racers: u16, length: usize) -> Result<(DecidedRace, u32), String> {
        let name = format!("create-race/{round}");
        let meeting = Meeting::new(racers);
        let entries: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..racers)
                .map(|_| scope.spawn(|| self.create_in_race(&name, &meeting, round, length)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread failed".to_owned()))
                .collect()
        });
        let entries = entries.into_iter().collect::<Result<Vec<_>, String>>()?;
        let winners: Vec<_> = entries.iter().filter(|(_, outcome)| outcome.is_ok()).collect();
        let unclear =
            entries.iter().filter(|(_, outcome)| !matches!(outcome, Ok(_) | Err(RemoteError::Exists)));
        let unclear = unclear.count() as u32;
        let [(winner, _)] = winners[..] else {
            self.is_proven_unfit.fetch_or(winners.len() > 1, Ordering::Relaxed);
            return Err(format!(
                "in round {round}, {} of {racers} creates of one name succeeded",
                winners.len()
            ));
        };
        // At once, and again after a pause: a put that was refused may land late, and replace the
        // winner.
        if self.get(&name, 0..winner.len())? != winner.as_bytes() {
            self.is_proven_unfit.store(true, Ordering::Relaxed);
            return Err(format!("in round {round}, the object is not that of the create that succeeded"));
        }
        let winner = winner.clone();
        let decided = Instant::now();
        Ok((DecidedRace { name, winner, round, decided }, unclear))
    }

    /// The create of one racer: its nonce, and the answer.
    fn create_in_race(
        &self,
        name: &str,
        meeting: &Meeting,
        round: u32,
        length: usize,
    ) -> (String, Result<RemoteObject, RemoteError>) {
        let nonce = nonce();
        let body = RacingBody::new(&nonce, meeting, round, length);
        let name = &self.name(name);
        let object = NewObject { name, body: &body, nonce: &nonce, create_only: true };
        let outcome = self.remote.put(&object, WITHIN);
        (nonce, outcome)
    }

    /// Fails unless the winner of a race is still there.
    fn read_back(&self, race: &DecidedRace) -> Result<(), String> {
        let DecidedRace { name, winner, round, .. } = race;
        let nonce = self.head(name)?.and_then(|found| found.nonce);
        let is_kept =
            nonce.as_deref() == Some(winner) && self.get(name, 0..winner.len())? == winner.as_bytes();
        if !is_kept {
            self.is_proven_unfit.store(true, Ordering::Relaxed);
            return Err(format!("in round {round}, the create that succeeded was replaced later"));
        }
        self.good_races.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn delete(&self) -> Finding {
        let name = self.name("object");
        // Twice: a delete whose answer was lost is repeated, and has to be answered as the first.
        for _ in 0..2 {
            self.remote.delete(&name, WITHIN).map_err(|why| why.to_string())?;
        }
        match self.head("object")? {
            None => Ok("also of one that is gone".to_owned()),
            Some(_) => Err("HEAD finds an object that was deleted".to_owned()),
        }
    }

    /// Removes the objects of this probe.
    fn remove_all(&self) -> Result<(), RemoteError> {
        for _ in 0..PAGES_MAX {
            let page = self.remote.list(&self.prefix, &self.prefix, WITHIN)?;
            if page.is_empty() {
                return Ok(());
            }
            page.iter().try_for_each(|object| self.remote.delete(&object.name, WITHIN))?;
        }
        Err(RemoteError::Wrong("the listing does not become empty".to_owned()))
    }
}

/// The length of the bodies of a race, the least one for 0: two of four are long.
fn race_length(round: u32) -> usize {
    if round % 4 >= 2 { LONG_BYTES } else { 0 }
}

/// The point at which the creates of a race wait for each other.
struct Meeting {
    missing: Mutex<u16>,
    complete: Condvar,
}

impl Meeting {
    fn new(racers: u16) -> Self {
        Self { missing: Mutex::new(racers), complete: Condvar::new() }
    }

    /// Waits until all have come, or some do not come.
    fn wait(&self) {
        let mut missing = self.missing.lock().expect(NOT_POISONED);
        *missing = missing.saturating_sub(1);
        self.complete.notify_all();
        // Not without end: a remote that takes fewer connections than there are racers would hold
        // up all of them.
        let waited = self.complete.wait_timeout_while(missing, COMPANY_MAX, |missing| *missing > 0);
        drop(waited);
    }
}

/// A body that waits for the others when it is read: for its digests, when it is sent, or in the
/// midst of that.
struct RacingBody<'r> {
    nonce: &'r str,
    length: usize,
    meeting: &'r Meeting,
    /// The pass over the body, and the place in it, before which it waits.
    waits_in: u32,
    waits_at: u64,
    passes: AtomicU32,
}

impl<'r> RacingBody<'r> {
    /// In every second round the heads of all creates are sent before the first body ends: a remote
    /// that checks the condition by the head, and puts after the body, lets all of them pass. In
    /// the others all begin at once.
    fn new(nonce: &'r str, meeting: &'r Meeting, round: u32, length: usize) -> Self {
        let length = length.max(nonce.len());
        let waits_in = 1 + round % 2;
        // The last bytes of all come at once.
        let waits_at = if length > nonce.len() && waits_in == 2 { length as u64 - 1 } else { 0 };
        Self { nonce, length, meeting, waits_in, waits_at, passes: AtomicU32::new(0) }
    }
}

impl Body for RacingBody<'_> {
    fn length(&self) -> u64 {
        self.length as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let pass = self.passes.fetch_add(u32::from(offset == 0), Ordering::Relaxed) + u32::from(offset == 0);
        // Pieces may be of any length: the first one that ends behind the place waits.
        let is_there = (offset..offset + buffer.len().max(1) as u64).contains(&self.waits_at);
        if pass == self.waits_in && is_there {
            self.meeting.wait();
        }
        let text = self.nonce.as_bytes();
        for (at, byte) in (offset as usize..).zip(buffer) {
            *byte = text[at % text.len()];
        }
        Ok(())
    }
}

/// A name for a put that no other one has.
pub fn nonce() -> String {
    let mut random = [0; 16];
    OsEntropy.fill(&mut random);
    to_hex(&random)
}

/// The bytes of the first object. They differ in every range.
fn bytes() -> Vec<u8> {
    (0..OBJECT_BYTES as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::sim::{RemoteCall, RemoteFault, SimRemote};

    const SMALL: ProbeSize = ProbeSize { rounds: 3, racers: 4, settle: Duration::ZERO };

    fn run(remote: &SimRemote) -> ProbeReport {
        probe(remote, SMALL, |_, _, _| {}).unwrap()
    }

    #[test]
    fn a_good_remote_is_fit_for_everything_and_nothing_is_left() {
        let remote = SimRemote::new();
        let mut steps = Vec::new();
        let report = probe(&remote, SMALL, |_, done, all| steps.push((done, all))).unwrap();
        assert!(report.keeps_objects() && report.decides_races() && report.left.is_none());
        assert_eq!((report.checks.len(), report.first_problem()), (7, None));
        assert!(remote.names().is_empty());
        assert!(steps.is_sorted() && steps.last() == Some(&(8, 9)), "{steps:?}");
    }

    #[test]
    fn a_remote_that_ignores_conditions_keeps_objects_and_decides_nothing() {
        let remote = SimRemote::new();
        remote.set_ignores_conditions(true);
        let report = run(&remote);
        assert!(report.keeps_objects() && !report.decides_races());
        assert!(report.first_problem().unwrap().contains("second create"), "{:?}", report.first_problem());
        let race = report.checks.iter().find(|check| check.property == RemoteProperty::Race).unwrap();
        assert!(race.outcome.as_ref().unwrap_err().contains("4 of 4 creates"));
    }

    #[test]
    fn a_remote_that_checks_and_then_puts_is_refused_whatever_its_schedule() {
        for seed in 0..12 {
            let remote = SimRemote::new();
            remote.set_checks_then_puts(seed);
            let report = probe(&remote, ProbeSize { rounds: 60, racers: 8, ..SMALL }, |_, _, _| {}).unwrap();
            assert!(
                report.keeps_objects() && !report.decides_races() && report.is_proven_unfit,
                "seed {seed}"
            );
            let problem = report.first_problem().unwrap();
            assert!(
                problem.starts_with("race: ") || problem.starts_with("create: "),
                "seed {seed}: {problem}"
            );
            assert_eq!(report.one_bad_race_in(), None);
        }
    }

    #[test]
    fn a_create_that_lands_late_over_the_winner_is_found_when_it_is_read_back() {
        let remote = SimRemote::new();
        // The steps of the first check, three of the listing and three of the creates come before.
        (0..7).for_each(|_| remote.fail_next(RemoteCall::Put, RemoteFault::None));
        remote.fail_next(RemoteCall::Put, RemoteFault::LateOver);
        let report = probe(&remote, ProbeSize { settle: Duration::from_millis(200), ..SMALL }, |_, _, _| {
            remote.land_late_writes();
        });
        let report = report.unwrap();
        let race = report.checks.iter().find(|check| check.property == RemoteProperty::Race).unwrap();
        assert!(race.outcome.as_ref().unwrap_err().contains("replaced later"), "{:?}", race.outcome);
        assert!(report.is_proven_unfit);
    }

    #[test]
    fn a_verdict_tells_its_confidence() {
        let report = run(&SimRemote::new());
        assert_eq!((report.good_races, report.one_bad_race_in()), (3, Some(1)));
        assert_eq!([20, 200, 1000].map(one_bad_race_in), [7, 67, 334]);
        let race = report.checks.iter().find(|check| check.property == RemoteProperty::Race).unwrap();
        assert!(race.outcome.as_ref().unwrap().contains("95 %"), "{:?}", race.outcome);
    }

    #[test]
    fn faults_of_reads_make_a_remote_unfit_for_anything() {
        for (call, skipped, fault, check) in [
            (RemoteCall::Get, 0, RemoteFault::WrongBytes, "read"),
            (RemoteCall::Get, 2, RemoteFault::WrongRange, "range"),
            (RemoteCall::List, 0, RemoteFault::Status(501), "list"),
            (RemoteCall::Delete, 0, RemoteFault::Status(403), "delete"),
        ] {
            let remote = SimRemote::new();
            for _ in 0..skipped {
                remote.fail_next(call, RemoteFault::None);
            }
            remote.fail_next(call, fault);
            let report = run(&remote);
            assert!(!report.keeps_objects() && !report.decides_races(), "{check}");
            let problem = report.first_problem().unwrap();
            assert!(problem.starts_with(&format!("{check}: ")), "{problem}");
            assert!(remote.names().is_empty(), "{check}");
        }
    }

    #[test]
    fn nothing_is_said_of_a_remote_that_takes_no_puts() {
        let remote = SimRemote::new();
        remote.set_read_only(true);
        assert!(matches!(probe(&remote, SMALL, |_, _, _| {}), Err(RemoteError::Refused(_))));
        remote.set_down(true);
        assert!(matches!(probe(&remote, SMALL, |_, _, _| {}), Err(RemoteError::Unavailable(_))));
    }
}
