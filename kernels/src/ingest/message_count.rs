//! How many messages a request of OpenTelemetry holds, counted before they are made.
//!
//! An empty message takes two bytes on the wire, and a hundred times as much once it is an object. So the messages are
//! counted by a walk over the bytes that makes nothing, and the walk ends at a limit. What is malformed is left to the
//! parser, which has the words for it.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::wire::protobuf::{Fields, Value};

/// A kind of message: which of its fields are messages, and of which kind.
type Children = &'static [(u32, Kind)];

#[derive(Clone, Copy)]
enum Kind {
    Metrics,
    Traces,
    Logs,
    ResourceMetrics,
    ResourceSpans,
    ResourceLogs,
    Resource,
    ScopeMetrics,
    ScopeSpans,
    ScopeLogs,
    Scope,
    Metric,
    /// Any of the five kinds of data, whose points have attributes in one of the fields 1, 7 and 9.
    Numbers,
    Histograms,
    ExponentialHistograms,
    Summaries,
    NumberPoint,
    HistogramPoint,
    ExponentialPoint,
    SummaryPoint,
    Exemplar,
    Span,
    Event,
    Link,
    LogRecord,
    KeyValue,
    AnyValue,
    Array,
    KeyValues,
    Leaf,
}

fn children(kind: Kind) -> Children {
    use Kind::*;
    match kind {
        Metrics => &[(1, ResourceMetrics)],
        Traces => &[(1, ResourceSpans)],
        Logs => &[(1, ResourceLogs)],
        ResourceMetrics => &[(1, Resource), (2, ScopeMetrics)],
        ResourceSpans => &[(1, Resource), (2, ScopeSpans)],
        ResourceLogs => &[(1, Resource), (2, ScopeLogs)],
        Resource => &[(1, KeyValue), (3, Leaf)],
        ScopeMetrics => &[(1, Scope), (2, Metric)],
        ScopeSpans => &[(1, Scope), (2, Span)],
        ScopeLogs => &[(1, Scope), (2, LogRecord)],
        Scope => &[(3, KeyValue)],
        Metric => &[
            (5, Numbers),
            (7, Numbers),
            (9, Histograms),
            (10, ExponentialHistograms),
            (11, Summaries),
            (12, KeyValue),
        ],
        Numbers => &[(1, NumberPoint)],
        Histograms => &[(1, HistogramPoint)],
        ExponentialHistograms => &[(1, ExponentialPoint)],
        Summaries => &[(1, SummaryPoint)],
        NumberPoint => &[(7, KeyValue), (5, Exemplar)],
        HistogramPoint => &[(9, KeyValue), (8, Exemplar)],
        ExponentialPoint => &[(1, KeyValue), (8, Leaf), (9, Leaf), (11, Exemplar)],
        SummaryPoint => &[(7, KeyValue), (6, Leaf)],
        Exemplar => &[(7, KeyValue)],
        Span => &[(9, KeyValue), (11, Event), (13, Link), (15, Leaf)],
        Event => &[(3, KeyValue)],
        Link => &[(4, KeyValue)],
        LogRecord => &[(5, AnyValue), (6, KeyValue)],
        KeyValue => &[(2, AnyValue)],
        AnyValue => &[(5, Array), (6, KeyValues)],
        Array => &[(1, AnyValue)],
        KeyValues => &[(1, KeyValue)],
        Leaf => &[],
    }
}

/// Count the messages of an export request of a signal (`metrics`, `traces`, `logs`), up to one more than a limit.
#[pyfunction]
pub fn count_otlp_messages(py: Python<'_>, body: &[u8], signal: &str, limit: usize) -> PyResult<usize> {
    let kind = match signal {
        "metrics" => Kind::Metrics,
        "traces" => Kind::Traces,
        "logs" => Kind::Logs,
        _ => return Err(PyValueError::new_err(format!("no signal {signal}"))),
    };
    Ok(py.detach(|| count(body, kind, limit)))
}

fn count(body: &[u8], kind: Kind, limit: usize) -> usize {
    let mut found = 0;
    // A stack of its own: values may hold values without end.
    let mut open = vec![(Fields::of(body), children(kind))];
    while let Some((fields, kinds)) = open.last_mut() {
        match fields.next() {
            Ok(Some((number, Value::Bytes(message)))) => {
                if let Some((_, child)) = kinds.iter().find(|each| each.0 == number) {
                    found += 1;
                    if found > limit {
                        break;
                    }
                    if !message.is_empty() {
                        open.push((Fields::of(message), children(*child)));
                    }
                }
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                open.pop();
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_messages_are_counted_up_to_the_limit() {
        let body = [0x0a, 0x00].repeat(100);
        assert_eq!(count(&body, Kind::Metrics, 1000), 100);
        assert_eq!(count(&body, Kind::Logs, 10), 11);
    }

    #[test]
    fn values_within_values_are_counted_without_recursion() {
        let mut value = Vec::new();
        for _ in 0..20 {
            let mut array = vec![0x0a, value.len() as u8];
            array.extend(&value);
            value = vec![0x2a, array.len() as u8];
            value.extend(&array);
        }
        assert_eq!(count(&value, Kind::AnyValue, 1000), 40);
    }

    #[test]
    fn what_is_malformed_ends_its_message() {
        assert_eq!(count(&[0x0a, 0x05, 0x00], Kind::Metrics, 10), 0);
    }
}
