//! A column of tags packed for a log: each value that occurs once, and a small number per series.
//!
//!     u32 × 4: number of distinct values, bytes of them, bytes of a code (1, 2 or 4), 0
//!     u32[values + 1]: where each value begins │ the values, UTF-8 │ a code per series: a value, all ones for none
//!
//! Every part is filled up to a multiple of 8 bytes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Packed columns begin at multiples of this.
const ALIGNMENT: usize = 8;
const UNSEEN: u32 = u32::MAX;
/// With more values of a tag than this for each series, a map is smaller than a place for every value.
const DENSE_VALUES_MAX: usize = 16;

pub struct Packing {
    local: Local,
    /// The values that occur, in order of appearance.
    values: Vec<u32>,
    codes: Vec<u32>,
}

enum Local {
    Dense(Vec<u32>),
    Sparse(HashMap<u32, u32, BuildHasherDefault<Spread>>),
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
            true => Local::Sparse(HashMap::default()),
            false => Local::Dense(vec![UNSEEN; values]),
        };
        Self { local, values: Vec::new(), codes: vec![UNSEEN; series] }
    }

    /// The values that occur, in order of appearance.
    pub fn values(&self) -> &[u32] {
        &self.values
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

/// Spreads numbers that count up by the golden ratio. They are ours: nobody chooses them to collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(u32::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}

fn fill(packed: &mut Vec<u8>) {
    packed.resize(packed.len().next_multiple_of(ALIGNMENT), 0);
}
