use grpo_lambda_stats::table::Table;

use super::measure::Numbers;
use super::trust_region::{Q, traces};
use crate::experiments::common::record::{Record, table};

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![
        (String::new(), rows(n)),
        ("trust_region".into(), trust_region(n)),
        ("trust_region_pairs".into(), pairs(n)),
        ("reuse".into(), reuse(n)),
    ]
}

fn rows(n: &Numbers) -> Table {
    table(n.rows.iter().map(|row| {
        Record::default()
            .with("mode", row.mode.name())
            .with("mdp", row.mdp.as_str())
            .with("method", row.method.as_str())
            .with("x", row.x)
            .with("ratios", if row.ignored { "ignored" } else { "sampler" })
            .with("kl", row.kl)
            .with("cosine", row.fit.map(|f| f.cosine))
            .with("scale", row.fit.map(|f| f.scale))
            .with("bias", row.fit.map(|f| f.bias))
            .with("raised_free", row.regions.map(|r| r.raised_free))
            .with("raised_high", row.regions.map(|r| r.raised_high))
            .with("raised_low", row.regions.map(|r| r.raised_low))
            .with("lowered_free", row.regions.map(|r| r.lowered_free))
            .with("lowered_low", row.regions.map(|r| r.lowered_low))
            .with("lowered_high", row.regions.map(|r| r.lowered_high))
            .with("idle", row.regions.map(|r| r.idle))
            .with("silent", row.regions.map(|r| r.silent))
    }))
}

/// One row per decay and trace.
fn trust_region(n: &Numbers) -> Table {
    table(n.synthetic.iter().map(|s| {
        Record::default()
            .with("lambda", s.lambda)
            .with("trace", s.trace)
            .with("share_outside", s.outside)
            .with("share_outside_in_last_quarter", s.outside_late)
    }))
}

/// One row per pair and trace.
fn pairs(n: &Numbers) -> Table {
    table(n.pairs.iter().flat_map(|pair| {
        traces(Q).into_iter().enumerate().map(move |(i, named)| {
            Record::default()
                .with("pair", pair.name.as_str())
                .with("kl", pair.kl)
                .with("tokens_outside", pair.tokens)
                .with("trace", named.name)
                .with("trace_ratios_outside", pair.outside[i])
                .with("trace_ratios_outside_where_all_tokens_are_inside", pair.outside_though_inside[i])
        })
    }))
}

/// One row per task, method and update.
fn reuse(n: &Numbers) -> Table {
    table(n.reused.iter().flat_map(|r| {
        r.gain.iter().zip(&r.kl).enumerate().map(|(k, ([low, mid, high], kl))| {
            Record::default()
                .with("mdp", r.mdp.as_str())
                .with("method", r.method.as_str())
                .with("updates", k + 1)
                .with("gain", *mid)
                .with("gain_low", *low)
                .with("gain_high", *high)
                .with("kl", *kl)
        })
    }))
}
