//! A column of tags packed for a log: each value that occurs once, and a small number per series.
//!
//!     u32 × 4: number of distinct values, bytes of them, bytes of a code (1, 2 or 4), 0
//!     u32[values + 1]: where each value begins │ the values, UTF-8 │ a code per series: a value, all ones for none
//!
//! Every part is filled up to a multiple of 8 bytes.

use std::collections::HashMap;

use arrow_array::types::{Int64Type, UInt8Type, UInt32Type};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::values::Text;

/// Packed columns begin at multiples of this.
const ALIGNMENT: usize = 8;
const UNSEEN: u32 = u32::MAX;
/// With more values of a tag than this for each series, a map is smaller than a place for every value.
const DENSE_VALUES_MAX: usize = 16;

/// Packs the two tags of metric series: the id of the table of each, as text, and its labels, which are one of `texts`.
#[pyfunction]
pub fn pack_metric_tags(
    py: Python<'_>,
    table_ids: Array,
    text_of: Array,
    texts: Array,
) -> PyResult<ArrowArray> {
    let Some(text) = Text::new(&texts.0) else {
        let kind = texts.0.data_type();
        return Err(PyTypeError::new_err(format!("texts: expected an array of strings, received {kind}")));
    };
    let ids = table_ids.values::<UInt32Type>("table_ids")?;
    let text_of = text_of.values::<Int64Type>("text_of")?;
    if ids.len() != text_of.len() {
        return Err(PyValueError::new_err(format!("{} table ids, but {} texts", ids.len(), text_of.len())));
    }
    let count = texts.0.len();
    if let Some(wrong) = text_of.iter().find(|&&at| usize::try_from(at).map_or(true, |at| at >= count)) {
        return Err(PyValueError::new_err(format!("text_of: there is no text {wrong}")));
    }
    let packed = py.detach(|| {
        let mut owners = Packing::new(usize::MAX, ids.len());
        let mut labels = Packing::new(count, ids.len());
        for (row, (&id, &at)) in ids.iter().zip(text_of.iter()).enumerate() {
            owners.set(row, id);
            labels.set(row, at as u32);
        }
        let names: HashMap<u32, String> = owners.values.iter().map(|&id| (id, id.to_string())).collect();
        let mut packed = Vec::new();
        owners.write(|id| names[&id].as_bytes(), &mut packed);
        labels.write(|at| text.get(at as usize).unwrap_or_default(), &mut packed);
        packed
    });
    Ok(ArrowArray::from_values::<UInt8Type>(packed))
}

pub struct Packing {
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
    /// A column of a number of series, whose values are numbered below `values`.
    pub fn new(values: usize, series: usize) -> Self {
        let local = match values > DENSE_VALUES_MAX * series {
            true => Local::Sparse(HashMap::new()),
            false => Local::Dense(vec![UNSEEN; values]),
        };
        Self { local, values: Vec::new(), codes: vec![UNSEEN; series] }
    }

    /// Lets a series have a value.
    #[inline]
    pub fn set(&mut self, row: usize, value: u32) {
        self.codes[row] = self.local.number_of(value, &mut self.values);
    }

    pub fn write<'m>(&self, text: impl Fn(u32) -> &'m [u8], packed: &mut Vec<u8>) {
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
