//! The shard of each row, the process of each shard, and each process's share of the sampling.

use std::ops::Range;

use super::error::TeamError;

/// `S` shards over `N` processes: `S` a power of two, `N <= S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    shards: usize,
    processes: usize,
}

impl Shards {
    /// `shards` for `processes`.
    pub fn new(shards: usize, processes: usize) -> Result<Self, TeamError> {
        if shards.is_power_of_two() && (1..=shards).contains(&processes) {
            return Ok(Shards { shards, processes });
        }
        Err(TeamError::Shards { shards, processes })
    }

    /// The number of shards.
    pub fn count(self) -> usize {
        self.shards
    }

    /// The shards of a process: consecutive, at least one.
    pub fn owned_by(self, rank: usize) -> Range<usize> {
        part(rank, self.shards, self.processes)
    }

    /// The process that has a shard.
    pub fn owner(self, shard: usize) -> usize {
        (0..self.processes).find(|rank| self.owned_by(*rank).contains(&shard)).unwrap_or(0)
    }
}

/// Part `i` of `whole` in `parts`: consecutive, at most one apart in size.
fn part(i: usize, whole: usize, parts: usize) -> Range<usize> {
    i * whole / parts..(i + 1) * whole / parts
}

/// Prompts and, of each, the responses that a process samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingShare {
    /// The prompts.
    pub prompts: Range<usize>,
    /// The responses to each of them.
    pub responses: Range<usize>,
}

/// Cuts a request for `group` responses to each prompt: by prompts, unless cutting groups leaves less for the process that has most.
pub fn sampling_shares(prompts: usize, group: usize, processes: usize) -> Vec<SamplingShare> {
    let by_prompts = prompts.div_ceil(processes) * group;
    let by_responses = prompts * group.div_ceil(processes);
    let share = |rank: usize| {
        if by_prompts <= by_responses {
            SamplingShare { prompts: part(rank, prompts, processes), responses: 0..group }
        } else {
            SamplingShare { prompts: 0..prompts, responses: part(rank, group, processes) }
        }
    };
    (0..processes).map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_has_one_owner_in_order() {
        for shards in [1, 2, 4, 8, 32] {
            for processes in 1..=shards {
                let cut = Shards::new(shards, processes).expect("enough shards");
                let all: Vec<usize> = (0..processes).flat_map(|rank| cut.owned_by(rank)).collect();
                assert_eq!(all, (0..shards).collect::<Vec<_>>(), "{shards} {processes}");
                assert!((0..processes).all(|rank| !cut.owned_by(rank).is_empty()));
                assert!((0..shards).all(|shard| cut.owned_by(cut.owner(shard)).contains(&shard)));
            }
        }
    }

    #[test]
    fn cuts_without_a_complete_tree_or_a_shard_for_each_are_refused() {
        for (shards, processes) in [(0, 1), (3, 1), (12, 4), (2, 3), (4, 0)] {
            assert_eq!(Shards::new(shards, processes), Err(TeamError::Shards { shards, processes }));
        }
    }

    #[test]
    fn every_response_is_sampled_once() {
        for (prompts, group, processes) in [(4, 8, 2), (1, 8, 3), (5, 2, 4), (2, 3, 4), (0, 4, 2), (3, 1, 8)]
        {
            let mut times = vec![0; prompts * group];
            for share in sampling_shares(prompts, group, processes) {
                for prompt in share.prompts {
                    share.responses.clone().for_each(|r| times[prompt * group + r] += 1);
                }
            }
            assert!(times.iter().all(|n| *n == 1), "{prompts} {group} {processes}: {times:?}");
        }
    }

    #[test]
    fn groups_are_cut_where_prompts_would_leave_processes_idle() {
        let all = |prompts, group, n| sampling_shares(prompts, group, n);
        assert!(all(4, 8, 2).iter().all(|s| s.prompts.len() == 2 && s.responses == (0..8)));
        assert!(all(1, 8, 4).iter().all(|s| s.prompts == (0..1) && s.responses.len() == 2));
    }
}
