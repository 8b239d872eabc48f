//! Kernels of data files: Parquet pages decoded and encoded without Arrow's reader and writer.
//!
//! `read` decodes column chunks, `write` encodes them and describes row groups and the file; `thrift` is the encoding of
//! page headers and of the footer. The files are plain Parquet: any reader opens them.

pub mod read;
mod thrift;
pub mod write;
