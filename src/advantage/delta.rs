//! [`Delta`]: from the advantage of a response to those of its tokens.

/// The spread of an outcome advantage over the `delta_t` of a response's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// `delta_t = A` at every token: what GRPO-lambda does (and GRPO).
    Constant,
    /// `delta_t = 0` but for the last token, which gets `A`: the TD errors of a constant critic `V = V(s_0)` at
    /// `gamma = 1`. With a [`Recent`](crate::trace::Recent) trace it is GAE, `A_t = lambda^(T-1-t) A`.
    Terminal,
}

impl Delta {
    /// The `delta_t` of a response of `len` tokens.
    ///
    /// ```
    /// use grpo_lambda::advantage::Delta;
    /// assert_eq!(Delta::Terminal.spread(2.0, 3), [0.0, 0.0, 2.0]);
    /// ```
    pub fn spread(self, advantage: f64, len: usize) -> Vec<f64> {
        match self {
            Delta::Constant => vec![advantage; len],
            Delta::Terminal => {
                let mut delta = vec![0.0; len];
                delta.last_mut().into_iter().for_each(|last| *last = advantage);
                delta
            }
        }
    }

    /// The advantage of a token, called `token`, from that of its response.
    pub fn equation(self, token: &str) -> String {
        match self {
            Delta::Constant => format!("{token} = A_i at every token"),
            Delta::Terminal => format!("{token} = A_i at the last token, 0 before it"),
        }
    }
}
