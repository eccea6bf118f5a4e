//! `atlas_off_policy`: which traces keep the trust region that every token keeps.

mod pairs;
mod shown;

use crate::experiment::{Context, Experiment, Parts};
use pairs::{Pair, Synthetic, pairs, synthetic};
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "atlas_off_policy",
    title: "Which traces stay in the trust region off-policy if every token does?",
    claim: "clipping π_ratio between 1-ϵ and 1+ϵ discourages π_θ from changing too much from π_θold; P-trace: \"partial trust region preservation\"",
    source: "GRPO-λ, section 2; P-trace (arXiv 2605.05965), abstract",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    synthetic: Vec<Synthetic>,
    pairs: Vec<Pair>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let responses = if context.full { 20_000 } else { 2_000 };
    Ok(Numbers { synthetic: synthetic(context.seed, responses), pairs: pairs(context.seed)? })
}
