//! The stored form of a histogram, which `remote_write/histogram.rs` defines: read with integer or float counts, written
//! with float counts.

use std::sync::Arc;

use crate::prom::histogram::layout::CUSTOM;
use crate::prom::histogram::value::{GAUGE, Histogram, RESET, Side, UNKNOWN};

const FORM: u8 = 1;
const FLOAT_COUNTS: u8 = 1;

/// No bucket of a number lies as far out as this.
const INDEX_MAX: i64 = 1 << 30;

/// Reads a histogram. What it knows of neighbours is dropped, because a reader cannot tell which sample it spoke of; that
/// there was a reset, or that it is a gauge, holds by itself.
pub fn decode(bytes: &[u8]) -> Option<Histogram> {
    let mut reader = Reader { bytes };
    let [form, flags, hint, _] = reader.take::<4>()?;
    if form != FORM {
        return None;
    }
    let is_float = flags & FLOAT_COUNTS != 0;
    let schema = i32::from_le_bytes(reader.take()?);
    let (zero_threshold, sum) = (reader.float()?, reader.float()?);
    let (count, zero_count) = (reader.count(is_float)?, reader.count(is_float)?);
    let (positive, negative) = (reader.side(is_float)?, reader.side(is_float)?);
    let size = reader.length()?;
    let bounds: Option<Vec<f64>> = (0..size).map(|_| reader.float()).collect();
    let is_custom = schema == CUSTOM;
    Some(Histogram {
        hint: if matches!(hint, RESET | GAUGE) { hint } else { UNKNOWN },
        schema,
        zero_threshold: if zero_threshold > 0.0 && !is_custom { zero_threshold } else { 0.0 },
        zero_count: if is_custom { 0.0 } else { zero_count },
        count,
        sum,
        positive,
        negative: if is_custom { Vec::new() } else { negative },
        bounds: if is_custom { bounds?.into() } else { Arc::from([]) },
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk::<N>()?;
        self.bytes = rest;
        Some(*head)
    }

    fn float(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes)
    }

    /// A number of things of at least eight bytes each, which are there.
    fn length(&mut self) -> Option<usize> {
        let length = u32::from_le_bytes(self.take()?) as usize;
        (length <= self.bytes.len() / 8).then_some(length)
    }

    fn count(&mut self, is_float: bool) -> Option<f64> {
        let bytes = self.take()?;
        Some(if is_float { f64::from_le_bytes(bytes) } else { u64::from_le_bytes(bytes) as f64 })
    }

    fn side(&mut self, is_float: bool) -> Option<Side<f64>> {
        let spans = self.length()?;
        let spans: Option<Vec<(i32, u32)>> = (0..spans)
            .map(|_| Some((i32::from_le_bytes(self.take()?), u32::from_le_bytes(self.take()?))))
            .collect();
        let mut left = self.length()?;
        let (mut side, mut before, mut index) = (Vec::with_capacity(left), 0_i64, 0_i64);
        for (offset, length) in spans? {
            index += i64::from(offset);
            left = left.checked_sub(length as usize)?;
            for _ in 0..length {
                let bytes = self.take()?;
                let count = if is_float {
                    f64::from_le_bytes(bytes)
                } else {
                    before = before.wrapping_add(i64::from_le_bytes(bytes));
                    before as f64
                };
                if index.abs() > INDEX_MAX {
                    return None;
                }
                if count != 0.0 {
                    side.push((index as i32, count));
                }
                index += 1;
            }
        }
        let is_ordered = side.is_sorted_by(|a, b| a.0 < b.0);
        (left == 0 && is_ordered).then_some(side)
    }
}

pub fn encode(histogram: &Histogram) -> Vec<u8> {
    let mut out = vec![FORM, FLOAT_COUNTS, histogram.hint, 0];
    out.extend(histogram.schema.to_le_bytes());
    for number in [histogram.zero_threshold, histogram.sum, histogram.count, histogram.zero_count] {
        out.extend(number.to_le_bytes());
    }
    for side in [&histogram.positive, &histogram.negative] {
        out.extend((side.len() as u32).to_le_bytes());
        let mut next = 0;
        for &(index, _) in side {
            out.extend(index.wrapping_sub(next).to_le_bytes());
            out.extend(1_u32.to_le_bytes());
            next = index.wrapping_add(1);
        }
        out.extend((side.len() as u32).to_le_bytes());
        side.iter().for_each(|(_, count)| out.extend(count.to_le_bytes()));
    }
    out.extend((histogram.bounds.len() as u32).to_le_bytes());
    histogram.bounds.iter().for_each(|bound| out.extend(bound.to_le_bytes()));
    out
}
