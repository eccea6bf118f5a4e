//! prime-rl, SkyRL, slime, ms-swift, ROLL, AReaL, and what OpenRLHF and NeMo-RL have since: one line a row.

use super::Scope::{Advantages, Correction, Loss, Objective};
use super::{Convention, EMPTY, Framework, Scope};

const PRIME: Framework = Framework { name: "prime-rl", version: "main at 559b447" };
const SKYRL: Framework = Framework { name: "SkyRL", version: "main at a956457" };
const SLIME: Framework = Framework { name: "slime", version: "main at 624b824" };
const SWIFT: Framework = Framework { name: "ms-swift", version: "main at 3602360" };
const ROLL: Framework = Framework { name: "ROLL", version: "main at 8eb27cc" };
const AREAL: Framework = Framework { name: "AReaL", version: "main at 4aef98d" };
const OPENRLHF: Framework = Framework { name: "OpenRLHF", version: "main at 3c3be62" };
const NEMO_RL: Framework = Framework { name: "NeMo-RL", version: "main at 7ea279a" };

/// A row: the framework, its users' words, what they are about, the method here with its settings, and the departure of one from the other.
type Row = (Framework, &'static str, Scope, &'static str, &'static str, &'static str);

/// The place in the source of each framework.
const fn place(framework: &Framework) -> &'static str {
    match framework.name.as_bytes()[0] {
        b'p' => "src/prime_rl/trainer/rl/loss.py, orchestrator/algo",
        b'S' => "skyrl/backends/skyrl_train/utils/ppo_utils.py, off_policy_correction_utils.py",
        b's' => "slime/backends/megatron_utils/loss.py, slime/utils/ppo_utils.py",
        b'm' => "swift/rlhf_trainers/grpo_trainer.py, swift/rl_core/advantage.py",
        b'R' => "roll/pipeline/rlvr/actor_worker.py, actor_pg_worker.py",
        b'A' => "areal/trainer/ppo/actor.py, areal/utils/functional/functional.py",
        b'O' => "openrlhf/models/loss.py",
        _ => "nemo_rl/algorithms/loss/loss_functions.py, advantage_estimator.py",
    }
}

const fn rows<const N: usize>(table: [Row; N]) -> [Convention; N] {
    let mut all = [EMPTY; N];
    let mut i = 0;
    while i < N {
        let (framework, words, scope, method, settings, differs) = table[i];
        all[i] = Convention {
            framework,
            words,
            scope,
            method,
            settings,
            differs,
            place: place(&framework),
            ..EMPTY
        };
        i += 1;
    }
    all
}

const IN_DIVISOR: &str =
    "rejected tokens leave the loss; the divisor there is that of the batch before rejection";
/// An entropy bonus, which is a trainer's and no method's.
pub(super) const BONUS: &str = "the trainer's term: `llm-train` rl.entropy_coef, reduced as the loss is";

#[rustfmt::skip]
static TABLE: [Convention; 59] = rows([
    (PRIME, "loss.type=default, kl_tau=0", Loss, "dppo", "cap=1e9 divergence_low=0.2 divergence_high=0.2", "the default kl_tau = 1e-3 adds that times the squared log-ratio of every token"),
    (PRIME, "loss.type=ipo", Loss, "", "", "no method here masks a token whichever way its probability moved; otherwise it is dppo"),
    (PRIME, "algorithm grpo", Advantages, "grpo", "scale=none", "-"),
    (PRIME, "algorithm max_rl", Advantages, "maxrl", "", "-"),
    (PRIME, "algorithm opd", Objective, "distillation", "", "there the teacher is compared with the current policy, tokens that fell by 0.2 are dropped, and 1e-3 of the squared log-ratio is added"),
    (PRIME, "algorithm rae", Advantages, "", "", "the baseline is a running mean over earlier steps, which no batch holds"),
    (SKYRL, "advantage_estimator=grpo", Advantages, "grpo", "std_preset=verl", "a group of one response keeps its reward there"),
    (SKYRL, "advantage_estimator=rloo", Advantages, "rloo", "clip=ppo reduction=token_mean", "-"),
    (SKYRL, "advantage_estimator=maxrl", Advantages, "maxrl", "", "1e-6 is added to the mean there"),
    (SKYRL, "policy_loss_type=regular", Loss, "grpo", "std_preset=verl reduction=token_mean", "log-ratios are cut at 20 there"),
    (SKYRL, "policy_loss_type=dual_clip", Loss, "grpo", "std_preset=verl reduction=token_mean clip=two_sided clip_max=3", "-"),
    (SKYRL, "policy_loss_type=gspo", Loss, "gspo_token", "std_preset=verl epsilon_low=0.2 epsilon_high=0.2", "log-ratios are cut above at 10 there"),
    (SKYRL, "policy_loss_type=cispo", Loss, "cispo", "std_preset=verl clip_form=interval epsilon_low=1 epsilon_high=4", "-"),
    (SKYRL, "policy_loss_type=sapo", Loss, "sapo", "std_preset=verl", "-"),
    (SKYRL, "policy_loss_type=importance_sampling", Loss, "grpo", "std_preset=verl clip=none reduction=response_sum", "a plain sum there: times the number of responses"),
    (SKYRL, "policy_loss_type=dppo", Loss, "dppo", "cap=1e9 divergence_low=0.2 divergence_high=0.2", "-"),
    (SKYRL, "off_policy_correction.tis_ratio_type=token, 2", Correction, "grpo", "reduction=token_mean correction=token_truncate correction_high=2", "-"),
    (SKYRL, "off_policy_correction.tis_ratio_type=sequence, 5", Correction, "grpo", "reduction=token_mean correction=sequence_truncate correction_high=5", "-"),
    (SKYRL, "off_policy_correction.sequence_mask_metric=geometric, 0.99 to 1.01", Correction, "grpo", "reduction=token_mean reject=seq_mean_k1 reject_low=0.9900990099 reject_high=1.0101010101", "the bounds there are of the inverse ratio; whether the divisor keeps rejected tokens depends on where it is counted"),
    (SLIME, "--advantage-estimator grpo", Loss, "grpo", "std_preset=verl", "-"),
    (SLIME, "--advantage-estimator gspo", Loss, "gspo", "epsilon_low=0.2 epsilon_high=0.2", "-"),
    (SLIME, "--calculate-per-token-loss", Objective, "grpo", "std_preset=verl reduction=token_mean", "-"),
    (SLIME, "--eps-clip-c 3", Loss, "grpo", "std_preset=verl clip=two_sided clip_max=3", "-"),
    (SLIME, "--use-tis (0 to 2)", Correction, "grpo", "correction=token_truncate correction_high=2", "-"),
    (SLIME, "--custom-tis-function-path icepop_function (0.5 to 5)", Correction, "grpo", "correction=token_mask correction_low=0.5 correction_high=5", "-"),
    (SLIME, "--custom-tis-function-path mis.py, rs_level=token (0.5 to 2)", Correction, "grpo", "reject=token_k1 reject_low=0.5 reject_high=2", "rejected tokens stay in the divisor there, which is counted before (rollout_mask_sums)"),
    (SLIME, "--entropy-coef", Loss, "", "", BONUS),
    (SLIME, "--use-opsm, --opsm-delta 1e-4", Correction, "grpo", "off_policy_mask=0.0001", "-"),
    (SLIME, "--use-unbiased-kl --kl-loss-type k3", Scope::Kl, "grpo", "beta=0.001 kl=ratio_k3", "low_var_kl is cut at 10 there"),
    (SWIFT, "loss_type=grpo", Objective, "grpo", "", "-"),
    (SWIFT, "loss_type=dapo", Objective, "grpo", "reduction=token_mean", "-"),
    (SWIFT, "loss_type=fipo", Objective, "fipo", "", "delta is clip=two_sided with its clip_max, and leaves the sums of the weights likewise"),
    (SWIFT, "loss_type=real", Objective, "", "", "a classification of the group's mean log-ratios: no sum over tokens of a loss"),
    (SWIFT, "loss_type=sapo", Objective, "sapo", "", "-"),
    (SWIFT, "importance_sampling_level=sequence_token", Loss, "gspo_token", "epsilon_low=0.2 epsilon_high=0.2", "-"),
    (SWIFT, "advantage_estimator=rloo", Advantages, "rloo", "reward_beta=0.04", "-"),
    (SWIFT, "advantage_reweight=rlsd", Advantages, "rlsd", "", "-"),
    (SWIFT, "teacher_kl_coef=1 (OPD-RL), no reward", Objective, "distillation", "clip=ppo", "-"),
    (SWIFT, "rollout_importance_sampling_mode=token_truncate, 2", Correction, "grpo", "correction=token_truncate correction_high=2", "the weight multiplies the KL term, too, there"),
    (SWIFT, "rollout_importance_sampling_mode=sequence_mask, 2", Correction, "grpo", "correction=token_in_sequence_mask correction_high=2", "the weight multiplies the KL term, too, there"),
    (SWIFT, "off_policy_sequence_mask_delta=0.1", Correction, "grpo", "off_policy_mask=0.1", "dropped responses lose their KL term there"),
    (ROLL, "pg_variant=vanilla", Loss, "gpg", "alpha=one", "-"),
    (ROLL, "pg_variant=ppo, dual_clip_loss", Loss, "grpo", "reduction=token_mean clip=two_sided clip_max=1.4", "the cap there is 1 + 2 pg_clip"),
    (ROLL, "pg_variant=tis", Loss, "cispo", "cap=1", "-"),
    (ROLL, "pg_variant=topr", Loss, "topr", "ratio=token reduction=token_mean", "the sign there is that of the score, here that of the advantage"),
    (ROLL, "pg_variant=cispo", Loss, "cispo", "clip_form=interval epsilon_low=0.1 epsilon_high=0.1", "-"),
    (ROLL, "pg_variant=kimi15", Loss, "dro", "pull=0.1", "-"),
    (AREAL, "use_decoupled_loss, behave_imp_weight unbounded", Correction, "grpo", "reduction=token_mean correction=token_truncate correction_high=1e9", "-"),
    (AREAL, "rejection_sampling: token, mask, ratio at most 5", Correction, "grpo", "reduction=token_mean correction=token_mask correction_high=5 rejected=leave", IN_DIVISOR),
    (AREAL, "importance_sampling_level=sequence", Loss, "gspo", "epsilon_low=0.2 epsilon_high=0.2 reduction=token_mean", "advantages are averaged over the response there"),
    (AREAL, "m2_threshold", Loss, "", "", "masks tokens until the second moment of the log-ratios is bounded: no setting here"),
    (OPENRLHF, "is_correction_type=tis (0.5 to 5)", Correction, "grpo", "std_preset=openrlhf reduction=token_mean correction=token_truncate correction_low=0.5 correction_high=5", "-"),
    (OPENRLHF, "is_correction_type=icepop (0.5 to 5)", Correction, "grpo", "std_preset=openrlhf reduction=token_mean correction=token_mask correction_low=0.5 correction_high=5", "-"),
    (OPENRLHF, "is_correction_type=seq-mask-tis (0.5 to 5)", Correction, "grpo", "std_preset=openrlhf reduction=token_mean correction=token_in_sequence_mask correction_low=0.5 correction_high=5", "-"),
    (OPENRLHF, "actor.entropy_coef", Loss, "", "", BONUS),
    (NEMO_RL, "adv_estimator=raw_reward, normalize_advantages=False", Advantages, "reinforce_pp", "gamma=1 whiten=false", "-"),
    (NEMO_RL, "adv_estimator=gdpo, use_leave_one_out_baseline=False", Advantages, "gdpo", "whiten_over=responses", "no 1e-4 is added to the last standard deviation there"),
    (NEMO_RL, "truncated_importance_sampling_ratio_min=0.5 (tis, 2)", Correction, "grpo", "std_preset=verl reduction=token_mean correction=token_truncate correction_low=0.5 correction_high=2", "-"),
    (NEMO_RL, "positive_example_nll_weight", Loss, "", "", "adds the negative log-likelihood of right responses: no setting here"),
]);

pub(super) static ROWS: &[Convention] = &TABLE;
