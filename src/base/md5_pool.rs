//! A pool of threads that compute the MD5s of large bodies.
//!
//! MD5 takes several times as long as all other work on a body. A worker hands each piece to the
//! pool and receives the next piece in the meantime; bodies that arrive at the same time are hashed
//! side by side.

use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::thread;

use arrayvec::ArrayVec;
use crossbeam_channel::{Receiver, Sender, bounded};

use super::NOT_POISONED;
use super::channel::receive;
use super::limits::{MD5_PIECE_BYTES, MD5_PIECES_MAX, MD5_QUEUE_LEN};
use super::md5_multibuffer::{Block, ChainingValue, INITIAL_VALUE, LANES, compress_lanes, digest, padded};

/// One thread keeps up with the bodies that several processors can receive.
const PROCESSORS_PER_THREAD: usize = 4;

/// Blocks of each body that are hashed before a thread looks for newly submitted bodies.
const BLOCKS_PER_ROUND: usize = 256;

/// The threads. They end when the pool and all its running digests are dropped.
#[derive(Debug)]
pub struct Md5Pool {
    jobs: Sender<HashJob>,
}

/// A running MD5 that the pool computes. Pieces are submitted whole and may queue there while
/// others are filled.
#[derive(Debug)]
pub struct PooledMd5 {
    jobs: Sender<HashJob>,
    queue: Arc<Mutex<PieceQueue>>,
    /// The buffers of pieces that are hashed come back through this channel.
    buffers: (Sender<Vec<u8>>, Receiver<Vec<u8>>),
    /// Submitted pieces whose buffers have not come back.
    outstanding: usize,
    /// Submitted bytes.
    len: u64,
}

/// The progress of one body.
#[derive(Debug)]
struct PieceQueue {
    /// The chaining value after the last hashed piece; `None` while a thread works on a piece.
    value: Option<ChainingValue>,
    /// Pieces that follow the one in work.
    waiting: ArrayVec<Vec<u8>, MD5_PIECES_MAX>,
}

/// The piece of one body that a thread works on.
#[derive(Debug)]
struct HashJob {
    value: ChainingValue,
    piece: Vec<u8>,
    /// Blocks of the piece that are hashed.
    blocks_done: usize,
    queue: Arc<Mutex<PieceQueue>>,
    buffers: Sender<Vec<u8>>,
}

impl Md5Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start() -> io::Result<Self> {
        let (jobs, submitted) = bounded(MD5_QUEUE_LEN);
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        for number in 0..processors.div_ceil(PROCESSORS_PER_THREAD) {
            let submitted = submitted.clone();
            thread::Builder::new().name(format!("md5-{number}")).spawn(move || run_thread(&submitted))?;
        }
        Ok(Self { jobs })
    }

    /// Begins the MD5 of a body.
    pub fn begin(&self) -> PooledMd5 {
        let queue = PieceQueue { value: Some(INITIAL_VALUE), waiting: ArrayVec::new() };
        PooledMd5 {
            jobs: self.jobs.clone(),
            queue: Arc::new(Mutex::new(queue)),
            buffers: bounded(MD5_PIECES_MAX),
            outstanding: 0,
            len: 0,
        }
    }
}

impl PooledMd5 {
    /// A buffer for one piece.
    pub fn new_buffer() -> Vec<u8> {
        vec![0; MD5_PIECE_BYTES]
    }

    /// Submits the next piece, all [`MD5_PIECE_BYTES`] of it, and returns a buffer for another.
    /// Blocks while the body has [`MD5_PIECES_MAX`] pieces with the pool.
    pub fn update(&mut self, piece: Vec<u8>) -> Vec<u8> {
        debug_assert!(piece.len() == MD5_PIECE_BYTES, "only the last piece may be short");
        self.submit(piece);
        match self.buffers.1.try_recv() {
            Ok(buffer) => self.count_returned(buffer),
            Err(_) if self.outstanding < MD5_PIECES_MAX => Self::new_buffer(),
            Err(_) => self.wait_for_buffer(),
        }
    }

    /// Submits the first `len` bytes of the last piece and waits for the digest of the body.
    pub fn finish(mut self, mut piece: Vec<u8>, len: usize) -> [u8; 16] {
        piece.truncate(len);
        let end = padded(piece.as_chunks::<64>().1, self.len + len as u64);
        self.submit(piece);
        while self.outstanding > 0 {
            self.wait_for_buffer();
        }
        let value = self.queue.lock().expect(NOT_POISONED).value;
        let mut value = value.expect("no thread works on a piece");
        md5::block_api::compress(&mut value, &end);
        digest(value)
    }

    fn submit(&mut self, piece: Vec<u8>) {
        self.len += piece.len() as u64;
        self.outstanding += 1;
        let mut queue = self.queue.lock().expect(NOT_POISONED);
        match queue.value.take() {
            None => queue.waiting.push(piece),
            Some(value) => {
                drop(queue);
                let queue = self.queue.clone();
                let buffers = self.buffers.0.clone();
                let job = HashJob { value, piece, blocks_done: 0, queue, buffers };
                self.jobs.send(job).expect("the threads live as long as a digest can be submitted");
            }
        }
    }

    fn wait_for_buffer(&mut self) -> Vec<u8> {
        let buffer = receive(&self.buffers.1);
        self.count_returned(buffer.expect("the pool returns all buffers, and this digest keeps a sender"))
    }

    fn count_returned(&mut self, buffer: Vec<u8>) -> Vec<u8> {
        self.outstanding -= 1;
        buffer
    }
}

fn run_thread(submitted: &Receiver<HashJob>) {
    let mut jobs = Vec::with_capacity(LANES);
    while let Ok(job) = receive(submitted) {
        jobs.push(job);
        while !jobs.is_empty() {
            jobs.extend(submitted.try_iter().take(LANES - jobs.len()));
            hash_round(&mut jobs);
            jobs.retain_mut(|job| !job.blocks_left().is_empty() || job.next_piece());
        }
    }
}

impl HashJob {
    fn blocks_left(&self) -> &[Block] {
        &self.piece.as_chunks().0[self.blocks_done..]
    }

    /// Returns the buffer of a hashed piece and goes on to the body's next one; `false` if none
    /// waits. The chaining value is stored before the buffer is returned: a body that has all its
    /// buffers back finds the value.
    fn next_piece(&mut self) -> bool {
        let mut queue = self.queue.lock().expect(NOT_POISONED);
        let next = queue.waiting.pop_at(0);
        let has_next = next.is_some();
        if !has_next {
            queue.value = Some(self.value);
        }
        drop(queue);
        let done = std::mem::replace(&mut self.piece, next.unwrap_or_default());
        self.blocks_done = 0;
        // The receiver is gone if the body was aborted.
        let _ = self.buffers.send(done);
        has_next
    }
}

/// Hashes as many blocks of each piece as the shortest has left, at most [`BLOCKS_PER_ROUND`].
fn hash_round(jobs: &mut [HashJob]) {
    let count = jobs.iter().map(|job| job.blocks_left().len()).min().unwrap_or(0).min(BLOCKS_PER_ROUND);
    let mut streams: Vec<_> = jobs
        .iter_mut()
        .map(|HashJob { value, piece, blocks_done, .. }| (value, &piece.as_chunks().0[*blocks_done..]))
        .collect();
    compress_lanes(&mut streams, count);
    for job in jobs {
        job.blocks_done += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Md5;

    /// The MD5 of `bytes`, computed by a pool from pieces.
    fn pooled(pool: &Md5Pool, bytes: &[u8]) -> [u8; 16] {
        let mut md5 = pool.begin();
        let mut buffer = PooledMd5::new_buffer();
        let (pieces, last) = bytes.as_chunks::<MD5_PIECE_BYTES>();
        for piece in pieces {
            buffer.copy_from_slice(piece);
            buffer = md5.update(buffer);
            assert!(md5.outstanding < MD5_PIECES_MAX, "one buffer is with the caller");
        }
        buffer[..last.len()].copy_from_slice(last);
        md5.finish(buffer, last.len())
    }

    fn body(seed: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 251 * 7 + at * 31 + seed) as u8).collect()
    }

    #[test]
    fn a_body_of_any_length_has_its_md5() {
        let pool = Md5Pool::start().unwrap();
        let lens = [0, 1, 55, 56, 63, 64, 65, 119, 120, 128];
        for len in lens.into_iter().chain(lens.map(|len| MD5_PIECE_BYTES + len)).chain([9 * MD5_PIECE_BYTES])
        {
            let body = body(len, len);
            assert_eq!(pooled(&pool, &body), Md5::of(&body), "{len} bytes");
        }
    }

    #[test]
    fn bodies_that_come_at_the_same_time_do_not_mix() {
        let pool = Md5Pool::start().unwrap();
        thread::scope(|scope| {
            for seed in 0..2 * LANES + 1 {
                let pool = &pool;
                scope.spawn(move || {
                    let body = body(seed, (seed % 5) * MD5_PIECE_BYTES + 1000 * seed + seed);
                    assert_eq!(pooled(pool, &body), Md5::of(&body), "body {seed}");
                });
            }
        });
    }

    #[test]
    fn an_aborted_body_does_not_hold_up_others() {
        let pool = Md5Pool::start().unwrap();
        let mut aborted = pool.begin();
        aborted.update(PooledMd5::new_buffer());
        drop(aborted);
        assert_eq!(pooled(&pool, b"abc"), Md5::of(b"abc"));
    }
}
