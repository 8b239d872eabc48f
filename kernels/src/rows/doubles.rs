//! Doubles as they lie in memory: as doubles, or, if all of them are whole, as integers of any width.
//!
//! Percentages, counts and sizes are whole numbers, which a column holds in one or two bytes instead of eight. Kernels
//! that compute with doubles widen a run of them at a time, into room that stays in the caches of the processor.

use std::ops::Range;

use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

#[derive(Clone)]
pub enum Doubles {
    Wide(ScalarBuffer<f64>),
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
}

/// Runs the same code for each width of whole doubles.
macro_rules! with_doubles {
    ($doubles:expr, $wide:ident => $of_wide:expr, $whole:ident => $of_whole:expr) => {
        match $doubles {
            Doubles::Wide($wide) => $of_wide,
            Doubles::I8($whole) => $of_whole,
            Doubles::I16($whole) => $of_whole,
            Doubles::I32($whole) => $of_whole,
            Doubles::I64($whole) => $of_whole,
        }
    };
}

impl Doubles {
    /// Takes the values of an array, whatever they are where it is null; None if it is of another type.
    pub fn new(data: &ArrayData) -> Option<Self> {
        Some(match data.data_type() {
            DataType::Float64 => Self::Wide(values(data)),
            DataType::Int8 => Self::I8(values(data)),
            DataType::Int16 => Self::I16(values(data)),
            DataType::Int32 => Self::I32(values(data)),
            DataType::Int64 => Self::I64(values(data)),
            _ => return None,
        })
    }

    pub fn len(&self) -> usize {
        with_doubles!(self, wide => wide.len(), whole => whole.len())
    }

    #[inline]
    pub fn at(&self, row: usize) -> f64 {
        // No double that is stored as an integer is rounded on its way back.
        with_doubles!(self, wide => wide[row], whole => whole[row] as f64)
    }

    /// Values as doubles where they lie; None if they have to be widened.
    #[inline]
    pub fn wide_part(&self, rows: Range<usize>) -> Option<&[f64]> {
        match self {
            Self::Wide(values) => Some(&values[rows]),
            _ => None,
        }
    }

    /// Values as doubles: where they lie, or in a room.
    #[inline]
    pub fn part<'a>(&'a self, rows: Range<usize>, room: &'a mut Vec<f64>) -> &'a [f64] {
        match self.wide_part(rows.clone()) {
            Some(values) => values,
            None => {
                room.clear();
                self.append(rows, room);
                room
            }
        }
    }

    /// Adds values to doubles.
    #[inline]
    pub fn append(&self, rows: Range<usize>, doubles: &mut Vec<f64>) {
        with_doubles!(
            self,
            wide => doubles.extend_from_slice(&wide[rows]),
            whole => doubles.extend(whole[rows].iter().map(|&value| value as f64))
        );
    }
}

fn values<T: ArrowNativeType>(data: &ArrayData) -> ScalarBuffer<T> {
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}
