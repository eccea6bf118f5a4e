//! The gains against the noise of test items and of runs.

use super::{estimates, finding, finding_on, holds_or, list, p_value};
use crate::experiment::{Finding, Verdict};
use crate::experiments::paper_audit::Audit;
use crate::experiments::paper_audit::gains::{
    self, Estimate, Gain, Selection, best_of_quantile, best_of_tail, correlation_needed, minimal_detectable,
    variance_share,
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
    let verdict = holds_or(corrected.gains == variants.len(), || {
        format!(
            "of {} variants {} gain significantly over GRPO on the 1.5B models after Holm's correction for their number (significant losses: {}); {} averages {} points and loses on {losses}",
            variants.len(),
            corrected.gains,
            corrected.losses,
            worst.0.name(),
            worst.2
        )
    });
    let gsm = audit.wins(|g| g.run.dataset == Dataset::Gsm8k);
    finding_on(
        SentenceId::EveryVariationGains,
        verdict,
        format!(
            "{} cells of variant x data set: {up} above GRPO, {down} below; trained on gsm8k {} of {} lose. Mean gain over both 1.5B models, points ± 95 %: {}. Training curves are printed only as figures",
            audit.gains.len(),
            gsm.1,
            gsm.0 + gsm.1,
            list(&variants, |v| format!("{} {}", v.0.name(), v.2)),
        ),
    )
}

/// The gain of the variant trained on all models, averaged over the data sets, per model.
pub(in super::super) fn common_gains(audit: &Audit) -> [Estimate; 4] {
    Model::ALL.map(|m| gains::mean_gain(&audit.gains, m, Column::COMMON))
}

pub(super) fn benchmark_gain(audit: &Audit) -> Finding {
    let per_model = common_gains(audit);
    let pooled = Estimate::mean(&per_model);
    // The averages of a model, and those of all models, answer the same items: their errors may be shared.
    let clustered = Model::ALL.map(|m| {
        let parts = gains::by_dataset(&audit.gains, m, Column::COMMON);
        Estimate::mean_of_dependent(&parts.iter().map(Gain::estimate).collect::<Vec<_>>())
    });
    let within = Estimate::mean(&clustered);
    let throughout = Estimate::mean_of_dependent(&clustered);
    let unclear: Vec<Model> =
        Model::ALL.into_iter().zip(&per_model).filter(|(_, e)| e.z() < 1.96).map(|(m, _)| m).collect();
    let (q, p) = gains::heterogeneity(&per_model);
    let verdict = match (unclear.is_empty(), pooled.z() > 1.96) {
        (true, _) => Verdict::Holds,
        (false, true) => Verdict::HoldsWhen(format!(
            "models are pooled ({pooled} points), training seeds are taken to add no variance and the averages to share no error of items; alone, {} cannot be told from 0",
            list(&unclear, |m| m.name().into())
        )),
        (false, false) => Verdict::Fails(format!("the pooled gain is {pooled} points")),
    };
    let smoothed = Model::ALL.map(|m| {
        let parts: Vec<_> =
            gains::by_dataset(&audit.gains, m, Column::COMMON).iter().map(Gain::smoothed).collect();
        Estimate::mean(&parts).z()
    });
    let without_llama = Estimate::mean(&[
        per_model[Model::Qwen15 as usize],
        per_model[1],
        per_model[Model::R1Qwen7 as usize],
    ]);
    finding_on(
        SentenceId::AverageGain,
        verdict,
        format!(
            "points ± 95 %, mean of four data sets: {}. SE = sqrt(sum_b [p1(1-p1)+p2(1-p2)]/N_b)/5, unpaired, test items only: one training seed, so the chance in training is not covered. z with smoothed scores: {}. A correlation of right and wrong between runs, if above {}, would bring those below 1.96 to 5 %. All models {pooled} (z = {:.1}), without the 3B {without_llama} (z = {:.1}); the models differ: Q = {q:.1} on 3 degrees, p = {p:.3}. All averages answer the same {} items: if the four of a model share their error, clustered by item, it is {within} (z = {:.1}), if those of all models do, {throughout} (z = {:.1}); the pairing of runs narrows it, the cluster widens it, and the scores printed tell neither",
            list(Model::ALL.into_iter().zip(&per_model), |(m, e)| format!(
                "{} {e} (z = {:.1})",
                m.name(),
                e.z()
            )),
            list(smoothed, |z| format!("{z:.1}")),
            list(&unclear, |m| format!("{:.2}", correlation_needed(per_model[*m as usize].z()))),
            pooled.z(),
            without_llama.z(),
            Benchmark::ALL.iter().map(|b| b.items()).sum::<i64>(),
            within.z(),
            throughout.z(),
        ),
    )
}

pub(super) fn multiplicity(audit: &Audit) -> Finding {
    let corrected = &audit.corrected;
    let raw = audit.gains.iter().filter(|g| g.estimate().p() < 0.05);
    let (raw_up, raw_down): (Vec<&Gain>, Vec<&Gain>) = raw.partition(|g| g.points > 0.0);
    let small: Vec<Gain> =
        audit.gains.iter().copied().filter(|g| Model::SMALL.contains(&g.run.model)).collect();
    let small_corrected = gains::multiplicity(&estimates(&small));
    let clear = |positive: bool| {
        let significant = audit.gains.iter().zip(&corrected.adjusted).filter(|(_, p)| **p < 0.05);
        list(significant.filter(|(g, _)| (g.points > 0.0) == positive), |(g, _)| {
            format!("{} ({:+.1})", g.run.name(), g.points)
        })
    };
    finding(
        "most printed gains over GRPO are larger than test-item noise after correction for their number",
        holds_or(2 * corrected.gains > audit.gains.len(), || {
            format!(
                "{} gains and {} losses of {} survive Holm's correction at 5 %",
                corrected.gains,
                corrected.losses,
                audit.gains.len()
            )
        }),
        format!(
            "uncorrected: {} gains and {} losses; corrected gains: {}; corrected losses: {}; the {} cells of the 1.5B models alone: {} gains, {} losses",
            raw_up.len(),
            raw_down.len(),
            clear(true),
            clear(false),
            small.len(),
            small_corrected.gains,
            small_corrected.losses,
        ),
    )
}

/// The best variant by its mean over the data sets of a model, with what chance makes of it.
pub(in super::super) struct BestMean {
    pub(in super::super) model: Model,
    pub(in super::super) column: Column,
    pub(in super::super) mean: Estimate,
    pub(in super::super) expected: f64,
    pub(in super::super) quantile95: f64,
    pub(in super::super) p: f64,
}

pub(in super::super) fn best_means(audit: &Audit) -> Vec<BestMean> {
    let best = |model: Model| {
        let columns = &audit.paper.columns(model)[1..];
        let means = columns.iter().map(|c| (*c, gains::mean_gain(&audit.gains, model, *c)));
        let (column, mean) = means.max_by(|a, b| a.1.points.total_cmp(&b.1.points)).expect("variants");
        let parts = audit.selections.iter().filter(|s| s.best.run.model == model);
        let se = parts.map(|s| s.single_se * s.single_se).sum::<f64>().sqrt() / Dataset::ALL.len() as f64;
        let k = columns.len() as i32;
        BestMean {
            model,
            column,
            mean,
            expected: expected_max_normal(k as u64) * se,
            quantile95: best_of_quantile(k, 0.05) * se,
            p: best_of_tail(k, mean.points / se),
        }
    };
    Model::SMALL.into_iter().map(best).collect()
}

pub(super) fn selection(audit: &Audit) -> Finding {
    let all = &audit.selections;
    let adjusted = holm(&all.iter().map(|s| s.p).collect::<Vec<_>>());
    let beyond = all.iter().filter(|s| s.p < 0.05).count();
    let name = |s: &Selection| format!("{} on {}", s.best.run.model.name(), s.best.run.dataset.name());
    let survivors: Vec<&Selection> =
        all.iter().zip(&adjusted).filter(|(_, p)| **p < 0.05).map(|x| x.0).collect();
    let verdict = if beyond == all.len() {
        Verdict::Holds
    } else if beyond > 0 {
        Verdict::HoldsWhen(format!(
            "{beyond} of {} pairs of model and data set ({}); after Holm's correction {}",
            all.len(),
            list(all.iter().filter(|s| s.p < 0.05), name),
            survivors.len()
        ))
    } else {
        Verdict::Fails(format!(
            "none of {} best-of-eight gains exceeds what chance gives in 5 % of cases",
            all.len()
        ))
    };
    let range = |f: fn(&Selection) -> f64| {
        let values = all.iter().map(f);
        let (low, high) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
        format!("{low:.1}-{high:.1}")
    };
    finding(
        "the best of eight variants gains more than choosing the best of eight without effect would",
        verdict,
        format!(
            "without effect the best of 8 still gains {:.4} standard errors of one average = {} points on average and more than {} points in 5 % of cases (the eight share one baseline: correlation 1/2); printed best gains: {}. Best mean over four data sets: {}",
            expected_max_normal(8),
            range(|s| s.expected),
            range(|s| s.quantile95),
            list(all, |s| format!(
                "{} {:+.1} (chance {:+.1}, p = {})",
                name(s),
                s.best.points,
                s.expected,
                p_value(s.p)
            )),
            list(best_means(audit), |b| format!(
                "{} {} {:+.1} (chance {:+.1}, p = {})",
                b.model.name(),
                b.column.name(),
                b.mean.points,
                b.expected,
                p_value(b.p)
            )),
        ),
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
    finding(
        "the gains of the variants stay significant when the scatter between runs, not that of test items, is the measure",
        holds_or(count(&adjusted) == judged.len(), || {
            format!(
                "{} of {} variants differ from GRPO at 5 % over both 1.5B models, {} after Holm's correction; the smallest p is {} ({} {:+.2} points, SE {:.2})",
                count(&p),
                judged.len(),
                count(&adjusted),
                p_value(best.2),
                best.0.name(),
                best.1.points,
                best.1.se
            )
        }),
        format!(
            "residual standard deviation of one average after fitting a level to each variant and each data set: {}. It holds chance in training and differences of a variant between data sets; one seed per cell cannot tell them apart",
            list(spreads, |s| format!(
                "{} {:.2} points against {:.2} from test items (p = {} for items alone)",
                s.model.name(),
                s.sd,
                s.item_se,
                p_value(s.p())
            )),
        ),
    )
}

pub(super) fn detectable(audit: &Audit) -> Finding {
    let common: Vec<Gain> =
        Model::ALL.into_iter().flat_map(|m| gains::by_dataset(&audit.gains, m, Column::COMMON)).collect();
    let seen = common.iter().filter(|g| g.points.abs() >= minimal_detectable(g.se)).count();
    let of_model = |m: Model| {
        let own: Vec<f64> =
            common.iter().filter(|g| g.run.model == m).map(|g| minimal_detectable(g.se)).collect();
        let (low, high) =
            (own.iter().copied().fold(f64::INFINITY, f64::min), own.iter().copied().fold(0.0, f64::max));
        let mean = minimal_detectable(gains::mean_gain(&audit.gains, m, Column::COMMON).se);
        format!("{} {low:.1}-{high:.1}, mean of four {mean:.1}", m.name())
    };
    let shares: Vec<f64> = common
        .iter()
        .map(|g| variance_share(&g.baseline.scores.map(|s| s.value()), Benchmark::Aime))
        .collect();
    let share = shares.iter().sum::<f64>() / shares.len() as f64;
    finding(
        "one five-benchmark average with one seed can show the gains that the paper reports",
        holds_or(seen == common.len(), || {
            format!(
                "{} of {} gains of recent/ε-trace/0.99 are below the minimal detectable difference",
                common.len() - seen,
                common.len()
            )
        }),
        format!(
            "minimal detectable difference at 80 % power, 5 % two-sided, unpaired, in points: {}. {:.0} % of the variance of an average comes from the 30 items of AIME",
            Model::ALL.map(of_model).join("; "),
            100.0 * share
        ),
    )
}
