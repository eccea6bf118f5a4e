use super::Assignment;
use crate::advantage::all_equal;
use crate::equation::{Part, number};
use crate::group::{Group, Response, by_group};
use crate::systematic::Sets;

/// Rewards minus values of prefixes, estimated from the *other* responses of the group: unbiased at every group size.
///
/// ```text
/// m_i      = mean_{j != i} r_j
/// V_i(s)   = (sum r_j + kappa m_i) / (n + kappa)          j != i that pass the prefix s, n of them
/// Q_i(s,a) = (sum r_j + kappa V_i(s)) / (n_a + kappa)     those of them that go on with a
/// state    A_{i,t} = r_i - V_i(s_t) at lambda = 1, else sum_l lambda^l (V_i(s_{t+l+1}) - V_i(s_{t+l})) with V_i after the last token = r_i
/// action   A_{i,t} = r_i - Q_i(s_t,a_t),   and every token (s_t,a) that others of the group took gets  pi(a|s_t) (Q_i(s_t,a) - V_i(s_t))
/// ```
/// `V_i(s_t)` depends on the other responses and on tokens before `t`, never on `a_t`: a baseline. `Q_i(s_t,a_t)` does depend on
/// `a_t`; what subtracting it takes away in expectation, `sum_a pi(a|s_t) Q_i(s_t,a) grad log pi(a|s_t)`, is handed back exactly. An action
/// that no other response took has `Q_i = V_i`, and `sum_a pi grad log pi = 0`, so that only tokens of the group carry a share. Where
/// several responses took the same token, they carry equal parts of it. On-policy the expected update is therefore the
/// policy gradient, for every `kappa`, at `lambda = 1`.
///
/// With [`Sets`] the others are the responses of other sets: those of a response's own set are not independent of it.
///
/// Source: ours; shrinkage of group baselines is that of arXiv 2511.03710, action-dependent baselines that are handed back are Q-Prop's
/// (arXiv 1611.02247).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefixControl {
    /// The partition of every group; [`Sets::SINGLE`] where responses are independent.
    pub sets: Sets,
    /// `kappa`, not negative: how many responses the coarser estimate counts for.
    pub shrinkage: f64,
    /// True if actions have values of their own; else only prefixes do.
    pub action: bool,
    /// `lambda` in `[0,1]` of the sum of TD errors; 1 where the credit is the reward minus a value. Below 1 it is biased: the values are
    /// estimates. Without effect where actions have values of their own.
    pub lambda: f64,
}

/// A graded response that counts.
struct Known<'a> {
    response: &'a Response,
    reward: f64,
    /// Its place in the group.
    place: usize,
    /// True if it carries weight; the reward of one that does not still counts in the values.
    active: bool,
}

impl Known<'_> {
    fn tokens(&self) -> &[u32] {
        let r = self.response;
        assert_eq!(r.tokens.len(), r.len(), "tokens: a prefix tree needs the token ids of every response");
        &r.tokens
    }
}

/// A sum of rewards with its number of terms.
#[derive(Clone, Copy, Default)]
struct Sum {
    total: f64,
    count: f64,
}

impl Sum {
    fn over<'a>(members: impl Iterator<Item = &'a &'a Known<'a>>) -> Sum {
        members.fold(Sum::default(), |s, k| Sum { total: s.total + k.reward, count: s.count + 1.0 })
    }

    /// The mean shrunk towards `prior`, which counts for `kappa` terms; `prior` where there is nothing.
    fn shrunk(self, prior: f64, kappa: f64) -> f64 {
        if self.count + kappa > 0.0 { (self.total + kappa * prior) / (self.count + kappa) } else { prior }
    }
}

impl PrefixControl {
    fn of_group(&self, group: &Group, active: &[bool]) -> Vec<Vec<f64>> {
        let mut advantages: Vec<Vec<f64>> = group.responses.iter().map(|r| vec![0.0; r.len()]).collect();
        let known: Vec<Known> = (group.responses.iter().zip(active).enumerate())
            .filter_map(|(place, (response, &active))| {
                Some(Known { response, reward: response.reward?, place, active })
            })
            .collect();
        let rewards: Vec<f64> = known.iter().map(|k| k.reward).collect();
        if all_equal(&rewards) {
            return advantages;
        }
        for own in known.iter().filter(|k| k.active) {
            let set = |k: &Known| self.sets.set_of(k.place, group.responses.len());
            let others: Vec<&Known> = known.iter().filter(|k| set(k) != set(own)).collect();
            if !others.is_empty() {
                self.add(own, others, &mut advantages);
            }
        }
        advantages
    }

    /// Adds what the reward of `own` gives to the tokens of the group.
    fn add(&self, own: &Known, mut sharing: Vec<&Known>, advantages: &mut [Vec<f64>]) {
        let prior = Sum::over(sharing.iter()).shrunk(0.0, 0.0);
        let mut values = Vec::with_capacity(own.tokens().len());
        for (t, &token) in own.tokens().iter().enumerate() {
            // Only those that pass the prefix are left.
            let value = Sum::over(sharing.iter()).shrunk(prior, self.shrinkage);
            values.push(value);
            if self.action {
                self.add_actions(own, &sharing, (t, value), advantages);
            }
            sharing.retain(|k| k.tokens().get(t) == Some(&token));
        }
        let lambda = if self.action { 1.0 } else { self.lambda };
        // The sum of TD errors from the end: `after` is V(s_{t+1}) + lambda A_{t+1}, which at lambda = 1 is the reward throughout.
        let mut after = own.reward;
        for (t, value) in values.into_iter().enumerate().rev() {
            let advantage = after - value;
            advantages[own.place][t] += advantage;
            after = if lambda == 1.0 { own.reward } else { value + lambda * advantage };
        }
    }

    /// Takes the value of the token that `own` took beyond that of its prefix, and hands back its expectation.
    fn add_actions(
        &self,
        own: &Known,
        sharing: &[&Known],
        (t, value): (usize, f64),
        advantages: &mut [Vec<f64>],
    ) {
        let mut taken: Vec<u32> = sharing.iter().filter_map(|k| k.tokens().get(t).copied()).collect();
        taken.sort_unstable();
        taken.dedup();
        for token in taken {
            let others: Vec<&&Known> = sharing.iter().filter(|k| k.tokens().get(t) == Some(&token)).collect();
            let beyond = Sum::over(others.iter().copied()).shrunk(value, self.shrinkage) - value;
            let is_own = own.tokens()[t] == token;
            if is_own {
                advantages[own.place][t] -= beyond;
            }
            let itself = std::iter::once(&own).filter(|_| is_own);
            let takers: Vec<&&Known> = others.into_iter().filter(|k| k.active).chain(itself).collect();
            for taker in &takers {
                let probability = taker.response.old_logps[t].exp();
                advantages[taker.place][t] += probability * beyond / takers.len() as f64;
            }
        }
    }
}

impl Assignment for PrefixControl {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        by_group(batch, active).flat_map(|(group, own)| self.of_group(group, own)).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let kappa = number(self.shrinkage);
        let value = format!(
            "V_i(s) = (sum r_j + {kappa} m_i) / (n + {kappa}) over the n {} that begin with s, \
             m_i their mean at the prompt",
            self.sets.others()
        );
        let mut parts = Vec::new();
        if self.action {
            parts.push((
                "credit",
                format!(
                    "{token} = r_i - Q_i(s_t, a_t) + sum_j pi_old(a_t|s_t) (Q_j(s_t, a_t) - V_j(s_t)) / c over the responses j that pass s_t, \
                     c of them with a_t (j's own a_t not counted in Q_j); 0 where all rewards of the group agree"
                ),
            ));
            parts.push((
                "action",
                format!(
                    "Q_i(s, a) = (sum r_j + {kappa} V_i(s)) / (n_a + {kappa}) over those that go on with a"
                ),
            ));
        } else {
            let credit = if self.lambda == 1.0 {
                format!("{token} = r_i - V_i(s_t); 0 where all rewards of the group agree")
            } else {
                format!(
                    "{token} = sum_l {}^l (V_i(s_{{t+l+1}}) - V_i(s_{{t+l}})), V_i = r_i after the last token; 0 where all rewards of the group agree",
                    number(self.lambda)
                )
            };
            parts.push(("credit", credit));
        }
        parts.push(("value", value));
        parts
    }
}
