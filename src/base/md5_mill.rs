//! The MD5 of large bodies, on threads of its own. It takes several times as long as all else that is done to a body: so
//! whoever takes a body in goes on with its next piece meanwhile, and the bodies that come in at the same time are worked
//! on side by side.

use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::thread;

use arrayvec::ArrayVec;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::handoff::receive;
use super::limits::{MD5_PIECE_BYTES, MD5_PIECES_MAX, MD5_QUEUE_LEN};
use super::md5_lanes::{Block, LANES, START, State, digest, padded, take};

/// One thread keeps up with the bodies that several processors can take in.
const PROCESSORS_PER_THREAD: usize = 4;

/// Blocks that are taken of each body before the mill looks for others that have come.
const TURN_BLOCKS: usize = 256;
const NO_PANIC: &str = "nobody panics while holding it";

/// Threads that work out MD5s, until nobody can ask them any more.
#[derive(Debug)]
pub struct Md5Mill {
    jobs: Sender<Job>,
}

/// A running MD5 that a mill works on. Pieces are handed over whole, and may wait there while others are filled.
#[derive(Debug)]
pub struct MilledMd5 {
    jobs: Sender<Job>,
    line: Arc<Mutex<Line>>,
    /// The memory of pieces that are done.
    rooms: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    /// Pieces that have been handed over and have not come back.
    out: usize,
    /// Bytes that have been handed over.
    len: u64,
}

/// How far the mill has come with a body.
#[derive(Debug)]
struct Line {
    /// Behind the pieces that are done; `None` while the mill works on one.
    state: Option<State>,
    /// Pieces behind that one.
    waiting: ArrayVec<Vec<u8>, MD5_PIECES_MAX>,
}

/// A piece of one body.
#[derive(Debug)]
struct Job {
    state: State,
    piece: Vec<u8>,
    /// Blocks that have been taken in.
    taken: usize,
    line: Arc<Mutex<Line>>,
    rooms: Sender<Vec<u8>>,
}

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
        let line = Line { state: Some(START), waiting: ArrayVec::new() };
        let rooms = bounded(MD5_PIECES_MAX);
        MilledMd5 { jobs: self.jobs.clone(), line: Arc::new(Mutex::new(line)), rooms, out: 0, len: 0 }
    }
}

impl MilledMd5 {
    /// Memory for one piece.
    pub fn room() -> Vec<u8> {
        vec![0; MD5_PIECE_BYTES]
    }

    /// Takes the next piece, all [`MD5_PIECE_BYTES`] of it, and gives memory for another. Waits where the mill is so far behind
    /// that the body would have more than [`MD5_PIECES_MAX`].
    pub fn update(&mut self, piece: Vec<u8>) -> Vec<u8> {
        debug_assert!(piece.len() == MD5_PIECE_BYTES, "only the last piece may be short");
        self.hand_over(piece);
        match self.rooms.1.try_recv() {
            Ok(room) => self.came_back(room),
            Err(_) if self.out < MD5_PIECES_MAX => Self::room(),
            Err(_) => self.wait(),
        }
    }

    /// Takes the first `len` bytes of the last piece, and waits for the digest of all.
    pub fn finish(mut self, mut piece: Vec<u8>, len: usize) -> [u8; 16] {
        piece.truncate(len);
        let end = padded(piece.as_chunks::<64>().1, self.len + len as u64);
        self.hand_over(piece);
        while self.out > 0 {
            self.wait();
        }
        let state = self.line.lock().expect(NO_PANIC).state;
        let mut state = state.expect("the mill works on none of the pieces");
        md5::block_api::compress(&mut state, &end);
        digest(state)
    }

    fn hand_over(&mut self, piece: Vec<u8>) {
        self.len += piece.len() as u64;
        self.out += 1;
        let mut line = self.line.lock().expect(NO_PANIC);
        match line.state.take() {
            None => line.waiting.push(piece),
            Some(state) => {
                drop(line);
                let (line, rooms) = (self.line.clone(), self.rooms.0.clone());
                let job = Job { state, piece, taken: 0, line, rooms };
                self.jobs.send(job).expect("the threads live as long as somebody can ask them");
            }
        }
    }

    fn wait(&mut self) -> Vec<u8> {
        let room = receive(&self.rooms.1);
        self.came_back(
            room.expect("the mill gives all pieces back, and this end of the channel is kept, too"),
        )
    }

    fn came_back(&mut self, room: Vec<u8>) -> Vec<u8> {
        self.out -= 1;
        room
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

    /// Takes up the next piece of the body, if one waits. The state is left before the memory is given back: whoever has all of it
    /// back finds the state.
    fn go_on(&mut self) -> bool {
        let mut line = self.line.lock().expect(NO_PANIC);
        let next = line.waiting.pop_at(0);
        let goes_on = next.is_some();
        if !goes_on {
            line.state = Some(self.state);
        }
        drop(line);
        let done = std::mem::replace(&mut self.piece, next.unwrap_or_default());
        self.taken = 0;
        // Whoever asked may have given its body up.
        let _ = self.rooms.send(done);
        goes_on
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

/// Gives back the pieces that are done, and goes on with those behind them.
fn settle(jobs: &mut Vec<Job>) {
    jobs.retain_mut(|job| !job.left().is_empty() || job.go_on());
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
            assert!(md5.out < MD5_PIECES_MAX, "one of them is outside");
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
        for len in lens.into_iter().chain(lens.map(|len| MD5_PIECE_BYTES + len)).chain([9 * MD5_PIECE_BYTES])
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
