//! `MetricSeries`: the series of a physical table's region that writers name again and again, by their places.
//!
//! A place stays what it is; places are only added. The labels of many series are the same text, which is kept once for
//! all that came with it. Many threads may read while one adds.
//!
//! A thread may wait for this lock with the interpreter lock in hand. So no thread that has this lock ever waits for the
//! interpreter lock.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array as _, StringArray};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::arrow_ffi::{Array, ArrowArray};
use crate::ingest::packing::Packing;
use crate::ingest::seal_payload::{Bytes, Sealed, seal_joined};
use crate::values::Text;

/// The form of tags in a log entry that `pack` writes.
const PACKED: u32 = 1;

#[derive(Default)]
struct Kept {
    tsid: Vec<u64>,
    check: Vec<u64>,
    /// The id of the logical table.
    owner: Vec<u32>,
    /// Which text the labels are.
    text_of: Vec<u32>,
    texts: Texts,
}

#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    /// Where each text ends.
    ends: Vec<usize>,
}

impl Texts {
    #[inline]
    fn get(&self, number: u32) -> &[u8] {
        let at = number as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len());
    }
}

#[pyclass(frozen, module = "tsdb._kernels")]
pub struct MetricSeries {
    kept: RwLock<Kept>,
}

#[pymethods]
impl MetricSeries {
    #[new]
    fn new() -> Self {
        Self { kept: RwLock::default() }
    }

    fn __len__(&self) -> usize {
        self.read().tsid.len()
    }

    /// Adds series, whose labels are the texts `text_of` of `texts`; the place of the first.
    fn add(
        &self,
        py: Python<'_>,
        tsid: Array,
        check: Array,
        owner: Array,
        text_of: Array,
        texts: Array,
    ) -> PyResult<usize> {
        let tsid = tsid.values::<UInt64Type>("tsid")?;
        let check = check.values::<UInt64Type>("check")?;
        let owner = owner.values::<UInt32Type>("owner")?;
        let text_of = text_of.values::<Int32Type>("text_of")?;
        let Some(text) = Text::new(&texts.0) else {
            let kind = texts.0.data_type();
            return Err(PyTypeError::new_err(format!(
                "texts: expected an array of strings, received {kind}"
            )));
        };
        if [check.len(), owner.len(), text_of.len()].iter().any(|&length| length != tsid.len()) {
            return Err(PyValueError::new_err("the columns differ in length"));
        }
        let count = texts.0.len();
        if let Some(wrong) = text_of.iter().find(|&&at| usize::try_from(at).map_or(true, |at| at >= count)) {
            return Err(PyValueError::new_err(format!("text_of: there is no text {wrong}")));
        }
        let read = |at| std::str::from_utf8(text.get(at).unwrap_or_default());
        let added = (0..count).map(read).collect::<Result<Vec<&str>, _>>().map_err(|_| not_text())?;
        py.detach(|| {
            let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            let (start, first) = (kept.tsid.len(), kept.texts.ends.len());
            if start + tsid.len() >= u32::MAX as usize || first + count >= u32::MAX as usize {
                return Err(PyValueError::new_err("there are too many series"));
            }
            added.iter().for_each(|text| kept.texts.push(text));
            kept.tsid.extend_from_slice(&tsid);
            kept.check.extend_from_slice(&check);
            kept.owner.extend_from_slice(&owner);
            kept.text_of.extend(text_of.iter().map(|&at| first as u32 + at as u32));
            Ok(start)
        })
    }

    /// Both hashes of the series at places (uint32).
    fn hashes<'py>(
        &self,
        py: Python<'py>,
        places: PyBackedBytes,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let kept = self.read();
        let places = kept.check(&places)?;
        let of = |column: &[u64]| {
            PyBytes::new_with(py, 8 * places.len(), |bytes| {
                let (slots, _) = bytes.as_chunks_mut::<8>();
                for (slot, place) in slots.iter_mut().zip(places.iter()) {
                    *slot = column[u32::from_le_bytes(*place) as usize].to_le_bytes();
                }
                Ok(())
            })
        };
        Ok((of(&kept.tsid)?, of(&kept.check)?))
    }

    /// The payload of a log entry of rows of the series at places, sealed: as `tsdb.engine.entry` lays it out, with the
    /// tags packed. `headers` are those of the tags and of the fields, `fields` is in the form `fields_form`.
    #[pyo3(signature = (places, headers, fields, fields_form, times, index, *, compress_from))]
    #[allow(clippy::too_many_arguments, reason = "they are the parts of an entry, and named in its docs")]
    fn seal<'py>(
        &self,
        py: Python<'py>,
        places: PyBackedBytes,
        headers: (PyBackedBytes, PyBackedBytes),
        fields: PyBuffer<u8>,
        fields_form: u32,
        times: PyBuffer<u8>,
        index: PyBuffer<u8>,
        compress_from: usize,
    ) -> PyResult<Sealed<'py>> {
        if [&fields, &times, &index].iter().any(|part| !part.is_c_contiguous()) {
            return Err(PyValueError::new_err("parts: each must be one stretch of bytes"));
        }
        if index.len_bytes() * 2 != times.len_bytes() {
            return Err(PyValueError::new_err("index: there must be a series for each time"));
        }
        let (fields, times, index) = (Bytes::of(&fields), Bytes::of(&times), Bytes::of(&index));
        let entry = Entry {
            headers: (&headers.0, &headers.1),
            fields: fields.get(),
            fields_form,
            times: times.get(),
            index: index.get(),
        };
        seal_joined(py, compress_from, |joined| {
            let kept = self.read();
            entry.write(&kept, kept.check(&places)?, joined);
            Ok(())
        })
    }

    /// The tags of the series at places: the ids of tables (uint32) and the labels (string).
    fn tags(&self, places: PyBackedBytes) -> PyResult<(ArrowArray, ArrowArray)> {
        let kept = self.read();
        let places = kept.check(&places)?;
        let at = |place: &[u8; 4]| u32::from_le_bytes(*place) as usize;
        let owners = places.iter().map(|place| kept.owner[at(place)]).collect();
        let text = |place| {
            // SAFETY: `push` takes nothing that is not UTF-8.
            unsafe { std::str::from_utf8_unchecked(kept.texts.get(kept.text_of[at(place)])) }
        };
        let labels = StringArray::from_iter_values(places.iter().map(text));
        Ok((ArrowArray::from_values::<UInt32Type>(owners), ArrowArray::from_data(labels.into_data())))
    }
}

/// The parts of a log entry beside its series.
struct Entry<'a> {
    headers: (&'a [u8], &'a [u8]),
    fields: &'a [u8],
    fields_form: u32,
    times: &'a [u8],
    index: &'a [u8],
}

impl Entry<'_> {
    fn write(&self, kept: &Kept, places: &[[u8; 4]], out: &mut Vec<u8>) {
        let (tags_header, fields_header) = self.headers;
        let lengths = |tags: usize| {
            let sizes = [tags_header.len(), tags, fields_header.len(), self.fields.len(), places.len()];
            let rows = (self.index.len() / 4) as u32;
            let [a, b, c, d, e] = sizes.map(|size| size as u32);
            [a, b, c, d, e, rows, PACKED, self.fields_form].map(u32::to_le_bytes).concat()
        };
        let start = lengths(0).len() + tags_header.len();
        out.resize(start, 0);
        kept.pack(places, out);
        let head = lengths(out.len() - start);
        out[..head.len()].copy_from_slice(&head);
        out[head.len()..start].copy_from_slice(tags_header);
        out.extend_from_slice(fields_header);
        out.extend_from_slice(self.fields);
        for hashes in [&kept.tsid, &kept.check] {
            let of = |place: &[u8; 4]| hashes[u32::from_le_bytes(*place) as usize].to_le_bytes();
            out.extend(places.iter().flat_map(of));
        }
        out.extend_from_slice(self.times);
        out.extend_from_slice(self.index);
        out.resize(out.len().next_multiple_of(8), 0);
    }
}

fn not_text() -> PyErr {
    PyValueError::new_err("texts: one of them is not UTF-8")
}

impl MetricSeries {
    fn read(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Places, all of which there are.
    fn check<'p>(&self, places: &'p [u8]) -> PyResult<&'p [[u8; 4]]> {
        let (places, rest) = places.as_chunks::<4>();
        let count = self.tsid.len();
        let wrong =
            places.iter().map(|place| u32::from_le_bytes(*place)).find(|&place| place as usize >= count);
        match (wrong, rest.is_empty()) {
            (None, true) => Ok(places),
            (Some(wrong), _) => Err(PyValueError::new_err(format!("places: there is no series {wrong}"))),
            (None, false) => Err(PyValueError::new_err("places: these are not numbers of four bytes")),
        }
    }

    /// Appends the tags as a log holds them.
    fn pack(&self, places: &[[u8; 4]], packed: &mut Vec<u8>) {
        let mut owners = Packing::new(usize::MAX, places.len());
        let mut labels = Packing::new(self.texts.ends.len(), places.len());
        for (row, place) in places.iter().enumerate() {
            let at = u32::from_le_bytes(*place) as usize;
            owners.set(row, self.owner[at]);
            labels.set(row, self.text_of[at]);
        }
        let names: HashMap<u32, String> = owners.values().iter().map(|&id| (id, id.to_string())).collect();
        owners.write(|id| names[&id].as_bytes(), packed);
        labels.write(|at| self.texts.get(at), packed);
    }
}
