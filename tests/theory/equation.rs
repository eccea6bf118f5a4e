//! Claim `equation`: what a method says it optimises is what it computes, with the numbers of its settings.

use grpo_lambda::equation::BatchSize;
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Configured, REGISTRY, evaluate, parse};
use grpo_lambda::settings::{Kind, Param};

const SIZE: BatchSize = BatchSize { groups: 16, group_size: 8, max_len: 64 };

fn text(method: &str, settings: &str) -> String {
    let configured = parse(method, settings).unwrap_or_else(|e| panic!("{method} {settings}: {e}"));
    shown(&configured)
}

fn shown(configured: &Configured) -> String {
    let name = configured.spec.name;
    let equation = configured.method.equation(&SIZE);
    equation.unwrap_or_else(|| panic!("{name} does not describe itself")).to_string()
}

#[test]
fn the_numbers_shown_are_the_settings() {
    let rows = [
        ("grpo", "", &["1/(128 T_i); 1/8192 at T_i = 64", "(r_i - b_i) / (s_i + 0.0001)", "over n - 1"][..]),
        ("grpo", "epsilon_low=0.3 epsilon_high=0.28", &["clip(rho_t, 0.7, 1.28)", "none: beta = 0"]),
        ("grpo", "beta=0.04 kl=k2", &["( l_t + 0.04 kl_t )", "d_t^2 / 2"]),
        (
            "dr_grpo",
            "max_length=100",
            &["1/(128 x 100) = 1/12800", "A_i = r_i - b_i, b_i = the mean reward of its"],
        ),
        ("rloo", "", &["1/(128 x 1) = 1/128", "of the other responses", "l_t = -rho_t delta_t"]),
        (
            "grpo_lambda",
            "lambda=0.9 gamma=0.5",
            &[
                "E[t,k] = 0.45^(t-k) for k <= t",
                "max((r_i - b_i) / (s_i + 0.0001), -0.1)",
                "1/sum_j T_j; 1/8192",
            ],
        ),
        ("grpo_lambda", "style=both lambda=0.9", &["max(0.9^(t-k), 0.9^k)"]),
        (
            "grpo_lambda",
            "matrix=as_printed matrix_length=99 floor=0.01 lambda=0.9",
            &["max(0.01, 0.9^(n-k)) for k < t", "n = 98"],
        ),
        ("grpo_lambda", "clip=two_sided clip_max=3", &["min(min(rho_t, 3) delta_t, clip(rho_t, 0.8, 1.2)"]),
        ("grpo_lambda", "clip=printed epsilon_high=0.5", &["-min(rho_t, 1.5) delta_t"]),
        ("grpo_lambda", "update=weight", &["u_t = sum_k E[t,k] v_k", "1 + sigma(log pi(a_t|s_t) - 1)"]),
        ("grpo_lambda", "normalise=mean", &["l_t / m_i"]),
        ("grpo_lambda", "normalise=rows", &["each row divided by its sum"]),
        ("grpo_lambda", "clamp=-0.25 std_preset=deepseekmath", &["(s_i + 0), -0.25)", "(over n)"]),
        (
            "grpo_batch_std",
            "",
            &["standard deviation of the rewards of the batch", "mean reward of its group"],
        ),
        (
            "dapo",
            "overlong_limit=20480",
            &["r_i = the graded reward + clip((16384 - T_i) / 4096, -1, 0)", "clip(rho_t, 0.8, 1.28)"],
        ),
        ("bnpo", "", &["1/(N sum_j T_j) = 1/(16 sum_j T_j), j in the group of i; 1/8192 when its 8"]),
        (
            "bnpo_beta",
            "beta_shape=2",
            &["alpha = max(1, 1 + (m (1 - m) / v - 1) m / 3), beta = 2, m and v", "1/f at most 1000000"],
        ),
        ("bnpo_beta", "alpha=1.5", &["alpha = 1.5, beta = max(1, 1 + (m (1 - m) / v - 1) (1 - m) / 3), m"]),
        ("gspo", "", &["E[t,k] = 1/T_i for every t and k", "clip(rho_t, 0.9997, 1.0004)"]),
        ("gspo_token", "", &["rho_t = exp(sg(z_t) + x_t - sg(x_t)), z_t = sum_k E[t,k] x_k", "1/T_i"]),
        ("luspo", "", &["w_i = 1/(B L) = 1/(128 x 1)", "E[t,k] = 1/T_i for every t and k"]),
        (
            "gmpo",
            "log_low=0.3",
            &[
                "l_t = -rho_t delta_t",
                "y_k = min(x_k, 0.4) where delta_k > 0, max(x_k, -0.3) where delta_k < 0",
            ],
        ),
        ("sapo", "", &["-(4/tau) sigma(tau (rho_t - 1)) delta_t, tau = 1 where delta_t > 0, else 1.05"]),
        (
            "vespo",
            "k_positive=4",
            &[
                "l_t = f_t * (-delta_t log pi(a_t|s_t))",
                "f_t = exp(3) w^4 exp(-3 w) where delta_t >= 0, else exp(2) w^3 exp(-2 w); w = exp(sum_k x_k)",
            ],
        ),
        (
            "dppo",
            "divergence_high=0.3",
            &[
                "-sg(min(rho_t, 20) m_t) delta_t log pi(a_t|s_t)",
                "rose by D > 0.3, or delta_t <= 0 and it fell by D > 0.2",
            ],
        ),
        ("dppo", "divergence=kl", &["D = the KL divergence of pi_old from pi"]),
        ("dro", "", &["-delta_t log pi(a_t|s_t) + (0.5/2) x_t^2"]),
        ("gpg", "", &["-delta_t log pi(a_t|s_t)", "alpha = responses / responses whose reward is not 0"]),
        (
            "gpg",
            "alpha=mixed divisor=2",
            &["alpha (r_i - b_i) / 2", "responses in groups whose rewards differ"],
        ),
        ("remax", "", &["delta_t = r_i - (the reward of the greedy response to its prompt)"]),
        ("gdpo", "weight_2=0.5", &["w = 1, 0.5, 1, then 1", "(r_i - b_i) / (s_i + 1e-6)", "sqrt(v + 1e-8)"]),
        ("opo", "", &["delta_t = r_i - sum_j T_j r_j / sum_j T_j, j in the group of i"]),
        (
            "grpo_passk",
            "",
            &["(r_i - (the second best reward of its group)) / (s_i + 1e-6) for the best response"],
        ),
        ("grpo_passk", "scale=none", &["delta_t = r_i - (the second best reward of its group) for the best"]),
        (
            "grpo",
            "correction=token_truncate",
            &["( u_t l_t )", "u_t = clip(pi_old(a_t|s_t) / pi_sampler(a_t|s_t), 0, 3); held constant"],
        ),
        (
            "grpo",
            "correction=sequence_mask correction_low=0.5",
            &["u_t = prod_k pi_old(a_k|s_k) / pi_sampler(a_k|s_k) where that lies in [0.5, 3], else 0"],
        ),
        ("optimal_token_baseline", "tail=zero", &["B_t = 0 where one response alone has more than t tokens"]),
        ("cispo", "", &["-sg(clip(rho_t, 0, 5)) delta_t log pi(a_t|s_t)"]),
        ("cispo", "clip_form=interval epsilon_low=0.3", &["-sg(clip(rho_t, 0.7, 1.28)) delta_t log"]),
        (
            "reinforce_pp",
            "gamma=0.9 reward_beta=0.01",
            &[
                "delta_t = (delta'_t - m) / sqrt(v + 1e-8)",
                "delta'_t = sum_{k>=t} 0.9^(k-t) r_k",
                "r_k = -0.01 (log pi_old(a_k|s_k) - log pi_ref(a_k|s_k)) + { r_i at the last token, 0",
            ],
        ),
        (
            "reinforce_pp",
            "whiten=false",
            &["delta_t = sum_{k>=t} 1^(k-t) r_k", "r_k = r_i at the last token"],
        ),
        (
            "reinforce_pp_baseline",
            "",
            &["delta'_t = A_i at every token", "A_i = r_i - b_i, b_i = the mean reward of its group;"],
        ),
        (
            "high_entropy",
            "",
            &["delta_t = delta'_t where H_t >= the 0.8 quantile of H over all tokens of the batch", "else 0"],
        ),
        ("high_entropy", "entropy_scope=response", &["0.8 quantile of H over the response's tokens"]),
        ("high_entropy", "entropy_threshold=0.5", &["delta_t = delta'_t where H_t >= 0.5 (H_t the entropy"]),
        (
            "optimal_token_baseline",
            "",
            &["delta_t = r_i - B_t", "W_{j,t} = sum_{k<=t} (1 - 2 pi_old(a_k|s_k) + sum_v pi_old(v|s_k)^2)"],
        ),
        (
            "tempo",
            "",
            &[
                "delta_t = A_i + (V(s_{t+1}) - V(s_t)) / (s_i + 1e-6)",
                "V(u) = the mean reward of",
                "A_i = (r_i - b_i) / (s_i + 1e-6)",
            ],
        ),
        ("tempo", "scale=none", &["delta_t = A_i + V(s_{t+1}) - V(s_t)\n"]),
        (
            "p_trace_reconstructed",
            "lambda=0.9",
            &["E[t,k] = 0.9^(t-k) for k <= t, each row divided by its sum"],
        ),
        (
            "p_trace_reconstructed",
            "lambda=0.9 form=history",
            &["l_t = f_t * -min(", "f_t = exp(sum_{k<t} 0.9^(t-k) x_k); the gradient takes f as constant"],
        ),
        ("p_trace_reconstructed", "form=history_gradient", &["the gradient flows through f"]),
        (
            "p_trace_reconstructed",
            "form=clipped epsilon_high=0.3",
            &["z_t = sum_k E[t,k] log clip(exp(x_k), 0.8, 1.3)"],
        ),
        (
            "s_trace_reconstructed",
            "lambda=0.9 top_fraction=0.3",
            &[
                "E[t,k] = 1 for k = t, 0.9^(t-k) h_k for k < t, each row divided by its sum",
                "h_k = 1 where H_k >= the 0.7 quantile of H over all tokens of the batch",
                "delta_t = A_i at every token",
            ],
        ),
        (
            "s_trace_reconstructed",
            "clock=selected mask_loss=true normalise_rows=false",
            &[
                "0.99^(h_(k+1) + .. + h_t) h_k for k < t\n",
                "delta_t = delta'_t where H_t >= the 0.8 quantile",
            ],
        ),
        (
            "oar_p",
            "",
            &[
                "delta_t = c_t delta'_t at the reasoning tokens, delta'_t at those",
                "c_t = R y_t / sum_k y_k",
                "y_t = max(n_t / (tau + 1e-8), 0.1) where n_t < tau, else 1 + 1 (n_t - tau) / (1 - tau + 1e-8)",
                "tau = the 0.25 quantile of n",
                "S_t = log(1 + max(I_t, 0))",
                "I_t = KL(P || P_t), P the softmax of the mean logits of the answer's tokens",
                "when token t is masked (by the policy's mask)",
            ],
        ),
        (
            "oar_g",
            "threshold_on=raw log1p=false preserve_mass=false boost=2",
            &[
                "c_t = y_t; ",
                "else 1 + 2 (n_t",
                "tau = 0.25\n",
                "S_t = max(I_t, 0)\n",
                "gradient times input",
                "the mean over 8 draws; J = KL(P || P'), P the softmax",
                "normal noise of 0.001 on the embeddings",
            ],
        ),
        (
            "ppo",
            "gamma=0.9 lambda=0.5",
            &["delta'_t = sum_{k>=t} 0.45^(k-t) e_k", "e_k = r_k + 0.9 V(s_{k+1}) - V(s_k)"],
        ),
        ("vine_ppo", "", &["V(next step) - V(step of t), in the last step r_i - V(step of t)\n"]),
        ("spo_chain", "", &["in the last step r_i - V(step of t); 0 where pi_old(a_t|s_t) > 0.9"]),
        ("spo_tree", "", &["delta_t = V(s_{t+1}) - V(s_t); 0 where all rewards agree"]),
        ("spo_tree", "edge=grpo", &["delta_t = (V(s_{t+1}) - m_t) / (d_t + 0.0001) where"]),
        (
            "tree_rl",
            "",
            &[
                "delta_t = (V(s_{t+1}) - V(s_t) + V(s_{t+1}))\n",
                "V(u) = the mean A_j",
                "of the other responses",
            ],
        ),
        (
            "spo_chain",
            "drop_sure=true",
            &[
                "0 where pi_old(a_t|s_t) > 0.9, tokens that leave the batch: they have weight 0 and no place in T_i",
            ],
        ),
        (
            "prefix_rloo",
            "shrinkage=6",
            &["(sum r_j + 6 m_i) / (n + 6)", "Q_i(s, a) = (sum r_j + 6 V_i(s)) / (n_a + 6)"],
        ),
        ("prefix_rloo", "control=state", &["= r_i - V_i(s_t); 0 where all rewards of the group agree"]),
        (
            "ridge_rloo",
            "shrinkage=6",
            &[
                "= r_i - V_i(s_t); 0 where",
                "(r_j - m_i - u.phi_j)^2 + 6 |u|^2 over the responses j != i",
                "phi_j = h / |h|",
            ],
        ),
        (
            "tree_rl",
            "leaf_weight=true fill_zeros=true",
            &[
                "(V(s_{t+1}) - V(s_t) + V(s_{t+1})) / sqrt(m), m the number",
                "; where that is 0, the one of token t-1",
            ],
        ),
        (
            "shear_reconstructed",
            "window=40 regularisation=0.2",
            &[
                "delta_t = delta'_t max_k d_k / n over the windows k of 40 tokens, one every 25, that hold t",
                "d_k = min W(k, q) over the windows q",
                "plan of weight 0.2 mean distances, 50 iterations at most",
            ],
        ),
        ("tree_rpo_reconstructed", "", &["(V(s_{t+1}) - m_t) / (d_t + 0.0001)"]),
        (
            "rlsd_reconstructed",
            "share=0.25",
            &["delta_t = delta'_t (0.75 + 0.25 clip(exp(sign(delta'_t) D_t), 0.8, 1.2))"],
        ),
    ];
    for (method, settings, expected) in rows {
        let text = text(method, settings);
        for part in expected {
            assert!(text.contains(part), "{method} {settings}: no {part:?} in\n{text}");
        }
    }
    for spec in REGISTRY {
        assert!(rows.iter().any(|row| row.0 == spec.name), "no row for {}", spec.name);
    }
}

/// Values of a setting other than its default.
fn others(p: &Param) -> Vec<String> {
    let inside = |min: f64, max: f64| match (min.is_finite(), max.is_finite()) {
        (true, true) => min + 0.618 * (max - min),
        (true, false) => min + 5.25,
        (false, true) => max - 0.618,
        (false, false) => 0.618,
    };
    match p.kind {
        Kind::Number { min, max } | Kind::OptionalNumber { min, max } => {
            vec![inside(min, max).to_string()]
        }
        Kind::Choice(words) => words.iter().map(|w| (*w).to_owned()).collect(),
        Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
    }
    .into_iter()
    .filter(|v| *v != p.default)
    .collect()
}

/// Whatever is set and has an effect is seen: a method whose description leaves a setting out fails here.
#[test]
fn every_setting_with_an_effect_shows() {
    for spec in REGISTRY {
        let params = (spec.params)();
        for p in &params {
            let mut given = String::new();
            if let Some((key, idle)) = p.idle_under {
                let other = params.iter().find(|o| o.key == key).expect("declared");
                if idle.contains(&other.default.as_str()) {
                    let awake = others(other).into_iter().find(|v| !idle.contains(&v.as_str()));
                    given = format!("{key}={} ", awake.expect("a value under which it has an effect"));
                }
            }
            let before = text(spec.name, &given);
            for value in others(p) {
                // The presets' own ddof, spelt out.
                if p.key == "std_ddof" && value == "1" {
                    continue;
                }
                let settings = format!("{given}{}={value}", p.key);
                assert_ne!(text(spec.name, &settings), before, "{}: {settings} does not show", spec.name);
            }
        }
    }
}

#[test]
fn a_trace_is_shown_as_its_weights_are() {
    let len = 7;
    let q: f64 = 0.5;
    for (settings, shown, entry) in [
        (
            "",
            "0.5^(t-k) for k <= t",
            Box::new(|t: usize, k: usize| q.powi((t - k) as i32)) as Box<dyn Fn(_, _) -> f64>,
        ),
        (
            "style=both",
            "max(0.5^(t-k), 0.5^k)",
            Box::new(|t, k| q.powi((t - k) as i32).max(q.powi(k as i32))),
        ),
        (
            "matrix=row_index floor=0.2",
            "max(0.2, 0.5^(t-k)) for k <= t",
            Box::new(|t, k| q.powi((t - k) as i32).max(0.2)),
        ),
    ] {
        assert!(text("grpo_lambda", &format!("lambda=0.5 {settings}")).contains(shown), "{shown}");
        // The loss off policy at advantage 1 without clipping: sum_t exp(z_t), so its slope in x_k at 0 is the column sum.
        let sums = parse("grpo_lambda", &format!("lambda=0.5 clamp=none clip=none scale=none {settings}"));
        let method = sums.expect("valid").method;
        let response = |reward| Response::graded(vec![-1.0; len], reward);
        let group = Group { responses: vec![response(1.0), response(0.0)] };
        let batch = evaluate(method.as_ref(), &[group], &vec![vec![-1.0; len]; 2]);
        for k in 0..len {
            let column: f64 = (k..len).map(|t| entry(t, k)).sum();
            let found = -batch.dlogps[0][k] * (2 * len) as f64 / 0.5;
            assert!((found - column).abs() < 1e-12, "{settings} {k}: {found} {column}");
        }
    }
}
