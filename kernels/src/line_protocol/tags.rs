//! The tags of series, read back by their numbers: as columns, or packed for a log.

use std::collections::HashMap;

use arrow_data::ArrayData;

use super::columns::{Column, Value};
use super::series::{Measurement, TagValue};

/// Packed columns begin at multiples of this.
const ALIGNMENT: usize = 8;
const UNSEEN: u32 = u32::MAX;
/// With more values of a tag than this for each series, a map is smaller than a place for every value.
const DENSE_VALUES_MAX: usize = 16;

/// The tags of some series, one column for each tag that one of them has; None for a number that was never given.
pub fn tag_columns(measurement: &Measurement, series: &[u32]) -> Option<Vec<(String, ArrayData)>> {
    let mut columns: Vec<Option<Column>> = measurement.tags.iter().map(|_| None).collect();
    for (row, &number) in series.iter().enumerate() {
        for &TagValue { tag, value } in measurement.series.get(number as usize)?.iter() {
            let known = &measurement.tags[tag as usize];
            let value = Value::Text(known.value(value));
            columns[tag as usize]
                .get_or_insert_with(|| Column::new(known.name.clone(), Vec::new(), &value, series.len()))
                .push(row, &value);
        }
    }
    Some(columns.into_iter().flatten().map(|column| column.finish(series.len())).collect())
}

/// The named tags of some series, each column as
///
///     u32 × 4: number of distinct values, bytes of them, bytes of a code (1, 2 or 4), 0
///     u32[values + 1]: where each value begins │ the values, UTF-8 │ a code per series: a value, all ones for none
///
/// every part filled up to a multiple of 8 bytes. None for a number that was never given.
pub fn pack_tags(measurement: &Measurement, series: &[u32], names: &[String]) -> Option<Vec<u8>> {
    let mut places = vec![usize::MAX; measurement.tags.len()];
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let tag = measurement.find_tag(name);
        if let Some(tag) = tag {
            places[tag as usize] = columns.len();
        }
        let values = tag.map_or(0, |tag| measurement.tags[tag as usize].values());
        columns.push(Packing::new(values, series.len()));
    }
    for (row, &number) in series.iter().enumerate() {
        for &TagValue { tag, value } in measurement.series.get(number as usize)?.iter() {
            if let Some(column) = columns.get_mut(places[tag as usize]) {
                column.codes[row] = column.local.number_of(value, &mut column.values);
            }
        }
    }
    let mut packed = Vec::new();
    for (name, column) in names.iter().zip(&columns) {
        let tag = measurement.find_tag(name);
        column.write(
            |value| tag.map_or(&b""[..], |tag| measurement.tags[tag as usize].value(value)),
            &mut packed,
        );
    }
    Some(packed)
}

struct Packing {
    local: Local,
    /// The values that occur, in order of appearance.
    values: Vec<u32>,
    codes: Vec<u32>,
}

enum Local {
    Dense(Vec<u32>),
    Sparse(HashMap<u32, u32>),
}

impl Local {
    #[inline]
    fn number_of(&mut self, value: u32, values: &mut Vec<u32>) -> u32 {
        let number = match self {
            Self::Dense(numbers) => &mut numbers[value as usize],
            Self::Sparse(numbers) => numbers.entry(value).or_insert(UNSEEN),
        };
        if *number == UNSEEN {
            *number = values.len() as u32;
            values.push(value);
        }
        *number
    }
}

impl Packing {
    fn new(values: usize, series: usize) -> Self {
        let local = match values > DENSE_VALUES_MAX * series {
            true => Local::Sparse(HashMap::new()),
            false => Local::Dense(vec![UNSEEN; values]),
        };
        Self { local, values: Vec::new(), codes: vec![UNSEEN; series] }
    }

    fn write<'m>(&self, text: impl Fn(u32) -> &'m [u8], packed: &mut Vec<u8>) {
        let width: u32 = match self.values.len() {
            ..0xFF => 1,
            0xFF..0xFFFF => 2,
            _ => 4,
        };
        let bytes: usize = self.values.iter().map(|&value| text(value).len()).sum();
        for number in [self.values.len() as u32, bytes as u32, width, 0] {
            packed.extend_from_slice(&number.to_le_bytes());
        }
        let mut offset = 0_u32;
        for &value in &self.values {
            packed.extend_from_slice(&offset.to_le_bytes());
            offset += text(value).len() as u32;
        }
        packed.extend_from_slice(&offset.to_le_bytes());
        fill(packed);
        self.values.iter().for_each(|&value| packed.extend_from_slice(text(value)));
        fill(packed);
        match width {
            1 => packed.extend(self.codes.iter().map(|&code| code as u8)),
            2 => packed.extend(self.codes.iter().flat_map(|&code| (code as u16).to_le_bytes())),
            _ => packed.extend(self.codes.iter().flat_map(|&code| code.to_le_bytes())),
        }
        fill(packed);
    }
}

fn fill(packed: &mut Vec<u8>) {
    packed.resize(packed.len().next_multiple_of(ALIGNMENT), 0);
}
