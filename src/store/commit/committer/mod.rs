//! Group commit. A caller that finds no commit in progress becomes the commit leader and commits
//! its own mutation, without a switch of threads. Mutations that arrive during a commit queue up
//! for the committer thread, which commits all that have queued as one group, without waiting for
//! more.

mod group_writer;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::base::NOT_POISONED;
use crate::base::channel::{receive, receive_within};
use crate::base::limits::GROUP_LOOKUPS_MAX;
use crate::log::LogWriter;
use crate::store::commit::mutation::{Mutation, Reply};
use crate::store::shared::SharedStore;
use crate::store::shared::cause::CauseScope;
use crate::store::{StoreError, ThreadWatch};
use group_writer::{GroupWriter, MutationBatch};

/// The capacity of the queue. Each mutation belongs to a thread that waits for its reply, so the
/// queue is never full in practice.
const QUEUE_LEN: usize = 4 * GROUP_LOOKUPS_MAX;

/// A command to the committer thread.
enum CommitterCommand {
    Commit(Mutation),
    /// Write an idle group, even after another idle group.
    IdleGroup(Reply<()>),
    /// A caller has written a group: an idle group is due unless another group follows.
    ArmIdleTimer,
    Close,
}

/// The handle of the committer thread.
pub(in crate::store) struct Committer {
    queue: Sender<CommitterCommand>,
    leader_lock: Arc<CommitLeaderLock>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The lock that makes a thread the commit leader.
struct CommitLeaderLock {
    /// `None` if the log is damaged or the store is closed.
    group_writer: Mutex<Option<GroupWriter>>,
    /// Commands in the queue. While there are any, no caller becomes the leader: mutations commit
    /// in their order.
    queued: AtomicUsize,
}

impl Committer {
    /// Starts the thread. Without a log writer, because the log is damaged, it refuses everything.
    pub(in crate::store) fn start(
        shared: Arc<SharedStore>,
        log_writer: Option<LogWriter>,
    ) -> io::Result<Self> {
        let (queue, commands) = bounded(QUEUE_LEN);
        let group_writer = log_writer.map(|log_writer| GroupWriter::new(shared.clone(), log_writer));
        let refuses = group_writer.is_none();
        let leader_lock = Arc::new(CommitLeaderLock {
            group_writer: Mutex::new(group_writer),
            queued: AtomicUsize::new(0),
        });
        let idle_group_after = shared.options.idle_group_after;
        let watch = ThreadWatch::new(Arc::clone(&shared), "committer");
        let thread = CommitterThread { leader_lock: leader_lock.clone(), commands, idle_group_after };
        let thread = thread::Builder::new().name("committer".into()).spawn(move || {
            let _watch = watch;
            if refuses { refuse_all(&shared, &thread.commands) } else { thread.run() }
        })?;
        Ok(Self { queue, leader_lock, thread: Mutex::new(Some(thread)) })
    }

    /// Commits a mutation and waits until it is durable.
    pub(in crate::store) fn submit<T>(
        &self,
        mutation: impl FnOnce(Reply<T>) -> Mutation,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let mutation = mutation(reply);
        let mutation = match CauseScope::current() {
            Some(cause) => Mutation::Caused(Box::new(mutation), cause),
            None => mutation,
        };
        match self.leader_lock.try_lead() {
            Some(group_writer) => self.commit_as_leader(group_writer, mutation)?,
            None => self.send(CommitterCommand::Commit(mutation))?,
        }
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    /// Writes a group without entries and waits until it is durable.
    pub(in crate::store) fn write_idle_group(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(CommitterCommand::IdleGroup(reply))?;
        answer.recv().map_err(|_| StoreError::Closed)?
    }

    /// Goes on with the log in a new file, after a group without entries in the old one. On a full
    /// disk it stays where it is. Durable on return.
    ///
    /// # Errors
    /// The store takes no writes; of the disk.
    pub(in crate::store) fn begin_log_file(&self) -> Result<(), StoreError> {
        let mut leader_lock = self.leader_lock.lead();
        leader_lock.as_mut().ok_or(StoreError::Closed)?.begin_log_file()
    }

    fn commit_as_leader(
        &self,
        mut leader_lock: MutexGuard<'_, Option<GroupWriter>>,
        mutation: Mutation,
    ) -> Result<(), StoreError> {
        let group_writer = leader_lock.as_mut().expect("try_lead returns a group writer");
        let was_confirmed = group_writer.is_confirmed();
        group_writer.commit(MutationBatch::of(mutation));
        let needs_idle_group = was_confirmed && !group_writer.is_confirmed();
        // Before the send, which waits where the queue is full: the thread that empties it needs
        // the lock.
        drop(leader_lock);
        // The timer of the thread starts now, unless it runs already.
        if needs_idle_group { self.send(CommitterCommand::ArmIdleTimer) } else { Ok(()) }
    }

    fn send(&self, command: CommitterCommand) -> Result<(), StoreError> {
        // Counted before it is queued: a caller that led in between would commit before a mutation
        // that came earlier.
        self.leader_lock.queued.fetch_add(1, Ordering::AcqRel);
        self.queue.send(command).map_err(|_| StoreError::Closed)
    }

    /// Whether the next caller becomes the commit leader.
    #[cfg(test)]
    pub(in crate::store) fn is_idle(&self) -> bool {
        self.leader_lock.try_lead().is_some()
    }

    /// The number of queued commands.
    pub(in crate::store) fn queued(&self) -> usize {
        self.leader_lock.queued.load(Ordering::Acquire)
    }

    /// Commits all submitted mutations, writes a checkpoint and ends the thread.
    pub(in crate::store) fn close(&self) {
        let thread = self.thread.lock().expect(NOT_POISONED).take();
        if let Some(thread) = thread {
            // The send fails only if the thread is gone.
            let _ = self.send(CommitterCommand::Close);
            join(thread);
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        // The thread ends once its queue has no sender.
        let (closed, _) = bounded(0);
        self.queue = closed;
        if let Some(thread) = self.thread.lock().expect(NOT_POISONED).take() {
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        log::error!("the committer panicked");
    }
}

fn refuse_all(shared: &SharedStore, commands: &Receiver<CommitterCommand>) {
    while let Ok(command) = commands.recv() {
        match command {
            CommitterCommand::Commit(mutation) => mutation.reject(why_closed(shared)),
            // A caller that has gone away needs no reply.
            CommitterCommand::IdleGroup(reply) => drop(reply.send(Err(why_closed(shared)))),
            CommitterCommand::ArmIdleTimer => {}
            CommitterCommand::Close => return,
        }
    }
}

fn why_closed(shared: &SharedStore) -> StoreError {
    shared.check_writable().err().unwrap_or(StoreError::Closed)
}

impl CommitLeaderLock {
    /// Makes the caller the commit leader, unless a group is being written or mutations are queued.
    fn try_lead(&self) -> Option<MutexGuard<'_, Option<GroupWriter>>> {
        let group_writer = self.group_writer.try_lock().ok()?;
        // Looked at under the lock: the thread counts mutations off while it holds it, so that none
        // is at once off the queue and in no group.
        (group_writer.is_some() && self.queued.load(Ordering::Acquire) == 0).then_some(group_writer)
    }

    /// Waits for the lock. After a panic in a commit, the latch makes each later commit reply with
    /// an error.
    fn lead(&self) -> MutexGuard<'_, Option<GroupWriter>> {
        self.group_writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dequeue(&self, commands: usize) {
        self.queued.fetch_sub(commands, Ordering::AcqRel);
    }
}

/// The committer thread. It alone removes the group writer from the lock, when it ends.
struct CommitterThread {
    leader_lock: Arc<CommitLeaderLock>,
    commands: Receiver<CommitterCommand>,
    idle_group_after: Option<Duration>,
}

impl CommitterThread {
    fn run(self) {
        let mut carried = None;
        let closed = loop {
            // A mutation that did not fit into the last group begins the next one, before those
            // that came later.
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
        let group_writer = self.leader_lock.lead().take();
        group_writer.expect("only this thread removes it").stop(closed);
    }

    /// The next command; `None` once all senders are gone. Writes the idle group that falls due in
    /// the meantime.
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

    /// The delay until an idle group is due, and the next sequence at this moment; `None` if none
    /// is due.
    fn idle_group_due(&self) -> Option<(Duration, u64)> {
        let after = self.idle_group_after?;
        let group_writer = self.leader_lock.lead();
        let group_writer = group_writer.as_ref().filter(|writer| !writer.is_confirmed())?;
        Some((after, group_writer.next_sequence()))
    }

    fn write_idle_group_unless_busy(&self, sequence: u64) {
        let mut group_writer = self.leader_lock.lead();
        if let Some(group_writer) = group_writer.as_mut().filter(|writer| writer.next_sequence() == sequence)
        {
            // A full disk may have space later; all other errors have been reported and latched.
            drop(group_writer.write_idle_group());
        }
    }

    fn write_idle_group(&self, reply: Reply<()>) {
        let mut group_writer = self.leader_lock.lead();
        self.leader_lock.dequeue(1);
        let done = group_writer.as_mut().expect("only this thread removes it").write_idle_group();
        // A caller that has gone away needs no reply.
        drop(reply.send(done));
    }

    /// Commits the queued mutations. Returns the first command that does not belong to the group.
    fn commit(&self, first: Mutation) -> Option<CommitterCommand> {
        let mut group_writer = self.leader_lock.lead();
        let (batch, next) = self.collect(first);
        self.leader_lock.dequeue(batch.len());
        group_writer.as_mut().expect("only this thread removes it").commit(batch);
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
