//! The pages of the KV cache and their rows, and the work of the device when responses start.
//!
//! A row gets the pages of its prompt and its length limit when its response starts, and keeps them until the next response takes its slot:
//! no step asks for a page. A pool of [`SamplingRequest::pages`] pages therefore never runs dry.
//!
//! A prompt's full pages are shared by its responses, which only read them. The partial page after them is each response's own. Where
//! responses of a prompt wait while others run, the prompt keeps its pages in a line of the table of its own, with a partial page that
//! nobody continues: late responses copy it.

use grpo_lambda_decoder::generate::SamplingRequest;

use super::kernels::{PAGE, Sample};

/// Tokens of a page.
const TOKENS: usize = PAGE as usize;

/// The pages of all rows, and the prompt that responses wait for.
#[derive(Debug)]
pub(crate) struct PageTable {
    /// The number of lines that name a page.
    users: Vec<u32>,
    free: Vec<u32>,
    /// The pages of every slot, then of the waiting prompt.
    lines: Vec<Vec<u32>>,
    /// Tokens of the longest row.
    tokens: usize,
    /// The prompt of which responses started and others wait.
    waiting: Option<usize>,
}

/// The work of the device for responses that start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    /// Pages that are copied before anything is written: from, to.
    pub(crate) copies: Vec<(u32, u32)>,
    /// The prompts to read, by number.
    pub(crate) prompts: Vec<usize>,
    /// The destinations of the prompts' keys and values: the place in `prompts`, the line of the table, the first position.
    pub(crate) fills: Vec<(usize, usize, usize)>,
    /// The line of first logits that every slot draws from: with `resumed`, line 0 is of the prompt that waited, and the prompts
    /// read follow. [`Sample::NO_LINE`] for a slot in which nothing starts.
    pub(crate) source: Vec<u32>,
    /// True if a response of the prompt that waited starts.
    pub(crate) resumed: bool,
    /// The line of first logits of the prompt that waits from now on, where it is read now.
    pub(crate) kept: Option<usize>,
}

impl Admission {
    /// The prompt read last goes into the pages of a slot from a position on, and the slot draws from its logits.
    fn read(&mut self, slot: usize, tokens: usize, begin: usize) {
        let place = self.prompts.len() - 1;
        if begin < tokens {
            self.fills.push((place, slot, begin));
        }
        self.source[slot] = (place + usize::from(self.resumed)) as u32;
    }
}

impl PageTable {
    pub(crate) fn new(slots: usize, tokens: usize, pages: usize) -> Self {
        PageTable {
            users: vec![0; pages],
            free: (0..pages as u32).rev().collect(),
            lines: vec![Vec::new(); slots + 1],
            tokens,
            waiting: None,
        }
    }

    /// The table of a request: its slots, and the pool that is never too small for it.
    pub(crate) fn for_request(request: &SamplingRequest<'_>) -> Self {
        let rows = request.prompts.iter().enumerate().map(|(i, prompt)| prompt.len() + request.limit(i));
        PageTable::new(request.at_a_time(), rows.max().unwrap_or(0), request.pages(TOKENS))
    }

    pub(crate) fn slots(&self) -> usize {
        self.lines.len() - 1
    }

    /// Pages of the pool.
    pub(crate) fn pages(&self) -> usize {
        self.users.len()
    }

    /// Tokens of the longest row.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Pages that a line names at most.
    pub(crate) fn width(&self) -> usize {
        self.tokens.div_ceil(TOKENS)
    }

    /// `[slots + 1, width]`: the pages of every line; unused entries are page 0, which is not read.
    pub(crate) fn entries(&self) -> Vec<u32> {
        let padded = |line: &Vec<u32>| {
            let mut line = line.clone();
            line.resize(self.width(), 0);
            line
        };
        self.lines.iter().flat_map(padded).collect()
    }

    /// Gives pages to responses that start in slots, in the order of the request, and frees the slots' previous pages.
    pub(crate) fn admit(&mut self, request: &SamplingRequest<'_>, started: &[(usize, usize)]) -> Admission {
        started.iter().for_each(|&(slot, _)| self.clear(slot));
        let end = started.last().map_or(0, |&(_, response)| response + 1);
        let mut plan = Admission { source: vec![Sample::NO_LINE; self.slots()], ..Admission::default() };
        for &(slot, response) in started {
            let (prompt, place) = (response / request.group, response % request.group);
            // Whether all responses of the prompt start now.
            let whole = place == 0 && response + request.group <= end;
            let tokens = request.prompts[prompt].len();
            if place == 0 {
                plan.prompts.push(prompt);
                self.open(if whole { tokens / TOKENS } else { tokens.div_ceil(TOKENS) });
                if !whole {
                    plan.fills.push((plan.prompts.len() - 1, self.slots(), 0));
                }
            }
            self.fork(slot, tokens, tokens + request.limit(prompt));
            if self.waiting == Some(prompt) && plan.prompts.last() != Some(&prompt) {
                self.resume(&mut plan, slot, tokens);
            } else {
                let begin = if whole { 0 } else { tokens / TOKENS * TOKENS };
                plan.read(slot, tokens, begin);
            }
            self.waiting = (place + 1 < request.group).then_some(prompt);
            if self.waiting.is_none() {
                self.clear(self.slots());
            }
        }
        let kept = self.waiting.and_then(|prompt| plan.prompts.iter().position(|p| *p == prompt));
        plan.kept = kept.map(|place| place + usize::from(plan.resumed));
        plan
    }

    /// Takes so many pages for a prompt.
    fn open(&mut self, pages: usize) {
        let own = self.slots();
        (0..pages).for_each(|_| self.take(own));
    }

    /// Pages of a row of `most` tokens: the full ones of the prompt's `tokens`, and its own.
    fn fork(&mut self, slot: usize, tokens: usize, most: usize) {
        let shared = self.lines[self.slots()][..tokens / TOKENS].to_vec();
        shared.iter().for_each(|page| self.users[*page as usize] += 1);
        self.lines[slot] = shared;
        (tokens / TOKENS..most.div_ceil(TOKENS)).for_each(|_| self.take(slot));
    }

    /// A response of a prompt that was read before.
    fn resume(&self, plan: &mut Admission, slot: usize, tokens: usize) {
        (plan.resumed, plan.source[slot]) = (true, 0);
        if !tokens.is_multiple_of(TOKENS) {
            let partial = tokens / TOKENS;
            plan.copies.push((self.lines[self.slots()][partial], self.lines[slot][partial]));
        }
    }

    fn take(&mut self, line: usize) {
        let page = self.free.pop().unwrap_or_else(|| panic!("a pool of {} pages is too small", self.pages()));
        self.users[page as usize] = 1;
        self.lines[line].push(page);
    }

    fn clear(&mut self, line: usize) {
        for page in std::mem::take(&mut self.lines[line]) {
            self.users[page as usize] -= 1;
            if self.users[page as usize] == 0 {
                self.free.push(page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use grpo_lambda_decoder::generate::{SamplingParams, StoppingCriteria};
    use grpo_lambda_decoder::rng::{Address, Purpose};
    use grpo_lambda_decoder::slots::Slots;
    use proptest::prelude::*;

    use super::*;

    fn address(_: usize, _: usize) -> Address {
        Address::new(0, Purpose::Rollout)
    }

    fn ask<'a>(
        prompts: &'a [&'a [u32]],
        group: usize,
        slots: usize,
        limits: &'a [usize],
    ) -> SamplingRequest<'a> {
        let sampling = SamplingParams { max_new_tokens: 90, min_new_tokens: 0, temperature: 1.0 };
        SamplingRequest {
            slots: Some(slots),
            stopping: StoppingCriteria { max_lengths: limits, complete: None },
            ..SamplingRequest::new(prompts, group, &[], sampling, &address)
        }
    }

    #[test]
    fn a_group_that_starts_in_parts_shares_full_pages_and_copies_the_partial_one() {
        // 40 tokens: a full page and 8 tokens; with 30 new ones 3 pages. 4 responses in 3 slots.
        let prompts: [&[u32]; 2] = [&[1; 40], &[2; 40]];
        let request = ask(&prompts, 2, 3, &[30, 30]);
        let mut table = PageTable::for_request(&request);
        // Two first responses with 1 + 2 pages and a second with 2; and the page kept for the one that waits.
        assert_eq!((table.slots(), table.width(), table.pages()), (3, 3, 9));
        let first = table.admit(&request, &[(0, 0), (1, 1), (2, 2)]);
        let lines = vec![vec![0, 1, 2], vec![0, 3, 4], vec![5, 7, 8], vec![5, 6]];
        assert_eq!(table.lines, lines);
        let expected = Admission {
            prompts: vec![0, 1],
            fills: vec![(0, 0, 0), (0, 1, 32), (1, 3, 0), (1, 2, 32)],
            source: vec![0, 0, 1],
            kept: Some(1),
            ..Admission::default()
        };
        assert_eq!(first, expected);
        // The last response takes slot 1, whose own pages are free again; the prompt's page goes when it has started.
        let second = table.admit(&request, &[(1, 3)]);
        assert_eq!(table.lines[1..], [vec![5, 4, 3], vec![5, 7, 8], vec![]]);
        let none = Sample::NO_LINE;
        let expected = Admission {
            copies: vec![(6, 4)],
            source: vec![none, 0, none],
            resumed: true,
            ..Admission::default()
        };
        assert_eq!((second, table.free), (expected, vec![6]));
    }

    /// The memory of a device: for every page, by position, the prompt and the token that were written there.
    struct Memory(Vec<[Option<(usize, usize)>; TOKENS]>);

    impl Memory {
        fn apply(&mut self, table: &PageTable, request: &SamplingRequest<'_>, plan: &Admission) {
            plan.copies.iter().for_each(|&(from, to)| self.0[to as usize] = self.0[from as usize]);
            for &(place, line, begin) in &plan.fills {
                let prompt = plan.prompts[place];
                for at in begin..request.prompts[prompt].len() {
                    self.0[table.lines[line][at / TOKENS] as usize][at % TOKENS] = Some((prompt, at));
                }
            }
        }

        /// A row has its prompt and room for its response, and nobody else has a page that it writes.
        fn check(&mut self, table: &PageTable, request: &SamplingRequest<'_>, slot: usize, response: usize) {
            let (prompt, line) = (response / request.group, &table.lines[slot]);
            let tokens = request.prompts[prompt].len();
            assert_eq!(line.len(), (tokens + request.limit(prompt)).div_ceil(TOKENS));
            for at in 0..tokens {
                assert_eq!(self.0[line[at / TOKENS] as usize][at % TOKENS], Some((prompt, at)), "token {at}");
            }
            for &page in &line[tokens / TOKENS..] {
                let named = table.lines.iter().flatten().filter(|other| **other == page).count();
                assert_eq!((named, table.users[page as usize]), (1, 1), "page {page} is the row's own");
            }
            // It writes all that lies beyond its prompt.
            for at in tokens..line.len() * TOKENS {
                self.0[line[at / TOKENS] as usize][at % TOKENS] = None;
            }
        }
    }

    proptest! {
        #[test]
        fn every_row_has_its_prompt_and_pages_of_its_own_and_the_pool_is_never_too_small(
            lengths in prop::collection::vec(1usize..100, 1..6),
            limits in prop::collection::vec(1usize..90, 5),
            (group, count, mut dice) in (1usize..6, 1usize..12, any::<u64>()),
        ) {
            let prompts: Vec<Vec<u32>> = lengths.iter().map(|n| vec![1; *n]).collect();
            let prompts: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
            let request = ask(&prompts, group, count, &limits[..prompts.len()]);
            let mut table = PageTable::for_request(&request);
            let mut slots = Slots::new(request.responses(), request.slots);
            let mut memory = Memory(vec![[None; TOKENS]; table.pages()]);
            let mut logits = None;
            loop {
                let started = slots.fill();
                if !started.is_empty() {
                    let plan = table.admit(&request, &started);
                    memory.apply(&table, &request, &plan);
                    let kept = logits.filter(|_| plan.resumed).into_iter();
                    let lines: Vec<usize> = kept.chain(plan.prompts.clone()).collect();
                    for &(slot, response) in &started {
                        prop_assert_eq!(lines[plan.source[slot] as usize], response / group);
                    }
                    logits = plan.kept.map(|line| lines[line]).or(logits);
                }
                let running: Vec<(usize, usize)> = slots.running().collect();
                running.iter().for_each(|&(slot, response)| memory.check(&table, &request, slot, response));
                if running.is_empty() {
                    break;
                }
                // Some end, one at least.
                for (i, (slot, _)) in running.iter().enumerate() {
                    dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if i == 0 || dice >> 62 == 0 {
                        slots.free(*slot);
                    }
                }
            }
        }
    }
}
