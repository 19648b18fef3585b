//! Floor 2: segmented append-only logs of records: append, roll, seal, sync, scan and the judgement of tails.
