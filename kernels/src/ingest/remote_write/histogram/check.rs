//! What a native histogram must be to make sense: the rules that Prometheus has for what it stores.
//!
//! - Spans promise as many buckets as there are; behind the first, none begins before the end of the one before it.
//! - The schema is one of -4 to 8, whose bounds are powers, or -53, whose bounds are given: ascending, finite, and
//!   enough for all buckets. With given bounds there are neither negative buckets nor one around zero.
//! - No bucket is negative. Whole buckets add up to the count; they may hold fewer when the sum is not a number, because
//!   such observations are in no bucket. Floats are not added up, because they are rounded; and what is computed from
//!   histograms may have a count or a zero count below zero.

use super::{Histogram, Side};
use crate::wire::protobuf::{Malformed, malformed};

const SCHEMA_MIN: i32 = -4;
const SCHEMA_MAX: i32 = 8;
const CUSTOM: i32 = -53;

impl Histogram {
    pub(super) fn check(&self) -> Result<(), Malformed> {
        self.positive.check_form(self.is_float, "positive")?;
        self.negative.check_form(self.is_float, "negative")?;
        if self.is_zero_float.is_some_and(|kind| kind != self.is_float) && self.zero_count != 0 {
            return malformed("the zero count of a native histogram is of another kind than its count");
        }
        match self.schema {
            CUSTOM => self.check_custom()?,
            SCHEMA_MIN..=SCHEMA_MAX if !self.bounds.is_empty() => {
                return malformed(format!("a native histogram of schema {} has custom bounds", self.schema));
            }
            SCHEMA_MIN..=SCHEMA_MAX => {}
            other => {
                return malformed(format!(
                    "the schema of a native histogram is {other}, and none of {SCHEMA_MIN} to {SCHEMA_MAX} or {CUSTOM}"
                ));
            }
        }
        if self.is_float { self.check_floats() } else { self.check_whole() }
    }

    fn check_custom(&self) -> Result<(), Malformed> {
        if !self.negative.spans.is_empty() {
            return malformed("a native histogram with custom bounds has negative buckets");
        }
        // A zero count of -0.0 is one of zero.
        let has_zero_count =
            self.zero_count != 0 && !(self.is_float && f64::from_bits(self.zero_count) == 0.0);
        if has_zero_count || self.zero_threshold != 0.0 {
            return malformed("a native histogram with custom bounds has a bucket around zero");
        }
        if !self.bounds.iter().all(|bound| bound.is_finite()) {
            return malformed("a custom bound of a native histogram is infinite or not a number");
        }
        if let Some(pair) = self.bounds.windows(2).find(|pair| pair[0] >= pair[1]) {
            return malformed(format!(
                "the custom bounds of a native histogram do not ascend: {} is before {}",
                pair[0], pair[1]
            ));
        }
        let end: i64 =
            self.positive.spans.iter().map(|&(offset, length)| i64::from(offset) + i64::from(length)).sum();
        let room = self.bounds.len() as i64 + 1;
        if end > room || self.positive.spans.first().is_some_and(|&(offset, _)| offset < 0) {
            return malformed(format!(
                "the buckets of a native histogram with {} custom bounds are not among its {room}",
                self.bounds.len()
            ));
        }
        Ok(())
    }

    fn check_whole(&self) -> Result<(), Malformed> {
        let found =
            self.positive.total("positive")? + self.negative.total("negative")? + u128::from(self.zero_count);
        let count = u128::from(self.count);
        if found > count || (found != count && !self.sum.is_nan()) {
            return malformed(format!(
                "the buckets of a native histogram hold {found} observations, its count is {count}"
            ));
        }
        Ok(())
    }

    fn check_floats(&self) -> Result<(), Malformed> {
        match self.positive.counts.iter().chain(&self.negative.counts).find(|&&count| count < 0.0) {
            Some(count) => malformed(format!("a bucket of a native histogram holds {count} observations")),
            None => Ok(()),
        }
    }
}

impl Side {
    fn check_form(&self, is_float: bool, side: &str) -> Result<(), Malformed> {
        let promised: u64 = self.spans.iter().map(|&(_, length)| u64::from(length)).sum();
        let (found, other) = if is_float {
            (self.counts.len(), self.deltas.len())
        } else {
            (self.deltas.len(), self.counts.len())
        };
        if other > 0 {
            return malformed(format!(
                "the {side} buckets of a native histogram are of another kind than its count"
            ));
        }
        if promised != found as u64 {
            return malformed(format!(
                "the {side} spans of a native histogram promise {promised} buckets, there are {found}"
            ));
        }
        if let Some((offset, _)) = self.spans.iter().skip(1).find(|(offset, _)| *offset < 0) {
            return malformed(format!(
                "a {side} span of a native histogram begins {} buckets before the end of the one before it",
                offset.unsigned_abs()
            ));
        }
        let end: i64 = self.spans.iter().map(|&(offset, length)| i64::from(offset) + i64::from(length)).sum();
        if i32::try_from(end).is_err() {
            return malformed(format!("the {side} spans of a native histogram reach too far: to {end}"));
        }
        Ok(())
    }

    /// How many observations whole buckets hold.
    fn total(&self, side: &str) -> Result<u128, Malformed> {
        let (mut count, mut total) = (0i128, 0u128);
        for &delta in &self.deltas {
            count += i128::from(delta);
            match u128::try_from(count) {
                Ok(held) => total += held,
                Err(_) => {
                    return malformed(format!(
                        "a {side} bucket of a native histogram holds {count} observations"
                    ));
                }
            }
        }
        Ok(total)
    }
}
