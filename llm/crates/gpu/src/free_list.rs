//! Memory that was freed and is kept for the next request, where the driver does not do that itself.

use std::collections::BTreeMap;

/// Free blocks by size.
#[derive(Debug, Default)]
pub(super) struct FreeList {
    blocks: BTreeMap<u64, Vec<u64>>,
    bytes: u64,
}

impl FreeList {
    /// A block may be larger than asked for by this part of itself.
    const WASTE: u64 = 8;

    /// The smallest block of at least `bytes`, with its size, unless too much of it would lie idle.
    pub(super) fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let (&size, addresses) = self.blocks.range_mut(bytes..).next()?;
        if size - bytes > size / Self::WASTE {
            return None;
        }
        let address = addresses.pop()?;
        if addresses.is_empty() {
            self.blocks.remove(&size);
        }
        self.bytes -= size;
        Some((address, size))
    }

    /// Keeps a block.
    pub(super) fn give(&mut self, address: u64, size: u64) {
        self.blocks.entry(size).or_default().push(address);
        self.bytes += size;
    }

    /// All blocks, to be given back to the driver.
    pub(super) fn drain(&mut self) -> Vec<u64> {
        self.bytes = 0;
        std::mem::take(&mut self.blocks).into_values().flatten().collect()
    }

    /// Bytes kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_used_again_unless_it_is_much_too_large() {
        let mut list = FreeList::default();
        list.give(1, 1024);
        list.give(2, 1024);
        list.give(3, 1152);
        assert_eq!(list.bytes(), 3200);
        assert_eq!(list.take(1100), Some((3, 1152)));
        assert_eq!(list.take(800), None, "a fifth of 1024 would lie idle");
        assert_eq!(list.take(1025), None);
        assert_eq!(list.take(1024), Some((2, 1024)));
        assert_eq!((list.bytes(), list.drain()), (1024, vec![1]));
        assert_eq!((list.bytes(), list.take(1024)), (0, None));
    }
}
