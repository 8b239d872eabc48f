//! `seal_payload`: the parts of a log entry as one payload, compressed if that pays, with its checksum.
//!
//! Joining, compressing (an LZ4 block) and summing up (CRC-32C of what is stored) are one call, so that a writer gives up
//! the interpreter once, not for each part.

use std::cell::RefCell;

use lz4_flex::block::{compress_into, get_maximum_output_size};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A thread keeps the memory that it joins in and compresses into, up to so many bytes of each.
const KEPT_BYTES_MAX: usize = 4 << 20;

#[derive(Default)]
struct Space {
    joined: Vec<u8>,
    packed: Vec<u8>,
}

thread_local! {
    static SPACE: RefCell<Space> = RefCell::default();
}

/// Returns what is to be stored, its checksum, whether it is compressed, and how long it is when it is not.
#[pyfunction]
#[pyo3(signature = (parts, *, compress_from))]
pub fn seal_payload<'py>(
    py: Python<'py>,
    parts: Vec<PyBuffer<u8>>,
    compress_from: usize,
) -> PyResult<Sealed<'py>> {
    if parts.iter().any(|part| !part.is_c_contiguous()) {
        return Err(PyValueError::new_err("parts: each must be one stretch of bytes"));
    }
    let slices: Vec<Bytes> = parts.iter().map(Bytes::of).collect();
    seal_joined(py, compress_from, |joined| {
        joined.reserve(slices.iter().map(|part| part.length).sum());
        slices.iter().for_each(|part| joined.extend_from_slice(part.get()));
        Ok(())
    })
}

/// What `seal_payload` returns.
pub type Sealed<'py> = (Bound<'py, PyBytes>, u32, bool, usize);

/// Seals what a function writes, which runs without the interpreter.
pub fn seal_joined<'py>(
    py: Python<'py>,
    compress_from: usize,
    write: impl FnOnce(&mut Vec<u8>) -> PyResult<()> + Send,
) -> PyResult<Sealed<'py>> {
    SPACE.with_borrow_mut(|space| {
        let (is_compressed, crc) = py.detach(|| {
            space.joined.clear();
            write(&mut space.joined)?;
            PyResult::Ok(space.seal(compress_from))
        })?;
        let stored = if is_compressed { &space.packed } else { &space.joined };
        let result = (PyBytes::new(py, stored), crc, is_compressed, space.joined.len());
        space.shrink();
        Ok(result)
    })
}

/// The bytes of a part, which its exporter holds still as long as the buffer lives.
pub struct Bytes {
    start: *const u8,
    length: usize,
}

impl Bytes {
    /// Those of a buffer that is one stretch.
    pub fn of(buffer: &PyBuffer<u8>) -> Self {
        Self { start: buffer.buf_ptr().cast(), length: buffer.len_bytes() }
    }

    pub fn get(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the buffer is contiguous, it is held by the caller for longer than this lives, and those who write
        // payloads do not change what they hand over.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

// SAFETY: only read, and only while the buffers are held; the thread that reads is the one that holds them.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Space {
    /// Fills `packed` if that is shorter than `joined`; whether it is, and the checksum of the one to be stored.
    fn seal(&mut self, compress_from: usize) -> (bool, u32) {
        let Self { joined, packed } = self;
        if joined.len() >= compress_from {
            // The capacity is kept, so the bytes are set once and then only overwritten.
            packed.resize(packed.len().max(get_maximum_output_size(joined.len())), 0);
            if let Ok(length) = compress_into(joined, packed)
                && length < joined.len()
            {
                packed.truncate(length);
                return (true, crc32c::crc32c(packed));
            }
        }
        (false, crc32c::crc32c(joined))
    }

    fn shrink(&mut self) {
        for each in [&mut self.joined, &mut self.packed] {
            if each.capacity() > KEPT_BYTES_MAX {
                *each = Vec::new();
            }
        }
    }
}
