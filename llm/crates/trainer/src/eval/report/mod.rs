//! The report: one self-contained HTML file, and the figures next to it.

pub mod figures;

use grpo_lambda_figure::Figure;
use grpo_lambda_stats::Interval;
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;

use super::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use super::score::Tally;
use super::store::ProblemRecord;
use super::summary::{EvalSummary, SummaryRow, digits, percent};

const PAGE: &str = include_str!("page.html");
/// The common part of the pages: `style()`, `section(s)` of a [`Section`], `shown(p)` of a [`ShownProblem`].
const SHARED: &str = include_str!("shared.html");

/// Problems shown in full, the worst and the best.
const WORST: usize = 6;
const BEST: usize = 3;
/// Responses of a problem shown in full.
const SHOWN: usize = 4;
/// Characters of a text shown; the rest is in `completions.jsonl`.
const LONGEST: usize = 6000;

/// A benchmark with its responses.
#[derive(Clone, Copy, Debug)]
pub struct ReportBenchmark<'a> {
    pub name: &'a str,
    pub problems: &'a [ProblemRecord],
    /// The responses by problem.
    pub completions: &'a [Vec<CompletionRecord>],
}

/// A failure to make the report, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error("report: {0}")]
pub struct ReportError(String);

/// A benchmark on a page.
#[derive(Serialize)]
pub struct Section {
    name: String,
    anchor: String,
    shares: Vec<Share>,
    reasons: Vec<ReasonCount>,
    cells: Vec<Square>,
    worst: Vec<ShownProblem>,
    best: Vec<ShownProblem>,
    limits: String,
}

#[derive(Serialize)]
struct Share {
    class: &'static str,
    words: &'static str,
    count: usize,
    percent: String,
}

#[derive(Serialize)]
struct ReasonCount {
    class: &'static str,
    words: &'static str,
    reason: String,
    count: usize,
    percent: String,
    example: String,
}

/// A problem in the strip of all problems.
#[derive(Serialize)]
struct Square {
    id: String,
    /// 0 to 10: tenths of right samples; `None` if no sample is gradable.
    tenths: Option<u32>,
    title: String,
}

/// A problem shown in full.
#[derive(Serialize)]
pub struct ShownProblem {
    id: String,
    score: String,
    problem: String,
    prompt: Option<String>,
    golds: Vec<String>,
    completions: Vec<ShownCompletion>,
    more: usize,
}

#[derive(Serialize)]
struct ShownCompletion {
    /// The name of its model, where a page shows responses of several.
    label: String,
    class: &'static str,
    words: &'static str,
    answer: Option<String>,
    reason: String,
    finish: &'static str,
    tokens: usize,
    text: String,
    left_out: usize,
}

/// The self-contained page. Every text from a data set or a model is escaped.
pub fn page(summary: &EvalSummary, parts: &[ReportBenchmark<'_>]) -> Result<String, ReportError> {
    let benchmarks: Vec<(&str, &[Vec<CompletionRecord>])> =
        parts.iter().map(|p| (p.name, p.completions)).collect();
    let mut figures: Vec<_> = figures::accuracy(summary).into_iter().collect();
    figures.extend(figures::attempts(summary, &benchmarks));
    figures.push(figures::lengths(&benchmarks));
    let svgs =
        figures.iter().enumerate().map(|(i, figure)| inlined(figure, i)).collect::<Result<Vec<_>, _>>()?;
    let sections: Vec<Section> = parts
        .iter()
        .zip(&summary.limits)
        .map(|(part, limits)| section(part, limits.sentence(super::summary::ASSUMED)))
        .collect();
    let settings: Vec<(String, String)> = summary
        .settings
        .entries()
        .into_iter()
        .map(|(key, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (key.replace('_', " "), text)
        })
        .collect();
    let rows: Vec<Value> = summary.rows().into_iter().map(row).collect();
    render(
        PAGE,
        context! {
            finding => summary.finding(), settings, headers => summary.headers(), rows,
            notes => summary.notes(), svgs, sections => Value::from(Serde(sections)),
            samples => summary.settings.samples, uncounted => summary.scores.iter().any(|s| s.uncounted() > 0),
        },
    )
}

/// A page from its template, which may import from `shared.html`. Every text is escaped.
pub fn render(template: &str, context: impl Serialize) -> Result<String, ReportError> {
    let failed = |e: minijinja::Error| ReportError(format!("{e:#}"));
    let mut environment = Environment::new();
    // The extension `.html` turns escaping on.
    environment.add_template("shared.html", SHARED).map_err(failed)?;
    environment.add_template("page.html", template).map_err(failed)?;
    environment
        .get_template("page.html")
        .and_then(|page| page.render(Value::from(Serde(context))))
        .map_err(failed)
}

/// Width of a panel on a narrow screen: with its edges the figure is as wide as a phone.
const NARROW: u32 = 330;

/// A figure within a page: its SVG, and a second one with its panels below each other, which a narrow screen shows in its place.
pub fn inlined(figure: &Figure, number: usize) -> Result<String, ReportError> {
    let narrow = figure.clone().columns(1).panel_size(NARROW, figure.panel_size.1);
    let both = [(figure, 2 * number), (&narrow, 2 * number + 1)];
    let drawn = both.map(|(figure, id)| figure.to_svg().map(|svg| inline(&svg, id)));
    drawn.into_iter().collect::<Result<String, _>>().map_err(|e| ReportError(e.to_string()))
}

/// Up to `most` problems that `after` answers right and `before` does not, and up to as many of the opposite, with both answers.
pub fn changed(
    problems: &[ProblemRecord],
    [before, after]: [&[Vec<CompletionRecord>]; 2],
    labels: [&str; 2],
    most: usize,
) -> [Vec<ShownProblem>; 2] {
    let right = |samples: &[CompletionRecord]| samples.iter().any(|c| c.verdict == ResponseOutcome::Right);
    let all = problems.iter().zip(before.iter().zip(after));
    [false, true].map(|was| {
        let changed = all.clone().filter(|(_, (a, b))| right(a) == was && right(b) != was);
        let show = |(problem, (a, b)): (&ProblemRecord, (&Vec<CompletionRecord>, &Vec<CompletionRecord>))| {
            let mut shown = shown_problem(problem, &[a.as_slice(), b].concat());
            shown.score = String::new();
            for (completion, label) in shown.completions.iter_mut().zip(labels) {
                completion.label = label.to_owned();
            }
            shown
        };
        changed.take(most).map(show).collect()
    })
}

/// Makes an SVG's ids unique within the page.
fn inline(svg: &str, number: usize) -> String {
    let start = svg.find("<svg").unwrap_or(0);
    let own = format!("f{number}-");
    svg[start..]
        .replace("id=\"", &format!("id=\"{own}"))
        .replace("url(#", &format!("url(#{own}"))
        .replace("href=\"#", &format!("href=\"#{own}"))
}

fn row(SummaryRow { name, n, values, counts, tokens }: SummaryRow) -> Value {
    let shown = |i: Option<Interval>| match i {
        Some(i) => {
            context! { value => percent(i.mid), ends => format!("{} to {}", percent(i.low), percent(i.high)) }
        }
        None => context! { value => "–", ends => "none counts" },
    };
    let cells: Vec<Value> = values.into_iter().map(shown).collect();
    let [uncounted, no_answer, cut_off] = counts;
    context! { name, n, cells, uncounted, no_answer, cut_off, tokens }
}

fn class(outcome: ResponseOutcome) -> &'static str {
    match outcome {
        ResponseOutcome::Right => "right",
        ResponseOutcome::Wrong => "wrong",
        ResponseOutcome::NoAnswer => "silent",
        ResponseOutcome::Unreadable => "unreadable",
        ResponseOutcome::NoRoom => "noroom",
    }
}

/// The outcomes of a benchmark, with its worst and best problems.
pub fn section(part: &ReportBenchmark<'_>, limits: String) -> Section {
    let all: Vec<&CompletionRecord> = part.completions.iter().flatten().collect();
    let share_of = |count: usize| percent(count as f64 / all.len() as f64);
    let share = |outcome: &ResponseOutcome| {
        let count = all.iter().filter(|c| c.verdict == *outcome).count();
        Share { class: class(*outcome), words: outcome.words(), count, percent: share_of(count) }
    };
    let square = |(problem, samples): (&ProblemRecord, &Vec<CompletionRecord>)| {
        let tally = Tally::new(samples);
        let tenths = tally.score().map(|s| (10.0 * s).round() as u32);
        let score = tally.score().map_or("not counted".to_owned(), |s| format!("{} %", digits(100.0 * s)));
        Square { id: problem.id.clone(), tenths, title: format!("{}: {score}", problem.id) }
    };
    let order = order(part);
    let full = |i: &usize| shown_problem(&part.problems[*i], &part.completions[*i]);
    let score = |i: usize| Tally::new(&part.completions[i]).score_of_all();
    let worst: Vec<usize> = mixed(part, &order).into_iter().filter(|i| score(*i) < 1.0).take(WORST).collect();
    let best = order.iter().rev().copied().filter(|i| score(*i) > 0.0 && !worst.contains(i)).take(BEST);
    Section {
        name: part.name.to_owned(),
        anchor: super::benchmark::slug(part.name),
        shares: ResponseOutcome::ALL.iter().map(share).filter(|s| s.count > 0).collect(),
        reasons: reasons(&all),
        cells: part.problems.iter().zip(part.completions).map(square).collect(),
        worst: worst.iter().map(full).collect(),
        best: best.map(|i| full(&i)).collect(),
        limits,
    }
}

/// Problem indices by ascending score. Ties keep the order of the benchmark, except among the best, where the order is reversed.
fn order(part: &ReportBenchmark<'_>) -> Vec<usize> {
    let score = |i: usize| Tally::new(&part.completions[i]).score_of_all();
    let mut order: Vec<usize> = (0..part.completions.len()).collect();
    let top = order.iter().map(|&i| score(i)).fold(0.0, f64::max);
    order.sort_by(|&a, &b| {
        let place = if score(a) == top { b.cmp(&a) } else { a.cmp(&b) };
        score(a).total_cmp(&score(b)).then(place)
    });
    order
}

/// The problems with the lowest score, alternating between the kinds of failure; then the others.
fn mixed(part: &ReportBenchmark<'_>, order: &[usize]) -> Vec<usize> {
    let score = |i: usize| Tally::new(&part.completions[i]).score_of_all();
    let Some(&first) = order.first() else { return Vec::new() };
    let (lowest, rest): (Vec<usize>, Vec<usize>) = order.iter().partition(|&&i| score(i) == score(first));
    let kind = |i: usize| {
        let wrong = part.completions[i].iter().find(|c| c.verdict != ResponseOutcome::Right);
        wrong.map(|c| (c.verdict, c.finish == RecordedFinish::Length))
    };
    let mut kinds: Vec<Vec<usize>> = Vec::new();
    for i in lowest {
        match kinds.iter_mut().find(|of| kind(of[0]) == kind(i)) {
            Some(of) => of.push(i),
            None => kinds.push(vec![i]),
        }
    }
    let longest = kinds.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| kinds.iter().filter_map(move |of| of.get(turn)).copied());
    turns.chain(rest).collect()
}

/// Reasons why responses were not right, most frequent first.
fn reasons(all: &[&CompletionRecord]) -> Vec<ReasonCount> {
    let mut counts: Vec<ReasonCount> = Vec::new();
    for completion in all.iter().filter(|c| c.verdict != ResponseOutcome::Right) {
        let cut = completion.finish == RecordedFinish::Length;
        // The text before a colon names the kind, the text after it the case.
        let kind = match completion.verdict {
            ResponseOutcome::Wrong => "another value than the reference",
            ResponseOutcome::NoAnswer => "no complete answer where one was looked for",
            ResponseOutcome::NoRoom => "no room for a response",
            _ if completion.reason.ends_with("is not an integer") => "not an integer",
            _ => completion.reason.split(':').next().unwrap_or_default(),
        };
        let reason = if cut { format!("{kind}; cut off") } else { kind.to_owned() };
        match counts.iter_mut().find(|c| c.reason == reason) {
            Some(count) => count.count += 1,
            None => counts.push(ReasonCount {
                class: class(completion.verdict),
                words: completion.verdict.words(),
                reason,
                count: 1,
                percent: String::new(),
                example: clip(completion.answer.as_deref().unwrap_or_default(), 80).0,
            }),
        }
    }
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    counts.iter_mut().for_each(|c| c.percent = percent(c.count as f64 / all.len() as f64));
    counts
}

fn shown_problem(problem: &ProblemRecord, samples: &[CompletionRecord]) -> ShownProblem {
    let tally = Tally::new(samples);
    let score = match tally.samples {
        1 => String::new(),
        n => format!("{} of {n} right", tally.right),
    };
    let one = |c: &CompletionRecord| {
        let (text, left_out) = clip(&c.text, LONGEST);
        ShownCompletion {
            label: String::new(),
            class: class(c.verdict),
            words: c.verdict.words(),
            answer: c.answer.as_deref().map(|a| clip(a, 200).0),
            reason: clip(&c.reason, 300).0,
            finish: match c.finish {
                RecordedFinish::Eos => "ended by itself",
                RecordedFinish::Stop => "ended with a stop string",
                RecordedFinish::Length => "cut off",
                RecordedFinish::NoRoom => "not asked",
            },
            tokens: c.tokens,
            text,
            left_out,
        }
    };
    ShownProblem {
        id: problem.id.clone(),
        score,
        problem: clip(&problem.problem, LONGEST).0,
        prompt: (problem.prompt != problem.problem).then(|| clip(&problem.prompt, LONGEST).0),
        golds: problem.golds.iter().map(|g| clip(g, 500).0).collect(),
        completions: samples.iter().take(SHOWN).map(one).collect(),
        more: samples.len().saturating_sub(SHOWN),
    }
}

/// The first characters of a text, and the number left out.
fn clip(text: &str, most: usize) -> (String, usize) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (format!("{} …", &text[..end]), text[end..].chars().count()),
        None => (text.to_owned(), 0),
    }
}
