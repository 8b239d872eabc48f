//! A stored native histogram back into the message `Histogram` that it came from.
//!
//! The stored form is described in `remote_write/histogram.rs`. What is left out of the message is what a reader takes
//! for granted: zeros, and lists without elements.

use crate::wire::protobuf::{Malformed, malformed, put_bytes, put_varint};

const FORM: u8 = 1;
const FLOATS: u8 = 1;

/// Writes the message for a histogram and its time; what is no histogram is refused.
pub fn put_histogram(stored: &[u8], time: i64, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut reader = Reader(stored);
    let [form, flags, reset_hint, _] = reader.take()?;
    if form != FORM || flags > FLOATS {
        return malformed(format!("it begins with {form} and {flags}, which no native histogram does"));
    }
    let is_float = flags == FLOATS;
    let schema = i32::from_le_bytes(reader.take()?);
    let (zero_threshold, sum) = (reader.word()?, reader.word()?);
    let (count, zero_count) = (reader.word()?, reader.word()?);
    put_count(1, is_float, count, out);
    put_double(3, sum, out);
    put_number(4, zigzag(i64::from(schema)), out);
    put_double(5, zero_threshold, out);
    put_count(6, is_float, zero_count, out);
    let mut positive = Vec::new();
    put_side(11, is_float, &mut reader, &mut positive)?;
    put_side(8, is_float, &mut reader, out)?;
    out.append(&mut positive);
    put_number(14, u64::from(reset_hint), out);
    put_number(15, time as u64, out);
    let bounds = reader.words()?;
    put_list(16, bounds, out);
    if reader.0.is_empty() { Ok(()) } else { malformed("bytes follow the end of a native histogram") }
}

/// The spans and the buckets of one side, from a number on.
fn put_side(
    number: u32,
    is_float: bool,
    reader: &mut Reader<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let mut span = Vec::new();
    for _ in 0..reader.length()? {
        let (offset, length) = (i32::from_le_bytes(reader.take()?), u32::from_le_bytes(reader.take()?));
        span.clear();
        put_number(1, zigzag(i64::from(offset)), &mut span);
        put_number(2, u64::from(length), &mut span);
        put_bytes(number, &span, out);
    }
    let buckets = reader.words()?;
    if is_float {
        put_list(number + 2, buckets, out);
    } else if !buckets.is_empty() {
        let mut packed = Vec::with_capacity(2 * buckets.len() / 8);
        for delta in buckets.chunks_exact(8) {
            put_varint(zigzag(i64::from_le_bytes(delta.try_into().expect("chunks of eight"))), &mut packed);
        }
        put_bytes(number + 1, &packed, out);
    }
    Ok(())
}

/// A count, which is one of two fields and so there even if it is zero.
fn put_count(number: u32, is_float: bool, bits: u64, out: &mut Vec<u8>) {
    if is_float {
        put_varint(u64::from(number + 1) << 3 | 1, out);
        out.extend_from_slice(&bits.to_le_bytes());
    } else {
        put_varint(u64::from(number) << 3, out);
        put_varint(bits, out);
    }
}

fn put_double(number: u32, bits: u64, out: &mut Vec<u8>) {
    if bits != 0 {
        put_varint(u64::from(number) << 3 | 1, out);
        out.extend_from_slice(&bits.to_le_bytes());
    }
}

fn put_number(number: u32, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        put_varint(u64::from(number) << 3, out);
        put_varint(value, out);
    }
}

/// Doubles, of which the stored form is that of the message.
fn put_list(number: u32, doubles: &[u8], out: &mut Vec<u8>) {
    if !doubles.is_empty() {
        put_bytes(number, doubles, out);
    }
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let Some((head, rest)) = self.0.split_at_checked(length) else {
            return malformed("a native histogram is cut off");
        };
        self.0 = rest;
        Ok(head)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.bytes(N)?.try_into().expect("as long as asked for"))
    }

    fn word(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        Ok(u32::from_le_bytes(self.take()?) as usize)
    }

    /// A list of eight bytes each, behind its length.
    fn words(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        self.bytes(length.saturating_mul(8))
    }
}
