//! Operations as the array itself counts them, to set beside what an FTL counts at its door.

use serde::Serialize;

/// Operations counted at the array, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpCounts {
    /// Page reads by [`crate::Class`]. Scans count as collection reads.
    pub reads: [u64; 5],
    /// Page programs by [`crate::Class`].
    pub programs: [u64; 5],
    /// Block erases by [`crate::Class`] (always [`crate::Class::Erase`]).
    pub erases: [u64; 5],
}

impl OpCounts {
    /// Page reads of all classes, scans and failed ones included.
    pub fn total_reads(&self) -> u64 {
        self.reads.iter().sum()
    }

    /// Page programs of all classes, failed ones included.
    pub fn total_programs(&self) -> u64 {
        self.programs.iter().sum()
    }

    /// Block erases, failed ones included.
    pub fn total_erases(&self) -> u64 {
        self.erases.iter().sum()
    }

    /// What was counted since `earlier`, an earlier reading of the same counters.
    pub fn since(&self, earlier: &OpCounts) -> OpCounts {
        let minus = |a: [u64; 5], b: [u64; 5]| std::array::from_fn(|i| a[i] - b[i]);
        OpCounts {
            reads: minus(self.reads, earlier.reads),
            programs: minus(self.programs, earlier.programs),
            erases: minus(self.erases, earlier.erases),
        }
    }
}
