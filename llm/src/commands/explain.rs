//! `llm-train explain`.

use super::{Failure, print};
use crate::config::Config;
use crate::token_weight::on_policy;

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

/// Prints the objective with its numbers, and what each token weighs on-policy.
///
/// # Errors
/// When the configuration is refused.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let config = Config::resolve(&args.preset, &args.overrides).map_err(Failure::refused)?;
    let configured = config.configured();
    let get = |key: &str| configured.settings.entries().find(|(k, _)| *k == key).map(|(_, v)| v.to_owned());
    let mut text =
        format!("{} ({})\n{}\n\n", configured.spec.title, configured.spec.source, configured.spec.about);
    for (key, value) in configured.settings.entries() {
        text += &format!("  {key:16} {value}\n");
    }
    // The weights as they are, from the method itself.
    let len = config.rl.max_new_tokens;
    let weights = on_policy(configured.method.as_ref(), len);
    let mean = weights.iter().sum::<f64>() / len as f64;
    text += &format!(
        "\nOn-policy weight of a token in a right response of {len} tokens, GRPO with a token mean = 1:\n "
    );
    for i in [0, len / 4, len / 2, 3 * len / 4, len - 1] {
        text += &format!(" token {i}: {:.3} ", weights[i]);
    }
    text += &format!("  mean {mean:.3}\n");
    if let Some(beta) = get("beta").and_then(|b| b.parse::<f64>().ok()) {
        text += &format!(
            "Effective KL weight: beta {beta} over the mean weight {mean:.3} = {:.3e} (the KL term is not multiplied by the trace)\n",
            beta / mean
        );
    }
    print(&text)
}
