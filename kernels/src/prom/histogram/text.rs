//! A histogram as JSON, as Prometheus' HTTP API shows it, and as text.
//!
//! JSON: `{"count":"4","sum":"5","buckets":[[0,"1","2","4"]]}`; the first number of a bucket tells which edges belong to
//! it: 0 the upper, 1 the lower, 2 none, 3 both. Text: `{count:4, sum:5, (1,2]:4}`. Buckets without observations are
//! left out of both.

use std::io::Write;

use crate::prom::histogram::value::{Bucket, Histogram};
use crate::prom::json::write_value;

pub fn write_json(out: &mut Vec<u8>, histogram: &Histogram) {
    out.extend_from_slice(b"{\"count\":\"");
    write_value(out, histogram.count);
    out.extend_from_slice(b"\",\"sum\":\"");
    write_value(out, histogram.sum);
    out.push(b'"');
    let mut before: &[u8] = b",\"buckets\":[";
    let mut has_buckets = false;
    for bucket in histogram.buckets() {
        out.extend_from_slice(before);
        write_bucket(out, &bucket);
        (before, has_buckets) = (b",", true);
    }
    out.extend_from_slice(if has_buckets { b"]}" } else { b"}" });
}

fn write_bucket(out: &mut Vec<u8>, bucket: &Bucket) {
    let edges = match (bucket.has_lower, bucket.has_upper) {
        (false, true) => b'0',
        (true, false) => b'1',
        (false, false) => b'2',
        (true, true) => b'3',
    };
    out.extend_from_slice(&[b'[', edges]);
    for number in [bucket.lower, bucket.upper, bucket.count] {
        out.extend_from_slice(b",\"");
        write_value(out, number);
        out.push(b'"');
    }
    out.push(b']');
}

pub fn text(histogram: &Histogram) -> String {
    let mut out = b"{count:".to_vec();
    write_short(&mut out, histogram.count);
    out.extend_from_slice(b", sum:");
    write_short(&mut out, histogram.sum);
    for bucket in histogram.buckets() {
        out.extend_from_slice(if bucket.has_lower { b", [" } else { b", (" });
        write_short(&mut out, bucket.lower);
        out.push(b',');
        write_short(&mut out, bucket.upper);
        out.extend_from_slice(if bucket.has_upper { b"]:" } else { b"):" });
        write_short(&mut out, bucket.count);
    }
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

/// The shortest text of a number, with an exponent below 1e-4 and from 1e6 on.
fn write_short(out: &mut Vec<u8>, value: f64) {
    let size = value.abs();
    if !size.is_finite() || size == 0.0 || (1e-4..1e6).contains(&size) {
        return write_value(out, value);
    }
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
}
