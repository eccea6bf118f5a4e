//! Every entrant on every case: its effect on a flawed step, exactly, in expectation, group by group, and in the lucky response.

use crate::atlas::entrants::{ENTRANTS, Entrant, Source};
use crate::atlas::multisets::{Groups, Ratios, given};
use crate::experiment::Context;
use crate::experiments::common::dot;
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::evidence::Exact;
use grpo_lambda_mdp::zoo::{Family, Fork, LuckyGuess};
use grpo_lambda_mdp::{Oracle, Tabular, Tree};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Chances of a lucky guess where all responses have the same length.
pub(super) const LUCK: [f64; 4] = [0.1, 0.25, 0.5, 0.7];
/// Initial probabilities of the sound step.
pub(super) const SOUND: [f64; 3] = [0.2, 0.5, 0.8];
/// Chances of a lucky guess where lengths differ.
pub(super) const RAGGED_LUCK: [f64; 2] = [0.25, 0.6];
/// Lengths of flawed responses; sound ones have six tokens.
pub(super) const LENGTHS: [usize; 6] = [2, 4, 6, 12, 24, 48];
/// The case that is shown where one has to do: luck, initial probability of the sound step.
pub(super) const SHOWN: (f64, f64) = (0.25, 0.5);

pub(super) struct Numbers {
    pub(super) rows: Vec<Row>,
}

/// A method on a case.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) method: &'static str,
    pub(super) luck: f64,
    pub(super) sound: f64,
    pub(super) flawed_length: Option<usize>,
    pub(super) effect: Effect,
}

impl Numbers {
    pub(super) fn equal(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.flawed_length.is_none())
    }

    /// The rows where flawed and sound responses may differ in length.
    pub(super) fn ragged(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.flawed_length.is_some())
    }

    /// One method at the case that is shown.
    pub(super) fn shown(&self, method: &str) -> Option<&Effect> {
        self.equal().find(|r| r.method == method && (r.luck, r.sound) == SHOWN).map(|r| &r.effect)
    }
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let cases = cases(context.full)?;
    let work: Vec<(&Case, &'static Entrant)> =
        cases.iter().flat_map(|case| ENTRANTS.iter().map(move |e| (case, e))).collect();
    let done = context.pieces(0.0..1.0, work.len());
    let row = |&(case, entrant): &(&Case, &'static Entrant)| {
        let row = row(context, case, entrant);
        done(entrant.name);
        row
    };
    let rows: Vec<Option<Row>> = work.par_iter().map(row).collect::<anyhow::Result<_>>()?;
    Ok(Numbers { rows: rows.into_iter().flatten().collect() })
}

fn cases(full: bool) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for luck in LUCK {
        for sound in SOUND {
            cases.push(Case::equal(luck, sound)?);
        }
    }
    for luck in RAGGED_LUCK {
        for length in LENGTHS {
            cases.push(Case::ragged(luck, length)?);
        }
    }
    if full {
        for luck in [0.01, 0.05, 0.4, 0.6, 0.74] {
            for sound in [0.05, 0.35, 0.65, 0.95] {
                cases.push(Case::equal(luck, sound)?);
            }
        }
    }
    Ok(cases)
}

/// A method on a case, from the store of a long run where it is there; none where a table cannot give its evidence.
fn row(context: &Context, case: &Case, entrant: &'static Entrant) -> anyhow::Result<Option<Row>> {
    let configured = entrant.build(&case.tree)?;
    if !given(entrant.source) || configured.require(&Exact::kinds_on(&case.tree)).is_err() {
        return Ok(None);
    }
    let key = format!("{} {} {} {:?}", entrant.name, case.luck, case.sound, case.flawed_length);
    let effect =
        context.store.piece(&key, || Effect::new(case, configured.method.as_ref(), entrant.source))?;
    Ok(Some(Row {
        method: entrant.name,
        luck: case.luck,
        sound: case.sound,
        flawed_length: case.flawed_length,
        effect,
    }))
}

pub(super) const GROUP: usize = 8;
/// Edges of the two first tokens.
const SOUND_TOKEN: usize = 0;
const FLAWED_TOKEN: usize = 1;

/// The numbers of one method on one case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Effect {
    /// `A(flawed)`.
    pub(super) advantage: f64,
    /// Expected step of the flawed token's logit, over that of the gradient of `J`: 1 for RLOO, negative where the flaw is pushed the wrong way.
    pub(super) step: f64,
    /// `step` relative to the method's own scale `|κ|` over all logits.
    pub(super) relative: f64,
    /// Implied credit of the flawed first token, over the scale `|κ|`.
    pub(super) credit_flawed: f64,
    /// Implied credit of the sound first token, over the scale `|κ|`.
    pub(super) credit_sound: f64,
    /// Weight of the flawed token in a rewarded response over that of the sound token in a rewarded one: 1 when outcomes are all that counts.
    pub(super) lucky: f64,
    /// Probability that the update of one group raises the flawed token.
    pub(super) raises: f64,
    /// Probability given a rewarded flawed response in the group.
    pub(super) raises_when_lucky: f64,
    /// Probability given none.
    pub(super) raises_when_unlucky: f64,
}

impl Effect {
    /// The effect of `method` on `case`.
    fn new(case: &Case, method: &dyn Method, source: Source) -> anyhow::Result<Effect> {
        let oracle = Oracle::new(&case.tree, &case.policy);
        let groups = Groups::new(&case.tree, &case.policy, &case.policy, Ratios::Sampler, GROUP, source)?;
        let rewarded = |atom: usize| groups.atoms()[atom].response.reward.is_some_and(|reward| reward > 0.0);
        let first = |atom: usize| groups.atoms()[atom].path[0];
        let share = oracle.probs[FLAWED_TOKEN];
        let mut mean = vec![0.0; case.tree.edge_count()];
        // Sums of weights and counts of first tokens in rewarded responses: sound, flawed.
        let (mut weight, mut number) = ([0.0; 2], [0.0; 2]);
        let (mut raises, mut all) = ([0.0; 2], [0.0; 2]);
        groups.each(method, |o| {
            mean.iter_mut().zip(o.weights).for_each(|(m, w)| *m += o.probability * w);
            let step = o.weights[FLAWED_TOKEN] - share * (o.weights[FLAWED_TOKEN] + o.weights[SOUND_TOKEN]);
            let size: f64 = o.tokens.iter().map(|w| w[0].abs()).sum();
            let mut lucky = false;
            for (i, &atom) in o.members.iter().enumerate() {
                if rewarded(atom) {
                    weight[first(atom)] += o.probability * o.tokens[i][0];
                    number[first(atom)] += o.probability;
                    lucky |= first(atom) == FLAWED_TOKEN;
                }
            }
            let kind = usize::from(lucky);
            all[kind] += o.probability;
            // What is left of a group that teaches nothing is rounding.
            raises[kind] += if step > 1e-9 * size { o.probability } else { 0.0 };
        });
        let gradient = oracle.grad_j();
        let update = case.policy.backward(&case.tree, &mean);
        let scale = (dot(&update, &gradient) / dot(&gradient, &gradient)).abs();
        let step = update[FLAWED_TOKEN] / gradient[FLAWED_TOKEN];
        let credit = |edge: usize| mean[edge] / oracle.edge_visit(edge) / scale;
        let per = |x: [f64; 2], n: [f64; 2], i: usize| if n[i] > 0.0 { x[i] / n[i] } else { f64::NAN };
        Ok(Effect {
            advantage: oracle.advantage(FLAWED_TOKEN),
            step,
            relative: step / scale,
            credit_flawed: credit(FLAWED_TOKEN),
            credit_sound: credit(SOUND_TOKEN),
            lucky: per(weight, number, FLAWED_TOKEN) / per(weight, number, SOUND_TOKEN),
            raises: raises[0] + raises[1],
            raises_when_lucky: per(raises, all, 1),
            raises_when_unlucky: per(raises, all, 0),
        })
    }

    /// True if the expected update moves the flawed token against its advantage.
    pub(super) fn inverts(&self) -> bool {
        self.step < 0.0
    }
}

/// A task whose first token is `sound` or `flawed`.
struct Case {
    /// Chance of a reward after a flawed step.
    luck: f64,
    /// Initial probability of the sound step.
    sound: f64,
    /// Tokens of a flawed response; a sound one has [`SOUND_LENGTH`]. None where all have the same.
    flawed_length: Option<usize>,
    tree: Tree,
    policy: Tabular,
}

/// Chance of a reward after a sound step: 0.8 of the answers are right, 0.95 of which are graded so.
pub(super) const SOUND_VALUE: f64 = 0.76;
/// Tokens of a sound response where lengths differ.
pub(super) const SOUND_LENGTH: usize = 6;

impl Case {
    /// Responses of one length: [`LuckyGuess`] with two answers and one work token.
    fn equal(luck: f64, sound: f64) -> anyhow::Result<Case> {
        let family = LuckyGuess {
            luck,
            initial_sound: sound,
            answers: 2,
            work: 1,
            fillers: 1,
            ..LuckyGuess::default()
        };
        let tree = family.tree()?;
        let policy = family.initial(&tree);
        Ok(Case { luck, sound, flawed_length: None, tree, policy })
    }

    /// The flawed response has `length` tokens, the sound one [`SOUND_LENGTH`]; no other choice.
    fn ragged(luck: f64, length: usize) -> anyhow::Result<Case> {
        let family = Fork::two([SOUND_LENGTH, length], [SOUND_VALUE, luck], 0.5);
        let tree = family.tree()?;
        let policy = family.initial(&tree);
        Ok(Case { luck, sound: 0.5, flawed_length: Some(length), tree, policy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;

    fn effect(case: &Case, name: &str, settings: &str) -> Effect {
        let method = methods::parse(name, settings).unwrap().method;
        Effect::new(case, method.as_ref(), Source::Table).unwrap()
    }

    #[test]
    fn rloo_moves_the_flawed_token_as_the_gradient_does() {
        for case in [Case::equal(0.25, 0.5).unwrap(), Case::ragged(0.25, 20).unwrap()] {
            let m = effect(&case, "rloo", "");
            assert!((m.step - 1.0).abs() < 1e-12 && (m.relative - 1.0).abs() < 1e-12, "{m:?}");
            // Credit is Q up to what depends on the prefix only.
            assert!((m.credit_flawed - m.credit_sound - (case.luck - SOUND_VALUE)).abs() < 1e-12);
            assert!((m.lucky - 1.0).abs() < 0.2, "{m:?}");
        }
    }

    #[test]
    fn two_responses_by_hand() {
        // Ragged, groups of 8: the group raises the flawed token iff the mean reward of its flawed responses is above that of the
        // sound ones, since both sums of centred rewards add up to zero. Counted here over the binomials.
        let case = Case::ragged(0.25, SOUND_LENGTH).unwrap();
        let choose = |n: usize, k: usize| (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>();
        let binomial =
            |n: usize, k: usize, p: f64| choose(n, k) * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32);
        let mut expected = 0.0;
        for flawed in 1..GROUP {
            for lucky in 0..=flawed {
                for right in 0..=GROUP - flawed {
                    let sound = GROUP - flawed;
                    if lucky * sound > right * flawed {
                        expected += binomial(GROUP, flawed, 0.5)
                            * binomial(flawed, lucky, 0.25)
                            * binomial(sound, right, SOUND_VALUE);
                    }
                }
            }
        }
        // A group of one kind moves nothing under a policy of two tokens: its weights at the prompt sum to 0.
        let m = effect(&case, "rloo", "");
        assert!((m.raises - expected).abs() < 1e-12, "{} {expected}", m.raises);
    }

    #[test]
    fn values_blame_the_flawed_step_even_in_the_lucky_response() {
        let case = Case::equal(0.25, 0.5).unwrap();
        assert!(effect(&case, "vine_ppo", "").lucky < 0.0);
        assert!(effect(&case, "grpo", "").lucky > 0.0);
        assert_eq!(effect(&case, "vine_ppo", "").raises, 0.0);
    }
}
