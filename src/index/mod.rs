//! Floor 2: what the entries add up to, in memory; changed only by applying an entry.
