//! Plain gradient ascent and AdamW with a clipped norm.

/// How parameters are stepped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Plain gradient ascent.
    Sgd,
    /// AdamW (Loshchilov & Hutter 2019) with betas 0.9 and 0.999, epsilon 1e-8, no weight decay, gradients clipped to norm 1: as
    /// language models are trained.
    AdamW,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Sgd, Kind::AdamW];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Sgd => "SGD",
            Kind::AdamW => "AdamW",
        }
    }
}

/// An optimiser with its state.
pub(super) struct Optimiser {
    kind: Kind,
    rate: f64,
    step: i32,
    first: Vec<f64>,
    second: Vec<f64>,
}

const BETAS: [f64; 2] = [0.9, 0.999];
const EPSILON: f64 = 1e-8;
const NORM: f64 = 1.0;

impl Optimiser {
    pub(super) fn new(kind: Kind, rate: f64, parameters: usize) -> Optimiser {
        Optimiser { kind, rate, step: 0, first: vec![0.0; parameters], second: vec![0.0; parameters] }
    }

    /// Moves the parameters along the gradient of what is to be maximised.
    pub(super) fn ascend(&mut self, parameters: &mut [f64], gradient: &[f64]) {
        if self.kind == Kind::Sgd {
            parameters.iter_mut().zip(gradient).for_each(|(p, g)| *p += self.rate * g);
            return;
        }
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let shrink = (NORM / norm.max(NORM)).min(1.0);
        self.step += 1;
        let corrections = BETAS.map(|b| 1.0 - b.powi(self.step));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((p, g), (m, v)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let g = g * shrink;
            *m = BETAS[0] * *m + (1.0 - BETAS[0]) * g;
            *v = BETAS[1] * *v + (1.0 - BETAS[1]) * g * g;
            *p += self.rate * (*m / corrections[0]) / ((*v / corrections[1]).sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_of_adamw_is_the_rate_whatever_the_size_of_the_gradient() {
        for g in [1e-3, 5.0] {
            let mut p = [0.0, 0.0];
            Optimiser::new(Kind::AdamW, 0.1, 2).ascend(&mut p, &[g, -g]);
            assert!((p[0] - 0.1).abs() < 1e-5 && (p[1] + 0.1).abs() < 1e-5, "{p:?}");
        }
    }

    #[test]
    fn two_steps_of_adamw_by_hand() {
        // g = 0.5, then -0.25 (norms below 1): m = 0.05, 0.02; v = 0.00025, 0.00031225.
        let mut p = [0.0];
        let mut adam = Optimiser::new(Kind::AdamW, 1.0, 1);
        adam.ascend(&mut p, &[0.5]);
        adam.ascend(&mut p, &[-0.25]);
        let second = (0.02 / 0.19) / ((0.000_312_25_f64 / 0.001_999).sqrt() + 1e-8);
        assert!((p[0] - (1.0 / (1.0 + 2e-8) + second)).abs() < 1e-9, "{p:?}");
        let mut q = [0.0];
        Optimiser::new(Kind::Sgd, 0.1, 1).ascend(&mut q, &[0.5]);
        assert!((q[0] - 0.05).abs() < 1e-15);
    }
}
