//! Snappy blocks unpacked one after the other, into memory that a thread keeps for the next one.

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

/// Calls a function with what each body unpacks to, one after the other, while that is in the caches of the processor.
/// None once one does not unpack or the function says so; all of them unpack to `bytes_max` at most.
pub fn each(
    bodies: &[PyBackedBytes],
    bytes_max: usize,
    mut function: impl FnMut(&[u8]) -> Option<()>,
) -> Option<()> {
    let blocks = bodies.iter().map(|body| read_block(body)).collect::<Option<Vec<_>>>()?;
    if blocks.iter().map(|(length, _)| length).sum::<usize>() > bytes_max {
        return None;
    }
    SPACE.with_borrow_mut(|space| {
        let done = blocks.iter().try_for_each(|&(length, packed)| {
            if space.len() < length + SLACK {
                space.resize(length + SLACK, 0);
            }
            unpack(packed, space, length)?;
            let message = &space[..length];
            let is_other = message.first().is_some_and(|first| FIRST_BYTES_OF_OTHER.contains(first));
            if is_other { None } else { function(message) }
        });
        if space.capacity() > KEPT_BYTES_MAX {
            *space = Vec::new();
        }
        done
    })
}

/// What a block says of its length, if that can be, and what follows.
fn read_block(body: &[u8]) -> Option<(usize, &[u8])> {
    read_length(body).filter(|&(length, _)| length <= body.len().saturating_mul(RATIO_MAX))
}
