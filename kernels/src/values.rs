//! Readers of Arrow values that do not care which of Arrow's layouts holds them.
//!
//! [`Text`] reads strings as bytes from all three string layouts, [`Words`] reads integers of any width as 64
//! bits. Both respect the offset of a sliced array. Neither knows about nulls: the caller asks the validity
//! bitmap first, because what stands in a null slot is arbitrary.

use std::ops::Range;

use arrow_array::types::{ByteArrayType, LargeUtf8Type, Utf8Type};
use arrow_array::{GenericByteArray, StringViewArray};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, ScalarBuffer, ToByteSlice};
use arrow_data::{ArrayData, ByteView, MAX_INLINE_VIEW_LEN};
use arrow_schema::DataType;

/// Strings, as bytes.
pub enum Text {
    Small { offsets: ScalarBuffer<i32>, bytes: Buffer },
    Large { offsets: ScalarBuffer<i64>, bytes: Buffer },
    View { views: ScalarBuffer<u128>, buffers: Vec<Buffer> },
}

impl Text {
    pub fn new(data: &ArrayData) -> Option<Self> {
        match data.data_type() {
            DataType::Utf8 => {
                let (offsets, bytes) = parts::<Utf8Type>(data);
                Some(Self::Small { offsets, bytes })
            }
            DataType::LargeUtf8 => {
                let (offsets, bytes) = parts::<LargeUtf8Type>(data);
                Some(Self::Large { offsets, bytes })
            }
            DataType::Utf8View => {
                let array = StringViewArray::from(data.clone());
                let (views, buffers) = (array.views().clone(), array.data_buffers().to_vec());
                Some(Self::View { views, buffers })
            }
            _ => None,
        }
    }

    /// The bytes of a value that is not null; `None` when the row or the offsets point outside of the array.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Small { offsets, bytes } => slice(offsets, bytes, row),
            Self::Large { offsets, bytes } => slice(offsets, bytes, row),
            Self::View { views, buffers } => view(views.get(row)?, buffers),
        }
    }

    /// The row, `end` at most, before which all rows from `row` on are seen at a glance to have the same bytes.
    pub fn run_end(&self, row: usize, end: usize) -> usize {
        match self {
            Self::Small { offsets, bytes } => bytes_run_end(offsets, bytes, row, end),
            Self::Large { offsets, bytes } => bytes_run_end(offsets, bytes, row, end),
            Self::View { views, .. } => words_run_end(views, row, end),
        }
    }
}

/// The row, `end` at most, before which all words from `row` on are equal.
pub fn words_run_end<T: PartialEq>(words: &[T], row: usize, end: usize) -> usize {
    let Some([first, following @ ..]) = words.get(row..end) else { return row + 1 };
    row + 1 + following.iter().take_while(|&word| word == first).count()
}

/// Looks at twice as many rows each time that all were equal, and then at half as many until none is left.
fn bytes_run_end<O: ArrowNativeType>(offsets: &[O], bytes: &[u8], row: usize, end: usize) -> usize {
    let (mut found, mut step, mut is_growing) = (row + 1, 1, true);
    while found < end {
        let take = step.min(end - found);
        if continues(offsets, bytes, found, take) {
            found += take;
            if is_growing {
                step *= 2;
            }
        } else if take == 1 {
            break;
        } else {
            is_growing = false;
            step = take / 2;
        }
    }
    found
}

/// Whether some rows have the bytes of the one before them. Rows whose bytes lie one after the other have those if
/// they are as long, and all of them are what lies one length before.
fn continues<O: ArrowNativeType>(offsets: &[O], bytes: &[u8], row: usize, rows: usize) -> bool {
    let Some(ends) = offsets.get(row - 1..=row + rows) else { return false };
    let (first, last) = (ends[0].as_usize(), ends[rows + 1].as_usize());
    let Some(length) = ends[1].as_usize().checked_sub(first) else { return false };
    // Damaged offsets may be any number.
    let is_even = |(at, each): (usize, &O)| each.as_usize() == first.wrapping_add(at.wrapping_mul(length));
    let Some(run) = bytes.get(first..last) else { return false };
    ends.iter().enumerate().all(is_even) && run.get(length..).is_some_and(|later| run.starts_with(later))
}

fn parts<T: ByteArrayType>(data: &ArrayData) -> (ScalarBuffer<T::Offset>, Buffer) {
    let array = GenericByteArray::<T>::from(data.clone());
    (array.offsets().inner().clone(), array.values().clone())
}

fn slice<'a, O: ArrowNativeType>(offsets: &[O], bytes: &'a [u8], row: usize) -> Option<&'a [u8]> {
    let (start, end) = (offsets.get(row)?.as_usize(), offsets.get(row + 1)?.as_usize());
    bytes.get(start..end)
}

fn view<'a>(view: &'a u128, buffers: &'a [Buffer]) -> Option<&'a [u8]> {
    let length = *view as u32;
    if length <= MAX_INLINE_VIEW_LEN {
        // A short string stands in the view itself, behind its length of four bytes.
        return std::slice::from_ref(view).to_byte_slice().get(4..4 + length as usize);
    }
    let long = ByteView::from(*view);
    let start = long.offset as usize;
    buffers.get(long.buffer_index as usize)?.get(start..start + length as usize)
}

/// Integers of any width, or bits, widened to 64 bits on reading: signed ones by sign, the others by zeros.
/// An unsigned value from 2^63 comes out as the negative number with the same bits.
pub enum Words {
    Bits(BooleanBuffer),
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
}

impl Words {
    /// Reads the first buffer of `data` as the physical type of `logical`, which for a dictionary is its key
    /// type.
    pub fn new(data: &ArrayData, logical: &DataType) -> Option<Self> {
        Some(match logical {
            DataType::Boolean => {
                Self::Bits(BooleanBuffer::new(data.buffers().first()?.clone(), data.offset(), data.len()))
            }
            DataType::Int8 => Self::I8(scalars(data)?),
            DataType::Int16 => Self::I16(scalars(data)?),
            DataType::Int32 | DataType::Date32 => Self::I32(scalars(data)?),
            DataType::Int64 | DataType::Timestamp(_, _) => Self::I64(scalars(data)?),
            DataType::UInt8 => Self::U8(scalars(data)?),
            DataType::UInt16 => Self::U16(scalars(data)?),
            DataType::UInt32 => Self::U32(scalars(data)?),
            DataType::UInt64 => Self::U64(scalars(data)?),
            _ => return None,
        })
    }

    /// Replaces the content of `wide` by the values of `rows`.
    pub fn widen(&self, rows: Range<usize>, wide: &mut Vec<i64>) {
        wide.clear();
        match self {
            Self::Bits(bits) => wide.extend(rows.map(|row| i64::from(bits.value(row)))),
            Self::I8(values) => wide.extend(values[rows].iter().map(|&value| i64::from(value))),
            Self::I16(values) => wide.extend(values[rows].iter().map(|&value| i64::from(value))),
            Self::I32(values) => wide.extend(values[rows].iter().map(|&value| i64::from(value))),
            Self::I64(values) => wide.extend_from_slice(&values[rows]),
            Self::U8(values) => wide.extend(values[rows].iter().map(|&value| i64::from(value))),
            Self::U16(values) => wide.extend(values[rows].iter().map(|&value| i64::from(value))),
            Self::U32(values) => wide.extend(values[rows].iter().map(|&value| i64::from(value))),
            Self::U64(values) => wide.extend(values[rows].iter().map(|&value| value as i64)),
        }
    }
}

fn scalars<T: ArrowNativeType>(data: &ArrayData) -> Option<ScalarBuffer<T>> {
    let buffer = data.buffers().first()?.clone();
    Some(ScalarBuffer::new(buffer, data.offset(), data.len()))
}
