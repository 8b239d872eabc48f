//! `take_rows`: some rows of columns that lie in pieces, laid end to end.
//!
//! Each column has one array per piece, and `places` tells for each piece which of its rows are taken, in that order.
//! A column that is wanted as `int64` may have pieces of signed integers of any width, or of times; one that is wanted as
//! `float64` of doubles, or of the integers that whole doubles are held as. All others keep the one type of their pieces.

use arrow_array::PrimitiveArray;
use arrow_array::types::*;
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::doubles::Doubles;
use crate::rows::times::{SteppedTimes, TimeSlice as _, Times};

type Places = [ScalarBuffer<i64>];

/// A piece of a column as it is held.
pub enum Piece {
    Values(ArrayData),
    Times(Times),
}

impl<'py> FromPyObject<'_, 'py> for Piece {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.cast::<SteppedTimes>().is_ok() {
            return object.extract().map(Self::Times);
        }
        object.extract().map(|array: Array| Self::Values(array.0))
    }
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Values(data) => data.len(),
            Self::Times(times) => times.len(),
        }
    }

    fn data_type(&self) -> &DataType {
        match self {
            Self::Values(data) => data.data_type(),
            Self::Times(_) => &DataType::Int64,
        }
    }

    fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Values(data) => data.nulls().filter(|nulls| nulls.null_count() > 0),
            Self::Times(_) => None,
        }
    }
}

/// The type of an answer.
#[derive(Clone, Copy)]
enum Kind {
    Own,
    Int64,
    Float64,
}

#[pyfunction]
pub fn take_rows(
    py: Python<'_>,
    columns: Vec<Vec<Piece>>,
    places: Vec<Array>,
    kinds: Vec<String>,
) -> PyResult<Vec<ArrowArray>> {
    let places =
        places.iter().map(|each| each.values::<Int64Type>("places")).collect::<PyResult<Vec<_>>>()?;
    let kinds = kinds.iter().map(|name| parse_kind(name)).collect::<PyResult<Vec<_>>>()?;
    if kinds.len() != columns.len() {
        return Err(PyValueError::new_err("kinds: there must be one for each column"));
    }
    check_places(&columns, &places)?;
    py.detach(|| {
        let takes = columns.iter().zip(kinds);
        takes.map(|(column, kind)| take_column(column, &places, kind)).collect()
    })
}

fn parse_kind(name: &str) -> PyResult<Kind> {
    Ok(match name {
        "own" => Kind::Own,
        "int64" => Kind::Int64,
        "float64" => Kind::Float64,
        _ => return Err(PyValueError::new_err(format!("kinds: {name} is not known"))),
    })
}

fn check_places(columns: &[Vec<Piece>], places: &Places) -> PyResult<()> {
    if let Some(column) = columns.iter().find(|column| column.len() != places.len()) {
        return Err(PyValueError::new_err(format!(
            "columns: {} pieces, expected {}",
            column.len(),
            places.len()
        )));
    }
    for (piece, own) in places.iter().enumerate() {
        // As unsigned, so that a negative place is past every end.
        let Some(last) = own.iter().map(|&row| row as u64).max() else { continue };
        let rows = columns.iter().map(|column| column[piece].len()).min().unwrap_or(usize::MAX);
        if last >= rows as u64 {
            return Err(PyValueError::new_err(format!(
                "places: row {} is outside of {rows} rows",
                last as i64
            )));
        }
    }
    Ok(())
}

fn take_column(column: &[Piece], places: &Places, kind: Kind) -> PyResult<ArrowArray> {
    match kind {
        Kind::Own => take_own(column, places),
        Kind::Int64 => take_integers(column, places),
        Kind::Float64 => take_doubles(column, places),
    }
}

fn take_own(column: &[Piece], places: &Places) -> PyResult<ArrowArray> {
    let Some(first) = column.first() else { return Ok(ArrowArray::from_values::<Int64Type>(vec![])) };
    let kind = first.data_type();
    if let Some(other) = column.iter().find(|piece| piece.data_type() != kind) {
        return Err(PyTypeError::new_err(format!("columns: pieces of {kind} and of {}", other.data_type())));
    }
    Ok(match kind {
        DataType::Int8 => take_plain::<Int8Type>(column, places),
        DataType::Int16 => take_plain::<Int16Type>(column, places),
        DataType::Int32 => take_plain::<Int32Type>(column, places),
        DataType::Int64 | DataType::Timestamp(_, _) => return take_integers(column, places),
        DataType::UInt8 => take_plain::<UInt8Type>(column, places),
        DataType::UInt16 => take_plain::<UInt16Type>(column, places),
        DataType::UInt32 => take_plain::<UInt32Type>(column, places),
        DataType::UInt64 => take_plain::<UInt64Type>(column, places),
        DataType::Float32 => take_plain::<Float32Type>(column, places),
        DataType::Float64 => take_plain::<Float64Type>(column, places),
        other => return Err(PyTypeError::new_err(format!("columns: {other} is no number"))),
    })
}

fn take_plain<T: ArrowPrimitiveType>(column: &[Piece], places: &Places) -> ArrowArray {
    let mut values = Vec::with_capacity(count(places));
    for (piece, own) in column.iter().zip(places) {
        if let Piece::Values(data) = piece {
            append::<T::Native, T::Native>(data, own, &mut values, |value| value);
        }
    }
    ArrowArray::new(PrimitiveArray::<T>::new(values.into(), take_validity(column, places)))
}

fn take_integers(column: &[Piece], places: &Places) -> PyResult<ArrowArray> {
    let mut values = Vec::with_capacity(count(places));
    for (piece, own) in column.iter().zip(places) {
        let data = match piece {
            Piece::Values(data) => data,
            Piece::Times(times) => {
                let times = times.all();
                values.extend(own.iter().map(|&row| times.at(row as usize)));
                continue;
            }
        };
        match data.data_type() {
            DataType::Int8 => append::<i8, i64>(data, own, &mut values, i64::from),
            DataType::Int16 => append::<i16, i64>(data, own, &mut values, i64::from),
            DataType::Int32 => append::<i32, i64>(data, own, &mut values, i64::from),
            DataType::Int64 | DataType::Timestamp(_, _) => {
                append::<i64, i64>(data, own, &mut values, |value| value);
            }
            other => {
                return Err(PyTypeError::new_err(format!("columns: {other} is no integer with a sign")));
            }
        }
    }
    let nulls = take_validity(column, places);
    Ok(ArrowArray::new(PrimitiveArray::<Int64Type>::new(values.into(), nulls)))
}

fn take_doubles(column: &[Piece], places: &Places) -> PyResult<ArrowArray> {
    let mut values = Vec::with_capacity(count(places));
    for (piece, own) in column.iter().zip(places) {
        let doubles = match piece {
            Piece::Values(data) => Doubles::new(data),
            Piece::Times(_) => None,
        };
        let Some(doubles) = doubles else {
            return Err(PyTypeError::new_err(format!("columns: {} are no doubles", piece.data_type())));
        };
        values.extend(own.iter().map(|&row| doubles.at(row as usize)));
    }
    let nulls = take_validity(column, places);
    Ok(ArrowArray::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)))
}

fn count(places: &Places) -> usize {
    places.iter().map(|own| own.len()).sum()
}

fn append<N: ArrowNativeType, W>(
    piece: &ArrayData,
    places: &[i64],
    values: &mut Vec<W>,
    widen: impl Fn(N) -> W,
) {
    let own = ScalarBuffer::<N>::new(piece.buffers()[0].clone(), piece.offset(), piece.len());
    values.extend(places.iter().map(|&row| widen(own[row as usize])));
}

fn take_validity(column: &[Piece], places: &Places) -> Option<NullBuffer> {
    if column.iter().all(|piece| piece.nulls().is_none()) {
        return None;
    }
    let mut validity = BooleanBufferBuilder::new(count(places));
    for (piece, own) in column.iter().zip(places) {
        match piece.nulls() {
            None => validity.append_n(own.len(), true),
            Some(nulls) => own.iter().for_each(|&row| validity.append(nulls.is_valid(row as usize))),
        }
    }
    Some(NullBuffer::new(validity.finish()))
}
