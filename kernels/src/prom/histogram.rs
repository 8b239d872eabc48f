//! Native histograms of Prometheus: what PromQL computes with them.
//!
//! `value` is one histogram, `layout` tells where its buckets lie, `combine` adds, subtracts and compares two, `quantile`
//! and `trim` look into the buckets, `window` and `extended` are the functions over the samples of a window, `stored` and
//! `text` are its forms outside. `pool` is what Python holds: many histograms, which never change, found by number.

pub mod combine;
mod extended;
pub mod layout;
pub mod pool;
mod quantile;
mod range;
mod stored;
pub mod text;
mod trim;
pub mod value;
mod window;
