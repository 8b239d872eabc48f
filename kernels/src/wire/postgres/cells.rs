//! Columns of any Arrow type, opened for writing their cells as PostgreSQL's, in text or in binary.
//!
//! | type | PostgreSQL's type |
//! |---|---|
//! | boolean | bool |
//! | int8, uint8, int16 | int2 |
//! | int32, uint16 | int4 |
//! | int64, uint32 | int8 |
//! | uint64, decimals | numeric |
//! | float16, float32; float64 | float4; float8 |
//! | strings; binary | varchar; bytea |
//! | date; time; timestamp; duration, interval | date; time; timestamp; interval |
//! | list of any of these | its array, of one dimension |
//! | struct, map, lists of lists, text that holds JSON | json |
//!
//! Times finer than a microsecond are rounded down.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use pyo3::PyResult;
use pyo3::exceptions::PyTypeError;

use crate::errors::unsupported_type;
use crate::values::Text;
use crate::wire::postgres::text::{self as shown, Interval, Style};
use crate::wire::text::column::{self, Damaged, Form, Written};
use crate::wire::text::value as text;

const TYPE_KEY: &str = "tsdb:type";
const DAYS_TO_2000: i64 = 10_957;
const MS_PER_DAY: i64 = 86_400_000;
const JSON: Form = Form { is_csv: false, epoch: None };
const JSON_OID: i32 = 114;

/// How the cells of a column are to look.
#[derive(Clone, Copy)]
pub struct Look {
    pub is_binary: bool,
    pub style: Style,
}

/// The values of a column; asked for rows that are not null only.
trait Cells: Send {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written;
}

pub struct Column {
    nulls: Option<NullBuffer>,
    is_all_null: bool,
    cells: Box<dyn Cells>,
}

impl Column {
    /// `Err` names the type when PostgreSQL has none like it.
    pub fn open(field: &Field, array: &ArrayRef, look: Look) -> Result<Self, String> {
        let data = array.to_data();
        let is_all_null = *data.data_type() == DataType::Null;
        let cells = open_cells(field, array, &data, look)?;
        Ok(Self { nulls: data.nulls().cloned(), is_all_null, cells })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.is_all_null || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        self.cells.write(row, out)
    }
}

struct Each<F>(F);

impl<F: FnMut(usize, &mut Vec<u8>) -> Written + Send> Cells for Each<F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        (self.0)(row, out)
    }
}

fn each(write: impl FnMut(usize, &mut Vec<u8>) -> Written + Send + 'static) -> Box<dyn Cells> {
    Box::new(Each(write))
}

/// Cells of values that stand side by side; `write` gets one value.
fn natives<T: ArrowNativeType>(
    data: &ArrayData,
    write: impl Fn(T, &mut Vec<u8>) + Send + 'static,
) -> Box<dyn Cells> {
    let values = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
    each(move |row, out| {
        write(*values.get(row).ok_or(Damaged)?, out);
        Ok(())
    })
}

fn open_cells(
    field: &Field,
    array: &ArrayRef,
    data: &ArrayData,
    look: Look,
) -> Result<Box<dyn Cells>, String> {
    use DataType as T;
    if let Some(strings) = Text::new(data) {
        return Ok(each(move |row, out| {
            text::append(strings.get(row).ok_or(Damaged)?, out);
            Ok(())
        }));
    }
    match data.data_type() {
        T::Null => Ok(each(|_, _| Err(Damaged))),
        T::Boolean => {
            let values = array.as_boolean().values().clone();
            let (yes, no) = if look.is_binary { (1, 0) } else { (b't', b'f') };
            Ok(each(move |row, out| {
                out.push(if values.value(row) { yes } else { no });
                Ok(())
            }))
        }
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => Ok(open_bytes(array, look)),
        T::Date32 | T::Date64 | T::Time32(_) | T::Time64(_) | T::Timestamp(_, _) => {
            Ok(open_moment(data, look))
        }
        T::Duration(_) | T::Interval(_) => Ok(open_interval(data, look)),
        kind if item_of(kind).is_some_and(|item| !item.data_type().is_nested()) => open_array(array, look),
        kind if kind.is_nested() => open_json(field, array),
        _ => open_number(data, look),
    }
}

fn open_number(data: &ArrayData, look: Look) -> Result<Box<dyn Cells>, String> {
    use DataType as T;
    let binary = look.is_binary;
    Ok(match *data.data_type() {
        T::Int8 => integers::<i8>(data, 2, binary),
        T::Int16 => integers::<i16>(data, 2, binary),
        T::UInt8 => integers::<u8>(data, 2, binary),
        T::Int32 => integers::<i32>(data, 4, binary),
        T::UInt16 => integers::<u16>(data, 4, binary),
        T::Int64 => integers::<i64>(data, 8, binary),
        T::UInt32 => integers::<u32>(data, 8, binary),
        T::UInt64 if binary => {
            natives::<u64>(data, |value, out| numeric(false, value.to_string().as_bytes(), 0, out))
        }
        T::UInt64 => natives::<u64>(data, text::unsigned),
        T::Float16 => {
            floats::<<Float16Type as ArrowPrimitiveType>::Native>(data, binary, |value| value.to_f32())
        }
        T::Float32 => floats::<f32>(data, binary, |value| value),
        T::Float64 if binary => natives::<f64>(data, |value, out| text::append(&value.to_be_bytes(), out)),
        T::Float64 => natives::<f64>(data, shown::float),
        T::Decimal32(_, scale) => decimals::<Decimal32Type>(data, scale, binary),
        T::Decimal64(_, scale) => decimals::<Decimal64Type>(data, scale, binary),
        T::Decimal128(_, scale) => decimals::<Decimal128Type>(data, scale, binary),
        T::Decimal256(_, scale) => decimals::<Decimal256Type>(data, scale, binary),
        ref other => return Err(other.to_string()),
    })
}

fn integers<T: ArrowNativeType + Into<i64>>(
    data: &ArrayData,
    width: usize,
    is_binary: bool,
) -> Box<dyn Cells> {
    if is_binary {
        return natives::<T>(data, move |value, out| {
            text::append(&value.into().to_be_bytes()[8 - width..], out);
        });
    }
    natives::<T>(data, |value, out| text::integer(value.into(), out))
}

fn floats<T: ArrowNativeType>(data: &ArrayData, is_binary: bool, narrow: fn(T) -> f32) -> Box<dyn Cells> {
    if is_binary {
        return natives::<T>(data, move |value, out| text::append(&narrow(value).to_be_bytes(), out));
    }
    natives::<T>(data, move |value, out| shown::short_float(narrow(value), out))
}

fn decimals<T: DecimalType>(data: &ArrayData, scale: i8, is_binary: bool) -> Box<dyn Cells>
where
    T::Native: std::fmt::Display,
{
    natives::<T::Native>(data, move |value, out| {
        let written = value.to_string();
        let digits = written.strip_prefix('-').unwrap_or(&written);
        let is_negative = digits.len() < written.len();
        if is_binary {
            numeric(is_negative, digits.as_bytes(), scale, out);
        } else {
            text::scaled_digits(is_negative, digits.as_bytes(), scale, out);
        }
    })
}

/// PostgreSQL's numeric: four decimal digits to a word, none of the words at either end zero.
fn numeric(is_negative: bool, digits: &[u8], scale: i8, out: &mut Vec<u8>) {
    let fraction = usize::from(scale.max(0).unsigned_abs());
    let mut all = vec![b'0'; (fraction + 1).saturating_sub(digits.len())];
    all.extend_from_slice(digits);
    all.resize(all.len() + usize::from(scale.min(0).unsigned_abs()), b'0');
    let whole = all.len() - fraction;
    let mut padded = vec![b'0'; whole.wrapping_neg() % 4];
    let whole_words = (whole + padded.len()) / 4;
    padded.extend_from_slice(&all);
    padded.resize(padded.len().next_multiple_of(4), b'0');
    let words: Vec<i16> = padded
        .chunks_exact(4)
        .map(|four| four.iter().fold(0, |word, digit| word * 10 + i16::from(digit - b'0')))
        .collect();
    let first = words.iter().position(|word| *word != 0).unwrap_or(words.len());
    let last = words.iter().rposition(|word| *word != 0).map_or(first, |at| at + 1);
    let weight = if first == words.len() { 0 } else { whole_words as i16 - 1 - first as i16 };
    let sign: i16 = if is_negative { 0x4000 } else { 0 };
    for word in [(last - first) as i16, weight, sign, fraction as i16] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for word in &words[first..last] {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

fn open_bytes(array: &ArrayRef, look: Look) -> Box<dyn Cells> {
    let write = move |value: &[u8], out: &mut Vec<u8>| {
        if look.is_binary {
            out.extend_from_slice(value);
        } else {
            shown::bytes(value, look.style, out);
        }
        Ok(())
    };
    match array.data_type() {
        DataType::Binary => {
            let array = array.as_binary::<i32>().clone();
            each(move |row, out| write(array.value(row), out))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>().clone();
            each(move |row, out| write(array.value(row), out))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view().clone();
            each(move |row, out| write(array.value(row), out))
        }
        _ => {
            let array = array.as_fixed_size_binary().clone();
            each(move |row, out| write(array.value(row), out))
        }
    }
}

/// A count of a unit in microseconds, rounded down; as far as 64 bits reach.
fn micros(value: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => value.saturating_mul(1_000_000),
        TimeUnit::Millisecond => value.saturating_mul(1_000),
        TimeUnit::Microsecond => value,
        TimeUnit::Nanosecond => value.div_euclid(1_000),
    }
}

fn open_moment(data: &ArrayData, look: Look) -> Box<dyn Cells> {
    let date = move |days: i64, out: &mut Vec<u8>| {
        if look.is_binary {
            out.extend_from_slice(&((days - DAYS_TO_2000) as i32).to_be_bytes());
        } else {
            shown::date(days, look.style, out);
        }
    };
    let time = move |micros: i64, out: &mut Vec<u8>| {
        if look.is_binary {
            out.extend_from_slice(&micros.to_be_bytes());
        } else {
            shown::time(micros, out);
        }
    };
    match *data.data_type() {
        DataType::Date32 => natives::<i32>(data, move |days, out| date(i64::from(days), out)),
        DataType::Date64 => natives::<i64>(data, move |count, out| date(count.div_euclid(MS_PER_DAY), out)),
        DataType::Time32(unit) => {
            natives::<i32>(data, move |value, out| time(micros(i64::from(value), unit), out))
        }
        DataType::Time64(unit) => natives::<i64>(data, move |value, out| time(micros(value, unit), out)),
        DataType::Timestamp(unit, _) if look.is_binary => natives::<i64>(data, move |value, out| {
            let since_2000 = micros(value, unit).saturating_sub(DAYS_TO_2000 * shown::US_PER_DAY);
            text::append(&since_2000.to_be_bytes(), out);
        }),
        DataType::Timestamp(unit, _) => {
            natives::<i64>(data, move |value, out| shown::timestamp(micros(value, unit), look.style, out))
        }
        _ => each(|_, _| Err(Damaged)),
    }
}

fn open_interval(data: &ArrayData, look: Look) -> Box<dyn Cells> {
    let write = move |value: Interval, out: &mut Vec<u8>| {
        if look.is_binary {
            out.extend_from_slice(&value.micros.to_be_bytes());
            out.extend_from_slice(&value.days.to_be_bytes());
            out.extend_from_slice(&value.months.to_be_bytes());
        } else {
            shown::interval(value, look.style, out);
        }
    };
    match *data.data_type() {
        DataType::Duration(unit) => natives::<i64>(data, move |value, out| {
            write(Interval { months: 0, days: 0, micros: micros(value, unit) }, out);
        }),
        DataType::Interval(IntervalUnit::YearMonth) => natives::<i32>(data, move |months, out| {
            write(Interval { months, days: 0, micros: 0 }, out);
        }),
        DataType::Interval(IntervalUnit::DayTime) => {
            natives::<<IntervalDayTimeType as ArrowPrimitiveType>::Native>(data, move |value, out| {
                let micros = micros(i64::from(value.milliseconds), TimeUnit::Millisecond);
                write(Interval { months: 0, days: value.days, micros }, out);
            })
        }
        _ => natives::<<IntervalMonthDayNanoType as ArrowPrimitiveType>::Native>(data, move |value, out| {
            let micros = micros(value.nanoseconds, TimeUnit::Nanosecond);
            write(Interval { months: value.months, days: value.days, micros }, out);
        }),
    }
}

fn open_json(field: &Field, array: &ArrayRef) -> Result<Box<dyn Cells>, String> {
    let mut column = column::Column::open(field, array, JSON)?;
    Ok(each(move |row, out| column.write(row, out)))
}

fn item_of(kind: &DataType) -> Option<&Field> {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView};
    match kind {
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

/// The number of the type of an array's items.
fn item_oid(field: &Field) -> i32 {
    use DataType as T;
    if field.metadata().get(TYPE_KEY).is_some_and(|kind| kind == "json") {
        return JSON_OID;
    }
    match field.data_type() {
        T::Null => 25,
        T::Boolean => 16,
        T::Int8 | T::Int16 | T::UInt8 => 21,
        T::Int32 | T::UInt16 => 23,
        T::Int64 | T::UInt32 => 20,
        T::UInt64 | T::Decimal32(..) | T::Decimal64(..) | T::Decimal128(..) | T::Decimal256(..) => 1700,
        T::Float16 | T::Float32 => 700,
        T::Float64 => 701,
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => 17,
        T::Date32 | T::Date64 => 1082,
        T::Time32(_) | T::Time64(_) => 1083,
        T::Timestamp(..) => 1114,
        T::Duration(_) | T::Interval(_) => 1186,
        _ => 1043,
    }
}

fn open_array(array: &ArrayRef, look: Look) -> Result<Box<dyn Cells>, String> {
    match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            open_items(
                item,
                list.values(),
                offset_span(list.offsets().inner().clone(), list.values().len()),
                look,
            )
        }
        DataType::LargeList(item) => {
            let list = array.as_list::<i64>();
            open_items(
                item,
                list.values(),
                offset_span(list.offsets().inner().clone(), list.values().len()),
                look,
            )
        }
        DataType::ListView(item) => {
            let list = array.as_list_view::<i32>();
            let span = view_span(list.offsets().clone(), list.sizes().clone(), list.values().len());
            open_items(item, list.values(), span, look)
        }
        DataType::LargeListView(item) => {
            let list = array.as_list_view::<i64>();
            let span = view_span(list.offsets().clone(), list.sizes().clone(), list.values().len());
            open_items(item, list.values(), span, look)
        }
        DataType::FixedSizeList(item, size) => {
            let size = size.as_usize();
            let span = move |row: usize| Some(row * size..(row + 1) * size);
            open_items(item, array.as_fixed_size_list().values(), span, look)
        }
        other => Err(other.to_string()),
    }
}

fn offset_span<O: OffsetSizeTrait>(
    offsets: ScalarBuffer<O>,
    length: usize,
) -> impl Fn(usize) -> Option<Range<usize>> + Send {
    move |row| {
        let span = offsets.get(row)?.as_usize()..offsets.get(row + 1)?.as_usize();
        (span.end <= length).then_some(span)
    }
}

fn view_span<O: OffsetSizeTrait>(
    offsets: ScalarBuffer<O>,
    sizes: ScalarBuffer<O>,
    length: usize,
) -> impl Fn(usize) -> Option<Range<usize>> + Send {
    move |row| {
        let start = offsets.get(row)?.as_usize();
        let end = start.checked_add(sizes.get(row)?.as_usize())?;
        (end <= length).then_some(start..end)
    }
}

fn open_items(
    item: &Field,
    values: &ArrayRef,
    span: impl Fn(usize) -> Option<Range<usize>> + Send + 'static,
    look: Look,
) -> Result<Box<dyn Cells>, String> {
    let mut items = Column::open(item, values, look)?;
    if look.is_binary {
        let oid = item_oid(item);
        return Ok(each(move |row, out| binary_array(&mut items, oid, span(row).ok_or(Damaged)?, out)));
    }
    let mut cell = Vec::new();
    Ok(each(move |row, out| {
        let span = span(row).ok_or(Damaged)?;
        out.push(b'{');
        for at in span.clone() {
            if at > span.start {
                out.push(b',');
            }
            if items.is_null(at) {
                out.extend_from_slice(b"NULL");
                continue;
            }
            cell.clear();
            items.write(at, &mut cell)?;
            shown::array_item(&cell, out);
        }
        out.push(b'}');
        Ok(())
    }))
}

/// Dimensions, whether there are nulls, the type of the items; the length and the first index; the items.
fn binary_array(items: &mut Column, oid: i32, span: Range<usize>, out: &mut Vec<u8>) -> Written {
    let has_nulls = span.clone().any(|at| items.is_null(at));
    for word in [i32::from(!span.is_empty()), i32::from(has_nulls), oid] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    if span.is_empty() {
        return Ok(());
    }
    out.extend_from_slice(&(span.len() as i32).to_be_bytes());
    out.extend_from_slice(&1_i32.to_be_bytes());
    for at in span {
        sized(items, at, out)?;
    }
    Ok(())
}

/// A cell with its length before it, -1 for a null.
pub fn sized(column: &mut Column, row: usize, out: &mut Vec<u8>) -> Written {
    if column.is_null(row) {
        text::append(&(-1_i32).to_be_bytes(), out);
        return Ok(());
    }
    let start = out.len();
    text::append(&[0; 4], out);
    column.write(row, out)?;
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The columns of a batch, and how many rows it has.
pub fn open_batch(data: &ArrayData, looks: &[Look]) -> PyResult<(Vec<Column>, usize)> {
    let array: ArrayRef = make_array(data.clone());
    let Some(array) = array.as_struct_opt() else {
        let kind = data.data_type();
        return Err(PyTypeError::new_err(format!("expected a record batch, received an array of {kind}")));
    };
    if array.num_columns() != looks.len() {
        let count = array.num_columns();
        return Err(PyTypeError::new_err(format!("{count} columns, but {} formats", looks.len())));
    }
    let columns = array.fields().iter().zip(array.columns()).zip(looks).map(|((field, column), look)| {
        Column::open(field, column, *look)
            .map_err(|kind| unsupported_type("PostgreSQL has no type", field.name(), &kind))
    });
    Ok((columns.collect::<Result<_, _>>()?, array.len()))
}
