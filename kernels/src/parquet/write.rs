//! What a file of Parquet is made of when most columns are packed here and the others by Arrow's writer.
//!
//!     integers ─▶ steps (`steps.rs`) ─────────────┐
//!     tags, series ids ─▶ codes (`codes.rs`) ─────┴▶ pages and what the footer says of them (`chunk.rs`)
//!
//! `pack_columns` makes these. The other columns of a row group come as a file of their own: `adopt_columns` takes their
//! description to the place they get. `describe_row_group` and `describe_file` put the footer together (`footer.rs`); what
//! it says of the schema is taken from the footer of an empty file, which is Arrow's.

mod bits;
mod chunk;
mod codes;
mod footer;
mod steps;
mod words;

use std::borrow::Cow;
use std::io;

use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, ByteArrayType, Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type,
    UInt32Type, UInt64Type, Utf8Type,
};
use arrow_array::{Array as _, GenericByteArray, PrimitiveArray};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyBytes;

use crate::arrow_ffi::Array;
use chunk::{Chunk, DELTA_BINARY_PACKED, Page, Physical, RLE_DICTIONARY, put_levels};
use codes::{number, put_codes, runs_of};
pub use footer::{adopt_columns, describe_file, describe_row_group};
use steps::Steps;
use words::{Word, range};

type Codec = zstd::bulk::Compressor<'static>;

/// A column: its name, its values, whether they may be null, and for integers how they are packed.
type Given = (PyBackedStr, Array, bool, Option<PyBackedStr>);

/// How integers are packed.
#[derive(Clone, Copy, PartialEq)]
enum Packing {
    Codes,
    Tight,
    Aligned,
    /// Tight or aligned, whatever is smaller.
    Smaller,
}

impl Packing {
    fn parse(name: Option<&str>) -> PyResult<Self> {
        match name {
            Some("codes") => Ok(Self::Codes),
            Some("tight") => Ok(Self::Tight),
            Some("aligned") => Ok(Self::Aligned),
            None => Ok(Self::Smaller),
            Some(other) => Err(PyValueError::new_err(format!("there is no packing {other:?}"))),
        }
    }
}

/// Returns the pages of columns, the first of which begins at an offset of the file; what the footer says of each column;
/// all bytes before compression; and of each column whether its steps lie along bytes.
#[pyfunction]
#[pyo3(signature = (columns, *, offset, level))]
#[allow(clippy::type_complexity)]
pub fn pack_columns<'py>(
    py: Python<'py>,
    columns: Vec<Given>,
    offset: usize,
    level: i32,
) -> PyResult<(Bound<'py, PyBytes>, Vec<Vec<u8>>, usize, Vec<bool>)> {
    let mut packings = Vec::new();
    for (name, values, nullable, packing) in &columns {
        if values.0.null_count() > 0 && !nullable {
            return Err(PyValueError::new_err(format!("{name}: a column that may not be null has a null")));
        }
        packings.push(Packing::parse(packing.as_deref())?);
    }
    let packed = py.detach(|| -> io::Result<Result<_, String>> {
        let mut codec = Codec::new(level)?;
        let (mut pages, mut described, mut plain_bytes, mut layouts) =
            (Vec::new(), Vec::new(), 0, Vec::new());
        for ((name, values, nullable, _), packing) in columns.iter().zip(packings) {
            let Some(chunk) = pack(&values.0, *nullable, packing, &mut codec)? else {
                return Ok(Err(format!("{name}: values of {} are not packed here", values.0.data_type())));
            };
            let (own, own_bytes) = chunk.put(name, offset, &mut pages);
            described.push(own);
            plain_bytes += own_bytes;
            layouts.push(chunk.is_aligned);
        }
        Ok(Ok((pages, described, plain_bytes, layouts)))
    });
    let (pages, described, plain_bytes, layouts) = packed?.map_err(PyTypeError::new_err)?;
    Ok((PyBytes::new(py, &pages), described, plain_bytes, layouts))
}

/// Packs a column; None if its type is for others.
fn pack(data: &ArrayData, nullable: bool, packing: Packing, codec: &mut Codec) -> io::Result<Option<Chunk>> {
    match data.data_type() {
        DataType::Int32 => pack_words::<Int32Type>(data, nullable, packing, codec).map(Some),
        DataType::UInt32 => pack_words::<UInt32Type>(data, nullable, packing, codec).map(Some),
        DataType::Int64 => pack_words::<Int64Type>(data, nullable, packing, codec).map(Some),
        DataType::UInt64 => pack_words::<UInt64Type>(data, nullable, packing, codec).map(Some),
        DataType::Dictionary(codes, values) if **codes == DataType::Int32 => match **values {
            DataType::Utf8 => pack_texts::<Utf8Type>(data, nullable, codec),
            DataType::LargeUtf8 => pack_texts::<LargeUtf8Type>(data, nullable, codec),
            DataType::Binary => pack_texts::<BinaryType>(data, nullable, codec),
            DataType::LargeBinary => pack_texts::<LargeBinaryType>(data, nullable, codec),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

fn pack_words<T: ArrowPrimitiveType<Native: Word>>(
    data: &ArrayData,
    nullable: bool,
    packing: Packing,
    codec: &mut Codec,
) -> io::Result<Chunk> {
    let array = PrimitiveArray::<T>::from(data.clone());
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    let values: Cow<'_, [T::Native]> = match nulls {
        None => Cow::Borrowed(array.values()),
        Some(nulls) => nulls.valid_indices().map(|row| array.values()[row]).collect(),
    };
    let mut levels = Vec::new();
    if nullable {
        put_levels(array.len(), nulls, &mut levels);
    }
    let (dictionary, page, is_aligned) = match packing {
        Packing::Codes => {
            let (dictionary, page) = pack_codes(&values, array.len(), levels, codec)?;
            (Some(dictionary), page, false)
        }
        _ => {
            let (page, is_aligned) = pack_steps(&Steps::new(&values), array.len(), levels, packing, codec)?;
            (None, page, is_aligned)
        }
    };
    Ok(Chunk {
        physical: T::Native::PHYSICAL,
        rows: array.len(),
        nulls: array.null_count(),
        range: range(&values),
        dictionary,
        data: page,
        is_aligned,
    })
}

/// Packs steps; those that cannot be aligned are packed tightly, whatever was asked for.
fn pack_steps(
    steps: &Steps,
    rows: usize,
    levels: Vec<u8>,
    packing: Packing,
    codec: &mut Codec,
) -> io::Result<(Page, bool)> {
    let mut aligned = None;
    if packing != Packing::Tight {
        let mut plain = levels.clone();
        if steps.put(true, &mut plain) {
            aligned = Some(Page::new(rows, DELTA_BINARY_PACKED, &plain, codec)?);
        }
    }
    match aligned {
        Some(page) if packing == Packing::Aligned => Ok((page, true)),
        aligned => {
            let mut plain = levels;
            steps.put(false, &mut plain);
            let tight = Page::new(rows, DELTA_BINARY_PACKED, &plain, codec)?;
            match aligned {
                Some(page) if page.content.len() < tight.content.len() => Ok((page, true)),
                _ => Ok((tight, false)),
            }
        }
    }
}

fn pack_codes<N: Word>(
    values: &[N],
    rows: usize,
    levels: Vec<u8>,
    codec: &mut Codec,
) -> io::Result<(Page, Page)> {
    let (dictionary, runs) = number(values);
    let mut words = Vec::with_capacity(size_of_val(dictionary.as_slice()));
    for value in &dictionary {
        value.put(&mut words);
    }
    let mut plain = levels;
    put_codes(&runs, dictionary.len(), &mut plain);
    Ok((Page::dictionary(dictionary.len(), &words, codec)?, Page::new(rows, RLE_DICTIONARY, &plain, codec)?))
}

/// Packs texts that come with their codes; None if a code is beyond the dictionary, or a value of it null.
fn pack_texts<T: ByteArrayType>(
    data: &ArrayData,
    nullable: bool,
    codec: &mut Codec,
) -> io::Result<Option<Chunk>> {
    let [values] = data.child_data() else { return Ok(None) };
    let values = GenericByteArray::<T>::from(values.clone());
    let codes = PrimitiveArray::<Int32Type>::from(
        ArrayData::builder(DataType::Int32)
            .len(data.len())
            .offset(data.offset())
            .nulls(data.nulls().cloned())
            .buffers(data.buffers().to_vec())
            .build()
            .map_err(io::Error::other)?,
    );
    let runs = match codes.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => runs_of(codes.values().iter().map(|&code| code as u32)),
        Some(nulls) => runs_of(nulls.valid_indices().map(|row| codes.values()[row] as u32)),
    };
    if values.null_count() > 0 || runs.iter().any(|&(code, _)| code as usize >= values.len()) {
        return Ok(None);
    }
    let bytes = |code: usize| -> &[u8] { values.value(code).as_ref() };
    let mut words = Vec::new();
    for code in 0..values.len() {
        words.extend_from_slice(&(bytes(code).len() as u32).to_le_bytes());
        words.extend_from_slice(bytes(code));
    }
    let mut plain = Vec::new();
    if nullable {
        put_levels(codes.len(), codes.nulls().filter(|nulls| nulls.null_count() > 0), &mut plain);
    }
    put_codes(&runs, values.len(), &mut plain);
    let used = || runs.iter().map(|&(code, _)| bytes(code as usize));
    Ok(Some(Chunk {
        physical: Physical::ByteArray,
        rows: codes.len(),
        nulls: codes.null_count(),
        range: used().min().zip(used().max()).map(|(least, greatest)| (least.to_vec(), greatest.to_vec())),
        dictionary: Some(Page::dictionary(values.len(), &words, codec)?),
        data: Page::new(codes.len(), RLE_DICTIONARY, &plain, codec)?,
        is_aligned: false,
    }))
}
