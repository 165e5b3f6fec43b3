//! Random legal operations, against a model that is nothing but maps.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Default)]
struct ModelBlock {
    erases: u32,
    kind: Option<PageKind>,
    epoch: u32,
    /// OOB (`None`: torn) and content of each programmed page.
    pages: Vec<(Option<Oob>, Vec<u8>)>,
    bad: bool,
}

/// What the array should hold, with a content for every page that was ever given one.
struct Model {
    keep_stale: bool,
    blocks: BTreeMap<u32, ModelBlock>,
    version: u64,
    epoch: u32,
}

/// One step: what, where and with what, to be bent to what is legal.
type Step = (u8, u32, u32, Vec<u8>, Vec<(u32, u32)>);

impl Model {
    fn metadata(&self) -> Vec<(u32, u32)> {
        let readable = |(block, page): &(u32, u32)| {
            let (oob, content) = &self.blocks[block].pages[*page as usize];
            oob.is_some_and(|oob| oob.kind != PageKind::Data) && !content.is_empty()
        };
        let all =
            self.blocks.iter().flat_map(|(&b, state)| (0..state.pages.len() as u32).map(move |p| (b, p)));
        all.filter(readable).collect()
    }

    /// Programs the next page of block `b`, if there is one.
    fn program(
        &mut self,
        nand: &mut SimNand<NoClock>,
        b: u32,
        pick: u32,
        bytes: &[u8],
        changes: &[(u32, u32)],
    ) {
        let block = &self.blocks[&b];
        let page = block.pages.len() as u32;
        if block.bad || page == 4 {
            return;
        }
        let ppn = at(nand, b, page);
        let kind = block.kind.unwrap_or(match pick % 3 {
            0 => PageKind::Data,
            1 => PageKind::Translation,
            _ => PageKind::Metadata,
        });
        if block.kind.is_none() {
            self.epoch += 1;
        }
        let epoch = if block.kind.is_none() { self.epoch } else { block.epoch };
        self.version += 1 + u64::from(pick / 2); // up to 39 bits in 150 steps
        let mut oob = Oob { kind, id: pick, version: self.version, epoch, lost: false };
        let sources: Vec<(u32, u32)> = self
            .metadata()
            .into_iter()
            .filter(|&(b, p)| self.blocks[&b].pages[p as usize].0.is_some_and(|o| o.kind == kind))
            .collect();
        let source = sources.get(pick as usize % sources.len().max(1)).copied();
        let (from, content) = match (kind, source) {
            (PageKind::Data, _) => (Source::Host, Vec::new()),
            (_, Some((sb, sp))) if !pick.is_multiple_of(4) => {
                let (from, patch) = (at(nand, sb, sp), pick % 4 == 1);
                let old = &mut self.blocks.get_mut(&sb).unwrap().pages[sp as usize];
                let found = old.0.unwrap();
                let mut content = old.1.clone();
                if !self.keep_stale {
                    old.1.clear();
                }
                oob.id = found.id;
                if patch {
                    for &(word, value) in changes {
                        content[4 * word as usize..][..4].copy_from_slice(&value.to_le_bytes());
                    }
                    (Source::Patch(from, changes), content)
                } else {
                    oob.version = found.version;
                    (Source::Page(from), content)
                }
            }
            _ => {
                let mut content = bytes.to_vec();
                content.resize(512, 0);
                (Source::Metadata(bytes), content)
            }
        };
        nand.program(ppn, oob, WRITE, from, NOW).unwrap();
        let block = self.blocks.get_mut(&b).unwrap();
        (block.kind, block.epoch) = (Some(kind), epoch);
        block.pages.push((Some(oob), content));
    }

    fn step(&mut self, nand: &mut SimNand<NoClock>, (what, b, pick, bytes, changes): &Step) {
        let block = self.blocks.get_mut(b).unwrap();
        match what {
            0 if !block.bad => {
                nand.erase(Pbn(*b), NOW).unwrap();
                *block = ModelBlock { erases: block.erases + 1, ..ModelBlock::default() };
            }
            1 if !block.bad && block.pages.len() < 4 => {
                nand.torn(at(nand, *b, block.pages.len() as u32));
                block.pages.push((None, Vec::new()));
            }
            2 if !block.bad && pick % 4 == 0 => {
                nand.torn_block(Pbn(*b));
                block.pages = vec![(None, Vec::new()); 4];
            }
            3 if pick % 16 == 0 => {
                nand.retire(Pbn(*b));
                block.bad = true;
            }
            _ => self.program(nand, *b, *pick, bytes, changes),
        }
    }

    fn compare(&self, nand: &mut SimNand<NoClock>) -> Result<(), TestCaseError> {
        let mut content = Vec::new();
        for (&b, block) in &self.blocks {
            prop_assert_eq!(nand.is_bad(Pbn(b)), block.bad);
            prop_assert_eq!(nand.written(Pbn(b)), block.pages.len() as u32);
            prop_assert_eq!(nand.erases_of(Pbn(b)), block.erases);
            for p in 0..4 {
                let ppn = at(nand, b, p);
                let Some((oob, expected)) = block.pages.get(p as usize) else {
                    prop_assert_eq!(nand.scan(ppn, NOW).unwrap().0, None);
                    continue;
                };
                prop_assert_eq!(nand.peek(ppn), *oob);
                prop_assert_eq!(nand.scan(ppn, NOW).is_ok(), oob.is_some());
                let read = nand.read(ppn, Class::HostRead, Sink::Controller, NOW).ok().map(|(oob, _)| oob);
                prop_assert_eq!(read, *oob);
                let metadata = oob.is_some_and(|oob| oob.kind != PageKind::Data);
                if metadata && !expected.is_empty() {
                    prop_assert_eq!(nand.buffer(), &expected[..]);
                }
                let inspected = nand.inspect(ppn, &mut content);
                prop_assert_eq!(inspected, oob.filter(|_| !metadata || !expected.is_empty()));
                prop_assert_eq!(&content, expected);
            }
        }
        Ok(())
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..=512);
    let changes = prop::collection::vec((0u32..128, any::<u32>()), 0..4);
    prop::collection::vec((0u8..24, 0u32..24, any::<u32>(), bytes, changes), 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_array_holds_what_a_map_holds(steps in steps(), keep_stale in any::<bool>()) {
        let options = SimOptions { keep_stale, ..SimOptions::default() };
        let mut nand = SimNand::new(&small(), NoClock::new(), options);
        let mut model = Model {
            keep_stale,
            blocks: (0..24).map(|b| (b, ModelBlock::default())).collect(),
            version: 0,
            epoch: 0,
        };
        let mut copy = nand.clone();
        for (n, step) in steps.iter().enumerate() {
            model.step(&mut nand, step);
            if n % 16 == 0 {
                model.compare(&mut nand)?;
                copy.clone_from(&nand);
                model.compare(&mut copy)?;
            }
        }
        model.compare(&mut nand)?;
        prop_assert_eq!(nand.metadata_buffers().0, model.metadata().len());
    }
}
