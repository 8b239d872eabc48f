//! Kernels of ingestion: request bodies parsed into columns, and columns packed into log entries.
//!
//! `line_protocol`, `remote_write` and `greptime_rows` are parsers; `message_count` bounds OpenTelemetry requests before
//! they are parsed. The parsers number the series they meet (`interner`), so that a known series costs one lookup.
//! `find_known` and `metric_series` resolve such numbers to series of a region; `packing` and `seal_payload` write the
//! tags and the payload of a log entry.

pub mod find_known;
pub mod greptime_rows;
mod interner;
pub mod line_protocol;
pub mod message_count;
pub mod metric_series;
mod packing;
pub mod remote_write;
pub mod seal_payload;
