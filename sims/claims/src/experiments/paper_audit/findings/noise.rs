//! The gains against the noise of test items and of runs.

use super::{estimates, list, p_value};
use crate::experiment::Finding;
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::{average, extremes};
use crate::experiments::paper_audit::Audit;
use crate::experiments::paper_audit::gains::{
    self, Chance, Estimate, Gain, Selection, minimal_detectable, variance_share,
};
use crate::sentences::SentenceId;
use grpo_lambda_printed::{Benchmark, Column, Dataset, Model};
use grpo_lambda_stats::{expected_max_normal, holm};

/// A variant over both 1.5B models and all data sets: eight gains.
pub(in super::super) fn pooled_variants(audit: &Audit) -> Vec<(Column, Vec<Gain>, Estimate)> {
    let pool = |column: Column| {
        let parts: Vec<Gain> =
            Model::SMALL.into_iter().flat_map(|m| gains::by_dataset(&audit.gains, m, column)).collect();
        let mean = Estimate::mean(&estimates(&parts));
        (column, parts, mean)
    };
    audit.paper.columns(Model::Qwen15).into_iter().skip(1).map(pool).collect()
}

pub(super) fn headline(audit: &Audit) -> Finding {
    let variants = pooled_variants(audit);
    let corrected = gains::multiplicity(&variants.iter().map(|v| v.2).collect::<Vec<_>>());
    let (up, down) = audit.wins(|_| true);
    let worst = variants.iter().min_by(|a, b| a.2.points.total_cmp(&b.2.points)).expect("eight variants");
    let losses = list(Model::SMALL, |m| {
        let four = gains::by_dataset(&audit.gains, m, worst.0);
        let lost = four.iter().filter(|g| g.points < 0.0).count();
        format!("{lost} of {} data sets on {}", four.len(), m.name())
    });
    let detail = format!(
        "of {} variants on the 1.5B models {} are significantly better than GRPO after Holm's correction, and {} \
         significantly worse. {} differs by {} points on average and is worse on {losses}",
        variants.len(),
        corrected.gains,
        corrected.losses,
        worst.0.name(),
        worst.2
    );
    let gsm = audit.wins(|g| g.run.dataset == Dataset::Gsm8k);
    quoted(SentenceId::EveryVariationGains)
        .holds_or(corrected.gains == variants.len(), detail)
        .value("variants", variants.len())
        .value("variants that gain", corrected.gains)
        .value("cells of variant x data set", audit.gains.len())
        .value("cells above GRPO", up)
        .value("cells below", down)
        .value("cells trained on gsm8k that lose", gsm.1)
        .rows("variants", &["variant", "gain_points", "low95", "high95", "p_holm_8", "after_holm"])
        .note("Mean gain over both 1.5B models in points, 95 %. Training curves are printed only as figures.")
}

/// The gain of the variant trained on all models, averaged over the data sets, per model.
pub(in super::super) fn common_gains(audit: &Audit) -> [Estimate; 4] {
    Model::ALL.map(|m| gains::mean_gain(&audit.gains, m, Column::COMMON))
}

pub(super) fn benchmark_gain(audit: &Audit) -> Finding {
    let per_model = common_gains(audit);
    let pooled = Estimate::mean(&per_model);
    // The averages of a model, and those of all models, answer the same items: their errors may be shared.
    let common = |m| gains::by_dataset(&audit.gains, m, Column::COMMON);
    let clustered = Model::ALL.map(|m| Estimate::mean_of_dependent(&estimates(&common(m))));
    let within = Estimate::mean(&clustered);
    let throughout = Estimate::mean_of_dependent(&clustered);
    let unclear: Vec<Model> =
        Model::ALL.into_iter().zip(&per_model).filter(|(_, e)| e.z() < 1.96).map(|(m, _)| m).collect();
    let (q, p) = gains::heterogeneity(&per_model);
    let condition = format!(
        "the models are pooled ({pooled} points), training seeds add no variance, and the averages share no item \
         errors. The improvements of {} alone are not significant",
        list(&unclear, |m| m.name().into())
    );
    let smoothed = |m| Estimate::mean(&common(m).iter().map(Gain::smoothed).collect::<Vec<_>>()).z();
    let without_llama = Estimate::mean(&[
        per_model[Model::Qwen15 as usize],
        per_model[1],
        per_model[Model::R1Qwen7 as usize],
    ]);
    let cases = [
        ("all models", pooled),
        ("without the 3B", without_llama),
        ("the averages of a model share their error", within),
        ("those of all models do", throughout),
    ];
    quoted(SentenceId::AverageGain)
        .holds_when(
            unclear.is_empty(),
            pooled.z() > 1.96,
            condition,
            format!("the pooled gain is {pooled} points"),
        )
        .each(Model::ALL, |f, m| f.value(format!("{}: z with smoothed scores", m.name()), smoothed(m)))
        .each(cases, |finding, (name, e)| {
            let (low, high) = e.interval();
            finding.value(format!("{name}: points"), [e.points, low, high]).value(format!("{name}: z"), e.z())
        })
        .value("Q on 3 degrees, the models differ", q)
        .value("its p", p)
        .value("items", Benchmark::ALL.iter().map(|b| b.items()).sum::<i64>())
        .rows("means", &["model", "gain_points", "low95", "high95", "z", "correlation_needed"])
        .only("variant", &[Column::COMMON.name()])
        .note("Points, mean of four data sets. SE = sqrt(sum_b [p1(1-p1)+p2(1-p2)]/N_b)/5, unpaired, test items only: \
            there is one training seed, so the chance in training is not covered. A larger correlation of right and \
            wrong between runs than the one needed would bring z to 1.96. All averages answer the same items: the \
            pairing of runs narrows the interval, a shared error widens it, and the scores printed tell neither.")
}

pub(super) fn multiplicity(audit: &Audit) -> Finding {
    let corrected = &audit.corrected;
    let raw = audit.gains.iter().filter(|g| g.estimate().p() < 0.05);
    let (raw_up, raw_down): (Vec<&Gain>, Vec<&Gain>) = raw.partition(|g| g.points > 0.0);
    let small: Vec<Gain> =
        audit.gains.iter().copied().filter(|g| Model::SMALL.contains(&g.run.model)).collect();
    let small_corrected = gains::multiplicity(&estimates(&small));
    claim(
        "multiplicity",
        "Most printed differences from GRPO are positive and exceed the noise of the test items after correction \
         for multiple tests",
    )
    .holds_or(
        2 * corrected.gains > audit.gains.len(),
        format!(
            "after Holm's correction {} positive and {} negative differences of {} are significant at 5 %",
            corrected.gains,
            corrected.losses,
            audit.gains.len()
        ),
    )
    .value("gains, uncorrected", raw_up.len())
    .value("losses, uncorrected", raw_down.len())
    .value("cells of the 1.5B models alone", small.len())
    .value("their gains", small_corrected.gains)
    .value("their losses", small_corrected.losses)
    .rows("", &["model", "dataset", "variant", "gain_points", "p_holm_76"])
    .only("after_holm", &["gain", "loss"])
}

/// The best variant by its mean over the data sets of every 1.5B model, with what chance makes of it.
pub(in super::super) fn best_means(audit: &Audit) -> [(Model, Column, Estimate, Chance); 2] {
    Model::SMALL.map(|model| {
        let columns = &audit.paper.columns(model)[1..];
        let means = columns.iter().map(|c| (*c, gains::mean_gain(&audit.gains, model, *c)));
        let (column, mean) = means.max_by(|a, b| a.1.points.total_cmp(&b.1.points)).expect("variants");
        let parts = audit.selections.iter().filter(|s| s.best.run.model == model);
        let se = parts.map(|s| s.single_se * s.single_se).sum::<f64>().sqrt() / Dataset::ALL.len() as f64;
        (model, column, mean, Chance::new(columns.len(), se, mean.points))
    })
}

pub(super) fn selection(audit: &Audit) -> Finding {
    let all = &audit.selections;
    let adjusted = holm(&all.iter().map(|s| s.chance.p).collect::<Vec<_>>());
    let beyond = all.iter().filter(|s| s.chance.p < 0.05).count();
    let name = |s: &Selection| format!("{} on {}", s.best.run.model.name(), s.best.run.dataset.name());
    let survivors = adjusted.iter().filter(|p| **p < 0.05).count();
    let statement = "The best of eight variants is better than GRPO by more than chance gives the best of eight \
        variants without an effect";
    claim("selection", statement)
        .holds_when(
            beyond == all.len(),
            beyond > 0,
            format!(
                "the model and data set are one of {beyond} of {} pairs ({}). After Holm's correction \
                 {survivors} pairs remain",
                all.len(),
                list(all.iter().filter(|s| s.chance.p < 0.05), name),
            ),
            "no best of eight exceeds what chance gives in 5 % of cases",
        )
        .value("standard errors that the best of 8 gains without effect", expected_max_normal(8))
        .rows("selection", &[])
        .note(
            "Chance is what the best of eight gains without effect, on average and in at most 5 % of cases; the eight \
             share one baseline, a correlation of 1/2.",
        )
}

/// Each variant over both 1.5B models, judged by the scatter of the runs.
pub(in super::super) fn variants_against_spread(audit: &Audit) -> Vec<(Column, Estimate, f64)> {
    let spreads = Model::SMALL.map(|m| gains::spread(&audit.paper, m));
    let judge = |column: Column| {
        let per_model = Model::SMALL.map(|m| gains::mean_gain(&audit.gains, m, column));
        let (estimate, p) = gains::against_spread(&per_model, &spreads);
        (column, estimate, p)
    };
    audit.paper.columns(Model::Qwen15).into_iter().skip(1).map(judge).collect()
}

pub(super) fn run_spread(audit: &Audit) -> Finding {
    let spreads = Model::SMALL.map(|m| gains::spread(&audit.paper, m));
    let judged = variants_against_spread(audit);
    let p: Vec<f64> = judged.iter().map(|v| v.2).collect();
    let adjusted = holm(&p);
    let count = |p: &[f64]| p.iter().filter(|p| **p < 0.05).count();
    let best = judged.iter().min_by(|a, b| a.2.total_cmp(&b.2)).expect("eight variants");
    let detail = format!(
        "over both 1.5B models {} of {} variants differ from GRPO at 5 %, and {} after Holm's correction. The \
         smallest p is {} ({}: {:+.2} points, SE {:.2})",
        count(&p),
        judged.len(),
        count(&adjusted),
        p_value(best.2),
        best.0.name(),
        best.1.points,
        best.1.se
    );
    let statement = "The differences of the variants from GRPO stay significant if the error is the scatter \
        between runs instead of that of test items";
    claim("run_spread", statement)
        .holds_or(count(&adjusted) == judged.len(), detail)
        .each(&spreads, |finding, s| {
            let name = s.model.name();
            finding
                .value(format!("{name}: standard deviation in points"), s.sd)
                .value(format!("{name}: from test items"), s.item_se)
                .value(format!("{name}: p for items alone"), s.p())
        })
        .note(
            "The residual standard deviation is of one average after fitting a level to each variant and each data \
             set. It holds chance in training and differences of a variant between data sets; one seed per cell \
             cannot tell them apart.",
        )
}

pub(super) fn detectable(audit: &Audit) -> Finding {
    let common: Vec<Gain> =
        Model::ALL.into_iter().flat_map(|m| gains::by_dataset(&audit.gains, m, Column::COMMON)).collect();
    let seen = common.iter().filter(|g| g.points.abs() >= minimal_detectable(g.se)).count();
    let of_model = |finding: Finding, m: Model| {
        let own = common.iter().filter(|g| g.run.model == m).map(|g| minimal_detectable(g.se));
        let mean = minimal_detectable(gains::mean_gain(&audit.gains, m, Column::COMMON).se);
        finding
            .value(format!("{}: least and greatest detectable difference", m.name()), extremes(own))
            .value(format!("{}: mean of four", m.name()), mean)
    };
    let share = |g: &Gain| variance_share(&g.baseline.scores.map(|s| s.value()), Benchmark::Aime);
    let below = common.len() - seen;
    let detail = format!(
        "{below} of {} differences of recent/ε-trace/0.99 from GRPO are below the minimal detectable difference",
        common.len()
    );
    claim(
        "detectable",
        "An average of five benchmarks with one seed can detect the differences that the paper \
        reports",
    )
    .holds_or(below == 0, detail)
    .each(Model::ALL, of_model)
    .value("share of the variance from the 30 items of AIME", average(common.iter().map(share)))
    .note("Minimal detectable differences in points at 80 % power, 5 % two-sided, unpaired.")
}
