//! The experiments of `sim`: the claims of the paper and the atlas.

use grpo_lambda::settings::did_you_mean;
use grpo_lambda_claims::atlas;
use grpo_lambda_claims::experiment::Experiment;
use grpo_lambda_claims::experiments::REGISTRY;
use grpo_lambda_claims::report;
use grpo_lambda_claims::run::{self, Options};
use grpo_lambda_tools::DEFAULT_SEED;
use grpo_lambda_tools::failure::{Failure, quoted};
use grpo_lambda_tools::program::{named, program};
use grpo_lambda_tools::terminal;
use std::path::{Path, PathBuf};

/// The words of a run of experiments.
#[derive(Debug, clap::Args)]
pub(crate) struct Experiments {
    /// Run only these experiments; --list shows the ids. `atlas` stands for all of the atlas
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// List the experiments and stop
    #[arg(long)]
    list: bool,
    /// Folder for results: DIR/data/*.csv, DIR/figures/*.svg and *.png
    #[arg(long, value_name = "DIR", default_value = "runs/sim")]
    out: PathBuf,
    /// Write into paper/, the committed results, and bring the tables of its pages and of README.md up to date
    #[arg(long, conflicts_with = "out")]
    regenerate: bool,
    /// Seed of every random stream; the same seed gives the same numbers on any number of threads
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    seed: u64,
    /// The long versions: more seeds, larger problems
    #[arg(long)]
    full: bool,
}

impl Experiments {
    /// Runs the experiments, or lists them. `commands` are what else the program does.
    pub(crate) fn run(&self, commands: &[String]) -> Result<(), Failure> {
        let experiments = select(&self.ids, REGISTRY, atlas::REGISTRY, commands).map_err(Failure::Refused)?;
        if self.list {
            let all = if self.ids.is_empty() { [REGISTRY, atlas::REGISTRY].concat() } else { experiments };
            return terminal::print(&list(&all));
        }
        let out = if self.regenerate { PathBuf::from("paper") } else { self.out.clone() };
        let options = Options { out, seed: self.seed, full: self.full };
        let summary = run::run(&experiments, &options)?;
        terminal::print(&summary.text)?;
        terminal::print(&refresh(&options.out)?)?;
        match summary.failed.len() {
            0 => Ok(()),
            n => {
                let (total, ids) = (experiments.len(), summary.failed.join(", "));
                Err(Failure::Failed(format!("{n} of {total} experiments failed: {ids}")))
            }
        }
    }
}

/// Refuses a word that is no experiment.
pub(crate) fn known(id: &str, commands: &[String]) -> Result<(), String> {
    select(&[id.to_owned()], REGISTRY, atlas::REGISTRY, commands).map(drop)
}

/// Brings the generated blocks of the pages in and next to `out` up to date, once every experiment of a page has its verdicts there.
fn refresh(out: &Path) -> Result<String, Failure> {
    let next_to = |page: &str| out.parent().map(|folder| folder.join(page));
    let others = ["README.md", "docs/conventions.md", "llm/results/README.md"].map(next_to);
    let claims: Vec<PathBuf> = [Some(out.join("README.md"))].into_iter().chain(others).flatten().collect();
    let mut said = String::new();
    for (registry, pages) in [(REGISTRY, claims), (atlas::REGISTRY, vec![out.join(atlas::PAGE)])] {
        let missing = |e: &&Experiment| !out.join(format!("data/{}_verdicts.csv", e.id)).exists();
        if !pages[0].exists() || registry.iter().any(missing) {
            continue;
        }
        report::refresh(registry, out, &pages).map_err(|e| Failure::Failed(format!("report: {e:#}")))?;
        said += &format!("The tables of {} are up to date with these results.\n", pages[0].display());
    }
    Ok(said)
}

/// The word that stands for every experiment of the atlas.
const ATLAS: &str = "atlas";

/// The experiments with these ids, in the order given, each once; all claims for none.
fn select(
    ids: &[String],
    claims: &'static [&'static Experiment],
    atlas: &'static [&'static Experiment],
    commands: &[String],
) -> Result<Vec<&'static Experiment>, String> {
    if ids.is_empty() {
        return Ok(claims.to_vec());
    }
    let known = || claims.iter().chain(atlas).copied();
    let mut selected: Vec<&'static Experiment> = Vec::new();
    for id in ids {
        let found: Vec<_> =
            if id == ATLAS { atlas.to_vec() } else { known().filter(|e| e.id == id).collect() };
        if found.is_empty() {
            if commands.contains(id) {
                return Err(format!(
                    "{id} is a command, not an experiment; it comes first, as in {} {id} --help",
                    program()
                ));
            }
            let words = known().map(|e| e.id).chain([ATLAS]).chain(commands.iter().map(String::as_str));
            let hint = did_you_mean(id, words);
            return Err(format!(
                "unknown experiment {}{hint}; {} --list shows the ids",
                quoted(id),
                program()
            ));
        }
        for experiment in found {
            if !selected.iter().any(|e| e.id == experiment.id) {
                selected.push(experiment);
            }
        }
    }
    Ok(selected)
}

fn list(experiments: &[&Experiment]) -> String {
    let mut table = terminal::table(&["id", "experiment", "source"]);
    for e in experiments {
        table.add_row([e.id, e.title, e.source]);
    }
    let more =
        "\n\nsim ID... runs some of them, sim alone all claims of the paper, sim atlas the whole atlas.\n";
    table.to_string() + &named(more, program())
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_claims::experiment::Report;

    const fn named(id: &'static str) -> Experiment {
        Experiment { id, title: "", claim: "", source: "", run: |_| Ok(Report::default()) }
    }
    static LEMMA: Experiment = named("lemma_1");
    static THEOREM: Experiment = named("theorem_1");
    static BOTH: &[&Experiment] = &[&THEOREM, &LEMMA];
    static MAP: Experiment = named("atlas_updates");
    static MAPS: &[&Experiment] = &[&MAP];

    fn ids(words: &[&str]) -> Result<Vec<&'static str>, String> {
        let words: Vec<_> = words.iter().map(|w| (*w).to_owned()).collect();
        let commands = ["methods", "estimate"].map(str::to_owned);
        Ok(select(&words, BOTH, MAPS, &commands)?.iter().map(|e| e.id).collect())
    }

    #[test]
    fn experiments_run_in_the_order_asked_for_and_once() {
        assert_eq!(ids(&["lemma_1", "theorem_1", "lemma_1"]).unwrap(), ["lemma_1", "theorem_1"]);
        assert_eq!(ids(&[]).unwrap(), ["theorem_1", "lemma_1"]);
        assert_eq!(ids(&["atlas", "lemma_1", "atlas_updates"]).unwrap(), ["atlas_updates", "lemma_1"]);
    }

    #[test]
    fn an_unknown_id_is_named_with_the_nearest_known_one() {
        let error = ids(&["theorm_1"]).unwrap_err();
        assert!(error.starts_with("unknown experiment `theorm_1` (did you mean `theorem_1`?)"), "{error}");
        assert!(ids(&["estimat"]).unwrap_err().contains("(did you mean `estimate`?)"));
        assert!(ids(&["lemma_1", "methods"]).unwrap_err().starts_with("methods is a command"));
        assert!(!ids(&["zzz"]).unwrap_err().contains("did you mean"));
    }
}
