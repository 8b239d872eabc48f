//! `group_series`: the distinct series among rows, told apart by two hashes.
//!
//! A series is a pair of hashes of independent seeds, `tsid` and `check`. The answer lists the first row of each
//! distinct pair, in the order of appearance, and for every row the number of its pair in that list.
//!
//! The pairs sit in an open-addressed table of row numbers, at least twice as large as the number of rows, found by
//! the bits of `tsid`, which is a hash already. Neighbouring rows of one series, the common case, skip the table.

use arrow_array::types::{UInt32Type, UInt64Type};
use pyo3::prelude::*;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::rows::keys::{check_length, check_rows_max};

/// A slot without a series; row numbers stay below it.
const FREE: u32 = u32::MAX;

#[pyfunction]
pub fn group_series(py: Python<'_>, tsid: Array, check: Array) -> PyResult<(ArrowArray, ArrowArray)> {
    check_rows_max(&tsid, FREE as usize / 4)?;
    check_length("check", &check, &tsid)?;
    let (ids, checks) = (tsid.values::<UInt64Type>("tsid")?, check.values::<UInt64Type>("check")?);
    let (first, group) = py.detach(|| group(&ids, &checks));
    Ok((ArrowArray::from_values::<UInt32Type>(first), ArrowArray::from_values::<UInt32Type>(group)))
}

fn group(ids: &[u64], checks: &[u64]) -> (Vec<u32>, Vec<u32>) {
    let mask = (ids.len().max(4) * 2).next_power_of_two() - 1;
    let mut slots = vec![FREE; mask + 1];
    let mut first: Vec<u32> = Vec::new();
    let mut groups: Vec<u32> = Vec::with_capacity(ids.len());
    for row in 0..ids.len() {
        if row > 0 && ids[row] == ids[row - 1] && checks[row] == checks[row - 1] {
            groups.push(groups[row - 1]);
            continue;
        }
        let mut slot = ids[row] as usize & mask;
        let number = loop {
            let number = slots[slot];
            if number == FREE {
                slots[slot] = first.len() as u32;
                first.push(row as u32);
                break slots[slot];
            }
            let known = first[number as usize] as usize;
            if ids[known] == ids[row] && checks[known] == checks[row] {
                break number;
            }
            slot = (slot + 1) & mask;
        };
        groups.push(number);
    }
    (first, groups)
}
