//! Messages of Protocol Buffers, field by field, over bytes that are not copied.
//!
//! [`Fields`] walks one message and yields the number and the value of each field as it stands on the wire. Every
//! length is checked against what is left, so a reader never leaves its message; groups, which nobody sends any
//! more, are refused. [`put_varint`], [`put_bytes`] and their like write.

use std::fmt;

use pyo3::PyErr;

use crate::errors::MalformedInput;

/// A field as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// What is wrong with a message.
#[derive(Debug, PartialEq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<Malformed> for PyErr {
    fn from(error: Malformed) -> Self {
        MalformedInput::new_err(error.0)
    }
}

pub fn malformed<T>(text: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(text.into()))
}

impl<'a> Value<'a> {
    pub fn bytes(self, what: &str) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => malformed(format!("{what} is not a string or message")),
        }
    }

    pub fn varint(self, what: &str) -> Result<u64, Malformed> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => malformed(format!("{what} is not an integer")),
        }
    }

    pub fn double(self, what: &str) -> Result<f64, Malformed> {
        match self {
            Self::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => malformed(format!("{what} is not a double")),
        }
    }
}

/// The fields of one message, in their order.
#[derive(Clone)]
pub struct Fields<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Self {
        Self { message, at: 0 }
    }

    /// Those from a position on, where one begins.
    pub fn at(message: &'a [u8], at: usize) -> Self {
        Self { message, at }
    }

    /// Where the next field begins.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The next field, `None` behind the last one.
    #[inline]
    pub fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.at == self.message.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let Ok(number) = u32::try_from(key >> 3) else {
            return malformed("the number of a field is out of range");
        };
        if number == 0 {
            return malformed("a field has the number 0");
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.array()?)),
            kind => return malformed(format!("field {number} has the wire type {kind}")),
        };
        Ok(Some((number, value)))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let (number, length) = read_varint(&self.message[self.at..])?;
        self.at += length;
        Ok(number)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.take(N as u64)?;
        Ok(bytes.try_into().expect("as long as asked for"))
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let left = self.message.len() - self.at;
        if length > left as u64 {
            return malformed(format!("a field of {length} bytes stands where {left} are left"));
        }
        let start = self.at;
        self.at += length as usize;
        Ok(&self.message[start..self.at])
    }
}

/// A varint at the start of some bytes, and how many it takes.
#[inline]
pub fn read_varint(bytes: &[u8]) -> Result<(u64, usize), Malformed> {
    if let Some(&byte @ 0..0x80) = bytes.first() {
        return Ok((byte.into(), 1));
    }
    if let Some(word) = bytes.first_chunk::<8>()
        && let Some(found) = read_short_varint(u64::from_le_bytes(*word))
    {
        return Ok(found);
    }
    read_any_varint(bytes)
}

/// A varint of up to eight bytes, all of them at once, and how many it takes.
#[inline(always)]
pub fn read_short_varint(word: u64) -> Option<(u64, usize)> {
    let last = (!word & 0x8080_8080_8080_8080).trailing_zeros();
    if last == u64::BITS {
        return None;
    }
    // Seven bits of each byte up to the last one, then pairs of these put together, pairs of pairs, and so on.
    let sevens = word & (u64::MAX >> (63 - last)) & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = (sevens & 0x007f_007f_007f_007f) | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    let number = (fours & 0x0000_0000_0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4;
    Some((number, last as usize / 8 + 1))
}

fn read_any_varint(bytes: &[u8]) -> Result<(u64, usize), Malformed> {
    let mut number = 0u64;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        if at == 9 && byte > 1 {
            return malformed("an integer has more than 64 bits");
        }
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok((number, at + 1));
        }
    }
    malformed(if bytes.len() < 10 { "an integer is cut off" } else { "an integer has more than 64 bits" })
}

/// The elements of a repeated field of varints, which come one by one or packed.
pub fn each_varint(value: Value<'_>, what: &str, mut take: impl FnMut(u64)) -> Result<(), Malformed> {
    match value {
        Value::Varint(number) => take(number),
        Value::Bytes(mut packed) => {
            while !packed.is_empty() {
                let (number, length) = read_varint(packed)?;
                take(number);
                packed = &packed[length..];
            }
        }
        _ => return malformed(format!("{what} is not an integer")),
    }
    Ok(())
}

/// The elements of a repeated field of doubles, which come one by one or packed.
pub fn each_double(value: Value<'_>, what: &str, mut take: impl FnMut(f64)) -> Result<(), Malformed> {
    match value {
        Value::Fixed64(bits) => take(f64::from_bits(bits)),
        Value::Bytes(packed) if packed.len().is_multiple_of(8) => {
            for bits in packed.chunks_exact(8) {
                take(f64::from_le_bytes(bits.try_into().expect("chunks of eight")));
            }
        }
        _ => return malformed(format!("{what} is not a list of doubles")),
    }
    Ok(())
}

/// A signed integer that was written by the rule of `sint32` and `sint64`.
pub fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

pub fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A field of bytes: its key, its length, its content.
pub fn put_bytes(number: u32, content: &[u8], out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | 2, out);
    put_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// How many bytes a varint takes.
pub fn varint_length(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}
