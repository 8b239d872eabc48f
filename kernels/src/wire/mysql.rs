//! Result sets of MySQL's protocol: `rows` writes packets, `cells` the values in them.

mod cells;
pub mod rows;
