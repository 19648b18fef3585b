//! XXH64 with seed 0 (xxHash, "Fast digest algorithm", specification 0.1.1): the checksum of the
//! metadata in `xl.meta`.

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// The hash of `bytes`.
pub(crate) fn xxh64(bytes: &[u8]) -> u64 {
    let (stripes, mut rest) = bytes.split_at(bytes.len() / 32 * 32);
    let mut hash = if stripes.is_empty() { PRIMES[4] } else { of_stripes(stripes) };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((lane, after)) = rest.split_first_chunk::<8>() {
        hash ^= round(0, u64::from_le_bytes(*lane));
        hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        rest = after;
    }
    if let Some((lane, after)) = rest.split_first_chunk::<4>() {
        hash ^= u64::from(u32::from_le_bytes(*lane)).wrapping_mul(PRIMES[0]);
        hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
        rest = after;
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIMES[4]);
        hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(PRIMES[1]);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(PRIMES[2]);
    hash ^ hash >> 32
}

fn of_stripes(stripes: &[u8]) -> u64 {
    let mut lanes = [PRIMES[0].wrapping_add(PRIMES[1]), PRIMES[1], 0, 0_u64.wrapping_sub(PRIMES[0])];
    for stripe in stripes.chunks_exact(32) {
        for (lane, bytes) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            *lane = round(*lane, u64::from_le_bytes(word));
        }
    }
    let mut hash = lanes[0]
        .rotate_left(1)
        .wrapping_add(lanes[1].rotate_left(7))
        .wrapping_add(lanes[2].rotate_left(12))
        .wrapping_add(lanes[3].rotate_left(18));
    for lane in lanes {
        hash = (hash ^ round(0, lane)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
    }
    hash
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
}

#[cfg(test)]
mod tests {
    use super::xxh64;

    /// The values of the reference implementation.
    #[test]
    fn the_hash_is_that_of_the_reference() {
        assert_eq!(xxh64(b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc"), 0x44bc_2cf5_ad77_0999);
        assert_eq!(xxh64(b"Nobody inspects the spammish repetition"), 0xfbce_a83c_8a37_8bf1);
    }
}
