//! Floor 1: bytes <-> values, without I/O and without a clock: the code half of data-format.md.
