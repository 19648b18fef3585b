//! Floor 3: the engine: recovery, commit, put, get, delete, checkpoint, verify, health.
