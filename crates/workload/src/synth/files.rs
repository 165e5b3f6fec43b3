//! Filebench on a file system: what the block device sees of its fileserver, webserver and varmail personalities.
//!
//! Followed are `workloads/fileserver.f`, `webserver.f` and `varmail.f` of Filebench 1.5: the flow operations of a thread in
//! their order, file sizes from a gamma distribution of shape 1.5, `appendfilerand` of a random size up to 16 KiB, and the
//! share of files that exist at the start (`prealloc`). Number and mean size of files and the number of threads are those
//! of LearnedFTL's table I. What is ours:
//!
//! - The file system gives a file the next free pages and knows no directories; a journal of 128 MiB takes a page for each
//!   eight changes, when a file is synced or every 64 changes.
//! - There is no page cache: every read of a file reads its pages, in requests of up to 128 KiB (Linux's read-ahead); writes
//!   go out in requests of up to 512 KiB. Deleting a file trims nothing, as ext4 without `discard`.
//! - Threads take turns; that a thread waits for its own requests is left to the depth at which they are replayed.
//! - On a device that is too small for it, the fileset has fewer files.

use std::collections::VecDeque;

use super::disk::{Disk, Extents};
use crate::random::Random;
use crate::{Kind, Request};

const PAGE: u64 = 4096;
const READ_MOST: u32 = 32;
const WRITE_MOST: u32 = 128;
const APPEND_MOST: u64 = 16 << 10;
const JOURNAL_PAGES: u32 = 32 << 10;
/// Changes of metadata that are written to the journal together.
const COMMIT: u32 = 64;
const CHANGES_A_PAGE: u32 = 8;
/// Pages of the log that webserver's threads append to, before it begins anew.
const LOG_PAGES: u32 = 16 << 10;
/// Files take up at most so much of the space, percent.
const FILL: u64 = 94;
/// A file is at most so many times as large as the mean.
const LARGEST: u64 = 12;

/// What a thread does, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    FileServer,
    WebServer,
    VarMail,
}

/// A workload of Filebench.
#[derive(Debug)]
pub(super) struct Personality {
    pub(super) files: u64,
    pub(super) mean_kib: u64,
    pub(super) threads: u32,
    /// Files that exist at the start, percent.
    pub(super) laid_out: u64,
    pub(super) flow: Flow,
}

impl Personality {
    /// Space of a file, on average: it ends within a page.
    fn file_bytes(&self) -> u64 {
        (self.mean_kib << 10) + PAGE / 2
    }

    /// Bytes of a file system with the whole fileset.
    pub(super) fn span_bytes(&self) -> u64 {
        let system = u64::from(JOURNAL_PAGES + LOG_PAGES) * PAGE;
        system + (self.files * self.file_bytes() * 100 / FILL + PAGE).next_multiple_of(PAGE)
    }
}

#[derive(Debug, Clone, Default)]
struct File {
    extents: Extents,
    bytes: u64,
}

/// A fileset and the threads that work on it. Lays the files out first, then goes on with what threads do if asked to.
#[derive(Debug, Clone)]
pub(super) struct Files {
    personality: &'static Personality,
    random: Random,
    disk: Disk,
    files: Vec<File>,
    /// Files that exist, and files that do not.
    live: Vec<u32>,
    gone: Vec<u32>,
    /// Requests of each thread.
    threads: Vec<VecDeque<Request>>,
    turn: usize,
    /// Next page of the journal and of the log.
    journal: u32,
    log_bytes: u64,
    changes: u32,
    /// The next file to lay out; `None`: threads are at work.
    laying: Option<usize>,
}

impl Files {
    /// The fileset on a device of `bytes`.
    pub(super) fn new(personality: &'static Personality, bytes: u64, seed: u64) -> Files {
        let mut random = Random::new(seed);
        let system = JOURNAL_PAGES + LOG_PAGES;
        let pages = u32::try_from(bytes / PAGE).unwrap_or(u32::MAX).max(2 * system);
        let room = u64::from(pages - system) * PAGE / 100 * FILL;
        let mean = personality.mean_kib << 10;
        let count = personality.files.min(room / personality.file_bytes()).max(1);
        let mut disk = Disk::new(system, pages);
        let (mut files, mut live, mut gone) = (Vec::with_capacity(count as usize), Vec::new(), Vec::new());
        for index in 0..count as u32 {
            let bytes = size(&mut random, mean);
            let exists = random.below(100) < personality.laid_out;
            // Files that do not exist leave no holes: the others lie one behind the other.
            let extents = if exists { disk.take(bytes.div_ceil(PAGE) as u32) } else { None };
            (if extents.is_some() { &mut live } else { &mut gone }).push(index);
            files.push(File { extents: extents.unwrap_or_default(), bytes });
        }
        let threads = vec![VecDeque::new(); personality.threads as usize];
        Files {
            personality,
            random,
            disk,
            files,
            live,
            gone,
            threads,
            turn: 0,
            journal: 0,
            log_bytes: 0,
            changes: 0,
            laying: Some(0),
        }
    }

    /// The same with the files in place.
    pub(super) fn serve(mut self) -> Files {
        self.laying = None;
        self
    }

    /// Files and their bytes, those included that do not exist at the start.
    pub(super) fn fileset(&self) -> (u64, u64) {
        (self.files.len() as u64, self.files.iter().map(|file| file.bytes).sum())
    }

    /// The next request; without end once threads are at work.
    pub(super) fn next(&mut self) -> Option<Request> {
        if let Some(next) = self.laying {
            return self.lay_out(next);
        }
        loop {
            self.turn = (self.turn + 1) % self.threads.len();
            if self.threads[self.turn].is_empty() {
                self.work();
            }
            if let Some(request) = self.threads[self.turn].pop_front() {
                return Some(request);
            }
        }
    }

    fn lay_out(&mut self, mut next: usize) -> Option<Request> {
        loop {
            if let Some(request) = self.threads[0].pop_front() {
                self.laying = Some(next);
                return Some(request);
            }
            let &file = self.live.get(next)?;
            next += 1;
            let extents = self.files[file as usize].extents.clone();
            push(&mut self.threads[0], Kind::Write, &extents, WRITE_MOST);
        }
    }

    /// One round of a thread's flow.
    fn work(&mut self) {
        match self.personality.flow {
            Flow::FileServer => {
                self.create(false);
                self.append(false);
                self.read();
                self.delete();
            }
            Flow::WebServer => {
                for _ in 0..10 {
                    self.read();
                }
                self.append_to_log();
            }
            Flow::VarMail => {
                self.delete();
                self.create(true);
                self.read();
                self.append(true);
                self.read();
            }
        }
    }

    /// One of the existing files.
    fn some_file(&mut self) -> Option<(usize, usize)> {
        let at = self.random.below(self.live.len() as u64) as usize;
        self.live.get(at).map(|&file| (at, file as usize))
    }

    /// A new file: written whole, or as the append of a mail that is synced.
    fn create(&mut self, mail: bool) {
        let bytes = if mail {
            1 + self.random.below(APPEND_MOST)
        } else {
            size(&mut self.random, self.personality.mean_kib << 10)
        };
        let Some(file) = self.gone.pop() else { return };
        let Some(extents) = self.disk.take(bytes.div_ceil(PAGE) as u32) else {
            self.gone.push(file);
            return;
        };
        push(&mut self.threads[self.turn], Kind::Write, &extents, WRITE_MOST);
        self.files[file as usize] = File { extents, bytes };
        self.live.push(file);
        self.changed(mail);
    }

    fn append(&mut self, sync: bool) {
        let Some((_, file)) = self.some_file() else { return };
        let bytes = 1 + self.random.below(APPEND_MOST);
        let held = self.files[file].bytes.div_ceil(PAGE);
        let end = self.files[file].bytes + bytes;
        let Some(more) = self.disk.take((end.div_ceil(PAGE) - held) as u32) else { return };
        let within = self.files[file].bytes % PAGE != 0;
        let last = self.files[file].extents.last().map(|&(start, count)| (start + count - 1, 1));
        let mut written: Extents = last.filter(|_| within).into_iter().collect();
        written.extend(&more);
        for extent in more {
            match self.files[file].extents.last_mut() {
                Some((start, count)) if *start + *count == extent.0 => *count += extent.1,
                _ => self.files[file].extents.push(extent),
            }
        }
        self.files[file].bytes = end;
        push(&mut self.threads[self.turn], Kind::Write, &written, WRITE_MOST);
        self.changed(sync);
    }

    fn read(&mut self) {
        let Some((_, file)) = self.some_file() else { return };
        push(&mut self.threads[self.turn], Kind::Read, &self.files[file].extents, READ_MOST);
    }

    fn delete(&mut self) {
        let Some((at, file)) = self.some_file() else { return };
        self.live.swap_remove(at);
        let gone = std::mem::take(&mut self.files[file]);
        self.disk.give(&gone.extents);
        // Filebench takes any file that does not exist.
        let place = self.random.below(self.gone.len() as u64 + 1) as usize;
        self.gone.insert(place.min(self.gone.len()), file as u32);
        self.changed(false);
    }

    fn append_to_log(&mut self) {
        let bytes = 1 + self.random.below(APPEND_MOST);
        let size = u64::from(LOG_PAGES) * PAGE;
        if self.log_bytes + bytes > size {
            self.log_bytes = 0;
        }
        let (first, end) = (self.log_bytes / PAGE, (self.log_bytes + bytes).div_ceil(PAGE));
        self.log_bytes += bytes;
        let extent = (JOURNAL_PAGES + first as u32, (end - first) as u32);
        push(&mut self.threads[self.turn], Kind::Write, &[extent], WRITE_MOST);
        self.changed(false);
    }

    /// Metadata has changed; `sync`: and the thread waits until that is durable.
    fn changed(&mut self, sync: bool) {
        self.changes += 1;
        if !sync && self.changes < COMMIT {
            return;
        }
        let pages = 1 + self.changes.div_ceil(CHANGES_A_PAGE);
        self.changes = 0;
        if self.journal + pages > JOURNAL_PAGES {
            self.journal = 0;
        }
        let queue = &mut self.threads[self.turn];
        push(queue, Kind::Write, &[(self.journal, pages)], WRITE_MOST);
        self.journal += pages;
        if sync {
            queue.push_back(Request::flush(0));
        }
    }
}

/// Requests for extents, of at most so many pages each.
pub(super) fn push(queue: &mut VecDeque<Request>, kind: Kind, extents: &[(u32, u32)], most: u32) {
    for &(start, count) in extents {
        let mut at = 0;
        while at < count {
            let pages = most.min(count - at);
            let (offset, bytes) = (u64::from(start + at) * PAGE, u64::from(pages) * PAGE);
            queue.push_back(Request { arrival_ns: 0, kind, offset, bytes });
            at += pages;
        }
    }
}

/// A file size: gamma of shape 1.5 is an exponential and half of a normal's square.
fn size(random: &mut Random, mean: u64) -> u64 {
    // 1 to 2^53 over 2^53, so that the logarithm is finite.
    let mut uniform = || ((random.u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0;
    let exponential = -libm::log(uniform());
    let normal = libm::sqrt(-2.0 * libm::log(uniform())) * libm::cos(2.0 * core::f64::consts::PI * uniform());
    let bytes = (exponential + normal * normal / 2.0) / 1.5 * mean as f64;
    (bytes as u64).clamp(1, LARGEST * mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    static SMALL: Personality =
        Personality { files: 2_000, mean_kib: 16, threads: 4, laid_out: 80, flow: Flow::VarMail };

    #[test]
    fn files_never_share_a_page() {
        for flow in [Flow::FileServer, Flow::VarMail] {
            let mut files = Files::new(&SMALL, 512 << 20, 7).serve();
            files.personality = Box::leak(Box::new(Personality { flow, ..SMALL }));
            for _ in 0..40_000 {
                files.next().expect("threads never end");
            }
            let mut used: Vec<(u32, u32)> =
                files.live.iter().flat_map(|&file| files.files[file as usize].extents.clone()).collect();
            used.sort_unstable();
            assert!(used.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            let held: u32 = used.iter().map(|extent| extent.1).sum();
            let all = (512 << 20) / PAGE as u32 - JOURNAL_PAGES - LOG_PAGES;
            assert_eq!(held + files.disk.left(), all);
            for &file in &files.live {
                let file = &files.files[file as usize];
                let pages: u32 = file.extents.iter().map(|extent| extent.1).sum();
                assert_eq!(u64::from(pages), file.bytes.div_ceil(PAGE));
            }
        }
    }

    #[test]
    fn the_layout_is_what_threads_find() {
        let laid: u64 = {
            let mut files = Files::new(&SMALL, 512 << 20, 7);
            std::iter::from_fn(|| files.next()).map(|request| request.bytes).sum()
        };
        let files = Files::new(&SMALL, 512 << 20, 7).serve();
        let held = files.live.iter().flat_map(|&file| &files.files[file as usize].extents);
        assert_eq!(laid, held.map(|extent| u64::from(extent.1) * PAGE).sum::<u64>());
    }
}
