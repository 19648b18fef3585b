//! Floor 4: the operations, one file per group: where the protocol meets the store.
