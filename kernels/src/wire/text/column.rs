//! Columns of any Arrow type, opened for writing their cells as text.
//!
//! | type | cell |
//! |---|---|
//! | boolean, integers, floats | as JSON has them; NaN and the infinities are null |
//! | strings | in quotes; in a column that holds JSON, the value itself |
//! | binary | an array of its bytes |
//! | timestamp, time, duration | an integer in the column's own unit; a timestamp in another one when asked to |
//! | date | days since the epoch |
//! | interval | text: `14 mons 3 days 4 hours 5 mins 6.000100000 secs`, parts that are zero left out |
//! | decimal | a string with all digits of its scale |
//! | lists, struct, map | array, object, object |
//! | dictionary | as the value it stands for, each of which is turned into text once |
//!
//! CSV differs at the outermost level only: a null is nothing, strings and decimals have no quotes unless a comma, a
//! quote or a line end makes them need some, and what is not a plain number or word is quoted JSON.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, make_array};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};

use crate::values::{Text, words_run_end};
use crate::wire::text::json::embed;
use crate::wire::text::value as text;

/// Says of a field that its strings are JSON.
const TYPE_KEY: &str = "tsdb:type";
const MS_PER_DAY: i64 = 86_400_000;
const NS_PER_MS: i64 = 1_000_000;

/// How the cells of a column are to look.
#[derive(Clone, Copy)]
pub struct Form {
    pub is_csv: bool,
    /// The unit to say timestamps in, in place of their own.
    pub epoch: Option<TimeUnit>,
}

impl Form {
    /// What stands for a null or for a float that is no number.
    fn null(self) -> &'static [u8] {
        if self.is_csv { b"" } else { b"null" }
    }

    /// The same for what is inside of a cell, which is JSON.
    fn inner(self) -> Self {
        Self { is_csv: false, ..self }
    }
}

/// An index or an offset points outside of the array it belongs to.
#[derive(Debug)]
pub struct Damaged;

pub type Written = Result<(), Damaged>;

/// The values of a column; asked for rows that are not null only.
trait Cells: Send {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written;

    /// The row, `end` at most, before which all values from `row` on have the same text; None if nobody looks.
    fn run_end(&self, _row: usize, _end: usize) -> Option<usize> {
        None
    }
}

pub struct Column {
    nulls: Option<NullBuffer>,
    null: &'static [u8],
    cells: Box<dyn Cells>,
}

impl Column {
    /// `Err` names the type when it has no text.
    pub fn open(field: &Field, array: &ArrayRef, form: Form) -> Result<Self, String> {
        let is_json = field.metadata().get(TYPE_KEY).is_some_and(|kind| kind == "json");
        Self::open_data(&array.to_data(), is_json, form)
    }

    fn open_data(data: &ArrayData, is_json: bool, form: Form) -> Result<Self, String> {
        let cells = open_cells(data, is_json, form)?;
        let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Ok(Self { nulls, null: form.null(), cells })
    }

    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        if let Some(nulls) = &self.nulls
            && nulls.is_null(row)
        {
            out.extend_from_slice(self.null);
            return Ok(());
        }
        self.cells.write(row, out)
    }

    /// The row, `end` at most, before which all cells from `row` on have the same text; None for a column whose
    /// values are not expected to come in runs.
    pub fn run_end(&self, row: usize, end: usize) -> Option<usize> {
        let Some(nulls) = &self.nulls else { return self.cells.run_end(row, end) };
        let is_null = nulls.is_null(row);
        let same = self.cells.run_end(row, if is_null { row + 1 } else { end })?;
        let end = if is_null { end } else { same };
        Some((row + 1..end).find(|&other| nulls.is_null(other) != is_null).unwrap_or(end))
    }
}

/// The values of a column without nulls whose cells are what its 64-bit integers say.
pub fn plain_integers(array: &ArrayRef, form: Form) -> Option<ScalarBuffer<i64>> {
    use DataType::{Duration, Int64, Time64, Timestamp};
    let is_plain = match array.data_type() {
        Int64 | Time64(_) | Duration(_) => true,
        Timestamp(unit, _) => form.epoch.is_none_or(|epoch| epoch == *unit),
        _ => false,
    };
    let data = array.to_data();
    (is_plain && array.null_count() == 0)
        .then(|| ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len()))
}

fn open_cells(data: &ArrayData, is_json: bool, form: Form) -> Result<Box<dyn Cells>, String> {
    let kind = data.data_type();
    if kind.is_nested() || is_binary(kind) || (is_json && Text::new(data).is_some()) {
        let cells = open_structured(data, is_json, form.inner())?;
        return Ok(if form.is_csv { Box::new(Quoted { cells, json: Vec::new() }) } else { cells });
    }
    if let Some(strings) = Text::new(data) {
        let write = if form.is_csv { text::csv_field } else { text::json_string };
        return Ok(Box::new(Strings { strings, write }));
    }
    if let DataType::Dictionary(key, _) = kind {
        return open_dictionary(key, data, is_json, form);
    }
    open_plain(data, form)
}

fn is_binary(kind: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary};
    matches!(kind, Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

/// Types whose cells are a number, a word or, for decimals, a string of digits.
fn open_plain(data: &ArrayData, form: Form) -> Result<Box<dyn Cells>, String> {
    use DataType as T;
    let null = form.null();
    Ok(match data.data_type() {
        T::Null => Box::new(Nulls(null)),
        T::Boolean => Box::new(Booleans(make_array(data.clone()).as_boolean().values().clone())),
        T::Int8 => integers::<i8>(data),
        T::Int16 => integers::<i16>(data),
        T::Int32 | T::Date32 | T::Time32(_) => integers::<i32>(data),
        T::Int64 | T::Time64(_) | T::Duration(_) => integers::<i64>(data),
        T::UInt8 => integers::<u8>(data),
        T::UInt16 => integers::<u16>(data),
        T::UInt32 => integers::<u32>(data),
        T::UInt64 => scalars::<UInt64Type>(data, text::unsigned),
        T::Float16 => {
            scalars::<Float16Type>(data, move |value, out| text::short_float(value.to_f32(), null, out))
        }
        T::Float32 => scalars::<Float32Type>(data, move |value, out| text::short_float(value, null, out)),
        T::Float64 => scalars::<Float64Type>(data, move |value, out| text::float(value, null, out)),
        T::Date64 => {
            scalars::<Int64Type>(data, |value, out| text::integer(value.div_euclid(MS_PER_DAY), out))
        }
        T::Timestamp(unit, _) => timestamps(data, *unit, form.epoch),
        T::Interval(_) => open_interval(data, form),
        _ => return open_decimal(data, form),
    })
}

/// Intervals are text: as numbers they would be wider than what readers of JSON keep exactly.
fn open_interval(data: &ArrayData, form: Form) -> Box<dyn Cells> {
    let quote: &'static [u8] = if form.is_csv { b"" } else { b"\"" };
    match data.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => natives::<i32>(data, move |months, out| {
            text::interval(months, 0, 0, quote, out);
        }),
        DataType::Interval(IntervalUnit::DayTime) => {
            scalars::<IntervalDayTimeType>(data, move |value, out| {
                text::interval(0, value.days, i64::from(value.milliseconds) * NS_PER_MS, quote, out);
            })
        }
        _ => scalars::<IntervalMonthDayNanoType>(data, move |value, out| {
            text::interval(value.months, value.days, value.nanoseconds, quote, out);
        }),
    }
}

fn open_decimal(data: &ArrayData, form: Form) -> Result<Box<dyn Cells>, String> {
    use DataType as T;
    let quote: &'static [u8] = if form.is_csv { b"" } else { b"\"" };
    Ok(match *data.data_type() {
        T::Decimal32(_, scale) => decimals::<Decimal32Type>(data, quote, scale),
        T::Decimal64(_, scale) => decimals::<Decimal64Type>(data, quote, scale),
        T::Decimal128(_, scale) => decimals::<Decimal128Type>(data, quote, scale),
        T::Decimal256(_, scale) => scalars::<Decimal256Type>(data, move |value, out| {
            out.extend_from_slice(quote);
            text::wide_decimal(value, scale, out);
            out.extend_from_slice(quote);
        }),
        ref other => return Err(other.to_string()),
    })
}

fn integers<T: ArrowNativeType + Into<i64>>(data: &ArrayData) -> Box<dyn Cells> {
    natives::<T>(data, |value, out| text::integer(value.into(), out))
}

fn decimals<T: ArrowPrimitiveType>(data: &ArrayData, quote: &'static [u8], scale: i8) -> Box<dyn Cells>
where
    T::Native: Into<i128>,
{
    scalars::<T>(data, move |value, out| {
        out.extend_from_slice(quote);
        text::decimal(value.into(), scale, out);
        out.extend_from_slice(quote);
    })
}

fn timestamps(data: &ArrayData, unit: TimeUnit, epoch: Option<TimeUnit>) -> Box<dyn Cells> {
    let (from, to) = (ticks_per_second(unit), ticks_per_second(epoch.unwrap_or(unit)));
    if from == to {
        return integers::<i64>(data);
    }
    if from > to {
        return natives::<i64>(data, move |value, out| text::integer(value.div_euclid(from / to), out));
    }
    natives::<i64>(data, move |value, out| text::wide_integer(i128::from(value) * i128::from(to / from), out))
}

fn ticks_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

struct Nulls(&'static [u8]);

impl Cells for Nulls {
    fn write(&mut self, _: usize, out: &mut Vec<u8>) -> Written {
        out.extend_from_slice(self.0);
        Ok(())
    }
}

struct Booleans(arrow_buffer::BooleanBuffer);

impl Cells for Booleans {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        out.extend_from_slice(if self.0.value(row) { b"true" } else { b"false" });
        Ok(())
    }
}

struct Scalars<T: ArrowNativeType, F> {
    values: ScalarBuffer<T>,
    write: F,
}

impl<T: ArrowNativeType, F: Fn(T, &mut Vec<u8>) + Send> Cells for Scalars<T, F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        (self.write)(*self.values.get(row).ok_or(Damaged)?, out);
        Ok(())
    }
}

fn scalars<T: ArrowPrimitiveType>(
    data: &ArrayData,
    write: impl Fn(T::Native, &mut Vec<u8>) + Send + 'static,
) -> Box<dyn Cells> {
    natives::<T::Native>(data, write)
}

fn natives<T: ArrowNativeType>(
    data: &ArrayData,
    write: impl Fn(T, &mut Vec<u8>) + Send + 'static,
) -> Box<dyn Cells> {
    let values = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
    Box::new(Scalars { values, write })
}

struct Strings<F> {
    strings: Text,
    write: F,
}

impl<F: Fn(&[u8], &mut Vec<u8>) + Send> Cells for Strings<F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        (self.write)(self.strings.get(row).ok_or(Damaged)?, out);
        Ok(())
    }

    fn run_end(&self, row: usize, end: usize) -> Option<usize> {
        Some(self.strings.run_end(row, end))
    }
}

/// JSON as a field of a CSV line.
struct Quoted {
    cells: Box<dyn Cells>,
    json: Vec<u8>,
}

impl Cells for Quoted {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        self.json.clear();
        self.cells.write(row, &mut self.json)?;
        if self.json != b"null" {
            text::csv_field(&self.json, out);
        }
        Ok(())
    }
}

/// The values of a dictionary, each turned into text when it is first met.
struct Dictionary<K: ArrowNativeType> {
    keys: ScalarBuffer<K>,
    values: Column,
    length: usize,
    /// Where the text of each value begins and ends in `texts`; empty when there are more values than rows.
    spans: Vec<(usize, usize)>,
    texts: Vec<u8>,
}

const UNSEEN: (usize, usize) = (usize::MAX, 0);

fn open_dictionary(
    key: &DataType,
    data: &ArrayData,
    is_json: bool,
    form: Form,
) -> Result<Box<dyn Cells>, String> {
    Ok(match key {
        DataType::Int8 => Box::new(Dictionary::<i8>::open(data, is_json, form)?),
        DataType::Int16 => Box::new(Dictionary::<i16>::open(data, is_json, form)?),
        DataType::Int32 => Box::new(Dictionary::<i32>::open(data, is_json, form)?),
        DataType::Int64 => Box::new(Dictionary::<i64>::open(data, is_json, form)?),
        DataType::UInt8 => Box::new(Dictionary::<u8>::open(data, is_json, form)?),
        DataType::UInt16 => Box::new(Dictionary::<u16>::open(data, is_json, form)?),
        DataType::UInt32 => Box::new(Dictionary::<u32>::open(data, is_json, form)?),
        DataType::UInt64 => Box::new(Dictionary::<u64>::open(data, is_json, form)?),
        other => return Err(other.to_string()),
    })
}

impl<K: ArrowNativeType> Dictionary<K> {
    fn open(data: &ArrayData, is_json: bool, form: Form) -> Result<Self, String> {
        let entries = &data.child_data()[0];
        let keys = ScalarBuffer::<K>::new(data.buffers()[0].clone(), data.offset(), data.len());
        let values = Column::open_data(entries, is_json, form)?;
        let spans = if entries.len() <= data.len() { vec![UNSEEN; entries.len()] } else { Vec::new() };
        Ok(Self { keys, values, length: entries.len(), spans, texts: Vec::new() })
    }
}

impl<K: ArrowNativeType> Cells for Dictionary<K> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        let key = self.keys.get(row).ok_or(Damaged)?.as_usize();
        let Some(span) = self.spans.get_mut(key) else {
            return if key < self.length { self.values.write(key, out) } else { Err(Damaged) };
        };
        if *span == UNSEEN {
            let start = self.texts.len();
            self.values.write(key, &mut self.texts)?;
            *span = (start, self.texts.len());
        }
        text::append(&self.texts[span.0..span.1], out);
        Ok(())
    }

    fn run_end(&self, row: usize, end: usize) -> Option<usize> {
        Some(words_run_end(&self.keys, row, end))
    }
}

/// Types whose cells are arrays and objects; `form` is that of what is inside.
fn open_structured(data: &ArrayData, is_json: bool, form: Form) -> Result<Box<dyn Cells>, String> {
    if let (true, Some(strings)) = (is_json, Text::new(data)) {
        return Ok(Box::new(Strings { strings, write: embed }));
    }
    let array = make_array(data.clone());
    Ok(match data.data_type() {
        DataType::Dictionary(key, _) => return open_dictionary(key, data, is_json, form),
        DataType::Binary => {
            let array = array.as_binary::<i32>().clone();
            Box::new(Bytes(move |row, out: &mut Vec<u8>| byte_array(array.value(row), out)))
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>().clone();
            Box::new(Bytes(move |row, out: &mut Vec<u8>| byte_array(array.value(row), out)))
        }
        DataType::BinaryView => {
            let array = array.as_binary_view().clone();
            Box::new(Bytes(move |row, out: &mut Vec<u8>| byte_array(array.value(row), out)))
        }
        DataType::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary().clone();
            Box::new(Bytes(move |row, out: &mut Vec<u8>| byte_array(array.value(row), out)))
        }
        DataType::List(item) => open_list::<i32>(item, &array, form)?,
        DataType::LargeList(item) => open_list::<i64>(item, &array, form)?,
        DataType::ListView(item) => open_list_view::<i32>(item, &array, form)?,
        DataType::LargeListView(item) => open_list_view::<i64>(item, &array, form)?,
        DataType::FixedSizeList(item, size) => {
            let size = size.as_usize();
            let items = Column::open(item, array.as_fixed_size_list().values(), form)?;
            Box::new(List { items, span: move |row| Some(row * size..(row + 1) * size) })
        }
        DataType::Struct(_) => open_struct(&array, form)?,
        DataType::Map(_, _) => open_map(&array, form)?,
        other => return Err(other.to_string()),
    })
}

struct Bytes<F>(F);

impl<F: Fn(usize, &mut Vec<u8>) + Send> Cells for Bytes<F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        (self.0)(row, out);
        Ok(())
    }
}

fn byte_array(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, &byte) in bytes.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        text::unsigned(u64::from(byte), out);
    }
    out.push(b']');
}

/// Items one after the other; `span` says which belong to a row.
struct List<F> {
    items: Column,
    span: F,
}

impl<F: Fn(usize) -> Option<Range<usize>> + Send> Cells for List<F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        out.push(b'[');
        let span = (self.span)(row).ok_or(Damaged)?;
        let first = span.start;
        for item in span {
            if item > first {
                out.push(b',');
            }
            self.items.write(item, out)?;
        }
        out.push(b']');
        Ok(())
    }
}

fn open_list<O: OffsetSizeTrait>(
    item: &Field,
    array: &ArrayRef,
    form: Form,
) -> Result<Box<dyn Cells>, String> {
    let list = array.as_list::<O>();
    let items = Column::open(item, list.values(), form)?;
    let span = offset_span(list.offsets().inner().clone(), list.values().len());
    Ok(Box::new(List { items, span }))
}

fn open_list_view<O: OffsetSizeTrait>(
    item: &Field,
    array: &ArrayRef,
    form: Form,
) -> Result<Box<dyn Cells>, String> {
    let list = array.as_list_view::<O>();
    let items = Column::open(item, list.values(), form)?;
    let (offsets, sizes, length) = (list.offsets().clone(), list.sizes().clone(), list.values().len());
    let span = move |row: usize| {
        let start = offsets.get(row)?.as_usize();
        let end = start.checked_add(sizes.get(row)?.as_usize())?;
        (end <= length).then_some(start..end)
    };
    Ok(Box::new(List { items, span }))
}

fn offset_span<O: ArrowNativeType>(
    offsets: ScalarBuffer<O>,
    length: usize,
) -> impl Fn(usize) -> Option<Range<usize>> + Send {
    move |row| {
        let span = offsets.get(row)?.as_usize()..offsets.get(row + 1)?.as_usize();
        (span.end <= length).then_some(span)
    }
}

struct Struct {
    /// Each with its name in quotes and the colon.
    columns: Vec<(Vec<u8>, Column)>,
}

fn open_struct(array: &ArrayRef, form: Form) -> Result<Box<dyn Cells>, String> {
    let array = array.as_struct();
    let columns = array.fields().iter().zip(array.columns()).map(|(field, column)| {
        let column = Column::open(field, column, form)?;
        Ok((object_key(field.name()), column))
    });
    Ok(Box::new(Struct { columns: columns.collect::<Result<_, String>>()? }))
}

/// A name in quotes and the colon behind it.
pub fn object_key(name: &str) -> Vec<u8> {
    let mut key = Vec::new();
    text::json_string(name.as_bytes(), &mut key);
    key.push(b':');
    key
}

impl Cells for Struct {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        out.push(b'{');
        for (index, (key, column)) in self.columns.iter_mut().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(key);
            column.write(row, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

struct Map<F> {
    keys: Column,
    values: Column,
    span: F,
}

fn open_map(array: &ArrayRef, form: Form) -> Result<Box<dyn Cells>, String> {
    let map = array.as_map();
    let (key, value) = map.entries_fields();
    let (keys, values) = (Column::open(key, map.keys(), form)?, Column::open(value, map.values(), form)?);
    let span = offset_span(map.offsets().inner().clone(), map.entries().len());
    Ok(Box::new(Map { keys, values, span }))
}

impl<F: Fn(usize) -> Option<Range<usize>> + Send> Cells for Map<F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        out.push(b'{');
        let span = (self.span)(row).ok_or(Damaged)?;
        let first = span.start;
        for entry in span {
            if entry > first {
                out.push(b',');
            }
            let start = out.len();
            self.keys.write(entry, out)?;
            if out.get(start) != Some(&b'"') {
                // The name of a member of an object is a string, whatever the key is.
                let key = out.split_off(start);
                text::json_string(&key, out);
            }
            out.push(b':');
            self.values.write(entry, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}
