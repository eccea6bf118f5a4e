//! Weights of spans by how far their hidden states lie from those of responses with the opposite outcome.

use super::{Assignment, Sinkhorn, counted, needed};
use crate::equation::{Part, inner, number};
use crate::group::{Group, Response};

/// Another assignment times the distance of a token's span from the nearest span of an opposite response (SHEAR).
///
/// ```text
/// d_{i,k} = min over responses j of the group with A_j of the other sign, and their windows q, of  W(window k of i, window q of j)
/// A_t     = A_i  max over the windows k that hold t of d_{i,k}  /  mean |h|
/// ```
/// `W` is an entropic transport cost between the hidden states in two windows ([`Sinkhorn`]), the mean is over all tokens of the
/// group's responses that count. The weight is not negative, so every token keeps the sign of its response's advantage; the mass is not
/// preserved. Windows begin every `stride` tokens, up to the first that reaches the end, where it is cut off. A response without an opposite one to be
/// compared with keeps its advantage.
#[derive(Debug)]
pub struct SpanWeighted {
    /// The inner credit; its first token says the sign of a response's outcome.
    pub inner: Box<dyn Assignment>,
    /// Tokens of a window, at least 1.
    pub window: usize,
    /// Tokens between the starts of windows, at least 1.
    pub stride: usize,
    /// The distance of two windows.
    pub transport: Sinkhorn,
}

/// A response's hidden states, cut into windows.
struct Spans<'a> {
    states: &'a [Vec<f64>],
    /// First token and the token after the last.
    windows: Vec<(usize, usize)>,
    /// The mean state of each window.
    means: Vec<Vec<f64>>,
}

impl<'a> Spans<'a> {
    fn window(&self, k: usize) -> &'a [Vec<f64>] {
        let (start, end) = self.windows[k];
        &self.states[start..end]
    }

    /// The least distance of each window from any of `others`.
    fn nearest(&self, others: &[&Spans], transport: Sinkhorn) -> Vec<f64> {
        let mut found: Vec<f64> = Vec::with_capacity(self.windows.len());
        for k in 0..self.windows.len() {
            // Along a constant stretch windows repeat.
            if k > 0 && self.window(k) == self.window(k - 1) {
                found.push(found[k - 1]);
                continue;
            }
            let mut best = f64::INFINITY;
            'others: for other in others {
                for (q, mean) in other.means.iter().enumerate() {
                    // No plan is cheaper than moving the means, and none is negative.
                    if best == 0.0 {
                        break 'others;
                    }
                    if between(&self.means[k], mean) < best {
                        best = best.min(transport.cost(self.window(k), other.window(q)));
                    }
                }
            }
            found.push(best);
        }
        found
    }
}

fn between(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

impl SpanWeighted {
    fn spans<'a>(&self, response: &'a Response) -> Spans<'a> {
        let states = needed(&response.extra_inputs.hidden, "hidden");
        let len = response.len();
        assert_eq!(states.len(), len, "one hidden state per token");
        let mut windows = vec![(0, self.window.min(len))];
        while let Some(&(start, end)) = windows.last().filter(|(_, end)| *end < len) {
            let next = start + self.stride;
            // A stride beyond the window leaves tokens out; they belong to no window and weigh nothing.
            if next >= len {
                break;
            }
            debug_assert!(end < len);
            windows.push((next, (next + self.window).min(len)));
        }
        let mean = |&(start, end): &(usize, usize)| {
            let width = states[start].len();
            let own = &states[start..end];
            (0..width).map(|h| own.iter().map(|s| s[h]).sum::<f64>() / own.len() as f64).collect()
        };
        let means = windows.iter().map(mean).collect();
        Spans { states, windows, means }
    }

    /// The weight of every token of the responses of a group that count and have opposites: `None` for the others, whose advantage stays.
    fn weights(&self, responses: &[(&Response, f64, bool)]) -> Vec<Option<Vec<f64>>> {
        let spans: Vec<Option<Spans>> =
            responses.iter().map(|&(r, a, counts)| (counts && a != 0.0).then(|| self.spans(r))).collect();
        let counted = || responses.iter().filter(|(_, a, counts)| *counts && *a != 0.0);
        let states = || counted().flat_map(|(r, ..)| r.extra_inputs.hidden.iter().flatten());
        let norm = |s: &Vec<f64>| s.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mean = states().map(norm).sum::<f64>() / states().count() as f64;
        let span_weights = |(i, own): (usize, &Option<Spans>)| {
            let own = own.as_ref()?;
            let opposite = |j: usize| responses[j].1 * responses[i].1 < 0.0;
            let others: Vec<&Spans> =
                (0..spans.len()).filter(|&j| opposite(j)).filter_map(|j| spans[j].as_ref()).collect();
            if others.is_empty() {
                return None;
            }
            let mut weights = vec![0.0f64; own.states.len()];
            if mean <= 0.0 {
                return Some(weights);
            }
            for (&(start, end), d) in own.windows.iter().zip(own.nearest(&others, self.transport)) {
                weights[start..end].iter_mut().for_each(|w| *w = w.max(d / mean));
            }
            Some(weights)
        };
        spans.iter().enumerate().map(span_weights).collect()
    }
}

impl Assignment for SpanWeighted {
    fn advantages(&self, batch: &[Group], active: &[bool]) -> Vec<Vec<f64>> {
        let mut advantages = self.inner.advantages(batch, active);
        let mut all = counted(batch, active);
        let mut rows = advantages.iter_mut();
        for group in batch {
            let n = group.responses.len();
            let mut own: Vec<&mut Vec<f64>> = rows.by_ref().take(n).collect();
            let responses: Vec<(&Response, f64, bool)> = all
                .by_ref()
                .take(n)
                .zip(&own)
                .map(|((r, counts), row)| (r, row.first().copied().unwrap_or(0.0), counts))
                .collect();
            for (row, weights) in own.iter_mut().zip(self.weights(&responses)) {
                let Some(weights) = weights else { continue };
                row.iter_mut().zip(weights).for_each(|(a, w)| *a *= w);
            }
        }
        advantages
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        let own = inner(token);
        let Sinkhorn { regularisation, steps } = self.transport;
        let span = format!(
            "{token} = {own} max_k d_k / n over the windows k of {} tokens, one every {}, that hold t",
            self.window, self.stride
        );
        let distance = "d_k = min W(k, q) over the windows q of the responses of the group whose advantage has the other sign; A_i as it is without one";
        let transport = format!(
            "W = the transport cost between the hidden states of two windows under the entropic plan of weight {} mean distances, {steps} iterations at most; n = the mean norm of a hidden state in the group",
            number(regularisation)
        );
        let mut parts = vec![("span", span), ("distance", distance.to_owned()), ("transport", transport)];
        parts.extend(self.inner.equation(&own));
        parts
    }

    fn compares(&self) -> bool {
        self.inner.compares()
    }

    fn needs_others(&self) -> bool {
        self.inner.needs_others()
    }
}
