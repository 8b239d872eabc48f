//! Values and levels of one page, by encoding.

use super::{Fault, damaged};

const PLAIN: u32 = 0;
const PLAIN_DICTIONARY: u32 = 2;
const DELTA_BINARY_PACKED: u32 = 5;
const RLE_DICTIONARY: u32 = 8;
const BYTE_STREAM_SPLIT: u32 = 9;
/// Bytes that a word of any width may be read from, whatever bit it begins at.
const SPARE_BYTES: usize = 9;

/// A value of 4 or 8 bytes.
pub trait Word: Copy + Default {
    const BYTES: usize;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

impl Word for i32 {
    const BYTES: usize = 4;
    fn of(bits: u64) -> Self {
        bits as u32 as i32
    }
    fn bits(self) -> u64 {
        u64::from(self as u32)
    }
}

impl Word for i64 {
    const BYTES: usize = 8;
    fn of(bits: u64) -> Self {
        bits as i64
    }
    fn bits(self) -> u64 {
        self as u64
    }
}

/// Appends the values of a page that are there.
pub fn decode_values<N: Word>(
    bytes: &[u8],
    encoding: u32,
    dictionary: Option<&[N]>,
    count: usize,
    values: &mut Vec<N>,
) -> Result<(), Fault> {
    match encoding {
        PLAIN => match count.checked_mul(N::BYTES).and_then(|length| bytes.get(..length)) {
            Some(bytes) => {
                values.extend(bytes.chunks_exact(N::BYTES).map(word::<N>));
                Ok(())
            }
            None => damaged("a page is shorter than its values"),
        },
        DELTA_BINARY_PACKED => decode_steps(bytes, count, values),
        BYTE_STREAM_SPLIT => decode_split(bytes, count, values),
        PLAIN_DICTIONARY | RLE_DICTIONARY => match dictionary {
            Some(dictionary) => decode_codes(bytes, dictionary, count, values),
            None => damaged("a page has codes, and its column no dictionary"),
        },
        other => Err(Fault::Foreign(format!("the encoding {other} is not read here"))),
    }
}

/// Reads words that lie one behind the other.
pub fn words<N: Word>(bytes: &[u8]) -> Result<Vec<N>, Fault> {
    if !bytes.len().is_multiple_of(N::BYTES) {
        return damaged("a dictionary does not end with a value");
    }
    Ok(bytes.chunks_exact(N::BYTES).map(word::<N>).collect())
}

fn word<N: Word>(bytes: &[u8]) -> N {
    let mut whole = [0; 8];
    whole[..N::BYTES].copy_from_slice(bytes);
    N::of(u64::from_le_bytes(whole))
}

/// Reads which of the rows of a page have a value; None when all have one. `bytes` go on to the values.
pub fn decode_levels(bytes: &mut &[u8], count: usize) -> Result<Option<Vec<bool>>, Fault> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return damaged("a page has no levels") };
    let length = u32::from_le_bytes(*length) as usize;
    if length > rest.len() {
        return damaged("the levels of a page reach beyond it");
    }
    let (mut levels, rest) = rest.split_at(length);
    *bytes = rest;
    let mut found: Vec<bool> = Vec::new();
    let mut done = 0;
    while done < count {
        let (run, repeated) = next_run(&mut levels, 1, count - done)?;
        match run {
            Run::Repeated(1) if done == 0 && repeated == count => return Ok(None),
            Run::Repeated(level) => found.resize(done + repeated, level == 1),
            Run::Packed(packed) => {
                found.extend((0..repeated).map(|at| packed[at / 8] >> (at % 8) & 1 == 1));
            }
        }
        done += repeated;
    }
    Ok(if found.iter().all(|&valid| valid) { None } else { Some(found) })
}

enum Run<'a> {
    Repeated(u64),
    Packed(&'a [u8]),
}

/// Reads a run of the hybrid of repeated and packed numbers, of at most `count` of them.
fn next_run<'a>(bytes: &mut &'a [u8], width: usize, count: usize) -> Result<(Run<'a>, usize), Fault> {
    let header = varint(bytes)?;
    let length = usize::try_from(header >> 1).unwrap_or(usize::MAX);
    if header & 1 == 0 {
        let value_bytes = width.div_ceil(8);
        let Some((value, rest)) = bytes.split_at_checked(value_bytes) else {
            return damaged("a run is cut off");
        };
        let mut whole = [0; 8];
        whole[..value_bytes].copy_from_slice(value);
        *bytes = rest;
        if length == 0 {
            return damaged("a run has no values");
        }
        return Ok((Run::Repeated(u64::from_le_bytes(whole)), length.min(count)));
    }
    // The last group may be cut off where its values end.
    let taken = length.saturating_mul(8).min(count);
    let (needed, packed) = ((taken * width).div_ceil(8), length.saturating_mul(width));
    if taken == 0 || bytes.len() < needed {
        return damaged("a run is cut off");
    }
    let (own, rest) = bytes.split_at(packed.min(bytes.len()));
    *bytes = rest;
    Ok((Run::Packed(own), taken))
}

fn decode_codes<N: Word>(
    bytes: &[u8],
    dictionary: &[N],
    count: usize,
    values: &mut Vec<N>,
) -> Result<(), Fault> {
    let Some((&width, mut rest)) = bytes.split_first() else {
        return if count == 0 { Ok(()) } else { damaged("a page has no codes") };
    };
    let width = usize::from(width);
    if width > 32 {
        return damaged(format!("codes have {width} bits"));
    }
    let mut left = count;
    while left > 0 {
        let (run, length) =
            if width == 0 { (Run::Repeated(0), left) } else { next_run(&mut rest, width, left)? };
        match run {
            Run::Repeated(code) => {
                let Some(&value) = usize::try_from(code).ok().and_then(|code| dictionary.get(code)) else {
                    return damaged("a code is beyond the dictionary");
                };
                values.resize(values.len() + length, value);
            }
            Run::Packed(packed) => {
                let mut is_known = true;
                each_packed(packed, width, length, |code| {
                    let value = dictionary.get(code as usize).copied();
                    is_known &= value.is_some();
                    values.push(value.unwrap_or_default());
                });
                if !is_known {
                    return damaged("a code is beyond the dictionary");
                }
            }
        }
        left -= length;
    }
    Ok(())
}

/// Hands over numbers of some bits each; there must be bytes enough.
fn each_packed(bytes: &[u8], width: usize, count: usize, mut take: impl FnMut(u64)) {
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    // All but the last few can be read a whole word at a time.
    let mut padded = [0u8; 2 * SPARE_BYTES];
    let safe = bytes.len().saturating_sub(SPARE_BYTES - 1);
    let tail_from = bytes.len().saturating_sub(SPARE_BYTES);
    let tail = &bytes[tail_from..];
    padded[..tail.len()].copy_from_slice(tail);
    for at in 0..count {
        let bit = at * width;
        let (byte, shift) = (bit / 8, bit % 8);
        let from = if byte < safe {
            &bytes[byte..byte + SPARE_BYTES]
        } else {
            &padded[byte - tail_from..][..SPARE_BYTES]
        };
        let low =
            u64::from_le_bytes([from[0], from[1], from[2], from[3], from[4], from[5], from[6], from[7]]);
        let high = u64::from(from[8]) << 1 << (63 - shift);
        take((low >> shift | high) & mask);
    }
}

fn decode_split<N: Word>(bytes: &[u8], count: usize, values: &mut Vec<N>) -> Result<(), Fault> {
    if Some(bytes.len()) != count.checked_mul(N::BYTES) {
        return damaged("a page is shorter than its values");
    }
    let start = values.len();
    values.resize(start + count, N::default());
    for (at, stream) in bytes.chunks_exact(count.max(1)).enumerate() {
        for (value, &byte) in values[start..].iter_mut().zip(stream) {
            *value = N::of(value.bits() | u64::from(byte) << (8 * at));
        }
    }
    Ok(())
}

/// The first value, then blocks of steps: the least of a block, and what each is more than that, packed in groups.
fn decode_steps<N: Word>(bytes: &[u8], count: usize, values: &mut Vec<N>) -> Result<(), Fault> {
    if count == 0 {
        return Ok(());
    }
    let mut rest = bytes;
    let (block, groups, total) = (varint(&mut rest)?, varint(&mut rest)?, varint(&mut rest)?);
    let first = unzigzag(varint(&mut rest)?);
    if total != count as u64 {
        return damaged(format!("a page has {total} values, expected {count}"));
    }
    if groups == 0
        || !block.is_multiple_of(groups)
        || block > 1 << 20
        || !(block / groups).is_multiple_of(8)
        || block / groups == 0
    {
        return damaged(format!("a page has blocks of {block} steps in {groups} groups"));
    }
    let (groups, group_steps) = (groups as usize, (block / groups) as usize);
    let mut value = first;
    values.push(N::of(value));
    let mut left = count - 1;
    while left > 0 {
        let least = unzigzag(varint(&mut rest)?);
        let Some((widths, own)) = rest.split_at_checked(groups) else { return damaged("a page is cut off") };
        rest = own;
        for &width in widths {
            if left == 0 {
                break;
            }
            let width = usize::from(width);
            if width > 64 {
                return damaged(format!("steps have {width} bits"));
            }
            let taken = left.min(group_steps);
            let packed_bytes = group_steps / 8 * width;
            // The last group may be cut off where its steps end.
            if rest.len() < (taken * width).div_ceil(8) {
                return damaged("a page is cut off");
            }
            let (packed, own) = rest.split_at(packed_bytes.min(rest.len()));
            value = add_steps(packed, rest, width, taken, least, value, values);
            rest = own;
            left -= taken;
        }
    }
    Ok(())
}

/// Appends the values that steps lead to; `beyond` are the bytes of the steps and what follows them.
fn add_steps<N: Word>(
    packed: &[u8],
    beyond: &[u8],
    width: usize,
    count: usize,
    least: u64,
    from: u64,
    values: &mut Vec<N>,
) -> u64 {
    let mut value = from;
    let start = values.len();
    values.resize(start + count, N::default());
    let places = values[start..].iter_mut();
    if width == 0 {
        for place in places {
            value = value.wrapping_add(least);
            *place = N::of(value);
        }
    } else if width <= 8 && count.is_multiple_of(8) && packed.len() >= count / 8 * width {
        let places = &mut values[start..];
        value = match width {
            1 => add_eights::<N, 1>(packed, least, value, places),
            2 => add_eights::<N, 2>(packed, least, value, places),
            3 => add_eights::<N, 3>(packed, least, value, places),
            4 => add_eights::<N, 4>(packed, least, value, places),
            5 => add_eights::<N, 5>(packed, least, value, places),
            6 => add_eights::<N, 6>(packed, least, value, places),
            7 => add_eights::<N, 7>(packed, least, value, places),
            _ => add_eights::<N, 8>(packed, least, value, places),
        };
    } else if width <= 56 && beyond.len() >= (count * width) / 8 + 8 {
        let mask = (1u64 << width) - 1;
        for (at, place) in places.enumerate() {
            let bit = at * width;
            let eight = beyond[bit / 8..].first_chunk::<8>().copied().unwrap_or_default();
            let step = (u64::from_le_bytes(eight) >> (bit % 8)) & mask;
            value = value.wrapping_add(least).wrapping_add(step);
            *place = N::of(value);
        }
    } else {
        let mut places = places;
        each_packed(packed, width, count, |step| {
            value = value.wrapping_add(least).wrapping_add(step);
            if let Some(place) = places.next() {
                *place = N::of(value);
            }
        });
    }
    value
}

/// The same for steps of up to 8 bits, of which eight are as many bytes as one has bits.
fn add_eights<N: Word, const WIDTH: usize>(packed: &[u8], least: u64, from: u64, places: &mut [N]) -> u64 {
    let mut value = from;
    let (eights, _) = packed.as_chunks::<WIDTH>();
    let (groups, _) = places.as_chunks_mut::<8>();
    for (eight, group) in eights.iter().zip(groups) {
        let mut whole = [0; 8];
        whole[..WIDTH].copy_from_slice(eight);
        let bits = u64::from_le_bytes(whole);
        for (at, place) in group.iter_mut().enumerate() {
            let step = bits >> (at * WIDTH) & ((1 << WIDTH) - 1);
            value = value.wrapping_add(least).wrapping_add(step);
            *place = N::of(value);
        }
    }
    value
}

fn unzigzag(raw: u64) -> u64 {
    (raw >> 1) ^ (raw & 1).wrapping_neg()
}

/// Reads a number of seven bits a byte.
pub fn varint(bytes: &mut &[u8]) -> Result<u64, Fault> {
    let mut found = 0u64;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else { return damaged("a number is cut off") };
        *bytes = rest;
        found |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(found);
        }
    }
    damaged("a number has more than 64 bits")
}
