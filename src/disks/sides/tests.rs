//! Mirrors on simulated disks.
