//! Chooses the next key of a space.
//!
//! Keys are the numbers from 0 to below the space's count. If popularity depends on rank, ranks are scattered over the
//! numbers, so that popular keys are not adjacent in a store that was filled in order.
//!
//! A request for several keys has one number, its base, from which [`Chooser::nth`] derives every key. So no memory is
//! needed to check a reply.

use base::prng::{Prng, split_mix};

use super::super::model::Order;
use super::alias::Alias;
use super::zipf::Zipf;

/// The key chooser of one thread.
#[derive(Clone, Debug)]
pub struct Chooser {
    count: u64,
    scatter: Scatter,
    kind: OrderDistribution,
    /// The thread's own numbers, for orders with a position in them.
    part: ThreadShare,
}

#[derive(Clone, Debug)]
enum OrderDistribution {
    Uniform,
    Zipf(Zipf),
    Hot { hot: u64, coin: u64 },
    Latest { ages: Zipf, newest: u64 },
    Sequential { next: u64 },
    Scan { length: u64, next: u64, left: u64 },
    Groups { alias: Alias, groups: Box<[(u64, u64)]> },
}

/// Every n-th number: the share of one of n threads.
#[derive(Clone, Copy, Debug)]
pub struct ThreadShare {
    first: u64,
    stride: u64,
    /// Count of numbers in the share.
    pub count: u64,
}

impl ThreadShare {
    /// The empty share.
    pub const EMPTY: Self = Self { first: 0, stride: 1, count: 0 };

    /// Returns the share of `count` numbers for thread `thread` of `threads`. With more threads than numbers, some
    /// threads share a number, so that every thread has one.
    pub fn new(count: u64, thread: u64, threads: u64) -> Self {
        let first = thread % threads.min(count);
        Self { first, stride: threads, count: (count - first).div_ceil(threads) }
    }

    /// Returns the number at `index`, which must be below the count.
    pub fn number(self, index: u64) -> u64 {
        self.first + index * self.stride
    }

    fn index(self, number: u64) -> u64 {
        (number - self.first) / self.stride
    }
}

impl Chooser {
    /// Creates the chooser for thread `thread` of `threads` over `count` keys. `order` must have been validated.
    pub fn new(order: &Order, count: u64, thread: u64, threads: u64) -> Self {
        let part = ThreadShare::new(count, thread, threads);
        let kind = match order {
            Order::Uniform => OrderDistribution::Uniform,
            Order::Zipf { exponent } => OrderDistribution::Zipf(Zipf::new(count, *exponent)),
            Order::Hot { keys, requests } => {
                let hot = ((count as f64 * keys.0).round() as u64).clamp(1, count);
                OrderDistribution::Hot { hot, coin: (requests.0 * 2f64.powi(64)) as u64 }
            }
            Order::Latest { exponent } => {
                OrderDistribution::Latest { ages: Zipf::new(part.count, *exponent), newest: part.count - 1 }
            }
            Order::Sequential => OrderDistribution::Sequential { next: 0 },
            Order::Scan { length } => OrderDistribution::Scan { length: *length, next: 0, left: 0 },
            Order::Groups(groups) => scaled(groups, count),
        };
        Self { count, scatter: Scatter::new(count), kind, part }
    }

    /// Returns the next key. If `stores` is true, the key is about to be stored; an order with new keys then returns a
    /// new one.
    #[inline]
    pub fn draw(&mut self, prng: &mut Prng, stores: bool) -> u64 {
        match &mut self.kind {
            OrderDistribution::Uniform => prng.below(self.count),
            OrderDistribution::Latest { newest, .. } if stores => {
                *newest = (*newest + 1) % self.part.count;
                self.part.number(*newest)
            }
            OrderDistribution::Sequential { next } => {
                let number = self.part.number(*next);
                *next = (*next + 1) % self.part.count;
                number
            }
            OrderDistribution::Scan { length, next, left } => {
                if *left == 0 {
                    (*next, *left) = (prng.below(self.count), *length);
                }
                let number = *next;
                (*next, *left) = ((number + 1) % self.count, *left - 1);
                number
            }
            _ => self.random(prng),
        }
    }

    /// Draws the base from which [`Chooser::nth`] derives `many` keys.
    pub fn draw_many(&mut self, prng: &mut Prng, many: u64) -> u64 {
        match &mut self.kind {
            OrderDistribution::Sequential { next } => {
                let number = self.part.number(*next);
                *next = (*next + many) % self.part.count;
                number
            }
            OrderDistribution::Scan { .. } | OrderDistribution::Latest { .. } => self.draw(prng, false),
            _ => prng.next_u64(),
        }
    }

    /// Returns key number `index` of the request for several keys with this base.
    pub fn nth(&self, base: u64, index: u64) -> u64 {
        match &self.kind {
            OrderDistribution::Sequential { .. } => self.part.number((self.part.index(base) + index) % self.part.count),
            OrderDistribution::Scan { .. } => (base + index) % self.count,
            OrderDistribution::Latest { .. } => {
                let newer = self.part.index(base) + self.part.count - index % self.part.count;
                self.part.number(newer % self.part.count)
            }
            _ => self.random(&mut Prng::new(split_mix(base.wrapping_add(index)))),
        }
    }

    /// Returns a random key. For orders with a position, it is any of the likely keys.
    #[inline]
    fn random(&self, prng: &mut Prng) -> u64 {
        match &self.kind {
            OrderDistribution::Zipf(zipf) => self.scatter.place(zipf.draw(prng) - 1),
            OrderDistribution::Hot { hot, coin } => {
                let is_hot = prng.next_u64() < *coin || *hot == self.count;
                let rank = if is_hot { prng.below(*hot) } else { *hot + prng.below(self.count - *hot) };
                self.scatter.place(rank)
            }
            OrderDistribution::Groups { alias, groups } => {
                let (first, count) = groups[alias.pick(prng.next_u64())];
                self.scatter.place(first + prng.below(count))
            }
            OrderDistribution::Latest { ages, newest } => {
                let age = ages.draw(prng) - 1;
                self.part.number((*newest + self.part.count - age) % self.part.count)
            }
            OrderDistribution::Uniform | OrderDistribution::Sequential { .. } | OrderDistribution::Scan { .. } => {
                prng.below(self.count)
            }
        }
    }
}

/// Scales groups of equally popular keys to `count` keys. Each group gets at least one key; groups beyond the last key
/// share it.
fn scaled(groups: &[(u64, f64)], count: u64) -> OrderDistribution {
    let total: u64 = groups.iter().map(|(keys, _)| *keys).sum();
    let (mut before, mut first) = (0u64, 0u64);
    let mut scaled = Vec::with_capacity(groups.len());
    for (keys, _) in groups {
        before += keys;
        let end = (u128::from(before) * u128::from(count) / u128::from(total)) as u64;
        let begin = first.min(count - 1);
        let end = end.clamp(begin + 1, count);
        scaled.push((begin, end - begin));
        first = end;
    }
    let weights: Vec<f64> = groups.iter().map(|(_, weight)| *weight).collect();
    OrderDistribution::Groups { alias: Alias::new(&weights), groups: scaled.into() }
}

/// A bijection of the numbers below a bound that separates neighbours. It multiplies by odd numbers and shifts within
/// the next power of two, and repeats until the result is below the bound.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    bound: u64,
    mask: u64,
    shift: u32,
}

impl Scatter {
    /// Creates the bijection of the numbers below `bound`, which must not be 0.
    pub fn new(bound: u64) -> Self {
        let bits = u64::BITS - (bound - 1).leading_zeros();
        Self { bound, mask: if bits == 64 { u64::MAX } else { (1 << bits) - 1 }, shift: bits.div_ceil(2).max(1) }
    }

    /// Returns the place of `number`. Both are below the bound, and no other number has the same place.
    #[inline]
    pub fn place(self, mut number: u64) -> u64 {
        loop {
            number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & self.mask;
            number ^= number >> self.shift;
            number = number.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(0x5851_F42D) & self.mask;
            number ^= number >> self.shift;
            if number < self.bound {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chi_square::assert_fits;
    use super::*;
    use crate::workload::units::Share;

    fn counts(order: &Order, count: u64, draws: u64) -> Vec<u64> {
        let mut chooser = Chooser::new(order, count, 0, 1);
        let mut prng = Prng::new(21);
        let mut counts = vec![0; count as usize];
        for _ in 0..draws {
            counts[chooser.draw(&mut prng, false) as usize] += 1;
        }
        counts
    }

    #[test]
    fn scattering_meets_every_number_once_and_parts_neighbours() {
        for bound in [1, 2, 3, 7, 8, 1000, 65_536, 100_003] {
            let scatter = Scatter::new(bound);
            let mut seen = vec![false; bound as usize];
            for number in 0..bound {
                let place = scatter.place(number) as usize;
                assert!(
                    !std::mem::replace(&mut seen[place], true),
                    "{number} of {bound} has the same place as another number"
                );
            }
        }
        let scatter = Scatter::new(1_000_000);
        let beside = (0..1000).filter(|number| scatter.place(*number).abs_diff(scatter.place(number + 1)) < 1000);
        assert!(beside.count() < 10);
        assert!(Scatter::new(1 << 40).place(5) < 1 << 40);
    }

    #[test]
    fn drawn_keys_match_order_distribution() {
        assert_fits(&counts(&Order::Uniform, 1000, 300_000), &vec![1.0; 1000]);
        let scatter = Scatter::new(1000);
        let by_rank = |weight: &dyn Fn(u64) -> f64| {
            let mut weights = vec![0.0; 1000];
            for rank in 0..1000 {
                weights[scatter.place(rank) as usize] = weight(rank);
            }
            weights
        };
        let zipf = counts(&Order::Zipf { exponent: 0.99 }, 1000, 300_000);
        assert_fits(&zipf, &by_rank(&|rank| (rank as f64 + 1.0).powf(-0.99)));
        let hot = counts(&Order::Hot { keys: Share(0.1), requests: Share(0.9) }, 1000, 300_000);
        assert_fits(&hot, &by_rank(&|rank| if rank < 100 { 9.0 } else { 1.0 / 9.0 }));
        // The groups scale to 10, 190 and 800 of the 1000 keys.
        let groups = Order::Groups(vec![(1, 50.0), (19, 30.0), (80, 20.0)]);
        let weight = |rank| match rank {
            0..10 => 5.0,
            10..200 => 30.0 / 190.0,
            _ => 20.0 / 800.0,
        };
        assert_fits(&counts(&groups, 1000, 300_000), &by_rank(&weight));
    }

    #[test]
    fn sequences_of_several_threads_meet_every_key_once_a_round() {
        for (count, threads) in [(10, 1), (10, 3), (1000, 7), (2, 2)] {
            let mut seen = vec![0; count as usize];
            for thread in 0..threads {
                let mut chooser = Chooser::new(&Order::Sequential, count, thread, threads);
                let mut prng = Prng::new(1);
                for _ in 0..chooser.part.count {
                    seen[chooser.draw(&mut prng, false) as usize] += 1;
                }
                assert_eq!(chooser.draw(&mut prng, false), thread, "the sequence starts again");
            }
            assert!(seen.iter().all(|times| *times == 1), "{count} keys, {threads} threads: {seen:?}");
        }
        assert_eq!(ThreadShare::new(2, 5, 8).count, 1, "more threads than keys");
    }

    #[test]
    fn latest_order_favours_newest_key_and_writes_advance_it() {
        let mut chooser = Chooser::new(&Order::Latest { exponent: 1.0 }, 100, 1, 2);
        let mut prng = Prng::new(3);
        let written: Vec<u64> = (0..3).map(|_| chooser.draw(&mut prng, true)).collect();
        assert_eq!(written, [1, 3, 5]);
        let mut counts = [0u64; 100];
        for _ in 0..100_000 {
            counts[chooser.draw(&mut prng, false) as usize] += 1;
        }
        let mut weights = [0.0; 100];
        for age in 0..50u64 {
            weights[(1 + 2 * ((2 + 50 - age) % 50)) as usize] = 1.0 / (age as f64 + 1.0);
        }
        assert_fits(&counts, &weights);
    }

    #[test]
    fn scan_reads_consecutive_keys_then_restarts_at_random() {
        let mut chooser = Chooser::new(&Order::Scan { length: 5 }, 1000, 0, 1);
        let mut prng = Prng::new(4);
        let mut begins = Vec::new();
        for _ in 0..100 {
            let begin = chooser.draw(&mut prng, false);
            for step in 1..5 {
                assert_eq!(chooser.draw(&mut prng, false), (begin + step) % 1000);
            }
            begins.push(begin);
        }
        begins.sort_unstable();
        begins.dedup();
        assert!(begins.len() > 80);
    }

    #[test]
    fn multi_key_request_is_deterministic_and_preserves_distribution() {
        let order = Order::Zipf { exponent: 1.1 };
        let mut chooser = Chooser::new(&order, 200, 0, 1);
        let mut prng = Prng::new(8);
        let mut counts = vec![0; 200];
        for _ in 0..10_000 {
            let base = chooser.draw_many(&mut prng, 10);
            for index in 0..10 {
                assert_eq!(chooser.nth(base, index), chooser.nth(base, index));
                counts[chooser.nth(base, index) as usize] += 1;
            }
        }
        let mut weights = vec![0.0; 200];
        for rank in 0..200u64 {
            weights[Scatter::new(200).place(rank) as usize] = (rank as f64 + 1.0).powf(-1.1);
        }
        assert_fits(&counts, &weights);
        let mut walk = Chooser::new(&Order::Sequential, 10, 0, 1);
        let bases: Vec<u64> = (0..3).map(|_| walk.draw_many(&mut prng, 4)).collect();
        let keys: Vec<u64> =
            bases.iter().flat_map(|base| (0..4).map(|i| walk.nth(*base, i)).collect::<Vec<_>>()).collect();
        assert_eq!(keys, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
    }
}
