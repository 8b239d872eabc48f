//! Record batches as text: JSON, CSV and tables.
//!
//! `rows` writes a batch; `line` puts the cells of a row together, `column` opens a column for writing its cells, `value`
//! writes single values, `json` copies text that is JSON already.

pub mod column;
mod json;
mod line;
pub mod rows;
pub mod value;
