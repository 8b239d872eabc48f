//! Numbers for byte strings: the same bytes always get the same number, which counts from 0.
//!
//! Writers name the same series again and again; finding the number of a name that is known costs one hash and one
//! comparison. The hash has a seed of its own in each table, so that nobody can choose names that collide.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use twox_hash::XxHash3_64;

/// What an entry takes beside the bytes of its name.
const ENTRY_BYTES: usize = 48;

pub struct Interner {
    numbers: HashMap<Arc<[u8]>, u32, Seeded>,
    bytes: usize,
}

impl Interner {
    pub fn new() -> Self {
        let seed = RandomState::new().hash_one(0u8);
        Self { numbers: HashMap::with_hasher(Seeded(seed)), bytes: 0 }
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Lets a name that is not known yet stand for `number`; returns the name, which the table keeps.
    pub fn insert(&mut self, name: &[u8], number: u32) -> Arc<[u8]> {
        self.bytes += name.len() + ENTRY_BYTES;
        let kept: Arc<[u8]> = name.into();
        self.numbers.insert(Arc::clone(&kept), number);
        kept
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// About what the table takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = OneShot;

    fn build_hasher(&self) -> OneShot {
        OneShot(self.0)
    }
}

/// Hashes one slice of bytes; the length that the standard library adds to it changes nothing.
struct OneShot(u64);

impl Hasher for OneShot {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = XxHash3_64::oneshot_with_seed(self.0, bytes);
    }

    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
