//! The compared methods: baselines, and GRPO-lambda in its variants.

use crate::training::Task;
use grpo_lambda::methods::{self, Method};

/// The name of the method that all others are compared with.
pub(super) const BASELINE: &str = "GRPO";
/// The paper's best variants (section 4.1): epsilon-trace, lambda = 0.99, both styles, clamp -0.1.
pub(crate) const PAPER: [&str; 2] = ["recent trace .99", "both trace .99"];

/// The methods whose learning curves are in the data.
pub(super) const CURVES: [&str; 6] =
    [BASELINE, PAPER[0], PAPER[1], "RLOO", "recent weight .99", "GRPO clamped"];

/// A method with its settings.
pub(super) struct Variant {
    /// Its name in tables and figures; those of GRPO-lambda say style, update, lambda and what differs from the paper.
    pub(super) name: String,
    method: &'static str,
    /// Its settings without those that depend on the MDP.
    pub(super) settings: String,
    /// One of the 16 variants the paper leaves open: style x update x lambda x clamp.
    pub(super) of_paper: bool,
    /// True if `normalise=mean` changes it.
    pub(super) has_unit_mean: bool,
}

impl Variant {
    fn baseline(name: &str, method: &'static str, settings: &str) -> Variant {
        Variant {
            name: name.into(),
            method,
            settings: settings.into(),
            of_paper: false,
            has_unit_mean: false,
        }
    }

    fn lambda(name: String, settings: String, of_paper: bool, has_unit_mean: bool) -> Variant {
        Variant { name, method: "grpo_lambda", settings, of_paper, has_unit_mean }
    }

    /// The method on an MDP. Dr. GRPO's constant length is that of the longest response.
    ///
    /// # Errors
    /// If the settings are refused.
    pub(super) fn build(&self, task: &Task, unit_mean: bool) -> anyhow::Result<Box<dyn Method>> {
        let mut settings = self.settings.clone();
        if self.method == "dr_grpo" {
            settings += &format!(" max_length={}", task.tree.max_len());
        }
        if unit_mean {
            settings += " normalise=mean";
        }
        Ok(methods::parse(self.method, &settings)?.method)
    }

    /// Method and settings as a command takes them.
    pub(super) fn command(&self) -> String {
        format!("{} {}", self.method, self.settings).trim_end().to_owned()
    }
}

/// Every variant, baseline first.
pub(super) fn variants() -> Vec<Variant> {
    let mut all = vec![
        Variant::baseline(BASELINE, "grpo", "reduction=token_mean"),
        Variant::baseline("GRPO 1/T", "grpo", "reduction=response_mean"),
        Variant::baseline("GRPO clamped", "grpo", "reduction=token_mean clamp=-0.1"),
        Variant::baseline("Dr. GRPO", "dr_grpo", ""),
        Variant::baseline("RLOO", "rloo", ""),
    ];
    for (clamp, suffix) in [("-0.1", ""), ("none", " unclamped")] {
        for update in ["trace", "weight"] {
            for (lambda, short) in [("0.99", ".99"), ("0.9", ".9")] {
                for style in ["recent", "both"] {
                    let name = format!("{style} {update} {short}{suffix}");
                    let settings = format!("style={style} update={update} lambda={lambda} clamp={clamp}");
                    all.push(Variant::lambda(name, settings, true, true));
                }
            }
        }
    }
    for (lambda, short) in [("0.99", ".99"), ("0.9", ".9")] {
        let name = format!("recent trace {short} terminal");
        all.push(Variant::lambda(name, format!("delta=terminal lambda={lambda}"), false, true));
    }
    for style in ["recent", "both"] {
        let printed = format!("style={style} matrix=as_printed");
        all.push(Variant::lambda(format!("{style} trace .99 printed matrix"), printed, false, true));
        let rows = format!("style={style} normalise=rows");
        all.push(Variant::lambda(format!("{style} trace .99 unit rows"), rows, false, false));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::distinct;

    #[test]
    fn every_variant_builds_under_a_name_of_its_own() {
        let task = &crate::training::tasks(false).expect("knobs in range")[0];
        let all = variants();
        let names: Vec<&str> = all.iter().map(|r| r.name.as_str()).collect();
        assert!(names[0] == BASELINE && PAPER.iter().all(|p| names.contains(p)));
        assert_eq!(distinct(&names).len(), names.len());
        assert_eq!(all.iter().filter(|r| r.of_paper).count(), 16);
        for variant in &all {
            variant.build(task, false).expect("valid settings");
            assert_eq!(variant.build(task, true).is_ok(), variant.has_unit_mean, "{}", variant.name);
        }
    }
}
