//! Columns folded into states, cell by cell.

use std::ops::Range;

use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array as _, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::cells::Run;
use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::doubles::Doubles;

/// A run of fewer values is added one after the other; a longer one in lanes, which takes a fourth of the time.
const LANES_MIN: usize = 32;
const LANES: usize = 8;
/// Of narrow integers more fit into a register.
const NARROW_LANES: usize = 32;
/// So many integers of 16 bits can be added in 32 bits without an overflow.
const NARROW_VALUES: usize = 1 << 15;
/// So many integers of 53 bits can be added without an overflow.
const EXACT_VALUES: usize = 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    Count,
    Sum,
    Total,
    Min,
    Max,
    Spread,
}

impl State {
    pub fn parse(name: &str) -> PyResult<Self> {
        Ok(match name {
            "count" => Self::Count,
            "sum" => Self::Sum,
            "total" => Self::Total,
            "min" => Self::Min,
            "max" => Self::Max,
            "spread" => Self::Spread,
            _ => return Err(PyValueError::new_err(format!("states: {name} is not known"))),
        })
    }
}

/// A type of values, and how they are added and compared.
pub trait Number: ArrowNativeType + PartialOrd + Sync {
    type Wide: ArrowPrimitiveType;
    type Store: Store<Self>;
    fn add(
        sum: <Self::Wide as ArrowPrimitiveType>::Native,
        values: &[Self],
    ) -> <Self::Wide as ArrowPrimitiveType>::Native;
    fn float(self) -> f64;
    fn total(total: f64, values: &[Self]) -> f64;
    /// The least or greatest of some values, at least one.
    fn extreme(values: &[Self], greatest: bool) -> Self;
    fn is_before(self, other: Self) -> bool;
}

/// The values of a chunk as they are held.
pub trait Store<N>: Sync {
    /// Takes an array that can be held so.
    fn of(data: &ArrayData) -> Self;
    fn at(&self, row: usize) -> N;
    /// Some values, where they lie or in a room.
    fn part<'a>(&'a self, rows: Range<usize>, room: &'a mut Vec<N>) -> &'a [N];
}

impl<N: ArrowNativeType> Store<N> for ScalarBuffer<N> {
    fn of(data: &ArrayData) -> Self {
        Self::new(data.buffers()[0].clone(), data.offset(), data.len())
    }

    fn at(&self, row: usize) -> N {
        self[row]
    }

    fn part<'a>(&'a self, rows: Range<usize>, _: &'a mut Vec<N>) -> &'a [N] {
        &self[rows]
    }
}

impl Store<f64> for Doubles {
    fn of(data: &ArrayData) -> Self {
        Self::new(data).expect("the column has looked at the type")
    }

    fn at(&self, row: usize) -> f64 {
        self.at(row)
    }

    fn part<'a>(&'a self, rows: Range<usize>, room: &'a mut Vec<f64>) -> &'a [f64] {
        self.part(rows, room)
    }
}

/// Folds values in lanes that know nothing of each other.
fn in_lanes<T: Copy, A: Copy>(
    values: &[T],
    zero: A,
    step: impl Fn(A, T) -> A,
    join: impl Fn(A, A) -> A,
) -> A {
    in_many_lanes::<LANES, T, A>(values, zero, step, join)
}

fn in_many_lanes<const COUNT: usize, T: Copy, A: Copy>(
    values: &[T],
    zero: A,
    step: impl Fn(A, T) -> A,
    join: impl Fn(A, A) -> A,
) -> A {
    let (blocks, rest) = values.as_chunks::<COUNT>();
    if blocks.is_empty() {
        // Of a short run, putting the lanes together would take longer than its values.
        return rest.iter().fold(zero, |sum, &value| step(sum, value));
    }
    let mut lanes = [zero; COUNT];
    for block in blocks {
        for lane in 0..COUNT {
            lanes[lane] = step(lanes[lane], block[lane]);
        }
    }
    let joined = lanes.into_iter().reduce(&join).unwrap_or(zero);
    rest.iter().fold(joined, |sum, &value| step(sum, value))
}

fn add_floats<T: Number>(start: f64, values: &[T]) -> f64 {
    if values.len() < LANES_MIN {
        return values.iter().fold(start, |sum, value| sum + value.float());
    }
    start + in_lanes(values, 0.0, |sum, value: T| sum + value.float(), |left, right| left + right)
}

macro_rules! integer {
    ($native:ty, $wide:ty, $total:expr, $lanes:expr, $add:expr) => {
        impl Number for $native {
            type Wide = $wide;
            type Store = ScalarBuffer<Self>;

            fn add(
                sum: <$wide as ArrowPrimitiveType>::Native,
                values: &[Self],
            ) -> <$wide as ArrowPrimitiveType>::Native {
                sum.wrapping_add($add(values))
            }

            fn float(self) -> f64 {
                self as f64
            }

            fn total(total: f64, values: &[Self]) -> f64 {
                $total(total, values)
            }

            fn extreme(values: &[Self], greatest: bool) -> Self {
                if greatest {
                    in_many_lanes::<$lanes, _, _>(
                        values,
                        <$native>::MIN,
                        |max, value| max.max(value),
                        |left, right| left.max(right),
                    )
                } else {
                    in_many_lanes::<$lanes, _, _>(
                        values,
                        <$native>::MAX,
                        |min, value| min.min(value),
                        |left, right| left.min(right),
                    )
                }
            }

            fn is_before(self, other: Self) -> bool {
                self < other
            }
        }
    };
}

macro_rules! add_wide {
    ($native:ty, $wide:ty) => {
        |values: &[$native]| {
            let step = |sum: $wide, value: $native| sum.wrapping_add(value as $wide);
            in_lanes(values, 0, step, |left, right| left.wrapping_add(right))
        }
    };
}

/// Narrow integers are added in 32 bits, some at a time, because that takes fewer registers than 64.
macro_rules! add_narrow {
    ($native:ty, $middle:ty, $wide:ty) => {
        |values: &[$native]| {
            let step = |sum: $middle, value: $native| sum.wrapping_add(value as $middle);
            let join = |left: $middle, right: $middle| left.wrapping_add(right);
            let block =
                |part: &[$native]| in_many_lanes::<{ NARROW_LANES / 2 }, _, _>(part, 0, step, join) as $wide;
            values.chunks(NARROW_VALUES).fold(0, |sum: $wide, part| sum.wrapping_add(block(part)))
        }
    };
}

/// Small integers are added as integers: nothing is lost, and it is several times faster than to convert each.
fn total_of_narrow<T: Number<Wide = W>, W: ArrowPrimitiveType>(total: f64, values: &[T]) -> f64
where
    W::Native: Default,
    i128: From<W::Native>,
{
    values
        .chunks(1 << 20)
        .fold(total, |total, block| total + i128::from(T::add(W::Native::default(), block)) as f64)
}

/// The same for 64 bits, where values are small enough; otherwise as floats.
fn total_of_signed(total: f64, values: &[i64]) -> f64 {
    const BIAS: i64 = 1 << 52;
    values.chunks(EXACT_VALUES).fold(total, |total, block| {
        let step =
            |(sum, bits): (i64, i64), value: i64| (sum.wrapping_add(value), bits | value.wrapping_add(BIAS));
        let (sum, bits) =
            in_lanes(block, (0, 0), step, |left, right| (left.0.wrapping_add(right.0), left.1 | right.1));
        if (bits as u64) >> 53 == 0 { total + sum as f64 } else { add_floats(total, block) }
    })
}

fn total_of_unsigned(total: f64, values: &[u64]) -> f64 {
    values.chunks(EXACT_VALUES).fold(total, |total, block| {
        let step = |(sum, bits): (u64, u64), value: u64| (sum.wrapping_add(value), bits | value);
        let (sum, bits) =
            in_lanes(block, (0, 0), step, |left, right| (left.0.wrapping_add(right.0), left.1 | right.1));
        if bits >> 53 == 0 { total + sum as f64 } else { add_floats(total, block) }
    })
}

integer!(i8, Int64Type, total_of_narrow, NARROW_LANES, add_narrow!(i8, i32, i64));
integer!(i16, Int64Type, total_of_narrow, { NARROW_LANES / 2 }, add_narrow!(i16, i32, i64));
integer!(i32, Int64Type, total_of_narrow, LANES, add_wide!(i32, i64));
integer!(i64, Int64Type, total_of_signed, LANES, add_wide!(i64, i64));
integer!(u8, UInt64Type, total_of_narrow, NARROW_LANES, add_narrow!(u8, u32, u64));
integer!(u16, UInt64Type, total_of_narrow, { NARROW_LANES / 2 }, add_narrow!(u16, u32, u64));
integer!(u32, UInt64Type, total_of_narrow, LANES, add_wide!(u32, u64));
integer!(u64, UInt64Type, total_of_unsigned, LANES, add_wide!(u64, u64));

macro_rules! float {
    ($native:ty, $store:ty) => {
        impl Number for $native {
            type Wide = Float64Type;
            type Store = $store;

            fn add(sum: f64, values: &[Self]) -> f64 {
                add_floats(sum, values)
            }

            fn float(self) -> f64 {
                f64::from(self)
            }

            fn total(total: f64, values: &[Self]) -> f64 {
                add_floats(total, values)
            }

            fn extreme(values: &[Self], greatest: bool) -> Self {
                let first = values[0];
                let is_nan =
                    in_lanes(values, false, |any, value| any | (value != value), |left, right| left | right);
                let found = if greatest {
                    let larger = |left: $native, right: $native| if right > left { right } else { left };
                    in_lanes(values, first, larger, larger)
                } else {
                    let smaller = |left: $native, right: $native| if right < left { right } else { left };
                    in_lanes(values, first, smaller, smaller)
                };
                // Neither NaN nor the sign of a zero is told apart by comparisons.
                if !is_nan && found != 0.0 {
                    return found;
                }
                values.iter().fold(first, |best, &value| {
                    if (if greatest { best.is_before(value) } else { value.is_before(best) }) {
                        value
                    } else {
                        best
                    }
                })
            }

            fn is_before(self, other: Self) -> bool {
                self.total_cmp(&other).is_lt()
            }
        }
    };
}

float!(f32, ScalarBuffer<f32>);
float!(f64, Doubles);

/// The chunks of one column.
pub enum Column {
    I8(Chunks<Int8Type>),
    I16(Chunks<Int16Type>),
    I32(Chunks<Int32Type>),
    I64(Chunks<Int64Type>),
    U8(Chunks<UInt8Type>),
    U16(Chunks<UInt16Type>),
    U32(Chunks<UInt32Type>),
    U64(Chunks<UInt64Type>),
    F32(Chunks<Float32Type>),
    F64(Chunks<Float64Type>),
}

impl Column {
    /// Reads one array per chunk, all of one type and long enough; a time is read as its number. Signed integers may be
    /// of several types: the widest has room for all. Doubles may be held as integers.
    pub fn new(arrays: &[Array], lengths: &[usize], is_double: bool) -> PyResult<Self> {
        if arrays.len() != lengths.len() {
            return Err(PyValueError::new_err(format!(
                "columns: {} arrays for {} chunks",
                arrays.len(),
                lengths.len()
            )));
        }
        if let Some((array, length)) =
            arrays.iter().zip(lengths).find(|(array, length)| array.0.len() < **length)
        {
            return Err(PyValueError::new_err(format!("columns: {} rows, expected {length}", array.0.len())));
        }
        if is_double {
            if let Some(other) = arrays.iter().find(|array| Doubles::new(&array.0).is_none()) {
                return Err(PyTypeError::new_err(format!("columns: {} are no doubles", other.0.data_type())));
            }
            return Ok(Self::F64(Chunks::of(arrays)));
        }
        let widened = widen_alike(arrays);
        let arrays = widened.as_deref().unwrap_or(arrays);
        let Some(first) = arrays.first() else { return Ok(Self::I64(Chunks(vec![]))) };
        if let Some(other) = arrays.iter().find(|array| array.0.data_type() != first.0.data_type()) {
            return Err(PyTypeError::new_err(format!(
                "columns: chunks of {} and of {}",
                first.0.data_type(),
                other.0.data_type()
            )));
        }
        Ok(match first.0.data_type() {
            DataType::Int8 => Self::I8(Chunks::of(arrays)),
            DataType::Int16 => Self::I16(Chunks::of(arrays)),
            DataType::Int32 => Self::I32(Chunks::of(arrays)),
            DataType::Int64 | DataType::Timestamp(_, _) => Self::I64(Chunks::of(arrays)),
            DataType::UInt8 => Self::U8(Chunks::of(arrays)),
            DataType::UInt16 => Self::U16(Chunks::of(arrays)),
            DataType::UInt32 => Self::U32(Chunks::of(arrays)),
            DataType::UInt64 => Self::U64(Chunks::of(arrays)),
            DataType::Float32 => Self::F32(Chunks::of(arrays)),
            DataType::Float64 => Self::F64(Chunks::of(arrays)),
            other => return Err(PyTypeError::new_err(format!("columns: {other} cannot be aggregated"))),
        })
    }

    /// Returns the values of some rows, each told by its chunk and its place there.
    pub fn take(&self, chunks: &[u32], rows: &[u32]) -> ArrowArray {
        match self {
            Self::I8(column) => column.take(chunks, rows),
            Self::I16(column) => column.take(chunks, rows),
            Self::I32(column) => column.take(chunks, rows),
            Self::I64(column) => column.take(chunks, rows),
            Self::U8(column) => column.take(chunks, rows),
            Self::U16(column) => column.take(chunks, rows),
            Self::U32(column) => column.take(chunks, rows),
            Self::U64(column) => column.take(chunks, rows),
            Self::F32(column) => column.take(chunks, rows),
            Self::F64(column) => column.take(chunks, rows),
        }
    }

    /// Returns states in the order in which they are asked for; None for a count if there are no nulls.
    pub fn fold(&self, runs: &[&[Run]], cells: usize, states: &[State]) -> Vec<Option<ArrowArray>> {
        let fold = |state: &State| match self {
            Self::I8(chunks) => chunks.fold(runs, cells, *state),
            Self::I16(chunks) => chunks.fold(runs, cells, *state),
            Self::I32(chunks) => chunks.fold(runs, cells, *state),
            Self::I64(chunks) => chunks.fold(runs, cells, *state),
            Self::U8(chunks) => chunks.fold(runs, cells, *state),
            Self::U16(chunks) => chunks.fold(runs, cells, *state),
            Self::U32(chunks) => chunks.fold(runs, cells, *state),
            Self::U64(chunks) => chunks.fold(runs, cells, *state),
            Self::F32(chunks) => chunks.fold(runs, cells, *state),
            Self::F64(chunks) => chunks.fold(runs, cells, *state),
        };
        states.iter().flat_map(fold).collect()
    }
}

/// Returns signed integers of several types in the widest of them; None if there is nothing to be done.
fn widen_alike(arrays: &[Array]) -> Option<Vec<Array>> {
    let first = arrays.first()?.0.data_type();
    if arrays.iter().all(|array| array.0.data_type() == first) {
        return None;
    }
    let is_signed = |array: &Array| array.0.data_type().is_signed_integer();
    let widest = arrays.iter().map(|array| array.0.data_type()).max_by_key(|kind| kind.primitive_width())?;
    arrays
        .iter()
        .all(is_signed)
        .then(|| arrays.iter().map(|array| Array(widened(&array.0, widest))).collect())
}

fn widened(data: &ArrayData, kind: &DataType) -> ArrayData {
    use DataType::{Int8, Int16, Int32, Int64};
    match (data.data_type(), kind) {
        (Int8, Int16) => widen::<Int8Type, Int16Type>(data),
        (Int8, Int32) => widen::<Int8Type, Int32Type>(data),
        (Int8, Int64) => widen::<Int8Type, Int64Type>(data),
        (Int16, Int32) => widen::<Int16Type, Int32Type>(data),
        (Int16, Int64) => widen::<Int16Type, Int64Type>(data),
        (Int32, Int64) => widen::<Int32Type, Int64Type>(data),
        _ => data.clone(),
    }
}

fn widen<F: ArrowPrimitiveType, T: ArrowPrimitiveType>(data: &ArrayData) -> ArrayData
where
    T::Native: From<F::Native>,
{
    PrimitiveArray::<F>::from(data.clone()).unary::<_, T>(T::Native::from).into_data()
}

type Chunk<N> = (<N as Number>::Store, Option<NullBuffer>);

pub struct Chunks<T: ArrowPrimitiveType>(Vec<Chunk<T::Native>>)
where
    T::Native: Number;

impl<T: ArrowPrimitiveType> Chunks<T>
where
    T::Native: Number,
{
    fn of(arrays: &[Array]) -> Self {
        let read = |array: &Array| {
            let data = &array.0;
            (Store::of(data), data.nulls().filter(|nulls| nulls.null_count() > 0).cloned())
        };
        Self(arrays.iter().map(read).collect())
    }

    fn take(&self, chunks: &[u32], rows: &[u32]) -> ArrowArray {
        let places = || chunks.iter().zip(rows).map(|(&chunk, &row)| (&self.0[chunk as usize], row as usize));
        let values: ScalarBuffer<T::Native> = places().map(|((values, _), row)| values.at(row)).collect();
        let has_nulls = self.0.iter().any(|(_, nulls)| nulls.is_some());
        let is_valid = |((_, nulls), row): (&Chunk<T::Native>, usize)| {
            nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
        };
        let nulls = has_nulls.then(|| places().map(is_valid).collect::<NullBuffer>());
        ArrowArray::new(PrimitiveArray::<T>::new(values, nulls))
    }

    fn fold(&self, runs: &[&[Run]], cells: usize, state: State) -> Vec<Option<ArrowArray>> {
        let found = match state {
            State::Count if self.0.iter().all(|(_, nulls)| nulls.is_none()) => return vec![None],
            State::Count => {
                let mut counts = vec![0i64; cells];
                self.each(runs, |cell, values| counts[cell] += values.len() as i64);
                vec![ArrowArray::from_values::<Int64Type>(counts)]
            }
            State::Sum => {
                type Wide<T> = <<T as ArrowPrimitiveType>::Native as Number>::Wide;
                let mut sums = vec![<Wide<T> as ArrowPrimitiveType>::Native::default(); cells];
                self.each(runs, |cell, values| sums[cell] = T::Native::add(sums[cell], values));
                vec![ArrowArray::from_values::<Wide<T>>(sums)]
            }
            State::Total => {
                let mut totals = vec![0.0; cells];
                self.each(runs, |cell, values| totals[cell] = T::Native::total(totals[cell], values));
                vec![ArrowArray::from_values::<Float64Type>(totals)]
            }
            State::Min | State::Max => vec![self.fold_extremes(runs, cells, state == State::Max)],
            State::Spread => self.fold_spread(runs, cells),
        };
        found.into_iter().map(Some).collect()
    }

    fn fold_extremes(&self, runs: &[&[Run]], cells: usize, greatest: bool) -> ArrowArray {
        let mut found = vec![T::Native::default(); cells];
        let mut has_value = vec![false; cells];
        self.each(runs, |cell, values| {
            let best = T::Native::extreme(values, greatest);
            let is_better = if greatest { found[cell].is_before(best) } else { best.is_before(found[cell]) };
            if is_better || !has_value[cell] {
                found[cell] = best;
                has_value[cell] = true;
            }
        });
        ArrowArray::from_values::<T>(found)
    }

    /// Mean and squares of each run from its own mean, put together as Chan et al. do it.
    fn fold_spread(&self, runs: &[&[Run]], cells: usize) -> Vec<ArrowArray> {
        let (mut counts, mut means, mut squares) = (vec![0.0; cells], vec![0.0; cells], vec![0.0; cells]);
        self.each(runs, |cell, values| {
            let count = values.len() as f64;
            let mean = add_floats(0.0, values) / count;
            let square = |sum: f64, value: T::Native| sum + (value.float() - mean) * (value.float() - mean);
            let own: f64 = in_lanes(values, 0.0, square, |left, right| left + right);
            let all = counts[cell] + count;
            let apart = mean - means[cell];
            means[cell] += apart * count / all;
            squares[cell] += own + apart * apart * counts[cell] * count / all;
            counts[cell] = all;
        });
        vec![ArrowArray::from_values::<Float64Type>(means), ArrowArray::from_values::<Float64Type>(squares)]
    }

    /// Hands over the values of every run, without nulls: in several pieces where nulls lie between.
    fn each(&self, runs: &[&[Run]], mut take: impl FnMut(usize, &[T::Native])) {
        let mut room = Vec::new();
        for (runs, (values, nulls)) in runs.iter().zip(&self.0) {
            for run in *runs {
                let (start, stop) = (run.start as usize, run.stop as usize);
                match nulls {
                    None => take(run.cell as usize, values.part(start..stop, &mut room)),
                    Some(nulls) => {
                        for (low, high) in nulls.inner().slice(start, stop - start).set_slices() {
                            take(run.cell as usize, values.part(start + low..start + high, &mut room));
                        }
                    }
                }
            }
        }
    }
}
