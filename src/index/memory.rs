//! The memory of allocations. The index maintains its own memory as it changes, because every
//! commit asks for it.

/// The memory of an allocation of `len` bytes. The C library stores a length in front and rounds up
/// (glibc, malloc.c, "MALLOC_ALIGNMENT", "MINSIZE").
pub(super) const fn heap_bytes(len: usize) -> u64 {
    let len = (len as u64 + 8).next_multiple_of(16);
    if len < 32 { 32 } else { len }
}

/// The memory of an `Arc` of `len` bytes, which has two reference counts.
pub(super) const fn shared_bytes(len: usize) -> u64 {
    heap_bytes(len + 16)
}

/// The memory of an entry of an [`rpds::RedBlackTreeMapSync`]: the entry itself, and a node with a
/// colour and three pointers, each in an `Arc`.
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
