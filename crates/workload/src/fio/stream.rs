//! The requests of one clone of a job.

use std::sync::Arc;

use super::spec::{BlockSize, Distribution, JobSpec, Pattern};
use super::units::Amount;
use crate::random::{derive_seed, normal, pareto, zipf, Bucket, Permutation, Random, Shuffle, Weighted};
use crate::{InputError, Kind, Request};

/// The requests of one clone of a job, without end when the job is `time_based`.
///
/// `runtime`, `thinktime` and the queue depth are for the host model to apply: the stream only carries them.
/// With `rate_iops`, `arrival_ns` is the earliest time at which a request may be issued; without it, it is 0.
#[derive(Debug, Clone)]
pub struct JobStream {
    pattern: Mix,
    addresses: Addresses,
    sizes: [Sizes; 3],
    start: u64,
    len: u64,
    random: Random,
    requests_left: u64,
    bytes_left: u64,
    unflushed: u64,
    fsync_every: u64,
    flush_due: bool,
    paced: bool,
    pace: [Pace; 3],
    now_ns: u64,
    passes_left: u64,
    pass_requests: u64,
    pass_bytes: u64,
    end_fsync: bool,
    /// The flush of `end_fsync` is the next.
    ending: bool,
    wrote: bool,
    job: Arc<JobSpec>,
    clone: u32,
}

/// Requests in a row that differ in their offsets alone.
struct Alike {
    kind: Kind,
    bytes: u64,
    count: usize,
}

#[derive(Debug, Clone)]
enum Mix {
    One(Kind),
    /// Reads below this of 2^64.
    Reads(u128),
    /// The write that completes a trimmed block, once the trim is out.
    TrimThenWrite(Option<(u64, u64)>),
}

#[derive(Debug, Clone)]
enum Sizes {
    Fixed(u64),
    Range { unit: u64, steps: u64 },
    Split { unit: u64, table: Arc<Weighted> },
}

#[derive(Debug, Clone)]
enum Addresses {
    /// Next byte of each direction.
    Sequential([u64; 3]),
    /// Each block of `unit` bytes once.
    Once {
        unit: u64,
        order: Shuffle,
    },
    /// Each block once, by requests of several sizes.
    Map(BlockMap),
    /// Any of `blocks` blocks of `unit` bytes.
    Any {
        unit: [u64; 3],
        blocks: [u64; 3],
    },
    Skewed {
        unit: [u64; 3],
        tables: [Option<Skewed>; 3],
    },
}

/// The blocks already visited in this pass. As in fio, a request that meets a visited block ends before it.
#[derive(Debug, Clone)]
struct BlockMap {
    unit: u64,
    order: Shuffle,
    blocks: u64,
    free: u64,
    taken: Vec<u64>,
}

impl BlockMap {
    fn new(unit: u64, blocks: u64, random: &mut Random) -> Self {
        let words = usize::try_from(blocks.div_ceil(64)).unwrap_or(usize::MAX);
        BlockMap { unit, order: Shuffle::new(blocks, random), blocks, free: blocks, taken: vec![0; words] }
    }

    fn clear(&mut self, random: &mut Random) {
        self.taken.fill(0);
        self.free = self.blocks;
        self.order.restart(random);
    }

    fn is_taken(&self, block: u64) -> bool {
        self.taken[(block / 64) as usize] >> (block % 64) & 1 == 1
    }

    /// The first free block from `block` on, around the end. There is one.
    fn free_from(&self, block: u64) -> u64 {
        let mut at = block;
        loop {
            let free = !self.taken[(at / 64) as usize] >> (at % 64);
            let found = at + u64::from(free.trailing_zeros());
            if free != 0 && found < self.blocks {
                return found;
            }
            at = (at / 64 + 1) * 64;
            at = if at < self.blocks { at } else { 0 };
        }
    }

    /// Offset and size of the next request, which would like to have `bytes`.
    fn claim(&mut self, bytes: u64, random: &mut Random) -> (u64, u64) {
        if self.free == 0 {
            self.clear(random);
        }
        // As fio does: the next free block from a random one on.
        let drawn = self.order.next(random);
        let first = self.free_from(drawn);
        let mut end = first;
        while end < self.blocks && (end - first) * self.unit < bytes && !self.is_taken(end) {
            self.taken[(end / 64) as usize] |= 1 << (end % 64);
            end += 1;
        }
        self.free -= end - first;
        (first * self.unit, (end - first) * self.unit)
    }
}

#[derive(Debug, Clone)]
struct Skewed {
    table: Arc<Weighted>,
    /// Ranks to blocks, and the block at which rank 0 shall lie.
    scatter: Option<(Permutation, u64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// Requests a second; 0 for no limit.
    rate: u64,
    next_ns: u64,
    remainder: u64,
    /// One second divided by the rate, and what is left of it.
    step_ns: u64,
    step_remainder: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Pace {
    fn new(rate: Option<u64>) -> Self {
        let rate = rate.unwrap_or(0);
        let step_ns = SECOND_NS.checked_div(rate).unwrap_or(0);
        Pace { rate, step_ns, step_remainder: SECOND_NS - step_ns * rate, ..Pace::default() }
    }
}

impl Sizes {
    fn new(bs: &BlockSize) -> Self {
        match bs {
            BlockSize::Fixed(size) => Sizes::Fixed(*size),
            BlockSize::Range { low, high } => Sizes::Range { unit: *low, steps: high / low },
            BlockSize::Split(parts) => {
                let buckets: Vec<Bucket> =
                    parts.iter().map(|&(start, weight)| Bucket { start, len: 1, weight }).collect();
                Sizes::Split { unit: bs.smallest(), table: Arc::new(Weighted::new(&buckets)) }
            }
        }
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Range { unit, steps } => unit * (1 + random.below(*steps)),
            Sizes::Split { table, .. } => table.draw(random),
        }
    }

    fn unit(&self) -> u64 {
        match self {
            Sizes::Fixed(unit) | Sizes::Range { unit, .. } | Sizes::Split { unit, .. } => *unit,
        }
    }
}

impl Skewed {
    #[inline]
    fn draw(&self, random: &mut Random) -> u64 {
        let rank = self.table.draw(random);
        match &self.scatter {
            None => rank,
            Some((order, shift)) => {
                let block = order.apply(rank) + shift;
                if block >= order.len() {
                    block - order.len()
                } else {
                    block
                }
            }
        }
    }
}

impl Addresses {
    #[inline]
    fn draw(&mut self, direction: usize, random: &mut Random) -> u64 {
        match self {
            Addresses::Sequential(next) => next[direction],
            Addresses::Once { unit, order } => *unit * order.next(random),
            Addresses::Map(_) => unreachable!("a block map gives offset and size together"),
            Addresses::Any { unit, blocks } => unit[direction] * random.below(blocks[direction]),
            Addresses::Skewed { unit, tables } => {
                unit[direction] * tables[direction].as_ref().map_or(0, |table| table.draw(random))
            }
        }
    }
}

impl Iterator for JobStream {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        if self.requests_left == 0 || self.bytes_left == 0 || self.flush_due {
            return self.turn();
        }
        Some(self.issue())
    }
}

impl JobStream {
    /// Adds the next requests to `requests`, `most` of them unless the job ends before. They are those of
    /// [`Iterator::next`]; together they take less time.
    pub fn draw(&mut self, most: usize, requests: &mut Vec<Request>) {
        let end = requests.len() + most;
        while requests.len() < end {
            if let Some(alike) = self.alike(end - requests.len()) {
                self.draw_alike(alike, requests);
            } else if let Some(request) = self.next() {
                requests.push(request);
            } else {
                return;
            }
        }
    }

    /// The next requests, `most` at most, if they differ in their offsets alone.
    fn alike(&self, most: usize) -> Option<Alike> {
        let Mix::One(kind) = self.pattern else { return None };
        let Sizes::Fixed(bytes) = self.sizes[kind.index()] else { return None };
        let flushes = self.flush_due || self.fsync_every > 0;
        if self.paced || flushes || matches!(self.addresses, Addresses::Map(_)) {
            return None;
        }
        let left = self.requests_left.min(self.bytes_left.div_ceil(bytes));
        let count = usize::try_from(left).unwrap_or(most).min(most);
        (count > 0).then_some(Alike { kind, bytes, count })
    }

    fn draw_alike(&mut self, alike: Alike, requests: &mut Vec<Request>) {
        let Alike { kind, bytes, count } = alike;
        let (start, last, direction) = (self.start, self.len - bytes, kind.index());
        let request = |at: u64| Request { arrival_ns: 0, kind, offset: start + at, bytes };
        let random = &mut self.random;
        let each = 0..count;
        match &mut self.addresses {
            Addresses::Sequential(next) => requests.extend(each.map(|_| {
                let at = if next[direction] > last { 0 } else { next[direction] };
                next[direction] = at + bytes;
                request(at)
            })),
            Addresses::Once { unit, order } => {
                requests.extend(each.map(|_| request((*unit * order.next(random)).min(last))));
            }
            addresses => {
                requests.extend(each.map(|_| request(addresses.draw(direction, random).min(last))));
            }
        }
        self.requests_left -= count as u64;
        self.bytes_left = self.bytes_left.saturating_sub(bytes.saturating_mul(count as u64));
        if kind == Kind::Write {
            self.wrote = true;
            self.unflushed += count as u64;
        }
    }

    #[inline]
    fn issue(&mut self) -> Request {
        let kind = match &self.pattern {
            Mix::One(kind) => *kind,
            Mix::Reads(threshold) => {
                if u128::from(self.random.u64()) < *threshold {
                    Kind::Read
                } else {
                    Kind::Write
                }
            }
            Mix::TrimThenWrite(_) => return self.trim_or_write(),
        };
        let (offset, bytes) = self.place(kind.index());
        self.account(kind, offset, bytes)
    }

    /// Offset in the region and size of the next request of a direction.
    #[inline]
    fn place(&mut self, direction: usize) -> (u64, u64) {
        let bytes = self.sizes[direction].draw(&mut self.random);
        if let Addresses::Map(map) = &mut self.addresses {
            return map.claim(bytes, &mut self.random);
        }
        let at = self.addresses.draw(direction, &mut self.random);
        let (at, bytes) = if at + bytes > self.len { self.fit(direction, at, bytes) } else { (at, bytes) };
        if let Addresses::Sequential(next) = &mut self.addresses {
            next[direction] = at + bytes;
        }
        (at, bytes)
    }

    /// A request across the end of the region becomes as long as there is room; a sequential one without room
    /// begins again.
    #[cold]
    fn fit(&self, direction: usize, at: u64, bytes: u64) -> (u64, u64) {
        let sizes = &self.sizes[direction];
        let unit = sizes.unit();
        let room = (self.len - at.min(self.len)) / unit * unit;
        match (&self.addresses, sizes) {
            (Addresses::Sequential(_), Sizes::Fixed(_)) => (0, bytes),
            (Addresses::Sequential(_), _) if room == 0 => (0, bytes.min(self.len / unit * unit)),
            _ if room == 0 => (self.len - unit, unit),
            (_, Sizes::Fixed(_)) => (self.len - bytes, bytes),
            _ => (at, room),
        }
    }

    #[inline]
    fn account(&mut self, kind: Kind, offset: u64, bytes: u64) -> Request {
        self.requests_left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        if kind == Kind::Write {
            self.wrote = true;
            self.unflushed += 1;
            self.flush_due = self.unflushed == self.fsync_every;
        }
        let arrival_ns = if self.paced { self.arrival(kind) } else { 0 };
        Request { arrival_ns, kind, offset: self.start + offset, bytes }
    }

    fn arrival(&mut self, kind: Kind) -> u64 {
        let pace = &mut self.pace[kind.index()];
        if pace.rate > 0 {
            self.now_ns = self.now_ns.max(pace.next_ns);
            pace.next_ns += pace.step_ns;
            pace.remainder += pace.step_remainder;
            if pace.remainder >= pace.rate {
                pace.remainder -= pace.rate;
                pace.next_ns += 1;
            }
        }
        self.now_ns
    }

    fn trim_or_write(&mut self) -> Request {
        let Mix::TrimThenWrite(pending) = &mut self.pattern else {
            unreachable!("only called for trim-then-write");
        };
        if let Some((offset, bytes)) = pending.take() {
            return self.account(Kind::Write, offset, bytes);
        }
        let (offset, bytes) = self.place(Kind::Write.index());
        self.pattern = Mix::TrimThenWrite(Some((offset, bytes)));
        let arrival_ns = if self.paced { self.arrival(Kind::Trim) } else { 0 };
        Request { arrival_ns, kind: Kind::Trim, offset: self.start + offset, bytes }
    }

    /// What happens between requests: a flush, the next pass, the end.
    #[cold]
    fn turn(&mut self) -> Option<Request> {
        loop {
            let over = self.passes_left == 0 && (self.requests_left == 0 || self.bytes_left == 0);
            if self.flush_due && over && !self.ending {
                // As in fio, the write that ends the job is not followed by its periodic flush.
                self.flush_due = false;
            }
            if self.flush_due {
                self.flush_due = false;
                self.unflushed = 0;
                return Some(Request::flush(self.now_ns));
            }
            if self.requests_left > 0 && self.bytes_left > 0 {
                return Some(self.issue());
            }
            if self.passes_left == 0 {
                if !(self.end_fsync && self.wrote) {
                    return None;
                }
                self.end_fsync = false;
                self.ending = true;
                self.flush_due = true;
                continue;
            }
            self.passes_left -= u64::from(!self.job.time_based);
            self.begin_pass();
        }
    }

    fn begin_pass(&mut self) {
        self.requests_left = self.pass_requests;
        self.bytes_left = self.pass_bytes;
        match &mut self.addresses {
            Addresses::Once { order, .. } => order.restart(&mut self.random),
            Addresses::Map(map) => map.clear(&mut self.random),
            // A sequential job goes on where it was, and wraps at the end of its region.
            Addresses::Sequential(_) | Addresses::Any { .. } | Addresses::Skewed { .. } => {}
        }
    }

    /// The job that this is a clone of.
    pub fn job(&self) -> &JobSpec {
        &self.job
    }

    /// Which clone, from 0.
    pub fn clone_index(&self) -> u32 {
        self.clone
    }

    /// Requests to keep in flight.
    pub fn iodepth(&self) -> u32 {
        self.job.iodepth
    }

    /// Pause after every [`JobStream::thinktime_blocks`] completed requests, in nanoseconds; 0 for none.
    pub fn thinktime_ns(&self) -> u64 {
        self.job.thinktime_ns
    }

    /// See [`JobStream::thinktime_ns`].
    pub fn thinktime_blocks(&self) -> u64 {
        self.job.thinktime_blocks
    }

    /// Most reads, writes and trims a second; already in `arrival_ns`.
    pub fn rate_iops(&self) -> [Option<u64>; 3] {
        self.job.rate_iops
    }

    /// Time after which the job issues no more, in nanoseconds.
    pub fn runtime_ns(&self) -> Option<u64> {
        self.job.runtime_ns
    }

    /// Does the stream go on until [`JobStream::runtime_ns`]?
    pub fn time_based(&self) -> bool {
        self.job.time_based
    }

    /// The region in bytes: first byte and length.
    pub fn region(&self) -> (u64, u64) {
        (self.start, self.len)
    }

    /// Bytes to transfer in all passes, for a progress bar; `None` when only the clock ends the job.
    pub fn total_bytes(&self) -> Option<u64> {
        (!self.job.time_based).then(|| self.pass_bytes.saturating_mul(self.job.loops))
    }
}

impl JobSpec {
    /// The streams of all clones on a device of `device_bytes`. The same `seed` gives the same requests; each
    /// job and each clone draws its own.
    ///
    /// Errors: a region that leaves the device, or that does not hold one block.
    pub fn streams(&self, device_bytes: u64, seed: u64) -> Result<Vec<JobStream>, InputError> {
        self.check()?;
        let job = Arc::new(self.clone());
        let mut tables = Tables::default();
        (0..self.numjobs).map(|clone| self.stream(&job, clone, device_bytes, seed, &mut tables)).collect()
    }

    fn stream(
        &self,
        job: &Arc<JobSpec>,
        clone: u32,
        device_bytes: u64,
        seed: u64,
        tables: &mut Tables,
    ) -> Result<JobStream, InputError> {
        let (start, len) = self.region(clone, device_bytes)?;
        let seed =
            derive_seed(derive_seed(self.randseed.unwrap_or(seed), self.ordinal + 1), u64::from(clone) + 1);
        let mut random = Random::new(seed);
        let addresses = self.addresses(len, tables, &mut random)?;
        let pattern = match self.rw {
            Pattern::ReadWrite | Pattern::RandReadWrite => {
                Mix::Reads((u128::from(self.rwmixread) << 64) / 100)
            }
            Pattern::TrimWrite | Pattern::RandTrimWrite => Mix::TrimThenWrite(None),
            one => Mix::One(one.kinds()[0]),
        };
        let pace = self.rate_iops.map(Pace::new);
        let pass_requests = self.number_ios.unwrap_or(u64::MAX);
        let pass_bytes = self.io_size.map_or(len, |size| size.of(device_bytes)).max(1);
        let sizes = [Sizes::new(&self.bs[0]), Sizes::new(&self.bs[1]), Sizes::new(&self.bs[2])];
        Ok(JobStream {
            pattern,
            addresses,
            sizes,
            start,
            len,
            random,
            requests_left: pass_requests,
            bytes_left: pass_bytes,
            unflushed: 0,
            fsync_every: self.fsync_every,
            flush_due: false,
            paced: self.rate_iops.iter().any(Option::is_some),
            pace,
            now_ns: 0,
            passes_left: self.loops - u64::from(!self.time_based),
            pass_requests,
            pass_bytes,
            end_fsync: self.end_fsync,
            ending: false,
            wrote: false,
            job: Arc::clone(job),
            clone,
        })
    }

    fn unit(&self) -> u64 {
        self.rw.kinds().iter().map(|kind| self.block_size(*kind).smallest()).min().unwrap_or(512)
    }

    /// First byte and length of a clone's region; the length is a multiple of the smallest block.
    fn region(&self, clone: u32, device_bytes: u64) -> Result<(u64, u64), InputError> {
        let unit = self.unit();
        let align = if self.offset_align == 0 { unit } else { self.offset_align };
        let aligned = |amount: Amount| match amount {
            Amount::Bytes(bytes) => Some(bytes),
            Amount::Percent(_) => amount.of(device_bytes).checked_next_multiple_of(align),
        };
        let start = aligned(self.offset_increment)
            .and_then(|step| step.checked_mul(u64::from(clone)))
            .and_then(|step| aligned(self.offset)?.checked_add(step));
        let Some(start) = start.filter(|start| *start < device_bytes) else {
            let text = format!(
                "clone {clone} of [{}] starts beyond the device of {device_bytes} bytes; use a smaller offset or offset_increment",
                self.name
            );
            return Err(self.error(&["offset", "offset_increment"], text));
        };
        if start % 512 != 0 {
            let text = format!(
                "[{}] starts at byte {start}, which is not a multiple of 512; use an offset such as 4k",
                self.name
            );
            return Err(self.error(&["offset", "offset_increment"], text));
        }
        let room = device_bytes - start;
        let size = match self.size {
            None => room,
            Some(Amount::Bytes(bytes)) => bytes,
            Some(percent) => percent.of(device_bytes).min(room),
        };
        if size > room {
            let text = format!(
                "[{}] covers {size} bytes from byte {start}, but the device has {device_bytes}; use a smaller size, or size=100%",
                self.name
            );
            return Err(self.error(&["size", "offset", "offset_increment"], text));
        }
        let needed = self.rw.kinds().iter().map(|k| self.block_size(*k).smallest()).max().unwrap_or(unit);
        if size < needed {
            let text = format!("the region of [{}] has {size} bytes, less than one block of {needed}; use a larger size or a smaller bs", self.name);
            return Err(self.error(&["size", "bs", "bsrange", "bssplit"], text));
        }
        Ok((start, size / unit * unit))
    }

    fn addresses(&self, len: u64, tables: &mut Tables, random: &mut Random) -> Result<Addresses, InputError> {
        if !self.rw.is_random() {
            return Ok(Addresses::Sequential([0; 3]));
        }
        let unit = [self.bs[0].smallest(), self.bs[1].smallest(), self.bs[2].smallest()];
        let mut blocks = [0; 3];
        for kind in self.rw.kinds() {
            blocks[kind.index()] = len / unit[kind.index()];
        }
        if self.rw.kinds().iter().all(|kind| self.random_distribution[kind.index()] == Distribution::Random) {
            return Ok(if self.norandommap {
                Addresses::Any { unit, blocks }
            } else {
                self.each_once(len, random)
            });
        }
        let mut out = [None, None, None];
        for kind in self.rw.kinds() {
            let at = kind.index();
            out[at] = Some(self.skewed(at, blocks[at], unit[at], tables, random)?);
        }
        // A mixed job reads and writes the same hot blocks.
        if let [Some(reads), Some(writes), _] = &mut out {
            if blocks[0] == blocks[1] {
                writes.scatter.clone_from(&reads.scatter);
            }
        }
        Ok(Addresses::Skewed { unit, tables: out })
    }

    fn each_once(&self, len: u64, random: &mut Random) -> Addresses {
        let unit = self.unit();
        let one_size = self.rw.kinds().iter().all(|kind| *self.block_size(*kind) == BlockSize::Fixed(unit));
        if one_size {
            Addresses::Once { unit, order: Shuffle::new(len / unit, random) }
        } else {
            Addresses::Map(BlockMap::new(unit, len / unit, random))
        }
    }

    fn skewed(
        &self,
        direction: usize,
        blocks: u64,
        unit: u64,
        tables: &mut Tables,
        random: &mut Random,
    ) -> Result<Skewed, InputError> {
        let distribution = &self.random_distribution[direction];
        let table = match tables.find(distribution, blocks, unit) {
            Some(table) => table,
            None => {
                let table = Arc::new(self.table(distribution, blocks, unit)?);
                tables.0.push((distribution.clone(), blocks, unit, Arc::clone(&table)));
                table
            }
        };
        let scatter = match distribution {
            Distribution::Zipf { centre, .. } | Distribution::Pareto { centre, .. } => {
                let order = Permutation::new(blocks, random);
                let shift = centre.map_or(0, |share| {
                    let wanted = ((share * blocks as f64) as u64).min(blocks - 1);
                    (wanted + blocks - order.apply(0)) % blocks
                });
                Some((order, shift))
            }
            Distribution::Random | Distribution::Normal { .. } | Distribution::Zoned(_) => None,
        };
        Ok(Skewed { table, scatter })
    }

    fn table(&self, distribution: &Distribution, blocks: u64, unit: u64) -> Result<Weighted, InputError> {
        Ok(match distribution {
            Distribution::Random => Weighted::new(&[Bucket { start: 0, len: blocks, weight: 1 }]),
            Distribution::Zipf { theta, .. } => zipf(blocks, *theta),
            Distribution::Pareto { h, .. } => pareto(blocks, *h),
            Distribution::Normal { deviation, centre } => normal(blocks, deviation / 100.0, *centre),
            Distribution::Zoned(zones) => {
                let mut buckets = Vec::with_capacity(zones.len());
                let mut at = 0;
                for &(weight, size) in zones {
                    let end = match size {
                        Some(size) => (at + size.of(blocks * unit)).min(blocks * unit),
                        None => blocks * unit,
                    };
                    let (first, last) = (at.div_ceil(unit), end / unit);
                    if weight > 0 && last <= first {
                        let text = format!(
                            "a zone of [{}] holds no block of {unit} bytes; use fewer or larger zones",
                            self.name
                        );
                        return Err(self.error(&["random_distribution"], text));
                    }
                    buckets.push(Bucket { start: first, len: last.saturating_sub(first), weight });
                    at = end;
                }
                Weighted::new(&buckets)
            }
        })
    }
}

/// Tables already built for other clones and directions.
#[derive(Default)]
struct Tables(Vec<(Distribution, u64, u64, Arc<Weighted>)>);

impl Tables {
    fn find(&self, distribution: &Distribution, blocks: u64, unit: u64) -> Option<Arc<Weighted>> {
        self.0.iter().find(|t| t.0 == *distribution && t.1 == blocks && t.2 == unit).map(|t| Arc::clone(&t.3))
    }
}
