//! The MD5 of large bodies, on threads of its own. It takes several times as long as all else that is done to a body: so
//! whoever takes a body in goes on with its next piece meanwhile, and the bodies that come in at the same time are worked
//! on side by side.

use std::io;
use std::num::NonZero;
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::handoff::receive;
use super::limits::{MD5_PIECE_BYTES, MD5_QUEUE_LEN};
use super::md5_lanes::{Block, LANES, START, State, digest, padded, take};

/// One thread keeps up with the bodies that several processors can take in.
const PROCESSORS_PER_THREAD: usize = 4;

/// Blocks that are taken of each body before the mill looks for others that have come.
const TURN_BLOCKS: usize = 256;

/// Threads that work out MD5s, until nobody can ask them any more.
#[derive(Debug)]
pub struct Md5Mill {
    jobs: Sender<Job>,
}

/// A running MD5 that a mill works on. Pieces are handed over whole; of each body there is one in the mill at a time.
#[derive(Debug)]
pub struct MilledMd5 {
    jobs: Sender<Job>,
    done: (Sender<Done>, Receiver<Done>),
    /// `None` while a piece is in the mill.
    state: Option<State>,
    /// Bytes that have been handed over.
    len: u64,
}

/// A piece of one body.
#[derive(Debug)]
struct Job {
    state: State,
    piece: Vec<u8>,
    /// Blocks that have been taken in.
    taken: usize,
    done: Sender<Done>,
}

/// What has become of a piece: the state behind its last whole block, and its memory.
type Done = (State, Vec<u8>);

impl Md5Mill {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start() -> io::Result<Self> {
        let (jobs, inbox) = bounded(MD5_QUEUE_LEN);
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        for number in 0..processors.div_ceil(PROCESSORS_PER_THREAD) {
            let inbox = inbox.clone();
            thread::Builder::new().name(format!("md5-{number}")).spawn(move || work(&inbox))?;
        }
        Ok(Self { jobs })
    }

    /// The MD5 of a body of which nothing has come.
    pub fn begin(&self) -> MilledMd5 {
        MilledMd5 { jobs: self.jobs.clone(), done: bounded(1), state: Some(START), len: 0 }
    }
}

impl MilledMd5 {
    /// Memory for one piece.
    pub fn room() -> Vec<u8> {
        vec![0; MD5_PIECE_BYTES]
    }

    /// Takes the next piece, all [`MD5_PIECE_BYTES`] of it, and gives memory for another. Waits until the piece before it is
    /// done, so that a body has two at most.
    pub fn update(&mut self, piece: Vec<u8>) -> Vec<u8> {
        debug_assert!(piece.len() == MD5_PIECE_BYTES, "only the last piece may be short");
        let (state, room) = match self.state.take() {
            Some(state) => (state, Self::room()),
            None => self.wait(),
        };
        self.hand_over(state, piece);
        room
    }

    /// Takes the first `len` bytes of the last piece, and waits for the digest of all.
    pub fn finish(mut self, mut piece: Vec<u8>, len: usize) -> [u8; 16] {
        piece.truncate(len);
        let state = self.state.take().unwrap_or_else(|| self.wait().0);
        self.hand_over(state, piece);
        let (mut state, piece) = self.wait();
        let rest = piece.as_chunks::<64>().1;
        md5::block_api::compress(&mut state, &padded(rest, self.len));
        digest(state)
    }

    fn hand_over(&mut self, state: State, piece: Vec<u8>) {
        self.len += piece.len() as u64;
        let job = Job { state, piece, taken: 0, done: self.done.0.clone() };
        self.jobs.send(job).expect("the threads live as long as somebody can ask them");
    }

    fn wait(&self) -> Done {
        receive(&self.done.1).expect("the mill answers each piece, and this end of the channel is kept, too")
    }
}

fn work(inbox: &Receiver<Job>) {
    let mut jobs = Vec::with_capacity(LANES);
    while let Ok(job) = receive(inbox) {
        jobs.push(job);
        while !jobs.is_empty() {
            jobs.extend(inbox.try_iter().take(LANES - jobs.len()));
            turn(&mut jobs);
            settle(&mut jobs);
        }
    }
}

impl Job {
    fn left(&self) -> &[Block] {
        &self.piece.as_chunks().0[self.taken..]
    }
}

/// Goes on with all of them, by as many blocks as the shortest has left.
fn turn(jobs: &mut [Job]) {
    let count = jobs.iter().map(|job| job.left().len()).min().unwrap_or(0).min(TURN_BLOCKS);
    let mut streams: Vec<_> = jobs
        .iter_mut()
        .map(|Job { state, piece, taken, .. }| (state, &piece.as_chunks().0[*taken..]))
        .collect();
    take(&mut streams, count);
    jobs.iter_mut().for_each(|job| job.taken += count);
}

/// Answers those that are done.
fn settle(jobs: &mut Vec<Job>) {
    for Job { state, piece, done, .. } in jobs.extract_if(.., |job| job.left().is_empty()) {
        // Whoever asked may have given its body up.
        let _ = done.send((state, piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Md5;

    /// The MD5 of `bytes` by way of a mill, in pieces as they would come.
    fn milled(mill: &Md5Mill, bytes: &[u8]) -> [u8; 16] {
        let mut md5 = mill.begin();
        let mut room = MilledMd5::room();
        let (pieces, last) = bytes.as_chunks::<MD5_PIECE_BYTES>();
        for piece in pieces {
            room.copy_from_slice(piece);
            room = md5.update(room);
        }
        room[..last.len()].copy_from_slice(last);
        md5.finish(room, last.len())
    }

    fn body(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 251 * 7 + at * 31 + seed) as u8).collect()
    }

    #[test]
    fn a_body_of_any_length_has_its_md5() {
        let mill = Md5Mill::start().unwrap();
        let lens = [0, 1, 55, 56, 63, 64, 65, 119, 120, 128];
        for len in lens.into_iter().chain(lens.map(|len| MD5_PIECE_BYTES + len)).chain([3 * MD5_PIECE_BYTES])
        {
            let body = body(len, len);
            assert_eq!(milled(&mill, &body), Md5::of(&body), "{len} bytes");
        }
    }

    #[test]
    fn bodies_that_come_at_the_same_time_do_not_mix() {
        let mill = Md5Mill::start().unwrap();
        thread::scope(|scope| {
            for seed in 0..2 * LANES + 1 {
                let mill = &mill;
                scope.spawn(move || {
                    let body = body(seed, (seed % 5) * MD5_PIECE_BYTES + 1000 * seed + seed);
                    assert_eq!(milled(mill, &body), Md5::of(&body), "body {seed}");
                });
            }
        });
    }

    #[test]
    fn a_body_that_is_given_up_keeps_nobody_else_waiting() {
        let mill = Md5Mill::start().unwrap();
        let mut given_up = mill.begin();
        given_up.update(MilledMd5::room());
        drop(given_up);
        assert_eq!(milled(&mill, b"abc"), Md5::of(b"abc"));
    }
}
