//! What allocations take up: the index counts its own memory as it changes, since it is asked for at every commit.

/// What allocating `len` bytes takes up. The C library keeps a length in front of them and rounds up (glibc, malloc.c,
/// "MALLOC_ALIGNMENT", "MINSIZE").
pub(super) const fn heap_bytes(len: usize) -> u64 {
    let len = (len as u64 + 8).next_multiple_of(16);
    if len < 32 { 32 } else { len }
}

/// The same of what stands behind an `Arc`, which counts its references in two words.
pub(super) const fn shared_bytes(len: usize) -> u64 {
    heap_bytes(len + 16)
}

/// What an entry of an [`rpds::RedBlackTreeMapSync`] takes up: the entry itself, and a node of a colour and three pointers,
/// each counted.
pub(super) const fn map_entry_bytes<K, V>() -> u64 {
    shared_bytes(size_of::<K>() + size_of::<V>()) + shared_bytes(4 * size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_rounded_up_as_the_c_library_does() {
        assert_eq!([0, 24, 25, 40, 41].map(heap_bytes), [32, 32, 48, 48, 64]);
        assert_eq!(shared_bytes(24), 48);
        assert_eq!(map_entry_bytes::<u64, u64>(), 48 + 64);
    }
}
