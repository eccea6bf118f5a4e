//! The response without reasoning, escapes of JSON and emphasis of Markdown.

use std::borrow::Cow;

use crate::fold::folded;

/// Commands by which text is known to be LaTeX whose backslashes were doubled.
const COMMANDS: [&str; 20] = [
    "boxed", "frac", "dfrac", "tfrac", "sqrt", "text", "pi", "left", "times", "cdot", "infty", "begin", "le",
    "ge", "pm", "cup", "in", "sin", "cos", "mathrm",
];

/// The text that answers: behind the reasoning, in plain characters.
pub(super) fn cleaned(text: &str) -> String {
    let answer = match text.rsplit_once("</think>") {
        Some((_, after)) if !after.trim().is_empty() => after,
        _ => text,
    };
    let plain = folded(answer);
    let single =
        if has_doubled_backslashes(&plain) { Cow::Owned(plain.replace("\\\\", "\\")) } else { plain };
    let boxed = if single.contains("box") { Cow::Owned(uniform_boxes(&single)) } else { single };
    without_emphasis(&boxed)
}

fn has_doubled_backslashes(text: &str) -> bool {
    let mut doubled = false;
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let rest = &text[at + found..];
        let run = rest.bytes().take_while(|b| *b == b'\\').count();
        let word = &rest[run..];
        let word = &word[..word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len())];
        if run == 1 && !word.is_empty() {
            return false;
        }
        doubled |= run == 2 && COMMANDS.contains(&word);
        at += found + run;
    }
    doubled
}

/// Boxes of every spelling as `\boxed{}`.
fn uniform_boxes(text: &str) -> String {
    let mut out = text.to_owned();
    for spelling in ["\\fbox{", "\\boxed {", "\\framebox{"] {
        out = out.replace(spelling, "\\boxed{");
    }
    // `\boxed 5`
    while let Some(at) = out.find("\\boxed ") {
        let inside = at + "\\boxed ".len();
        let length = out[inside..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-')
            .unwrap_or(out.len() - inside);
        let value = out[inside..inside + length].trim_end_matches('.').to_owned();
        out.replace_range(at..inside + value.len(), &format!("\\boxed{{{value}}}"));
    }
    out
}

/// Removes the asterisks of bold text; `2**3` keeps its own.
fn without_emphasis(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("**") {
        let (before, after) = (&rest[..at], &rest[at + 2..]);
        out += before;
        let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, ')' | '(' | '}'));
        if inner(before.chars().next_back()) && inner(after.chars().next()) {
            out += "**";
        }
        rest = after;
    }
    out + rest
}
