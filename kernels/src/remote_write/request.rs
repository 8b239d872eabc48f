//! A request of either version, read into columns; its series still as the bytes of their labels.
//!
//! An entry is one message `TimeSeries`. Its key is what `TimeSeries` of version 1 would have for its labels: fields
//! `Label` of number 1, in the order in which they came. Version 1 mostly has them as one stretch, which is then
//! borrowed; version 2 names strings by number, and its keys are put together in one buffer.
//!
//! Exemplars and what is not known are skipped.

use std::ops::Range;

use crate::protobuf::{
    Fields, Malformed, Value, each_varint, malformed, put_bytes, put_varint, read_varint, varint_length,
};
use crate::remote_write::histogram;
use crate::remote_write::names::{name_v1, name_v2};

/// Where the key of an entry is.
#[derive(Clone, Debug)]
pub enum Key {
    Body(Range<usize>),
    Made(Range<usize>),
}

/// One `TimeSeries`: the rows it has.
pub struct Entry {
    pub key: Key,
    /// Which of the request's entries it is, from 0.
    pub place: u32,
    pub samples: u32,
    pub histograms: u32,
}

/// What is known of a metric.
pub struct Metadata {
    pub family: Family,
    pub kind: u32,
    pub help: String,
    pub unit: String,
}

/// Which metric that is: by its name, or as the metric of an entry, by its position among those with rows.
pub enum Family {
    Name(String),
    Entry(usize),
}

#[derive(Default)]
pub struct Columns {
    pub entries: Vec<Entry>,
    pub times: Vec<i64>,
    pub values: Vec<f64>,
    pub histogram_times: Vec<i64>,
    pub histograms: Vec<Vec<u8>>,
    pub metadata: Vec<Metadata>,
    /// Keys that are no stretch of the body.
    pub made: Vec<u8>,
    /// How many `TimeSeries` there were, those without rows included.
    pub places: u32,
}

impl Columns {
    pub fn key<'a>(&'a self, entry: &Entry, body: &'a [u8]) -> &'a [u8] {
        match &entry.key {
            Key::Body(range) => &body[range.clone()],
            Key::Made(range) => &self.made[range.clone()],
        }
    }
}

/// Reads `prometheus.WriteRequest`.
pub fn read_v1(body: &[u8]) -> Result<Columns, Malformed> {
    let mut columns = Columns::default();
    let mut fields = Fields::of(body);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => {
                let message = value.bytes("a series")?;
                let start = fields.position() - message.len();
                columns.series_v1(message, start).map_err(|error| columns.locate(error))?;
                columns.places += 1;
            }
            3 => columns.metadata.push(metadata_v1(value.bytes("metadata")?)?),
            _ => {}
        }
    }
    Ok(columns)
}

/// Reads `io.prometheus.write.v2.Request`.
pub fn read_v2(body: &[u8]) -> Result<Columns, Malformed> {
    let symbols = read_symbols(body)?;
    let mut columns = Columns::default();
    let mut fields = Fields::of(body);
    while let Some((number, value)) = fields.next()? {
        if number == 5 {
            let message = value.bytes("a series")?;
            columns.series_v2(message, &symbols).map_err(|error| columns.locate(error))?;
            columns.places += 1;
        }
    }
    Ok(columns)
}

fn read_symbols(body: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let mut symbols = Vec::new();
    let mut fields = Fields::of(body);
    while let Some((number, value)) = fields.next()? {
        if number == 4 {
            symbols.push(value.bytes("a symbol")?);
        }
    }
    match symbols.first() {
        Some(first) if !first.is_empty() => malformed("the first symbol is not the empty string"),
        _ => Ok(symbols),
    }
}

impl Columns {
    fn locate(&self, error: Malformed) -> Malformed {
        Malformed(format!("series {}: {error}", self.places))
    }

    fn series_v1(&mut self, message: &[u8], start: usize) -> Result<(), Malformed> {
        let (samples, histograms) = (self.times.len(), self.histograms.len());
        // The stretch of labels at the beginning; once labels follow something else, they are put together.
        let (mut stretch, mut is_stretch) = (skip_labels(message), true);
        let mut fields = Fields::at(message, stretch);
        let made = self.made.len();
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => {
                    let label = value.bytes("a label")?;
                    if is_stretch && stretch_ends_here(stretch, fields.position(), label.len()) {
                        stretch = fields.position();
                    } else {
                        if is_stretch {
                            self.made.extend_from_slice(&message[..stretch]);
                            is_stretch = false;
                        }
                        put_bytes(1, label, &mut self.made);
                    }
                }
                2 => self.sample(value.bytes("a sample")?)?,
                4 => self.histogram(value.bytes("a histogram")?, || name_v1(message))?,
                _ => {}
            }
        }
        let key =
            if is_stretch { Key::Body(start..start + stretch) } else { Key::Made(made..self.made.len()) };
        self.end_entry(key, samples, histograms);
        Ok(())
    }

    fn series_v2(&mut self, message: &[u8], symbols: &[&[u8]]) -> Result<(), Malformed> {
        let (samples, histograms) = (self.times.len(), self.histograms.len());
        let mut references = Vec::new();
        let mut metadata = None;
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => each_varint(value, "a reference", |reference| references.push(reference))?,
                2 => self.sample(value.bytes("a sample")?)?,
                3 => self.histogram(value.bytes("a histogram")?, || name_v2(message, symbols))?,
                5 => metadata = Some(value.bytes("metadata")?),
                _ => {}
            }
        }
        if self.times.len() > samples && self.histograms.len() > histograms {
            return malformed("it has both samples and native histograms");
        }
        let made = self.made.len();
        self.put_labels(&references, symbols)?;
        let entry = self.entries.len();
        self.end_entry(Key::Made(made..self.made.len()), samples, histograms);
        if let Some(message) = metadata.filter(|_| self.entries.len() > entry) {
            self.metadata.extend(metadata_v2(message, symbols, entry)?);
        }
        Ok(())
    }

    /// Writes the labels that references name as version 1 would.
    fn put_labels(&mut self, references: &[u64], symbols: &[&[u8]]) -> Result<(), Malformed> {
        if !references.len().is_multiple_of(2) {
            return malformed(format!("it has {} references, an odd number", references.len()));
        }
        for pair in references.chunks_exact(2) {
            let (name, value) = (find_symbol(pair[0], symbols)?, find_symbol(pair[1], symbols)?);
            let size = |text: &[u8]| 1 + varint_length(text.len() as u64) + text.len();
            self.made.push(1 << 3 | 2);
            put_varint((size(name) + size(value)) as u64, &mut self.made);
            put_bytes(1, name, &mut self.made);
            put_bytes(2, value, &mut self.made);
        }
        Ok(())
    }

    fn end_entry(&mut self, key: Key, samples: usize, histograms: usize) {
        let samples = (self.times.len() - samples) as u32;
        let histograms = (self.histograms.len() - histograms) as u32;
        if samples + histograms > 0 {
            self.entries.push(Entry { key, place: self.places, samples, histograms });
        }
    }

    #[inline]
    fn sample(&mut self, message: &[u8]) -> Result<(), Malformed> {
        if let Some((time, value)) = usual_sample(message) {
            self.times.push(time);
            self.values.push(value);
            return Ok(());
        }
        let (mut time, mut value) = (0i64, 0.0f64);
        let mut fields = Fields::of(message);
        while let Some((number, content)) = fields.next()? {
            match (number, content) {
                (1, Value::Fixed64(bits)) => value = f64::from_bits(bits),
                (1, _) => return malformed("the value of a sample is not a double"),
                (2, Value::Varint(bits)) => time = bits as i64,
                (2, _) => return malformed("the timestamp of a sample is not an integer"),
                _ => {}
            }
        }
        self.times.push(time);
        self.values.push(value);
        Ok(())
    }

    /// Takes a histogram of the series with a name, which a refusal tells.
    fn histogram(&mut self, message: &[u8], name: impl Fn() -> String) -> Result<(), Malformed> {
        let (time, content) =
            histogram::read(message).map_err(|error| Malformed(format!("{}: {error}", name())))?;
        self.histogram_times.push(time);
        self.histograms.push(content);
        Ok(())
    }
}

/// Where the labels at the beginning of a `TimeSeries` end, as far as their lengths are of one byte.
#[inline]
fn skip_labels(message: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&[0x0a, length @ 0..0x80]) = message.get(at..at + 2) {
        let end = at + 2 + usize::from(length);
        if end > message.len() {
            break;
        }
        at = end;
    }
    at
}

/// A sample as everybody writes it: first the value, then the time.
#[inline]
fn usual_sample(message: &[u8]) -> Option<(i64, f64)> {
    let (head, time) = message.split_at_checked(10)?;
    if head[0] != 0x09 || head[9] != 0x10 {
        return None;
    }
    let (time, length) = read_varint(time).ok()?;
    let value = f64::from_le_bytes(head[1..9].try_into().ok()?);
    (10 + length == message.len()).then_some((time as i64, value))
}

/// Whether a label that ends at `end` begins where the stretch does, so that nothing else is between them.
fn stretch_ends_here(stretch: usize, end: usize, length: usize) -> bool {
    // Its key is one byte and its length as short as can be; what is longer is put together instead.
    end - length - varint_length(length as u64) - 1 == stretch
}

fn find_symbol<'a>(reference: u64, symbols: &[&'a [u8]]) -> Result<&'a [u8], Malformed> {
    match usize::try_from(reference).ok().and_then(|at| symbols.get(at)) {
        Some(symbol) => Ok(symbol),
        None => malformed(format!("it names the symbol {reference}, there are {}", symbols.len())),
    }
}

fn metadata_v1(message: &[u8]) -> Result<Metadata, Malformed> {
    let (mut name, mut kind, mut help, mut unit) = (String::new(), 0, String::new(), String::new());
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => kind = value.varint("the type of a metric")? as u32,
            2 => name = text(value.bytes("the name of a metric")?),
            4 => help = text(value.bytes("the help of a metric")?),
            5 => unit = text(value.bytes("the unit of a metric")?),
            _ => {}
        }
    }
    Ok(Metadata { family: Family::Name(name), kind, help, unit })
}

fn metadata_v2(message: &[u8], symbols: &[&[u8]], entry: usize) -> Result<Option<Metadata>, Malformed> {
    let (mut kind, mut help, mut unit) = (0, 0, 0);
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => kind = value.varint("the type of a metric")? as u32,
            3 => help = value.varint("the help of a metric")?,
            4 => unit = value.varint("the unit of a metric")?,
            _ => {}
        }
    }
    if (kind, help, unit) == (0, 0, 0) {
        return Ok(None);
    }
    let (help, unit) = (text(find_symbol(help, symbols)?), text(find_symbol(unit, symbols)?));
    Ok(Some(Metadata { family: Family::Entry(entry), kind, help, unit }))
}

/// Text for people, for whom a wrong character is better than none.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
