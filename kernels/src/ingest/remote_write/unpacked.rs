//! Snappy blocks unpacked, into memory that a thread keeps for the next request, and read.
//!
//! Where there are several and cores are there, a second thread takes half of them: to unpack and to read is a third of what
//! a group of requests takes.

use std::cell::RefCell;

use pyo3::pybacked::PyBackedBytes;

use crate::ingest::remote_write::request::Columns;
use crate::ingest::remote_write::snappy::{SLACK, read_length, unpack};
use crate::workers::workers;

/// A thread keeps up to so many bytes.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// A snappy block becomes at most about 21 times as long: 64 bytes for each copy of three.
const RATIO_MAX: usize = 32;
/// Fewer bytes are read in less time than a thread takes to begin.
const SHARED_BYTES_MIN: usize = 256 << 10;
/// The first bytes that messages of version 2 have, which version 1 would read as nothing at all.
const FIRST_BYTES_OF_OTHER: [u8; 2] = [0x22, 0x2a];

thread_local! {
    static SPACE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Block<'a> {
    /// How long it is unpacked.
    length: usize,
    packed: &'a [u8],
}

/// Calls a function with what bodies have and the space that they are unpacked in; None if they do not unpack, cannot be
/// read, or become more than `bytes_max`.
pub fn with<R>(
    bodies: &[PyBackedBytes],
    bytes_max: usize,
    read: impl Fn(&[u8]) -> Option<Columns> + Sync,
    function: impl FnOnce(Columns, &[u8]) -> Option<R>,
) -> Option<R> {
    let blocks = bodies.iter().map(|body| read_block(body)).collect::<Option<Vec<_>>>()?;
    if blocks.iter().map(|block| block.length).sum::<usize>() > bytes_max {
        return None;
    }
    SPACE.with_borrow_mut(|space| {
        let total = space_of(&blocks);
        if space.len() < total {
            space.resize(total, 0);
        }
        let columns = read_shared(&blocks, &mut space[..total], &read)?;
        let result = function(columns, space);
        if space.capacity() > KEPT_BYTES_MAX {
            *space = Vec::new();
        }
        result
    })
}

fn space_of(blocks: &[Block]) -> usize {
    blocks.iter().map(|block| block.length + SLACK).sum()
}

/// Unpacks and reads blocks, with a second thread if that is worth it.
fn read_shared(
    blocks: &[Block],
    space: &mut [u8],
    read: &(impl Fn(&[u8]) -> Option<Columns> + Sync),
) -> Option<Columns> {
    if blocks.len() < 2 || space.len() < SHARED_BYTES_MIN || workers(2) < 2 {
        return read_all(blocks, space, 0, read);
    }
    let (own, others) = blocks.split_at(blocks.len().div_ceil(2));
    let (left, right) = space.split_at_mut(space_of(own));
    let start = left.len();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| read_all(others, right, start, read));
        let columns = read_all(own, left, 0, read);
        let rest = other.join().ok().flatten();
        let mut columns = columns?;
        columns.append(rest?, 0);
        Some(columns)
    })
}

/// Unpacks and reads blocks one after the other, in a part of the space that begins at `start`.
fn read_all(
    blocks: &[Block],
    space: &mut [u8],
    start: usize,
    read: &impl Fn(&[u8]) -> Option<Columns>,
) -> Option<Columns> {
    let mut all = Columns::default();
    let mut at = 0;
    for block in blocks {
        unpack(block.packed, &mut space[at..], block.length)?;
        let message = &space[at..at + block.length];
        if message.first().is_some_and(|first| FIRST_BYTES_OF_OTHER.contains(first)) {
            return None;
        }
        all.append(read(message)?, start + at);
        at += block.length + SLACK;
    }
    Some(all)
}

/// What a block says of its length, if that can be, and what follows.
fn read_block(body: &[u8]) -> Option<Block<'_>> {
    let (length, packed) = read_length(body)?;
    (length <= body.len().saturating_mul(RATIO_MAX)).then_some(Block { length, packed })
}
