//! The headers of pages, in Thrift's compact protocol: fields by number, those that are not known skipped.

use super::{Fault, damaged};
use crate::parquet::thrift::Reader;

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN: u32 = 0;
const PLAIN_DICTIONARY: u32 = 2;
const RLE: u32 = 3;

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
        let mut reader = Reader::new(chunk, at);
        let header = page_header(&mut reader)?;
        let Ok(length) = usize::try_from(header.packed_bytes) else {
            return damaged("a page has a negative size");
        };
        let begin = reader.at();
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

fn page_header(reader: &mut Reader<'_>) -> Result<Header, Fault> {
    let mut header = Header::default();
    let mut id = 0;
    while let Some(kind) = reader.field(&mut id)? {
        match (id, kind) {
            (1, 5) => header.kind = reader.zigzag()?,
            (2, 5) => header.plain_bytes = reader.zigzag()?,
            (3, 5) => header.packed_bytes = reader.zigzag()?,
            (4, 5) => header.crc = Some(reader.zigzag()?),
            (5, 12) => header.data = Some(numbers(reader)?),
            (7, 12) => header.dictionary = Some(numbers(reader)?),
            _ => reader.skip(kind, 0)?,
        }
    }
    Ok(header)
}

fn numbers(reader: &mut Reader<'_>) -> Result<Fields, Fault> {
    let mut found = [0; 4];
    let mut id = 0;
    while let Some(kind) = reader.field(&mut id)? {
        match (id, kind) {
            (1..=4, 5) => found[id as usize - 1] = reader.zigzag()?,
            _ => reader.skip(kind, 0)?,
        }
    }
    Ok(found)
}
