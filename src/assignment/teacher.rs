use super::{Assignment, counted, evidence};
use crate::equation::{Part, inner, number};
use crate::group::Group;
use crate::method::Coupling;

/// Another assignment re-weighted by a teacher that has seen the reference answer (RLSD).
///
/// ```text
/// D_t = log pi(a_t|x, answer, y_<t) - log pi_old(a_t|x, y_<t)
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
}

impl TeacherWeighted {
    fn weight(&self, a: f64, difference: f64) -> f64 {
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
            let teacher = evidence(&r.evidence.teacher_logps, "teacher_logps");
            assert_eq!(teacher.len(), r.len(), "one teacher log-probability per token");
            for ((a, teacher), old) in row.iter_mut().zip(teacher).zip(&r.old_logps) {
                *a *= self.weight(*a, teacher - old);
            }
        }
        advantages
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let own = inner(token);
        let weight = format!(
            "{token} = {own} ({} + {} clip(exp(sign({own}) D_t), {}, {}))",
            number(1.0 - self.share),
            number(self.share),
            number(1.0 - self.epsilon),
            number(1.0 + self.epsilon)
        );
        let difference = "D_t = log pi_old(a_t|reference answer, s_t) - log pi_old(a_t|s_t)";
        let mut parts = vec![("teacher", weight), ("evidence", difference.to_owned())];
        parts.extend(self.inner.equation(&own));
        parts
    }

    fn coupling(&self) -> Coupling {
        self.inner.coupling()
    }

    fn compares(&self) -> bool {
        self.inner.compares()
    }
}
