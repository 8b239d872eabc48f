//! Parameters of a query string or a form: `a=1&b=%C3%BC&a=3`.
//!
//! `+` is a blank, `%41` a byte; a `%` that no two hexadecimal digits follow stands for itself. A pair without `=` has an
//! empty value. Pieces between two `&` that are empty do not count.

use pyo3::prelude::*;

use crate::errors::{MalformedInput, limit_exceeded};

/// Return the pairs in order. LimitExceeded for more than `pairs_max`, MalformedInput for text that is not UTF-8.
#[pyfunction]
pub fn parse_form(py: Python<'_>, encoded: &[u8], pairs_max: usize) -> PyResult<Vec<(String, String)>> {
    py.detach(|| pairs(encoded, pairs_max))
}

fn pairs(encoded: &[u8], pairs_max: usize) -> PyResult<Vec<(String, String)>> {
    let mut found = Vec::new();
    for piece in encoded.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty()) {
        if found.len() == pairs_max {
            return Err(limit_exceeded("parameters", pairs_max, found.len() + 1));
        }
        let equals = piece.iter().position(|byte| *byte == b'=').unwrap_or(piece.len());
        let value = piece.get(equals + 1..).unwrap_or_default();
        found.push((decode(&piece[..equals])?, decode(value)?));
    }
    Ok(found)
}

fn decode(encoded: &[u8]) -> PyResult<String> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut at = 0;
    while let Some(&byte) = encoded.get(at) {
        let escaped = if byte == b'%' { encoded.get(at + 1..at + 3).and_then(hexadecimal) } else { None };
        bytes.push(match (byte, escaped) {
            (_, Some(decoded)) => decoded,
            (b'+', None) => b' ',
            (other, None) => other,
        });
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8(bytes).map_err(|_| MalformedInput::new_err("the parameters are not valid UTF-8"))
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let value = |digit: u8| (digit as char).to_digit(16);
    Some((value(digits[0])? * 16 + value(digits[1])?) as u8)
}
