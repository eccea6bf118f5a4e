//! The arguments of `sim mdp`, and the form of its file.

use std::path::PathBuf;

use crate::DEFAULT_SEED;
use crate::method_args::MethodArgs;

/// Responses per group, where nothing is said.
pub(super) const DEFAULT_GROUP: u8 = 8;

/// Arguments of `sim mdp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct MdpArgs {
    /// The MDP: a TOML file, or the name of a task of the library
    #[arg(value_name = "FILE.toml|TASK")]
    pub file: PathBuf,
    #[command(flatten)]
    pub(super) method: MethodArgs,
    /// Responses per group
    #[arg(long, value_name = "G", default_value_t = DEFAULT_GROUP, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub group: u8,
    /// Seed, used only where nothing exact is feasible
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SEED)]
    pub seed: u64,
    /// Folder for results; runs/mdp/NAME/METHOD-SETTINGS when not given, so that each method keeps its figures
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const HELP: &str = "\
The tasks:
  pivot, lucky_guess, eos_hazard, eos_hazard_dependent, fork, needle,
  deceptive, chain, chain_partial, noisy, lemma_counterexample, parity,
  random, full, carry_add, copy, delayed_format, distractor_length,
  forking_chain

The file:
  name = \"two roads\"       # optional: the file's name
  tokens = [\"left\", \"right\", \"EOS\"]
  eos = \"EOS\"
  horizon = 3              # a response without EOS is cut here
  gamma = 1.0              # optional
  reward_kind = \"binary\"   # optional: the probability of 1; or \"real\"
  default_reward = 0.0     # optional: where no pattern matches

  [[rewards]]              # the most specific pattern wins; * matches any end
  pattern = \"left *\"
  reward = 1.0

  [[illegal]]              # optional: tokens that cannot follow a prefix
  prefix = \"\"              # the prompt
  tokens = \"EOS\"

  [[policy]]               # optional: the initial policy, else uniform
  prefix = \"\"
  probabilities = { left = 0.25, right = 0.75 }

The initial policy is also the reference of a KL term, so that beta changes nothing here.

What the columns say:
  cosine          between the expected update and the policy gradient;
                  1 is unbiased up to scale
  bias            the part of the update that is no multiple of the gradient
  scale           that multiple: a factor on the learning rate
  sign agreement  share of visits at which the implied credit has the sign of
                  the true advantage
  signal/noise    squared length of the expected update over its variance,
                  for one group";

#[cfg(test)]
mod tests {
    use super::HELP;

    #[test]
    fn the_help_names_every_task() {
        let words: Vec<&str> = HELP.split("The file:").next().unwrap().split([',', ' ', '\n']).collect();
        let missing = grpo_lambda_mdp::zoo::all().into_iter().find(|task| !words.contains(&task.name));
        assert!(missing.is_none(), "{:?}", missing.map(|task| task.name));
    }
}
