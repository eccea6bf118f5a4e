//! The objective of a run as an equation with its numbers, and what each token weighs in it.

use grpo_lambda::equation::BatchSize;
use grpo_lambda::methods::{self, Configured};
use grpo_lambda::token_weights::{LOG_PROB, assumed, token_weights};
use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::step::critic::CriticSettings;
use grpo_lambda_trainer::step::extra_inputs::{describe_cost, provided, why_unavailable};

/// The objective of a configuration as text.
pub(super) fn objective(config: &Config) -> String {
    let configured = config.configured();
    let spec = configured.spec;
    let rl = &config.rl;
    let size =
        BatchSize { groups: rl.prompts_per_step, group_size: rl.group_size, max_len: rl.max_new_tokens };
    // The summary of a method describes its defaults.
    let defaults = methods::parse(spec.name, "").is_ok_and(|own| own.settings == configured.settings);
    let about = if defaults { spec.about.to_owned() } else { format!("by default: {}", spec.about) };
    let mut text = format!("{} ({})\n{about}\n\n", spec.title, spec.source);
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
    if let Some(critic) = CriticSettings::new(configured, config) {
        text += &described_critic(&critic);
    }
    text += "\nSettings:\n";
    for (key, value) in configured.settings.entries() {
        text += &format!("  method.{key:14} {value}\n");
    }
    for idle in config.idle() {
        text += &format!("  note: {idle}\n");
    }
    text + "\n" + &weights(configured, rl.max_new_tokens)
}

/// The loss of the critic and its steps, in words.
fn described_critic(critic: &CriticSettings) -> String {
    let CriticSettings { clip, updates, rates, .. } = critic;
    let loss = match clip {
        Some(c) => format!("max( (V - R)^2, (clip(V, V_old - {c}, V_old + {c}) - R)^2 )"),
        None => "(V - R)^2".to_owned(),
    };
    format!(
        "Learned next to it: V, a copy of the model with a linear head, by AdamW at a rate of {}: {updates} gradient step{} a rollout on the mean over \
         tokens of 1/2 {loss}, R = V_old + its advantage before whitening.\n",
        rates.peak,
        if *updates == 1 { "" } else { "s" },
    )
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
    let extra_inputs: Vec<&str> = configured.extra_inputs().into_iter().filter_map(assumed).collect();
    if !extra_inputs.is_empty() {
        text += &format!("Assumed of the extra inputs: {}.\n", extra_inputs.join("; "));
    }
    for kind in configured.extra_inputs() {
        match describe_cost(kind) {
            _ if !provided(configured).contains(&kind) => {
                text += &format!("`llm-train train` refuses it: {}.\n", why_unavailable(kind));
            }
            Some(price) => text += &format!("Cost of the extra input `{}`: {price}.\n", kind.name()),
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
             token weights, so next to the policy term it counts as much as that beta would in GRPO with a token mean.\n",
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

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda_trainer::config::TREE_METHODS;

    fn explained(settings: &[&str]) -> String {
        objective(&Config::resolve("tiny", settings).expect("settings"))
    }

    /// The numbers of the row of responses of 64 tokens.
    fn row(text: &str) -> Vec<f64> {
        let row = text.lines().find(|l| l.trim_start().starts_with("64 ")).expect("the longest");
        row.split_whitespace().map(|x| x.parse().expect("a number")).collect()
    }

    #[test]
    fn it_has_the_equation_and_the_weights_of_every_method() {
        for spec in methods::REGISTRY {
            let tree = TREE_METHODS.contains(&spec.name);
            let sampling = if tree { "rl.sampling=tree" } else { "rl.sampling=independent" };
            let name = format!("method.name={}", spec.name);
            let text = explained(&[&name, "rl.group_size=4", "rl.children=2,2", sampling]);
            for part in [
                spec.title,
                "minimise",
                "L = sum_i w_i sum_t",
                "16 prompts x 4 responses",
                "Effective KL weight: 0",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(row(&text).iter().all(|x| x.is_finite()), "{text}");
        }
        assert_eq!(row(&explained(&["method.name=grpo"])), [64.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        // The trace's column sums, c_k = (1 - q^(T-k)) / (1 - q).
        let trace = explained(&["method.lambda=0.9", "method.beta=0.04"]);
        let c: Vec<f64> = (1..=64).rev().map(|n| (1.0 - 0.9f64.powi(n)) / 0.1).collect();
        let mean = c.iter().sum::<f64>() / 64.0;
        let row = row(&trace);
        for (found, expected) in row[1..].iter().zip([c[0], c[16], c[32], c[48], c[63], mean, 0.04 / mean]) {
            assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected} in {row:?}");
        }
        assert!(
            trace.contains("E[t,k] = 0.9^(t-k) for k <= t") && trace.contains("( l_t + 0.04 kl_t )"),
            "{trace}"
        );
    }

    #[test]
    fn it_says_what_is_assumed_of_extra_inputs_what_they_cost_and_what_is_refused() {
        for (settings, _, said) in crate::cases::cases(include_str!("objective.txt")) {
            let text = explained(&settings.split(' ').collect::<Vec<_>>());
            assert!(text.contains(said), "{said}: {text}");
        }
        assert!(!explained(&["method.name=grpo"]).contains("Assumed"));
    }
}
