//! One column of a row group: its pages, and what Parquet has to know of them.

use std::io;

use arrow_buffer::NullBuffer;

use crate::parquet::thrift::{BINARY, I32, I64, STRUCT, TRUE, Writer, put_binary, put_varint, put_zigzag};

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
pub const DELTA_BINARY_PACKED: i64 = 5;
pub const RLE_DICTIONARY: i64 = 8;
const ZSTD: i64 = 6;
/// Longer ends of a range help nobody to skip anything.
const RANGE_BYTES_MAX: usize = 4096;

/// How Parquet stores values.
#[derive(Clone, Copy)]
pub enum Physical {
    Int32 = 1,
    Int64 = 2,
    ByteArray = 6,
}

pub struct Chunk {
    pub physical: Physical,
    pub rows: usize,
    pub nulls: usize,
    /// The least and the greatest value, as Parquet writes them.
    pub range: Option<(Vec<u8>, Vec<u8>)>,
    pub dictionary: Option<Page>,
    pub data: Page,
    pub is_aligned: bool,
}

pub struct Page {
    values: usize,
    encoding: i64,
    plain_bytes: usize,
    /// Compressed.
    pub content: Vec<u8>,
}

impl Page {
    pub fn new(
        values: usize,
        encoding: i64,
        plain: &[u8],
        codec: &mut zstd::bulk::Compressor<'_>,
    ) -> io::Result<Self> {
        Ok(Self { values, encoding, plain_bytes: plain.len(), content: codec.compress(plain)? })
    }

    /// The plain values that codes stand for.
    pub fn dictionary(
        values: usize,
        plain: &[u8],
        codec: &mut zstd::bulk::Compressor<'_>,
    ) -> io::Result<Self> {
        Self::new(values, PLAIN, plain, codec)
    }

    fn header(&self, kind: i64) -> Vec<u8> {
        let mut own = Writer::default();
        own.number(1, I32, self.values as i64);
        own.number(2, I32, self.encoding);
        if kind == DATA_PAGE {
            own.number(3, I32, RLE);
            own.number(4, I32, RLE);
        }
        let mut header = Writer::default();
        header.number(1, I32, kind);
        header.number(2, I32, self.plain_bytes as i64);
        header.number(3, I32, self.content.len() as i64);
        header.number(4, I32, i64::from(crc32fast::hash(&self.content) as i32));
        header.raw(if kind == DATA_PAGE { 5 } else { 7 }, STRUCT, &own.finish());
        header.finish()
    }

    /// Appends the page with its header; returns how many bytes that is before compression.
    fn put(&self, kind: i64, bytes: &mut Vec<u8>) -> usize {
        let header = self.header(kind);
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.content);
        header.len() + self.plain_bytes
    }

    /// What the footer says of it beside its place.
    fn describe(&self, kind: i64) -> Vec<u8> {
        let mut own = Writer::default();
        own.number(1, I32, kind);
        own.number(2, I32, self.encoding);
        own.number(3, I32, 1);
        own.finish()
    }
}

impl Chunk {
    /// Appends the pages of a column of this name, to bytes that begin at an offset of the file; returns what the footer
    /// says of it, and how many bytes it has before compression.
    pub fn put(&self, name: &str, offset: usize, bytes: &mut Vec<u8>) -> (Vec<u8>, usize) {
        let start = bytes.len();
        let mut plain_bytes = 0;
        let (mut encodings, mut pages) = (vec![RLE, self.data.encoding], Vec::new());
        if let Some(dictionary) = &self.dictionary {
            plain_bytes += dictionary.put(DICTIONARY_PAGE, bytes);
            encodings.insert(0, PLAIN);
            pages.push(dictionary.describe(DICTIONARY_PAGE));
        }
        let data_start = bytes.len();
        plain_bytes += self.data.put(DATA_PAGE, bytes);
        pages.push(self.data.describe(DATA_PAGE));
        let encodings: Vec<Vec<u8>> = encodings.into_iter().map(zigzag).collect();
        let mut path = Vec::new();
        put_binary(&mut path, name.as_bytes());
        let mut column = Writer::default();
        column.number(1, I32, self.physical as i64);
        column.list(2, I32, &encodings);
        column.list(3, BINARY, &[path]);
        column.number(4, I32, ZSTD);
        column.number(5, I64, self.rows as i64);
        column.number(6, I64, plain_bytes as i64);
        column.number(7, I64, (bytes.len() - start) as i64);
        column.number(9, I64, (offset + data_start) as i64);
        if self.dictionary.is_some() {
            column.number(11, I64, (offset + start) as i64);
        }
        column.raw(12, STRUCT, &self.statistics());
        column.list(13, STRUCT, &pages);
        let mut chunk = Writer::default();
        chunk.number(2, I64, 0);
        chunk.raw(3, STRUCT, &column.finish());
        (chunk.finish(), plain_bytes)
    }

    fn statistics(&self) -> Vec<u8> {
        let mut statistics = Writer::default();
        statistics.number(3, I64, self.nulls as i64);
        let fitting =
            |(least, greatest): &&(Vec<u8>, Vec<u8>)| least.len().max(greatest.len()) <= RANGE_BYTES_MAX;
        if let Some((least, greatest)) = self.range.as_ref().filter(fitting) {
            statistics.binary(5, greatest);
            statistics.binary(6, least);
            statistics.field(7, TRUE);
            statistics.field(8, TRUE);
        }
        statistics.finish()
    }
}

fn zigzag(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_zigzag(&mut bytes, value);
    bytes
}

/// Which rows have a value: how many bytes say so, then one run if all have one, else a bit for each row.
pub fn put_levels(rows: usize, nulls: Option<&NullBuffer>, page: &mut Vec<u8>) {
    let mut levels = Vec::new();
    match nulls {
        None => {
            put_varint(&mut levels, (rows as u64) << 1);
            levels.push(1);
        }
        Some(nulls) => {
            let bits = nulls.inner().sliced();
            let bytes = rows.div_ceil(8);
            put_varint(&mut levels, (bytes as u64) << 1 | 1);
            levels.extend_from_slice(&bits[..bytes]);
        }
    }
    page.extend_from_slice(&(levels.len() as u32).to_le_bytes());
    page.extend_from_slice(&levels);
}
