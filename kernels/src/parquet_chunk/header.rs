//! The headers of pages, in Thrift's compact protocol: fields by number, those that are not known skipped.

use super::{Fault, damaged};

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN: u32 = 0;
const PLAIN_DICTIONARY: u32 = 2;
const RLE: u32 = 3;
/// Deeper structures than a page header ever has.
const DEPTH_MAX: usize = 16;

/// One page of a chunk.
pub struct Page {
    pub is_dictionary: bool,
    pub begin: usize,
    pub end: usize,
    pub plain_bytes: usize,
    pub crc: Option<u32>,
    pub values: usize,
    pub encoding: u32,
}

/// Reads the headers of all pages of a chunk.
pub fn read_pages(chunk: &[u8]) -> Result<Vec<Page>, Fault> {
    let mut pages = Vec::new();
    let mut at = 0;
    while at < chunk.len() {
        let mut reader = Reader { bytes: chunk, at };
        let header = reader.page_header()?;
        let Ok(length) = usize::try_from(header.packed_bytes) else {
            return damaged("a page has a negative size");
        };
        let begin = reader.at;
        let Some(end) = begin.checked_add(length).filter(|&end| end <= chunk.len()) else {
            return damaged(format!("a page of {length} bytes reaches beyond its column"));
        };
        pages.push(header.page(begin, end)?);
        at = end;
    }
    Ok(pages)
}

#[derive(Default)]
struct Header {
    kind: i64,
    plain_bytes: i64,
    packed_bytes: i64,
    crc: Option<i64>,
    data: Option<Fields>,
    dictionary: Option<Fields>,
}

/// The fields 1 to 4 of a structure, as far as they are numbers.
type Fields = [i64; 4];

impl Header {
    fn page(&self, begin: usize, end: usize) -> Result<Page, Fault> {
        let (fields, is_dictionary) = match (self.kind, self.data, self.dictionary) {
            (DATA_PAGE, Some(fields), _) => (fields, false),
            (DICTIONARY_PAGE, _, Some(fields)) => (fields, true),
            (kind, ..) => return Err(Fault::Foreign(format!("pages of kind {kind} are not read here"))),
        };
        let [values, encoding, levels, _] = fields;
        let encoding = encoding as u32;
        if is_dictionary && encoding != PLAIN && encoding != PLAIN_DICTIONARY {
            return Err(Fault::Foreign(format!("a dictionary in encoding {encoding}")));
        }
        if !is_dictionary && levels as u32 != RLE {
            return Err(Fault::Foreign(format!("levels in encoding {levels}")));
        }
        let (Ok(values), Ok(plain_bytes)) = (usize::try_from(values), usize::try_from(self.plain_bytes))
        else {
            return damaged("a page has a negative number of values or bytes");
        };
        let crc = self.crc.map(|crc| crc as u32);
        Ok(Page { is_dictionary, begin, end, plain_bytes, crc, values, encoding })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn page_header(&mut self) -> Result<Header, Fault> {
        let mut header = Header::default();
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (1, 5) => header.kind = self.zigzag()?,
                (2, 5) => header.plain_bytes = self.zigzag()?,
                (3, 5) => header.packed_bytes = self.zigzag()?,
                (4, 5) => header.crc = Some(self.zigzag()?),
                (5, 12) => header.data = Some(self.numbers()?),
                (7, 12) => header.dictionary = Some(self.numbers()?),
                _ => self.skip(kind, 0)?,
            }
        }
        Ok(header)
    }

    fn numbers(&mut self) -> Result<Fields, Fault> {
        let mut found = [0; 4];
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (1..=4, 5) => found[id as usize - 1] = self.zigzag()?,
                _ => self.skip(kind, 0)?,
            }
        }
        Ok(found)
    }

    /// Returns the type of the next field of a structure, None at its end; `id` goes on to its number.
    fn field(&mut self, id: &mut i64) -> Result<Option<u8>, Fault> {
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

    fn skip(&mut self, kind: u8, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return damaged("a page header is nested too deeply");
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
            other => damaged(format!("a page header has a field of the unknown type {other}")),
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

    fn byte(&mut self) -> Result<u8, Fault> {
        let Some(&byte) = self.bytes.get(self.at) else { return damaged("a page header is cut off") };
        self.at += 1;
        Ok(byte)
    }

    fn advance(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.at.checked_add(bytes).filter(|&at| at <= self.bytes.len()) {
            Some(at) => {
                self.at = at;
                Ok(())
            }
            None => damaged("a page header is cut off"),
        }
    }

    fn varint(&mut self) -> Result<u64, Fault> {
        let mut rest = &self.bytes[self.at..];
        let found = super::decode::varint(&mut rest)?;
        self.at = self.bytes.len() - rest.len();
        Ok(found)
    }

    fn zigzag(&mut self) -> Result<i64, Fault> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }
}
