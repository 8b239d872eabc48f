//! Kernels of PromQL: from samples to matrices of series and steps, and to the bytes of an answer.
//!
//! `samples` collects the samples of chosen series, `range` evaluates windows of them step by step with the functions in
//! `window` and `extended`, `aggregate` and `buckets` combine the rows of a matrix. `sum` has the compensated sums that
//! all of them use, `histogram` native histograms. `json` writes answers of the HTTP API, `remote_read` those of remote
//! read.

pub mod aggregate;
pub mod buckets;
mod extended;
pub mod histogram;
pub mod json;
pub mod range;
pub mod remote_read;
pub mod samples;
mod sum;
mod window;
