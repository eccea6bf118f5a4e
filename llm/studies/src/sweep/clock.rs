//! The remaining time of several runs.

use std::time::{Duration, Instant};

use grpo_lambda_trainer::run::progress::format_duration;

/// The stage of a run.
#[derive(Clone, Copy)]
pub(super) enum RunKind {
    /// Supervised fine-tuning, shared by several runs.
    Sft,
    Rl,
}

/// Estimates the remaining time of several runs.
#[derive(Debug)]
pub(super) struct EtaClock {
    started: Instant,
    total: usize,
    /// Runs left, and seconds of the finished ones, by kind.
    left: [usize; 2],
    seconds: [Vec<f64>; 2],
}

impl Default for EtaClock {
    fn default() -> EtaClock {
        EtaClock { started: Instant::now(), total: 0, left: [0; 2], seconds: Default::default() }
    }
}

impl EtaClock {
    pub(super) fn expect(&mut self, supervised: usize, reinforced: usize) {
        self.total += supervised + reinforced;
        self.left[RunKind::Sft as usize] += supervised;
        self.left[RunKind::Rl as usize] += reinforced;
    }

    pub(super) fn done(&mut self, kind: RunKind, seconds: f64) {
        self.left[kind as usize] -= 1;
        self.seconds[kind as usize].push(seconds);
    }

    /// The remaining time, from the mean of each kind's runs; `None` until every remaining kind has been timed.
    fn to_go(&self) -> Option<Duration> {
        let seconds_of = |kind: usize| match (self.left[kind], self.seconds[kind].len()) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            (left, timed) => Some(left as f64 * self.seconds[kind].iter().sum::<f64>() / timed as f64),
        };
        Some(Duration::from_secs_f64(seconds_of(0)? + seconds_of(1)?))
    }

    pub(super) fn line(&self) -> String {
        let number = self.total - self.left.iter().sum::<usize>() + 1;
        let so_far = format_duration(self.started.elapsed());
        let to_go = match self.to_go() {
            Some(time) => format!("ETA of all {}", format_duration(time)),
            None => "ETA of all after the first RL run".to_owned(),
        };
        format!("[{number}/{}] {so_far} so far, {to_go}", self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_go_is_shown_once_every_kind_has_been_timed() {
        let mut clock = EtaClock::default();
        clock.expect(2, 4);
        clock.done(RunKind::Sft, 10.0);
        assert_eq!(clock.to_go(), None);
        clock.done(RunKind::Sft, 12.0);
        clock.done(RunKind::Rl, 30.0);
        clock.done(RunKind::Rl, 50.0);
        assert_eq!(clock.to_go(), Some(Duration::from_secs(80)));
        assert!(clock.line().starts_with("[5/6] "), "{}", clock.line());
    }
}
