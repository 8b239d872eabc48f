//! Columns that come in as buffers of Python: numpy arrays, bytes. Cheaper than Arrow's capsules where there are many.
//!
//! What is trusted: that nobody changes an array he hands over while a kernel reads it.

use pyo3::buffer::{Element, PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A contiguous buffer of numbers, held for as long as this lives.
pub enum Held<T: Element> {
    Shared(PyBuffer<T>),
    /// One that began in the middle of a number, as parts of a file in memory may.
    Copied(Vec<T>),
}

impl<'py, T: Element> FromPyObject<'_, 'py> for Held<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(&object)?;
        if buffer.dimensions() != 1 || !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("expected one stretch of values"));
        }
        let is_aligned = buffer.buf_ptr().cast::<T>().is_aligned();
        if is_aligned || buffer.item_size() != size_of::<T>() || !T::is_compatible_format(buffer.format()) {
            return buffer.into_typed().map(Self::Shared);
        }
        let length = buffer.item_count();
        let mut copy = Vec::with_capacity(length);
        // SAFETY: the buffer has `length` values of `T`, one behind the other, which may be copied as bytes, and so much
        // is reserved; `T` has no bits that must not be.
        unsafe {
            let target: *mut T = copy.as_mut_ptr();
            target.cast::<u8>().copy_from_nonoverlapping(buffer.buf_ptr().cast(), length * size_of::<T>());
            copy.set_len(length);
        }
        Ok(Self::Copied(copy))
    }
}

impl<T: Element> Held<T> {
    pub fn get(&self) -> &[T] {
        let buffer = match self {
            Self::Shared(buffer) => buffer,
            Self::Copied(values) => return values,
        };
        let length = buffer.item_count();
        if length == 0 {
            return &[];
        }
        // SAFETY: the buffer is contiguous and aligned for `T`, which `PyBuffer` has checked, its exporter keeps it
        // where it is until this is dropped, and its owner does not change it.
        unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), length) }
    }
}
