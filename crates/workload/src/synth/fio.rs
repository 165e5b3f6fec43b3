//! fio on one file of F2FS that was overwritten until its pages lie scattered, after section V-B of the LFTL
//! paper: a file of 20 GiB on 30 GiB, "repeatedly overwrite 4 KiB blocks randomly over the file until 60 GiB
//! data has been written", then "512 KiB and 4 KiB I/O requests for sequential and random tests".
//!
//! What is ours:
//!
//! - The 60 GiB are the file and 40 GiB of overwrites. On a smaller device the file takes two thirds of it,
//!   too, and is overwritten twice.
//! - Nobody syncs, so F2FS writes its logs in requests of up to 512 KiB while segments are free. When few
//!   are, it fills the holes of others, a page or two at a time, as Linux does (`f2fs/`): nearly a third of
//!   the volume is holes then, and they lie everywhere.
//! - There is no page cache. A read goes to where the pages lie, in requests of up to 128 KiB; of a file
//!   that was overwritten at random hardly any two pages lie side by side, so a sequential read of it is many
//!   small ones.
//! - Sequential jobs begin at the start of the file, and again at its end.

use super::f2fs::F2fs;
use super::file_system::FileSystem;
use super::requests::{Requests, PAGE, WRITE_MOST};
use crate::random::Random;
use crate::Request;

/// The paper's file.
const FILE_BYTES: u64 = 20 << 30;
/// How many times over the file is written, the first time in sequence.
const TIMES: u64 = 3;
/// The file's number. There is no other.
const FILE: u32 = 0;

/// What fio does with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    RandomRead,
    SequentialRead,
    SequentialWrite,
    RandomWrite,
}

/// A job on the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) access: Access,
    /// Requests in flight.
    pub(super) threads: u32,
}

/// The file and the job. Writes the file first, then goes on with the job.
#[derive(Debug, Clone)]
pub(super) struct File {
    access: Access,
    random: Random,
    volume: F2fs,
    queue: Requests,
    /// Pages of the file.
    pages: u32,
    /// Pages that its layout has written.
    laid: u64,
    stage: Stage,
    /// The next page of a sequential job.
    next: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Laying,
    Laid,
    Serving,
}

impl File {
    /// The file on a device of `bytes`, still to be written.
    pub(super) fn new(job: Job, bytes: u64, seed: u64) -> File {
        let room = F2fs::room_bytes(bytes) / 10 * 9;
        let pages = (FILE_BYTES.min(bytes / 3 * 2).min(room) / PAGE).max(1) as u32;
        File {
            access: job.access,
            random: Random::new(seed),
            volume: F2fs::new(bytes, 1, 1, pages),
            queue: Requests::new(),
            pages,
            laid: 0,
            stage: Stage::Laying,
            next: 0,
        }
    }

    /// The same with the file in place.
    pub(super) fn serve(mut self) -> File {
        while self.lay_out() {
            self.queue.clear();
        }
        self.queue.clear();
        self.stage = Stage::Serving;
        self
    }

    /// The next request: of the layout, or without end.
    pub(super) fn next(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.queue.pop_front() {
                return Some(request);
            }
            if self.stage == Stage::Serving {
                self.work();
            } else if !self.lay_out() {
                return None;
            }
        }
    }

    /// Writes the next piece of the file, or what is held back at the end; `false` behind that.
    fn lay_out(&mut self) -> bool {
        if self.stage == Stage::Laid {
            return false;
        }
        let pages = u64::from(self.pages);
        if self.laid < pages {
            let first = self.laid as u32;
            let end = (first + WRITE_MOST).min(self.pages);
            self.volume.write(&mut self.queue, FILE, first..end, false);
            self.laid = end.into();
        } else if self.laid < TIMES * pages {
            self.overwrite();
            self.laid += 1;
        } else {
            self.volume.settle(&mut self.queue);
            self.stage = Stage::Laid;
        }
        true
    }

    /// Writes some page.
    fn overwrite(&mut self) {
        let page = self.some_page();
        self.volume.write(&mut self.queue, FILE, page..page + 1, false);
    }

    fn some_page(&mut self) -> u32 {
        self.random.below(self.pages.into()) as u32
    }

    /// The next 512 KiB of the file.
    fn piece(&mut self) -> std::ops::Range<u32> {
        let first = if self.next < self.pages { self.next } else { 0 };
        self.next = (first + WRITE_MOST).min(self.pages);
        first..self.next
    }

    /// Goes on with the job.
    fn work(&mut self) {
        match self.access {
            Access::RandomRead => {
                let page = self.some_page();
                self.volume.read(&mut self.queue, FILE, page..page + 1);
            }
            Access::SequentialRead => {
                let pages = self.piece();
                self.volume.read(&mut self.queue, FILE, pages);
            }
            Access::SequentialWrite => {
                let pages = self.piece();
                self.volume.write(&mut self.queue, FILE, pages, false);
            }
            Access::RandomWrite => self.overwrite(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    const DEVICE: u64 = 512 << 20;

    fn file(access: Access) -> File {
        File::new(Job { access, threads: 1 }, DEVICE, 3)
    }

    /// Pages of the requests of a kind.
    fn pages(requests: &[Request], kind: Kind) -> u64 {
        requests.iter().filter(|request| request.kind == kind).map(|request| request.bytes / PAGE).sum()
    }

    #[test]
    fn the_file_is_written_three_times_over_first_in_long_requests_then_into_holes() {
        let mut file = file(Access::RandomRead);
        let all: Vec<Request> = std::iter::from_fn(|| file.next()).collect();
        let written = pages(&all, Kind::Write);
        let wanted = TIMES * u64::from(file.pages);
        assert!((wanted..2 * wanted).contains(&written), "{written} with nodes, {wanted} of the file");
        let writes: Vec<Request> = all.into_iter().filter(|request| request.kind == Kind::Write).collect();
        let mean = |some: &[Request]| pages(some, Kind::Write) / some.len() as u64;
        let tenth = writes.len() / 10;
        // 512 KiB of the file, with what a checkpoint writes between them.
        let fill = writes.iter().scan(0, |sum, request| {
            *sum += request.bytes / PAGE;
            (*sum <= u64::from(file.pages)).then_some(*request)
        });
        assert!(mean(&fill.collect::<Vec<_>>()) > 32);
        assert!(mean(&writes[writes.len() - tenth..]) < 4, "few segments are free");
    }

    #[test]
    fn a_sequential_read_finds_each_page_once_and_most_of_them_alone() {
        let mut file = file(Access::SequentialRead).serve();
        let (mut seen, mut requests, mut left) = (std::collections::BTreeSet::new(), 0, file.pages);
        while left > 0 {
            let request = file.next().expect("it has no end");
            assert_eq!(request.kind, Kind::Read);
            for page in request.offset / PAGE..request.end() / PAGE {
                assert!(seen.insert(page), "page {page} twice");
                left -= 1;
            }
            requests += 1;
        }
        assert!(requests * 10 > file.pages * 8, "{requests} requests for {} pages", file.pages);
    }

    #[test]
    fn random_jobs_go_all_over_the_file() {
        let mut reads = file(Access::RandomRead).serve();
        let mut blocks: Vec<u64> = (0..2_000).filter_map(|_| reads.next()).map(|it| it.offset).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert!(blocks.len() > 1_900, "{}", blocks.len());
        let mut writes = file(Access::RandomWrite).serve();
        let some: Vec<Request> = (0..2_000).filter_map(|_| writes.next()).collect();
        let mut blocks: Vec<u64> = some.iter().map(|request| request.offset).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert!(blocks.len() > 1_500, "{}", blocks.len());
    }
}
