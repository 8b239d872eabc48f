//! The footer of a file: descriptions that come from elsewhere, moved and put together.

use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};

use crate::parquet::read::{Fault, damaged};
use crate::parquet::thrift::{I16, I64, LIST, Reader, STRUCT, Writer};

// Fields of a footer.
const ROWS: i64 = 3;
const ROW_GROUPS: i64 = 4;
const KEY_VALUES: i64 = 5;

/// Returns the descriptions of the columns of a file that has one row group, as they are when its pages lie `shift` bytes
/// further on, and the bytes of all pages before compression.
#[pyfunction]
pub fn adopt_columns(footer: PyBackedBytes, shift: i64) -> PyResult<(Vec<Vec<u8>>, i64)> {
    Ok(adopt(&footer, shift)?)
}

fn adopt(footer: &[u8], shift: i64) -> Result<(Vec<Vec<u8>>, i64), Fault> {
    let mut reader = Reader::new(footer, 0);
    let (mut columns, mut plain_bytes) = (Vec::new(), 0);
    to_field(&mut reader, ROW_GROUPS)?;
    if list_length(&mut reader)? != 1 {
        return damaged("a file has not one row group");
    }
    let mut id = 0;
    while let Some(kind) = reader.field(&mut id)? {
        match (id, kind) {
            (1, LIST) => {
                for _ in 0..list_length(&mut reader)? {
                    columns.push(shifted(&mut reader, shift, &[2], 3)?);
                }
            }
            (2, I64) => plain_bytes = reader.zigzag()?,
            _ => reader.skip(kind, 0)?,
        }
    }
    Ok((columns, plain_bytes))
}

/// Where the pages, the index and the dictionary of a column begin.
const OFFSETS: [i64; 3] = [9, 10, 11];

/// Copies a structure with some of its numbers moved, and within its field `inner` those of `OFFSETS`.
fn shifted(reader: &mut Reader<'_>, shift: i64, moved: &[i64], inner: i64) -> Result<Vec<u8>, Fault> {
    let mut copy = Writer::default();
    let mut id = 0;
    while let Some(kind) = reader.field(&mut id)? {
        if kind == I64 && moved.contains(&id) {
            let offset = reader.zigzag()?;
            // What is not used any more is zero.
            copy.number(id, I64, if offset == 0 { 0 } else { offset.wrapping_add(shift) });
        } else if kind == STRUCT && id == inner {
            let own = shifted(reader, shift, &OFFSETS, -1)?;
            copy.raw(id, STRUCT, &own);
        } else {
            let from = reader.at();
            reader.skip(kind, 0)?;
            copy.raw(id, kind, reader.between(from, reader.at()));
        }
    }
    Ok(copy.finish())
}

/// Goes to the value of a field.
fn to_field(reader: &mut Reader<'_>, wanted: i64) -> Result<(), Fault> {
    let mut id = 0;
    while let Some(kind) = reader.field(&mut id)? {
        if id == wanted {
            return Ok(());
        }
        reader.skip(kind, 0)?;
    }
    damaged(format!("a footer has no field {wanted}"))
}

fn list_length(reader: &mut Reader<'_>) -> Result<u64, Fault> {
    let head = reader.byte()?;
    if head >> 4 == 15 { reader.varint() } else { Ok(u64::from(head >> 4)) }
}

/// Returns the description of a row group.
#[pyfunction]
#[pyo3(signature = (columns, *, rows, plain_bytes, packed_bytes, offset, ordinal))]
pub fn describe_row_group(
    columns: Vec<PyBackedBytes>,
    rows: i64,
    plain_bytes: i64,
    packed_bytes: i64,
    offset: i64,
    ordinal: i64,
) -> Vec<u8> {
    let mut group = Writer::default();
    group.list(1, STRUCT, &columns);
    group.number(2, I64, plain_bytes);
    group.number(3, I64, rows);
    group.number(5, I64, offset);
    group.number(6, I64, packed_bytes);
    if i16::try_from(ordinal).is_ok() {
        group.number(7, I16, ordinal);
    }
    group.finish()
}

/// Returns a footer: that of an empty file, with rows, row groups and more key-value metadata.
#[pyfunction]
pub fn describe_file(
    empty: PyBackedBytes,
    rows: i64,
    row_groups: Vec<PyBackedBytes>,
    key_values: Vec<(PyBackedStr, PyBackedStr)>,
) -> PyResult<Vec<u8>> {
    Ok(describe(&empty, rows, &row_groups, &key_values)?)
}

fn describe(
    empty: &[u8],
    rows: i64,
    row_groups: &[PyBackedBytes],
    key_values: &[(PyBackedStr, PyBackedStr)],
) -> Result<Vec<u8>, Fault> {
    let mut reader = Reader::new(empty, 0);
    let mut file = Writer::default();
    let mut added = pairs(key_values);
    let mut id = 0;
    while let Some(kind) = reader.field(&mut id)? {
        if id > KEY_VALUES && !added.is_empty() {
            file.list(KEY_VALUES, STRUCT, &std::mem::take(&mut added));
        }
        let from = reader.at();
        if id == KEY_VALUES {
            let mut all = items(&mut reader)?;
            all.append(&mut added);
            file.list(id, STRUCT, &all);
            continue;
        }
        reader.skip(kind, 0)?;
        match id {
            ROWS => file.number(id, I64, rows),
            ROW_GROUPS => file.list(id, STRUCT, row_groups),
            _ => file.raw(id, kind, reader.between(from, reader.at())),
        }
    }
    if !added.is_empty() {
        file.list(KEY_VALUES, STRUCT, &added);
    }
    Ok(file.finish())
}

/// The structures of a list.
fn items(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Fault> {
    let mut found = Vec::new();
    for _ in 0..list_length(reader)? {
        let from = reader.at();
        reader.skip(STRUCT, 0)?;
        found.push(reader.between(from, reader.at()).to_vec());
    }
    Ok(found)
}

fn pairs(key_values: &[(PyBackedStr, PyBackedStr)]) -> Vec<Vec<u8>> {
    let pair = |(key, value): &(PyBackedStr, PyBackedStr)| {
        let mut pair = Writer::default();
        pair.binary(1, key.as_bytes());
        pair.binary(2, value.as_bytes());
        pair.finish()
    };
    key_values.iter().map(pair).collect()
}
