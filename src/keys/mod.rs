//! Floor 1: the key ring: the master keys under which the keys of encrypted objects are wrapped,
//! and the text of their file.
//!
//! A master key encrypts no object. The record of an object has the object's own key, wrapped under
//! a master key that it names by its id, so that a key is exchanged without a byte of the payload.

mod ring;
mod shared;
mod text;

pub use ring::{KeyRing, KeyRingError, RingKey, UnusableKey};
pub use shared::SharedKeyRing;
pub use text::{
    KeyTextError, RingComparison, compared, first_file, with_confirmed_copy, with_former_key, with_new_key,
    with_retired_key, without_key,
};
