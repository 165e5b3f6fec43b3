//! Filebench on a file system: what the block device sees of its fileserver, webserver, varmail and
//! videoserver personalities.
//!
//! Followed are `workloads/fileserver.f`, `webserver.f`, `varmail.f` and `videoserver.f` of Filebench 1.5:
//! the flow operations of a thread in their order, file sizes from a gamma distribution of shape 1.5 (videos:
//! all alike), `appendfilerand` of a random size up to 16 KiB, writes of videos of 1 MiB and reads of 256
//! KiB, and the share of files that exist at the start (`prealloc`). Number and mean size of files and the
//! number of threads are those of the paper that a generator names. What is ours:
//!
//! - The file system is one of ours: `ext4.rs` or `f2fs/`.
//! - There is no page cache: every read of a file reads its pages, in requests of up to 128 KiB (Linux's
//!   read-ahead); writes go out in requests of up to 512 KiB.
//! - Threads take turns; that a thread waits for its own requests is left to the depth at which they are
//!   replayed.
//! - Where the paper states a share of reads, a thread reads at the places of its flow until that share of
//!   all pages read and written is reached, which may be several files, or none.
//! - Of the videos, as many are active as in `videoserver.f`, 32 of 226; a reader goes on with another when
//!   it is through.
//! - On a device that is too small for it, the fileset has fewer files, or shorter videos.

use std::ops::Range;

use super::ext4::{self, Ext4, LOG_PAGES};
use super::f2fs;
use super::file_system::FileSystem;
use super::requests::{Requests, PAGE};
use crate::random::Random;
use crate::Request;

const APPEND_MOST: u64 = 16 << 10;
/// A file is at most so many times as large as the mean.
const LARGEST: u64 = 12;
/// Pages that the writer of videos writes, and that their readers read, at a time.
const VIDEO_WRITE: u32 = 256;
const VIDEO_READ: u32 = 64;

/// What a thread does, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    FileServer,
    WebServer,
    VarMail,
    /// The first thread writes videos, the others read active ones.
    VideoServer,
}

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Ext4,
    F2fs,
}

/// A workload of Filebench.
#[derive(Debug)]
pub(super) struct Personality {
    pub(super) system: System,
    pub(super) files: u64,
    pub(super) mean_kib: u64,
    pub(super) threads: u32,
    /// Files that exist at the start, percent.
    pub(super) laid_out: u64,
    /// Files of a directory.
    pub(super) dir_width: u32,
    /// Of the pages of files that are read and written, so many are read, percent; `None`: as many as the
    /// flow reads.
    pub(super) reads: Option<u64>,
    pub(super) flow: Flow,
}

impl Personality {
    /// Space of a file, on average: it ends within a page.
    fn file_bytes(&self) -> u64 {
        (self.mean_kib << 10) + PAGE / 2
    }

    /// Bytes of a file system with the whole fileset.
    pub(super) fn span_bytes(&self) -> u64 {
        match self.system {
            System::Ext4 => Ext4::device_bytes(self.files * self.file_bytes()),
            System::F2fs => f2fs::SPAN_BYTES,
        }
    }

    /// Bytes of the smallest device that it fits.
    pub(super) fn least_bytes(&self) -> u64 {
        match self.system {
            System::Ext4 => ext4::LEAST_BYTES,
            System::F2fs => f2fs::LEAST_BYTES,
        }
    }

    /// Files that are read but never deleted.
    fn active(&self, files: u64) -> u64 {
        if self.flow == Flow::VideoServer {
            (files * 32).div_ceil(226)
        } else {
            0
        }
    }
}

/// A fileset and the threads that work on it. Lays the files out first, then goes on with what threads do.
#[derive(Debug, Clone)]
pub(super) struct Files<S> {
    personality: &'static Personality,
    random: Random,
    system: S,
    /// Bytes of each file, of those that do not exist as well, and of the log.
    bytes: Vec<u64>,
    mean: u64,
    /// Files that are never deleted come first, without being listed; then these exist, and those do not.
    active: u32,
    live: Vec<u32>,
    gone: Vec<u32>,
    /// Requests of each thread.
    threads: Vec<Requests>,
    turn: usize,
    /// The next operation of each thread's round.
    operations: Vec<usize>,
    /// Requests of the thread whose turn it is that the others wait for.
    exclusive: usize,
    /// Video that each thread is at, and its next page.
    videos: Vec<Option<(u32, u32)>>,
    /// Pages of files that were read and written.
    moved: [u64; 2],
    /// The next file to lay out; `None`: threads are at work.
    laying: Option<u32>,
}

impl<S: FileSystem> Files<S> {
    /// The fileset on a device of `bytes`, still to be laid out.
    pub(super) fn new(personality: &'static Personality, bytes: u64, seed: u64) -> Files<S> {
        let room = S::room_bytes(bytes);
        let own = S::INODE_PAGES * PAGE;
        let (mut mean, mut count) = (personality.mean_kib << 10, personality.files);
        if personality.flow == Flow::VideoServer {
            mean = mean.min((room / 100 * 95 / count).next_multiple_of(PAGE));
        } else {
            count = count.min(room / (personality.file_bytes() + own)).max(1);
        }
        let most_pages = u32::try_from(mean / PAGE).unwrap_or(u32::MAX);
        let threads = personality.threads as usize;
        Files {
            personality,
            random: Random::new(seed),
            system: S::new(bytes, count as u32, personality.dir_width, most_pages),
            bytes: vec![0; count as usize + 1],
            mean,
            active: personality.active(count) as u32,
            live: Vec::new(),
            gone: Vec::new(),
            threads: vec![Requests::new(); threads],
            turn: 0,
            operations: vec![0; threads],
            exclusive: 0,
            videos: vec![None; threads],
            moved: [0; 2],
            laying: Some(0),
        }
    }

    /// The same with the files in place.
    pub(super) fn serve(mut self) -> Files<S> {
        while self.lay_out() {
            self.threads[0].clear();
        }
        self.threads[0].clear();
        self.system.exclusive();
        self.laying = None;
        self
    }

    /// Files and their bytes, those included that do not exist at the start.
    pub(super) fn fileset(&self) -> (u64, u64) {
        (self.files().into(), self.bytes.iter().sum())
    }

    fn files(&self) -> u32 {
        self.bytes.len() as u32 - 1
    }

    /// Of the pages of files that threads read and wrote, the share of those read.
    pub(super) fn read_share(&self) -> f64 {
        self.moved[0] as f64 / (self.moved[0] + self.moved[1]).max(1) as f64
    }

    /// The next request: of the layout, or without end.
    pub(super) fn next(&mut self) -> Option<Request> {
        while self.laying.is_some() {
            if let Some(request) = self.threads[0].pop_front() {
                return Some(request);
            }
            if !self.lay_out() {
                return None;
            }
        }
        loop {
            match self.exclusive.checked_sub(1) {
                Some(left) => self.exclusive = left,
                None => self.turn = (self.turn + 1) % self.threads.len(),
            }
            if self.threads[self.turn].is_empty() {
                self.work();
                self.exclusive = self.system.exclusive().saturating_sub(1);
            }
            if let Some(request) = self.threads[self.turn].pop_front() {
                return Some(request);
            }
        }
    }

    /// Lays out the next file, or what is held back at the end; `false` behind that.
    fn lay_out(&mut self) -> bool {
        let Some(next) = self.laying.filter(|&next| next <= self.files()) else { return false };
        self.laying = Some(next + 1);
        if next == self.files() {
            self.system.settle(&mut self.threads[0]);
            return true;
        }
        let bytes = self.size();
        self.bytes[next as usize] = bytes;
        let active = next < self.active;
        let exists = self.random.below(100) < self.personality.laid_out || active;
        // Files that do not exist leave no holes: the others lie one behind the other.
        let pages = bytes.div_ceil(PAGE) as u32;
        let exists = exists && self.system.write(&mut self.threads[0], next, 0..pages, false);
        if !active {
            (if exists { &mut self.live } else { &mut self.gone }).push(next);
        }
        true
    }

    /// A file size: gamma of shape 1.5 is an exponential and half of a normal's square. Videos have one size.
    fn size(&mut self) -> u64 {
        if self.personality.flow == Flow::VideoServer {
            return self.mean;
        }
        // 1 to 2^53 over 2^53, so that the logarithm is finite.
        let mut uniform = || ((self.random.u64() >> 11) + 1) as f64 / 9_007_199_254_740_992.0;
        let exponential = -libm::log(uniform());
        let normal =
            libm::sqrt(-2.0 * libm::log(uniform())) * libm::cos(2.0 * core::f64::consts::PI * uniform());
        let bytes = (exponential + normal * normal / 2.0) / 1.5 * self.mean as f64;
        (bytes as u64).clamp(1, LARGEST * self.mean)
    }

    /// Goes on with the flow of the thread whose turn it is: by a round, or by operations until one makes
    /// requests.
    fn work(&mut self) {
        loop {
            let operation = self.operations[self.turn];
            let ends = self.operate(operation);
            self.operations[self.turn] = if ends { 0 } else { operation + 1 };
            if ends || (!S::ALLOCATES_ROUNDS && !self.threads[self.turn].is_empty()) {
                return;
            }
        }
    }

    /// An operation of a flow. Returns whether the round ends with it.
    fn operate(&mut self, operation: usize) -> bool {
        match (self.personality.flow, operation) {
            (Flow::FileServer, 0) => self.create(false),
            (Flow::FileServer, 1) => self.append(false),
            (Flow::FileServer | Flow::VarMail, 2) => self.read(),
            (Flow::FileServer, _) => self.delete(),
            (Flow::WebServer, 0..10) => self.read(),
            (Flow::WebServer, _) => self.append_to_log(),
            (Flow::VarMail, 0) => self.delete(),
            (Flow::VarMail, 1) => self.create(true),
            (Flow::VarMail, 3) => self.append(true),
            (Flow::VarMail, _) => self.read(),
            (Flow::VideoServer, _) if self.turn == 0 => self.write_video(),
            (Flow::VideoServer, _) => self.read_video(),
        }
        let last = match self.personality.flow {
            Flow::FileServer => 3,
            Flow::WebServer => 10,
            Flow::VarMail => 4,
            Flow::VideoServer => 0,
        };
        operation == last
    }

    /// Whether more has to be read, to keep to the share of reads.
    fn reads_are_due(&self, share: u64) -> bool {
        self.moved[0] * (100 - share) < self.moved[1] * share
    }

    /// One of the existing files.
    fn some_file(&mut self) -> Option<(usize, u32)> {
        let at = self.random.below(self.live.len() as u64) as usize;
        self.live.get(at).map(|&file| (at, file))
    }

    fn write_pages(&mut self, file: u32, pages: Range<u32>, sync: bool) -> bool {
        self.moved[1] += u64::from(pages.end - pages.start);
        self.system.write(&mut self.threads[self.turn], file, pages, sync)
    }

    fn changed(&mut self, file: u32, sync: bool) {
        self.system.changed(&mut self.threads[self.turn], file, sync);
    }

    /// A new file: written whole, or as the append of a mail that is synced.
    fn create(&mut self, mail: bool) {
        let bytes = if mail { 1 + self.random.below(APPEND_MOST) } else { self.size() };
        let Some(file) = self.gone.pop() else { return };
        if !self.write_pages(file, 0..bytes.div_ceil(PAGE) as u32, mail) {
            self.gone.push(file);
            return;
        }
        self.bytes[file as usize] = bytes;
        self.live.push(file);
        self.changed(file, mail);
    }

    fn append(&mut self, sync: bool) {
        let Some((_, file)) = self.some_file() else { return };
        let held = self.bytes[file as usize];
        let end = held + 1 + self.random.below(APPEND_MOST);
        if self.write_pages(file, (held / PAGE) as u32..end.div_ceil(PAGE) as u32, sync) {
            self.bytes[file as usize] = end;
            self.changed(file, sync);
        }
    }

    /// Reads a whole file, or as many as are due.
    fn read(&mut self) {
        let share = self.personality.reads;
        if share.is_some_and(|share| !self.reads_are_due(share)) {
            return;
        }
        loop {
            let Some((_, file)) = self.some_file() else { return };
            let pages = self.bytes[file as usize].div_ceil(PAGE);
            self.moved[0] += pages;
            self.system.read(&mut self.threads[self.turn], file, 0..pages as u32);
            if !share.is_some_and(|share| self.reads_are_due(share)) {
                return;
            }
        }
    }

    /// Deletes some file, and says which.
    fn delete(&mut self) {
        let Some((at, file)) = self.some_file() else { return };
        self.live.swap_remove(at);
        self.bytes[file as usize] = 0;
        self.system.delete(&mut self.threads[self.turn], file);
        // Filebench takes any file that does not exist.
        let place = self.random.below(self.gone.len() as u64 + 1) as usize;
        self.gone.insert(place.min(self.gone.len()), file);
        self.changed(file, false);
    }

    fn append_to_log(&mut self) {
        let log = self.files();
        let bytes = 1 + self.random.below(APPEND_MOST);
        let mut held = self.bytes[log as usize];
        if held + bytes > u64::from(LOG_PAGES) * PAGE {
            held = 0;
        }
        self.bytes[log as usize] = held + bytes;
        self.write_pages(log, (held / PAGE) as u32..(held + bytes).div_ceil(PAGE) as u32, false);
        self.changed(log, false);
    }

    /// The next piece of a new video, which replaces another.
    fn write_video(&mut self) {
        let (file, at) = match self.videos[0] {
            Some(at) => at,
            None => {
                self.delete();
                let Some(file) = self.gone.pop() else { return };
                (file, 0)
            }
        };
        let pages = (self.mean / PAGE) as u32;
        let end = (at + VIDEO_WRITE).min(pages);
        let written = self.write_pages(file, at..end, false);
        if written && end < pages {
            self.videos[0] = Some((file, end));
            return;
        }
        self.videos[0] = None;
        self.bytes[file as usize] = self.mean;
        self.live.push(file);
        self.changed(file, false);
    }

    /// The next piece of an active video.
    fn read_video(&mut self) {
        if self.personality.reads.is_some_and(|share| !self.reads_are_due(share)) {
            return;
        }
        let pages = (self.mean / PAGE) as u32;
        let another = |random: &mut Random| (random.below(self.active.into()) as u32, 0);
        let (file, at) = self.videos[self.turn].unwrap_or_else(|| another(&mut self.random));
        let end = (at + VIDEO_READ).min(pages);
        self.moved[0] += u64::from(end - at);
        self.system.read(&mut self.threads[self.turn], file, at..end);
        self.videos[self.turn] = (end < pages).then_some((file, end));
    }
}

#[cfg(test)]
mod tests {
    use super::super::models::EXT4;
    use super::*;

    static SMALL: Personality =
        Personality { files: 2_000, mean_kib: 16, threads: 4, laid_out: 80, flow: Flow::VarMail, ..EXT4 };
    static SMALL_SERVER: Personality =
        Personality { files: 2_000, mean_kib: 16, threads: 4, laid_out: 80, flow: Flow::FileServer, ..EXT4 };

    #[test]
    fn files_never_share_a_page() {
        for personality in [&SMALL, &SMALL_SERVER] {
            let mut files = Files::<Ext4>::new(personality, 512 << 20, 7).serve();
            let all = files.system.left()
                + files
                    .live
                    .iter()
                    .flat_map(|&file| files.system.whole(file))
                    .map(|extent| extent.1)
                    .sum::<u32>();
            for _ in 0..40_000 {
                files.next().expect("threads never end");
            }
            let mut used: Vec<(u32, u32)> =
                files.live.iter().flat_map(|&file| files.system.whole(file).clone()).collect();
            used.sort_unstable();
            assert!(used.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            let held: u32 = used.iter().map(|extent| extent.1).sum();
            assert_eq!(held + files.system.left(), all);
            for &file in &files.live {
                let pages: u32 = files.system.whole(file).iter().map(|extent| extent.1).sum();
                assert_eq!(u64::from(pages), files.bytes[file as usize].div_ceil(PAGE));
            }
        }
    }

    #[test]
    fn the_layout_is_what_threads_find() {
        let laid: u64 = {
            let mut files = Files::<Ext4>::new(&SMALL, 512 << 20, 7);
            std::iter::from_fn(|| files.next()).map(|request| request.bytes).sum()
        };
        let files = Files::<Ext4>::new(&SMALL, 512 << 20, 7).serve();
        let held = files.live.iter().flat_map(|&file| files.system.whole(file));
        assert_eq!(laid, held.map(|extent| u64::from(extent.1) * PAGE).sum::<u64>());
    }
}
