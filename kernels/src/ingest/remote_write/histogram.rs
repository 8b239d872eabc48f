//! A native histogram of Prometheus as one canonical text of bytes, the same for both versions of the protocol.
//!
//! Little endian:
//!
//!     u8 1 │ u8 flags: 1 = counts are floats │ u8 reset hint │ u8 0 │ i32 schema │ f64 zero threshold
//!     f64 sum │ count │ zero count                                        u64, or f64 when counts are floats
//!     positive side │ negative side          each: u32 spans │ (i32 offset, u32 length)… │ u32 buckets │ bucket…
//!     u32 bounds │ f64 bound…                             of a histogram with custom bounds, none otherwise
//!
//! A bucket is an i64, the difference to the bucket before it, or, when counts are floats, an f64. A histogram that
//! makes no sense is refused.

mod check;

use crate::wire::protobuf::{Fields, Malformed, Value, each_double, each_varint, zigzag};

const FORM: u8 = 1;

#[derive(Default)]
struct Side {
    spans: Vec<(i32, u32)>,
    deltas: Vec<i64>,
    counts: Vec<f64>,
}

#[derive(Default)]
struct Histogram {
    is_float: bool,
    reset_hint: u8,
    schema: i32,
    zero_threshold: f64,
    sum: f64,
    count: u64,
    zero_count: u64,
    /// Of which kind the zero count is, if it was given.
    is_zero_float: Option<bool>,
    positive: Side,
    negative: Side,
    bounds: Vec<f64>,
    time: i64,
}

/// Reads a message `Histogram`; returns its time and its canonical form.
pub fn read(message: &[u8]) -> Result<(i64, Vec<u8>), Malformed> {
    let mut histogram = Histogram::default();
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        histogram.take(number, value)?;
    }
    histogram.check()?;
    Ok((histogram.time, histogram.encode()))
}

impl Histogram {
    fn take(&mut self, number: u32, value: Value<'_>) -> Result<(), Malformed> {
        match number {
            1 => (self.count, self.is_float) = (value.varint("count")?, false),
            2 => (self.count, self.is_float) = (value.double("count")?.to_bits(), true),
            3 => self.sum = value.double("sum")?,
            4 => self.schema = zigzag(value.varint("schema")?) as i32,
            5 => self.zero_threshold = value.double("zero threshold")?,
            6 => (self.zero_count, self.is_zero_float) = (value.varint("zero count")?, Some(false)),
            7 => (self.zero_count, self.is_zero_float) = (value.double("zero count")?.to_bits(), Some(true)),
            8..=10 => self.negative.take(number - 8, value)?,
            11..=13 => self.positive.take(number - 11, value)?,
            14 => self.reset_hint = value.varint("reset hint")?.min(255) as u8,
            15 => self.time = value.varint("timestamp")? as i64,
            16 => each_double(value, "custom values", |bound| self.bounds.push(bound))?,
            _ => {}
        }
        Ok(())
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORM, u8::from(self.is_float), self.reset_hint, 0];
        out.extend(self.schema.to_le_bytes());
        out.extend(self.zero_threshold.to_le_bytes());
        out.extend(self.sum.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        out.extend(self.zero_count.to_le_bytes());
        self.positive.encode(self.is_float, &mut out);
        self.negative.encode(self.is_float, &mut out);
        out.extend((self.bounds.len() as u32).to_le_bytes());
        self.bounds.iter().for_each(|bound| out.extend(bound.to_le_bytes()));
        out
    }
}

impl Side {
    fn take(&mut self, part: u32, value: Value<'_>) -> Result<(), Malformed> {
        match part {
            0 => self.spans.push(read_span(value.bytes("span")?)?),
            1 => each_varint(value, "bucket deltas", |delta| self.deltas.push(zigzag(delta)))?,
            _ => each_double(value, "bucket counts", |count| self.counts.push(count))?,
        }
        Ok(())
    }

    fn encode(&self, is_float: bool, out: &mut Vec<u8>) {
        out.extend((self.spans.len() as u32).to_le_bytes());
        for (offset, length) in &self.spans {
            out.extend(offset.to_le_bytes());
            out.extend(length.to_le_bytes());
        }
        if is_float {
            out.extend((self.counts.len() as u32).to_le_bytes());
            self.counts.iter().for_each(|count| out.extend(count.to_le_bytes()));
        } else {
            out.extend((self.deltas.len() as u32).to_le_bytes());
            self.deltas.iter().for_each(|delta| out.extend(delta.to_le_bytes()));
        }
    }
}

fn read_span(message: &[u8]) -> Result<(i32, u32), Malformed> {
    let (mut offset, mut length) = (0, 0);
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => offset = zigzag(value.varint("offset of a span")?) as i32,
            2 => length = value.varint("length of a span")? as u32,
            _ => {}
        }
    }
    Ok((offset, length))
}
