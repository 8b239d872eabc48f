//! A series as text for people, for messages that refuse it: `metric{label="value"}`, as far as it can be read.

use crate::wire::protobuf::{Fields, each_varint};

/// Longer names are cut.
const CHARS_MAX: usize = 300;

/// The name of a message `TimeSeries` of version 1.
pub fn name_v1(message: &[u8]) -> String {
    let mut pairs = Vec::new();
    let mut fields = Fields::of(message);
    while let Ok(Some((number, value))) = fields.next() {
        if let (1, Ok(label)) = (number, value.bytes("a label")) {
            pairs.push(read_label(label));
        }
    }
    show(&pairs)
}

/// The name of a message `TimeSeries` of version 2.
pub fn name_v2(message: &[u8], symbols: &[&[u8]]) -> String {
    let mut references = Vec::new();
    let mut fields = Fields::of(message);
    while let Ok(Some((number, value))) = fields.next() {
        if number == 1 {
            // What cannot be read any further is left out.
            let _ = each_varint(value, "a reference", |reference| references.push(reference));
        }
    }
    let find = |reference: u64| -> &[u8] {
        usize::try_from(reference).ok().and_then(|at| symbols.get(at)).copied().unwrap_or_default()
    };
    let pairs: Vec<_> = references.chunks_exact(2).map(|pair| (find(pair[0]), find(pair[1]))).collect();
    show(&pairs)
}

fn read_label(message: &[u8]) -> (&[u8], &[u8]) {
    let (mut name, mut text): (&[u8], &[u8]) = (&[], &[]);
    let mut fields = Fields::of(message);
    while let Ok(Some((number, value))) = fields.next() {
        match (number, value.bytes("a label")) {
            (1, Ok(bytes)) => name = bytes,
            (2, Ok(bytes)) => text = bytes,
            _ => {}
        }
    }
    (name, text)
}

fn show(pairs: &[(&[u8], &[u8])]) -> String {
    let (mut metric, mut labels) = (String::new(), Vec::new());
    for (name, value) in pairs {
        let value = String::from_utf8_lossy(value);
        match *name {
            b"__name__" => metric = value.into_owned(),
            name => labels.push(format!("{}={value:?}", String::from_utf8_lossy(name))),
        }
    }
    if !labels.is_empty() {
        metric += &format!("{{{}}}", labels.join(", "));
    }
    match metric.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &metric[..at]),
        None => metric,
    }
}
