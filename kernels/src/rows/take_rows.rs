//! `take_rows`: some rows of columns that lie in pieces, laid end to end.
//!
//! Each column has one array per piece, and `places` tells for each piece which of its rows are taken, in that order.
//! Of a column that is `wide`, pieces may be signed integers of any width, or times, and the answer has 64 bits; all
//! other columns keep the one type that their pieces have.

use arrow_array::PrimitiveArray;
use arrow_array::types::*;
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};

type Places = [ScalarBuffer<i64>];

#[pyfunction]
pub fn take_rows(
    py: Python<'_>,
    columns: Vec<Vec<Array>>,
    places: Vec<Array>,
    wide: Vec<bool>,
) -> PyResult<Vec<ArrowArray>> {
    let places =
        places.iter().map(|each| each.values::<Int64Type>("places")).collect::<PyResult<Vec<_>>>()?;
    if wide.len() != columns.len() {
        return Err(PyValueError::new_err("wide: there must be one for each column"));
    }
    check_places(&columns, &places)?;
    py.detach(|| {
        let takes = columns.iter().zip(&wide);
        takes.map(|(column, &is_wide)| take_column(column, &places, is_wide)).collect()
    })
}

fn check_places(columns: &[Vec<Array>], places: &Places) -> PyResult<()> {
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
        let rows = columns.iter().map(|column| column[piece].0.len()).min().unwrap_or(usize::MAX);
        if last >= rows as u64 {
            return Err(PyValueError::new_err(format!(
                "places: row {} is outside of {rows} rows",
                last as i64
            )));
        }
    }
    Ok(())
}

fn take_column(column: &[Array], places: &Places, is_wide: bool) -> PyResult<ArrowArray> {
    let Some(first) = column.first() else { return Ok(ArrowArray::from_values::<Int64Type>(vec![])) };
    if is_wide {
        return take_wide(column, places);
    }
    let kind = first.0.data_type();
    if let Some(other) = column.iter().find(|piece| piece.0.data_type() != kind) {
        return Err(PyTypeError::new_err(format!(
            "columns: pieces of {kind} and of {}",
            other.0.data_type()
        )));
    }
    Ok(match kind {
        DataType::Int8 => take_plain::<Int8Type>(column, places),
        DataType::Int16 => take_plain::<Int16Type>(column, places),
        DataType::Int32 => take_plain::<Int32Type>(column, places),
        DataType::Int64 | DataType::Timestamp(_, _) => take_plain::<Int64Type>(column, places),
        DataType::UInt8 => take_plain::<UInt8Type>(column, places),
        DataType::UInt16 => take_plain::<UInt16Type>(column, places),
        DataType::UInt32 => take_plain::<UInt32Type>(column, places),
        DataType::UInt64 => take_plain::<UInt64Type>(column, places),
        DataType::Float32 => take_plain::<Float32Type>(column, places),
        DataType::Float64 => take_plain::<Float64Type>(column, places),
        other => return Err(PyTypeError::new_err(format!("columns: {other} is no number"))),
    })
}

fn take_plain<T: ArrowPrimitiveType>(column: &[Array], places: &Places) -> ArrowArray {
    let mut values = Vec::with_capacity(count(places));
    for (piece, own) in column.iter().zip(places) {
        append::<T::Native, T::Native>(&piece.0, own, &mut values, |value| value);
    }
    ArrowArray::new(PrimitiveArray::<T>::new(values.into(), take_validity(column, places)))
}

fn take_wide(column: &[Array], places: &Places) -> PyResult<ArrowArray> {
    let mut values = Vec::with_capacity(count(places));
    for (piece, own) in column.iter().zip(places) {
        match piece.0.data_type() {
            DataType::Int8 => append::<i8, i64>(&piece.0, own, &mut values, i64::from),
            DataType::Int16 => append::<i16, i64>(&piece.0, own, &mut values, i64::from),
            DataType::Int32 => append::<i32, i64>(&piece.0, own, &mut values, i64::from),
            DataType::Int64 | DataType::Timestamp(_, _) => {
                append::<i64, i64>(&piece.0, own, &mut values, |value| value);
            }
            other => {
                return Err(PyTypeError::new_err(format!("columns: {other} is no integer with a sign")));
            }
        }
    }
    let nulls = take_validity(column, places);
    Ok(ArrowArray::new(PrimitiveArray::<Int64Type>::new(values.into(), nulls)))
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

fn take_validity(column: &[Array], places: &Places) -> Option<NullBuffer> {
    if column.iter().all(|piece| piece.0.null_count() == 0) {
        return None;
    }
    let mut validity = BooleanBufferBuilder::new(count(places));
    for (piece, own) in column.iter().zip(places) {
        match piece.0.nulls() {
            None => validity.append_n(own.len(), true),
            Some(nulls) => own.iter().for_each(|&row| validity.append(nulls.is_valid(row as usize))),
        }
    }
    Some(NullBuffer::new(validity.finish()))
}
