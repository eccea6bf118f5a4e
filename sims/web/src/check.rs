//! The convention that gives another trainer's numbers: `sim estimate --against`.

use grpo_lambda_tools::estimate::{against as search, lines};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{GROUPS, THEIRS, configure};

/// The report of `sim estimate --against`. With a `method` (which may be empty) and `explain`, it opens with the differences from that
/// method's numbers.
///
/// # Errors
/// The text of the command line.
#[wasm_bindgen]
pub fn against(
    groups: &str,
    theirs: &str,
    method: &str,
    settings: &str,
    explain: bool,
    tolerance: f64,
) -> Result<String, String> {
    let configured = if method.is_empty() { None } else { Some(configure(method, settings)?) };
    let words: Vec<String> = settings.split_whitespace().map(str::to_owned).collect();
    let found = || {
        let assumed = search::assumptions(tolerance, &words, configured.is_some())?;
        let lines = lines(configured.as_ref(), GROUPS, groups.as_bytes())?;
        let explained = configured.as_ref().filter(|_| explain);
        search::report(explained, &assumed, (GROUPS, &lines), (THEIRS, theirs))
    };
    found().map_err(|failure| failure.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"rewards":[1,0,0],"logps":[[-0.5,-0.2],[-1.5],[-1]],"old_logps":[[-0.5,-0.3],[-1.5],[-1]]}"#;

    #[test]
    fn a_convention_is_named_and_a_wrong_line_is_refused_with_its_file() {
        let verl = grpo_lambda_tools::estimate::printed(
            &configure("grpo", "std_preset=verl").unwrap(),
            "",
            LINE.as_bytes(),
            true,
        );
        let theirs = verl.unwrap().text;
        let report = against(LINE, &theirs, "", "", false, 1e-9).unwrap();
        assert!(report.contains("verl adv_estimator=grpo"), "{report}");
        let error = against(LINE, "{\"advantages\":[1,2]}", "", "", false, 1e-9).unwrap_err();
        assert_eq!(
            error,
            "theirs.jsonl:1: advantages: 2 entries for 3 responses; one per response is needed"
        );
        let error = against("{", &theirs, "", "", false, 1e-9).unwrap_err();
        assert!(error.starts_with("groups.jsonl:1: not JSON"), "{error}");
    }
}
