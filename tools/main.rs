//! The tools that look at a data directory from outside.

fn main() {}
