//! `RemoteWriteReads`: requests unpacked and parsed by threads of our own, which never ask for the interpreter.
//!
//! Whoever submits a request goes on with other things; when it is read, a byte is written to a socket that he watches,
//! and he takes what is ready. So a request costs the interpreter two short visits, and its bytes none.

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::fd::FromRawFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use super::{Parser, RemoteWriteBatch, RemoteWriteParser};

struct Job {
    ticket: u64,
    body: PyBackedBytes,
}

struct Done {
    ticket: u64,
    batch: Option<RemoteWriteBatch>,
    /// Given back where the interpreter is: only there it can be let go.
    _body: PyBackedBytes,
}

#[derive(Default)]
struct Desk {
    waiting: VecDeque<Job>,
    done: Vec<Done>,
    is_closed: bool,
}

struct Shared {
    parser: Arc<Parser>,
    bytes_max: usize,
    desk: Mutex<Desk>,
    work: Condvar,
    bell: UnixStream,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(Job { ticket, body }) = self.next() {
            let batch = self.parser.read(std::slice::from_ref(&body), self.bytes_max);
            let was_empty = {
                let mut desk = self.desk();
                desk.done.push(Done { ticket, batch, _body: body });
                desk.done.len() == 1
            };
            if was_empty {
                // A socket that is full has rung already.
                let _ = (&self.bell).write(&[1]);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut desk = self.desk();
        loop {
            if desk.is_closed {
                return None;
            }
            if let Some(job) = desk.waiting.pop_front() {
                return Some(job);
            }
            desk = self.work.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[pyclass(frozen, module = "tsdb._kernels")]
pub struct RemoteWriteReads {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[pymethods]
impl RemoteWriteReads {
    /// `bell` is the descriptor of a socket that does not block, and becomes ours.
    #[new]
    #[pyo3(signature = (parser, *, bell, threads, bytes_max))]
    fn new(parser: &RemoteWriteParser, bell: i32, threads: usize, bytes_max: usize) -> PyResult<Self> {
        // SAFETY: the caller hands over a descriptor that is open and that nobody else closes.
        let bell = unsafe { UnixStream::from_raw_fd(bell) };
        let shared = Arc::new(Shared {
            parser: parser.shared(),
            bytes_max,
            desk: Mutex::default(),
            work: Condvar::new(),
            bell,
        });
        let begin = |number| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("tsdb-read-{number}")).spawn(move || shared.run())
        };
        let threads = (0..threads).map(begin).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { shared, threads: Mutex::new(threads) })
    }

    /// Reads a body soon.
    fn submit(&self, ticket: u64, body: PyBackedBytes) -> PyResult<()> {
        let mut desk = self.shared.desk();
        if desk.is_closed {
            return Err(PyRuntimeError::new_err("the readers are closed"));
        }
        desk.waiting.push_back(Job { ticket, body });
        drop(desk);
        self.shared.work.notify_one();
        Ok(())
    }

    /// What is read: tickets and, if the body could be read, batches.
    fn take(&self) -> Vec<(u64, Option<RemoteWriteBatch>)> {
        let done = std::mem::take(&mut self.shared.desk().done);
        done.into_iter().map(|each| (each.ticket, each.batch)).collect()
    }

    /// Ends the threads; what waits is not read.
    fn close(&self, py: Python<'_>) {
        let waiting = {
            let mut desk = self.shared.desk();
            desk.is_closed = true;
            std::mem::take(&mut desk.waiting)
        };
        drop(waiting);
        self.shared.work.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        py.detach(|| threads.into_iter().for_each(|thread| drop(thread.join())));
    }
}
