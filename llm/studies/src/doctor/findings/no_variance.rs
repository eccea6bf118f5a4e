//! Groups in which every response has the same reward.

use crate::doctor::{Advice, Check, Column, Evidence, Log};

/// Share of groups from which so little is learned that most of the sampling is for nothing.
const MOST: f64 = 0.9;

pub(super) static CHECK: Check = Check {
    id: "no-variance",
    title: "Groups without variance",
    sign: "on average over the last tenth of the steps (10 or more) at least 90 % of the groups have equal rewards",
    meaning: "A group whose responses all have the same reward has no advantage and teaches nothing: the batch is in truth a tenth of its size or \
              smaller. Either nearly all problems are solved by now, or nearly none can be.",
    advice: Advice {
        ours: "rl.dynamic_sampling=true samples until enough groups differ; other problems (task.data, task.levels), larger rl.group_size",
        trl: "problems of another difficulty, larger num_generations, or a trainer with dynamic sampling",
        verl: "algorithm.filter_groups.enable=True (DAPO), problems of another difficulty, larger actor_rollout_ref.rollout.n",
    },
    needs: &[Column::ZeroVariance],
    examine,
};

fn examine(log: &Log) -> Option<Evidence> {
    let recent = log.recent(Column::ZeroVariance)?;
    (recent.mean() >= MOST).then(|| Evidence::share(&recent, "groups have equal rewards"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Framework;

    fn log(share: f64) -> Log {
        Log::new(Framework::Trl, false).with(Column::ZeroVariance, 40, |i| if i < 30 { 0.0 } else { share })
    }

    #[test]
    fn nine_tenths_are_found_and_a_little_less_is_not() {
        assert_eq!(examine(&log(0.89)), None);
        let found = examine(&log(0.9)).expect("found");
        assert_eq!(
            (found.text.as_str(), found.steps),
            ("90 % of the groups have equal rewards", (31.0, 40.0))
        );
    }
}
