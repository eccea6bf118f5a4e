//! Gathers what all workers sampled: the whole batch, encoded as rows of numbers.

use grpo_lambda::group::{Evidence, Group, Response, StepValue};

use super::{Collective, CollectiveError};

/// The groups of all workers in the order of their ranks; a method's normalisers and baselines need the whole batch.
///
/// Tokens, log-probabilities, rewards and evidence are transferred bit for bit; a token id is exact in an `f64`.
pub fn gather_groups<C: Collective>(
    collective: &mut C,
    own: &[Group],
) -> Result<Vec<Group>, CollectiveError> {
    let rows: Vec<Vec<f64>> = own.iter().flat_map(write_group).collect();
    let mut rows = collective.gather(&rows)?.into_iter();
    let mut groups = Vec::new();
    while let Some(first) = rows.next() {
        groups.push(read_group(&first, &mut rows).ok_or(CollectiveError::Rows("a response is cut short"))?);
    }
    Ok(groups)
}

/// `[responses]`, then each response.
fn write_group(group: &Group) -> Vec<Vec<f64>> {
    let mut rows = vec![vec![group.responses.len() as f64]];
    group.responses.iter().for_each(|response| write_response(response, &mut rows));
    rows
}

fn read_group(first: &[f64], rows: &mut impl Iterator<Item = Vec<f64>>) -> Option<Group> {
    let responses = *first.first()? as usize;
    Some(Group { responses: (0..responses).map(|_| read_response(rows)).collect::<Option<_>>()? })
}

fn flag(b: bool) -> f64 {
    f64::from(u8::from(b))
}

/// `[there are numbers, numbers ...]`.
fn write_list(list: &Option<Vec<f64>>, rows: &mut Vec<Vec<f64>>) {
    rows.push(std::iter::once(flag(list.is_some())).chain(list.iter().flatten().copied()).collect());
}

fn read_list(rows: &mut impl Iterator<Item = Vec<f64>>) -> Option<Option<Vec<f64>>> {
    let mut row = rows.next()?;
    let there = *row.first()? > 0.0;
    Some(there.then(|| row.split_off(1)))
}

fn write_response(response: &Response, rows: &mut Vec<Vec<f64>>) {
    // Destructured in full, so that a new field cannot be forgotten.
    let Response { tokens, old_logps, ref_logps, reward, truncated, evidence } = response;
    let Evidence {
        entropies,
        values,
        collisions,
        steps,
        shifts,
        saliencies,
        teacher_logps,
        sampler_logps,
        reward_parts,
        hidden,
    } = evidence;
    let vectors = hidden.as_ref().map_or(0, Vec::len) as f64;
    rows.push(vec![
        flag(reward.is_some()),
        reward.unwrap_or_default(),
        flag(*truncated),
        flag(hidden.is_some()),
        vectors,
    ]);
    rows.push(tokens.iter().map(|t| f64::from(*t)).collect());
    rows.push(old_logps.clone());
    for list in [ref_logps, entropies, values, collisions, shifts, saliencies] {
        write_list(list, rows);
    }
    for list in [teacher_logps, sampler_logps, reward_parts] {
        write_list(list, rows);
    }
    let step = |s: &StepValue| [s.start as f64, s.value];
    write_list(&steps.as_ref().map(|s| s.iter().flat_map(step).collect()), rows);
    rows.extend(hidden.iter().flatten().cloned());
}

fn read_response(rows: &mut impl Iterator<Item = Vec<f64>>) -> Option<Response> {
    let head = rows.next()?;
    let &[graded, reward, truncated, hidden, vectors] = head.as_slice() else { return None };
    let tokens = rows.next()?.iter().map(|t| *t as u32).collect();
    let old_logps = rows.next()?;
    let ref_logps = read_list(rows)?;
    let [entropies, values, collisions] = [read_list(rows)?, read_list(rows)?, read_list(rows)?];
    let [shifts, saliencies, teacher_logps] = [read_list(rows)?, read_list(rows)?, read_list(rows)?];
    let [sampler_logps, reward_parts] = [read_list(rows)?, read_list(rows)?];
    let step = |[start, value]: &[f64; 2]| StepValue { start: *start as usize, value: *value };
    let steps = read_list(rows)?.map(|list| list.as_chunks::<2>().0.iter().map(step).collect());
    let hidden = match hidden > 0.0 {
        true => Some((0..vectors as usize).map(|_| rows.next()).collect::<Option<Vec<_>>>()?),
        false => None,
    };
    Some(Response {
        tokens,
        old_logps,
        ref_logps,
        reward: (graded > 0.0).then_some(reward),
        truncated: truncated > 0.0,
        evidence: Evidence {
            entropies,
            values,
            collisions,
            steps,
            shifts,
            saliencies,
            teacher_logps,
            sampler_logps,
            reward_parts,
            hidden,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::collective::{SingleWorker, threads};

    /// Numbers that a detour through text or `f32` would not survive.
    fn awkward(seed: usize) -> Response {
        let list = |k: usize| Some(vec![-1.0 / (seed + k) as f64, f64::MIN_POSITIVE / 3.0, -0.0]);
        Response {
            tokens: vec![u32::MAX, seed as u32, 0],
            old_logps: vec![-0.1 - seed as f64, -1e-300, -700.123_456_789],
            ref_logps: list(1),
            reward: [None, Some(0.0), Some(1.0 / 3.0)][seed % 3],
            truncated: !seed.is_multiple_of(2),
            evidence: Evidence {
                entropies: list(2),
                values: seed.is_multiple_of(2).then(Vec::new),
                collisions: list(3),
                steps: Some(vec![StepValue { start: 0, value: 0.1 }, StepValue { start: 2, value: -0.3 }]),
                shifts: Some(vec![0.7]),
                saliencies: None,
                teacher_logps: list(4),
                sampler_logps: list(5),
                reward_parts: Some(vec![0.25]),
                hidden: Some(vec![vec![0.1, 0.2], vec![], vec![1e-310, 5.0]]),
            },
        }
    }

    #[test]
    fn a_batch_arrives_to_the_bit_in_the_order_of_ranks() {
        let bare = Response { tokens: Vec::new(), ..Response::graded(vec![-0.5], 1.0) };
        let group =
            |k: usize| Group { responses: (k..k + k % 4).map(awkward).chain([bare.clone()]).collect() };
        let mut whole: Vec<Group> = (1..6).map(group).collect();
        whole[3] = Group::default();
        assert_eq!(gather_groups(&mut SingleWorker, &whole), Ok(whole.clone()));
        // One worker has nothing, one has most.
        let own = |rank: usize| [&whole[..1], &whole[1..4], &whole[4..4], &whole[4..]][rank];
        let all = threads::run(4, |side| gather_groups(side, own(side.rank()))).expect("no failure");
        assert_eq!(all, vec![whole.clone(); 4]);
        // Equal as numbers is not enough for zeros.
        let zero = |groups: &[Group]| groups[0].responses[0].ref_logps.as_ref().map(|l| l[2].to_bits());
        assert_eq!(zero(&all[3]), Some((-0.0f64).to_bits()));
    }

    #[test]
    fn rows_that_are_no_batch_are_refused() {
        struct Garbled(SingleWorker);
        impl Collective for Garbled {
            fn rank(&self) -> usize {
                0
            }
            fn size(&self) -> usize {
                1
            }
            fn all_reduce(&mut self, values: &mut [f32]) -> Result<(), CollectiveError> {
                self.0.all_reduce(values)
            }
            fn gather(&mut self, rows: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, CollectiveError> {
                Ok(rows[..rows.len() - 1].to_vec())
            }
            fn broadcast(&mut self, root: usize, values: &mut [f32]) -> Result<(), CollectiveError> {
                self.0.broadcast(root, values)
            }
            fn barrier(&mut self) -> Result<(), CollectiveError> {
                Ok(())
            }
            fn abort(&mut self, _reason: &str) {}
        }
        let batch = [Group { responses: vec![awkward(1)] }];
        assert!(matches!(gather_groups(&mut Garbled(SingleWorker), &batch), Err(CollectiveError::Rows(_))));
    }
}
