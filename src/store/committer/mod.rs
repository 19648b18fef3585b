//! Who makes changes. Whoever finds nobody before them commits at once, without waking anybody; what is asked for meanwhile
//! queues up for one thread, which takes what is there, without waiting for more, and commits it as one group.

mod groups;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::base::channel::{receive, receive_within};
use crate::base::limits::GROUP_MUTATIONS_MAX;
use crate::log::Journal;
use crate::store::StoreError;
use crate::store::mutation::{Mutation, Reply};
use crate::store::shared::Shared;
use groups::{Batch, Groups};

/// Mutations that wait; each belongs to a thread that waits for its answer, so that this bounds nothing in practice.
const QUEUE_LEN: usize = 4 * GROUP_MUTATIONS_MAX;
const NO_PANIC: &str = "nobody panics while holding it";

enum Command {
    Commit(Mutation),
    /// Write an empty group, also where the last one was one.
    Mark(Reply<()>),
    /// A group was written by somebody else: it wants a mark when nothing follows.
    Watch,
    Close,
}

/// The handle of the thread.
pub(super) struct Committer {
    queue: Sender<Command>,
    desk: Arc<Desk>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread shares with those who commit by themselves.
struct Desk {
    /// None where nothing can be changed: the log is damaged, or the store is closed.
    groups: Mutex<Option<Groups>>,
    /// Commands that have been sent and that no group has taken up. Nobody goes before them.
    waiting: AtomicUsize,
}

impl Committer {
    /// Starts the thread. Without a journal, because the log is damaged, it refuses everything.
    pub(super) fn start(shared: Arc<Shared>, journal: Option<Journal>) -> io::Result<Self> {
        let (queue, commands) = bounded(QUEUE_LEN);
        let groups = journal.map(|journal| Groups::new(shared.clone(), journal));
        let refuses = groups.is_none();
        let desk = Arc::new(Desk { groups: Mutex::new(groups), waiting: AtomicUsize::new(0) });
        let mark_after = shared.options.mark_after;
        let thread = Thread { desk: desk.clone(), commands, mark_after };
        let run = move || if refuses { refuse_all(&shared, &thread.commands) } else { thread.run() };
        let thread = thread::Builder::new().name("committer".into()).spawn(run)?;
        Ok(Self { queue, desk, thread: Mutex::new(Some(thread)) })
    }

    /// Has a mutation made and waits until it is durable.
    pub(super) fn submit<T>(&self, mutation: impl FnOnce(Reply<T>) -> Mutation) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let mutation = mutation(reply);
        match self.desk.with_nobody_before() {
            Some(groups) => self.commit_here(groups, mutation)?,
            None => self.send(Command::Commit(mutation))?,
        }
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    /// Has a group written that changes nothing, and waits until it is durable.
    pub(super) fn mark(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Mark(reply))?;
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    fn commit_here(
        &self,
        mut desk: MutexGuard<'_, Option<Groups>>,
        mutation: Mutation,
    ) -> Result<(), StoreError> {
        let groups = desk.as_mut().expect("it was looked at before");
        let was_marked = groups.is_marked();
        groups.commit(Batch::of(mutation));
        let wants_mark = was_marked && !groups.is_marked();
        drop(desk);
        // The thread counts the time from here on, unless it does so already.
        if wants_mark { self.send(Command::Watch) } else { Ok(()) }
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        self.desk.waiting.fetch_add(1, Ordering::AcqRel);
        self.queue.send(command).map_err(|_| StoreError::Closed)
    }

    /// How many mutations wait for the group that is being written.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.desk.waiting.load(Ordering::Acquire)
    }

    /// Has everything submitted so far finished, a checkpoint written, and the thread ended.
    pub(super) fn close(&self) {
        let thread = self.thread.lock().expect(NO_PANIC).take();
        if let Some(thread) = thread {
            // Where the thread is gone there is nobody to tell.
            let _ = self.send(Command::Close);
            join(thread);
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // The thread ends when its queue has no sender.
        let (closed, _) = bounded(0);
        self.queue = closed;
        if let Some(thread) = self.thread.lock().expect(NO_PANIC).take() {
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        log::error!("the committer ended by a panic");
    }
}

fn refuse_all(shared: &Shared, commands: &Receiver<Command>) {
    let error = || shared.check_writable().err().unwrap_or(StoreError::Closed);
    while let Ok(command) = commands.recv() {
        match command {
            Command::Commit(mutation) => mutation.fail(error()),
            // Whoever asked may have gone away: then nobody is told.
            Command::Mark(reply) => drop(reply.send(Err(error()))),
            Command::Watch => {}
            Command::Close => return,
        }
    }
}

impl Desk {
    /// What writes groups, if nobody writes one nor waits for that.
    fn with_nobody_before(&self) -> Option<MutexGuard<'_, Option<Groups>>> {
        let groups = self.groups.try_lock().ok()?;
        (groups.is_some() && self.waiting.load(Ordering::Acquire) == 0).then_some(groups)
    }

    /// After a panic in a commit nothing is committed any more, but everybody is told so.
    fn groups(&self) -> MutexGuard<'_, Option<Groups>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_up(&self, commands: usize) {
        self.waiting.fetch_sub(commands, Ordering::AcqRel);
    }
}

/// The thread, which alone takes `groups` away from the desk.
struct Thread {
    desk: Arc<Desk>,
    commands: Receiver<Command>,
    mark_after: Option<Duration>,
}

impl Thread {
    fn run(self) {
        let mut carried = None;
        let closed = loop {
            let Some(command) = carried.take().or_else(|| self.wait()) else {
                break false;
            };
            match command {
                Command::Commit(first) => carried = self.commit(first),
                Command::Mark(reply) => self.mark(reply),
                Command::Watch => self.desk.take_up(1),
                Command::Close => break true,
            }
        };
        let groups = self.desk.groups().take();
        groups.expect("only this thread takes it away").stop(closed);
    }

    /// The next command; `None` when nobody can send any more.
    fn wait(&self) -> Option<Command> {
        while let Some((after, sequence)) = self.mark_due() {
            match receive_within(&self.commands, after) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.mark_unless_more_came(sequence),
            }
        }
        receive(&self.commands).ok()
    }

    /// After how long the last group wants a mark, and what the next sequence is now.
    fn mark_due(&self) -> Option<(Duration, u64)> {
        let after = self.mark_after?;
        let groups = self.desk.groups();
        let groups = groups.as_ref().filter(|groups| !groups.is_marked())?;
        Some((after, groups.next_sequence()))
    }

    fn mark_unless_more_came(&self, sequence: u64) {
        let mut groups = self.desk.groups();
        if let Some(groups) = groups.as_mut().filter(|groups| groups.next_sequence() == sequence) {
            // A full disk will have room another time; all else has been reported and latched.
            drop(groups.mark());
        }
    }

    fn mark(&self, reply: Reply<()>) {
        let mut groups = self.desk.groups();
        self.desk.take_up(1);
        let done = groups.as_mut().expect("only this thread takes it away").mark();
        // Whoever asked may have gone away: then nobody is told.
        drop(reply.send(done));
    }

    /// Commits what is there. Whatever does not fit into the group is given back.
    fn commit(&self, first: Mutation) -> Option<Command> {
        let mut groups = self.desk.groups();
        let (batch, next) = self.collect(first);
        self.desk.take_up(batch.len());
        groups.as_mut().expect("only this thread takes it away").commit(batch);
        next
    }

    fn collect(&self, first: Mutation) -> (Batch, Option<Command>) {
        let mut batch = Batch::of(first);
        let mut next = None;
        while next.is_none() {
            next = match self.commands.try_recv() {
                Ok(Command::Commit(mutation)) => batch.add(mutation).map(Command::Commit),
                Ok(other) => Some(other),
                Err(_) => break,
            };
        }
        (batch, next)
    }
}
