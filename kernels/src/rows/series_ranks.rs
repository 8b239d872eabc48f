//! `SeriesRanks`: where series are in an order of them, found by their two hashes.
//!
//! The series sit in an open-addressed table, at least twice as large as their number, at the bits of `tsid`, which is a
//! hash already. It never changes, so any number of threads may look.

use arrow_array::types::UInt32Type;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrow_ffi::ArrowArray;
use crate::held::Held;

/// A slot without a series; ranks stay below it.
const FREE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Slot {
    tsid: u64,
    check: u64,
    rank: u32,
}

#[pyclass(frozen, module = "tsdb._kernels")]
pub struct SeriesRanks {
    slots: Vec<Slot>,
    series: usize,
}

#[pymethods]
impl SeriesRanks {
    /// Takes the hashes of distinct series in their order.
    #[new]
    fn new(py: Python<'_>, tsid: Held<u64>, check: Held<u64>) -> PyResult<Self> {
        let (tsid, check) = pair(&tsid, &check)?;
        if tsid.len() >= FREE as usize / 4 {
            return Err(PyValueError::new_err(format!("{} series are too many", tsid.len())));
        }
        Ok(py.detach(|| Self::of(tsid, check)))
    }

    fn __len__(&self) -> usize {
        self.series
    }

    /// The ranks of sets of series, one set behind the other; None if one of the series is not there.
    fn find(
        &self,
        py: Python<'_>,
        tsid: Vec<Held<u64>>,
        check: Vec<Held<u64>>,
    ) -> PyResult<Option<ArrowArray>> {
        if tsid.len() != check.len() {
            return Err(PyValueError::new_err("tsid and check differ in number"));
        }
        let sets = tsid.iter().zip(&check).map(|(tsid, check)| pair(tsid, check));
        let sets = sets.collect::<PyResult<Vec<_>>>()?;
        Ok(py.detach(|| self.ranks_of(&sets)).map(ArrowArray::from_values::<UInt32Type>))
    }
}

fn pair<'a>(tsid: &'a Held<u64>, check: &'a Held<u64>) -> PyResult<(&'a [u64], &'a [u64])> {
    let (tsid, check) = (tsid.get(), check.get());
    if tsid.len() != check.len() {
        return Err(PyValueError::new_err(format!("{} of tsid, but {} of check", tsid.len(), check.len())));
    }
    Ok((tsid, check))
}

impl SeriesRanks {
    fn of(tsid: &[u64], check: &[u64]) -> Self {
        let size = (tsid.len().max(4) * 2).next_power_of_two();
        let mut slots = vec![Slot { tsid: 0, check: 0, rank: FREE }; size];
        for (rank, (&tsid, &check)) in tsid.iter().zip(check).enumerate() {
            let mut at = tsid as usize & (size - 1);
            while slots[at].rank != FREE {
                at = (at + 1) & (size - 1);
            }
            slots[at] = Slot { tsid, check, rank: rank as u32 };
        }
        Self { slots, series: tsid.len() }
    }

    fn ranks_of(&self, sets: &[(&[u64], &[u64])]) -> Option<Vec<u32>> {
        let mut ranks = Vec::with_capacity(sets.iter().map(|(tsid, _)| tsid.len()).sum());
        for (tsid, check) in sets {
            for (&tsid, &check) in tsid.iter().zip(*check) {
                ranks.push(self.rank_of(tsid, check)?);
            }
        }
        Some(ranks)
    }

    #[inline]
    fn rank_of(&self, tsid: u64, check: u64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = tsid as usize & mask;
        loop {
            let slot = &self.slots[at];
            if slot.rank == FREE {
                return None;
            }
            if slot.tsid == tsid && slot.check == check {
                return Some(slot.rank);
            }
            at = (at + 1) & mask;
        }
    }
}
