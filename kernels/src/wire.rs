//! Kernels of the servers: requests and results as bytes on the wire.
//!
//! `text` writes record batches as JSON, CSV and tables, `mysql` and `postgres` as rows of their protocols. `http` reads
//! heads and chunked bodies of requests, `form` reads parameters, `protobuf` reads and writes messages field by field.

pub mod form;
pub mod http;
pub mod mysql;
pub mod postgres;
pub mod protobuf;
pub mod text;
