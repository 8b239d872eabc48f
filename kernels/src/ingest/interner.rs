//! Numbers for byte strings: the same bytes always get the same number, which counts from 0.
//!
//! Writers name the same series again and again; finding the number of a name that is known costs one hash and one
//! comparison. The hash has a seed of its own in each table, so that nobody can choose names that collide.
//!
//! Names lie one behind the other in the order of their numbers: who compares them in that order, as senders repeat
//! theirs, reads on where the processor has already loaded.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use twox_hash::XxHash3_64;

/// What an entry takes beside the bytes of its name.
const ENTRY_BYTES: usize = size_of::<Place>() + 8;
/// Names are kept in pieces of so many bytes, a longer one in its own.
const PIECE_BYTES: usize = 1 << 18;

/// Where a name is.
struct Place {
    piece: u32,
    start: u32,
    length: u32,
}

pub struct Interner {
    numbers: HashTable<u32>,
    names: Names,
    seed: u64,
}

impl Interner {
    pub fn new() -> Self {
        let seed = RandomState::new().hash_one(0u8);
        Self { numbers: HashTable::new(), names: Names::default(), seed }
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.numbers.find(self.hash(name), |&number| self.names.is(number, name)).copied()
    }

    /// The next number, for a name that is not known yet.
    pub fn insert(&mut self, name: &[u8]) -> u32 {
        let number = self.names.push(name);
        let (seed, names) = (self.seed, &self.names);
        let hash =
            |&number: &u32| names.get(number).map_or(0, |name| XxHash3_64::oneshot_with_seed(seed, name));
        self.numbers.insert_unique(hash(&number), number, hash);
        number
    }

    /// The name that has a number.
    #[inline]
    pub fn name(&self, number: u32) -> Option<&[u8]> {
        self.names.get(number)
    }

    pub fn len(&self) -> usize {
        self.names.places.len()
    }

    /// About what the table takes.
    pub fn bytes(&self) -> usize {
        self.names.bytes + self.len() * ENTRY_BYTES
    }

    fn hash(&self, name: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_seed(self.seed, name)
    }
}

#[derive(Default)]
struct Names {
    pieces: Vec<Vec<u8>>,
    places: Vec<Place>,
    /// What the pieces take.
    bytes: usize,
}

impl Names {
    #[inline]
    fn get(&self, number: u32) -> Option<&[u8]> {
        let place = self.places.get(number as usize)?;
        self.pieces[place.piece as usize].get(place.start as usize..)?.get(..place.length as usize)
    }

    fn is(&self, number: u32, name: &[u8]) -> bool {
        self.get(number) == Some(name)
    }

    fn push(&mut self, name: &[u8]) -> u32 {
        let has_room = |piece: &&mut Vec<u8>| piece.capacity() - piece.len() >= name.len();
        if self.pieces.last_mut().filter(has_room).is_none() {
            let piece = Vec::with_capacity(PIECE_BYTES.max(name.len()));
            self.bytes += piece.capacity();
            self.pieces.push(piece);
        }
        let number = self.places.len() as u32;
        let at = self.pieces.len() - 1;
        let piece = &mut self.pieces[at];
        self.places.push(Place { piece: at as u32, start: piece.len() as u32, length: name.len() as u32 });
        piece.extend_from_slice(name);
        number
    }
}
