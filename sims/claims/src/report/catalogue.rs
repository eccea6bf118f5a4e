//! The methods by provenance and by what of them has run, as `docs/conventions.md` lists them.

use super::markdown::wrapped;
use crate::atlas::entries::LEFT_OUT;
use grpo_lambda::group::InputKind;
use grpo_lambda::methods::{self, MethodSpec, Provenance, REGISTRY};
use grpo_lambda_mdp::extra_inputs::provided;
use grpo_lambda_mdp::zoo;

/// The extra inputs that no policy of `llm-train` gives; its tests compare the list of `docs/conventions.md` with what it
/// refuses.
const NO_TRANSFORMER: [InputKind; 1] = [InputKind::ProcessRewards];
/// The methods whose runs on a transformer are recorded in `llm/results`, or in `paper/data`.
const RECORDED: [&str; 14] = [
    "grpo",
    "grpo_lambda",
    "rloo",
    "prefix_rloo",
    "ridge_rloo",
    "systematic_rloo",
    "systematic_prefix_rloo",
    "tempo",
    "p_trace_reconstructed",
    "ppo",
    "vine_ppo",
    "spo_tree",
    "tree_rl",
    "tree_rpo_reconstructed",
];
/// The methods that sample in a way of their own, with where they do; tests of `llm-train` compare them with what it
/// takes.
const SAMPLERS: [(&str, &[&str]); 5] = [
    ("Systematic sets, in `sim` and in `llm-train`", &["systematic_rloo", "systematic_prefix_rloo"]),
    ("Systematic sets after an earlier visit of the prompt, in `sim` only", &["systematic_visit"]),
    (
        "Trees of their own, in `sim` ([`sampler`](../paper/README.md#sampler)) and in `llm-train`, at fixed \
         intervals (`rl.sampling=tree`) or by TreeRL's search (`rl.sampling=entropy_search`), without which `llm-train` \
         refuses them; the atlas gives them the shared prefixes of independent responses",
        &["spo_tree", "tree_rl", "tree_rpo_reconstructed"],
    ),
    ("Completions of prefixes, in `sim` and in `llm-train` (`rl.completions`)", &["vine_ppo", "spo_chain"]),
    ("Resampled groups, in `llm-train` only (`rl.dynamic_sampling`)", &["dapo"]),
];

fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// A line per provenance, then what has run.
pub(super) fn methods() -> String {
    let kinds = [
        (Provenance::Published, "Published, with public code"),
        (Provenance::PaperOnly, "In a paper, without public code"),
        (Provenance::Reconstructed, "Reconstructed here, because no source gives the formulas"),
        (Provenance::Ours, "Our own"),
    ];
    let line = |(provenance, title): (Provenance, &str)| {
        let kept = |spec: &&&MethodSpec| spec.provenance == provenance;
        let own: Vec<&str> = REGISTRY.iter().filter(kept).map(|spec| spec.name).collect();
        wrapped("- ", "  ", &format!("**{title}** ({}): {}.", own.len(), names(own)))
    };
    kinds.into_iter().map(line).collect::<String>() + "\n" + &coverage()
}

/// The registered methods that have no row in the atlas, each with the reason.
pub(super) fn left_out_of_the_atlas() -> String {
    let each: String =
        LEFT_OUT.iter().map(|(name, why)| wrapped("- ", "  ", &format!("`{name}`: {why}"))).collect();
    format!("**Left out.** {} methods have no row in the atlas:\n\n{each}", LEFT_OUT.len())
}

/// The methods whose extra inputs no table gives, not even one with rewards of 0 and 1, for which it knows a teacher.
fn without_a_table() -> Vec<&'static str> {
    let provided = zoo::find("pivot").map_or(Vec::new(), |task| provided(&(task.build)()));
    let refused = |name: &str| methods::parse(name, "").is_ok_and(|m| m.require(&provided).is_err());
    REGISTRY.iter().map(|spec| spec.name).filter(|name| refused(name)).collect()
}

/// The marks of what has run with its own sampling, what never on a transformer.
fn coverage() -> String {
    let missing = |spec: &&&MethodSpec| {
        let extra_inputs =
            methods::parse(spec.name, "").map_or(Vec::new(), |configured| configured.extra_inputs());
        // No visit of a prompt is remembered there.
        extra_inputs.iter().any(|kind| NO_TRANSFORMER.contains(kind)) || spec.name == "systematic_visit"
    };
    let never: Vec<&str> = REGISTRY.iter().filter(missing).map(|spec| spec.name).collect();
    let without_a_table = without_a_table();
    let samplers: Vec<String> =
        SAMPLERS.iter().map(|(how, of)| format!("{how}: {}", names(of.iter().copied()))).collect();
    [
        "Every method runs in `grpo-sim estimate`. Other places take fewer:".to_owned(),
        format!("- **Not in `grpo-sim mdp`**, because a table lacks their inputs ({}): \
            {}.", without_a_table.len(), names(without_a_table)),
        format!("- **Their own sampling.** {}. All others take independent responses, wherever they run.", samplers.join(". ")),
        format!("- **Not trained by `llm-train`** ({}), since it has no earlier visits and no process \
            rewards: {}.", never.len(), names(never.iter().copied())),
        format!("- **With recorded training runs on a transformer** ({}): {}. No run of the others is recorded; \
            `llm-train` can train by all of them that the line above does not list, and its tests take steps with \
            each.", RECORDED.len(), names(RECORDED)),
    ]
    .iter()
    .map(|text| match text.strip_prefix("- ") {
        Some(item) => wrapped("- ", "  ", item),
        None => wrapped("", "", text) + "\n",
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_listed_once_and_the_marks_name_methods() {
        let text = methods();
        let (list, marks) = text.split_once("\n\n").unwrap();
        for spec in REGISTRY {
            assert_eq!(list.matches(&format!("`{}`", spec.name)).count(), 1, "{}", spec.name);
        }
        let marked = RECORDED.iter().chain(SAMPLERS.iter().flat_map(|(_, of)| of.iter()));
        for name in marked {
            assert!(methods::find(name).is_ok() && marks.contains(&format!("`{name}`")), "{name}");
        }
        let in_no_table = "because a table lacks their inputs (7): `remax`, `gdpo`, `ridge_rloo`, ";
        assert!(marks.replace("\n  ", " ").contains(in_no_table), "{marks}");
        for never in ["prime", "systematic_visit"] {
            assert!(marks.contains(&format!("`{never}`")), "{never}");
        }
    }

    #[test]
    fn the_recorded_methods_are_those_of_the_recorded_runs() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let mut found = std::collections::BTreeSet::new();
        let recorded = ["results/addition", "results/baselines"].map(|name| format!("llm/{name}.csv"));
        let protocols =
            ["systematic", "long_budget", "kl"].map(|name| format!("paper/data/addition_{name}_runs.csv"));
        for file in recorded.iter().chain(&protocols) {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            let column = text.lines().skip(2).filter_map(|line| line.split([',', ':', ' ']).next());
            found.extend(column.map(str::to_owned));
        }
        let chain = |name: &str| std::fs::read_to_string(root.join("paper").join(name)).unwrap();
        let protocol: toml::Table = toml::from_str(&chain("protocols/chain.toml")).unwrap();
        let runs = chain("data/chain_runs.csv");
        let word = |arm: &toml::Value, key: &str| arm[key].as_str().unwrap().to_owned();
        let arms = protocol["arms"].as_array().unwrap().iter();
        let ran = arms.filter(|arm| runs.contains(&format!(",evaluation,{},", word(arm, "name"))));
        found.extend(ran.map(|arm| word(arm, "method")));
        let branch: toml::Table = toml::from_str(&chain("protocols/branch.toml")).unwrap();
        let runs = ["addition", "chain"].map(|task| chain(&format!("data/branch_{task}_runs.csv"))).concat();
        let methods = branch["methods"].as_array().unwrap().iter();
        let ran = methods.filter(|method| runs.contains(&format!("selection,{},", word(method, "name"))));
        found.extend(ran.map(|method| word(method, "method")));
        assert_eq!(found, RECORDED.iter().map(|name| (*name).to_owned()).collect());
    }
}
