//! The framed bytes that a tag column contributes to the series keys of its rows.
//!
//! A frame is `name 0xFF value 0xFF`; a null contributes no frame. A string's value is its UTF-8 bytes. Any
//! other value is `0xFE kind payload`, where the kind fixes the length of the payload (integers are
//! little-endian):
//!
//! | kind | values | payload |
//! |---|---|---|
//! | `b` | booleans | 1 byte, 0 or 1 |
//! | `i` | integers of any width below 2^63 | 8 bytes, two's complement |
//! | `u` | integers from 2^63 | 8 bytes |
//! | `d` | dates | 4 bytes, days since 1970-01-01, two's complement |
//! | `t` | timestamps of any unit | 8 bytes seconds since 1970-01-01 (rounded down), 4 bytes nanoseconds |
//!
//! A concatenation of frames can be taken apart again in one way only: 0xFE and 0xFF occur in no UTF-8 text,
//! so the first 0xFF ends the name, the byte after it tells a string from the rest, and each kind has one
//! length. Hence two rows have equal keys only if they have equal tags. The payload depends on the value and
//! not on the width or the unit of its column, so widening a column (`int32` to `int64`, `uint32` to `int64`,
//! `timestamp[s]` to `timestamp[ns]`) keeps every key; the time zone of a timestamp column is a matter of
//! display and not part of it.
//!
//! [`TagFrames`] is a window on one column: `load` a range of rows, then read `slots` and `frame`. A slot
//! names a frame within the window, 0 is the null. Equal slots mean equal frames; neighbouring rows with
//! equal values get equal slots, which lets the caller see repetitions without comparing bytes.

use std::ops::Range;

use arrow_buffer::NullBuffer;
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::values::{Text, Words};

const END: u8 = 0xFF;
const NOT_TEXT: u8 = 0xFE;

/// A window on one tag column; see the head of this file.
pub struct TagFrames {
    name: String,
    nulls: Option<NullBuffer>,
    source: Source,
    frames: Frames,
    slots: Vec<u32>,
    /// Scratch of `load`: the words or codes of the window.
    words: Vec<i64>,
}

enum Source {
    AllNull,
    /// The frames hold the whole dictionary, made once; entry `code` has slot `code + 1`.
    Framed {
        codes: Words,
        entries: usize,
    },
    /// A dictionary with more entries than the column has rows: only those that occur are framed.
    Coded {
        codes: Words,
        entries: ArrayText,
    },
    Text(Text),
    Fixed {
        words: Words,
        kind: Kind,
    },
}

/// The strings of a dictionary, some of which may be null.
struct ArrayText {
    text: Text,
    nulls: Option<NullBuffer>,
    len: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    Boolean,
    Signed,
    Unsigned,
    Date,
    Timestamp { ticks_per_second: i64 },
}

impl TagFrames {
    pub fn new(name: String, data: &ArrayData) -> PyResult<Self> {
        let mut frames = Frames::new(&name);
        let source = match data.data_type() {
            DataType::Null => Some(Source::AllNull),
            DataType::Dictionary(key, _) => dictionary(&name, data, key, &mut frames)?,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Text::new(data).map(Source::Text),
            _ => fixed(data),
        };
        let source = source.ok_or_else(|| unsupported(&name, data.data_type()))?;
        let nulls = data.nulls().cloned();
        Ok(Self { name, nulls, source, frames, slots: Vec::new(), words: Vec::new() })
    }

    /// Moves the window to `rows`, which must lie within the column.
    pub fn load(&mut self, rows: Range<usize>) -> PyResult<()> {
        let Self { name, nulls, source, frames, slots, words } = self;
        let start = rows.start;
        let is_null = |index: usize| has_null_at(nulls.as_ref(), start + index);
        slots.clear();
        match source {
            Source::AllNull => slots.resize(rows.len(), 0),
            Source::Framed { codes, entries } => {
                codes.widen(rows, words);
                for (index, &code) in words.iter().enumerate() {
                    slots.push(match is_null(index) {
                        true => 0,
                        false => check_code(name, start + index, code, *entries)? as u32 + 1,
                    });
                }
            }
            Source::Coded { codes, entries } => {
                frames.clear();
                codes.widen(rows, words);
                for (index, &code) in words.iter().enumerate() {
                    let value = match is_null(index) {
                        true => None,
                        false => entries.get(name, check_code(name, start + index, code, entries.len)?)?,
                    };
                    slots.push(frames.slot_of_text(value));
                }
            }
            Source::Text(text) => {
                frames.clear();
                for index in 0..rows.len() {
                    let value = match is_null(index) {
                        true => None,
                        false => Some(text.get(start + index).ok_or_else(|| damaged(name, start + index))?),
                    };
                    slots.push(frames.slot_of_text(value));
                }
            }
            Source::Fixed { words: values, kind } => {
                frames.clear();
                values.widen(rows, words);
                for (index, &word) in words.iter().enumerate() {
                    slots.push(if is_null(index) { 0 } else { frames.slot_of_word(*kind, word) });
                }
            }
        }
        Ok(())
    }

    /// One slot per row of the window.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// The frame of a row of the window, empty for a null.
    #[inline]
    pub fn frame(&self, index: usize) -> &[u8] {
        self.frames.get(self.slots[index])
    }
}

impl ArrayText {
    fn get(&self, name: &str, row: usize) -> PyResult<Option<&[u8]>> {
        if has_null_at(self.nulls.as_ref(), row) {
            return Ok(None);
        }
        self.text.get(row).map(Some).ok_or_else(|| damaged(name, row))
    }
}

fn has_null_at(nulls: Option<&NullBuffer>, row: usize) -> bool {
    nulls.is_some_and(|nulls| nulls.is_null(row))
}

fn dictionary(name: &str, data: &ArrayData, key: &DataType, frames: &mut Frames) -> PyResult<Option<Source>> {
    let [entries] = data.child_data() else {
        return Ok(None);
    };
    let (Some(codes), Some(text)) = (Words::new(data, key), Text::new(entries)) else {
        return Ok(None);
    };
    let entries = ArrayText { text, nulls: entries.nulls().cloned(), len: entries.len() };
    if entries.len > data.len() || entries.len >= u32::MAX as usize {
        return Ok(Some(Source::Coded { codes, entries }));
    }
    for code in 0..entries.len {
        frames.push_text(entries.get(name, code)?);
    }
    Ok(Some(Source::Framed { codes, entries: entries.len }))
}

fn fixed(data: &ArrayData) -> Option<Source> {
    let kind = match data.data_type() {
        DataType::Boolean => Kind::Boolean,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Kind::Signed,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => Kind::Unsigned,
        DataType::Date32 => Kind::Date,
        DataType::Timestamp(unit, _) => Kind::Timestamp { ticks_per_second: ticks_per_second(unit) },
        _ => return None,
    };
    let words = Words::new(data, data.data_type())?;
    Some(Source::Fixed { words, kind })
}

fn ticks_per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Frames one behind the other; slot 0 is the empty frame.
struct Frames {
    prefix: Vec<u8>,
    bytes: Vec<u8>,
    /// Frame `slot` is `bytes[bounds[slot]..bounds[slot + 1]]`.
    bounds: Vec<usize>,
}

impl Frames {
    fn new(name: &str) -> Self {
        let mut prefix = name.as_bytes().to_vec();
        prefix.push(END);
        Self { prefix, bytes: Vec::new(), bounds: vec![0, 0] }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bounds.truncate(2);
    }

    #[inline]
    fn get(&self, slot: u32) -> &[u8] {
        let slot = slot as usize;
        &self.bytes[self.bounds[slot]..self.bounds[slot + 1]]
    }

    /// Appends a frame, also for a null, so that the frames of a dictionary are in step with its codes.
    fn push_text(&mut self, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.bytes.extend_from_slice(&self.prefix);
            self.bytes.extend_from_slice(value);
            self.bytes.push(END);
        }
        self.bounds.push(self.bytes.len());
    }

    fn slot_of_text(&mut self, value: Option<&[u8]>) -> u32 {
        if value.is_none() {
            return 0;
        }
        self.push_text(value);
        self.newest_slot()
    }

    fn slot_of_word(&mut self, kind: Kind, word: i64) -> u32 {
        self.bytes.extend_from_slice(&self.prefix);
        self.bytes.push(NOT_TEXT);
        push_word(&mut self.bytes, kind, word);
        self.bytes.push(END);
        self.bounds.push(self.bytes.len());
        self.newest_slot()
    }

    /// The slot of the frame that was just appended, or of the one before if that is the same, then the new
    /// one is taken back.
    fn newest_slot(&mut self) -> u32 {
        let newest = self.bounds.len() as u32 - 2;
        if newest > 1 && self.get(newest) == self.get(newest - 1) {
            self.bounds.pop();
            self.bytes.truncate(self.bounds[newest as usize]);
            return newest - 1;
        }
        newest
    }
}

fn push_word(bytes: &mut Vec<u8>, kind: Kind, word: i64) {
    match kind {
        Kind::Boolean => bytes.extend_from_slice(&[b'b', word as u8]),
        Kind::Unsigned if word < 0 => push_tagged(bytes, b'u', word),
        Kind::Signed | Kind::Unsigned => push_tagged(bytes, b'i', word),
        Kind::Date => {
            bytes.push(b'd');
            bytes.extend_from_slice(&(word as i32).to_le_bytes());
        }
        Kind::Timestamp { ticks_per_second } => {
            let nanoseconds = word.rem_euclid(ticks_per_second) * (1_000_000_000 / ticks_per_second);
            push_tagged(bytes, b't', word.div_euclid(ticks_per_second));
            bytes.extend_from_slice(&(nanoseconds as u32).to_le_bytes());
        }
    }
}

fn push_tagged(bytes: &mut Vec<u8>, tag: u8, word: i64) {
    bytes.push(tag);
    bytes.extend_from_slice(&word.to_le_bytes());
}

#[inline]
fn check_code(name: &str, row: usize, code: i64, entries: usize) -> PyResult<usize> {
    // A negative code is a huge one here, and refused with the others.
    match usize::try_from(code as u64) {
        Ok(code) if code < entries => Ok(code),
        _ => Err(PyValueError::new_err(format!(
            "column {name:?}, row {row}: dictionary code {code} is outside of the {entries} entries"
        ))),
    }
}

fn damaged(name: &str, row: usize) -> PyErr {
    PyValueError::new_err(format!("column {name:?}, entry {row}: the string lies outside of its buffer"))
}

fn unsupported(name: &str, data_type: &DataType) -> PyErr {
    PyTypeError::new_err(format!(
        "column {name:?} of type {data_type} cannot be a tag; tags are strings, dictionaries of strings, \
         booleans, integers, dates or timestamps"
    ))
}
