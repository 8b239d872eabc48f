//! Row-touching kernels behind `tsdb._kernels`.
//!
//! Each kernel is a pure function from Arrow arrays to Arrow arrays, or to text: no I/O, no globals, the interpreter
//! lock released while it runs. Parsers of protocols are classes, because they number series and keep the numbers, within
//! bounds, between requests. What a kernel computes is defined at the head of its file; a plain Python reference of each
//! lives in `tests/kernels`.

mod arrow_ffi;
mod encode_column;
mod encode_json;
mod encode_line;
mod encode_rows;
mod encode_text;
mod find_known;
mod form;
mod greptime_rows;
mod group_series;
mod held;
mod histogram;
mod http;
mod interleave_runs;
mod interner;
mod keys;
mod line_protocol;
mod merge_dedup;
mod merge_sorted;
mod message_count;
mod metric_series;
mod mysql_cells;
mod mysql_rows;
mod packing;
mod parquet_chunk;
mod parquet_write;
mod passing_rows;
mod pick_stretches;
mod postgres_cells;
mod postgres_copy;
mod postgres_rows;
mod postgres_text;
mod prom_aggregate;
mod prom_buckets;
mod prom_extended;
mod prom_json;
mod prom_range;
mod prom_sum;
mod prom_window;
mod protobuf;
mod remote_read;
mod remote_write;
mod repeat_strings;
mod row_hash;
mod run_aggregate;
mod run_boundaries;
mod samples;
mod seal_payload;
mod series_ranks;
mod sort_keys;
mod sort_pieces;
mod tag_frames;
mod take_rows;
mod thrift;
mod time_slices;
mod values;
mod workers;

use pyo3::prelude::*;

#[pymodule]
mod _kernels {
    #[pymodule_export]
    use crate::arrow_ffi::ArrowArray;
    #[pymodule_export]
    use crate::encode_rows::encode_csv_rows;
    #[pymodule_export]
    use crate::encode_rows::encode_json_lines;
    #[pymodule_export]
    use crate::encode_rows::encode_json_objects;
    #[pymodule_export]
    use crate::encode_rows::encode_json_rows;
    #[pymodule_export]
    use crate::encode_rows::encode_table_rows;
    #[pymodule_export]
    use crate::encode_rows::measure_table_cells;
    #[pymodule_export]
    use crate::find_known::find_known;
    #[pymodule_export]
    use crate::form::parse_form;
    #[pymodule_export]
    use crate::greptime_rows::parse_greptime_rows;
    #[pymodule_export]
    use crate::group_series::group_series;
    #[pymodule_export]
    use crate::histogram::pool::Histograms;
    #[pymodule_export]
    use crate::http::ChunkedBody;
    #[pymodule_export]
    use crate::http::parse_http_head;
    #[pymodule_export]
    use crate::interleave_runs::interleave_runs;
    #[pymodule_export]
    use crate::line_protocol::LineParser;
    #[pymodule_export]
    use crate::line_protocol::LineRows;
    #[pymodule_export]
    use crate::line_protocol::LineTags;
    #[pymodule_export]
    use crate::merge_dedup::merge_dedup;
    #[pymodule_export]
    use crate::merge_sorted::merge_sorted;
    #[pymodule_export]
    use crate::message_count::count_otlp_messages;
    #[pymodule_export]
    use crate::metric_series::MetricSeries;
    #[pymodule_export]
    use crate::mysql_rows::encode_mysql_rows;
    #[pymodule_export]
    use crate::parquet_chunk::decode_parquet_chunk;
    #[pymodule_export]
    use crate::parquet_write::adopt_columns;
    #[pymodule_export]
    use crate::parquet_write::describe_file;
    #[pymodule_export]
    use crate::parquet_write::describe_row_group;
    #[pymodule_export]
    use crate::parquet_write::pack_columns;
    #[pymodule_export]
    use crate::passing_rows::passing_rows;
    #[pymodule_export]
    use crate::pick_stretches::pick_stretches;
    #[pymodule_export]
    use crate::postgres_copy::parse_postgres_copy;
    #[pymodule_export]
    use crate::postgres_rows::encode_postgres_copy;
    #[pymodule_export]
    use crate::postgres_rows::encode_postgres_rows;
    #[pymodule_export]
    use crate::prom_aggregate::prom_aggregate;
    #[pymodule_export]
    use crate::prom_aggregate::prom_first;
    #[pymodule_export]
    use crate::prom_buckets::prom_buckets;
    #[pymodule_export]
    use crate::prom_json::prom_json;
    #[pymodule_export]
    use crate::prom_json::prom_labels;
    #[pymodule_export]
    use crate::prom_range::prom_instant;
    #[pymodule_export]
    use crate::prom_range::prom_range;
    #[pymodule_export]
    use crate::remote_read::encode_read_result;
    #[pymodule_export]
    use crate::remote_write::RemoteWriteBatch;
    #[pymodule_export]
    use crate::remote_write::RemoteWriteParser;
    #[pymodule_export]
    use crate::repeat_strings::repeat_strings;
    #[pymodule_export]
    use crate::row_hash::row_hash;
    #[pymodule_export]
    use crate::run_aggregate::{SeriesRuns, touched_chunks};
    #[pymodule_export]
    use crate::run_boundaries::run_boundaries;
    #[pymodule_export]
    use crate::samples::SamplePiece;
    #[pymodule_export]
    use crate::samples::Samples;
    #[pymodule_export]
    use crate::samples::SeriesStretches;
    #[pymodule_export]
    use crate::seal_payload::seal_payload;
    #[pymodule_export]
    use crate::series_ranks::SeriesRanks;
    #[pymodule_export]
    use crate::sort_keys::sort_keys;
    #[pymodule_export]
    use crate::sort_pieces::SortedPieces;
    #[pymodule_export]
    use crate::sort_pieces::sort_pieces;
    #[pymodule_export]
    use crate::take_rows::take_rows;
    #[pymodule_export]
    use crate::time_slices::time_slices;
}
