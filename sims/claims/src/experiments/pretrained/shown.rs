//! Findings and tables.

use super::{CLAMP, Compared, EXPERIMENT, Evaluated, GRPO, Numbers, PAPER, TRACE};
use crate::experiment::{Finding, Verdict};
use crate::experiments::chain::findings::{Outcome, verdict_on_gain};
use crate::experiments::common::record::{Record, table, yes};
use crate::experiments::common::{Shown, holds_or, placed};
use crate::figure::{Axis, Figure, Panel};
use grpo_lambda_stats::table::Table;
use grpo_lambda_stats::{Interval, t_interval};
use grpo_lambda_trials::Verdict as Effect;

/// The finding with a comparison's numbers; the rates show whether it also compares two rates.
fn with(finding: Finding, n: &Numbers, pair: &Compared) -> Finding {
    let name = format!("{} minus {}", pair.pair.method, pair.pair.with);
    let finding = finding
        .interval(name.clone(), pair.difference.interval)
        .value(format!("{name}: corrected p"), pair.difference.corrected);
    let both = n.methods.iter().filter(|m| m.name == pair.pair.method || m.name == pair.pair.with);
    both.fold(finding, |finding, m| finding.value(format!("rate of {}", m.name), m.rate))
}

fn credit(n: &Numbers) -> Finding {
    let Some(pair) = n.pair(PAPER, GRPO) else {
        let reason = "some runs of the protocol are missing, and we conclude nothing before all are complete";
        return Finding::new("credit", EXPERIMENT.claim, Verdict::Inconclusive(reason.into()));
    };
    let verdict = if pair.is_contradicted(n.study.margin) {
        Verdict::Inconclusive("the reward shows a difference that the other reader does not".into())
    } else {
        verdict_on_gain(pair.effect(n.study.margin), n.study.margin)
    };
    let finding = with(Finding::new("credit", EXPERIMENT.claim, verdict), n, pair)
        .value("tokens of the budget", n.study.budget)
        .value("seeds", n.study.seeds.evaluation.len())
        .value("margin of equivalence", n.study.margin);
    finding.rows("compared", &[]).note(
        "Mean held-out accuracy over the budget of sampled tokens, paired by seed, each method at the rate that other seeds chose, Student's t at 95 %, Holm over the protocol's comparisons.",
    )
}

fn learns(n: &Numbers) -> Finding {
    let own = n.methods.iter().filter(|method| !n.study.setup.rates_of.contains_key(&method.name));
    let is_flat = |method: &&Evaluated| method.gains[0].low <= 0.0 || method.gains[1].mid <= 0.0;
    let flat: Vec<&str> = own.filter(is_flat).map(|m| m.label.as_str()).collect();
    let verdict = holds_or(flat.is_empty(), format!("not shown of {}", flat.join(", ")));
    Finding::new(
        "learns",
        "P1: Every method that chooses its own rate raises held-out accuracy by both readers",
        verdict,
    )
    .rows("", &["label", "rate", "gain", "gain_low", "read_gain", "length"])
}

/// A prediction that a method gains accuracy, or does not.
fn accuracy(n: &Numbers, [key, statement]: [&str; 2], pair: [&str; 2], gains: bool) -> Option<Finding> {
    let pair = n.pair(pair[0], pair[1])?;
    let verdict = Outcome::new(pair.effect(n.study.margin), gains).verdict();
    Some(with(Finding::new(key, statement, verdict), n, pair))
}

/// A prediction on lengths: differences of one sign, which an interval on the other side of 0 refutes.
fn length(n: &Numbers, [key, statement]: [&str; 2], pairs: &[[&str; 2]], expected: Shown) -> Option<Finding> {
    let mut outcome = Outcome::Held;
    let mut finding = Finding::new(key, statement, Verdict::Holds);
    for [method, with] in pairs {
        let difference = n.length(method, with)?;
        outcome = outcome.max(match Shown::by_interval(difference) {
            Shown::Neither => Outcome::Open,
            shown if shown == expected => Outcome::Held,
            Shown::Gain | Shown::Loss => Outcome::Failed,
        });
        finding = finding.interval(format!("{method} minus {with}, tokens"), difference);
    }
    finding.verdict = outcome.verdict();
    Some(finding)
}

pub(super) fn findings(n: &Numbers) -> Vec<Finding> {
    let first = credit(n);
    if n.compared.is_empty() {
        return vec![first];
    }
    let predicted = [
        accuracy(n, ["clamp", "P2: GRPO with the clamp is better than GRPO"], [CLAMP, GRPO], true),
        accuracy(n, ["trace", "P3: The trace alone is not better than GRPO"], [TRACE, GRPO], false),
        accuracy(n, ["beyond", "P4: GRPO-λ is not better than GRPO with the clamp"], [PAPER, CLAMP], false),
        length(
            n,
            [
                "lengthens",
                "P5: Responses of GRPO-λ are longer than those of GRPO with the clamp and of the trace alone",
            ],
            &[[PAPER, CLAMP], [PAPER, TRACE]],
            Shown::Gain,
        ),
        length(
            n,
            ["shortens", "P6: Responses of GRPO with the clamp are not longer than those of GRPO"],
            &[[CLAMP, GRPO]],
            Shown::Loss,
        ),
    ];
    [first, learns(n)].into_iter().chain(predicted.into_iter().flatten()).collect()
}

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let own = |m: &Evaluated| {
        let ends = [n.study.rates.first(), n.study.rates.last()];
        Record::default()
            .with("method", &*m.name)
            .with("label", &*m.label)
            .with("rate", m.rate)
            .with("at_an_end", yes(ends.contains(&Some(&m.rate))))
            .interval("accuracy", m.accuracy)
            .interval("gain", m.gains[0])
            .interval("read_gain", m.gains[1])
            .interval("length", m.lengths.as_deref().and_then(|lengths| t_interval(lengths, n.study.level)))
    };
    let pair = |c: &Compared| {
        let d = &c.difference;
        Record::default()
            .with("method", &*c.pair.method)
            .with("with", &*c.pair.with)
            .interval("difference", d.interval)
            .bounds("narrow", d.narrow)
            .bounds("over_problems", c.over_problems)
            .interval("read", c.read)
            .with("p", d.p)
            .with("corrected", d.corrected)
            .with("verdict", c.effect(n.study.margin).name())
            .interval("length", n.length(&c.pair.method, &c.pair.with))
    };
    let all = [("", table(n.methods.iter().map(own))), ("compared", table(n.compared.iter().map(pair)))];
    all.into_iter()
        .filter(|(_, table)| !table.rows.is_empty())
        .map(|(name, table)| (name.to_owned(), table))
        .collect()
}

/// Every comparison with the intervals of both readers; no figure before they are there.
pub(super) fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    if n.compared.is_empty() {
        return Vec::new();
    }
    let pairs: Vec<String> = n
        .compared
        .iter()
        .map(|c| format!("{} minus {}", n.label(&c.pair.method), n.label(&c.pair.with)))
        .collect();
    let spans = |aside: f64, reader: fn(&Compared) -> Interval| -> Vec<_> {
        n.compared.iter().zip(0..).map(|(c, row)| placed(f64::from(row) + aside, reader(c))).collect()
    };
    let thousands = n.study.budget / 1000.0;
    let panel = Panel::new("")
        .x(Axis::new(format!(
            "difference of mean held-out accuracy over {thousands} thousand sampled tokens"
        )))
        .y(Axis::new("").categories(pairs.iter().map(String::as_str)))
        .vline(0.0, "")
        .spans("by the reward: mean, 95 %", spans(-0.12, |c| c.difference.interval))
        .spans("by the other reader", spans(0.12, |c| c.read));
    let seeds = n.study.seeds.evaluation.len();
    let figure = Figure::new(title(n))
        .caption(format!("SmolLM2-135M-Instruct on small sums, {seeds} seeds that chose no rate, every run counted; Student's t over seeds. The other reader takes the last number of a response that ended by itself."))
        .columns(1)
        .panel_size(760, 330)
        .panel(panel);
    vec![(String::new(), figure)]
}

/// The title of the figure: what the comparisons with GRPO show.
fn title(n: &Numbers) -> String {
    let those = |effect: Effect| {
        let shown = |c: &&Compared| c.pair.with == GRPO && c.effect(n.study.margin) == effect;
        let labels: Vec<&str> = n.compared.iter().filter(shown).map(|c| n.label(&c.pair.method)).collect();
        (!labels.is_empty()).then(|| labels.join(", "))
    };
    match [those(Effect::Higher), those(Effect::Lower)] {
        [None, None] => "No method is shown to differ from GRPO on SmolLM2".to_owned(),
        [Some(more), None] => format!("More accurate than GRPO on SmolLM2: {more}"),
        [None, Some(less)] => format!("Less accurate than GRPO on SmolLM2: {less}"),
        [Some(more), Some(less)] => {
            format!("More accurate than GRPO on SmolLM2: {more}; less accurate: {less}")
        }
    }
}
