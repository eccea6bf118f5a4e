/// The penalty of responses that come near the length limit (DAPO's soft overlong punishment), added to the reward.
///
/// ```text
/// 0                                  T <= limit - cache
/// ((limit - cache) - T) / cache      in between, falling to -1
/// -1                                 T > limit
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlong {
    /// `L_max`, in tokens.
    pub limit: f64,
    /// `L_cache`, in tokens, positive.
    pub cache: f64,
}

impl Overlong {
    /// The penalty added to the reward of a response of `len` tokens, in `[-1, 0]`.
    ///
    /// ```
    /// use grpo_lambda::assignment::Overlong;
    /// let dapo = Overlong { limit: 20480.0, cache: 4096.0 };
    /// assert_eq!([16384, 18432, 20480, 30000].map(|len| dapo.penalty(len)), [0.0, -0.5, -1.0, -1.0]);
    /// ```
    pub fn penalty(self, len: usize) -> f64 {
        ((self.limit - self.cache - len as f64) / self.cache).clamp(-1.0, 0.0)
    }
}
