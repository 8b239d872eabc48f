//! Rows of `greptime.v1` as columns: the bytes of a `RowInsertRequests`, or of a `RowDeleteRequests`, which look the same.
//!
//! For each table: its name, the `ColumnSchema` of each column as bytes, its columns, the number of rows. What a column
//! is made of follows from the number of its type:
//!
//! | type | values | column |
//! |---|---|---|
//! | BOOLEAN | `bool_value` | boolean |
//! | INT8 … INT64, DATE, DATETIME, TIMESTAMP_… | the field of that name | int64 |
//! | UINT8 … UINT64 | the field of that name | uint64 |
//! | FLOAT32, FLOAT64 | the field of that name | float32, float64 |
//! | STRING, JSON | `string_value` | string |
//! | BINARY, VECTOR | `binary_value` | binary |
//! | DECIMAL128 | `decimal128_value` | 16 bytes, the lowest first |
//!
//! A value with nothing set is null. A value of another field, a row with more or fewer values than there are columns, a
//! type that is not listed, and text that is not UTF-8 are refused, with the table, the row and the column.

use arrow_array::Array as _;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int64Builder,
    StringBuilder, UInt64Builder,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrow_ffi::ArrowArray;
use crate::wire::protobuf::{Fields, Malformed, Value, malformed};

const DECIMAL_BYTES: i32 = 16;

type Table<'a> = (String, Vec<&'a [u8]>, Vec<ArrowArray>, usize);
type PyTable<'py> = (String, Vec<Bound<'py, PyBytes>>, Vec<ArrowArray>, usize);

/// Return for each table: name, schemas, columns, number of rows. MalformedInput for bytes that are not such a message.
#[pyfunction]
pub fn parse_greptime_rows<'py>(py: Python<'py>, body: &[u8]) -> PyResult<Vec<PyTable<'py>>> {
    let tables = py.detach(|| parse_tables(body))?;
    Ok(tables
        .into_iter()
        .map(|(name, schemas, columns, rows)| {
            (name, schemas.into_iter().map(|each| PyBytes::new(py, each)).collect(), columns, rows)
        })
        .collect())
}

fn parse_tables(body: &[u8]) -> Result<Vec<Table<'_>>, Malformed> {
    let mut tables = Vec::new();
    let mut fields = Fields::of(body);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            tables.push(parse_table(value.bytes("a request for a table")?)?);
        }
    }
    Ok(tables)
}

fn parse_table(message: &[u8]) -> Result<Table<'_>, Malformed> {
    let mut name = String::new();
    let (mut schemas, mut rows) = (Vec::new(), Vec::new());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name = text(value.bytes("the name of a table")?, "the name of a table")?.to_owned(),
            2 => {
                let mut parts = Fields::of(value.bytes("the rows of a table")?);
                while let Some((number, value)) = parts.next()? {
                    match number {
                        1 => schemas.push(value.bytes("the schema of a column")?),
                        2 => rows.push(value.bytes("a row")?),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let mut columns = schemas
        .iter()
        .map(|schema| Column::of(schema, rows.len()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Malformed(format!("table {name}: {error}")))?;
    for (at, row) in rows.iter().enumerate() {
        read_row(row, &mut columns).map_err(|error| Malformed(format!("table {name}, row {at}: {error}")))?;
    }
    Ok((name, schemas, columns.into_iter().map(Column::finish).collect(), rows.len()))
}

fn read_row(row: &[u8], columns: &mut [Column]) -> Result<(), Malformed> {
    let mut fields = Fields::of(row);
    let mut at = 0;
    while let Some((number, value)) = fields.next()? {
        if number != 1 {
            continue;
        }
        if let Some(column) = columns.get_mut(at) {
            column.read(value.bytes("a value")?)?;
        }
        at += 1;
    }
    if at != columns.len() {
        return malformed(format!(
            "the row has {at} values, expected {}, one for each column",
            columns.len()
        ));
    }
    Ok(())
}

fn text<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Malformed> {
    std::str::from_utf8(bytes).or_else(|_| malformed(format!("{what} is not UTF-8")))
}

enum Values {
    Boolean(BooleanBuilder),
    Signed(Int64Builder),
    Unsigned(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Decimal(FixedSizeBinaryBuilder),
}

struct Column {
    name: String,
    /// The number of the field that holds its values.
    field: u32,
    values: Values,
}

impl Column {
    fn of(schema: &[u8], rows: usize) -> Result<Self, Malformed> {
        let (mut name, mut kind) = (String::new(), 0);
        let mut fields = Fields::of(schema);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => name = text(value.bytes("the name of a column")?, "the name of a column")?.to_owned(),
                2 => kind = value.varint("the type of a column")?,
                _ => {}
            }
        }
        let (field, values) = match kind {
            0 => (11, Values::Boolean(BooleanBuilder::with_capacity(rows))),
            1..=4 => (kind as u32, Values::Signed(Int64Builder::with_capacity(rows))),
            5..=8 => (kind as u32, Values::Unsigned(UInt64Builder::with_capacity(rows))),
            9 => (9, Values::Float32(Float32Builder::with_capacity(rows))),
            10 => (10, Values::Float64(Float64Builder::with_capacity(rows))),
            11 | 32 => (12, Values::Binary(BinaryBuilder::with_capacity(rows, 0))),
            12 | 31 => (13, Values::Text(StringBuilder::with_capacity(rows, 0))),
            13..=18 => (kind as u32 + 1, Values::Signed(Int64Builder::with_capacity(rows))),
            30 => (31, Values::Decimal(FixedSizeBinaryBuilder::with_capacity(rows, DECIMAL_BYTES))),
            _ => return malformed(format!("column {name}: type {kind} is not one that a table can hold")),
        };
        Ok(Self { name, field, values })
    }

    fn read(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let mut found = None;
        let mut fields = Fields::of(message);
        while let Some(field) = fields.next()? {
            found = Some(field);
        }
        match found {
            None => self.put_null(),
            Some((number, value)) if number == self.field => {
                let Self { name, values, .. } = self;
                values.put(value).map_err(|error| Malformed(format!("column {name}: {error}")))?;
            }
            Some((number, _)) => {
                return malformed(format!(
                    "column {}: expected the field {} of a value, received {number}",
                    self.name, self.field
                ));
            }
        }
        Ok(())
    }

    fn put_null(&mut self) {
        match &mut self.values {
            Values::Boolean(builder) => builder.append_null(),
            Values::Signed(builder) => builder.append_null(),
            Values::Unsigned(builder) => builder.append_null(),
            Values::Float32(builder) => builder.append_null(),
            Values::Float64(builder) => builder.append_null(),
            Values::Text(builder) => builder.append_null(),
            Values::Binary(builder) => builder.append_null(),
            Values::Decimal(builder) => builder.append_null(),
        }
    }

    fn finish(self) -> ArrowArray {
        ArrowArray::from_data(match self.values {
            Values::Boolean(mut builder) => builder.finish().into_data(),
            Values::Signed(mut builder) => builder.finish().into_data(),
            Values::Unsigned(mut builder) => builder.finish().into_data(),
            Values::Float32(mut builder) => builder.finish().into_data(),
            Values::Float64(mut builder) => builder.finish().into_data(),
            Values::Text(mut builder) => builder.finish().into_data(),
            Values::Binary(mut builder) => builder.finish().into_data(),
            Values::Decimal(mut builder) => builder.finish().into_data(),
        })
    }
}

impl Values {
    fn put(&mut self, value: Value<'_>) -> Result<(), Malformed> {
        match self {
            Self::Boolean(builder) => builder.append_value(value.varint("the value")? != 0),
            Self::Signed(builder) => builder.append_value(value.varint("the value")? as i64),
            Self::Unsigned(builder) => builder.append_value(value.varint("the value")?),
            Self::Float32(builder) => match value {
                Value::Fixed32(bits) => builder.append_value(f32::from_bits(bits)),
                _ => return malformed("the value is not a float"),
            },
            Self::Float64(builder) => builder.append_value(value.double("the value")?),
            Self::Text(builder) => builder.append_value(text(value.bytes("the value")?, "the value")?),
            Self::Binary(builder) => builder.append_value(value.bytes("the value")?),
            Self::Decimal(builder) => {
                let bytes = decimal(value.bytes("the value")?)?.to_le_bytes();
                builder.append_value(bytes).map_err(|error| Malformed(error.to_string()))?;
            }
        }
        Ok(())
    }
}

/// The number of a `Decimal128`: its upper and its lower half.
fn decimal(message: &[u8]) -> Result<u128, Malformed> {
    let (mut high, mut low) = (0, 0);
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => high = value.varint("half of a decimal")?,
            2 => low = value.varint("half of a decimal")?,
            _ => {}
        }
    }
    Ok(u128::from(high) << 64 | u128::from(low))
}
