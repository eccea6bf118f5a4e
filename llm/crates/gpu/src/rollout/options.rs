//! Settings of a rollout.

/// How a rollout is carried out; changes no response, but for rounding where `prefill_tokens` changes the sizes of products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutOptions {
    /// Tokens of prompts that are read at once.
    pub prefill_tokens: usize,
    /// Whether a step is captured once and replayed, instead of launched anew.
    pub capture: bool,
    /// Steps between two questions whether a row is still active.
    pub poll_every: usize,
}

impl Default for RolloutOptions {
    /// With `CUDA_LAUNCH_BLOCKING=1` nothing is captured: it is set to learn which launch fails, and a replay has no names.
    fn default() -> Self {
        let capture = !blocks(std::env::var("CUDA_LAUNCH_BLOCKING").ok().as_deref());
        RolloutOptions { prefill_tokens: 8192, capture, poll_every: 8 }
    }
}

/// Whether this value of the variable makes the driver wait for every launch.
fn blocks(value: Option<&str>) -> bool {
    value.is_some_and(|value| value.trim().parse::<i64>().is_ok_and(|n| n != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_captured_unless_every_launch_is_waited_for() {
        assert!([None, Some(""), Some("0"), Some("no")].into_iter().all(|value| !blocks(value)));
        assert!(blocks(Some("1")) && blocks(Some(" 1")));
    }
}
