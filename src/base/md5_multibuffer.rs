//! MD5 (RFC 1321) of several streams at once. Each step of one stream depends on the step before
//! it, so most of a processor's arithmetic units idle; sixteen streams, each in a lane of SIMD
//! registers, take little longer than one.
//!
//! `pulp` chooses the instruction set at run time.

use arrayvec::ArrayVec;
use pulp::{Arch, Simd, WithSimd};

/// Streams that are hashed side by side.
pub(super) const LANES: usize = 16;

/// The least number of streams for which SIMD is faster than hashing one after the other.
const SIMD_STREAMS_MIN: usize = 2;

/// The intermediate hash value of one stream: the buffer A, B, C, D of section 3.3.
pub(super) type ChainingValue = [u32; 4];

/// The value before the first block (section 3.3).
pub(super) const INITIAL_VALUE: ChainingValue = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// The unit of hashing.
pub(super) type Block = [u8; 64];

/// The MD5 of each message, in their order.
pub fn md5_of_each(messages: &[&[u8]]) -> Vec<[u8; 16]> {
    messages.chunks(LANES).flat_map(md5_of_lanes).collect()
}

/// The MD5 of each of at most [`LANES`] messages.
fn md5_of_lanes(messages: &[&[u8]]) -> Vec<[u8; 16]> {
    let mut values = vec![INITIAL_VALUE; messages.len()];
    let wholes = messages.iter().map(|message| message.as_chunks());
    let (blocks, rests): (Vec<_>, Vec<_>) = wholes.unzip();
    let ends: Vec<_> = rests.iter().zip(messages).map(|(rest, all)| padded(rest, all.len() as u64)).collect();
    compress_all(&mut values, blocks);
    compress_all(&mut values, ends.iter().map(Vec::as_slice).collect());
    values.into_iter().map(digest).collect()
}

/// Hashes all blocks of each stream.
fn compress_all(values: &mut [ChainingValue], mut left: Vec<&[Block]>) {
    while let Some(count) = left.iter().map(|blocks| blocks.len()).filter(|count| *count > 0).min() {
        let pairs = values.iter_mut().zip(&left).filter(|(_, blocks)| !blocks.is_empty());
        compress_lanes(&mut pairs.map(|(value, blocks)| (value, *blocks)).collect::<Vec<_>>(), count);
        for blocks in &mut left {
            *blocks = blocks.get(count..).unwrap_or_default();
        }
    }
}

/// The padded end of a message of `len` bytes: `rest`, the bytes after its last whole block, a one
/// bit, zeros, and the length in bits (sections 3.1 and 3.2). One block or two.
pub(super) fn padded(rest: &[u8], len: u64) -> Vec<Block> {
    let mut bytes = rest.to_vec();
    bytes.push(0x80);
    bytes.resize((bytes.len() + 8).next_multiple_of(64) - 8, 0);
    bytes.extend_from_slice(&(len.wrapping_mul(8)).to_le_bytes());
    bytes.as_chunks().0.to_vec()
}

/// The digest of a stream from its final value (section 3.5).
pub(super) fn digest(value: ChainingValue) -> [u8; 16] {
    let mut digest = [0; 16];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(value) {
        *bytes = word.to_le_bytes();
    }
    digest
}

/// Hashes the first `count` blocks of each stream. There are at most [`LANES`] streams, each with
/// at least `count` blocks.
pub(super) fn compress_lanes(streams: &mut [(&mut ChainingValue, &[Block])], count: usize) {
    let arch = Arch::new();
    if streams.len() < SIMD_STREAMS_MIN || matches!(arch, Arch::Scalar) {
        for (value, blocks) in streams {
            md5::block_api::compress(value, &blocks[..count]);
        }
        return;
    }
    let mut lanes = [[0u32; LANES]; 4];
    let mut blocks = ArrayVec::<_, LANES>::new();
    for (lane, (value, of_stream)) in streams.iter().enumerate() {
        for (word, words) in value.iter().zip(&mut lanes) {
            words[lane] = *word;
        }
        blocks.push(&of_stream[..count]);
    }
    arch.dispatch(SimdLanes { lanes: &mut lanes, blocks: &blocks });
    for (lane, (value, _)) in streams.iter_mut().enumerate() {
        for (word, words) in value.iter_mut().zip(&lanes) {
            *word = words[lane];
        }
    }
}

/// One word of each lane.
type Words = [u32; LANES];

struct SimdLanes<'a> {
    lanes: &'a mut [Words; 4],
    /// The blocks of each stream, equally many. The remaining lanes have no stream, and their
    /// results are ignored.
    blocks: &'a [&'a [Block]],
}

// A function that were not inlined would be compiled for the baseline instruction set.
impl WithSimd for SimdLanes<'_> {
    type Output = ();

    /// Hashes one register full of lanes after the other. Transposing the words into lanes takes as
    /// long as the steps themselves, so lanes without a stream are skipped.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (group, blocks) in self.blocks.chunks(S::U32_LANES).enumerate() {
            let mut state = self.lanes.each_ref().map(|words| S::as_simd_u32s(words).0[group]);
            let mut message = [[0; LANES]; 16];
            for at in 0..blocks[0].len() {
                for (lane, blocks) in blocks.iter().enumerate() {
                    for (words, bytes) in message.iter_mut().zip(blocks[at].as_chunks().0) {
                        words[lane] = u32::from_le_bytes(*bytes);
                    }
                }
                state = compress(simd, state, &message);
            }
            for (words, state) in self.lanes.iter_mut().zip(state) {
                S::as_mut_simd_u32s(words).0[group] = state;
            }
        }
    }
}

/// Four steps for each entry (section 3.4). Arguments: the mixing function, the four rotations,
/// then for each entry the number of its first step and the four message words.
macro_rules! steps {
    (
        $simd:ident, $message:ident, $mix:ident, $a:ident $b:ident $c:ident $d:ident, [$r0:literal $r1:literal $r2:literal $r3:literal],
        $($at:literal: $w0:literal $w1:literal $w2:literal $w3:literal),*
    ) => { $(
        $a = step($simd, $mix($simd, $b, $c, $d), $a, $b, &$message[$w0], SINES[$at], $r0);
        $d = step($simd, $mix($simd, $a, $b, $c), $d, $a, &$message[$w1], SINES[$at + 1], $r1);
        $c = step($simd, $mix($simd, $d, $a, $b), $c, $d, &$message[$w2], SINES[$at + 2], $r2);
        $b = step($simd, $mix($simd, $c, $d, $a), $b, $c, &$message[$w3], SINES[$at + 3], $r3);
    )* };
}

#[inline(always)]
fn compress<S: Simd>(simd: S, state: [S::u32s; 4], message: &[Words; 16]) -> [S::u32s; 4] {
    let [mut a, mut b, mut c, mut d] = state;
    steps!(simd, message, f, a b c d, [7 12 17 22], 0: 0 1 2 3, 4: 4 5 6 7, 8: 8 9 10 11, 12: 12 13 14 15);
    steps!(simd, message, g, a b c d, [5 9 14 20], 16: 1 6 11 0, 20: 5 10 15 4, 24: 9 14 3 8, 28: 13 2 7 12);
    steps!(simd, message, h, a b c d, [4 11 16 23], 32: 5 8 11 14, 36: 1 4 7 10, 40: 13 0 3 6, 44: 9 12 15 2);
    steps!(simd, message, i, a b c d, [6 10 15 21], 48: 0 7 14 5, 52: 12 3 10 1, 56: 8 15 6 13, 60: 4 11 2 9);
    let [was_a, was_b, was_c, was_d] = state;
    [simd.add_u32s(a, was_a), simd.add_u32s(b, was_b), simd.add_u32s(c, was_c), simd.add_u32s(d, was_d)]
}

#[inline(always)]
fn f<S: Simd>(simd: S, x: S::u32s, y: S::u32s, z: S::u32s) -> S::u32s {
    simd.xor_u32s(z, simd.and_u32s(x, simd.xor_u32s(y, z)))
}

#[inline(always)]
fn g<S: Simd>(simd: S, x: S::u32s, y: S::u32s, z: S::u32s) -> S::u32s {
    f(simd, z, x, y)
}

#[inline(always)]
fn h<S: Simd>(simd: S, x: S::u32s, y: S::u32s, z: S::u32s) -> S::u32s {
    simd.xor_u32s(simd.xor_u32s(x, y), z)
}

#[inline(always)]
fn i<S: Simd>(simd: S, x: S::u32s, y: S::u32s, z: S::u32s) -> S::u32s {
    simd.xor_u32s(y, simd.or_u32s(x, simd.not_u32s(z)))
}

#[inline(always)]
fn step<S: Simd>(
    simd: S,
    mixed: S::u32s,
    a: S::u32s,
    b: S::u32s,
    words: &Words,
    sine: u32,
    bits: u32,
) -> S::u32s {
    let word = S::as_simd_u32s(words).0[0];
    let sum = simd.add_u32s(simd.add_u32s(a, simd.add_u32s(word, simd.splat_u32s(sine))), mixed);
    let high = simd.wrapping_dyn_shl_u32s(sum, simd.splat_u32s(bits));
    let low = simd.wrapping_dyn_shr_u32s(sum, simd.splat_u32s(32 - bits));
    simd.add_u32s(simd.or_u32s(high, low), b)
}

/// 2^32 times the sine of each step, counted from one (section 3.4).
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::Md5;

    /// Blocks that differ from stream to stream.
    fn blocks_of(stream: usize, count: usize) -> Vec<Block> {
        let byte = |at: usize| (at * 31 + at / 64 * 7 + stream * 113) as u8;
        (0..count).map(|block| std::array::from_fn(|at| byte(64 * block + at))).collect()
    }

    #[test]
    fn the_sines_are_those_of_the_definition() {
        let sine = |step: usize| (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        assert_eq!(SINES.to_vec(), (0..64).map(sine).collect::<Vec<_>>());
    }

    #[test]
    fn streams_hashed_together_have_the_values_they_have_alone() {
        for number in 1..=LANES {
            let blocks: Vec<_> = (0..number).map(|stream| blocks_of(stream, 5)).collect();
            let mut states = vec![INITIAL_VALUE; number];
            // Streams that have more blocks than are hashed, and that continue from an earlier
            // value.
            for (from, count) in [(0, 2), (2, 3)] {
                let mut streams: Vec<_> =
                    states.iter_mut().zip(&blocks).map(|(state, blocks)| (state, &blocks[from..])).collect();
                compress_lanes(&mut streams, count);
            }
            for (stream, state) in states.iter().enumerate() {
                let mut alone = INITIAL_VALUE;
                md5::block_api::compress(&mut alone, &blocks[stream]);
                assert_eq!(*state, alone, "stream {stream} of {number}");
            }
        }
    }

    #[test]
    fn messages_of_any_length_have_their_md5() {
        let lens = [0, 1, 55, 56, 63, 64, 65, 119, 120, 128, 4096, 4097, 10_000];
        for number in [0, 1, 2, 3, LANES, 3 * LANES + 5] {
            let len = |at: usize| lens[at * 7 % lens.len()];
            let messages: Vec<_> =
                (0..number).map(|at| blocks_of(at, 160).as_flattened()[..len(at)].to_vec()).collect();
            let messages: Vec<_> = messages.iter().map(Vec::as_slice).collect();
            let alone: Vec<_> = messages.iter().map(|message| Md5::of(message)).collect();
            assert_eq!(md5_of_each(&messages), alone, "{number} messages");
        }
    }

    #[test]
    fn all_instruction_sets_give_the_same_values() {
        let blocks: [Vec<Block>; LANES] = std::array::from_fn(|stream| blocks_of(stream, 3));
        let alone = blocks.each_ref().map(|blocks| {
            let mut state = INITIAL_VALUE;
            md5::block_api::compress(&mut state, blocks);
            state
        });
        let of_lanes = blocks.each_ref().map(Vec::as_slice);
        let check = |run: &dyn Fn(SimdLanes<'_>)| {
            for used in 1..=LANES {
                let mut lanes = INITIAL_VALUE.map(|word| [word; LANES]);
                run(SimdLanes { lanes: &mut lanes, blocks: &of_lanes[..used] });
                let all: [ChainingValue; LANES] = std::array::from_fn(|lane| lanes.map(|words| words[lane]));
                assert_eq!(all[..used], alone[..used], "{used} lanes");
            }
        };
        check(&|all| all.with_simd(pulp::Scalar::new()));
        check(&|all| Arch::new().dispatch(all));
        #[cfg(target_arch = "x86_64")]
        if let Some(narrower) = pulp::x86::V3::try_new() {
            check(&|all| Simd::vectorize(narrower, all));
        }
    }
}
