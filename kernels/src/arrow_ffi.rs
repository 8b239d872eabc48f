//! Arrow arrays cross between Python and Rust here, without a copy.
//!
//! In: [`Array`] takes any object with `__arrow_c_array__` (a pyarrow array, one of our own results) by
//! moving the C structure out of its capsule; the producer's buffers stay where they are until the last Rust
//! reference drops. A numpy array of numbers is taken as its buffer, which costs much less. Out:
//! [`ArrowArray`] offers the same method, so `pyarrow.array(result)` borrows our buffers.
//!
//! What is trusted: that the producer's structure describes its own memory truthfully (buffer addresses and
//! lengths). What is not: everything a kernel can check from there. String offsets and dictionary indices are
//! checked by the code that follows them.

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array as _, ArrayRef, PrimitiveArray, StructArray, make_array};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, FieldRef};
use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

const SCHEMA_CAPSULE: &CStr = c"arrow_schema";
const ARRAY_CAPSULE: &CStr = c"arrow_array";

/// An Arrow array that came in as an argument.
pub struct Array(pub ArrayData);

impl<'py> FromPyObject<'_, 'py> for Array {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // An array of our own is a buffer too, but one of bytes.
        if let Ok(own) = object.cast::<ArrowArray>() {
            return Ok(Self(own.get().data.clone()));
        }
        // SAFETY: the object is alive, and the interpreter lock is held.
        if unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) } == 1
            && let Some(data) = import_buffer(PyUntypedBuffer::get(&object)?)
        {
            return Ok(Self(data));
        }
        let Some(method) = object.getattr_opt("__arrow_c_array__")? else {
            return Err(not_an_array(&object));
        };
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = method.call0()?.extract()?;
        import(&schema, &array).map(Self)
    }
}

impl Array {
    /// The values of a column that must have exactly the type `T` and no nulls.
    pub fn values<T: ArrowPrimitiveType>(&self, name: &str) -> PyResult<ScalarBuffer<T::Native>> {
        if *self.0.data_type() != T::DATA_TYPE {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected an array of {}, received {}",
                T::DATA_TYPE,
                self.0.data_type()
            )));
        }
        refuse_nulls(&self.0, name)?;
        Ok(PrimitiveArray::<T>::from(self.0.clone()).values().clone())
    }
}

/// Says no to an array that has a null, with the row of the first one.
pub fn refuse_nulls(data: &ArrayData, name: &str) -> PyResult<()> {
    match data.nulls().and_then(first_null) {
        Some(row) => Err(PyValueError::new_err(format!(
            "{name}: row {row} is null; this column must have a value in every row"
        ))),
        None => Ok(()),
    }
}

fn first_null(nulls: &NullBuffer) -> Option<usize> {
    (0..nulls.len()).find(|&row| nulls.is_null(row))
}

fn not_an_array(object: &Bound<'_, PyAny>) -> PyErr {
    let kind = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "expected an Arrow array (an object with __arrow_c_array__), received {kind}; \
         combine the chunks of a chunked array first"
    ))
}

/// Returns numbers that lie one behind the other as an array; None if they do not, or are something else.
fn import_buffer(buffer: PyUntypedBuffer) -> Option<ArrayData> {
    let is_of_other_order = match buffer.format().to_bytes() {
        [b'<', ..] => cfg!(target_endian = "big"),
        [b'>' | b'!', ..] => cfg!(target_endian = "little"),
        _ => false,
    };
    if is_of_other_order {
        return None;
    }
    let data_type = match ElementType::from_format(buffer.format()) {
        ElementType::SignedInteger { bytes: 1 } => DataType::Int8,
        ElementType::SignedInteger { bytes: 2 } => DataType::Int16,
        ElementType::SignedInteger { bytes: 4 } => DataType::Int32,
        ElementType::SignedInteger { bytes: 8 } => DataType::Int64,
        ElementType::UnsignedInteger { bytes: 1 } => DataType::UInt8,
        ElementType::UnsignedInteger { bytes: 2 } => DataType::UInt16,
        ElementType::UnsignedInteger { bytes: 4 } => DataType::UInt32,
        ElementType::UnsignedInteger { bytes: 8 } => DataType::UInt64,
        ElementType::Float { bytes: 4 } => DataType::Float32,
        ElementType::Float { bytes: 8 } => DataType::Float64,
        _ => return None,
    };
    let (length, size) = (buffer.item_count(), buffer.len_bytes());
    let address = NonNull::new(buffer.buf_ptr().cast::<u8>())?;
    let is_aligned = address.as_ptr().addr().is_multiple_of(buffer.item_size());
    if buffer.dimensions() != 1 || !buffer.is_c_contiguous() || !is_aligned {
        return None;
    }
    // SAFETY: the exporter keeps so many bytes where they are until the buffer is dropped, which the result holds.
    let values = unsafe { Buffer::from_custom_allocation(address, size, Arc::new(buffer)) };
    // SAFETY: the values are plain numbers, aligned, and there are `length` of them.
    Some(unsafe { ArrayData::builder(data_type).len(length).add_buffer(values).build_unchecked() })
}

fn import(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<ArrayData> {
    let schema = schema.pointer_checked(Some(SCHEMA_CAPSULE))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY_CAPSULE))?.cast::<FFI_ArrowArray>();
    // SAFETY: a capsule of this name holds a pointer to an ArrowSchema that lives as long as the capsule,
    // which the caller borrows for the length of this call.
    let schema = unsafe { schema.as_ref() };
    // SAFETY: as above for ArrowArray. The structure is moved out and an empty one left in its place, which
    // the protocol asks of a consumer; the interpreter lock keeps any other thread from doing the same at
    // this moment.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    if array.is_released() {
        return Err(PyValueError::new_err("the Arrow array was already consumed"));
    }
    let data_type = DataType::try_from(schema).map_err(|error| PyTypeError::new_err(error.to_string()))?;
    // SAFETY: the producer promises that the structure describes memory that stays valid until it is
    // released; the result holds it and releases it once, when the last buffer is dropped.
    unsafe { arrow_array::ffi::from_ffi_and_data_type(array, data_type) }
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// An array made by a kernel; `pyarrow.array(result)` reads it without a copy.
#[derive(Clone)]
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct ArrowArray {
    data: ArrayData,
}

impl ArrowArray {
    pub fn new<T: ArrowPrimitiveType>(array: PrimitiveArray<T>) -> Self {
        Self { data: array.into_data() }
    }

    pub fn from_data(data: ArrayData) -> Self {
        Self { data }
    }

    /// The values of an array that came from `from_values`.
    pub fn bytes(&self) -> &[u8] {
        self.data.buffers().first().map_or(&[], |buffer| buffer.as_slice())
    }

    /// Columns as one struct array: a reader imports them all at once.
    pub fn from_columns(columns: Vec<(String, ArrayData)>) -> Self {
        let column = |(name, data): (String, ArrayData)| {
            let field = Field::new(name, data.data_type().clone(), true);
            (Arc::new(field), make_array(data))
        };
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = columns.into_iter().map(column).unzip();
        Self::from_data(StructArray::new(fields.into(), arrays, None).into_data())
    }

    /// The values as an Arrow array without nulls.
    pub fn from_values<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> Self {
        Self::new(PrimitiveArray::<T>::new(values.into(), None))
    }
}

#[pymethods]
impl ArrowArray {
    /// The Arrow PyCapsule protocol. `requested_schema` is a wish that a producer may leave unfulfilled; we
    /// do.
    #[pyo3(signature = (requested_schema = None))]
    pub fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let schema = FFI_ArrowSchema::try_from(self.data.data_type())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let schema = PyCapsule::new_with_value(py, schema, SCHEMA_CAPSULE)?;
        let array = PyCapsule::new_with_value(py, FFI_ArrowArray::new(&self.data), ARRAY_CAPSULE)?;
        PyTuple::new(py, [schema, array])
    }

    /// What numpy calls the type of the values: `numpy.frombuffer(result, result.dtype)` reads them without a copy.
    #[getter]
    fn dtype(&self) -> PyResult<&'static str> {
        match self.data.data_type() {
            _ if self.data.nulls().is_some() || self.data.offset() != 0 => {
                Err(PyTypeError::new_err("an array with nulls, or a part of one, is no plain memory"))
            }
            DataType::Int8 => Ok("i1"),
            DataType::Int16 => Ok("i2"),
            DataType::Int32 => Ok("i4"),
            DataType::Int64 => Ok("i8"),
            DataType::UInt8 => Ok("u1"),
            DataType::UInt16 => Ok("u2"),
            DataType::UInt32 => Ok("u4"),
            DataType::UInt64 => Ok("u8"),
            DataType::Float32 => Ok("f4"),
            DataType::Float64 => Ok("f8"),
            other => Err(PyTypeError::new_err(format!("{other} is no type of plain memory"))),
        }
    }

    /// The bytes of the values, which cannot be written to.
    ///
    /// # Safety
    ///
    /// `view` must be what the buffer protocol hands over.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut pyo3::ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let own = slf.get();
        own.dtype()?;
        let bytes = own.bytes();
        // SAFETY: the view holds a reference to this object, whose values neither move nor change while it lives.
        let done = unsafe {
            pyo3::ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr().cast_mut().cast(),
                bytes.len() as pyo3::ffi::Py_ssize_t,
                1,
                flags,
            )
        };
        if done == -1 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }

    /// # Safety
    ///
    /// There is nothing to let go of.
    unsafe fn __releasebuffer__(&self, _view: *mut pyo3::ffi::Py_buffer) {}

    pub fn __len__(&self) -> usize {
        self.data.len()
    }

    fn __repr__(&self) -> String {
        format!("<ArrowArray {} rows={}>", self.data.data_type(), self.data.len())
    }
}
