//! The writer against a model: what each block of the device holds, by the requests alone.

use super::*;

const DEVICE: u64 = 256 << 20;
const APPEND: Settings = Settings { threaded: false, in_place: 0, background: 0, discard: false };

/// A small volume, its requests, and what they leave on the device.
struct Bench {
    volume: F2fs,
    queue: Requests,
    /// Blocks of the main area that were written, in the order of writing.
    written: Vec<u32>,
    trimmed: Vec<u32>,
}

impl Bench {
    fn new(settings: Settings) -> Bench {
        let volume = F2fs::with(settings, DEVICE, 4_000, 20, 64);
        Bench { volume, queue: Requests::new(), written: Vec::new(), trimmed: Vec::new() }
    }

    /// Takes the requests that were made, and checks them against what was valid when they were.
    fn take(&mut self) {
        for request in std::mem::take(&mut self.queue) {
            let (first, pages) = ((request.offset / PAGE) as u32, (request.bytes / PAGE) as u32);
            let Some(block) = first.checked_sub(self.volume.layout.main) else { continue };
            match request.kind {
                Kind::Write => self.written.extend(block..block + pages),
                Kind::Trim => self.trimmed.extend(block..block + pages),
                Kind::Read | Kind::Flush => {}
            }
        }
    }

    /// Random writes of whole files, deletions and syncs, `rounds` of them, on `files` files.
    fn run(&mut self, rounds: u64, files: u64, seed: u64) {
        let mut random = crate::random::Random::new(seed);
        for _ in 0..rounds {
            let file = random.below(files) as u32;
            if random.below(4) == 0 {
                self.volume.delete(&mut self.queue, file);
            } else {
                let pages = 1 + random.below(32) as u32;
                let sync = random.below(3) == 0;
                if self.volume.write(&mut self.queue, file, 0..pages, sync) {
                    self.volume.changed(&mut self.queue, file, sync);
                }
            }
            self.check();
        }
    }

    /// What is counted is what is there.
    fn check(&self) {
        let it = &self.volume;
        assert!(it.valid <= it.layout.user_blocks);
        assert_eq!(
            it.free as usize,
            it.segments.iter().filter(|segment| segment.state == State::Free).count()
        );
    }

    /// Every block of a file is its own, and counted once.
    fn check_all(&self) {
        let it = &self.volume;
        let mut found = 0;
        for (file, inode) in it.inodes.iter().enumerate() {
            for (blocks, base) in [(&inode.pages, 0), (&inode.nodes, NODE)] {
                for (at, &block) in blocks.iter().enumerate().filter(|(_, &block)| block != NOWHERE) {
                    assert_eq!(
                        it.owners[block as usize],
                        Owner { file: file as u32, place: base + at as u32 }
                    );
                    found += 1;
                }
            }
        }
        assert_eq!(found, it.valid);
        for (number, segment) in it.segments.iter().enumerate() {
            let blocks = number * SEGMENT as usize..(number + 1) * SEGMENT as usize;
            let valid = blocks.clone().filter(|&block| it.owners[block] != NOBODY).count();
            let kept = blocks.filter(|&block| it.owners[block] != NOBODY || it.checkpointed[block]).count();
            assert_eq!(
                (usize::from(segment.valid), usize::from(segment.kept)),
                (valid, kept),
                "segment {number}"
            );
            assert!(segment.state != State::Free || kept == 0, "segment {number}");
        }
    }
}

#[test]
fn a_log_fills_its_segments_in_order() {
    let mut bench = Bench::new(APPEND);
    for file in 0..200 {
        assert!(bench.volume.write(&mut bench.queue, file, 0..32, false));
    }
    bench.volume.settle(&mut bench.queue);
    bench.take();
    // The data of files nobody deletes, all of one log.
    let warm: Vec<u32> = bench
        .written
        .iter()
        .copied()
        .filter(|&block| bench.volume.segments[(block / SEGMENT) as usize].log == Log::WarmData)
        .collect();
    assert_eq!(warm.len(), 200 * 32);
    for pair in warm.windows(2) {
        let starts = pair[1] % SEGMENT == 0 && pair[0] % SEGMENT == SEGMENT - 1;
        assert!(pair[1] == pair[0] + 1 || starts, "{pair:?}");
    }
    bench.check_all();
}

#[test]
fn append_mode_overwrites_nothing_that_was_written_since_the_checkpoint_or_was_valid_then() {
    let mut bench = Bench::new(APPEND);
    let mut since = vec![false; bench.volume.owners.len()];
    let mut protected = since.clone();
    let mut checkpoints = 0;
    for round in 0..12_000 {
        bench.run(1, 4_000, round);
        let mut known = true;
        for request in std::mem::take(&mut bench.queue) {
            let (first, pages) = ((request.offset / PAGE) as u32, (request.bytes / PAGE) as u32);
            if request.kind == Kind::Flush {
                continue;
            }
            match first.checked_sub(bench.volume.layout.main) {
                Some(block) if request.kind == Kind::Write => {
                    for block in (block..block + pages).map(|block| block as usize) {
                        assert!(!since[block], "block {block} twice since the checkpoint, round {round}");
                        assert!(!known || !protected[block], "block {block} was valid then, round {round}");
                        since[block] = true;
                    }
                }
                // The checkpoint pack is written last.
                None if first < 3 * SEGMENT => {
                    since.fill(false);
                    (known, checkpoints) = (false, checkpoints + 1);
                }
                _ => {}
            }
        }
        protected.clone_from(&bench.volume.checkpointed);
    }
    assert!(checkpoints > 10, "{checkpoints}");
    bench.check_all();
}

#[test]
fn utilisation_is_what_files_and_nodes_take() {
    let mut bench = Bench::new(SETTINGS);
    for file in 0..100 {
        assert!(bench.volume.write(&mut bench.queue, file, 0..10, false));
    }
    bench.volume.settle(&mut bench.queue);
    // 100 files in five directories whose entries are in their inodes.
    assert_eq!(bench.volume.valid, 100 * 11 + 5);
    for file in 0..40 {
        bench.volume.delete(&mut bench.queue, file);
    }
    bench.volume.settle(&mut bench.queue);
    assert_eq!(bench.volume.valid, 60 * 11 + 5);
    bench.check_all();
    while bench.volume.write(
        &mut bench.queue,
        2_000,
        0..bench.volume.inodes[2_000].pages.len() as u32 + 8,
        false,
    ) {}
    bench.volume.settle(&mut bench.queue);
    assert!(bench.volume.valid <= bench.volume.layout.user_blocks);
}

#[test]
fn cleaning_moves_exactly_the_live_blocks() {
    let mut bench = Bench::new(APPEND);
    for file in 0..64 {
        assert!(bench.volume.write(&mut bench.queue, file, 0..32, false));
    }
    for file in (0..64).step_by(3) {
        bench.volume.delete(&mut bench.queue, file);
    }
    bench.volume.settle(&mut bench.queue);
    bench.take();
    bench.written.clear();
    let victim = bench.volume.victim(|_, segment| u64::from(segment.valid)).expect("a segment with holes");
    let blocks = (victim * SEGMENT..(victim + 1) * SEGMENT).map(|block| block as usize);
    let live: Vec<Owner> =
        blocks.map(|block| bench.volume.owners[block]).filter(|&it| it != NOBODY).collect();
    assert!(!live.is_empty() && live.len() < SEGMENT as usize);
    let before = bench.volume.valid;
    bench.volume.clean(&mut bench.queue, victim);
    let reads = bench.queue.iter().filter(|request| request.kind == Kind::Read);
    assert_eq!(reads.map(|request| request.bytes / PAGE).sum::<u64>(), live.len() as u64);
    assert!(live.iter().all(|&owner| bench.volume.block(owner) / SEGMENT != victim));
    assert_eq!((bench.volume.valid, bench.volume.segments[victim as usize].valid), (before, 0));
    for log in Log::ALL {
        bench.volume.send(&mut bench.queue, log);
    }
    bench.take();
    let mut moved: Vec<Owner> =
        bench.written.iter().map(|&block| bench.volume.owners[block as usize]).collect();
    let mut expected = live;
    moved.sort_unstable_by_key(|owner| (owner.file, owner.place));
    expected.sort_unstable_by_key(|owner| (owner.file, owner.place));
    assert_eq!(moved, expected, "and nothing else is written before the checkpoint");
    bench.volume.settle(&mut bench.queue);
    assert_eq!(bench.volume.segments[victim as usize].state, State::Free);
    bench.check_all();
}

#[test]
fn a_full_volume_goes_on_in_every_mode() {
    for threaded in [false, true] {
        for background in [0, 4] {
            let mut bench = Bench::new(Settings { threaded, background, ..SETTINGS });
            bench.run(12_000, 4_000, 11);
            bench.volume.settle(&mut bench.queue);
            bench.check_all();
            let used = bench.volume.valid * 100 / bench.volume.layout.user_blocks;
            assert!(used > 85, "{used} %");
        }
    }
}

#[test]
fn a_short_sync_overwrites_in_place_and_a_long_one_does_not() {
    let mut bench = Bench::new(SETTINGS);
    assert!(bench.volume.write(&mut bench.queue, 7, 0..32, false));
    bench.volume.settle(&mut bench.queue);
    let at = bench.volume.inodes[7].pages.clone();
    assert!(bench.volume.write(&mut bench.queue, 7, 3..11, true));
    assert_eq!(bench.volume.inodes[7].pages, at);
    assert!(bench.volume.write(&mut bench.queue, 7, 3..12, true));
    assert!((3..12).all(|page| bench.volume.inodes[7].pages[page] != at[page]));
}

#[test]
fn segments_are_trimmed_when_a_checkpoint_frees_them() {
    let mut bench = Bench::new(SETTINGS);
    for file in 0..64 {
        assert!(bench.volume.write(&mut bench.queue, file, 0..32, false));
    }
    bench.volume.settle(&mut bench.queue);
    for file in 0..64 {
        bench.volume.delete(&mut bench.queue, file);
    }
    bench.take();
    assert!(bench.trimmed.is_empty());
    bench.volume.settle(&mut bench.queue);
    bench.take();
    let whole: BTreeSet<u32> = bench.trimmed.iter().map(|block| block / SEGMENT).collect();
    assert_eq!(bench.trimmed.len(), whole.len() * SEGMENT as usize);
    assert!(
        whole.len() >= 3 && whole.iter().all(|&at| bench.volume.segments[at as usize].state == State::Free)
    );
}

#[test]
fn nodes_of_a_large_file() {
    assert_eq!([0, 922, 923, 1940, 1941, 2958].map(node_of), [0, 0, 1, 1, 2, 2]);
    assert_eq!((node_of(2959), indirect_of(4), is_indirect(3)), (4, Some(3), true));
    assert_eq!((indirect_of(3), indirect_of(2), is_indirect(4)), (None, None, false));
    let last = node_of(2959 + NODE_POINTERS * NODE_POINTERS);
    assert_eq!((last, indirect_of(last)), (3 + NODE_POINTERS + 2, Some(3 + NODE_POINTERS + 1)));
}

#[test]
fn the_layout_fills_the_device() {
    for device in [DEVICE, 1 << 30, 30 << 30] {
        let layout = Layout::new(device);
        assert_eq!(u64::from(layout.main + layout.segments * SEGMENT) * PAGE, device);
        assert!(layout.user_blocks < layout.segments * SEGMENT && layout.reserved >= 8);
    }
    let layout = Layout::new(30 << 30);
    let share = f64::from(layout.user_blocks) * PAGE as f64 / (30_u64 << 30) as f64;
    assert!((0.95..0.98).contains(&share), "{share}");
}
