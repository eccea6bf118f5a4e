//! `branch`: do methods that branch, complete prefixes or learn a critic learn more per sampled token than groups of whole responses do?
//!
//! The runs are recorded: `cargo run --release -p grpo-lambda-control -- branch paper/protocols/branch.toml TASK FILE` makes them by a protocol that was
//! committed first, and this claim reads their files, one a task. Nothing is concluded before every run of both is there.

mod shown;
#[cfg(test)]
mod tests;
mod updates;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::chain::judged::Evaluated;
use crate::experiments::common::record::{Record, recorded};
use grpo_lambda_trials::{Compared, Difference, Rows, Study, Trial, correct};
use shown::{figures, findings, tables};
use updates::updates;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "branch",
    title: "From equally many sampled tokens, does a transformer learn more by trees, completions or a critic than \
        by GRPO?",
    claim: "From equally many tokens, trees of responses, completions of prefixes and a learned critic are better \
        than GRPO",
    source: "Our question; its protocol, `paper/protocols/branch.toml`, was committed before the runs",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

const PROTOCOL: &str = include_str!("../../../../../paper/protocols/branch.toml");
const ADDITION: &str = "addition";
const CHAIN: &str = "chain";
/// The tasks with their recorded runs.
const RUNS: [(&str, &str); 2] = [
    (ADDITION, include_str!("../../../../../paper/data/branch_addition_runs.csv")),
    (CHAIN, include_str!("../../../../../paper/data/branch_chain_runs.csv")),
];

/// The methods of the protocol that findings name.
const GRPO: &str = "grpo";
const PPO: &str = "ppo";
const VINE: &str = "vine_ppo";
const SPO: &str = "spo_tree";
const TREE_RL: &str = "tree_rl";
const TREE_RPO: &str = "tree_rpo";
const TEMPO: &str = "tempo";

/// Judged runs of a task; methods and comparisons are empty until all of both tasks are there.
struct OnTask {
    name: &'static str,
    /// Tokens of a run.
    budget: f64,
    methods: Vec<Evaluated>,
    compared: Vec<Compared>,
}

struct Numbers {
    study: Study<toml::Table>,
    tasks: Vec<OnTask>,
    /// The runs that are there, and those of the protocol.
    runs: [usize; 2],
    updates: Vec<Record>,
}

impl Numbers {
    fn is_complete(&self) -> bool {
        self.tasks.iter().all(|task| !task.compared.is_empty())
    }

    fn pair(&self, task: &str, method: &str, with: &str) -> Option<&Difference> {
        Compared::find(&self.tasks.iter().find(|own| own.name == task)?.compared, method, with)
    }
}

fn measure(_: &Context) -> anyhow::Result<Numbers> {
    let numbers = judged(PROTOCOL, RUNS)?;
    Ok(Numbers { updates: updates(&numbers.study)?, ..numbers })
}

/// The rows of the tasks' files, read by the protocol: Holm over the comparisons of both.
fn judged(protocol: &str, runs: [(&'static str, &str); 2]) -> anyhow::Result<Numbers> {
    let study: Study<toml::Table> = Study::read(protocol)?;
    let selection = study.seeds.selection.len() * study.rates.len();
    let planned = runs.len() * study.methods.len() * (selection + study.seeds.evaluation.len());
    let (mut tasks, mut there) = (Vec::new(), 0);
    for (name, rows) in runs {
        let trials: Vec<Trial> = recorded(rows)?;
        there += trials.len();
        let own = study.setup.get(name).and_then(|own| own.get("budget")).cloned();
        let own = own.map(toml::Value::try_into).transpose()?;
        let study = Study { budget: own.unwrap_or(study.budget), ..study.clone() };
        let rows = Rows { study: &study, trials: &trials };
        let compared = rows.compared(&study.comparisons);
        let (methods, compared) = Evaluated::all(&rows).zip(compared).unwrap_or_default();
        tasks.push(OnTask { name, budget: study.budget, methods, compared });
    }
    let mut numbers = Numbers { study, tasks, runs: [there, planned], updates: Vec::new() };
    let is_complete = numbers.is_complete() && there == planned;
    for task in &mut numbers.tasks {
        task.methods.retain(|_| is_complete);
        task.compared.retain(|_| is_complete);
    }
    let family = numbers.tasks.iter_mut().flat_map(|task| &mut task.compared).map(|c| &mut c.difference);
    correct(family, runs.len() * numbers.study.comparisons.len());
    Ok(numbers)
}
