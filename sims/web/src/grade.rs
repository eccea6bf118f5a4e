//! The answer that the grader finds in a response, and the rules that compare it with a reference: `llm-train grade --explain`.

use grpo_lambda_grade::{Grader, Prediction};
use serde::Serialize;
use wasm_bindgen::prelude::wasm_bindgen;

/// A name with the sentence that describes it.
#[derive(Serialize)]
struct Named {
    name: &'static str,
    about: &'static str,
}

/// An answer with its place in the units of JavaScript's strings.
#[derive(Serialize)]
struct Place {
    answer: String,
    start: usize,
    end: usize,
    rule: Named,
    /// The value that an equation in prose states of its left side.
    value: Option<String>,
}

#[derive(Serialize)]
struct Graded {
    /// `equal`, `different`, `no_answer` or `unreadable`.
    name: &'static str,
    /// The verdict as the command line prints it.
    verdict: String,
    rules: Vec<Named>,
    /// The reference as far as it is compared.
    reference: String,
    found: Option<Place>,
}

/// The verdict on a response as JSON, with the answer found, its place and every rule. `free` takes the mode of evaluation, which reads
/// prose; otherwise that of training.
///
/// # Errors
/// The text of the command line, for an empty reference.
#[wasm_bindgen]
pub fn graded(reference: &str, response: &str, free: bool) -> Result<String, String> {
    let grader = if free { Grader::free() } else { Grader::default() };
    let gold = grader.gold([reference]).map_err(|e| e.to_string())?;
    let verdict = grader.grade(&gold, response);
    let units = |end: usize| response[..end].encode_utf16().count();
    let found = Prediction::extract(response, grader.extraction).into_found().map(|found| Place {
        start: units(found.span.start),
        end: units(found.span.end),
        rule: Named { name: found.rule.name(), about: found.rule.about() },
        value: found.value,
        answer: found.answer,
    });
    let rules = verdict.rules.iter().map(|rule| Named { name: rule.name(), about: rule.about() }).collect();
    let (name, verdict) = (verdict.name(), verdict.to_string());
    crate::json(&Graded { name, verdict, rules, reference: gold.to_string(), found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_as_javascript_does_and_rules_are_named() {
        let found: serde_json::Value =
            serde_json::from_str(&graded("$12$", "𝑥 ist 𝟏𝟐, also x = 12.", true).unwrap()).unwrap();
        assert_eq!((&found["name"], &found["reference"]), (&"equal".into(), &"12".into()));
        assert_eq!((&found["found"]["start"], &found["found"]["end"]), (&18.into(), &24.into()));
        assert_eq!(found["found"]["rule"]["name"], "statement");
        assert_eq!(found["rules"][0]["name"], "assignment");
        assert!(graded(" ", "5", false).unwrap_err().contains("the reference answer is empty"));
    }
}
