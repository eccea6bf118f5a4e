//! The methods by provenance, as the front page lists them.

use grpo_lambda::methods::{MethodSpec, Provenance, REGISTRY};

use super::markdown::wrapped;

/// A line per provenance.
pub(super) fn methods() -> String {
    let kinds = [
        (Provenance::Published, "Published, with public code"),
        (Provenance::PaperOnly, "In a paper, without public code"),
        (Provenance::Reconstructed, "Reconstructed here, because no source gives the formulas"),
        (Provenance::Ours, "Our own"),
    ];
    let line = |(provenance, title): (Provenance, &str)| {
        let kept = |spec: &&&MethodSpec| spec.provenance == provenance;
        let names: Vec<String> =
            REGISTRY.iter().filter(kept).map(|spec| format!("`{}`", spec.name)).collect();
        wrapped("- ", "  ", &format!("**{title}** ({}): {}.", names.len(), names.join(", ")))
    };
    kinds.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_listed_once() {
        let text = methods();
        for spec in REGISTRY {
            assert_eq!(text.matches(&format!("`{}`", spec.name)).count(), 1, "{}", spec.name);
        }
    }
}
