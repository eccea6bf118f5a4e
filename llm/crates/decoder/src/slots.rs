//! The scheduler of every sampler: the responses of a request that are decoded, and those that wait.
//!
//! The queue of a request holds its responses in order: all of the first prompt, then all of the second. A slot holds the response that is
//! decoded in it; when it ends, the next of the queue takes the slot. At any time at most one prompt has both responses that started and
//! responses that wait.

use std::ops::Range;

/// The slots of a request and its queue.
#[derive(Clone, Debug)]
pub struct Slots {
    held: Vec<Option<usize>>,
    waiting: Range<usize>,
}

impl Slots {
    /// Slots for `responses` responses, at most `at_a_time` of them at a time, at least one; `None` for all at once.
    pub fn new(responses: usize, at_a_time: Option<usize>) -> Self {
        Slots { held: vec![None; count(responses, at_a_time)], waiting: 0..responses }
    }

    /// Number of slots.
    pub fn count(&self) -> usize {
        self.held.len()
    }

    /// Gives each free slot, the first first, the next waiting response: the slots with their new responses.
    pub fn fill(&mut self) -> Vec<(usize, usize)> {
        let free = self.held.iter_mut().enumerate().filter(|(_, held)| held.is_none());
        let started: Vec<(usize, usize)> = free.map(|(slot, _)| slot).zip(&mut self.waiting).collect();
        started.iter().for_each(|&(slot, response)| self.held[slot] = Some(response));
        started
    }

    /// Frees a slot, whose response ended.
    ///
    /// # Panics
    /// When it is free.
    pub fn free(&mut self, slot: usize) {
        assert!(self.held[slot].take().is_some(), "slot {slot} is free");
    }

    /// The slots in use with their responses, by slot.
    pub fn running(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.held.iter().enumerate().filter_map(|(slot, held)| held.map(|response| (slot, response)))
    }

    /// The responses that have not started.
    pub fn waiting(&self) -> Range<usize> {
        self.waiting.clone()
    }
}

/// Slots of a request of so many responses.
pub fn count(responses: usize, at_a_time: Option<usize>) -> usize {
    at_a_time.unwrap_or(responses).max(1).min(responses)
}

/// The most pages of `page` tokens that are in use at a time when `group` responses to each of `prompts`, (tokens, length limit of a
/// response), are decoded in so many slots. A prompt's full pages are shared by its responses, and its last partial one is copied.
///
/// Whichever responses run together, they need no more: the first of a prompt costs the prompt's full pages and its own, the others their
/// own, and this is the sum of the largest costs, one for each slot. While some of a prompt's responses wait, its partial page is kept for
/// them, which is one page more.
pub fn most_pages(
    prompts: impl Iterator<Item = (usize, usize)>,
    group: usize,
    at_a_time: Option<usize>,
    page: usize,
) -> usize {
    // Costs with how many responses have them: a step may ask for more responses than could be listed.
    let (mut costs, mut partial) = (Vec::new(), false);
    for (tokens, limit) in prompts {
        let shared = tokens / page;
        let own = (tokens + limit).div_ceil(page) - shared;
        costs.extend([(shared + own, group.min(1)), (own, group.saturating_sub(1))]);
        partial |= !tokens.is_multiple_of(page);
    }
    let responses = costs.iter().map(|(_, how_many)| how_many).sum();
    let mut free = count(responses, at_a_time);
    let kept = usize::from(partial && group > 1 && free < responses);
    costs.sort_unstable_by(|a, b| b.cmp(a));
    let mut pages = kept;
    for (cost, how_many) in costs {
        let running = free.min(how_many);
        pages += cost * running;
        free -= running;
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_start_in_order_and_never_more_than_there_are_slots() {
        let mut slots = Slots::new(5, Some(2));
        assert_eq!(slots.fill(), [(0, 0), (1, 1)]);
        assert_eq!((slots.fill(), slots.waiting()), (vec![], 2..5));
        slots.free(1);
        assert_eq!(slots.fill(), [(1, 2)]);
        assert_eq!(slots.running().collect::<Vec<_>>(), [(0, 0), (1, 2)]);
        slots.free(0);
        slots.free(1);
        assert_eq!((slots.fill(), slots.waiting()), (vec![(0, 3), (1, 4)], 5..5));
        slots.free(0);
        assert_eq!((slots.fill(), slots.running().collect::<Vec<_>>()), (vec![], vec![(1, 4)]));
        assert_eq!([None, Some(0), Some(9)].map(|n| Slots::new(3, n).count()), [3, 1, 3]);
        assert_eq!(Slots::new(0, Some(4)).fill(), []);
    }

    /// Rows end in a pseudo-random order; everyone has a turn, in the order of the queue.
    #[test]
    fn every_response_has_one_turn() {
        for n in 1..8 {
            let (mut slots, mut started, mut state) = (Slots::new(23, Some(n)), Vec::new(), 7usize);
            loop {
                started.extend(slots.fill().into_iter().map(|(_, response)| response));
                let running: Vec<usize> = slots.running().map(|(slot, _)| slot).collect();
                assert!(running.len() <= n && (running.len() == n || slots.waiting().is_empty()));
                if running.is_empty() {
                    break;
                }
                state = (state * 29 + 11) % 8191;
                slots.free(running[state % running.len()]);
            }
            assert_eq!(started, (0..23).collect::<Vec<_>>());
        }
    }

    /// The most over all sets of responses that may run together, page by page.
    #[test]
    fn pages_are_those_of_the_costliest_responses() {
        let prompts = [(7usize, 20usize), (32, 4), (70, 1), (64, 40)];
        for (group, at_a_time) in [(1, 1), (1, 3), (2, 3), (3, 5), (2, 8), (3, 12)] {
            let all = prompts.len() * group;
            let mut most = 0;
            for set in (0u32..1 << all).filter(|set| set.count_ones() as usize == at_a_time.min(all)) {
                let mut pages = 0;
                for (prompt, &(tokens, limit)) in prompts.iter().enumerate() {
                    let running = (0..group).filter(|r| set >> (prompt * group + r) & 1 == 1).count();
                    let own = (tokens + limit).div_ceil(32) - tokens / 32;
                    pages += running * own + if running > 0 { tokens / 32 } else { 0 };
                }
                most = most.max(pages);
            }
            most += usize::from(group > 1 && at_a_time < all);
            assert_eq!(most_pages(prompts.into_iter(), group, Some(at_a_time), 32), most);
        }
        // By hand: 2 prompts of 70 tokens, 4 responses of 60: 2 shared pages and 3 of each response's own, everything at once.
        assert_eq!(most_pages([(70, 60); 2].into_iter(), 4, None, 32), 2 * (2 + 4 * 3));
        assert_eq!(most_pages(std::iter::empty(), 4, None, 32), 0);
        // More responses than could be listed: 2^20 prompts of 64 tokens, 2^20 responses of 32 each.
        let many = std::iter::repeat_n((64, 32), 1 << 20);
        assert_eq!(most_pages(many.clone(), 1 << 20, None, 32), (1 << 20) * (2 + (1 << 20)));
        assert_eq!(most_pages(many, 1 << 20, Some(1 << 20), 32), (1 << 20) * 3);
    }
}
