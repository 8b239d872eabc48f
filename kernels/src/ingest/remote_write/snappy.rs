//! Snappy blocks: their length in front, then literals and copies of what came before.
//!
//! Labels repeat, so nearly all of a request is copies. They are made in steps of 16 or 64 bytes, past the end of what
//! is copied if need be: the space goes on behind the block by `SLACK`, and what is written too much is written over.

use crate::wire::protobuf::read_varint;

/// What one copy repeats at most.
const COPY_MAX: usize = 64;
/// So many bytes of the space behind a block are written to as well.
pub const SLACK: usize = COPY_MAX;

const LENGTH_BYTES_MAX: usize = 5;

/// How long a block is unpacked, and what follows; None if it does not begin with a length.
pub fn read_length(block: &[u8]) -> Option<(usize, &[u8])> {
    let (length, at) = read_varint(block).ok().filter(|&(_, at)| at <= LENGTH_BYTES_MAX)?;
    Some((u32::try_from(length).ok()? as usize, &block[at..]))
}

/// Unpacks what follows the length of a block into the first `length` bytes of a space; None if it is malformed.
pub fn unpack(packed: &[u8], space: &mut [u8], length: usize) -> Option<()> {
    assert!(space.len() >= length + SLACK, "the space has no slack");
    let (mut from, mut at) = (0, 0);
    while let Some(&tag) = packed.get(from) {
        from += 1;
        if tag & 3 == 0 {
            let (start, count) = literal(packed, from, usize::from(tag >> 2))?;
            if count > length - at {
                return None;
            }
            match packed.get(start..start + 16) {
                Some(bytes) if count <= 16 => space[at..at + 16].copy_from_slice(bytes),
                _ => space[at..at + count].copy_from_slice(packed.get(start..start.checked_add(count)?)?),
            }
            (from, at) = (start + count, at + count);
            continue;
        }
        let (count, offset, used) = copy(tag, &packed[from..])?;
        if offset == 0 || offset > at || count > length - at {
            return None;
        }
        copy_back(space, at, offset, count);
        (from, at) = (from + used, at + count);
    }
    (at == length).then_some(())
}

/// How many bytes a copy repeats, how far back they begin, and how many bytes behind the tag say so.
#[inline(always)]
fn copy(tag: u8, rest: &[u8]) -> Option<(usize, usize, usize)> {
    let size = usize::from(tag >> 2);
    let is_short = tag & 3 == 1;
    match rest.first_chunk() {
        Some(&pair) if tag & 3 != 3 => {
            let pair = usize::from(u16::from_le_bytes(pair));
            // Which of the two comes cannot be foreseen: both are worked out and one is chosen, without a branch.
            let count = if is_short { 4 + (size & 7) } else { 1 + size };
            let offset = if is_short { (size >> 3) << 8 | pair & 0xff } else { pair };
            Some((count, offset, 2 - usize::from(is_short)))
        }
        _ if is_short => Some((4 + (size & 7), (size >> 3) << 8 | usize::from(*rest.first()?), 1)),
        _ => Some((1 + size, u32::from_le_bytes(*rest.first_chunk()?) as usize, 4)),
    }
}

/// Where the bytes of a literal begin and how many they are.
#[inline]
fn literal(packed: &[u8], from: usize, size: usize) -> Option<(usize, usize)> {
    if size < 60 {
        return Some((from, size + 1));
    }
    let bytes = size - 59;
    let mut word = [0; 4];
    word[..bytes].copy_from_slice(packed.get(from..from + bytes)?);
    Some((from + bytes, u32::from_le_bytes(word) as usize + 1))
}

/// Repeats up to 64 bytes that begin `offset` before a place.
#[inline]
fn copy_back(space: &mut [u8], at: usize, offset: usize, count: usize) {
    let from = at - offset;
    if offset >= COPY_MAX {
        // However many it is: that takes less than to look how many.
        let (before, behind) = space.split_at_mut(at);
        if let (Some(source), Some(target)) =
            (before[from..].first_chunk::<COPY_MAX>(), behind.first_chunk_mut::<COPY_MAX>())
        {
            *target = *source;
        }
    } else if offset >= 16 {
        // What a step reads is written already.
        for step in (0..count).step_by(16) {
            space.copy_within(from + step..from + step + 16, at + step);
        }
    } else {
        for step in 0..count {
            space[at + step] = space[from + step];
        }
    }
}
