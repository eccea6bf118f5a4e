//! The chosen rates and the gate, from the rows that are there. `sim chain` compares the arms.

use grpo_lambda_stats::mean;
use serde::{Deserialize, Serialize};

use super::protocol::{Arm, Cell, Protocol};

/// The arm that the others are compared with, and the two that tell whether the experiment can tell anything.
const REFERENCE: &str = "rloo";
const ORACLE: &str = "oracle";
const ANTI: &str = "anti_oracle";

/// The purpose of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Chooses a rate.
    #[default]
    Selection,
    Evaluation,
}

/// A run in the file of results; the first five fields say whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) cell: String,
    pub(super) stage: Stage,
    pub(super) arm: String,
    pub(super) rate: f64,
    pub(super) seed: u64,
    pub(super) ended: String,
    pub(super) steps: u64,
    /// Tokens sampled for training, and those among them that completed prefixes.
    pub(super) tokens: u64,
    pub(super) completed: u64,
    /// Tokens until the target; none if it was not reached.
    pub(super) reached: Option<f64>,
    /// Supervised steps of the start, and its accuracy.
    pub(super) start_steps: u64,
    pub(super) start_accuracy: f64,
    /// Accuracy at the last exam.
    pub(super) accuracy: f64,
    /// Mean length of a response in the last rollout.
    pub(super) length: f64,
    pub(super) seconds: f64,
    /// `tokens:accuracy` of every exam.
    pub(super) curve: String,
}

/// The protocol with the rows that are there.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) protocol: &'a Protocol,
    pub(super) rows: &'a [Row],
}

/// The controls' mean log ratios to RLOO.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gate {
    pub(super) oracle: f64,
    pub(super) anti_oracle: f64,
}

impl Gate {
    /// True if credit is known to matter: the oracle needs at most half of RLOO's tokens and the anti-oracle at least as many.
    pub(super) fn is_passed(self) -> bool {
        self.oracle <= -std::f64::consts::LN_2 && self.anti_oracle >= 0.0
    }
}

impl<'a> Reading<'a> {
    fn runs(self, stage: Stage, cell: &'a Cell, arm: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |r| r.stage == stage && r.cell == cell.name && r.arm == arm)
    }

    /// The selection run of this rate and seed.
    pub(super) fn selection(self, cell: &'a Cell, arm: &'a str, rate: f64, seed: u64) -> Option<&'a Row> {
        self.runs(Stage::Selection, cell, arm).find(|r| r.seed == seed && is_same(r.rate, rate))
    }

    /// The evaluation run of this seed.
    pub(super) fn evaluation(self, cell: &'a Cell, arm: &'a str, seed: u64) -> Option<&'a Row> {
        self.runs(Stage::Evaluation, cell, arm).find(|r| r.seed == seed)
    }

    /// The selection runs of a rate that are there.
    fn selected(self, cell: &'a Cell, arm: &'a str, rate: f64) -> Vec<&'a Row> {
        let seeds = self.protocol.seeds.selection.iter();
        seeds.filter_map(|seed| self.selection(cell, arm, rate, *seed)).collect()
    }

    /// The rate with the least median of tokens to the target, once all selection runs of the arm are there.
    pub(super) fn chosen(self, cell: &'a Cell, arm: &'a str) -> Option<f64> {
        let score = |rate: f64| {
            let rows = self.selected(cell, arm, rate);
            let is_whole = rows.len() == self.protocol.seeds.selection.len();
            let accuracy = mean(&rows.iter().map(|r| r.accuracy).collect::<Vec<_>>())?;
            is_whole.then_some((median(&rows)?, -accuracy, rate))
        };
        let scores: Vec<(f64, f64, f64)> = self.protocol.rates.all().map(score).collect::<Option<_>>()?;
        scores.into_iter().min_by(|a, b| a.partial_cmp(b).expect("numbers")).map(|(_, _, rate)| rate)
    }

    /// The run of a seed at the chosen rate.
    fn at_best(self, stage: Stage, cell: &'a Cell, arm: &'a str, seed: u64) -> Option<&'a Row> {
        match stage {
            Stage::Selection => self.selection(cell, arm, self.chosen(cell, arm)?, seed),
            Stage::Evaluation => self.evaluation(cell, arm, seed),
        }
    }

    /// The runs of an arm and of RLOO, by seed, of the seeds that have both.
    fn pairs(self, stage: Stage, cell: &'a Cell, arm: &'a str) -> Vec<[&'a Row; 2]> {
        let run = |arm: &'a str, seed: u64| self.at_best(stage, cell, arm, seed);
        let pair = |seed: &u64| Some([run(arm, *seed)?, run(REFERENCE, *seed)?]);
        self.seeds(stage).iter().filter_map(pair).collect()
    }

    /// The log ratios of tokens to RLOO's, by seed, of the pairs of which one at least reached the target.
    pub(super) fn log_ratios(self, stage: Stage, cell: &'a Cell, arm: &'a str) -> Vec<f64> {
        let pairs = self.pairs(stage, cell, arm).into_iter();
        let told = pairs.filter(|pair| pair.iter().any(|run| run.reached.is_some()));
        told.map(|[run, reference]| (tokens(run) / tokens(reference)).ln()).collect()
    }

    /// True if every seed has a run of the arm and one of RLOO.
    fn is_whole(self, stage: Stage, cell: &'a Cell, arm: &'a str) -> bool {
        self.pairs(stage, cell, arm).len() == self.seeds(stage).len()
    }

    fn seeds(self, stage: Stage) -> &'a [u64] {
        match stage {
            Stage::Selection => &self.protocol.seeds.selection,
            Stage::Evaluation => &self.protocol.seeds.evaluation,
        }
    }

    /// The gate of the first cell, once all runs of its stage are there.
    pub(super) fn gate(self, stage: Stage) -> Option<Gate> {
        let cell = self.protocol.cells.first()?;
        let ratio = |arm| {
            let whole = self.is_whole(stage, cell, arm);
            whole.then(|| mean(&self.log_ratios(stage, cell, arm))).flatten()
        };
        Some(Gate { oracle: ratio(ORACLE)?, anti_oracle: ratio(ANTI)? })
    }

    /// The lines of the report.
    pub(super) fn report(self) -> Vec<String> {
        let gate = |stage, seeds: &str| match self.gate(stage) {
            None => format!("gate on the {seeds} seeds: not yet"),
            Some(gate) => format!(
                "gate on the {seeds} seeds: the oracle needs {:.3} of RLOO's tokens (at most 0.5), the anti-oracle {:.3} (at least 1): {}",
                gate.oracle.exp(),
                gate.anti_oracle.exp(),
                if gate.is_passed() { "valid" } else { "void, nothing is concluded" }
            ),
        };
        let mut lines = vec![gate(Stage::Selection, "selection"), gate(Stage::Evaluation, "evaluation")];
        for cell in &self.protocol.cells {
            lines.push(format!("cell {}: median of tokens to {}", cell.name, self.protocol.exam.target));
            lines.extend(self.protocol.arms_of(cell).map(|arm| self.rates_line(cell, arm)));
        }
        lines
    }

    /// The median of tokens to the target at every rate, of the selection runs that are there, and the rate that it chooses.
    fn rates_line(self, cell: &'a Cell, arm: &'a Arm) -> String {
        let chosen = self.chosen(cell, &arm.name);
        let mut rates: Vec<f64> = self.protocol.rates.all().collect();
        rates.sort_by(f64::total_cmp);
        let shown = |rate: &f64| {
            let rows = self.selected(cell, &arm.name, *rate);
            let middle =
                median(&rows).filter(|m| m.is_finite()).map_or("-".to_owned(), |m| format!("{m:.0}"));
            let reached = rows.iter().filter(|r| r.reached.is_some()).count();
            let mark = if chosen == Some(*rate) { " chosen" } else { "" };
            format!("{rate}: {middle} ({reached}/{}){mark}", rows.len())
        };
        format!("  rates of {}: {}", arm.name, rates.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

fn is_same(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

/// The median of tokens to the target, the upper one of an even number of runs; infinitely many of a run that did not reach it.
fn median(rows: &[&Row]) -> Option<f64> {
    let mut tokens: Vec<f64> = rows.iter().map(|r| r.reached.unwrap_or(f64::INFINITY)).collect();
    tokens.sort_by(f64::total_cmp);
    tokens.get(tokens.len() / 2).copied()
}

/// Tokens to the target; all tokens of a run that did not reach it.
fn tokens(row: &Row) -> f64 {
    row.reached.unwrap_or(row.tokens as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Selection rows of an arm that is best at the middle rate, and evaluation rows with `factor` of 1000 tokens and a little noise.
    fn rows(arm: &str, factor: f64) -> Vec<Row> {
        let protocol = Protocol::committed();
        let row = |stage, rate: f64, seed: u64, tokens: f64| Row {
            cell: protocol.cells[0].name.clone(),
            stage,
            arm: arm.to_owned(),
            rate,
            seed,
            reached: Some(tokens),
            ..Row::default()
        };
        let rates: Vec<f64> = protocol.rates.all().collect();
        let selection = rates.iter().zip(0..).flat_map(|(rate, i)| {
            let seeds = protocol.seeds.selection.iter();
            seeds.map(move |seed| row(Stage::Selection, *rate, *seed, factor * f64::from(1000 + i)))
        });
        let evaluation = protocol.seeds.evaluation.iter().map(|seed| {
            let noise = if arm == REFERENCE { 1.0 } else { 1.0 + 0.01 * (*seed % 3) as f64 };
            row(Stage::Evaluation, rates[0], *seed, 1000.0 * factor * noise)
        });
        selection.chain(evaluation).collect()
    }

    fn gate(arms: &[(&str, f64)]) -> Option<Gate> {
        let rows: Vec<Row> = arms.iter().flat_map(|(arm, factor)| rows(arm, *factor)).collect();
        Reading { protocol: Protocol::committed(), rows: &rows }.gate(Stage::Evaluation)
    }

    #[test]
    fn a_gate_fails_where_an_oracle_gains_too_little_or_noise_gains() {
        for (oracle, anti, passed) in [(0.6, 1.3, false), (0.4, 0.9, false), (0.45, 1.0, true)] {
            let gate = gate(&[("rloo", 1.0), ("oracle", oracle), ("anti_oracle", anti)]).expect("all rows");
            // The mean of log 1, log 1.01 and log 1.02 is 0.00992.
            assert!((gate.oracle - (oracle.ln() + 0.00992)).abs() < 1e-4, "{gate:?}");
            assert_eq!(gate.is_passed(), passed, "{oracle} {anti}");
        }
        assert_eq!(gate(&[("rloo", 1.0), ("oracle", 0.4)]), None);
    }

    #[test]
    fn a_pair_of_which_neither_reaches_the_target_says_nothing() {
        let mut rows: Vec<Row> =
            ["rloo", "oracle"].iter().zip([1.0, 0.4]).flat_map(|(a, f)| rows(a, f)).collect();
        let protocol = Protocol::committed();
        let ratios = |rows: &[Row]| {
            let reading = Reading { protocol, rows };
            let cell = &protocol.cells[0];
            (
                reading.log_ratios(Stage::Evaluation, cell, "oracle").len(),
                reading.is_whole(Stage::Evaluation, cell, "oracle"),
            )
        };
        assert_eq!(ratios(&rows), (12, true));
        let seed = protocol.seeds.evaluation[0];
        let of_seed = |r: &&mut Row| r.stage == Stage::Evaluation && r.seed == seed;
        rows.iter_mut().filter(of_seed).take(1).for_each(|r| r.reached = None);
        assert_eq!(ratios(&rows), (12, true));
        rows.iter_mut().filter(of_seed).for_each(|r| r.reached = None);
        assert_eq!(ratios(&rows), (11, true));
        rows.retain(|r| r.stage == Stage::Selection || r.seed != seed);
        assert_eq!(ratios(&rows), (11, false));
    }

    #[test]
    fn a_rate_is_chosen_by_its_median_once_all_runs_are_there() {
        let protocol = Protocol::committed();
        let cell = &protocol.cells[0];
        let mut rows = rows("grpo", 1.0);
        let chosen = |rows: &[Row]| Reading { protocol, rows }.chosen(cell, "grpo");
        let middle = protocol.rates.all().next();
        assert_eq!(chosen(&rows), middle);
        // One seed that fails does not matter, two do.
        let at_middle: Vec<usize> = (0..rows.len())
            .filter(|i| rows[*i].stage == Stage::Selection && Some(rows[*i].rate) == middle)
            .collect();
        rows[at_middle[0]].reached = None;
        assert_eq!(chosen(&rows), middle);
        rows[at_middle[1]].reached = None;
        assert_eq!(chosen(&rows), protocol.rates.all().nth(1));
        rows.remove(at_middle[2]);
        assert_eq!(chosen(&rows), None);
    }

    #[test]
    fn a_rate_is_shown_with_the_median_that_chooses() {
        let protocol = Protocol::committed();
        let (cell, arm) = (&protocol.cells[0], &protocol.arms[0]);
        let mut rows = rows(&arm.name, 1.0);
        let rates: Vec<f64> = protocol.rates.all().collect();
        for (row, reached) in rows.iter_mut().zip([Some(400.0), None, None]) {
            row.reached = reached;
        }
        let line = |rows: &[Row]| Reading { protocol, rows }.rates_line(cell, arm);
        assert!(line(&rows).contains(&format!("{}: - (1/3)", rates[0])), "{}", line(&rows));
        assert!(line(&rows).contains(&format!("{}: 1001 (3/3) chosen", rates[1])), "{}", line(&rows));
        // Of two runs one of which missed the target the median is not known.
        rows.remove(1);
        assert!(line(&rows).contains(&format!("{}: - (1/2)", rates[0])) && !line(&rows).contains("chosen"));
    }
}
