//! Numbers of some bits each, one behind the other.

/// Appends numbers that fit into `width` bits, at most 64; all of them together must fill whole bytes.
pub fn put_packed(numbers: impl Iterator<Item = u64>, width: u32, page: &mut Vec<u8>) {
    let (mut held, mut bits) = (0u128, 0);
    for number in numbers {
        held |= u128::from(number) << bits;
        bits += width;
        if bits >= 64 {
            page.extend_from_slice(&(held as u64).to_le_bytes());
            held >>= 64;
            bits -= 64;
        }
    }
    page.extend_from_slice(&held.to_le_bytes()[..(bits / 8) as usize]);
}
