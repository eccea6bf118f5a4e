//! Answers to the lettered parts of a problem: `a) 12; b) 7`, `(i) 3, (ii) 5`.

/// The letters of the parts in their order, by their spellings.
const LETTERS: [[&str; 8]; 2] =
    [["a", "b", "c", "d", "e", "f", "g", "h"], ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii"]];

/// The text with an assignment for each part; `None` if it does not begin with the first part or has no second.
pub(super) fn assigned(text: &str) -> Option<String> {
    let text = text.replace("\\ ", " ");
    LETTERS.iter().find_map(|letters| by(&text, letters))
}

fn by(text: &str, letters: &[&str; 8]) -> Option<String> {
    let mut starts = Vec::new();
    for letter in letters {
        let from = starts.last().map_or(0, |(_, end)| *end);
        let Some(place) = marker(text, from, letter) else { break };
        starts.push(place);
    }
    let opens = |c: char| c == '(' || c == '{' || c == ' ';
    if starts.len() < 2 || !text[..starts[0].0].trim_start_matches("\\text").trim_matches(opens).is_empty() {
        return None;
    }
    let mut out = Vec::new();
    for (i, (_, start)) in starts.iter().enumerate() {
        let end = starts.get(i + 1).map_or(text.len(), |(next, _)| *next);
        let value = text[*start..end].trim_start_matches(['}', ' ']);
        let value =
            value.trim_end_matches(opens).trim_end_matches("\\text").trim_end_matches([' ', ',', ';', '.']);
        let value = value.strip_suffix(" and").unwrap_or(value).trim_end_matches(',');
        if value.is_empty() || value.matches('{').count() != value.matches('}').count() {
            return None;
        }
        let listed = value.contains([',', ';']);
        let value = if listed { format!("\\{{{value}\\}}") } else { value.to_owned() };
        out.push(format!("{}_{{part}}={value}", LETTERS[0][i]));
    }
    Some(out.join("; "))
}

/// The place of `letter)` that no letter or digit touches.
fn marker(text: &str, from: usize, letter: &str) -> Option<(usize, usize)> {
    let alone = |(at, found): (usize, &str)| {
        let before = text[from..from + at].chars().next_back();
        let alone = before.is_none_or(|c| matches!(c, ' ' | '(' | '{' | ';' | ','));
        alone.then_some((from + at, from + at + found.len()))
    };
    text[from..].match_indices(&format!("{letter})")).find_map(alone)
}
