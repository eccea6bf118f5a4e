use super::{Assignment, counted, each_counted, needed};
use crate::equation::{Part, inner, number};
use crate::group::Group;
use crate::method::Coupling;

/// Another assignment re-weighted by a teacher that has seen the reference answer (RLSD).
///
/// ```text
/// D_t = log pi(a_t|x, answer, y_<t) - log pi_old(a_t|x, y_<t)
/// D_t = clip(D_t, -gap_max, gap_max)
/// A_t = A ( (1 - share) + share clip( exp(sign(A) D_t), 1-epsilon, 1+epsilon ) )
/// ```
/// For the exact Bayes posterior `exp(D_t) = P(right|s_{t+1}) / P(right|s_t)`, and `sum_t D_t = log P(right|y) / P(right)`.
#[derive(Debug)]
pub struct TeacherWeighted {
    /// The assignment whose advantages are re-weighted.
    pub inner: Box<dyn Assignment>,
    /// `lambda`: the teacher's share, in `[0, 1]`.
    pub share: f64,
    /// `epsilon_w`: bound of the weight around 1, in `[0, 1]`.
    pub epsilon: f64,
    /// True if positive advantages stay as they are.
    pub negative_only: bool,
    /// Largest magnitude of `D_t`; infinite for none.
    pub gap_max: f64,
}

impl TeacherWeighted {
    fn weight(&self, a: f64, difference: f64) -> f64 {
        if self.negative_only && a >= 0.0 {
            return 1.0;
        }
        let difference = difference.clamp(-self.gap_max, self.gap_max);
        let ratio = (a.signum() * difference).exp().clamp(1.0 - self.epsilon, 1.0 + self.epsilon);
        (1.0 - self.share) + self.share * ratio
    }
}

impl Assignment for TeacherWeighted {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let mut advantages = self.inner.advantages(batch, active);
        for (row, (r, counts)) in advantages.iter_mut().zip(counted(batch, active)) {
            if !counts {
                continue;
            }
            let teacher = needed(&r.extra_inputs.teacher_logps, "teacher_logps");
            assert_eq!(teacher.len(), r.len(), "one teacher log-probability per token");
            for ((a, teacher), old) in row.iter_mut().zip(teacher).zip(&r.old_logps) {
                *a *= self.weight(*a, teacher - old);
            }
        }
        advantages
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let own = inner(token);
        let alone = if self.negative_only { format!(" where {own} < 0, else {own}") } else { String::new() };
        let weight = format!(
            "{token} = {own} ({} + {} clip(exp(sign({own}) D_t), {}, {})){alone}",
            number(1.0 - self.share),
            number(self.share),
            number(1.0 - self.epsilon),
            number(1.0 + self.epsilon)
        );
        let cut = if self.gap_max.is_finite() {
            format!(", cut at -/+ {}", number(self.gap_max))
        } else {
            String::new()
        };
        let difference = format!("D_t = log pi_old(a_t|reference answer, s_t) - log pi_old(a_t|s_t){cut}");
        let mut parts = vec![("teacher", weight), ("input", difference)];
        parts.extend(self.inner.equation(&own));
        parts
    }

    fn coupling(&self) -> Coupling {
        self.inner.coupling()
    }

    fn compares(&self) -> bool {
        self.inner.compares()
    }

    fn needs_others(&self) -> bool {
        self.inner.needs_others()
    }
}

/// The teacher's log-ratio at each token of a response that has a reward, whatever that is: the sampled reverse KL to the teacher as a reward without a future.
///
/// ```text
/// A_t = log pi_teacher(a_t|s_t) - log pi_old(a_t|s_t)
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TeacherGap;

impl Assignment for TeacherGap {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        each_counted(batch, active, |r, _| {
            let teacher = needed(&r.extra_inputs.teacher_logps, "teacher_logps");
            teacher.iter().zip(&r.old_logps).map(|(teacher, old)| teacher - old).collect()
        })
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        vec![("credit", format!("{token} = log pi_teacher(a_t|s_t) - log pi_old(a_t|s_t)"))]
    }

    fn coupling(&self) -> Coupling {
        Coupling::Rewards
    }

    fn compares(&self) -> bool {
        false
    }

    fn needs_others(&self) -> bool {
        false
    }
}
