//! `llm-train compare`.

use std::path::{Path, PathBuf};

use super::plot::figure_lines;
use super::{Failure, print, use_threads};
use crate::compare::{self, CompareError, Outcome, Plan, PlanError};
use crate::config::Config;
use crate::disk::{Disk, DiskError};
use crate::figures;
use crate::progress::say;

// A paragraph is one line: the terminal's width decides where it breaks.
const AFTER_HELP: &str = "\
Every seed has one supervised stage, from whose checkpoint all methods start; RL then runs per method and seed, on the same \
problems, with the same held-out ones. A method is a name with its settings (`llm-train explain` and `sim methods` show them); \
its rl.* settings may be its own, as in grpo:rl.lr=1e-4. The preset's own method is not used.

--ablate-rate adds, for each other method with learning rate lr and mean token weight m, the first method at lr' = lr m / m1, \
where m1 is the first method's mean weight, so that rate times mean weight is equal; nothing is added where it is equal already. \
Weights are those of `llm-train explain`: on-policy, in a right response of the mean held-out length before RL, 1 in GRPO with a token mean. \
This equalises the steps of plain gradient descent if all tokens pulled alike. AdamW divides a constant factor of the gradient out \
again, so here the added run takes steps m / m1 times as long: it asks whether a larger step alone would have done it. The other \
direction, a trace's weights divided by their mean, is a method: grpo_lambda:normalise=mean.

Stopped at any moment, the same command continues; another one on the same directory is refused.";

/// Arguments of `compare`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct CompareArgs {
    /// Methods, as in grpo,grpo_lambda:style=both,lambda=0.9; the others are compared with the first
    #[arg(long, value_name = "NAME:key=value,..,NAME")]
    pub methods: String,
    /// Seeds, from the preset's on; six or more can tell a difference at 5 % by sign flips
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Also the first method at the learning rates that equalise rate times mean token weight
    #[arg(long)]
    pub ablate_rate: bool,
    /// A shipped preset, or a TOML file
    #[arg(long, value_name = "NAME|FILE", default_value = "tiny")]
    pub preset: String,
    /// The directory of the comparison; one found there is continued
    #[arg(long, value_name = "DIR", default_value = "runs/compare")]
    pub run: PathBuf,
    /// Settings over the preset's, common to all runs, as in rl.steps=50
    #[arg(value_name = "key=value")]
    pub overrides: Vec<String>,
}

/// Compares.
///
/// # Errors
/// When the input is refused or a run breaks off.
pub fn run(args: &CompareArgs) -> Result<(), Failure> {
    let entrants = compare::parse_methods(&args.methods).map_err(Failure::refused)?;
    if let Some(word) = args.overrides.iter().find(|word| word.starts_with("method.")) {
        return Err(Failure::refused(format!(
            "{word}: in a comparison a setting belongs to one method, as in --methods grpo:{}",
            word.trim_start_matches("method.")
        )));
    }
    let base = Config::resolve(&args.preset, &args.overrides).map_err(Failure::refused)?;
    let broke = |e: &PlanError| matches!(e, PlanError::Disk(_));
    let failed = |e: PlanError| if broke(&e) { Failure::broke(e) } else { Failure::refused(e) };
    let plan = Plan::new(entrants, args.seeds, args.ablate_rate, base).map_err(failed)?;
    for entrant in &plan.entrants {
        for idle in entrant.configured().idle() {
            say(&format!("warning: {}: {idle}", entrant.label));
        }
    }
    use_threads(plan.base.threads)?;
    announce(&plan, &args.run);
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let outcome = compare::run(&plan, &args.run, &command)
        .map_err(|e: CompareError| if e.refused() { Failure::refused(e) } else { Failure::broke(e) })?;
    write(&outcome, &args.run, &command).map_err(Failure::broke)?;
    let figures = match figures::save(&compare::figure(&outcome), &args.run.join("figures"), "compare") {
        Ok(path) => figure_lines(&[path]),
        Err(e) => format!("no figure: {}\n", e.to_string().replace('\n', "; ")),
    };
    let dir = args.run.display();
    print(&format!(
        "{}\n\nresult       {dir}/compare.csv\nall numbers  {dir}/compare.json\n{figures}",
        compare::table(&outcome)
    ))
}

fn announce(plan: &Plan, directory: &Path) {
    let names: Vec<&str> = plan.entrants.iter().map(|e| e.label.as_str()).collect();
    say(&format!(
        "{} over {} seeds: {} supervised stages of {} steps, then {} RL runs of {} steps{}; results in {} (the same command resumes)",
        names.join(" against "),
        plan.seeds,
        plan.seeds,
        plan.base.sft.steps,
        plan.seeds * names.len() as u64,
        plan.base.rl.steps,
        if plan.ablate_rate { " and those at equal rates" } else { "" },
        directory.display()
    ));
}

fn write(outcome: &Outcome, directory: &Path, command: &str) -> Result<(), DiskError> {
    let disk = Disk::default();
    disk.replace(&directory.join("compare.csv"), compare::csv(outcome, command).as_bytes())?;
    let json =
        serde_json::to_string_pretty(&compare::json(outcome)).expect("numbers and text have a JSON form");
    disk.replace(&directory.join("compare.json"), format!("{json}\n").as_bytes())
}
