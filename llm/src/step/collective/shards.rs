//! How a batch is cut into shards, and which worker owns which.

use std::ops::Range;

use super::CollectiveError;

/// `S` shards of a batch over `N` workers, both powers of two, `N <= S`.
///
/// Of `R` rows, shard `s` holds `floor(s R / S) .. floor((s+1) R / S)`: consecutive, at most one row apart in size, some empty
/// where `R < S`, and none of it dependent on `N`. Worker `r` owns shards `r S/N .. (r+1) S/N`: a complete subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    shards: usize,
    workers: usize,
}

impl Shards {
    /// A cut into `shards` for `workers`.
    ///
    /// # Errors
    /// [`CollectiveError::Workers`] and [`CollectiveError::Shards`].
    pub fn new(shards: usize, workers: usize) -> Result<Self, CollectiveError> {
        if !workers.is_power_of_two() {
            return Err(CollectiveError::Workers(workers));
        }
        if !shards.is_power_of_two() || shards < workers {
            return Err(CollectiveError::Shards { shards, workers });
        }
        Ok(Shards { shards, workers })
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.shards
    }

    /// The shards of a worker.
    pub fn of(self, rank: usize) -> Range<usize> {
        let each = self.shards / self.workers;
        rank * each..(rank + 1) * each
    }

    /// The rows of a shard, of `rows` in all.
    pub fn rows(self, shard: usize, rows: usize) -> Range<usize> {
        cut(shard, rows, self.shards)..cut(shard + 1, rows, self.shards)
    }

    /// The rows of a worker: those of its shards.
    pub fn rows_of(self, rank: usize, rows: usize) -> Range<usize> {
        let own = self.of(rank);
        cut(own.start, rows, self.shards)..cut(own.end, rows, self.shards)
    }
}

/// `floor(part whole / parts)`, without overflow.
fn cut(part: usize, whole: usize, parts: usize) -> usize {
    (part as u128 * whole as u128 / parts as u128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every row is in one shard and with one worker, in order, and the cut does not know the workers.
        #[test]
        fn shards_partition_rows_in_order_whoever_works(rows in 0usize..200, s in 0u32..7, n in 0u32..7) {
            let (shards, workers) = (1 << s.max(n), 1 << n);
            let cut = Shards::new(shards, workers).expect("powers of two");
            let alone = Shards::new(shards, 1).expect("powers of two");
            let mut next = 0;
            for rank in 0..workers {
                prop_assert_eq!(cut.rows_of(rank, rows).start, next);
                for shard in cut.of(rank) {
                    let own = cut.rows(shard, rows);
                    prop_assert_eq!(&own, &alone.rows(shard, rows));
                    prop_assert_eq!(own.start, next);
                    prop_assert!(own.len() == rows / shards || own.len() == rows.div_ceil(shards));
                    next = own.end;
                }
                prop_assert_eq!(cut.rows_of(rank, rows).end, next);
            }
            prop_assert_eq!(next, rows);
        }
    }

    #[test]
    fn cuts_without_a_complete_tree_are_refused() {
        for workers in [0, 3, 6, 12] {
            assert_eq!(Shards::new(16, workers), Err(CollectiveError::Workers(workers)));
        }
        for (shards, workers) in [(0, 1), (3, 1), (12, 4), (2, 4)] {
            assert_eq!(Shards::new(shards, workers), Err(CollectiveError::Shards { shards, workers }));
        }
    }
}
