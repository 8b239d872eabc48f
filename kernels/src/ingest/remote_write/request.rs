//! A request of either version, read into columns; its series still as the bytes of their labels.
//!
//! An entry is one message `TimeSeries`. Its key is what `TimeSeries` of version 1 would have for its labels: fields
//! `Label` of number 1, in the order in which they came. Version 1 mostly has them as one stretch; version 2 names
//! strings by number, and its keys are put together.
//!
//! Series that are known are found on the way (`Trail`). Most entries begin with the key that is expected next: then
//! their labels are not looked at one by one. Keys that are not known are kept, so that nothing is left of a message
//! that has been read.
//!
//! Exemplars and what is not known are skipped.

use std::ops::Range;

use crate::ingest::remote_write::histogram;
use crate::ingest::remote_write::names::{name_v1, name_v2};
use crate::ingest::remote_write::table::{NO_KEY, Trail};
use crate::wire::protobuf::{
    Fields, Malformed, Value, each_varint, malformed, put_bytes, put_varint, read_short_varint, varint_length,
};

/// How many descriptions of metrics are read of one request; further ones are skipped, as senders repeat them.
const METADATA_MAX: usize = 100_000;

/// Nobody's series takes less; by this and the first one it is told how many there may be.
const ENTRY_BYTES_MIN: usize = 64;

/// One `TimeSeries`: the rows it has.
pub struct Entry {
    /// The number of its key, `NO_KEY` if it is not known yet.
    pub number: u32,
    /// Where a key that is not known is in `Columns::keys`.
    key: Range<usize>,
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

/// How much there is of what an entry adds to.
struct Lengths {
    samples: usize,
    histograms: usize,
    keys: usize,
}

#[derive(Default)]
pub struct Columns {
    pub entries: Vec<Entry>,
    pub times: Vec<i64>,
    pub values: Vec<f64>,
    pub histogram_times: Vec<i64>,
    pub histograms: Vec<Vec<u8>>,
    pub metadata: Vec<Metadata>,
    /// The keys that are not known.
    keys: Vec<u8>,
    /// How many `TimeSeries` there were, those without rows included.
    places: u32,
}

impl Columns {
    /// The key of an entry, if it is not known.
    pub fn key(&self, entry: &Entry) -> &[u8] {
        &self.keys[entry.key.clone()]
    }
}

/// Reads `prometheus.WriteRequest` into columns, which may have rows of others.
pub fn read_v1(body: &[u8], columns: &mut Columns, trail: &mut Trail<'_>) -> Result<(), Malformed> {
    let mut fields = Fields::of(body);
    if let Some(first) = usual_series(body, fields.position()) {
        columns.reserve(body.len() / first.len().max(ENTRY_BYTES_MIN) + 1);
    }
    loop {
        while let Some(range) = usual_series(body, fields.position()) {
            fields = Fields::at(body, range.end);
            columns.entry_v1(&body[range], trail)?;
        }
        match fields.next()? {
            None => return Ok(()),
            Some((1, value)) => columns.entry_v1(value.bytes("a series")?, trail)?,
            Some((3, value)) => {
                let message = value.bytes("metadata")?;
                if columns.metadata.len() < METADATA_MAX {
                    columns.metadata.push(metadata_v1(message)?);
                }
            }
            Some(_) => {}
        }
    }
}

/// The message of a series that begins at a position, if its length is of one or two bytes.
#[inline]
fn usual_series(body: &[u8], at: usize) -> Option<Range<usize>> {
    let &[tag, low, high] = body.get(at..)?.first_chunk()?;
    let range = match (tag, low, high) {
        (0x0a, 0..0x80, _) => at + 2..at + 2 + usize::from(low),
        (0x0a, 0x80.., 0..0x80) => at + 3..at + 3 + (usize::from(low & 0x7f) | usize::from(high) << 7),
        _ => return None,
    };
    (range.end <= body.len()).then_some(range)
}

/// Reads `io.prometheus.write.v2.Request` into columns, which may have rows of others.
pub fn read_v2(body: &[u8], columns: &mut Columns, trail: &mut Trail<'_>) -> Result<(), Malformed> {
    let symbols = read_symbols(body)?;
    let mut fields = Fields::of(body);
    while let Some((number, value)) = fields.next()? {
        if number == 5 {
            let message = value.bytes("a series")?;
            columns.series_v2(message, &symbols, trail).map_err(|error| columns.locate(error))?;
            columns.places += 1;
        }
    }
    Ok(())
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

    fn reserve(&mut self, entries: usize) {
        self.entries.reserve(entries);
        self.times.reserve(entries);
        self.values.reserve(entries);
    }

    /// Reads the next message of a series.
    #[inline]
    fn entry_v1(&mut self, message: &[u8], trail: &mut Trail<'_>) -> Result<(), Malformed> {
        self.series_v1(message, trail).map_err(|error| self.locate(error))?;
        self.places += 1;
        Ok(())
    }

    fn series_v1(&mut self, message: &[u8], trail: &mut Trail<'_>) -> Result<(), Malformed> {
        let start = self.lengths();
        // The stretch of labels at the beginning; once labels follow something else, they are put together.
        let (mut number, mut stretch) = trail.guess(message).unwrap_or((NO_KEY, 0));
        let mut is_stretch = true;
        if number == NO_KEY {
            stretch = skip_labels(message);
        }
        let rest = self.usual_samples(message, stretch);
        let mut fields = Fields::at(message, rest);
        while rest < message.len()
            && let Some((field, value)) = fields.next()?
        {
            match field {
                1 => {
                    // Whatever key was expected, this one is longer.
                    number = NO_KEY;
                    let label = value.bytes("a label")?;
                    if is_stretch && stretch_ends_here(stretch, fields.position(), label.len()) {
                        stretch = fields.position();
                    } else {
                        if is_stretch {
                            self.keys.extend_from_slice(&message[..stretch]);
                            is_stretch = false;
                        }
                        put_bytes(1, label, &mut self.keys);
                    }
                }
                2 => self.sample(value.bytes("a sample")?)?,
                4 => self.histogram(value.bytes("a histogram")?, || name_v1(message))?,
                _ => {}
            }
        }
        let stretch = is_stretch.then(|| &message[..stretch]);
        self.end_entry(start, number, stretch, trail);
        Ok(())
    }

    fn series_v2(
        &mut self,
        message: &[u8],
        symbols: &[&[u8]],
        trail: &mut Trail<'_>,
    ) -> Result<(), Malformed> {
        let start = self.lengths();
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
        if self.times.len() > start.samples && self.histograms.len() > start.histograms {
            return malformed("it has both samples and native histograms");
        }
        self.put_labels(&references, symbols)?;
        let position = self.entries.len();
        self.end_entry(start, NO_KEY, None, trail);
        if let Some(message) = metadata.filter(|_| self.entries.len() > position) {
            self.metadata.extend(metadata_v2(message, symbols, position)?);
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
            self.keys.push(1 << 3 | 2);
            put_varint((size(name) + size(value)) as u64, &mut self.keys);
            put_bytes(1, name, &mut self.keys);
            put_bytes(2, value, &mut self.keys);
        }
        Ok(())
    }

    fn lengths(&self) -> Lengths {
        Lengths { samples: self.times.len(), histograms: self.histograms.len(), keys: self.keys.len() }
    }

    /// Keeps what came since the start of an entry, if it has rows. Its key is a stretch of the message, or what was put
    /// together.
    #[inline]
    fn end_entry(&mut self, start: Lengths, number: u32, stretch: Option<&[u8]>, trail: &mut Trail<'_>) {
        let samples = (self.times.len() - start.samples) as u32;
        let histograms = (self.histograms.len() - start.histograms) as u32;
        if samples + histograms == 0 {
            self.keys.truncate(start.keys);
            return;
        }
        let number = match number {
            NO_KEY => trail.find(stretch.unwrap_or(&self.keys[start.keys..])),
            number => trail.follow(number),
        };
        if number != NO_KEY {
            self.keys.truncate(start.keys);
        } else if let Some(key) = stretch {
            self.keys.extend_from_slice(key);
        }
        let key = start.keys..self.keys.len();
        self.entries.push(Entry { number, key, place: self.places, samples, histograms });
    }

    /// Takes samples as everybody writes them, as many as there are from a place on; where they end.
    #[inline]
    fn usual_samples(&mut self, message: &[u8], mut at: usize) -> usize {
        while let Some((time, value, end)) = usual_sample(message, at) {
            self.times.push(time);
            self.values.push(value);
            at = end;
        }
        at
    }

    fn sample(&mut self, message: &[u8]) -> Result<(), Malformed> {
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

/// A sample as everybody writes it, first the value, then the time: as a field at a place of a message. Returns the end
/// of it too.
#[inline]
fn usual_sample(message: &[u8], at: usize) -> Option<(i64, f64, usize)> {
    let head = message.get(at..)?.first_chunk::<12>()?;
    let [0x12, length @ 0..0x80, 0x09, value @ .., 0x10] = head else {
        return None;
    };
    let end = at + 2 + usize::from(*length);
    // The time is what is left, at the end of eight bytes.
    let size = end.checked_sub(at + head.len()).filter(|size| (1..=8).contains(size))?;
    let word = u64::from_le_bytes(*message.get(..end)?.last_chunk()?) >> (64 - 8 * size);
    let (time, _) = read_short_varint(word).filter(|&(_, length)| length == size)?;
    Some((time as i64, f64::from_le_bytes(*value), end))
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
