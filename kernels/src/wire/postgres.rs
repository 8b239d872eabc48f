//! Rows of PostgreSQL's protocol: `rows` writes messages, `cells` the values in them, `text` those that are text; `copy`
//! reads the rows of a binary COPY.

mod cells;
pub mod copy;
pub mod rows;
mod text;
