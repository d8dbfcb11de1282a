//! Bits of byte strings. Bit 0 is the highest bit of the first byte, as in Redis.

use std::ops::Range;

/// The number of words that one vector has.
const LANES: usize = 4;
/// The number of vectors that [`count_ones`] adds before it counts bits.
const GROUP_VECTORS: usize = 8;

/// Words that are processed together. The compiler uses the vector instructions of the CPU for them.
type Vector = [u64; LANES];

/// Returns the number of bits that are 1.
///
/// Source: W. Mula, N. Kurz and D. Lemire, "Faster Population Counts Using AVX2 Instructions", section 2: full adders
/// add the bits, and only the bits of weight 8 are counted.
pub(super) fn count_ones(bytes: &[u8]) -> u64 {
    let (groups, rest) = bytes.as_chunks::<{ 8 * LANES * GROUP_VECTORS }>();
    let mut ones = 0;
    // The sums of bits with the weights 1, 2 and 4.
    let (mut one, mut two, mut four) = ([0; LANES], [0; LANES], [0; LANES]);
    for group in groups {
        let mut vectors = [[0_u64; LANES]; GROUP_VECTORS];
        for (word, bytes) in vectors.as_flattened_mut().iter_mut().zip(group.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let mut twos = [[0; LANES]; GROUP_VECTORS / 2];
        for (carry, pair) in twos.iter_mut().zip(vectors.as_chunks::<2>().0) {
            (one, *carry) = add_bits(one, pair[0], pair[1]);
        }
        let (sum, first) = add_bits(two, twos[0], twos[1]);
        let (sum, second) = add_bits(sum, twos[2], twos[3]);
        two = sum;
        let (sum, eights) = add_bits(four, first, second);
        four = sum;
        ones += 8 * ones_of(eights);
    }
    ones += 4 * ones_of(four) + 2 * ones_of(two) + ones_of(one);
    let (words, rest) = rest.as_chunks::<8>();
    ones += words.iter().map(|word| u64::from(u64::from_le_bytes(*word).count_ones())).sum::<u64>();
    ones + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

fn ones_of(vector: Vector) -> u64 {
    vector.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Adds three bits in each place. Returns the sums and the carries.
#[inline(always)]
fn add_bits(a: Vector, b: Vector, c: Vector) -> (Vector, Vector) {
    let (mut sums, mut carries) = ([0; LANES], [0; LANES]);
    for lane in 0..LANES {
        let half = a[lane] ^ b[lane];
        sums[lane] = half ^ c[lane];
        carries[lane] = a[lane] & b[lane] | half & c[lane];
    }
    (sums, carries)
}

/// Returns the position of the first bit that is `bit`.
pub(super) fn find(bytes: &[u8], bit: bool) -> Option<u64> {
    let skipped = if bit { 0 } else { u64::MAX };
    let (words, _) = bytes.as_chunks::<8>();
    let word = words.iter().position(|word| u64::from_ne_bytes(*word) != skipped).unwrap_or(words.len());
    let other = if bit { 0 } else { 0xff };
    let at = bytes[8 * word..].iter().position(|byte| *byte != other)? + 8 * word;
    let zeros = (bytes[at] ^ other).leading_zeros();
    Some(8 * at as u64 + u64::from(zeros))
}

/// Returns the bytes that contain a range of bits.
pub(super) fn bytes_of(bits: &Range<u64>) -> Range<u64> {
    bits.start / 8..bits.end.div_ceil(8)
}

/// Returns the bits of the byte number `byte` that are in a range of bits, as a mask.
fn mask(byte: u64, bits: &Range<u64>) -> u8 {
    let from = bits.start.saturating_sub(8 * byte).min(8);
    let to = bits.end.saturating_sub(8 * byte).min(8);
    ((0xff_u16 >> from) & !(0xff_u16 >> to)) as u8
}

/// Returns the bits that `bytes`, which begin at byte `at` of a value, have outside a range of bits: in the first and
/// the last byte.
fn outside<'b>(bytes: &'b [u8], at: u64, bits: &Range<u64>) -> impl Iterator<Item = (usize, u8)> + 'b {
    let (bits, last) = (bits.clone(), bytes.len().saturating_sub(1));
    let ends = if bytes.is_empty() { 0..0 } else { 0..if last > 0 { 2 } else { 1 } };
    ends.map(move |end| if end == 0 { 0 } else { last }).map(move |place| (place, !mask(at + place as u64, &bits)))
}

/// Returns the number of bits that are 1, in the part of a range of bits that is in `bytes`. `bytes` begin at byte `at`
/// of a value, and contain only bytes with bits of the range.
pub(super) fn count_ones_in(bytes: &[u8], at: u64, bits: &Range<u64>) -> u64 {
    let outside: u32 = outside(bytes, at, bits).map(|(place, mask)| (bytes[place] & mask).count_ones()).sum();
    count_ones(bytes) - u64::from(outside)
}

/// Returns the position in the value of the first bit that is `bit`, in the part of a range of bits that is in `bytes`.
/// `bytes` begin at byte `at` of the value, and contain only bytes with bits of the range.
pub(super) fn find_in(bytes: &[u8], at: u64, bits: &Range<u64>, bit: bool) -> Option<u64> {
    let first = *bytes.first()?;
    let masked = if bit { first & mask(at, bits) } else { first | !mask(at, bits) };
    let found = find(&[masked], bit).or_else(|| find(&bytes[1..], bit).map(|place| place + 8))?;
    Some(8 * at + found).filter(|place| *place < bits.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn bits_of_any_range_are_counted_and_found_as_one_by_one() {
        let mut prng = Prng::new(3);
        let (mut found, mut missed) = (0, 0);
        for _ in 0..1000 {
            let fill = [0, 0xff, 0x10, 0xef][prng.below(4) as usize];
            let mut bytes = vec![fill; 1 + prng.below(1000) as usize];
            for _ in 0..prng.below(4) {
                let at = prng.below(bytes.len() as u64) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
            let start = prng.below(8 * bytes.len() as u64);
            let bits = start..start + prng.below(8 * bytes.len() as u64 - start) + 1;
            let is_set = |place: u64| bytes[place as usize / 8] & (0x80 >> (place % 8)) != 0;
            let range = bytes_of(&bits);
            let part = &bytes[range.start as usize..range.end as usize];
            assert_eq!(count_ones_in(part, range.start, &bits), bits.clone().filter(|bit| is_set(*bit)).count() as u64);
            for bit in [false, true] {
                let wanted = bits.clone().find(|place| is_set(*place) == bit);
                assert_eq!(find_in(part, range.start, &bits, bit), wanted, "{bits:?} {bit}");
                if wanted.is_some() { found += 1 } else { missed += 1 }
            }
        }
        assert!(found > 500 && missed > 50, "{found} found, {missed} missed");
    }
}
