//! Who makes changes. Whoever finds nobody before them commits at once, without waking anybody; what is asked for meanwhile
//! queues up for one thread, which takes what is there, without waiting for more, and commits it as one group.

mod group_writer;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::base::channel::{receive, receive_within};
use crate::base::limits::GROUP_MUTATIONS_MAX;
use crate::log::LogWriter;
use crate::store::StoreError;
use crate::store::mutation::{Mutation, Reply};
use crate::store::shared::SharedStore;
use group_writer::{GroupWriter, MutationBatch};

/// Mutations that wait; each belongs to a thread that waits for its answer, so that this bounds nothing in practice.
const QUEUE_LEN: usize = 4 * GROUP_MUTATIONS_MAX;
const NO_PANIC: &str = "nobody panics while holding it";

enum CommitterCommand {
    Commit(Mutation),
    /// Write an empty group, also where the last one was one.
    IdleGroup(Reply<()>),
    /// A group was written by somebody else: it wants a mark when nothing follows.
    ArmIdleTimer,
    Close,
}

/// The handle of the thread.
pub(super) struct Committer {
    queue: Sender<CommitterCommand>,
    leader_lock: Arc<CommitLeaderLock>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread shares with those who commit by themselves.
struct CommitLeaderLock {
    /// None where nothing can be changed: the log is damaged, or the store is closed.
    group_writer: Mutex<Option<GroupWriter>>,
    /// Commands that have been sent and that no group has taken up. Nobody goes before them.
    waiting: AtomicUsize,
}

impl Committer {
    /// Starts the thread. Without a log writer, because the log is damaged, it refuses everything.
    pub(super) fn start(shared: Arc<SharedStore>, log_writer: Option<LogWriter>) -> io::Result<Self> {
        let (queue, commands) = bounded(QUEUE_LEN);
        let group_writer = log_writer.map(|log_writer| GroupWriter::new(shared.clone(), log_writer));
        let refuses = group_writer.is_none();
        let leader_lock = Arc::new(CommitLeaderLock {
            group_writer: Mutex::new(group_writer),
            waiting: AtomicUsize::new(0),
        });
        let idle_group_after = shared.options.idle_group_after;
        let thread = CommitterThread { leader_lock: leader_lock.clone(), commands, idle_group_after };
        let run = move || if refuses { refuse_all(&shared, &thread.commands) } else { thread.run() };
        let thread = thread::Builder::new().name("committer".into()).spawn(run)?;
        Ok(Self { queue, leader_lock, thread: Mutex::new(Some(thread)) })
    }

    /// Has a mutation made and waits until it is durable.
    pub(super) fn submit<T>(&self, mutation: impl FnOnce(Reply<T>) -> Mutation) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let mutation = mutation(reply);
        match self.leader_lock.try_lead() {
            Some(group_writer) => self.commit_as_leader(group_writer, mutation)?,
            None => self.send(CommitterCommand::Commit(mutation))?,
        }
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    /// Has a group written that changes nothing, and waits until it is durable.
    pub(super) fn write_idle_group(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(CommitterCommand::IdleGroup(reply))?;
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    fn commit_as_leader(
        &self,
        mut leader_lock: MutexGuard<'_, Option<GroupWriter>>,
        mutation: Mutation,
    ) -> Result<(), StoreError> {
        let group_writer = leader_lock.as_mut().expect("it was looked at before");
        let was_confirmed = group_writer.is_confirmed();
        group_writer.commit(MutationBatch::of(mutation));
        let needs_idle_group = was_confirmed && !group_writer.is_confirmed();
        drop(leader_lock);
        // The thread counts the time from here on, unless it does so already.
        if needs_idle_group { self.send(CommitterCommand::ArmIdleTimer) } else { Ok(()) }
    }

    fn send(&self, command: CommitterCommand) -> Result<(), StoreError> {
        self.leader_lock.waiting.fetch_add(1, Ordering::AcqRel);
        self.queue.send(command).map_err(|_| StoreError::Closed)
    }

    /// How many mutations wait for the group that is being written.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.leader_lock.waiting.load(Ordering::Acquire)
    }

    /// Has everything submitted so far finished, a checkpoint written, and the thread ended.
    pub(super) fn close(&self) {
        let thread = self.thread.lock().expect(NO_PANIC).take();
        if let Some(thread) = thread {
            // Where the thread is gone there is nobody to tell.
            let _ = self.send(CommitterCommand::Close);
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

fn refuse_all(shared: &SharedStore, commands: &Receiver<CommitterCommand>) {
    let error = || shared.check_writable().err().unwrap_or(StoreError::Closed);
    while let Ok(command) = commands.recv() {
        match command {
            CommitterCommand::Commit(mutation) => mutation.reject(error()),
            // Whoever asked may have gone away: then nobody is told.
            CommitterCommand::IdleGroup(reply) => drop(reply.send(Err(error()))),
            CommitterCommand::ArmIdleTimer => {}
            CommitterCommand::Close => return,
        }
    }
}

impl CommitLeaderLock {
    /// What writes groups, if nobody writes one nor waits for that.
    fn try_lead(&self) -> Option<MutexGuard<'_, Option<GroupWriter>>> {
        let group_writer = self.group_writer.try_lock().ok()?;
        (group_writer.is_some() && self.waiting.load(Ordering::Acquire) == 0).then_some(group_writer)
    }

    /// After a panic in a commit nothing is committed any more, but everybody is told so.
    fn groups(&self) -> MutexGuard<'_, Option<GroupWriter>> {
        self.group_writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dequeue(&self, commands: usize) {
        self.waiting.fetch_sub(commands, Ordering::AcqRel);
    }
}

/// The thread, which alone takes `groups` away from the leader lock.
struct CommitterThread {
    leader_lock: Arc<CommitLeaderLock>,
    commands: Receiver<CommitterCommand>,
    idle_group_after: Option<Duration>,
}

impl CommitterThread {
    fn run(self) {
        let mut carried = None;
        let closed = loop {
            let Some(command) = carried.take().or_else(|| self.wait()) else {
                break false;
            };
            match command {
                CommitterCommand::Commit(first) => carried = self.commit(first),
                CommitterCommand::IdleGroup(reply) => self.write_idle_group(reply),
                CommitterCommand::ArmIdleTimer => self.leader_lock.dequeue(1),
                CommitterCommand::Close => break true,
            }
        };
        let group_writer = self.leader_lock.groups().take();
        group_writer.expect("only this thread takes it away").stop(closed);
    }

    /// The next command; `None` when nobody can send any more.
    fn wait(&self) -> Option<CommitterCommand> {
        while let Some((after, sequence)) = self.idle_group_due() {
            match receive_within(&self.commands, after) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.write_idle_group_unless_busy(sequence),
            }
        }
        receive(&self.commands).ok()
    }

    /// After how long the last group wants a mark, and what the next sequence is now.
    fn idle_group_due(&self) -> Option<(Duration, u64)> {
        let after = self.idle_group_after?;
        let group_writer = self.leader_lock.groups();
        let group_writer = group_writer.as_ref().filter(|group_writer| !group_writer.is_confirmed())?;
        Some((after, group_writer.next_sequence()))
    }

    fn write_idle_group_unless_busy(&self, sequence: u64) {
        let mut group_writer = self.leader_lock.groups();
        if let Some(group_writer) =
            group_writer.as_mut().filter(|group_writer| group_writer.next_sequence() == sequence)
        {
            // A full disk will have room another time; all else has been reported and latched.
            drop(group_writer.write_idle_group());
        }
    }

    fn write_idle_group(&self, reply: Reply<()>) {
        let mut group_writer = self.leader_lock.groups();
        self.leader_lock.dequeue(1);
        let done = group_writer.as_mut().expect("only this thread takes it away").write_idle_group();
        // Whoever asked may have gone away: then nobody is told.
        drop(reply.send(done));
    }

    /// Commits what is there. Whatever does not fit into the group is given back.
    fn commit(&self, first: Mutation) -> Option<CommitterCommand> {
        let mut group_writer = self.leader_lock.groups();
        let (batch, next) = self.collect(first);
        self.leader_lock.dequeue(batch.len());
        group_writer.as_mut().expect("only this thread takes it away").commit(batch);
        next
    }

    fn collect(&self, first: Mutation) -> (MutationBatch, Option<CommitterCommand>) {
        let mut batch = MutationBatch::of(first);
        let mut next = None;
        while next.is_none() {
            next = match self.commands.try_recv() {
                Ok(CommitterCommand::Commit(mutation)) => batch.add(mutation).map(CommitterCommand::Commit),
                Ok(other) => Some(other),
                Err(_) => break,
            };
        }
        (batch, next)
    }
}
