//! HTTP/1.1 as a server reads it: the head of a request, and bodies that come in chunks.
//!
//! `httparse` tells what is well-formed. Beyond that a request has one length that all agree about, or it is refused: two
//! lengths, or a length and chunks, mean that somebody on its way would read it differently.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{MalformedInput, limit_exceeded};

const HEADERS_MAX: usize = 100;
const SIZE_DIGITS_MAX: usize = 15;
const LINE_BYTES_MAX: usize = 8192;

type Header<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// Size in bytes, method, decoded path, query, headers with names in lower case, length of the body (None for chunks),
/// whether the connection may be used again, whether the client understands chunks, whether it waits to be asked for the
/// body.
type Head<'py> =
    (usize, String, String, Bound<'py, PyBytes>, Vec<Header<'py>>, Option<u64>, bool, bool, bool);

/// Return the head that bytes begin with, None if it is not complete. MalformedInput if it is no head, LimitExceeded
/// for too many headers.
#[pyfunction]
pub fn parse_http_head<'py>(py: Python<'py>, data: &[u8]) -> PyResult<Option<Head<'py>>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let size = match request.parse(data) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(limit_exceeded("headers", HEADERS_MAX, HEADERS_MAX + 1));
        }
        Err(error) => return Err(MalformedInput::new_err(error.to_string())),
    };
    let is_modern = request.version == Some(1);
    let framing = Framing::of(request.headers, is_modern)?;
    let (path, query) = split_target(request.path.unwrap_or_default());
    Ok(Some((
        size,
        request.method.unwrap_or_default().to_owned(),
        decode_path(path),
        PyBytes::new(py, query.as_bytes()),
        request.headers.iter().map(|each| raw(py, each)).collect(),
        framing.length,
        framing.is_kept,
        is_modern,
        framing.expects,
    )))
}

fn raw<'py>(py: Python<'py>, header: &httparse::Header<'_>) -> Header<'py> {
    let name = header.name.to_ascii_lowercase();
    (PyBytes::new(py, name.as_bytes()), PyBytes::new(py, header.value))
}

struct Framing {
    length: Option<u64>,
    is_kept: bool,
    expects: bool,
}

impl Framing {
    fn of(headers: &[httparse::Header<'_>], is_modern: bool) -> PyResult<Framing> {
        let (mut length, mut is_chunked, mut is_kept, mut expects) = (None, false, is_modern, false);
        for header in headers {
            if header.name.eq_ignore_ascii_case("content-length") {
                let found = parse_length(header.value)?;
                if length.is_some_and(|other| other != found) {
                    return Err(MalformedInput::new_err("there are two different headers Content-Length"));
                }
                length = Some(found);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if is_chunked || !is_modern || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(MalformedInput::new_err(
                        "the only Transfer-Encoding that is understood is chunked",
                    ));
                }
                is_chunked = true;
            } else if header.name.eq_ignore_ascii_case("connection") {
                for word in header.value.split(|byte| *byte == b',') {
                    if word.trim_ascii().eq_ignore_ascii_case(b"close") {
                        is_kept = false;
                    } else if word.trim_ascii().eq_ignore_ascii_case(b"keep-alive") && !is_modern {
                        is_kept = true;
                    }
                }
            } else if header.name.eq_ignore_ascii_case("expect") {
                expects = header.value.trim_ascii().eq_ignore_ascii_case(b"100-continue");
            }
        }
        if is_chunked && length.is_some() {
            return Err(MalformedInput::new_err("a body has either a Content-Length or chunks"));
        }
        Ok(Framing { length: if is_chunked { None } else { Some(length.unwrap_or(0)) }, is_kept, expects })
    }
}

fn parse_length(value: &[u8]) -> PyResult<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(MalformedInput::new_err("the header Content-Length is not a number"));
    }
    let text = std::str::from_utf8(digits).unwrap_or_default();
    text.parse().map_err(|_| MalformedInput::new_err("the header Content-Length is too large"))
}

/// The path and the query of a target, which may be a whole address.
fn split_target(target: &str) -> (&str, &str) {
    let (place, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.split('#').next().unwrap_or_default();
    if place.starts_with('/') {
        return (place, query);
    }
    match place.split_once("://") {
        Some((_, rest)) => (rest.find('/').map_or("/", |slash| &rest[slash..]), query),
        None => (place, query),
    }
}

fn decode_path(path: &str) -> String {
    if !path.contains('%') {
        return path.to_owned();
    }
    let encoded = path.as_bytes();
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut at = 0;
    while let Some(&byte) = encoded.get(at) {
        let digits = if byte == b'%' { encoded.get(at + 1..at + 3) } else { None };
        match digits.and_then(|pair| Some((hexadecimal(pair[0])?, hexadecimal(pair[1])?))) {
            Some((high, low)) => {
                bytes.push(high * 16 + low);
                at += 3;
            }
            None => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hexadecimal(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

enum State {
    /// In the line that tells the size of a chunk.
    Size,
    /// In a chunk that goes on for so many bytes.
    Data(u64),
    /// In the end of the line behind a chunk.
    Behind,
    /// In the lines behind the last chunk.
    Trailer,
    Done,
}

/// A body that comes in chunks.
#[pyclass]
pub struct ChunkedBody {
    state: State,
    line: Vec<u8>,
}

#[pymethods]
impl ChunkedBody {
    #[new]
    fn new() -> Self {
        ChunkedBody { state: State::Size, line: Vec::new() }
    }

    /// Take what has come: what of it is the body, and how many bytes were taken. ValueError if they are no chunks.
    fn feed<'py>(&mut self, py: Python<'py>, data: &[u8]) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let mut body = Vec::with_capacity(data.len());
        let mut at = 0;
        while at < data.len() && !matches!(self.state, State::Done) {
            if let State::Data(left) = self.state {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(data.len() - at);
                body.extend_from_slice(&data[at..at + taken]);
                at += taken;
                self.state =
                    if taken as u64 == left { State::Behind } else { State::Data(left - taken as u64) };
                continue;
            }
            let end = data[at..].iter().position(|byte| *byte == b'\n');
            let stop = end.map_or(data.len(), |end| at + end + 1);
            self.line.extend_from_slice(&data[at..stop]);
            at = stop;
            if self.line.len() > LINE_BYTES_MAX {
                return Err(MalformedInput::new_err("a line between chunks is too long"));
            }
            if end.is_some() {
                self.end_line()?;
            }
        }
        Ok((PyBytes::new(py, &body), at))
    }

    #[getter]
    fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }
}

impl ChunkedBody {
    fn end_line(&mut self) -> PyResult<()> {
        let line = std::mem::take(&mut self.line);
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(MalformedInput::new_err("a line between chunks does not end with CR and LF"));
        };
        self.state = match self.state {
            State::Size => match parse_size(line)? {
                0 => State::Trailer,
                size => State::Data(size),
            },
            State::Behind if line.is_empty() => State::Size,
            State::Behind => return Err(MalformedInput::new_err("a chunk is longer than it says")),
            State::Trailer if line.is_empty() => State::Done,
            _ => State::Trailer,
        };
        Ok(())
    }
}

fn parse_size(line: &[u8]) -> PyResult<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_number =
        !digits.is_empty() && digits.len() <= SIZE_DIGITS_MAX && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).unwrap_or_default();
    if !is_number {
        return Err(MalformedInput::new_err("the size of a chunk is not a number"));
    }
    u64::from_str_radix(text, 16).map_err(|_| MalformedInput::new_err("the size of a chunk is not a number"))
}
