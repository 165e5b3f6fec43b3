//! The cache's counts and lists against its nodes.

use super::{identifier_bytes, Cache, Lpn};
use crate::bits;
use crate::breach::Breach;

impl Cache {
    /// Checks counts and lists against the nodes; one sentence for the first breach.
    pub fn check(&self) -> Result<(), Breach> {
        let present = self.nodes.iter().filter(|node| node.is_present).count();
        let listed = self.used.iter(&self.used_places).take(present + 1).count();
        if (present, listed) != (self.used.len() as usize, present) {
            return Err(format!(
                "{present} TP nodes are there, {listed} listed and {} counted",
                self.used.len()
            )
            .into());
        }
        let (mut models, mut identifiers, mut trained, mut points) = (0, 0, 0, 0);
        let (mut dirty, mut logs, mut dirty_nodes, mut clean) = (0, 0, 0, 0);
        for (chunk, node) in (0..).zip(&self.nodes) {
            let (first, end) = self.lpns_of(chunk);
            let mut counts = [0; 3];
            let mut from = first;
            while let Some(lpn) = self.points.next_present(from, end) {
                from = Lpn(lpn.0 + 1);
                if let Some(entry) = self.point(lpn) {
                    counts[usize::from(entry.is_dirty()) + usize::from(Self::is_log(entry))] += 1;
                }
            }
            self.check_lists(chunk)?;
            clean += u32::from(node.has_clean);
            let lists = [self.list(node.trained).count() as u32, self.heads.count(&node.head)];
            let models_counted = [node.trained_count, node.head.count].map(u32::from);
            if counts != [node.clean.len(), node.dirty.into(), node.logs.into()] || lists != models_counted {
                return Err(format!(
                    "chunk {chunk} has {counts:?} clean, outlier and log mappings and {lists:?} models, but counts {:?} and {:?}",
                    [node.clean.len(), node.dirty.into(), node.logs.into()],
                    models_counted
                ).into());
            }
            if !node.is_present && (node.is_dirty() || node.has_identifier || counts[0] > 0) {
                return Err(format!("chunk {chunk} has no TP node but mappings").into());
            }
            models += u64::from(lists[0] + lists[1]);
            trained += u64::from(lists[0]);
            identifiers +=
                if node.has_identifier { identifier_bytes(node.outliers.into(), self.lpas) } else { 0 };
            points += u64::from(counts.iter().sum::<u32>());
            dirty += u64::from(node.dirty);
            logs += u64::from(node.logs);
            dirty_nodes += u32::from(node.is_dirty());
        }
        let listed = self.clean.iter(&self.clean_places).take(clean as usize + 1).count();
        if (clean, listed) != (self.clean.len(), clean as usize) {
            return Err(format!("{clean} TP nodes have something clean, {listed} are listed").into());
        }
        let found = (models, identifiers, trained, points, dirty, logs, dirty_nodes);
        let counted = (
            self.models,
            self.identifiers,
            self.trained,
            self.points.len() as u64,
            self.dirty_points,
            self.logs,
            self.dirty_nodes,
        );
        if found != counted {
            return Err(format!("the cache holds {found:?} but counts {counted:?}").into());
        }
        Ok(())
    }

    /// A chunk's log mappings have their bits, and it is listed if it has something clean.
    fn check_lists(&self, chunk: u32) -> Result<(), Breach> {
        let (node, (first, end)) = (&self.nodes[chunk as usize], self.lpns_of(chunk));
        let logged = (first.0..end.0).filter(|&lpn| bits::has(&self.log_bits, lpn)).count() as u32;
        let has_clean = node.has_identifier || !node.clean.is_empty();
        if (logged, has_clean) != (node.logs.into(), node.has_clean) {
            return Err(format!(
                "chunk {chunk} has {logged} bits for {} log mappings, and something clean: {has_clean}, listed: {}",
                node.logs, node.has_clean
            )
            .into());
        }
        Ok(())
    }
}
