//! Lines for people on the tokens around a prompt and the end of a response.

use super::prompt::Template;
use super::tokens::ModelTokenizer;

/// Lines on what surrounds a prompt of this template, what ends a response to it, and what of the checkpoint's files is passed over.
pub fn surroundings(template: &Template, tokens: &ModelTokenizer) -> Vec<String> {
    let quoted = |ids: &[u32]| {
        let token = |id: &u32| format!("{} ({id})", tokens.token(*id).unwrap_or_default());
        ids.iter().map(token).collect::<Vec<_>>().join(", ")
    };
    let [before, after] =
        tokens.around().map(|ids| if ids.is_empty() { "nothing".to_owned() } else { quoted(&ids) });
    let around = match template.is_chat() {
        true => "the template writes all special tokens of a prompt, and none is added".to_owned(),
        false => format!("before a prompt stands {before}, after it {after}"),
    };
    let stops: String = template.stop().iter().map(|stop| format!(", or the text {stop:?}")).collect();
    let mut lines = vec![format!("{around}; a response ends with {}{stops}", quoted(tokens.eos()))];
    if template.prints_dates() {
        lines.push("strftime_now of the template always gives the date 1 January 2025, so that a run can be repeated".to_owned());
    }
    lines.extend_from_slice(tokens.notes());
    let passed_over = tokens.sampling_fields();
    if !passed_over.is_empty() {
        let fields = passed_over.join(", ");
        lines.push(format!(
            "generation_config.json asks for {fields}; sampling is set by the run or the command instead"
        ));
    }
    lines
}
