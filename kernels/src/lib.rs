//! Row-touching kernels behind `tsdb._kernels`.
//!
//! Each kernel is a pure function from Arrow arrays to Arrow arrays, or to text: no I/O, no globals, the interpreter
//! lock released while it runs. Parsers of protocols are classes, because they number series and keep the numbers, within
//! bounds, between requests. What a kernel computes is defined at the head of its file; a plain Python reference of each
//! lives in `tests/kernels`.
//!
//! Modules are grouped by what they serve. A group uses only the groups left of it:
//!
//!     shared files here ◀─ rows, wire, parquet ◀─ ingest, prom

mod arrow_ffi;
mod errors;
mod held;
mod ingest;
mod parquet;
mod prom;
mod rows;
mod values;
mod wire;
mod workers;

use pyo3::prelude::*;

#[pymodule]
mod _kernels {
    #[pymodule_export]
    use crate::arrow_ffi::ArrowArray;
    #[pymodule_export]
    use crate::errors::{LimitExceeded, MalformedInput, MalformedLine, UnsupportedType, UnsupportedValue};

    #[pymodule_export]
    use crate::ingest::{
        find_known::find_known,
        greptime_rows::parse_greptime_rows,
        line_protocol::{LineParser, LineRows, LineTags},
        message_count::count_otlp_messages,
        metric_series::MetricSeries,
        remote_write::{RemoteWriteBatch, RemoteWriteParser},
        seal_payload::seal_payload,
    };

    #[pymodule_export]
    use crate::parquet::{
        read::decode_parquet_chunk,
        write::{adopt_columns, describe_file, describe_row_group, pack_columns},
    };

    #[pymodule_export]
    use crate::prom::{
        aggregate::{prom_aggregate, prom_first},
        buckets::prom_buckets,
        histogram::pool::Histograms,
        json::{prom_json, prom_labels},
        range::{prom_instant, prom_range},
        remote_read::encode_read_result,
        samples::{SamplePiece, Samples, SeriesStretches},
    };

    #[pymodule_export]
    use crate::rows::{
        common_keys::common_keys,
        contested_spans::contested_spans,
        cut_rows::cut_rows,
        group_series::group_series,
        interleave_runs::interleave_runs,
        merge_dedup::merge_dedup,
        merge_sorted::merge_sorted,
        passing_rows::passing_rows,
        pick_stretches::pick_stretches,
        repeat_strings::repeat_strings,
        row_hash::row_hash,
        run_aggregate::{SeriesRuns, touched_chunks},
        run_boundaries::run_boundaries,
        series_numbers::SeriesNumbers,
        series_ranks::SeriesRanks,
        sort_keys::sort_keys,
        sort_pieces::{SortedPieces, sort_pieces},
        take_rows::take_rows,
        text_filters::{TextFilters, text_needs},
        time_slices::time_slices,
        times::SteppedTimes,
    };

    #[pymodule_export]
    use crate::wire::{
        form::parse_form,
        http::{ChunkedBody, parse_http_head},
        mysql::rows::encode_mysql_rows,
        postgres::copy::parse_postgres_copy,
        postgres::rows::{encode_postgres_copy, encode_postgres_rows},
        text::rows::{
            encode_csv_rows, encode_json_lines, encode_json_objects, encode_json_rows, encode_table_rows,
            measure_table_cells,
        },
    };
}
