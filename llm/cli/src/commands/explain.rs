//! `llm-train explain`.

use std::path::Path;

use grpo_lambda::equation::BatchSize;
use grpo_lambda::methods::Configured;

use super::{Command, Failure, print};
use grpo_lambda::token_weights::{LOG_PROB, assumed, token_weights};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::step::evidence::{PROVIDED, describe_cost, why_unavailable};

/// Arguments of `explain`.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    /// A shipped preset, or a TOML file
    #[arg(value_name = "PRESET", default_value = "tiny")]
    pub preset: String,
    /// Settings over the preset's
    #[arg(value_name = "key=value")]
    pub overrides: Vec<String>,
}

impl Command for ExplainArgs {
    /// Prints the objective with its numbers, and what each token weighs on-policy.
    fn run(&self) -> Result<(), Failure> {
        let mut overrides = self.overrides.clone();
        let mut preset = self.preset.as_str();
        // A setting in the place of the preset applies to the default preset.
        if preset.contains('=') && !Path::new(preset).exists() {
            overrides.insert(0, preset.to_owned());
            preset = "tiny";
        }
        let config = Config::resolve_part(preset, &overrides).map_err(Failure::refused)?;
        print(&explain(&config))
    }
}

/// The objective of a configuration as text.
fn explain(config: &Config) -> String {
    let configured = config.configured();
    let spec = configured.spec;
    let rl = &config.rl;
    let size =
        BatchSize { groups: rl.prompts_per_step, group_size: rl.group_size, max_len: rl.max_new_tokens };
    let mut text = format!("{} ({})\n{}\n\n", spec.title, spec.source, spec.about);
    match configured.method.equation(&size) {
        Some(equation) => text += &equation.to_string(),
        None => text += "This method does not describe itself; its settings are below.\n",
    }
    text += &format!(
        "\nA step: {} prompts x {} responses of up to {} tokens, sampled from pi = softmax(logits / {}), which is the pi above; \
         {} gradient step{} on them.\n",
        rl.prompts_per_step,
        rl.group_size,
        rl.max_new_tokens,
        rl.temperature,
        rl.inner_updates,
        if rl.inner_updates == 1 { "" } else { "s" },
    );
    if let Some(lora) = &config.lora {
        text += &format!(
            "Trained: an adapter, W + ({} / {}) B A with A and B of rank {}, of {}; theta is A and B, and pi_ref the model without them.\n",
            lora.alpha,
            lora.rank,
            lora.rank,
            lora.targets.join(", ")
        );
    }
    text += "\nSettings:\n";
    for (key, value) in configured.settings.entries() {
        text += &format!("  method.{key:14} {value}\n");
    }
    for idle in config.idle() {
        text += &format!("  note: {idle}\n");
    }
    text + "\n" + &weights(&configured, rl.max_new_tokens)
}

/// Positions shown of a response, as shares of its length.
const PLACES: [(&str, f64); 4] = [("first", 0.0), ("1/4", 0.25), ("1/2", 0.5), ("3/4", 0.75)];

/// The table of token weights, and what they make of the KL coefficient.
fn weights(configured: &Configured, longest: usize) -> String {
    let beta = configured.settings.has("beta").then(|| configured.settings.number("beta"));
    let beta = beta.filter(|b| *b != 0.0);
    let mut text = format!(
        "Weight of a token in the gradient of a right response, on-policy at log pi = {LOG_PROB}, as a multiple of its largest \
         advantage; GRPO with a token mean has 1 everywhere.\n"
    );
    let evidence: Vec<&str> = configured.evidence().into_iter().filter_map(assumed).collect();
    if !evidence.is_empty() {
        text += &format!("Assumed of the evidence: {}.\n", evidence.join("; "));
    }
    for kind in configured.evidence() {
        match describe_cost(kind) {
            Some(price) => text += &format!("Cost of the evidence `{}`: {price}.\n", kind.name()),
            None if !PROVIDED.contains(&kind) => {
                text += &format!("`llm-train train` refuses it: {}.\n", why_unavailable(kind));
            }
            None => {}
        }
    }
    text += &format!("{:>8}", "tokens");
    let mut heads: Vec<&str> = PLACES.map(|(name, _)| name).to_vec();
    heads.extend(["last", "mean"]);
    if beta.is_some() {
        heads.push("beta/mean");
    }
    text += &heads.iter().map(|h| format!("{h:>11}")).collect::<String>();
    let mut lengths = vec![longest.div_ceil(8), longest.div_ceil(4), longest.div_ceil(2), longest];
    lengths.dedup();
    let mut last = f64::NAN;
    for len in lengths {
        let weights = token_weights(configured, len);
        let mean = weights.iter().sum::<f64>() / len as f64;
        let mut row: Vec<f64> = PLACES.map(|(_, share)| weights[(share * len as f64) as usize]).to_vec();
        row.extend([weights[len - 1], mean]);
        row.extend(beta.map(|b| b / mean));
        text +=
            &format!("\n{len:>8}{}", row.iter().map(|x| format!("{:>11}", short(*x))).collect::<String>());
        last = mean;
    }
    text += "\n\n";
    text += &match beta {
        None => "Effective KL weight: 0; there is no KL term in the loss.\n".to_owned(),
        Some(_) if last == 0.0 => {
            "Effective KL weight: none; at this log pi the KL term stands alone.\n".to_owned()
        }
        Some(beta) => format!(
            "Effective KL weight: beta / mean weight = {beta} / {} = {} at {longest} tokens. The KL term is not multiplied by the \
             token weights, so beside the policy term it counts as much as that beta would in GRPO with a token mean.\n",
            short(last),
            short(beta / last)
        ),
    };
    text
}

/// Four digits.
fn short(x: f64) -> String {
    grpo_lambda_stats::table::significant(x, 4)
}
