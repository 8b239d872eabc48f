//! `RemoteWriteParser`: requests of Prometheus remote write, versions 1 and 2, as columns.
//!
//! The parser keeps the series it has met and gives each a number, so that a series it knows costs one look-up of the
//! bytes of its labels. Numbers hold within a generation; a parser that has grown to its limits forgets everything
//! and begins the next one. Series are equal when their metric, database, physical table and labels are, whatever
//! the order in which a sender wrote them.
//!
//! A request is read as a whole or refused, with the place of the series that is wrong. Values keep their bits.
//! The table is shared by all threads: many look up at a time, and only new series are put in one by one.

mod histogram;
mod labels;
mod names;
mod request;
mod snappy;
mod table;
mod unpacked;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use arrow_array::types::{Float64Type, Int64Type, UInt32Type};
use arrow_array::{Array as _, BinaryArray, StringArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrow_ffi::ArrowArray;
use crate::wire::protobuf::Malformed;
use labels::Series;
use request::{Columns, Entry, Family, Metadata, read_v1, read_v2};
use table::{NO_KEY, SeriesTable, Trail};

/// A reader of one version.
type Read = fn(&[u8], &mut Columns, &mut Trail<'_>) -> Result<(), Malformed>;

/// An entry whose series is not known yet, a slot without a series; numbers stay below it.
const FREE: u32 = u32::MAX;

struct Generation {
    number: u64,
    table: RwLock<SeriesTable>,
}

impl Generation {
    fn new(number: u64) -> Arc<Self> {
        Arc::new(Self { number, table: RwLock::new(SeriesTable::new()) })
    }
}

struct Parser {
    is_strict: bool,
    series_max: usize,
    bytes_max: usize,
    current: Mutex<Arc<Generation>>,
}

#[pyclass(frozen, module = "tsdb._kernels")]
pub struct RemoteWriteParser(Parser);

#[pymethods]
impl RemoteWriteParser {
    #[new]
    #[pyo3(signature = (*, is_strict, series_max, bytes_max))]
    fn new(is_strict: bool, series_max: usize, bytes_max: usize) -> Self {
        Self(Parser { is_strict, series_max, bytes_max, current: Mutex::new(Generation::new(0)) })
    }

    /// Reads the message of a request.
    #[pyo3(signature = (body, *, version))]
    fn parse(&self, py: Python<'_>, body: PyBackedBytes, version: u8) -> PyResult<RemoteWriteBatch> {
        let read: Read = match version {
            1 => read_v1,
            2 => read_v2,
            _ => return Err(PyValueError::new_err(format!("there is no version {version}"))),
        };
        Ok(py.detach(|| self.0.parse(|columns, trail| read(&body, columns, trail)))?)
    }

    /// Reads the messages of requests of version 1, each a snappy block, as one. None if one of them cannot be read
    /// that way: it may be compressed otherwise, too large (`bytes_max` is for all) or malformed.
    #[pyo3(signature = (bodies, *, bytes_max))]
    fn read(&self, py: Python<'_>, bodies: Vec<PyBackedBytes>, bytes_max: usize) -> Option<RemoteWriteBatch> {
        let read = |columns: &mut Columns, trail: &mut Trail<'_>| {
            unpacked::each(&bodies, bytes_max, |message| read_v1(message, columns, trail).ok())
                .ok_or_else(|| Malformed("a body has to be read alone".into()))
        };
        py.detach(|| self.0.parse(read)).ok()
    }

    /// How many names of series are kept, and about how many bytes they take.
    fn size(&self) -> (usize, usize) {
        let generation = Arc::clone(&self.0.current.lock().unwrap_or_else(PoisonError::into_inner));
        let table = generation.table.read().unwrap_or_else(PoisonError::into_inner);
        (table.len(), table.bytes())
    }
}

impl Parser {
    /// Reads into columns and finds the numbers of their series.
    fn parse(
        &self,
        read: impl FnOnce(&mut Columns, &mut Trail<'_>) -> Result<(), Malformed>,
    ) -> Result<RemoteWriteBatch, Malformed> {
        let generation = self.generation();
        let mut columns = Columns::default();
        let known = {
            let table = generation.table.read().unwrap_or_else(PoisonError::into_inner);
            read(&mut columns, &mut Trail::new(&table))?;
            let known = columns.entries.iter().all(|entry| entry.number != NO_KEY);
            let numbers = || columns.entries.iter().map(|entry| table.series_of(entry.number)).collect();
            let known: Option<Vec<u32>> = known.then(numbers);
            known
        };
        let numbers = match known {
            Some(numbers) => numbers,
            None => intern(&generation, &columns, self.is_strict)?,
        };
        Ok(RemoteWriteBatch::new(columns, numbers, generation))
    }

    /// The generation for a new request.
    fn generation(&self) -> Arc<Generation> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = {
            let table = current.table.read().unwrap_or_else(PoisonError::into_inner);
            table.len() >= self.series_max || table.bytes() >= self.bytes_max
        };
        if is_full {
            *current = Generation::new(current.number + 1);
        }
        Arc::clone(&current)
    }
}

/// The number of each entry's series; those that are not known become so.
fn intern(generation: &Generation, columns: &Columns, is_strict: bool) -> Result<Vec<u32>, Malformed> {
    let mut table = generation.table.write().unwrap_or_else(PoisonError::into_inner);
    let mut number = |entry: &Entry| {
        let key = match entry.number {
            NO_KEY => table.intern(columns.key(entry), is_strict)?,
            key => key,
        };
        Ok(table.series_of(key))
    };
    let located = |place: u32, error: Malformed| Malformed(format!("series {place}: {error}"));
    columns.entries.iter().map(|entry| number(entry).map_err(|error| located(entry.place, error))).collect()
}

/// A request as columns.
#[pyclass(frozen, module = "tsdb._kernels")]
pub struct RemoteWriteBatch {
    generation: Arc<Generation>,
    numbers: Vec<u32>,
    metadata: Vec<Metadata>,
    /// For each entry its series as a position in `series`.
    local: Vec<u32>,
    #[pyo3(get)]
    series: ArrowArray,
    #[pyo3(get)]
    index: ArrowArray,
    #[pyo3(get)]
    times: ArrowArray,
    #[pyo3(get)]
    values: ArrowArray,
    #[pyo3(get)]
    places: ArrowArray,
    #[pyo3(get)]
    histogram_index: ArrowArray,
    #[pyo3(get)]
    histogram_times: ArrowArray,
    #[pyo3(get)]
    histogram_places: ArrowArray,
    #[pyo3(get)]
    histograms: ArrowArray,
}

impl RemoteWriteBatch {
    fn new(columns: Columns, entries: Vec<u32>, generation: Arc<Generation>) -> Self {
        let (numbers, local) = distinct(&entries);
        let mut index = Vec::with_capacity(columns.times.len());
        let mut places = Vec::with_capacity(columns.times.len());
        let mut histogram_index = Vec::with_capacity(columns.histograms.len());
        let mut histogram_places = Vec::with_capacity(columns.histograms.len());
        for (entry, &position) in columns.entries.iter().zip(&local) {
            index.extend(std::iter::repeat_n(position, entry.samples as usize));
            places.extend(std::iter::repeat_n(i64::from(entry.place), entry.samples as usize));
            histogram_index.extend(std::iter::repeat_n(position, entry.histograms as usize));
            histogram_places.extend(std::iter::repeat_n(i64::from(entry.place), entry.histograms as usize));
        }
        let histograms = BinaryArray::from_iter_values(&columns.histograms);
        Self {
            generation,
            metadata: columns.metadata,
            local,
            series: ArrowArray::from_values::<UInt32Type>(numbers.clone()),
            numbers,
            index: ArrowArray::from_values::<UInt32Type>(index),
            times: ArrowArray::from_values::<Int64Type>(columns.times),
            values: ArrowArray::from_values::<Float64Type>(columns.values),
            places: ArrowArray::from_values::<Int64Type>(places),
            histogram_index: ArrowArray::from_values::<UInt32Type>(histogram_index),
            histogram_times: ArrowArray::from_values::<Int64Type>(columns.histogram_times),
            histogram_places: ArrowArray::from_values::<Int64Type>(histogram_places),
            histograms: ArrowArray::from_data(histograms.into_data()),
        }
    }
}

#[pymethods]
impl RemoteWriteBatch {
    /// `series`, `index`, `times` and `values` as bytes.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let columns = [&self.series, &self.index, &self.times, &self.values];
        PyTuple::new(py, columns.map(|column| PyBytes::new(py, column.bytes())))
    }

    /// Of the numbers in `series`.
    #[getter]
    fn generation(&self) -> u64 {
        self.generation.number
    }

    /// What the series are: metrics, databases, physical tables, labels; as far as they are chosen by labels.
    #[pyo3(signature = (positions = None))]
    fn describe(
        &self,
        py: Python<'_>,
        positions: Option<crate::arrow_ffi::Array>,
    ) -> PyResult<(ArrowArray, ArrowArray, ArrowArray, ArrowArray)> {
        let chosen = match positions {
            Some(positions) => self.choose(&positions.values::<Int64Type>("positions")?)?,
            None => self.numbers.clone(),
        };
        Ok(py.detach(|| {
            let table = self.generation.table.read().unwrap_or_else(PoisonError::into_inner);
            let of = |part: fn(&Series) -> Option<&str>| -> ArrowArray {
                let column: StringArray = chosen.iter().map(|&number| part(table.get(number))).collect();
                ArrowArray::from_data(column.into_data())
            };
            (
                of(|series| Some(&series.metric)),
                of(|series| series.database.as_deref()),
                of(|series| series.physical_table.as_deref()),
                of(|series| Some(&series.labels)),
            )
        }))
    }

    /// The labels of some series, flat: for each label which of the positions has it, its name and its value.
    fn label_pairs(
        &self,
        py: Python<'_>,
        positions: crate::arrow_ffi::Array,
    ) -> PyResult<(ArrowArray, ArrowArray, ArrowArray)> {
        let chosen = self.choose(&positions.values::<Int64Type>("positions")?)?;
        Ok(py.detach(|| {
            let table = self.generation.table.read().unwrap_or_else(PoisonError::into_inner);
            let (mut owners, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for (owner, &number) in chosen.iter().enumerate() {
                for (name, value) in labels::read_text_pairs(&table.get(number).labels) {
                    owners.push(owner as u32);
                    names.push(name);
                    values.push(value);
                }
            }
            (
                ArrowArray::from_values::<UInt32Type>(owners),
                ArrowArray::from_data(StringArray::from_iter_values(names).into_data()),
                ArrowArray::from_data(StringArray::from_iter_values(values).into_data()),
            )
        }))
    }

    /// What the request tells about metrics: name, type, help and unit.
    #[getter]
    fn metadata(&self) -> Vec<(String, u32, String, String)> {
        let table = self.generation.table.read().unwrap_or_else(PoisonError::into_inner);
        let name = |family: &Family| match family {
            Family::Name(name) => name.clone(),
            Family::Entry(entry) => table.get(self.numbers[self.local[*entry] as usize]).metric.clone(),
        };
        self.metadata.iter().map(|it| (name(&it.family), it.kind, it.help.clone(), it.unit.clone())).collect()
    }
}

impl RemoteWriteBatch {
    fn choose(&self, positions: &[i64]) -> PyResult<Vec<u32>> {
        let find = |&position: &i64| {
            let found = usize::try_from(position).ok().and_then(|at| self.numbers.get(at)).copied();
            found.ok_or_else(|| PyValueError::new_err(format!("positions: there is no series {position}")))
        };
        positions.iter().map(find).collect()
    }
}

/// The distinct numbers in order of appearance, and for each number where it is among them.
fn distinct(numbers: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let bits = (numbers.len().max(4) * 2).next_power_of_two().trailing_zeros();
    let mask = (1usize << bits) - 1;
    let mut slots = vec![FREE; mask + 1];
    let mut found: Vec<u32> = Vec::with_capacity(numbers.len());
    let mut local = Vec::with_capacity(numbers.len());
    for &number in numbers {
        // Numbers are dense, so spread them by the golden ratio.
        let mut slot = (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize;
        let position = loop {
            let position = slots[slot];
            if position == FREE {
                slots[slot] = found.len() as u32;
                found.push(number);
                break slots[slot];
            }
            if found[position as usize] == number {
                break position;
            }
            slot = (slot + 1) & mask;
        };
        local.push(position);
    }
    (found, local)
}
