//! Thrift's compact protocol, as far as Parquet's headers and footers need it.
//!
//! A structure is its fields in ascending order, each with a byte of how far its number is from the last one's and of its
//! type, and a zero at its end. Numbers are zigzag varints. The reader trusts nothing: every length is checked.

use crate::parquet::read::{Fault, damaged, varint};

pub const TRUE: u8 = 1;
pub const I16: u8 = 4;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;
/// Deeper structures than Parquet ever has.
const DEPTH_MAX: usize = 16;

pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// Where the next byte is.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The bytes between two places.
    pub fn between(&self, from: usize, to: usize) -> &'a [u8] {
        &self.bytes[from..to]
    }

    /// Returns the type of the next field of a structure, None at its end; `id` goes on to its number.
    pub fn field(&mut self, id: &mut i64) -> Result<Option<u8>, Fault> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *id = match byte >> 4 {
            0 => self.zigzag()?,
            step => id.wrapping_add(i64::from(step)),
        };
        Ok(Some(byte & 15))
    }

    pub fn skip(&mut self, kind: u8, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return damaged("a structure is nested too deeply");
        }
        match kind {
            1 | 2 => Ok(()),
            3 => self.advance(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.advance(8),
            8 => {
                let length = self.varint()?;
                self.advance(usize::try_from(length).unwrap_or(usize::MAX))
            }
            9 | 10 => self.skip_list(depth),
            12 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
                Ok(())
            }
            other => damaged(format!("a structure has a field of the unknown type {other}")),
        }
    }

    fn skip_list(&mut self, depth: usize) -> Result<(), Fault> {
        let byte = self.byte()?;
        let count = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
        for _ in 0..count {
            // In a list a truth has a byte of its own.
            let kind = if matches!(byte & 15, 1 | 2) { 3 } else { byte & 15 };
            self.skip(kind, depth + 1)?;
        }
        Ok(())
    }

    pub fn byte(&mut self) -> Result<u8, Fault> {
        let Some(&byte) = self.bytes.get(self.at) else { return damaged("a structure is cut off") };
        self.at += 1;
        Ok(byte)
    }

    fn advance(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.at.checked_add(bytes).filter(|&at| at <= self.bytes.len()) {
            Some(at) => {
                self.at = at;
                Ok(())
            }
            None => damaged("a structure is cut off"),
        }
    }

    pub fn varint(&mut self) -> Result<u64, Fault> {
        let mut rest = &self.bytes[self.at..];
        let found = varint(&mut rest)?;
        self.at = self.bytes.len() - rest.len();
        Ok(found)
    }

    pub fn zigzag(&mut self) -> Result<i64, Fault> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }
}

/// Writes one structure; those within it are written by writers of their own and put in whole.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
    id: i64,
}

impl Writer {
    /// Begins a field; its value has to follow.
    pub fn field(&mut self, id: i64, kind: u8) -> &mut Vec<u8> {
        let step = id - self.id;
        self.id = id;
        if (1..16).contains(&step) {
            self.bytes.push((step as u8) << 4 | kind);
        } else {
            self.bytes.push(kind);
            put_zigzag(&mut self.bytes, id);
        }
        &mut self.bytes
    }

    pub fn number(&mut self, id: i64, kind: u8, value: i64) {
        put_zigzag(self.field(id, kind), value);
    }

    pub fn binary(&mut self, id: i64, value: &[u8]) {
        put_binary(self.field(id, BINARY), value);
    }

    /// A field whose value is there as bytes already.
    pub fn raw(&mut self, id: i64, kind: u8, value: &[u8]) {
        self.field(id, kind).extend_from_slice(value);
    }

    pub fn list<T: AsRef<[u8]>>(&mut self, id: i64, kind: u8, items: &[T]) {
        let bytes = self.field(id, LIST);
        put_list_head(bytes, kind, items.len());
        for item in items {
            bytes.extend_from_slice(item.as_ref());
        }
    }

    /// The bytes of the whole structure.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

pub fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub fn put_zigzag(bytes: &mut Vec<u8>, value: i64) {
    put_varint(bytes, (value << 1 ^ value >> 63) as u64);
}

pub fn put_binary(bytes: &mut Vec<u8>, value: &[u8]) {
    put_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

fn put_list_head(bytes: &mut Vec<u8>, kind: u8, count: usize) {
    if count < 15 {
        bytes.push((count as u8) << 4 | kind);
    } else {
        bytes.push(0xf0 | kind);
        put_varint(bytes, count as u64);
    }
}
