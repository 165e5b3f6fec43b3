//! Seeded integers: the generator, a permutation of any range, and a weighted choice in constant time.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The seeded generator of the crate (xoshiro256++, Blackman and Vigna 2019).
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n` by multiply and shift; the bias is at most n / 2^64. `n` of 0 gives 0.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        high(self.u64(), n)
    }
}

#[inline]
fn high(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// Derives one seed from two numbers (splitmix64's finaliser over their combination).
pub(crate) fn derive_seed(seed: u64, salt: u64) -> u64 {
    let mut z =
        seed.wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A permutation of `0..n` in a few words: a Feistel network over the mixed radix a x b >= n (Black and
/// Rogaway, "Ciphers with arbitrary finite domains", 2002), so that at most one value in about sqrt(n) is
/// outside. Three rounds: enough for addresses (values at a lag of b repeat one distance every b-th time),
/// not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    n: u64,
    a: u64,
    b: u64,
    /// ceil(2^64 / b), for dividing by b.
    reciprocal: u64,
    keys: [u64; 3],
}

impl Permutation {
    /// `n` must not be 0.
    pub(crate) fn new(n: u64, random: &mut Random) -> Self {
        assert!(n > 0, "a permutation of nothing");
        let a = n.isqrt().max(1);
        let b = n.div_ceil(a).max(2);
        let keys = [random.u64(), random.u64(), random.u64()];
        Permutation { n, a, b, reciprocal: u64::MAX / b + 1, keys }
    }

    pub(crate) fn len(&self) -> u64 {
        self.n
    }

    /// One pass over the a x b square, which is a bijection of it.
    #[inline]
    fn pass(&self, mut left: u64, mut right: u64) -> u64 {
        left = add_modulo(left, round(right, self.keys[0], self.a), self.a);
        right = add_modulo(right, round(left, self.keys[1], self.b), self.b);
        left = add_modulo(left, round(right, self.keys[2], self.a), self.a);
        left * self.b + right
    }

    #[inline]
    fn split(&self, value: u64) -> (u64, u64) {
        let mut left = high(value, self.reciprocal);
        // The rounded-up reciprocal may overshoot by one.
        if left * self.b > value {
            left -= 1;
        }
        (left, value - left * self.b)
    }

    /// The image of `index`, which must be below n.
    #[inline]
    pub(crate) fn apply(&self, index: u64) -> u64 {
        debug_assert!(index < self.n);
        let mut value = index;
        loop {
            let (left, right) = self.split(value);
            value = self.pass(left, right);
            if value < self.n {
                return value;
            }
        }
    }
}

#[inline]
fn round(x: u64, key: u64, modulus: u64) -> u64 {
    let mixed = (x ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((mixed >> 32) * modulus) >> 32
}

#[inline]
fn add_modulo(a: u64, b: u64, modulus: u64) -> u64 {
    let sum = a + b;
    if sum >= modulus {
        sum - modulus
    } else {
        sum
    }
}

/// Visits every value of `0..n` once, in an order that the keys choose. Counters replace the division of
/// [`Permutation::apply`], and successive values do not depend on each other, so that they overlap in the
/// pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Shuffle {
    order: Permutation,
    left: u64,
    right: u64,
}

impl Shuffle {
    pub(crate) fn new(n: u64, random: &mut Random) -> Self {
        Shuffle { order: Permutation::new(n, random), left: 0, right: 0 }
    }

    /// The next value; begins again with new keys when all have been visited.
    #[inline]
    pub(crate) fn next(&mut self, random: &mut Random) -> u64 {
        loop {
            if self.left == self.order.a {
                self.restart(random);
            }
            let value = self.order.pass(self.left, self.right);
            self.right += 1;
            if self.right == self.order.b {
                self.right = 0;
                self.left += 1;
            }
            if value < self.order.n {
                return value;
            }
        }
    }

    #[cold]
    pub(crate) fn restart(&mut self, random: &mut Random) {
        *self = Shuffle::new(self.order.n, random);
    }
}

/// A range of values that are equally likely among themselves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// Relative weight of the whole bucket.
    pub(crate) weight: u64,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    start: u64,
    len: u64,
    /// A draw of 32 bits below this keeps the cell, any other takes the alias.
    keep: u64,
    alias: u32,
}

/// Draws from weighted buckets in constant time (alias method, Walker 1977, Vose 1991), with integers alone.
#[derive(Debug, Clone)]
pub(crate) struct Weighted {
    cells: Vec<Cell>,
}

impl Weighted {
    /// At least one bucket must have weight. At most 2^31 buckets, and weights that sum to less than 2^64.
    pub(crate) fn new(buckets: &[Bucket]) -> Self {
        let n = buckets.len() as u128;
        let total: u128 = buckets.iter().map(|b| u128::from(b.weight)).sum();
        assert!(total > 0 && n > 0, "a weighted choice needs a weight");
        let mut scaled: Vec<u128> = buckets.iter().map(|b| u128::from(b.weight) * n).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..buckets.len()).partition(|&i| scaled[i] < total);
        let mut cells: Vec<Cell> = buckets
            .iter()
            .enumerate()
            .map(|(i, b)| Cell { start: b.start, len: b.len, keep: 1 << 32, alias: i as u32 })
            .collect();
        while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
            small.pop();
            cells[s].keep = ((scaled[s] << 32) / total) as u64;
            cells[s].alias = l as u32;
            scaled[l] -= total - scaled[s];
            if scaled[l] < total {
                large.pop();
                small.push(l);
            }
        }
        Weighted { cells }
    }

    /// The index of a bucket.
    #[inline]
    pub(crate) fn index(&self, random: &mut Random) -> usize {
        let draw = random.u64();
        let at = (((draw >> 32) * self.cells.len() as u64) >> 32) as usize;
        if (draw & 0xffff_ffff) < self.cells[at].keep {
            at
        } else {
            self.cells[at].alias as usize
        }
    }

    /// A value of a bucket.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        let cell = self.cells[self.index(random)];
        if cell.len <= 1 {
            cell.start
        } else {
            cell.start + random.below(cell.len)
        }
    }
}

/// Real weights to integers that sum to about 2^52; the largest keeps its precision, none becomes negative.
fn integer_weights(parts: &[(u64, u64, f64)]) -> Vec<Bucket> {
    let total: f64 = parts.iter().map(|p| p.2).sum();
    let scale = 4_503_599_627_370_496.0 / total;
    parts.iter().map(|&(start, len, w)| Bucket { start, len, weight: (w * scale) as u64 }).collect()
}

/// Ranks one by one while they weigh most, then ranges that grow by 1/64, within which the weight changes
/// little.
fn rank_ranges(n: u64) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < n {
        let len = if at < 1024 { 1 } else { (at / 64).min(n - at) };
        ranges.push((at, len));
        at += len;
    }
    ranges
}

/// Zipf over ranks `0..n`: the weight of rank i is (i + 1)^-theta. Exact for the first 1,024 ranks; later
/// ranks share the weight of their range (the ratio of its ends is 65/64).
pub(crate) fn zipf(n: u64, theta: f64) -> Weighted {
    let power = 1.0 - theta;
    let parts: Vec<(u64, u64, f64)> = rank_ranges(n)
        .into_iter()
        .map(|(start, len)| {
            if len == 1 {
                return (start, 1, libm::pow(start as f64 + 1.0, -theta));
            }
            let (x, y) = (start as f64 + 0.5, (start + len) as f64 + 0.5);
            let log = libm::log(y / x);
            let area = if power.abs() < 1e-9 { log } else { libm::expm1(power * log) / power };
            (start, len, libm::pow(x, power) * area)
        })
        .collect();
    Weighted::new(&integer_weights(&parts))
}

/// fio's pareto over ranks `0..n`: rank = n u^(ln h / ln(1 - h)) for uniform u, for 0 < h < 1.
pub(crate) fn pareto(n: u64, h: f64) -> Weighted {
    let inverse = libm::log(1.0 - h) / libm::log(h);
    let below = |rank: u64| libm::pow(rank as f64 / n as f64, inverse);
    let parts: Vec<(u64, u64, f64)> = rank_ranges(n)
        .into_iter()
        .map(|(start, len)| (start, len, below(start + len) - below(start)))
        .collect();
    Weighted::new(&integer_weights(&parts))
}

/// A bell curve over `0..n` around `centre` (share of n), with a standard deviation of `deviation` (share of
/// n), cut at both ends; a histogram of up to 1,024 bars.
pub(crate) fn normal(n: u64, deviation: f64, centre: f64) -> Weighted {
    let bars = n.min(1024);
    let edge = |i: u64| (u128::from(n) * u128::from(i) / u128::from(bars)) as u64;
    let below = |at: u64| {
        let z = (at as f64 / n as f64 - centre) / deviation;
        0.5 * (1.0 + libm::erf(z / core::f64::consts::SQRT_2))
    };
    let parts: Vec<(u64, u64, f64)> = (0..bars)
        .map(|i| (edge(i), edge(i + 1) - edge(i), (below(edge(i + 1)) - below(edge(i))).max(0.0)))
        .collect();
    Weighted::new(&integer_weights(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_visits_every_value_once_and_begins_anew() {
        for n in [1, 2, 3, 5, 16, 17, 97, 1000, 4096, 10_007] {
            let mut random = Random::new(n);
            let mut shuffle = Shuffle::new(n, &mut random);
            for _ in 0..3 {
                let mut seen = vec![false; n as usize];
                for _ in 0..n {
                    let value = shuffle.next(&mut random) as usize;
                    assert!(!seen[value], "{value} twice of {n}");
                    seen[value] = true;
                }
            }
        }
    }

    #[test]
    fn a_permutation_is_a_bijection() {
        for n in [1, 2, 3, 1023, 1024, 9999] {
            let order = Permutation::new(n, &mut Random::new(7));
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let value = order.apply(i) as usize;
                assert!(!seen[value]);
                seen[value] = true;
            }
        }
    }

    /// Chi-square of a histogram against a flat one, in thousandths of its degrees of freedom.
    fn flatness(cells: &[u64]) -> u64 {
        let mean = cells.iter().sum::<u64>() / cells.len() as u64;
        let squares: u64 = cells.iter().map(|c| c.abs_diff(mean).pow(2)).sum();
        squares * 1000 / mean / cells.len() as u64
    }

    #[test]
    fn a_shuffle_has_no_visible_structure() {
        for (n, seed) in [(1u64 << 16, 3), (1 << 20, 4), (7_864_320, 5), (1_000_003, 6)] {
            let mut random = Random::new(seed);
            let mut shuffle = Shuffle::new(n, &mut random);
            let values: Vec<u64> = (0..n.min(1 << 20)).map(|_| shuffle.next(&mut random)).collect();
            let mut steps = [vec![0; 64], vec![0; 64], vec![0; 64]];
            for (lag, cells) in [1, 2, 64].into_iter().zip(&mut steps) {
                for pair in values.windows(lag + 1) {
                    cells[((n + pair[lag] - pair[0]) % n * 64 / n) as usize] += 1;
                }
                assert!(flatness(cells) < 2_000, "lag {lag} of {n}: {cells:?}");
            }
            let mut cells = vec![0; 4096];
            for (i, v) in values.iter().enumerate() {
                cells[i * 64 / values.len() * 64 + (*v * 64 / n) as usize] += 1;
            }
            assert!(flatness(&cells) < 1_500, "{n}: {}", flatness(&cells));
        }
    }

    #[test]
    fn weights_are_kept() {
        let table = Weighted::new(&[
            Bucket { start: 0, len: 1, weight: 1 },
            Bucket { start: 10, len: 10, weight: 6 },
            Bucket { start: 100, len: 1, weight: 0 },
            Bucket { start: 200, len: 2, weight: 3 },
        ]);
        let mut random = Random::new(1);
        let mut hits = [0u32; 4];
        for _ in 0..100_000 {
            let v = table.draw(&mut random);
            hits[match v {
                0 => 0,
                10..=19 => 1,
                200..=201 => 3,
                _ => 2,
            }] += 1;
        }
        assert!((9_500..10_500).contains(&hits[0]), "{hits:?}");
        assert!((59_000..61_000).contains(&hits[1]), "{hits:?}");
        assert_eq!(hits[2], 0);
    }

    #[test]
    fn zipf_follows_its_law() {
        let n = 1_000_000;
        for theta in [0.5, 0.99, 1.0, 1.2] {
            let table = zipf(n, theta);
            let mut random = Random::new(5);
            let total: f64 = (1..=n).map(|i| libm::pow(i as f64, -theta)).sum();
            let draws = 400_000;
            let (mut first, mut hundred) = (0.0, 0.0);
            for _ in 0..draws {
                let v = table.draw(&mut random);
                assert!(v < n);
                first += f64::from(v == 0);
                hundred += f64::from(v < 10_000);
            }
            let expect_first = f64::from(draws) / total;
            let head: f64 = (1..=10_000u64).map(|i| libm::pow(i as f64, -theta)).sum();
            let expect_head = f64::from(draws) * head / total;
            assert!(
                (first - expect_first).abs() < 5.0 * libm::sqrt(expect_first) + 2.0,
                "{theta}: {first} {expect_first}"
            );
            assert!(
                (hundred - expect_head).abs() < 0.01 * f64::from(draws),
                "{theta}: {hundred} {expect_head}"
            );
        }
    }

    #[test]
    fn pareto_and_normal_lean_where_they_should() {
        let mut random = Random::new(5);
        let table = pareto(100_000, 0.2);
        let head = (0..100_000).filter(|_| table.draw(&mut random) < 20_000).count();
        assert!((79_000..81_000).contains(&head), "80 % to the first 20 %, got {head}");
        let table = normal(100_000, 0.1, 0.5);
        let middle = (0..100_000).filter(|_| (40_000..60_000).contains(&table.draw(&mut random))).count();
        assert!((67_000..69_500).contains(&middle), "68.3 % within one deviation, got {middle}");
    }
}
