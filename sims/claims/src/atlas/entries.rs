//! Entries: every registered method, at its defaults and in the variants that change what it does.

use grpo_lambda::group::InputKind;
use grpo_lambda::methods::{self, Configured, MethodSpec, Provenance};
use grpo_lambda_mdp::{Oracle, Target, Tree};
use std::sync::LazyLock;

/// The basis of a method's credit: groups of tables and figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
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
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::Group => "group",
            Family::Trace => "trace",
            Family::Score => "score",
            Family::Value => "value",
        }
    }
}

/// The provider of an entry's extra inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Source {
    /// Extra inputs of a table: exact values, entropies, the Bayes teacher.
    Table,
    /// A table's with a critic that errs by independent normal numbers of this standard deviation, fixed per prefix.
    NoisyCritic(f64),
    /// A table's with a critic that says `J` everywhere.
    ConstantCritic,
    /// Values of steps from this many fresh completions of every prefix, every token a step.
    Completions(usize),
    /// The scores of a policy whose input can be masked, fitted to the task's start policy and then itself the policy that samples.
    Masked,
}

/// An entry's needs beyond the responses themselves, per response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Extra {
    /// Nothing.
    None,
    /// This many passes over the response.
    PerResponse(u32),
    /// A pass over the response for every token but its last.
    PerToken,
    /// This many completions of the prefix before every token.
    Completions(usize),
    /// Values without error, which no number of completions gives.
    Limit,
}

impl Extra {
    /// In units of one response of the policy: a scored response counts one, a completion the share of a response that it writes. Infinite for
    /// [`Extra::Limit`].
    pub(super) fn responses(self, oracle: &Oracle) -> f64 {
        let length = oracle.mean_length();
        match self {
            Extra::None => 0.0,
            Extra::PerResponse(n) => f64::from(n),
            Extra::PerToken => length - 1.0,
            Extra::Completions(k) => k as f64 * remaining_along(oracle) / length,
            Extra::Limit => f64::INFINITY,
        }
    }
}

/// `E[Σ_t L(s_t)]` over responses, `L(s)` the mean number of tokens that a completion of `s` writes.
fn remaining_along(oracle: &Oracle) -> f64 {
    let tree = oracle.tree;
    let mut remaining = vec![1.0; tree.node_count()];
    for node in tree.nodes().rev() {
        for edge in tree.edges_of(node) {
            if let Target::Node(next) = tree.target(edge) {
                remaining[node] += oracle.probs[edge] * remaining[next];
            }
        }
    }
    tree.nodes().map(|node| oracle.visit[node] * remaining[node]).sum()
}

/// An entry's cost per response beyond GRPO, and its needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Scored responses: forward passes of the policy or of another model.
    pub(super) forwards: Extra,
    pub(super) rollouts: Extra,
    /// Its needs in words; `-` for none.
    pub(super) needs: &'static str,
}

impl Cost {
    /// Responses written or scored per response trained on, its own among them; at least 1.
    pub(super) fn responses(&self, oracle: &Oracle) -> f64 {
        1.0 + self.forwards.responses(oracle) + self.rollouts.responses(oracle)
    }
}

/// Beyond GRPO nothing.
const FREE: Cost = Cost { forwards: Extra::None, rollouts: Extra::None, needs: "-" };

/// A method with its settings, under the name it has in tables and figures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Its name for a reader; says `recon.` where the formulas are ours.
    pub(super) name: &'static str,
    /// Its name in the registry.
    pub(super) method: &'static str,
    /// Settings over the defaults, without those that depend on the task.
    pub(super) settings: &'static str,
    pub(super) family: Family,
    pub(super) source: Source,
    pub(super) cost: Cost,
    /// True if it compares responses in pairs at such length that only small trees can be simulated.
    pub(super) pairwise: bool,
}

impl Entry {
    /// With extra inputs from elsewhere than the table.
    const fn from(mut self, source: Source) -> Entry {
        self.source = source;
        self
    }

    /// Compares responses in pairs, at length.
    const fn pairwise(mut self) -> Entry {
        self.pairwise = true;
        self
    }

    /// Needs this, at no cost.
    const fn needs(mut self, needs: &'static str) -> Entry {
        self.cost.needs = needs;
        self
    }

    /// Scores this much besides.
    const fn forwards(mut self, forwards: Extra) -> Entry {
        self.cost.forwards = forwards;
        self
    }

    /// Completes this much besides.
    const fn rollouts(mut self, rollouts: Extra) -> Entry {
        self.cost.rollouts = rollouts;
        self
    }

    /// The method on a task. Dr. GRPO's constant length is that of the longest response.
    pub(super) fn build(&self, tree: &Tree) -> anyhow::Result<Configured> {
        let mut settings = self.settings.to_owned();
        if self.method == "dr_grpo" {
            settings += &format!(" max_length={}", tree.max_len());
        }
        Ok(methods::parse(self.method, &settings)?)
    }

    /// Method and settings as a command takes them.
    pub(super) fn command(&self) -> String {
        format!("{} {}", self.method, self.settings).trim_end().to_owned()
    }

    /// The source of its formulas.
    ///
    /// # Panics
    /// If the registry does not know it, which a test excludes.
    pub(super) fn provenance(&self) -> Provenance {
        methods::find(self.method).map(|spec| spec.provenance).unwrap_or_else(|e| panic!("{e}"))
    }
}

pub(super) const fn entry(
    family: Family,
    name: &'static str,
    method: &'static str,
    settings: &'static str,
) -> Entry {
    Entry { name, method, settings, family, source: Source::Table, cost: FREE, pairwise: false }
}

/// The one all others are compared with.
pub(super) const BASELINE: &str = "GRPO";

/// Plain sums without whitening: what makes generalised advantage estimation unbiased with the exact critic.
const GAE: &str = "whiten=false reduction=response_sum";
const CRITIC: &str = "a critic";
const ENTROPY: &str = "entropies";
const GROUP_TREE: &str = "shared prefixes (here: those of the group)";

/// Everyone, baseline first, families together: the entries listed, and every registered method that is neither listed nor left out, at its
/// defaults.
pub(super) static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let known = |name| LISTED.iter().any(|e| e.method == name) || LEFT_OUT.iter().any(|(n, _)| *n == name);
    let others = methods::REGISTRY.iter().filter(|spec| !known(spec.name)).map(|spec| by_default(spec));
    let mut all: Vec<Entry> = LISTED.iter().copied().chain(others).collect();
    all.sort_by_key(|e| e.family);
    all
});

/// Methods that joined when the streams of random numbers had been numbered.
const JOINED: [&str; 5] = ["topr", "fipo", "maxrl", "grpo_lead", "distillation"];

/// The number of an entry's streams: its place among those that were there from the start, or one after all of these.
pub(super) fn stream(entry: usize) -> usize {
    let joined = |e: &Entry| JOINED.iter().position(|name| *name == e.method);
    let first = |entries: &[Entry]| entries.iter().filter(|e| joined(e).is_none()).count();
    joined(&ENTRIES[entry]).map_or_else(|| first(&ENTRIES[..entry]), |after| first(&ENTRIES) + after)
}

/// A method at its defaults, its family by the extra inputs it needs.
fn by_default(spec: &'static MethodSpec) -> Entry {
    let extra_inputs =
        methods::parse(spec.name, "").map_or(Vec::new(), |configured| configured.extra_inputs());
    let needed = extra_inputs.into_iter().find(|kind| *kind != InputKind::RefLogps);
    let family = match needed {
        None => Family::Group,
        Some(InputKind::Values | InputKind::Steps | InputKind::Tokens) => Family::Value,
        Some(_) => Family::Score,
    };
    entry(family, spec.title, spec.name, "").needs(needed.map_or("-", InputKind::name))
}

/// Registered methods that take no part, and why: what the atlas would find of them stands there already, or a table cannot feed them.
pub(crate) static LEFT_OUT: &[(&str, &str)] = &[
    ("luspo", "on-policy it equals GRPO with a sum over tokens"),
    ("gmpo", "on-policy it equals *GRPO, 1/T*"),
    ("sapo", "on-policy it equals *GRPO, 1/T*"),
    ("vespo", "on-policy it equals GRPO"),
    ("dppo", "on-policy it equals GRPO"),
    ("dro", "on-policy it equals GRPO"),
    (
        "ridge_rloo",
        "it needs hidden states, which a table lacks; `prefix_values` tests it with features of the \
        prefix",
    ),
    (
        "systematic_rloo",
        "with independent responses it is RLOO with fewer responses in the baseline; `sampler` tests it on \
         systematic sets",
    ),
    (
        "systematic_prefix_rloo",
        "with independent responses it is Prefix RLOO with fewer responses in the baseline",
    ),
    ("systematic_visit", "it needs an earlier visit of the prompt; `sampler` tests it"),
    ("remax", "it needs a greedy response, but groups here have only sampled ones"),
    ("gdpo", "it needs rewards with several parts, but rewards of these tasks have one"),
    ("w_reinforce", "with binary rewards its expected update has the direction of the policy gradient"),
    ("prime", "on a table its process rewards would be exact values, which other methods have"),
];

/// The entries with settings, extra inputs, costs or a name of their own.
static LISTED: &[Entry] = &[
    entry(Family::Group, BASELINE, "grpo", "reduction=token_mean"),
    entry(Family::Group, "GRPO, 1/T", "grpo", "reduction=response_mean"),
    entry(Family::Group, "GRPO, clamp -0.1", "grpo", "reduction=token_mean clamp=-0.1"),
    entry(Family::Group, "Dr. GRPO", "dr_grpo", ""),
    entry(Family::Group, "RLOO", "rloo", ""),
    entry(Family::Group, "GRPO, batch std", "grpo_batch_std", ""),
    entry(Family::Group, "DAPO", "dapo", "").needs("resampled groups (not modelled here)"),
    entry(Family::Group, "BNPO (token mean)", "bnpo", ""),
    entry(Family::Group, "BNPO (beta)", "bnpo_beta", ""),
    entry(Family::Group, "GSPO", "gspo", ""),
    entry(Family::Group, "GSPO-token", "gspo_token", ""),
    entry(Family::Group, "CISPO", "cispo", ""),
    entry(Family::Group, "GPG", "gpg", ""),
    entry(Family::Group, "OPO", "opo", ""),
    entry(Family::Group, "GRPO, pass@k", "grpo_passk", ""),
    entry(Family::Group, "REINFORCE++", "reinforce_pp", ""),
    entry(Family::Group, "REINFORCE++ baseline", "reinforce_pp_baseline", ""),
    entry(Family::Trace, "GRPO-λ recent", "grpo_lambda", "style=recent"),
    entry(Family::Trace, "GRPO-λ both", "grpo_lambda", "style=both"),
    entry(Family::Trace, "GRPO-λ recent, no clamp", "grpo_lambda", "style=recent clamp=none"),
    entry(Family::Trace, "GRPO-λ both, no clamp", "grpo_lambda", "style=both clamp=none"),
    entry(Family::Trace, "GRPO-λ recent, ε-weight", "grpo_lambda", "style=recent update=weight"),
    entry(Family::Trace, "GRPO-λ both, ε-weight", "grpo_lambda", "style=both update=weight"),
    entry(Family::Trace, "P-trace (recon.)", "p_trace_reconstructed", ""),
    entry(Family::Trace, "S-trace (recon.)", "s_trace_reconstructed", "").needs(ENTROPY),
    entry(Family::Score, "high entropy 80/20", "high_entropy", "").needs(ENTROPY),
    entry(Family::Score, "OAR-P", "oar_p", "")
        .from(Source::Masked)
        .forwards(Extra::PerToken)
        .needs("the answer's distribution with a token masked"),
    entry(Family::Score, "OAR-G", "oar_g", "")
        .from(Source::Masked)
        .forwards(Extra::PerResponse(2))
        .needs("gradients of the answer's distribution in the inputs"),
    entry(Family::Score, "SHEAR", "shear", "")
        .from(Source::Masked)
        .pairwise()
        .needs("hidden states of the responses"),
    entry(Family::Score, "GRPO, 1/T, with OAR's policy", "grpo", "reduction=response_mean")
        .from(Source::Masked),
    entry(Family::Score, "RLSD", "rlsd", "")
        .forwards(Extra::PerResponse(1))
        .needs("a teacher that has seen the answer; binary rewards"),
    entry(Family::Value, "optimal token baseline", "optimal_token_baseline", "").needs("Σ π² per prefix"),
    entry(Family::Value, "Prefix RLOO", "prefix_rloo", "").needs(GROUP_TREE),
    entry(Family::Value, "TEMPO", "tempo", "").needs(GROUP_TREE),
    entry(Family::Value, "TEMPO, no std", "tempo", "scale=none reduction=response_sum").needs(GROUP_TREE),
    entry(Family::Value, "PPO, exact critic", "ppo", "").forwards(Extra::PerResponse(1)).needs(CRITIC),
    entry(Family::Value, "GAE, exact critic", "ppo", GAE).forwards(Extra::PerResponse(1)).needs(CRITIC),
    entry(Family::Value, "GAE, noisy critic", "ppo", GAE)
        .from(Source::NoisyCritic(0.2))
        .forwards(Extra::PerResponse(1))
        .needs(CRITIC),
    entry(Family::Value, "GAE, constant critic", "ppo", GAE)
        .from(Source::ConstantCritic)
        .needs("J of the policy"),
    entry(Family::Value, "VinePPO, exact values", "vine_ppo", "reduction=response_sum")
        .rollouts(Extra::Limit)
        .needs("resets to every prefix"),
    entry(Family::Value, "VinePPO, K = 8", "vine_ppo", "reduction=response_sum")
        .from(Source::Completions(8))
        .rollouts(Extra::Completions(8))
        .needs("resets to every prefix"),
    entry(Family::Value, "SPO-chain, exact values", "spo_chain", "")
        .rollouts(Extra::Limit)
        .needs("resets to every cut"),
    entry(Family::Value, "SPO-tree", "spo_tree", "").needs(GROUP_TREE),
    entry(Family::Value, "TreeRL", "tree_rl", "").needs(GROUP_TREE),
    entry(Family::Value, "TreeRPO (recon.)", "tree_rpo_reconstructed", "").needs(GROUP_TREE),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::distinct;
    use grpo_lambda_mdp::zoo;

    #[test]
    fn every_registered_method_takes_part_under_names_of_its_own() {
        for spec in methods::REGISTRY {
            let left_out = LEFT_OUT.iter().any(|(name, _)| *name == spec.name);
            let takes_part = ENTRIES.iter().any(|e| e.method == spec.name);
            assert!(takes_part != left_out, "{} is missing, or both here and left out", spec.name);
        }
        for (name, why) in LEFT_OUT {
            assert!(methods::find(name).is_ok() && !why.is_empty(), "{name} is no method");
        }
        let names: Vec<_> = ENTRIES.iter().map(|e| e.name).collect();
        assert_eq!(distinct(&names).len(), names.len());
        assert_eq!(ENTRIES[0].name, BASELINE);
        assert!(ENTRIES.is_sorted_by_key(|e| e.family));
    }

    #[test]
    fn all_build_and_what_is_reconstructed_says_so() {
        let tree = (zoo::find("fork").unwrap().build)();
        for e in ENTRIES.iter() {
            let configured = e.build(&tree).unwrap_or_else(|error| panic!("{}: {error}", e.name));
            assert!(configured.idle().is_empty(), "{}: {:?}", e.name, configured.idle());
            assert_eq!(e.provenance() == Provenance::Reconstructed, e.name.contains("recon"), "{}", e.name);
        }
    }

    #[test]
    fn costs_in_responses_by_hand() {
        // pivot: every response has six tokens; completions of the prefixes before them write 6 + 5 + .. + 1 = 21 tokens.
        let entry = zoo::find("pivot").unwrap();
        let tree = (entry.build)();
        let oracle = Oracle::new(&tree, &(entry.initial)(&tree));
        let cost = |name: &str| ENTRIES.iter().find(|e| e.name == name).unwrap().cost.responses(&oracle);
        for (name, want) in [
            (BASELINE, 1.0),
            ("OAR-P", 6.0),
            ("OAR-G", 3.0),
            ("GAE, exact critic", 2.0),
            ("VinePPO, K = 8", 1.0 + 8.0 * 21.0 / 6.0),
            ("VinePPO, exact values", f64::INFINITY),
        ] {
            assert!(cost(name) == want || (cost(name) - want).abs() < 1e-12, "{name}: {}", cost(name));
        }
    }
}
