//! `SeriesNumbers`: numbers for series in the order in which they come, found again by their two hashes.
//!
//! The hashes lie one behind the other, by number. An open-addressed table of numbers, at most three quarters full, is
//! looked into at the bits of `tsid`, which is a hash already. One thread adds series, any number of threads read.

use std::sync::{PoisonError, RwLock};

use arrow_array::types::{UInt32Type, UInt64Type};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;
use crate::held::Held;

/// A slot without a series; numbers stay below it.
const FREE: u32 = u32::MAX;
const SERIES_MAX: usize = FREE as usize / 4;
const SLOTS_MIN: usize = 16;

#[pyclass(frozen, module = "tsdb._kernels")]
pub struct SeriesNumbers {
    known: RwLock<Known>,
}

/// Series and their numbers, for one thread at a time.
#[derive(Default)]
pub struct Known {
    tsid: Vec<u64>,
    check: Vec<u64>,
    slots: Vec<u32>,
}

#[pymethods]
impl SeriesNumbers {
    #[new]
    fn new() -> Self {
        Self { known: RwLock::new(Known::default()) }
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.read(py, |known| known.tsid.len())
    }

    /// What the hashes and the table take.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        self.read(py, |known| {
            (known.tsid.capacity() + known.check.capacity()) * 8 + known.slots.capacity() * 4
        })
    }

    /// The numbers of series, and the places of those that are new, which get the next numbers.
    fn number(
        &self,
        py: Python<'_>,
        tsid: Held<u64>,
        check: Held<u64>,
    ) -> PyResult<(ArrowArray, ArrowArray)> {
        let (tsid, check) = (tsid.get(), check.get());
        if tsid.len() != check.len() {
            return Err(PyValueError::new_err(format!(
                "{} of tsid, but {} of check",
                tsid.len(),
                check.len()
            )));
        }
        let found = py.detach(|| {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            (known.tsid.len() + tsid.len() < SERIES_MAX).then(|| known.number(tsid, check))
        });
        let (numbers, new) = found.ok_or_else(|| PyValueError::new_err("too many series"))?;
        Ok((ArrowArray::from_values::<UInt32Type>(numbers), ArrowArray::from_values::<UInt32Type>(new)))
    }

    /// Both hashes of series with some numbers.
    fn hashes(&self, py: Python<'_>, numbers: Held<u32>) -> PyResult<(ArrowArray, ArrowArray)> {
        let numbers = numbers.get();
        let found = self.read(py, |known| {
            let take = |hashes: &[u64]| -> Option<Vec<u64>> {
                numbers.iter().map(|&number| hashes.get(number as usize).copied()).collect()
            };
            Some((take(&known.tsid)?, take(&known.check)?))
        });
        let (tsid, check) = found.ok_or_else(|| PyIndexError::new_err("a series has no such number"))?;
        Ok((ArrowArray::from_values::<UInt64Type>(tsid), ArrowArray::from_values::<UInt64Type>(check)))
    }
}

impl SeriesNumbers {
    /// Reads without the interpreter lock, so writers do not wait for it either.
    fn read<T: Send>(&self, py: Python<'_>, look: impl FnOnce(&Known) -> T + Send) -> T {
        py.detach(|| look(&self.known.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Known {
    pub fn len(&self) -> usize {
        self.tsid.len()
    }

    /// The numbers of series, and the places of those that are new, which get the next numbers.
    pub fn number(&mut self, tsid: &[u64], check: &[u64]) -> (Vec<u32>, Vec<u32>) {
        let mut numbers = Vec::with_capacity(tsid.len());
        let mut new = Vec::new();
        for (at, (&tsid, &check)) in tsid.iter().zip(check).enumerate() {
            if (self.tsid.len() + 1) * 4 > self.slots.len() * 3 {
                self.grow();
            }
            let mask = self.slots.len() - 1;
            let mut slot = tsid as usize & mask;
            let number = loop {
                let number = self.slots[slot];
                if number == FREE {
                    new.push(at as u32);
                    break self.add(slot, tsid, check);
                }
                if self.tsid[number as usize] == tsid && self.check[number as usize] == check {
                    break number;
                }
                slot = (slot + 1) & mask;
            };
            numbers.push(number);
        }
        (numbers, new)
    }

    fn add(&mut self, slot: usize, tsid: u64, check: u64) -> u32 {
        let number = self.tsid.len();
        if number == self.tsid.capacity() {
            // An eighth at a time: twice the room would be half empty for long.
            let more = (number / 8).max(SLOTS_MIN);
            self.tsid.reserve_exact(more);
            self.check.reserve_exact(more);
        }
        self.tsid.push(tsid);
        self.check.push(check);
        self.slots[slot] = number as u32;
        number as u32
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(SLOTS_MIN);
        let mut slots = vec![FREE; size];
        for (number, &tsid) in self.tsid.iter().enumerate() {
            let mut at = tsid as usize & (size - 1);
            while slots[at] != FREE {
                at = (at + 1) & (size - 1);
            }
            slots[at] = number as u32;
        }
        self.slots = slots;
    }
}
