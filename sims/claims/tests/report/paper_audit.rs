//! The audit of the paper's tables: reference numbers, and the tables against the text they are from.

use grpo_lambda_claims::experiment::{Context, Verdict};
use grpo_lambda_claims::experiments::paper_audit::gains::{self, Estimate, Gain};
use grpo_lambda_claims::experiments::paper_audit::{Audit, EXPERIMENT};
use grpo_lambda_claims::store::Store;
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model, Paper, Score};
use std::path::Path;

fn audit() -> Audit {
    Audit::new(Paper::embedded().expect("the committed tables"))
}

/// Equal to the given number of decimals.
fn same(value: f64, expected: f64, decimals: i32) {
    assert!((value - expected).abs() <= 0.5001 * 10f64.powi(-decimals), "{value} is not {expected}");
}

#[test]
fn gains_of_the_common_variant_are_1_2_2_5_6_6_and_1_5_standard_errors() {
    let a = audit();
    // (difference, unpaired standard error) in points by data set, then the mean of four.
    let expected = [
        ([(1.66, 2.40), (3.54, 2.42), (0.10, 2.42), (0.24, 2.24)], (1.39, 1.19, 1.17)),
        ([(3.96, 2.61), (8.64, 2.28), (-6.26, 2.61), (6.30, 2.55)], (3.16, 1.26, 2.51)),
        ([(-0.06, 2.13), (5.48, 1.59), (9.64, 1.85), (8.10, 1.28)], (5.79, 0.87, 6.64)),
        ([(3.56, 2.80), (4.46, 2.84), (0.32, 2.80), (0.10, 2.84)], (2.11, 1.41, 1.50)),
    ];
    for (model, (cells, mean)) in Model::ALL.into_iter().zip(expected) {
        let own = gains::by_dataset(&a.gains, model, Column::COMMON);
        for (gain, (points, se)) in own.iter().zip(cells) {
            same(gain.points, points, 2);
            same(gain.se, se, 2);
        }
        let e = gains::mean_gain(&a.gains, model, Column::COMMON);
        same(e.points, mean.0, 2);
        same(e.se, mean.1, 2);
        same(e.z(), mean.2, 2);
    }
}

#[test]
fn fifty_of_76_comparisons_are_above_grpo_and_26_below() {
    let a = audit();
    assert_eq!(a.wins(|_| true), (50, 26));
    assert_eq!(a.wins(|g| g.run.dataset == Dataset::Gsm8k), (7, 12));
    let column = a.paper.columns(Model::Qwen15)[7];
    assert_eq!(column.name(), "recent/ε-weight/0.98");
    for model in Model::SMALL {
        assert_eq!(a.wins(|g| g.run.model == model && g.run.column == column), (1, 3));
    }
    // The printed AVGs count the same.
    assert_eq!(a.gains.iter().filter(|g| g.printed_points() > 0.0).count(), 50);
}

#[test]
fn seven_gains_and_three_losses_of_76_survive_holm() {
    let a = audit();
    assert_eq!((a.corrected.gains, a.corrected.losses), (7, 3));
    let small: Vec<Estimate> =
        a.gains.iter().filter(|g| Model::SMALL.contains(&g.run.model)).map(Gain::estimate).collect();
    assert_eq!(small.len(), 64);
    let corrected = gains::multiplicity(&small);
    assert_eq!((corrected.gains, corrected.losses), (2, 2));
}

#[test]
fn the_report_leads_with_the_paper_s_claim_and_fills_every_number() {
    let report =
        (EXPERIMENT.run)(&Context { seed: 0, full: false, progress: &|_, _| {}, store: &Store::none() })
            .expect("no outside world");
    assert!(report.findings[0].statement.contains("all the variations provide significant gains"));
    assert!(
        matches!(&report.findings[0].verdict, Verdict::Fails(why) if why.contains("recent/ε-weight/0.98"))
    );
    for f in &report.findings {
        let finite = f.values.values().all(|value| !value.is_null());
        assert!(finite && (!f.values.is_empty() || f.rows.is_some() || !f.note.is_empty()), "{f:?}");
        assert_eq!(f.verdict.detail().is_empty(), f.verdict == Verdict::Holds, "{f:?}");
    }
    let sizes: Vec<_> = report.tables.iter().map(|(name, t)| (name.as_str(), t.rows.len())).collect();
    let expected = [
        ("", 76),
        ("means", 20),
        ("variants", 8),
        ("selection", 10),
        ("averages", 92),
        ("impossible_scores", 5),
        ("table1", 48),
        ("data_sets", 8),
    ];
    assert_eq!(sizes, expected);
    assert_eq!(report.figures.len(), 1);
}

/// The paper's text, where a copy lies next to the repository.
fn paper_text() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seeds = root.ancestors().map(|a| a.join("shared/seeds")).find(|d| d.is_dir());
    let files = seeds.iter().flat_map(|d| std::fs::read_dir(d).expect("a directory")).flatten();
    let is_paper = |t: &String| t.contains("Table 1: Average performance") && t.contains("Table 6:");
    let text = files.filter_map(|f| std::fs::read_to_string(f.path()).ok()).find(is_paper);
    if text.is_none() {
        println!("skipped: no shared/seeds with the paper's text in a directory above this one");
    }
    text
}

fn number(token: &str) -> Option<Score> {
    let (whole, decimals) = token.split_once('.')?;
    let digits = whole.len() == 1 && decimals.len() == 3;
    let value = format!("{whole}{decimals}").parse().ok()?;
    digits.then_some(Score(value))
}

/// The scores at the end of a line.
fn scores(line: &str) -> Vec<Score> {
    let mut found: Vec<Score> = line.split_whitespace().rev().map_while(number).collect();
    found.reverse();
    found
}

#[test]
fn every_printed_cell_is_the_cell_of_the_text() {
    let Some(text) = paper_text() else { return };
    let paper = Paper::embedded().expect("the committed tables");
    let (mut table, mut sets, mut compared) = (0, Vec::new(), 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(n) = line.strip_prefix("Table ").and_then(|rest| rest.split(':').next()) {
            table = n.parse().unwrap_or(0);
        } else if line.starts_with("Trained on ") {
            let set = |w: &&str| Dataset::ALL.into_iter().find(|d| d.name() == *w).expect("a data set");
            sets = words[2..].iter().map(set).collect();
        } else if let Some(model) = Model::ALL.into_iter().find(|m| m.table() == table) {
            let columns = paper.columns(model);
            if line.starts_with("λ\\lambda GRPO") {
                let lams: Vec<Option<f64>> = words[1..].iter().map(|w| w.parse().ok()).collect();
                let repeats = lams.len() / columns.len();
                let expected: Vec<_> = (0..repeats).flat_map(|_| columns.iter().map(|c| c.lam)).collect();
                assert_eq!(lams, expected, "Table {table}");
            }
            let benchmark = Benchmark::ALL.into_iter().find(|b| words.first() == Some(&b.row_name()));
            if benchmark.is_none() && words.first() != Some(&"AVG") {
                continue;
            }
            let printed = scores(line);
            if printed.is_empty() {
                continue;
            }
            let pairs = sets.iter().flat_map(|d| columns.iter().map(move |c| (*d, *c)));
            let ours: Vec<Score> = pairs
                .map(|(d, c)| {
                    let run = paper.run(model, d, c).expect("the run");
                    benchmark.map_or(run.printed_average, |b| run.scores[b as usize])
                })
                .collect();
            assert_eq!(printed, ours, "Table {table}, {sets:?}: {line}");
            compared += printed.len();
        }
    }
    assert_eq!(compared, 460 + 92, "cells of Tables 3-6");

    // Table 1: "Model GRPO average aime amc math minerva olympiad", then the same for GRPO-λ.
    let start = text.find("Table 1: Average performance").expect("Table 1");
    let rows: Vec<Vec<Score>> = text[start..].lines().map(scores).filter(|s| s.len() == 6).take(8).collect();
    for (pair, printed) in paper.table1.iter().zip(rows.chunks(2)) {
        for (row, printed) in [pair.grpo, pair.lambda].iter().zip(printed) {
            let ours = [row.average, row.aime, row.amc, row.math, row.minerva, row.olympiad];
            assert_eq!(printed, &ours);
            compared += ours.len();
        }
    }
    assert_eq!(compared, 600, "with Table 1");
    println!("compared {compared} cells of Tables 1 and 3-6");
}

/// Half of a text that is something said twice, as the extraction prints a formula.
fn halved(text: &str) -> Option<&str> {
    let (a, b) = text.split_at_checked(text.len() / 2)?;
    (a == b && !a.is_empty()).then_some(a)
}

#[test]
fn every_line_of_table_2_is_the_line_of_the_text() {
    let Some(text) = paper_text() else { return };
    let t = Paper::embedded().expect("the committed tables").table2;
    let start = text.find("Table 2: Hyperparameter").expect("Table 2");
    let end = text[start..].find("Appendix C").expect("the next appendix");
    let lines: Vec<&str> = text[start..start + end].lines().map(str::trim).collect();
    let yes = |b: bool| if b { "yes" } else { "no" };
    let full = |f: grpo_lambda_printed::PerSize<bool>| {
        format!("Full finetuning (no LoRA) {} {} {}", yes(f.small), yes(f.middle), yes(f.large))
    };
    let (s, r) = (&t.sft, &t.rl);
    // 10000 spans the two smaller sizes.
    assert_eq!(r.training_steps.small, r.training_steps.middle);
    let one = |x: f64| format!("{x:?}");
    let ours = [
        format!("Precision {}", t.common.precision),
        format!("Distributed type {}", t.common.distributed),
        format!("Number of devices {}", t.common.num_devices),
        format!("Epochs {}", s.epochs),
        format!("Max sequence length {}", s.max_seq_len),
        format!("Per device batch-size {}", s.per_device_batch_size),
        format!("Gradient accumulation steps {}", s.grad_accum),
        full(s.full_finetuning),
        format!("Training steps {} {}", r.training_steps.small, r.training_steps.large),
        format!("Maximum prompt length {}", r.max_prompt_length),
        format!("Group size (number of generations) {}", r.group_size),
        format!("Maximum gradient norm {}", one(r.max_grad_norm)),
        format!("KL-divergence coefficient (β\\beta) {}", one(r.beta)),
        format!("Accuracy reward weight {}", one(r.accuracy_reward_weight)),
        format!("Format reward weight {}", one(r.format_reward_weight)),
        format!(
            "Maximum completion length {} {} {}",
            r.max_completion_length.small, r.max_completion_length.middle, r.max_completion_length.large
        ),
        format!(
            "Per device batch-size {} {} {}",
            r.per_device_batch_size.small, r.per_device_batch_size.middle, r.per_device_batch_size.large
        ),
        format!(
            "Gradient accumulation steps {} {} {}",
            r.grad_accum.small, r.grad_accum.middle, r.grad_accum.large
        ),
        full(r.full_finetuning),
        format!("Advantage clamping {}", one(t.grpo_lambda.advantage_clamp_min)),
    ];
    // A formula is extracted twice: "0.040.04", "11" for 1, and "0.1-0.1" for -0.1.
    let clean = |line: &str| {
        let word = |w: &str| match halved(w) {
            Some(half) => half.to_owned(),
            None => w.split_once('-').filter(|(a, b)| a == b).map_or(w.to_owned(), |(a, _)| format!("-{a}")),
        };
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
    };
    let printed: Vec<String> = lines.iter().map(|l| clean(l)).collect();
    for line in &ours {
        assert!(printed.contains(line), "{line:?} is not in {printed:#?}");
    }
    assert!(s.learning_rate == 2e-5 && lines.iter().any(|l| l.contains("2\\times 10^{-5}")));
}

#[test]
fn numbers_of_the_prose_are_in_the_text_as_quoted() {
    let Some(paper) = paper_text() else { return };
    let quotes = [
        "demonstrate 30-40% improved",
        "to be around 2020-5050%",
        "improves over GRPO by over 33",
        "points and a 4.54.5",
        "all the variations provide significant gains over GRPO",
        "has over GRPO is quite significant",
        "points improvement on the 7B model",
        "including a 10 point improvement on AIME24",
        "models that have been trained on the ORZMath57K perform far worse",
        "This is consistent across multiple model architectures and sizes, be it for GRPO and for",
        "post-training on the MathRL-16k dataset results in particularly good performance on the evaluation \
         benchmarks for both GRPO and",
        "is larger on the 3B and 7B models than the 1.5B models",
        "the 3B model performs worse on the evaluation benchmarks than the smaller 1.5B models",
        "resulting in an improvement of over 5 points (0.05520.0552)",
        "not the variations introduced in",
    ];
    for quote in quotes {
        assert!(paper.contains(quote), "{quote}");
    }
}
