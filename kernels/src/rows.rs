//! Kernels of the region engine: rows of series, sorted, merged, cut and aggregated.
//!
//! A row has a series, a time and a sequence number (`keys`); `times` and `doubles` are columns in the narrow forms in
//! which they are held. `tag_frames`, `row_hash` and `group_series` derive the series
//! of rows from their tags, `series_numbers` numbers series as they come, `series_ranks` by their order. `sort_keys` and
//! `sort_pieces` sort rows, `contested_spans` and `common_keys` find what has to be merged, `cut_rows` leaves out what need
//! not be, `merge_dedup` and `merge_sorted` merge sorted rows and drop overwritten ones. The other kernels read sorted rows:
//! `pick_stretches`, `time_slices` and `passing_rows` select row ranges, `take_rows`, `interleave_runs` and
//! `repeat_strings` copy values, `run_boundaries` and `run_aggregate` reduce runs of rows.
//! `text_filters` makes the filters of full-text indexes from what texts are made of (`text_runs`).

pub mod common_keys;
pub mod contested_spans;
pub mod cut_rows;
pub mod doubles;
pub mod group_series;
pub mod interleave_runs;
pub mod keys;
pub mod merge_dedup;
pub mod merge_sorted;
pub mod passing_rows;
pub mod pick_stretches;
pub mod repeat_strings;
pub mod row_hash;
pub mod run_aggregate;
pub mod run_boundaries;
pub mod series_numbers;
pub mod series_ranks;
pub mod sort_keys;
pub mod sort_pieces;
mod tag_frames;
pub mod take_rows;
pub mod text_filters;
mod text_runs;
pub mod time_slices;
pub mod times;
