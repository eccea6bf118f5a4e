//! The blocks of a product, from the caches of this processor. They change no bit: the next block continues a product's chains of sums.

use std::path::Path;
use std::sync::OnceLock;

use super::simd::{self, MR, NR};

/// Bytes of a number: products of `f64` are for checks alone.
const NUMBER: usize = 4;

/// The block of a product that is computed before the next: at most so many rows and steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Rows of the left side, which stay in a cache while the panels pass.
    pub(super) rows: usize,
    /// Steps of a panel, which stays in a cache while the rows pass.
    pub(super) steps: usize,
}

impl Blocks {
    /// The blocks of this processor.
    pub(super) fn here() -> Self {
        static BLOCKS: OnceLock<Blocks> = OnceLock::new();
        *BLOCKS.get_or_init(|| {
            let cache = |level| cache(Path::new("/sys/devices/system/cpu/cpu0/cache"), level);
            // The minimum of most processors of the last ten years.
            Blocks::new(cache(1).unwrap_or(32 << 10), cache(2).unwrap_or(512 << 10), simd::has_three_rows())
        })
    }

    /// Blocks for caches of so many bytes: a panel takes two thirds of the first level, rows take half of the second.
    /// Tiles of three rows wait for their multiply-adds and not for a panel in the second level: with longer steps,
    /// which read the result less often, they are faster.
    fn new(first: usize, second: usize, three_rows: bool) -> Self {
        let (panel, block) = if three_rows { (first * 5 / 2, second) } else { (first * 2 / 3, second / 2) };
        let steps = (panel / (NR * NUMBER) / 32 * 32).clamp(64, if three_rows { 640 } else { 512 });
        let rows = (block / (steps * NUMBER) / MR * MR).clamp(96, 1536);
        Blocks { rows, steps }
    }

    /// These blocks for a product of `m` rows and `k` steps, cut into parts of about the same size, with whole tiles.
    pub(super) fn even(self, m: usize, k: usize) -> Self {
        let part = |whole: usize, most: usize| whole.div_ceil(whole.div_ceil(most));
        Blocks { rows: part(m, self.rows).next_multiple_of(MR), steps: part(k, self.steps) }
    }
}

/// Bytes of the data cache of this level, where the system tells (Linux does).
fn cache(directory: &Path, level: usize) -> Option<usize> {
    (0..8).find_map(|index| {
        let read = |name: &str| {
            let text = std::fs::read_to_string(directory.join(format!("index{index}")).join(name)).ok()?;
            Some(text.trim().to_owned())
        };
        let holds_data = read("type")? != "Instruction" && read("level")? == level.to_string();
        holds_data.then(|| read("size")?.strip_suffix('K')?.parse::<usize>().ok().map(|k| k << 10)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_the_caches() {
        for (first, second, three_rows, rows, steps) in [
            (48 << 10, 1 << 20, false, 504, 256),
            (48 << 10, 2 << 20, false, 1020, 256),
            (32 << 10, 256 << 10, false, 204, 160),
            (32 << 10, 512 << 10, true, 204, 640),
            (128 << 10, 16 << 20, false, 1536, 512),
            (0, 0, false, 96, 64),
        ] {
            let found = Blocks::new(first, second, three_rows);
            assert_eq!(found, Blocks { rows, steps }, "{first} and {second} bytes");
        }
    }

    #[test]
    fn a_product_is_cut_evenly() {
        let most = Blocks { rows: 204, steps: 640 };
        assert_eq!(most.even(2688, 576), Blocks { rows: 192, steps: 576 });
        assert_eq!(most.even(205, 1536), Blocks { rows: 108, steps: 512 });
        assert_eq!(most.even(1, 1), Blocks { rows: 12, steps: 1 });
    }

    #[test]
    fn caches_are_read_as_linux_writes_them() {
        let directory = tempfile::tempdir().unwrap();
        for (index, (level, kind, size)) in
            [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K")].iter().enumerate()
        {
            let cache = directory.path().join(format!("index{index}"));
            std::fs::create_dir(&cache).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(cache.join(name), format!("{text}\n")).unwrap();
            }
        }
        let found = [1, 2, 3].map(|level| cache(directory.path(), level));
        assert_eq!(found, [Some(48 << 10), Some(1 << 20), None]);
    }
}
