//! Levels against a reference map.

use super::super::segment::learn;
use super::*;
use proptest::prelude::*;

const GAMMA: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Write these offsets to consecutive pages, with a gap after some.
    Write(Vec<u8>, u32),
    Trim(u8, u8),
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let some = prop_oneof![prop::collection::vec(any::<u8>(), 1..30), prop::collection::vec(any::<u8>(), 1),];
    let run = (any::<u8>(), 1u8..200, 1u8..9).prop_map(|(first, count, stride)| {
        (0..u16::from(count))
            .map(|i| u16::from(first) + i * u16::from(stride))
            .map_while(|x| u8::try_from(x).ok())
            .collect()
    });
    let gap = prop_oneof![3 => Just(0u32), 1 => 1u32..6];
    prop_oneof![
        8 => (prop_oneof![some, run], gap).prop_map(|(offsets, gap)| Step::Write(offsets, gap)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::Trim(a.min(b), a.max(b))),
        1 => Just(Step::Compact),
    ]
}

/// Learns and inserts offsets, sorted, at the next pages; returns where they went.
fn write_to(group: &mut Group, offsets: &[u8], gap: u32, next: &mut u32, reach: Reach) -> Vec<(u8, u32)> {
    let mut offsets = offsets.to_vec();
    offsets.sort_unstable();
    offsets.dedup();
    let mut points = Vec::new();
    for (i, &offset) in offsets.iter().enumerate() {
        points.push((offset, *next));
        *next += 1 + if i % 5 == 4 { gap } else { 0 };
    }
    let (mut pieces, mut from) = (Vec::new(), 0);
    learn(
        &points,
        GAMMA,
        |_, _| true,
        |segment, count| {
            pieces.push(Piece::new(segment, points[from..from + count].iter().map(|p| p.0).collect()));
            from += count;
        },
    );
    let mut other = group.clone();
    other.insert_without_gaps(&pieces, reach);
    group.insert(&pieces, reach);
    assert!(group.pieces().eq(other.pieces()), "into a gap or not, the group is the same");
    points
}

fn write(group: &mut Group, offsets: &[u8], gap: u32, next: &mut u32) -> Vec<(u8, u32)> {
    write_to(group, offsets, gap, next, Reach::Top)
}

fn check(group: &Group) {
    for level in group.pieces().collect::<Vec<_>>().chunk_by(|a, b| a.level == b.level) {
        for pair in level.windows(2) {
            assert!(pair[0].segment.last() < pair[1].segment.start, "ranges of a level are disjoint");
        }
    }
    let mut listed = Set::default();
    for piece in group.pieces() {
        assert!(!piece.members.is_empty());
        assert_eq!(
            (piece.segment.start, piece.segment.last()),
            (piece.members.first(), piece.members.last())
        );
        if piece.segment.slope.is_approximate() {
            assert!(listed.and(piece.members).is_empty(), "an LPN is in one list of the CRB only");
            listed = listed.with(piece.members);
        }
    }
}

proptest! {
    #[test]
    fn a_group_answers_as_a_map(steps in prop::collection::vec(step(), 1..60), all in any::<bool>()) {
        let reach = if all { Reach::All } else { Reach::Top };
        let mut group = Group::default();
        let mut map: [Option<u32>; 256] = [None; 256];
        let mut next = 5;
        for step in steps {
            match step {
                Step::Write(offsets, gap) => {
                    for (offset, ppn) in write_to(&mut group, &offsets, gap, &mut next, reach) {
                        map[usize::from(offset)] = Some(ppn);
                    }
                }
                Step::Trim(first, last) => {
                    group.trim(first, last);
                    map[usize::from(first)..=usize::from(last)].fill(None);
                }
                Step::Compact => {
                    group.compact();
                    prop_assert!(group.packed_bytes() <= most_bytes(256));
                    let mapped = map.iter().flatten().count();
                    let hidden = group.pieces().filter(|piece| piece.is_nowhere()).count();
                    prop_assert!(group.segments() - hidden <= mapped);
                }
            }
            check(&group);
            let mut bytes = Vec::new();
            group.pack(&mut bytes);
            prop_assert_eq!(bytes.len(), group.packed_bytes());
            let mut again = Group::default();
            again.unpack(&bytes);
            prop_assert!(again.pieces().eq(group.pieces()));
            for offset in 0..=255u8 {
                let (answer, levels) = find(&bytes, offset);
                prop_assert!(levels <= group.levels());
                match (answer, map[usize::from(offset)]) {
                    (None, None) => {}
                    (Some(answer), Some(ppn)) if answer.exact => prop_assert_eq!(answer.ppn, ppn),
                    (Some(answer), Some(ppn)) => prop_assert!(answer.ppn.abs_diff(ppn) <= GAMMA),
                    (answer, truth) => prop_assert!(false, "offset {}: {:?}, not {:?}", offset, answer, truth),
                }
            }
        }
    }
}

#[test]
fn an_old_segment_moves_one_level_down_and_compaction_brings_it_up_again() {
    let mut group = Group::default();
    let mut next = 100;
    let all: Vec<u8> = (0..=255).collect();
    write(&mut group, &all, 0, &mut next);
    write(&mut group, &[10, 12], 0, &mut next);
    assert_eq!(group.levels(), 2, "the old segment overlaps the new one");
    write(&mut group, &[20, 22], 0, &mut next);
    assert_eq!(group.levels(), 2, "the new ones do not overlap each other");
    write(&mut group, &[11, 21], 0, &mut next);
    assert_eq!(group.levels(), 3, "they overlap the oldest, which stays below them");
    write(&mut group, &all, 0, &mut next);
    assert_eq!(group.levels(), 3, "members below the top are not taken out");
    group.compact();
    assert_eq!((group.levels(), group.segments(), group.packed_bytes()), (1, 1, 10));
}

#[test]
fn members_may_be_taken_out_of_all_levels() {
    let (mut top, mut all) = (Group::default(), Group::default());
    let mut next = 100;
    for offsets in [&[10u8, 20, 30][..], &[5, 15, 27], &[8, 40], &[10, 20, 30]] {
        let offsets: Vec<u8> = offsets.to_vec();
        write_to(&mut top, &offsets, 0, &mut next.clone(), Reach::Top);
        write_to(&mut all, &offsets, 0, &mut next, Reach::All);
    }
    assert_eq!((top.segments(), all.segments()), (5, 4), "the first is wholly overwritten");
    top.compact();
    assert_eq!(top.segments(), 4);
}

#[test]
fn sets_of_ranges() {
    for (first, last) in [(0, 255), (0, 0), (255, 255), (63, 64), (10, 200), (128, 191)] {
        assert_eq!(Set::range(first, last), (first..=last).collect());
    }
}

#[test]
fn the_end_of_one_batch_and_the_begin_of_the_next_become_one_segment() {
    let mut group = Group::default();
    let mut next = 7;
    write(&mut group, &(0..100).collect::<Vec<u8>>(), 0, &mut next);
    write(&mut group, &(100..=255).collect::<Vec<u8>>(), 0, &mut next);
    assert_eq!(group.segments(), 2);
    group.compact();
    assert_eq!((group.segments(), group.pieces().next().expect("one segment").segment.length), (1, 255));
}

#[test]
fn a_trim_inside_a_stride_hides_what_it_claims() {
    let mut group = Group::default();
    let mut next = 7;
    write(&mut group, &(0..=255).collect::<Vec<u8>>(), 0, &mut next);
    group.trim(250, 255);
    assert_eq!(group.segments(), 1, "the end is cut off");
    group.trim(100, 110);
    assert_eq!(group.segments(), 2, "the middle is hidden");
    group.trim(0, 255);
    assert_eq!(group.packed_bytes(), 0);
}
