//! The rows of one measurement while a body is read: series, times, and one column per field.

use std::collections::{HashMap, HashSet};

use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::series::{KeyEntry, Measurement};

const UNSEEN: u32 = u32::MAX;
/// For so many columns, and so many rows of each, memory is set aside before they come.
const RESERVED_COLUMNS_MAX: usize = 64;
const RESERVED_ROWS_MAX: usize = 1 << 16;
/// With fewer bytes of body per known series, a map is smaller than a place for every series.
const DENSE_BYTES_MIN: usize = 4;

/// A value of a field, its text still where it stands in the body, or with its escapes undone.
pub enum Value<'a> {
    Float(f64),
    Int(i64),
    Uint(u64),
    Bool(bool),
    Text(&'a [u8]),
}

enum Values {
    Float(Vec<f64>),
    Int(Vec<i64>),
    Uint(Vec<u64>),
    Bool(Vec<bool>),
    Text { ends: Vec<i32>, bytes: Vec<u8> },
}

pub struct Column {
    pub name: String,
    /// The name as first written and its `=`: most rows write it the same way.
    pub raw: Vec<u8>,
    values: Values,
    missing: Vec<u32>,
}

impl Value<'_> {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Float(_) => "Float64",
            Self::Int(_) => "Int64",
            Self::Uint(_) => "UInt64",
            Self::Bool(_) => "Boolean",
            Self::Text(_) => "String",
        }
    }

    fn empty_column(&self, rows: usize) -> Values {
        match self {
            Self::Float(_) => Values::Float(Vec::with_capacity(rows)),
            Self::Int(_) => Values::Int(Vec::with_capacity(rows)),
            Self::Uint(_) => Values::Uint(Vec::with_capacity(rows)),
            Self::Bool(_) => Values::Bool(Vec::with_capacity(rows)),
            Self::Text(_) => Values::Text { ends: Vec::with_capacity(rows), bytes: Vec::new() },
        }
    }
}

impl Column {
    pub fn new(name: String, raw: Vec<u8>, value: &Value<'_>, rows: usize) -> Self {
        Self { name, raw, values: value.empty_column(rows), missing: Vec::new() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match &self.values {
            Values::Float(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Uint(values) => values.len(),
            Values::Bool(values) => values.len(),
            Values::Text { ends, .. } => ends.len(),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self.values {
            Values::Float(_) => "Float64",
            Values::Int(_) => "Int64",
            Values::Uint(_) => "UInt64",
            Values::Bool(_) => "Boolean",
            Values::Text { .. } => "String",
        }
    }

    /// Adds the value of a row that has none yet; false if the column is of another type.
    #[inline(always)]
    pub fn push(&mut self, row: usize, value: &Value<'_>) -> bool {
        if self.len() < row {
            self.fill(row);
        }
        match (&mut self.values, value) {
            (Values::Float(values), Value::Float(value)) => values.push(*value),
            (Values::Int(values), Value::Int(value)) => values.push(*value),
            (Values::Uint(values), Value::Uint(value)) => values.push(*value),
            (Values::Bool(values), Value::Bool(value)) => values.push(*value),
            (Values::Text { ends, bytes }, Value::Text(value)) => {
                bytes.extend_from_slice(value);
                ends.push(bytes.len() as i32);
            }
            _ => return false,
        }
        true
    }

    /// Makes the rows before `row` that have no value null.
    #[cold]
    fn fill(&mut self, row: usize) {
        self.missing.extend(self.len() as u32..row as u32);
        match &mut self.values {
            Values::Float(values) => values.resize(row, 0.0),
            Values::Int(values) => values.resize(row, 0),
            Values::Uint(values) => values.resize(row, 0),
            Values::Bool(values) => values.resize(row, false),
            Values::Text { ends, bytes } => ends.resize(row, bytes.len() as i32),
        }
    }

    pub fn finish(mut self, rows: usize) -> (String, ArrayData) {
        if self.len() < rows {
            self.fill(rows);
        }
        let nulls = validity(&self.missing, rows);
        let (kind, buffers) = match self.values {
            Values::Float(values) => (DataType::Float64, vec![buffer(values)]),
            Values::Int(values) => (DataType::Int64, vec![buffer(values)]),
            Values::Uint(values) => (DataType::UInt64, vec![buffer(values)]),
            Values::Bool(values) => {
                let mut bits = BooleanBufferBuilder::new(rows);
                values.iter().for_each(|&value| bits.append(value));
                (DataType::Boolean, vec![bits.finish().into_inner()])
            }
            Values::Text { ends, bytes } => (DataType::Utf8, vec![offsets(&ends), buffer(bytes)]),
        };
        // SAFETY: every buffer has `rows` values; the text is cut at the ends of whole values of a body that was
        // found to be UTF-8 and the offsets ascend.
        let data =
            unsafe { ArrayData::builder(kind).len(rows).nulls(nulls).buffers(buffers).build_unchecked() };
        (self.name, data)
    }
}

/// The rows of one measurement.
pub struct Rows {
    pub measurement: u32,
    pub columns: Vec<Column>,
    by_name: HashMap<Box<[u8]>, usize>,
    positions: Positions,
    /// The distinct series, in order of appearance, and for each row its place among them.
    series: Vec<u32>,
    index: Vec<u32>,
    times: Vec<i64>,
    lines: Vec<i64>,
    shapes_seen: Vec<bool>,
    tags: Vec<u32>,
    tags_seen: HashSet<u32>,
    order: Vec<Place>,
    rows_expected: usize,
}

enum Place {
    Tag(u32),
    Field(usize),
    Time,
}

enum Positions {
    Dense(Vec<u32>),
    Sparse(HashMap<u32, u32>),
}

/// The same when the body is read to its end.
pub struct Finished {
    pub measurement: u32,
    pub name: String,
    pub series_bound: usize,
    pub tag_names: Vec<String>,
    pub columns: Vec<String>,
    pub series: Vec<u32>,
    pub index: Vec<u32>,
    pub times: Vec<i64>,
    pub lines: Vec<i64>,
    pub fields: Vec<(String, ArrayData)>,
}

impl Rows {
    pub fn new(measurement: u32, series_known: usize, body_bytes: usize, rows_expected: usize) -> Self {
        let rows_expected = rows_expected.min(RESERVED_ROWS_MAX);
        let positions = match series_known * DENSE_BYTES_MIN > body_bytes {
            true => Positions::Sparse(HashMap::new()),
            false => Positions::Dense(vec![UNSEEN; series_known]),
        };
        Self {
            measurement,
            columns: Vec::new(),
            by_name: HashMap::new(),
            positions,
            series: Vec::new(),
            index: Vec::with_capacity(rows_expected),
            times: Vec::with_capacity(rows_expected),
            lines: Vec::with_capacity(rows_expected),
            shapes_seen: Vec::new(),
            tags: Vec::new(),
            tags_seen: HashSet::new(),
            order: Vec::new(),
            rows_expected,
        }
    }

    #[inline]
    pub fn row(&self) -> usize {
        self.times.len()
    }

    /// Begins a row; the first of its shape brings tags, whose names are returned if a field has one of them.
    #[inline]
    pub fn begin<'m>(&mut self, entry: KeyEntry, measurement: &'m Measurement) -> Result<(), &'m str> {
        if !self.shapes_seen.get(entry.shape as usize).is_some_and(|&seen| seen) {
            self.add_shape(entry.shape as usize, measurement)?;
        }
        let position = self.position_of(entry.series);
        self.index.push(position);
        Ok(())
    }

    #[cold]
    fn add_shape<'m>(&mut self, shape: usize, measurement: &'m Measurement) -> Result<(), &'m str> {
        if self.shapes_seen.len() <= shape {
            self.shapes_seen.resize(shape + 1, false);
        }
        self.shapes_seen[shape] = true;
        for &tag in &measurement.shapes[shape] {
            if !self.tags_seen.insert(tag) {
                continue;
            }
            let name = &measurement.tags[tag as usize].name;
            if self.by_name.contains_key(name.as_bytes()) {
                return Err(name);
            }
            self.tags.push(tag);
            self.order.push(Place::Tag(tag));
        }
        Ok(())
    }

    #[inline]
    fn position_of(&mut self, series: u32) -> u32 {
        let next = self.series.len() as u32;
        let position = match &mut self.positions {
            Positions::Dense(places) => {
                if places.len() <= series as usize {
                    places.resize(series as usize + 1, UNSEEN);
                }
                &mut places[series as usize]
            }
            Positions::Sparse(places) => places.entry(series).or_insert(UNSEEN),
        };
        if *position == UNSEEN {
            *position = next;
            self.series.push(series);
        }
        *position
    }

    /// How many values the columns of tags would have, counting those that series lack.
    pub fn tag_cells(&self) -> usize {
        self.tags.len() * self.series.len()
    }

    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Adds a column; None if the name is that of a tag.
    pub fn add_column(
        &mut self,
        name: String,
        raw: Vec<u8>,
        value: &Value<'_>,
        measurement: &Measurement,
    ) -> Option<usize> {
        if measurement.find_tag(&name).is_some_and(|tag| self.tags_seen.contains(&tag)) {
            return None;
        }
        let position = self.columns.len();
        self.by_name.insert(name.as_bytes().into(), position);
        let expected = if position < RESERVED_COLUMNS_MAX { self.rows_expected } else { 0 };
        self.columns.push(Column::new(name, raw, value, expected));
        self.order.push(Place::Field(position));
        Some(position)
    }

    #[inline]
    pub fn end(&mut self, time: i64, line: usize) {
        if self.times.is_empty() {
            self.order.push(Place::Time);
        }
        self.times.push(time);
        self.lines.push(line as i64);
    }

    pub fn finish(self, measurement: &Measurement) -> Finished {
        let tag_name = |tag: u32| measurement.tags[tag as usize].name.clone();
        let columns = self
            .order
            .iter()
            .map(|place| match place {
                Place::Tag(tag) => tag_name(*tag),
                Place::Field(position) => self.columns[*position].name.clone(),
                Place::Time => String::new(),
            })
            .collect();
        let rows = self.times.len();
        Finished {
            measurement: self.measurement,
            name: measurement.name.clone(),
            series_bound: measurement.series.len(),
            tag_names: self.tags.iter().map(|&tag| tag_name(tag)).collect(),
            columns,
            series: self.series,
            index: fitted(self.index),
            times: fitted(self.times),
            lines: fitted(self.lines),
            fields: self.columns.into_iter().map(|column| column.finish(rows)).collect(),
        }
    }
}

/// What is handed out may live long: it must not hold much more memory than it needs.
fn fitted<T>(mut values: Vec<T>) -> Vec<T> {
    if values.capacity() > values.len() + values.len() / 8 + 64 {
        values.shrink_to_fit();
    }
    values
}

fn buffer<T: arrow_buffer::ArrowNativeType>(values: Vec<T>) -> Buffer {
    Buffer::from_vec(fitted(values))
}

fn offsets(ends: &[i32]) -> Buffer {
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.extend_from_slice(ends);
    Buffer::from_vec(offsets)
}

fn validity(missing: &[u32], rows: usize) -> Option<NullBuffer> {
    if missing.is_empty() {
        return None;
    }
    let mut bits = BooleanBufferBuilder::new(rows);
    bits.append_n(rows, true);
    missing.iter().for_each(|&row| bits.set_bit(row as usize, false));
    Some(NullBuffer::new(bits.finish()))
}
