//! Columns of any Arrow type, opened for writing their cells as MySQL's text or binary protocol has them.
//!
//! | type | text | binary |
//! |---|---|---|
//! | boolean | `0`, `1` | one byte |
//! | integers | digits | little-endian, in their width |
//! | floats | shortest digits, `nan`, `inf`, `-inf` | as they are |
//! | strings, binary | as they are | as they are |
//! | decimal | digits | the same text |
//! | date, timestamp | `2024-01-30`, `2024-01-30 12:30:00.500000` | year, month, day, …, of the length they need |
//! | time, duration | `12:30:00.500000`, hours past 24 included | sign, days, hours, …, of the length they need |
//! | interval | words, as in `wire::text::value` | the same text |
//! | lists, struct, map | JSON | the same text |
//!
//! Text stands behind its length. Timestamps are taken as local times: the caller has added the offset of the zone.
//! A fraction of a second has six digits, or none when it is zero; what is finer than a microsecond is cut off, because
//! clients know nothing finer. Years outside of 0 to 9999 have no form and are refused.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, TimeUnit};

use crate::values::Text as Strings;
use crate::wire::text::column::{Column as Text, Form};
use crate::wire::text::value as text;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Why a cell cannot be written.
#[derive(Debug)]
pub enum Problem {
    /// An index or an offset points outside of the array it belongs to.
    Damaged,
    /// A date or timestamp whose year has not four digits.
    Year(i64),
}

pub type Written = Result<(), Problem>;

/// The values of a column; asked for rows that are not null only.
trait Cells: Send {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written;
}

pub struct Column {
    nulls: Option<NullBuffer>,
    cells: Box<dyn Cells>,
}

impl Column {
    /// `Err` names the type when it has no form.
    pub fn open(field: &Field, array: &ArrayRef, is_binary: bool) -> Result<Self, String> {
        let cells = open_cells(field, array, is_binary)?;
        Ok(Self { nulls: array.logical_nulls(), cells })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes a cell that is not null.
    pub fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        self.cells.write(row, out)
    }
}

fn open_cells(field: &Field, array: &ArrayRef, is_binary: bool) -> Result<Box<dyn Cells>, String> {
    use DataType as T;
    let data = array.to_data();
    if let Some(strings) = Strings::new(&data) {
        return Ok(Box::new(Bytes(move |row: usize, out: &mut Vec<u8>| {
            bytes(strings.get(row).ok_or(Problem::Damaged)?, out);
            Ok(())
        })));
    }
    Ok(match data.data_type() {
        T::Null => Box::new(Nothing),
        T::Boolean => Box::new(Booleans { values: array.as_boolean().values().clone(), is_binary }),
        T::Int8 => integers::<i8, 1>(&data, is_binary, i8::to_le_bytes),
        T::Int16 => integers::<i16, 2>(&data, is_binary, i16::to_le_bytes),
        T::Int32 => integers::<i32, 4>(&data, is_binary, i32::to_le_bytes),
        T::Int64 => integers::<i64, 8>(&data, is_binary, i64::to_le_bytes),
        T::UInt8 => integers::<u8, 1>(&data, is_binary, u8::to_le_bytes),
        T::UInt16 => integers::<u16, 2>(&data, is_binary, u16::to_le_bytes),
        T::UInt32 => integers::<u32, 4>(&data, is_binary, u32::to_le_bytes),
        T::UInt64 if is_binary => natives::<u64>(&data, |value, out| text::append(&value.to_le_bytes(), out)),
        T::UInt64 => natives::<u64>(&data, |value, out| short(out, |out| text::unsigned(value, out))),
        T::Float32 => narrow_floats(&data, is_binary),
        T::Float64 => floats(&data, is_binary),
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => open_bytes(&data),
        T::Decimal32(_, scale) => decimals::<Decimal32Type>(&data, *scale),
        T::Decimal64(_, scale) => decimals::<Decimal64Type>(&data, *scale),
        T::Decimal128(_, scale) => decimals::<Decimal128Type>(&data, *scale),
        T::Decimal256(_, scale) => {
            let scale = *scale;
            natives::<arrow_buffer::i256>(&data, move |value, out| {
                short(out, |out| text::wide_decimal(value, scale, out));
            })
        }
        T::Date32 => Box::new(Dates { values: scalars::<i32>(&data), is_binary }),
        T::Timestamp(unit, _) => Box::new(Timestamps {
            values: scalars::<i64>(&data),
            ticks: ticks_per_second(*unit),
            is_binary,
            day: i64::MIN,
            date: [0; 10],
        }),
        T::Time32(unit) => {
            let ticks = ticks_per_second(*unit);
            natives::<i32>(&data, move |value, out| span(value.into(), ticks, is_binary, out))
        }
        T::Time64(unit) | T::Duration(unit) => {
            let ticks = ticks_per_second(*unit);
            natives::<i64>(&data, move |value, out| span(value, ticks, is_binary, out))
        }
        // Without the quotes of JSON.
        T::Interval(_) => words(field, array, Form { is_csv: true, epoch: None })?,
        kind if kind.is_nested() && !matches!(kind, T::Dictionary(_, _)) => {
            words(field, array, Form { is_csv: false, epoch: None })?
        }
        other => return Err(other.to_string()),
    })
}

fn narrow_floats(data: &ArrayData, is_binary: bool) -> Box<dyn Cells> {
    if is_binary {
        return natives::<f32>(data, |value, out| text::append(&value.to_le_bytes(), out));
    }
    natives::<f32>(data, |value, out| {
        short(out, |out| {
            text::short_float(value, odd_float(value.into()), out);
            strip_zero(out);
        });
    })
}

fn floats(data: &ArrayData, is_binary: bool) -> Box<dyn Cells> {
    if is_binary {
        return natives::<f64>(data, |value, out| text::append(&value.to_le_bytes(), out));
    }
    natives::<f64>(data, |value, out| {
        short(out, |out| {
            text::float(value, odd_float(value), out);
            strip_zero(out);
        });
    })
}

struct Nothing;

impl Cells for Nothing {
    fn write(&mut self, _: usize, _: &mut Vec<u8>) -> Written {
        Err(Problem::Damaged)
    }
}

struct Booleans {
    values: BooleanBuffer,
    is_binary: bool,
}

impl Cells for Booleans {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        let value = u8::from(self.values.value(row));
        if self.is_binary {
            out.push(value);
        } else {
            text::append(&[1, b'0' + value], out);
        }
        Ok(())
    }
}

struct Natives<T: ArrowNativeType, F> {
    values: ScalarBuffer<T>,
    write: F,
}

impl<T: ArrowNativeType, F: Fn(T, &mut Vec<u8>) + Send> Cells for Natives<T, F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        (self.write)(*self.values.get(row).ok_or(Problem::Damaged)?, out);
        Ok(())
    }
}

fn scalars<T: ArrowNativeType>(data: &ArrayData) -> ScalarBuffer<T> {
    ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len())
}

fn natives<T: ArrowNativeType>(
    data: &ArrayData,
    write: impl Fn(T, &mut Vec<u8>) + Send + 'static,
) -> Box<dyn Cells> {
    Box::new(Natives { values: scalars::<T>(data), write })
}

fn integers<T: ArrowNativeType + Into<i64>, const N: usize>(
    data: &ArrayData,
    is_binary: bool,
    to_bytes: fn(T) -> [u8; N],
) -> Box<dyn Cells> {
    if is_binary {
        return natives::<T>(data, move |value, out| text::append(&to_bytes(value), out));
    }
    natives::<T>(data, |value, out| short(out, |out| text::integer(value.into(), out)))
}

fn decimals<T: ArrowPrimitiveType>(data: &ArrayData, scale: i8) -> Box<dyn Cells>
where
    T::Native: Into<i128>,
{
    natives::<T::Native>(data, move |value, out| short(out, |out| text::decimal(value.into(), scale, out)))
}

struct Bytes<F>(F);

impl<F: FnMut(usize, &mut Vec<u8>) -> Written + Send> Cells for Bytes<F> {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        (self.0)(row, out)
    }
}

fn open_bytes(data: &ArrayData) -> Box<dyn Cells> {
    let array = make_array(data.clone());
    Box::new(Bytes(move |row: usize, out: &mut Vec<u8>| {
        let value = match array.data_type() {
            DataType::Binary => array.as_binary::<i32>().value(row),
            DataType::LargeBinary => array.as_binary::<i64>().value(row),
            DataType::BinaryView => array.as_binary_view().value(row),
            _ => array.as_fixed_size_binary().value(row),
        };
        bytes(value, out);
        Ok(())
    }))
}

/// Cells that another encoder knows as text.
fn words(field: &Field, array: &ArrayRef, form: Form) -> Result<Box<dyn Cells>, String> {
    let mut column = Text::open(field, array, form)?;
    let mut cell = Vec::new();
    Ok(Box::new(Bytes(move |row: usize, out: &mut Vec<u8>| {
        cell.clear();
        column.write(row, &mut cell).map_err(|_| Problem::Damaged)?;
        bytes(&cell, out);
        Ok(())
    })))
}

/// Bytes behind their length.
pub fn bytes(value: &[u8], out: &mut Vec<u8>) {
    length(value.len() as u64, out);
    text::append(value, out);
}

/// A number in as few bytes as it needs: below 251 one, else a mark and two, three or eight.
pub fn length(value: u64, out: &mut Vec<u8>) {
    let all = value.to_le_bytes();
    match value {
        0..251 => out.push(all[0]),
        251..0x1_0000 => text::append(&[0xfc, all[0], all[1]], out),
        0x1_0000..0x100_0000 => text::append(&[0xfd, all[0], all[1], all[2]], out),
        _ => {
            out.push(0xfe);
            text::append(&all, out);
        }
    }
}

/// A text that has surely fewer than 251 bytes, behind its length.
#[inline]
fn short(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    write(out);
    out[at] = (out.len() - at - 1) as u8;
}

fn odd_float(value: f64) -> &'static [u8] {
    if value.is_nan() {
        b"nan"
    } else if value > 0.0 {
        b"inf"
    } else {
        b"-inf"
    }
}

/// `1024.0` is `1024` here.
fn strip_zero(out: &mut Vec<u8>) {
    if out.ends_with(b".0") {
        out.truncate(out.len() - 2);
    }
}

fn ticks_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Seconds, rounded down, and the microseconds behind them.
fn split(value: i64, ticks: i64) -> (i64, u32) {
    let rest = value.rem_euclid(ticks);
    let micros = if ticks > MICROS_PER_SECOND {
        rest / (ticks / MICROS_PER_SECOND)
    } else {
        rest * (MICROS_PER_SECOND / ticks)
    };
    (value.div_euclid(ticks), micros as u32)
}

/// Year, month and day of a day since 1970; the years of a cycle of 400 begin in March, so that a leap day is their last.
fn civil(day: i64) -> (i64, u8, u8) {
    let shifted = day + 719_468;
    let (cycle, of_cycle) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_cycle - of_cycle / 1_460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + i64::from(month <= 2), month as u8, day as u8)
}

fn date(day: i64) -> Result<(u16, u8, u8), Problem> {
    let (year, month, day) = civil(day);
    match u16::try_from(year) {
        Ok(short) if short <= 9999 => Ok((short, month, day)),
        _ => Err(Problem::Year(year)),
    }
}

fn date_text((year, month, day): (u16, u8, u8)) -> [u8; 10] {
    let mut out = *b"0000-00-00";
    out[0] += (year / 1000) as u8;
    out[1] += (year / 100 % 10) as u8;
    out[2] += (year / 10 % 10) as u8;
    out[3] += (year % 10) as u8;
    two_digits(month, &mut out[5..7]);
    two_digits(day, &mut out[8..10]);
    out
}

fn two_digits(value: u8, out: &mut [u8]) {
    out[0] = b'0' + value / 10;
    out[1] = b'0' + value % 10;
}

struct Dates {
    values: ScalarBuffer<i32>,
    is_binary: bool,
}

impl Cells for Dates {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        let (year, month, day) = date((*self.values.get(row).ok_or(Problem::Damaged)?).into())?;
        if self.is_binary {
            let [low, high] = year.to_le_bytes();
            text::append(&[4, low, high, month, day], out);
        } else {
            bytes(&date_text((year, month, day)), out);
        }
        Ok(())
    }
}

struct Timestamps {
    values: ScalarBuffer<i64>,
    ticks: i64,
    is_binary: bool,
    /// The day whose text is in `date`: neighbours are mostly of the same one.
    day: i64,
    date: [u8; 10],
}

impl Cells for Timestamps {
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Written {
        let (seconds, micros) = split(*self.values.get(row).ok_or(Problem::Damaged)?, self.ticks);
        let (day, of_day) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
        let clock = [of_day / 3_600, of_day / 60 % 60, of_day % 60].map(|part| part as u8);
        if self.is_binary {
            return binary_timestamp(date(day)?, clock, micros, out);
        }
        if day != self.day {
            self.date = date_text(date(day)?);
            self.day = day;
        }
        short(out, |out| {
            text::append(&self.date, out);
            out.push(b' ');
            clock_text(clock, micros, out);
        });
        Ok(())
    }
}

fn clock_text(clock: [u8; 3], micros: u32, out: &mut Vec<u8>) {
    let mut text = *b"00:00:00.000000";
    for (at, part) in clock.into_iter().enumerate() {
        two_digits(part, &mut text[3 * at..3 * at + 2]);
    }
    if micros == 0 {
        text::append(&text[..8], out);
        return;
    }
    let mut rest = micros;
    for digit in text[9..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text::append(&text, out);
}

fn binary_timestamp(
    (year, month, day): (u16, u8, u8),
    clock: [u8; 3],
    micros: u32,
    out: &mut Vec<u8>,
) -> Written {
    let [low, high] = year.to_le_bytes();
    let size = match (clock, micros) {
        ([0, 0, 0], 0) => 4,
        (_, 0) => 7,
        _ => 11,
    };
    text::append(&[size, low, high, month, day], out);
    if size > 4 {
        text::append(&clock, out);
    }
    if size > 7 {
        text::append(&micros.to_le_bytes(), out);
    }
    Ok(())
}

/// A time of a day, or a stretch of time of any length and sign.
fn span(value: i64, ticks: i64, is_binary: bool, out: &mut Vec<u8>) {
    let is_negative = value < 0;
    // The magnitude of the least value has one bit too many; a microsecond less is nothing to 292 years.
    let (seconds, micros) = split(value.checked_abs().unwrap_or(i64::MAX), ticks);
    let clock = [seconds / 60 % 60, seconds % 60].map(|part| part as u8);
    if !is_binary {
        short(out, |out| {
            if is_negative {
                out.push(b'-');
            }
            let hours = seconds / 3_600;
            if hours < 100 {
                clock_text([hours as u8, clock[0], clock[1]], micros, out);
            } else {
                text::integer(hours, out);
                let at = out.len();
                clock_text([0, clock[0], clock[1]], micros, out);
                out.drain(at..at + 2);
            }
        });
        return;
    }
    if seconds == 0 && micros == 0 {
        out.push(0);
        return;
    }
    let days = u32::try_from(seconds / SECONDS_PER_DAY).unwrap_or(u32::MAX);
    let hours = (seconds / 3_600 % 24) as u8;
    out.push(if micros == 0 { 8 } else { 12 });
    out.push(u8::from(is_negative));
    text::append(&days.to_le_bytes(), out);
    text::append(&[hours, clock[0], clock[1]], out);
    if micros != 0 {
        text::append(&micros.to_le_bytes(), out);
    }
}
