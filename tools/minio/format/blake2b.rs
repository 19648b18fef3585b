//! BLAKE2b-512 without a key (RFC 7693): the hash of shard files of 2016 and 2017.

const IV: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
const SIGMA: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const BLOCK_BYTES: usize = 128;
const ROUNDS: usize = 12;
/// 64 bytes of hash, no key, no tree.
const PARAMETERS: u64 = 0x0101_0040;

/// A running hash.
pub(crate) struct Blake2b {
    state: [u64; 8],
    /// Bytes before those that wait.
    count: u128,
    /// The last bytes: a full block waits until it is known whether it is the last.
    waiting: Vec<u8>,
}

impl Blake2b {
    pub(crate) fn new() -> Self {
        let mut state = IV;
        state[0] ^= PARAMETERS;
        Self { state, count: 0, waiting: Vec::new() }
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.waiting.len() == BLOCK_BYTES {
                self.compress_waiting(false);
            }
            let (taken, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.waiting.len()));
            self.waiting.extend_from_slice(taken);
            bytes = rest;
        }
    }

    pub(crate) fn finish(mut self) -> [u8; 64] {
        self.compress_waiting(true);
        let mut hash = [0; 64];
        for (to, word) in hash.chunks_exact_mut(8).zip(self.state) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        hash
    }

    fn compress_waiting(&mut self, last: bool) {
        let mut block = [0; BLOCK_BYTES];
        block[..self.waiting.len()].copy_from_slice(&self.waiting);
        self.count += self.waiting.len() as u128;
        self.waiting.clear();
        compress(&mut self.state, &block, self.count, last);
    }
}

fn compress(state: &mut [u64; 8], block: &[u8; BLOCK_BYTES], count: u128, last: bool) {
    let mut message = [0; 16];
    for (word, bytes) in message.iter_mut().zip(block.chunks_exact(8)) {
        let mut of_word = [0; 8];
        of_word.copy_from_slice(bytes);
        *word = u64::from_le_bytes(of_word);
    }
    let mut v = [0; 16];
    v[..8].copy_from_slice(state);
    v[8..].copy_from_slice(&IV);
    v[12] ^= count as u64;
    v[13] ^= (count >> 64) as u64;
    if last {
        v[14] = !v[14];
    }
    for round in 0..ROUNDS {
        let s = &SIGMA[round % SIGMA.len()];
        for at in 0..4 {
            mix(&mut v, [at, at + 4, at + 8, at + 12], message[s[2 * at]], message[s[2 * at + 1]]);
        }
        for at in 0..4 {
            let lanes = [at, (at + 1) % 4 + 4, (at + 2) % 4 + 8, (at + 3) % 4 + 12];
            mix(&mut v, lanes, message[s[8 + 2 * at]], message[s[9 + 2 * at]]);
        }
    }
    for at in 0..8 {
        state[at] ^= v[at] ^ v[at + 8];
    }
}

fn mix(v: &mut [u64; 16], [a, b, c, d]: [usize; 4], x: u64, y: u64) {
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(x);
    v[d] = (v[d] ^ v[a]).rotate_right(32);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(24);
    v[a] = v[a].wrapping_add(v[b]).wrapping_add(y);
    v[d] = (v[d] ^ v[a]).rotate_right(16);
    v[c] = v[c].wrapping_add(v[d]);
    v[b] = (v[b] ^ v[c]).rotate_right(63);
}
