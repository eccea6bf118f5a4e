//! The ranked tasks, the competitors with their knowledge of values, and the entries left out.

use crate::atlas::entries::{ENTRIES, Entry, Family, Source};
use crate::training::Task;
use grpo_lambda::group::InputKind;
use grpo_lambda::methods::Method;
use grpo_lambda_mdp::extra_inputs::Exact;

use grpo_lambda_mdp::RewardKind;

/// Completions per valued prefix where values are estimated.
pub(super) const COMPLETIONS: usize = 8;

/// The source of an entry's extra inputs, which decides its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// Rewards, tokens and probabilities of the group itself: nothing beyond sampling.
    Group,
    /// Numbers of the policy's own next-token distributions, which sampling computes anyway.
    Distribution,
    /// True values, at no charge: an upper bound that no trainer reaches.
    Oracle,
    /// A teacher that is given the answer: exact here, charged one scored token per token of a response.
    Teacher,
    /// [`COMPLETIONS`] fresh completions of each prefix that is valued, charged in full.
    Completions(Valued),
}

/// The prefixes of a response that fresh completions value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Valued {
    /// Steps: those at which the policy has a choice. A step is a choice with the forced tokens after it.
    Choices,
    /// Segments: as SPO-chain cuts, but at every second instead of every fifth token that was sampled with a probability below 0.9,
    /// since the responses here have few.
    Cuts,
    /// Every prefix, for a critic. Prefixes between two choices have one value.
    All,
}

impl Valued {
    fn needed(entry: &Entry, kinds: &[InputKind]) -> Valued {
        match (kinds.contains(&InputKind::Values), entry.method) {
            (true, _) => Valued::All,
            (false, "spo_chain") => Valued::Cuts,
            (false, _) => Valued::Choices,
        }
    }
}

impl Knowledge {
    pub(super) fn name(self) -> &'static str {
        match self {
            Knowledge::Group => "group",
            Knowledge::Distribution => "distribution",
            Knowledge::Oracle => "true values",
            Knowledge::Teacher => "teacher",
            Knowledge::Completions(_) => "completions",
        }
    }
}

/// An entry with the source of its extra inputs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Competitor {
    pub(super) entry: &'static Entry,
    pub(super) knowledge: Knowledge,
}

impl Competitor {
    /// An entry as it learns by itself: with true values where it needs values and does not say otherwise.
    fn new(entry: &'static Entry, task: &Task) -> anyhow::Result<Competitor> {
        use InputKind::{Collisions, Entropies, Steps, TeacherLogps, Values};
        let kinds = entry.build(&task.tree)?.extra_inputs();
        let needs = |of: &[InputKind]| kinds.iter().any(|kind| of.contains(kind));
        let knowledge = if matches!(entry.source, Source::Completions(_)) {
            Knowledge::Completions(Valued::needed(entry, &kinds))
        } else if needs(&[Values, Steps]) {
            Knowledge::Oracle
        } else if needs(&[TeacherLogps]) {
            Knowledge::Teacher
        } else if needs(&[Entropies, Collisions]) {
            Knowledge::Distribution
        } else {
            Knowledge::Group
        };
        Ok(Competitor { entry, knowledge })
    }

    /// Its name for a reader: the entry's, and what its values cost.
    pub(super) fn name(&self) -> String {
        let name = self.entry.name;
        match self.knowledge {
            Knowledge::Oracle => format!("{name} (free)"),
            Knowledge::Completions(_) if self.entry.source == Source::Table => {
                let stem = EXACT.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                format!("{stem}, K = {COMPLETIONS}")
            }
            _ => name.to_owned(),
        }
    }

    pub(super) fn family(&self) -> Family {
        self.entry.family
    }

    pub(super) fn build(&self, task: &Task) -> anyhow::Result<Box<dyn Method>> {
        Ok(self.entry.build(&task.tree)?.method)
    }
}

/// Ends of the names of entries whose values are exact.
const EXACT: [&str; 2] = [", exact critic", ", exact values"];

/// An entry that cannot learn on a table.
#[derive(Clone, Debug)]
pub(super) struct Excluded {
    pub(super) entry: &'static Entry,
    pub(super) reason: String,
}

/// Everyone, baseline first, and those that cannot take part. An entry that needs exact values takes part a second time with those that
/// completions give.
pub(super) fn all(task: &Task) -> anyhow::Result<(Vec<Competitor>, Vec<Excluded>)> {
    let (mut competitors, mut excluded): (Vec<Competitor>, Vec<Excluded>) = (Vec::new(), Vec::new());
    let given = Exact::kinds_on(&task.tree);
    for entry in ENTRIES.iter() {
        let configured = entry.build(&task.tree)?;
        if let Err(missing) = configured.require(&given) {
            excluded.push(Excluded { entry, reason: missing.to_string() });
            continue;
        }
        if entry.source == Source::Masked {
            let reason =
                "uses OAR's policy, which is no table; on a table it is the entry without these words";
            excluded.push(Excluded { entry, reason: reason.into() });
            continue;
        }
        let competitor = Competitor::new(entry, task)?;
        competitors.push(competitor);
        let counterpart = |e: &Entry| {
            matches!(e.source, Source::Completions(_))
                && (e.method, e.settings) == (entry.method, entry.settings)
        };
        let exact = competitor.knowledge == Knowledge::Oracle && entry.source == Source::Table;
        if exact && !ENTRIES.iter().any(counterpart) {
            let valued = Valued::needed(entry, &configured.extra_inputs());
            competitors.push(Competitor { knowledge: Knowledge::Completions(valued), ..competitor });
        }
    }
    Ok((competitors, excluded))
}

/// The ranked tasks: those whose rewards are 0 or 1, so that a teacher who knows the answer is defined and every competitor can learn on
/// every task.
pub(super) fn named(full: bool) -> anyhow::Result<Vec<Task>> {
    let atlas = crate::atlas::tasks::tasks(full)?;
    Ok(atlas.into_iter().filter(|task| task.tree.reward_kind() == RewardKind::Binary).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::distinct;

    #[test]
    fn every_entry_learns_or_says_why_not() {
        let task = &crate::training::tasks(false).unwrap()[0];
        let (all, excluded) = all(task).unwrap();
        let names: Vec<String> = all.iter().map(Competitor::name).collect();
        assert_eq!(names[0], crate::atlas::entries::BASELINE);
        assert_eq!(distinct(&names).len(), names.len());
        for entry in ENTRIES.iter() {
            let learns = all.iter().any(|c| c.entry.name == entry.name);
            assert_ne!(learns, excluded.iter().any(|e| e.entry.name == entry.name), "{}", entry.name);
            if let Source::Completions(k) = entry.source {
                assert_eq!(k, COMPLETIONS, "one number of completions for all");
            }
        }
        // What is left out samples from a policy with an input, next to which GRPO stands once more.
        assert!(excluded.iter().all(|e| e.entry.source == Source::Masked), "{excluded:?}");
        let refused = |e: &&Excluded| e.entry.method != "grpo" && e.reason.contains("needs");
        assert_eq!(excluded.iter().filter(refused).count(), 3);
    }

    #[test]
    fn exact_values_are_free_and_say_so_and_each_has_a_paid_counterpart() {
        let task = &crate::training::tasks(false).unwrap()[0];
        let all = all(task).unwrap().0;
        let free = |c: &&Competitor| c.knowledge == Knowledge::Oracle;
        assert!(all.iter().filter(free).count() >= 6);
        for c in all.iter().filter(free) {
            assert!(c.name().ends_with("(free)"), "{}", c.name());
            let paid = |o: &&Competitor| {
                matches!(o.knowledge, Knowledge::Completions(_))
                    && (o.entry.method, o.entry.settings) == (c.entry.method, c.entry.settings)
            };
            let counterparts: Vec<_> = all.iter().filter(paid).map(Competitor::name).collect();
            assert_eq!(counterparts.len(), 1, "{}", c.name());
            assert!(counterparts[0].ends_with(", K = 8"), "{}", counterparts[0]);
        }
    }
}
