//! How many threads a kernel may use.
//!
//! The standard library asks the system each time, and reads the files of the control groups to do so: some forty
//! system calls, more than the whole work on a small matrix.

use std::sync::OnceLock;

static CORES: OnceLock<usize> = OnceLock::new();

/// The cores that this process may use, as they were when it was first asked, up to `limit`.
pub fn workers(limit: usize) -> usize {
    (*CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))).min(limit)
}
