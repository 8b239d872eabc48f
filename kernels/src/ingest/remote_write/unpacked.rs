//! Snappy blocks unpacked one behind the other, into memory that a thread keeps for the next request.

use std::cell::RefCell;

use pyo3::pybacked::PyBackedBytes;

use crate::ingest::remote_write::snappy::{SLACK, read_length, unpack};

/// A thread keeps up to so many bytes.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// A snappy block becomes at most about 21 times as long: 64 bytes for each copy of three.
const RATIO_MAX: usize = 32;
/// The first bytes that messages of version 2 have, which version 1 would read as nothing at all.
const FIRST_BYTES_OF_OTHER: [u8; 2] = [0x22, 0x2a];

thread_local! {
    static SPACE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function with what the bodies unpack to; None if they do not, or to more than `bytes_max`.
pub fn with<R>(
    bodies: &[PyBackedBytes],
    bytes_max: usize,
    function: impl FnOnce(&[u8]) -> Option<R>,
) -> Option<R> {
    SPACE.with_borrow_mut(|space| {
        let length = fill(bodies, bytes_max, space)?;
        let result = function(&space[..length]);
        if space.capacity() > KEPT_BYTES_MAX {
            *space = Vec::new();
        }
        result
    })
}

/// Fills the space; how much of it.
fn fill(bodies: &[PyBackedBytes], bytes_max: usize, space: &mut Vec<u8>) -> Option<usize> {
    let blocks = bodies.iter().map(|body| read_block(body)).collect::<Option<Vec<_>>>()?;
    let total = blocks.iter().map(|(length, _)| length).sum::<usize>();
    if total > bytes_max {
        return None;
    }
    if space.len() < total + SLACK {
        space.resize(total + SLACK, 0);
    }
    let mut start = 0;
    for (length, packed) in blocks {
        unpack(packed, &mut space[start..], length)?;
        if length > 0 && FIRST_BYTES_OF_OTHER.contains(&space[start]) {
            return None;
        }
        start += length;
    }
    Some(total)
}

/// What a block says of its length, if that can be, and what follows.
fn read_block(body: &[u8]) -> Option<(usize, &[u8])> {
    read_length(body).filter(|&(length, _)| length <= body.len().saturating_mul(RATIO_MAX))
}
