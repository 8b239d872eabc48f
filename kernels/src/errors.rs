//! Errors that a caller handles, as exception classes with attributes.
//!
//!     ValueError
//!     ├── MalformedInput       bytes of a client, or a stored histogram, cannot be read; the text says why
//!     │   └── MalformedLine    a line of the line protocol cannot be read: `line`, `column`
//!     ├── LimitExceeded        there is more than the caller allows: `limit`, `found`
//!     └── UnsupportedValue     a value cannot be written in a protocol: `row`
//!     TypeError
//!     └── UnsupportedType      values of a type cannot be written in a protocol: `column`, `kind`
//!
//! An argument that breaks the contract of a kernel raises a plain TypeError or ValueError: the mistake is in the code that
//! called it, and nobody handles it.

use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

create_exception!(tsdb._kernels, MalformedInput, PyValueError, "Bytes that cannot be read.");
create_exception!(tsdb._kernels, MalformedLine, MalformedInput, "A line that cannot be read.");
create_exception!(tsdb._kernels, LimitExceeded, PyValueError, "There is more than the caller allows.");
create_exception!(tsdb._kernels, UnsupportedValue, PyValueError, "A value that a protocol cannot express.");
create_exception!(tsdb._kernels, UnsupportedType, PyTypeError, "A type that a protocol cannot express.");

/// `line` and `column` (in characters) count from 1.
pub fn malformed_line(reason: String, line: usize, column: usize) -> PyErr {
    with(MalformedLine::new_err(reason), |error| {
        error.setattr("line", line)?;
        error.setattr("column", column)
    })
}

/// `what` is the plural of what there is too much of; `found` is where counting ended, past the limit.
pub fn limit_exceeded(what: &str, limit: usize, found: usize) -> PyErr {
    with(LimitExceeded::new_err(format!("there are more than {limit} {what}")), |error| {
        error.setattr("limit", limit)?;
        error.setattr("found", found)
    })
}

pub fn unsupported_value(reason: String, row: usize) -> PyErr {
    with(UnsupportedValue::new_err(reason), |error| error.setattr("row", row))
}

/// `missing` says what there is none of, such as "there is no text".
pub fn unsupported_type(missing: &str, column: &str, kind: &str) -> PyErr {
    with(UnsupportedType::new_err(format!("column {column:?}: {missing} for values of {kind}")), |error| {
        error.setattr("column", column)?;
        error.setattr("kind", kind)
    })
}

/// Sets the attributes of an error; what goes wrong meanwhile is raised instead.
fn with(error: PyErr, set: impl Fn(&Bound<'_, PyAny>) -> PyResult<()>) -> PyErr {
    Python::attach(|py| match set(error.value(py).as_any()) {
        Ok(()) => error,
        Err(other) => other,
    })
}
