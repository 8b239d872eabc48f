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
        let size = usize::from(tag >> 2);
        let (count, offset) = match tag & 3 {
            0 => {
                let (start, count) = literal(packed, from, size)?;
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
            1 => {
                let low = usize::from(*packed.get(from)?);
                from += 1;
                (4 + (size & 7), (size >> 3) << 8 | low)
            }
            2 => {
                let offset = u16::from_le_bytes(*packed.get(from..)?.first_chunk()?);
                from += 2;
                (1 + size, offset.into())
            }
            _ => {
                let offset = u32::from_le_bytes(*packed.get(from..)?.first_chunk()?);
                from += 4;
                (1 + size, offset as usize)
            }
        };
        if offset == 0 || offset > at || count > length - at {
            return None;
        }
        copy_back(space, at, offset, count);
        at += count;
    }
    (at == length).then_some(())
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
