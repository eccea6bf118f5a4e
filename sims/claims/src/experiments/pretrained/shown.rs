//! Findings and tables.

use super::{CLAMP, Compared, EXPERIMENT, Evaluated, GRPO, Numbers, PAPER, RLOO, Rates, TRACE};
use crate::experiment::{Finding, Verdict};
use crate::experiments::chain::findings::{Outcome, Said, verdict_on_gain};
use crate::experiments::chain::judged::{filled, label};
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
fn accuracy(n: &Numbers, key: &str, statement: &str, pair: [&str; 2], said: Said) -> Option<Finding> {
    let pair = n.pair(pair[0], pair[1])?;
    let verdict = said.outcome(pair.effect(n.study.margin)).verdict();
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

/// The predictions of the control, in which every method has one rate: none before its runs are there.
fn at_one_rate(n: &Rates) -> Option<Vec<Finding>> {
    let pair = |method| n.one.pair(method, GRPO);
    let clamp = pair(CLAMP)?;
    let verdict = holds_or(clamp.difference.interval.mid <= HALF_OF_THE_GAIN, "it gains more");
    let statement =
        "R1: At one rate GRPO with the clamp gains less than half of what it gains over GRPO at chosen rates";
    let clamp = with(Finding::new("clamp_at_one_rate", statement, verdict), &n.one, clamp)
        .interval("grpo at one rate minus grpo at its chosen rate", n.of_grpo()?)
        .rows("one_rate", &[]);
    let not_better = |key, statement, method| {
        let pair = pair(method)?;
        let verdict = holds_or(pair.effect(n.one.study.margin) != Effect::Higher, "it is shown to be better");
        Some(with(Finding::new(key, statement, verdict), &n.one, pair))
    };
    let rloo = "R2: At one rate RLOO is not shown to be better than GRPO";
    let trace = "R3: At one rate the trace alone is not shown to be better than GRPO";
    Some(vec![
        clamp,
        not_better("rloo_at_one_rate", rloo, RLOO)?,
        not_better("trace_at_one_rate", trace, TRACE)?,
    ])
}

/// The mean difference above which R1 of the control is refuted.
const HALF_OF_THE_GAIN: f64 = 0.034;

pub(super) fn findings(rates: &Rates) -> Vec<Finding> {
    let n = &rates.chosen;
    let first = credit(n);
    if n.compared.is_empty() {
        return vec![first];
    }
    let (gains, no_gain) = (Said::Gains, Said::DoesNotGain);
    let predicted = [
        accuracy(n, "clamp", "P2: GRPO with the clamp is better than GRPO", [CLAMP, GRPO], gains),
        accuracy(n, "trace", "P3: The trace alone is not better than GRPO", [TRACE, GRPO], no_gain),
        accuracy(n, "beyond", "P4: GRPO-λ is not better than GRPO with the clamp", [PAPER, CLAMP], no_gain),
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
    let control = at_one_rate(rates).into_iter().flatten();
    [first, learns(n)].into_iter().chain(predicted.into_iter().flatten()).chain(control).collect()
}

/// Comparisons with their verdicts, a row each.
fn compared(n: &Numbers) -> Table {
    table(n.compared.iter().map(|c| {
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
    }))
}

pub(super) fn tables(rates: &Rates) -> Vec<(String, Table)> {
    let n = &rates.chosen;
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
    let methods = table(n.methods.iter().map(own));
    filled([("", methods), ("compared", compared(n)), ("one_rate", compared(&rates.one))])
}

/// Every comparison with the intervals of both readers; no figure before they are there.
pub(super) fn figures(rates: &Rates) -> Vec<(String, Figure)> {
    let n = &rates.chosen;
    if n.compared.is_empty() {
        return Vec::new();
    }
    let named =
        |c: &Compared| format!("{} minus {}", label(&n.study, &c.pair.method), label(&n.study, &c.pair.with));
    let one_rate = rates.one.compared.iter().map(|c| format!("{}, one rate", named(c)));
    let pairs: Vec<String> = n.compared.iter().map(named).chain(one_rate).collect();
    let all = || n.compared.iter().chain(&rates.one.compared).zip(0..);
    let spans = |aside: f64, reader: fn(&Compared) -> Interval| -> Vec<_> {
        all().map(|(c, row)| placed(f64::from(row) + aside, reader(c))).collect()
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
    let figure = Figure::new(title(rates))
        .caption(format!("SmolLM2-135M-Instruct on small sums, {seeds} seeds that chose no rate, every run counted; Student's t over seeds. The other reader takes the last number of a response that ended by itself."))
        .columns(1)
        .panel_size(760, 130 + 40 * u32::try_from(pairs.len()).unwrap_or(u32::MAX))
        .panel(panel);
    vec![(String::new(), figure)]
}

/// The methods that compare so with GRPO, by their labels; none where there is none.
fn those(n: &Numbers, effect: Effect) -> Option<String> {
    let shown = |c: &&Compared| c.pair.with == GRPO && c.effect(n.study.margin) == effect;
    let labels: Vec<&str> =
        n.compared.iter().filter(shown).map(|c| label(&n.study, &c.pair.method)).collect();
    (!labels.is_empty()).then(|| labels.join(", "))
}

/// The title of the figure: what the comparisons with GRPO show.
fn title(rates: &Rates) -> String {
    let n = &rates.chosen;
    let more = those(n, Effect::Higher).map(|more| {
        let at_one = || those(&rates.one, Effect::Higher).unwrap_or_else(|| "none".to_owned());
        if rates.one.compared.is_empty() { more } else { format!("{more} (at one rate {})", at_one()) }
    });
    match [more, those(n, Effect::Lower)] {
        [None, None] => "No method is shown to differ from GRPO on SmolLM2".to_owned(),
        [Some(more), None] => format!("More accurate than GRPO on SmolLM2: {more}"),
        [None, Some(less)] => format!("Less accurate than GRPO on SmolLM2: {less}"),
        [Some(more), Some(less)] => {
            format!("More accurate than GRPO on SmolLM2: {more}; less accurate: {less}")
        }
    }
}
