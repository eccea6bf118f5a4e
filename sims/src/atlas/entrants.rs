//! Who takes part: every registered method, at its defaults and in the readings that change what it does.

use grpo_lambda::mdp::Tree;
use grpo_lambda::methods::{self, Configured, Provenance};

/// What a method's credit rests on: the grouping of tables and figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// One number per response.
    Group,
    /// Token weights or traces from positions and probabilities.
    Trace,
    /// Scores of a model: entropies, perturbations, a privileged teacher.
    Score,
    /// Values, of a critic, of fresh completions or of a prefix tree.
    Value,
}

impl Family {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Family::Group => "group",
            Family::Trace => "trace",
            Family::Score => "score",
            Family::Value => "value",
        }
    }
}

/// A method with its settings, under the name it has in tables and figures.
#[derive(Clone, Copy, Debug)]
pub struct Entrant {
    /// Its name for a reader; says `recon.` where the formulas are ours.
    pub name: &'static str,
    /// Its name in the registry.
    pub method: &'static str,
    /// Settings over the defaults, without those that depend on the task.
    pub settings: &'static str,
    /// What its credit rests on.
    pub family: Family,
}

impl Entrant {
    /// The method on a task. Dr. GRPO's constant length is that of the longest response.
    ///
    /// # Errors
    /// If the settings are refused.
    pub fn build(&self, tree: &Tree) -> anyhow::Result<Configured> {
        let mut settings = self.settings.to_owned();
        if self.method == "dr_grpo" {
            settings += &format!(" max_length={}", tree.max_len());
        }
        Ok(methods::parse(self.method, &settings)?)
    }

    /// Method and settings as a command takes them.
    pub fn command(&self) -> String {
        format!("{} {}", self.method, self.settings).trim_end().to_owned()
    }

    /// Where its formulas come from.
    ///
    /// # Panics
    /// If the registry does not know it, which a test excludes.
    pub fn provenance(&self) -> Provenance {
        methods::find(self.method).map(|spec| spec.provenance).unwrap_or_else(|e| panic!("{e}"))
    }
}

const fn entrant(
    family: Family,
    name: &'static str,
    method: &'static str,
    settings: &'static str,
) -> Entrant {
    Entrant { name, method, settings, family }
}

/// The one all others are compared with.
pub const BASELINE: &str = "GRPO";

/// Everyone, baseline first, families together.
pub static ENTRANTS: &[Entrant] = &[
    entrant(Family::Group, BASELINE, "grpo", "reduction=token_mean"),
    entrant(Family::Group, "GRPO, 1/T", "grpo", "reduction=response_mean"),
    entrant(Family::Group, "GRPO, clamp -0.1", "grpo", "reduction=token_mean clamp=-0.1"),
    entrant(Family::Group, "Dr. GRPO", "dr_grpo", ""),
    entrant(Family::Group, "RLOO", "rloo", ""),
    entrant(Family::Group, "GRPO, batch std", "grpo_batch_std", ""),
    entrant(Family::Group, "DAPO", "dapo", ""),
    entrant(Family::Group, "BNPO (token mean)", "bnpo", ""),
    entrant(Family::Group, "BNPO (beta)", "bnpo_beta", ""),
    entrant(Family::Group, "GSPO", "gspo", ""),
    entrant(Family::Group, "GSPO-token", "gspo_token", ""),
    entrant(Family::Group, "CISPO", "cispo", ""),
    entrant(Family::Group, "REINFORCE++", "reinforce_pp", ""),
    entrant(Family::Group, "REINFORCE++ baseline", "reinforce_pp_baseline", ""),
    entrant(Family::Trace, "GRPO-λ recent", "grpo_lambda", "style=recent"),
    entrant(Family::Trace, "GRPO-λ both", "grpo_lambda", "style=both"),
    entrant(Family::Trace, "GRPO-λ recent, no clamp", "grpo_lambda", "style=recent clamp=none"),
    entrant(Family::Trace, "GRPO-λ both, no clamp", "grpo_lambda", "style=both clamp=none"),
    entrant(Family::Trace, "GRPO-λ recent, ε-weight", "grpo_lambda", "style=recent update=weight"),
    entrant(Family::Trace, "GRPO-λ both, ε-weight", "grpo_lambda", "style=both update=weight"),
    entrant(Family::Trace, "P-trace (recon.)", "p_trace_reconstructed", ""),
    entrant(Family::Trace, "S-trace (recon.)", "s_trace_reconstructed", ""),
    entrant(Family::Score, "high entropy 80/20", "high_entropy", ""),
    entrant(Family::Score, "OAR-P", "oar_p", ""),
    entrant(Family::Score, "OAR-G", "oar_g", ""),
    entrant(Family::Score, "RLSD (recon.)", "rlsd_reconstructed", ""),
    entrant(Family::Score, "SHEAR (recon.)", "shear_reconstructed", ""),
    entrant(Family::Value, "optimal token baseline", "optimal_token_baseline", ""),
    entrant(Family::Value, "TEMPO", "tempo", ""),
    entrant(Family::Value, "PPO, exact critic", "ppo", ""),
    entrant(Family::Value, "VinePPO", "vine_ppo", ""),
    entrant(Family::Value, "SPO-chain", "spo_chain", ""),
    entrant(Family::Value, "SPO-tree", "spo_tree", ""),
    entrant(Family::Value, "TreeRL", "tree_rl", ""),
    entrant(Family::Value, "TreeRPO (recon.)", "tree_rpo_reconstructed", ""),
];

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::mdp::zoo;

    #[test]
    fn every_registered_method_takes_part_under_names_of_its_own() {
        for spec in methods::REGISTRY {
            assert!(ENTRANTS.iter().any(|e| e.method == spec.name), "{} is missing", spec.name);
        }
        let mut names: Vec<_> = ENTRANTS.iter().map(|e| e.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ENTRANTS.len());
        assert_eq!(ENTRANTS[0].name, BASELINE);
        assert!(ENTRANTS.is_sorted_by_key(|e| e.family));
    }

    #[test]
    fn all_build_and_what_is_reconstructed_says_so() {
        let tree = (zoo::find("fork").unwrap().build)();
        for e in ENTRANTS {
            let configured = e.build(&tree).unwrap_or_else(|error| panic!("{}: {error}", e.name));
            assert!(configured.idle().is_empty(), "{}: {:?}", e.name, configured.idle());
            assert_eq!(e.provenance() == Provenance::Reconstructed, e.name.contains("recon."), "{}", e.name);
        }
    }
}
