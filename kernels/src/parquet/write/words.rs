//! What is done with integers of 4 and of 8 bytes.

use super::chunk::Physical;

pub trait Word: Copy + Ord + std::hash::Hash {
    const PHYSICAL: Physical;
    /// The difference to the next value, which wraps as words of this size do.
    fn step(self, next: Self) -> i64;
    fn signed(self) -> i64;
    fn put(self, bytes: &mut Vec<u8>);
}

macro_rules! word {
    ($kind:ty, $signed:ty, $physical:expr) => {
        impl Word for $kind {
            const PHYSICAL: Physical = $physical;
            fn step(self, next: Self) -> i64 {
                next.wrapping_sub(self) as $signed as i64
            }
            fn signed(self) -> i64 {
                self as $signed as i64
            }
            fn put(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}

word!(i32, i32, Physical::Int32);
word!(u32, i32, Physical::Int32);
word!(i64, i64, Physical::Int64);
word!(u64, i64, Physical::Int64);

/// The least and the greatest value, as Parquet writes them.
pub fn range<N: Word>(values: &[N]) -> Option<(Vec<u8>, Vec<u8>)> {
    let first = *values.first()?;
    let (low, high) =
        values.iter().fold((first, first), |(low, high), &value| (low.min(value), high.max(value)));
    let bytes = |value: N| {
        let mut bytes = Vec::new();
        value.put(&mut bytes);
        bytes
    };
    Some((bytes(low), bytes(high)))
}
