use super::anatomy::anatomy;
use super::expectation::{Effort, Expectation, expectation};
use super::measure::{MaskedTask, piece};
use super::row::{Column, GROUP};
use super::*;
use crate::atlas::entries::ENTRIES;
use crate::atlas::tasks::tasks;
use crate::experiment::{Context, Report};
use crate::store::Store;
use grpo_lambda::methods;
use grpo_lambda::systematic::Sets;
use grpo_lambda_mdp::expected::{Situation, conditional, multisets, sampled};
use grpo_lambda_mdp::zoo::{self, Family};
use grpo_lambda_mdp::{Oracle, Tabular};
use grpo_lambda_stats::table::Table;

fn method(words: &str) -> Box<dyn methods::Method> {
    let (name, settings) = words.split_once(' ').unwrap_or((words, ""));
    methods::parse(name, settings).unwrap().method
}

fn small() -> (grpo_lambda_mdp::Tree, Tabular) {
    let family = zoo::Random { seed: 4, symbols: 2, horizon: 3, eos: 0.7, ..zoo::Random::default() };
    let tree = family.tree().unwrap();
    let policy = Tabular::random(&tree, 104, 0.8);
    (tree, policy)
}

/// A number of an anatomy.
fn number(anatomy: &[(Column, f64)], column: Column) -> f64 {
    anatomy.iter().find(|(c, _)| *c == column).unwrap().1
}

fn exact(words: &str, tree: &grpo_lambda_mdp::Tree, policy: &Tabular, g: usize) -> Expectation {
    let effort = Effort { multisets: 1e5, evaluations: 2.0, samples: 2 };
    let found = expectation(method(words).as_ref(), &Situation::on_policy(tree, policy, g), effort, true, 0);
    assert!(found.how.starts_with("exact"), "{words}: {}", found.how);
    found
}

#[test]
fn simulated_others_give_the_exact_update_within_their_standard_error() {
    let (tree, policy) = small();
    for words in ["grpo reduction=token_mean", "tempo", "reinforce_pp"] {
        let situation = Situation::on_policy(&tree, &policy, 4);
        let truth = multisets(method(words).as_ref(), &situation, Sets::SINGLE, 1e6).unwrap();
        let found = conditional(method(words).as_ref(), &situation, 400, 3);
        let n = found.draws.len() as f64;
        for e in tree.edges() {
            let spread: f64 = found.draws.iter().map(|d| (d[e] - found.update[e]).powi(2)).sum();
            let error = (spread / (n * (n - 1.0))).sqrt();
            assert!((found.update[e] - truth.update[e]).abs() < 4.5 * error + 1e-12, "{words} {e}");
        }
        let apart = |v: &[f64]| v.iter().zip(&truth.update).map(|(x, t)| (x - t).powi(2)).sum::<f64>().sqrt();
        let plain = sampled(method(words).as_ref(), &situation, 400, 3);
        assert!(apart(&found.update) < apart(&plain.estimate.update), "{words}: conditioning helps");
    }
}

#[test]
fn direction_and_rescaling_add_up_to_the_bias_and_the_cosine_says_the_same() {
    let task = &tasks(false).unwrap()[10]; // eos_hazard: lengths vary
    let oracle = Oracle::new(&task.tree, &task.start);
    for words in ["grpo_lambda style=both", "grpo reduction=token_mean", "rlsd"] {
        let found = anatomy(&exact(words, &task.tree, &task.start, 4), &oracle).unwrap();
        let [bias, direction, rescaling] =
            [Column::Bias, Column::BiasDirection, Column::BiasRescaling].map(|c| number(&found, c).powi(2));
        let [mse, mse_bias, mse_variance] =
            [Column::Mse, Column::MseBias, Column::MseVariance].map(|c| number(&found, c));
        let [cosine, ratio] = [Column::Cosine, Column::SignalToNoise].map(|c| number(&found, c));
        assert!((bias - direction - rescaling).abs() < 1e-9 * (1.0 + bias));
        assert!((bias - (1.0 / cosine.powi(2) - 1.0)).abs() < 1e-7 * (1.0 + bias));
        assert!((mse - mse_bias - mse_variance).abs() < 1e-12 && mse > 0.0 && mse <= 1.0, "{words}");
        let shrunk = cosine.powi(2) * ratio / (1.0 + ratio);
        assert!(cosine < 0.0 || (mse - (1.0 - shrunk)).abs() < 1e-12, "{words}");
    }
}

#[test]
fn the_error_of_an_update_is_that_of_simulated_updates_at_the_best_step() {
    // E|c g - grad|² directly, from simulated groups at the step size of the formula, and at others, where it is larger.
    let (tree, policy) = small();
    let oracle = Oracle::new(&tree, &policy);
    let grad = oracle.grad_j();
    let square = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>();
    for words in ["rloo", "grpo_lambda style=recent", "tempo"] {
        let found = exact(words, &tree, &policy, 4);
        let mse = number(&anatomy(&found, &oracle).unwrap(), Column::Mse);
        let along: f64 = found.update.iter().zip(&grad).map(|(m, g)| m * g).sum();
        let best = along / (square(&found.update) + found.variance);
        let n = 4000;
        let simulate = |c: f64| {
            // Each group on its own: `sampled` needs two at least and gives their mean; two and their spread give both squares.
            let mut errors = Vec::new();
            for seed in 0..n {
                let pair = sampled(method(words).as_ref(), &Situation::on_policy(&tree, &policy, 4), 2, seed);
                let mean: Vec<f64> = pair.estimate.update.iter().zip(&grad).map(|(m, g)| c * m - g).collect();
                // Mean of |c g_k - grad|² over two draws = |mean|² + half of c² times their variance (n - 1 = 1 in the denominator).
                errors.push((square(&mean) + 0.5 * c * c * pair.estimate.total_variance()) / square(&grad));
            }
            let mean = errors.iter().sum::<f64>() / n as f64;
            let spread = errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            (mean, (spread / n as f64).sqrt())
        };
        let (mean, error) = simulate(best);
        assert!((mean - mse).abs() < 4.0 * error, "{words}: {mean} ± {error}, {mse}");
        assert!(error < 0.05 && simulate(1.7 * best).0 > mean && simulate(0.4 * best).0 > mean, "{words}");
    }
}

fn tiny(threads: usize, store: &Store) -> Report {
    let measure = |context: &Context| {
        let effort = Effort { multisets: 500.0, evaluations: 64.0, samples: 20 };
        measure(context, &Size { groups: vec![2, GROUP], effort, full: false, tasks: Some(4) })
    };
    PARTS.tiny(measure, threads, store)
}

fn tables_of(report: &Report) -> Vec<Table> {
    report.tables.iter().map(|(_, t)| t.clone()).collect()
}

#[test]
fn threads_change_nothing_and_a_resumed_run_has_the_rows_of_a_fresh_one() {
    let fresh = tiny(1, &Store::none());
    assert_eq!(tables_of(&fresh), tables_of(&tiny(3, &Store::none())));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let first = Store::open(&path, "sim").unwrap();
    tiny(2, &first);
    drop(first);
    // Stopped half-way: the second half of the lines is lost.
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() > 4 * ENTRIES.len());
    std::fs::write(&path, lines[..lines.len() / 2].join("\n") + "\n").unwrap();
    let second = Store::open(&path, "sim").unwrap();
    assert_eq!(second.len(), lines.len() / 2 - 1);
    let resumed = tiny(2, &second);
    assert_eq!(tables_of(&resumed), tables_of(&fresh));
    assert_eq!(resumed.findings.len(), fresh.findings.len());
    for (a, b) in resumed.findings.iter().zip(&fresh.findings) {
        assert_eq!((&a.statement, &a.verdict, &a.values), (&b.statement, &b.verdict, &b.values));
    }
}

#[test]
fn every_cell_of_the_matrix_is_there_and_what_is_impossible_says_why() {
    let report = tiny(2, &Store::none());
    let long = &report.tables[0].1;
    assert_eq!(long.rows.len(), 4 * ENTRIES.len());
    let place = |name: &str| long.column(name).unwrap();
    for row in &long.rows {
        let how = row[place("how")].format(3);
        let known = how.starts_with("exact") || how.starts_with("sampled") || how == "impossible";
        assert!(known, "{how}");
        let why = row[place("reason")].format(3);
        assert_eq!(row[place("cosine")].number().is_none(), !why.is_empty(), "{row:?}");
        assert!(
            row[place("trace_covariance_se")].number() != Some(0.0) || how.starts_with("exact"),
            "{row:?}"
        );
    }
}

#[test]
fn a_binary_only_method_on_real_rewards_is_a_row_with_a_reason() {
    let task = tasks(false).unwrap().into_iter().find(|t| t.name == "chain_partial").unwrap();
    let masked = MaskedTask::new(task, 1);
    let entry = ENTRIES.iter().find(|e| e.method == "rlsd").unwrap();
    let rows = piece(&masked, entry, &[2], Size::new(false).effort, 1).unwrap();
    assert_eq!(rows[0].how, "impossible");
    assert!(rows[0].reason.contains("teacher_logps"), "{}", rows[0].reason);
    assert_eq!(rows[0].get(Column::Cosine), None);
}
