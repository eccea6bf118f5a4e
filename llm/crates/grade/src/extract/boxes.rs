//! Boxes: the last one, and those that belong to one answer.

use std::ops::Range;

use crate::words;

/// The beginning of a box.
pub const BOXED: &[u8] = br"\boxed{";

/// Bytes between two boxes of one answer.
const APART: usize = 48;

/// The content of the last box that is closed.
pub(super) fn last_box(text: &str) -> Option<&str> {
    answer_place(text).map(|place| &text[place])
}

/// The place, in bytes, of the content of the closed box that opens last. `\{` and `\}` are letters, not braces.
///
/// ```
/// let text = r"\boxed{1} so \boxed{12}";
/// assert_eq!(grpo_lambda_grade::answer_place(text), Some(20..22));
/// ```
pub fn answer_place(text: &str) -> Option<Range<usize>> {
    let mut best: Option<Range<usize>> = None;
    closed(text, |place| {
        if best.as_ref().is_none_or(|known| place.start > known.start) {
            best = Some(place);
        }
    });
    best
}

/// Calls `found` with the content of every box that is closed, in the order in which they close.
fn closed(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    // The beginning of a box; `None` for a brace.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\\' if bytes[i..].starts_with(BOXED) => {
                i += BOXED.len() - 1;
                open.push(Some(i + 1));
            }
            // A backslash takes the next character with it, unless that one begins a box.
            b'\\' if !bytes[i + 1..].starts_with(BOXED) => i += 1,
            b'{' => open.push(None),
            b'}' => {
                if let Some(Some(start)) = open.pop() {
                    found(start..i);
                }
            }
            _ => {}
        }
        i += 1;
    }
}

/// The last box, with those before it that are joined to it by commas and connectives, and the brackets around them all.
pub(super) fn joined(text: &str) -> Option<Range<usize>> {
    let mut last = answer_place(text)?;
    let mut boxes: Vec<Range<usize>> = Vec::new();
    closed(text, |place| {
        // Of nested boxes the inner one counts.
        if boxes.last().is_none_or(|known| known.start < place.start) {
            boxes.push(place);
        }
    });
    let outer = |place: &Range<usize>| place.start - BOXED.len()..place.end + 1;
    let mut first = boxes.iter().position(|b| *b == last)?;
    // `\boxed{B}, not \boxed{C}`, `\boxed{6}. (Without order it would be \boxed{3}.)`
    let between = if first > 0 { &text[outer(&boxes[first - 1]).end..outer(&last).start] } else { "" };
    let remark = between
        .rsplit_once('(')
        .is_some_and(|(_, inside)| !inside.contains(')') && super::prose::is_prose(inside));
    if remark || text[..outer(&last).start].trim_end_matches([' ', '$']).ends_with(" not") {
        first = first.checked_sub(1)?;
        last = boxes[first].clone();
    }
    // Of two boxes, none in the other, the first ends before the second.
    while first > 0 && joins(&text[outer(&boxes[first - 1]).end..outer(&boxes[first]).start]) {
        first -= 1;
    }
    if boxes[first] == last {
        return Some(last);
    }
    let (start, end) = (outer(&boxes[first]).start, outer(&last).end);
    let (before, after) =
        (text[..start].trim_end_matches([' ', '$']), text[end..].trim_start_matches([' ', '$']));
    for (open, close) in
        [("(", ")"), ("\\{", "\\}"), ("[", "]"), ("\\left(", "\\right)"), ("\\langle", "\\rangle")]
    {
        if before.ends_with(open) && after.starts_with(close) {
            return Some(before.len() - open.len()..text.len() - after.len() + close.len());
        }
    }
    Some(start..end)
}

/// The contents of boxes with words between them, with commas in place of the words.
pub(super) fn parted(text: &str) -> Option<String> {
    let mut parts = Vec::new();
    closed(text, |place| parts.push(&text[place]));
    let adjacent = text.contains("}\\boxed{");
    let once = parts.iter().all(|part| *part == parts[0]);
    (!parts.is_empty() && (adjacent || super::prose::is_prose(text)))
        .then(|| if once { parts[0].to_owned() } else { parts.join(" , ") })
}

/// True if the text between two boxes makes them parts of one answer: a comma or a connective, and at most a name with `=`.
pub(super) fn joins(between: &str) -> bool {
    if between.is_empty() {
        return true;
    }
    if between.len() > APART || between.contains("\n\n") {
        return false;
    }
    let mut plain = between.replace("\\text{", " ").replace(['}', '$', '~', '.'], " ");
    for command in ["\\quad", "\\(", "\\)"] {
        plain = plain.replace(command, " ");
    }
    let mut joined = plain.contains([',', ';', '，', '、']);
    // `and the other is`: words between a connective and a copula.
    let (mut count, mut said, mut long) = (0, false, false);
    for word in plain.split([' ', ',', ';', '，', '、', '\n']).filter(|w| !w.is_empty()) {
        if words::joins_mathematics(word) {
            joined = true;
        } else if words::is_among(word, "is|are|equals|and|est|ist|es") {
            said = true;
        } else if words::is_among(word, "also|for|part|maybe|perhaps|possibly|(a)|(b)|(c)") {
            continue;
        } else if words::is_among(word, "not|wrong|impossible|excluded|answer") {
            return false;
        } else if word.chars().all(char::is_alphabetic)
            && word.len() > 3
            && !words::is_among(word, "then|hence|thus|because|since|therefore|so")
        {
            count += 1;
            long = true;
        } else if word.strip_suffix('=').unwrap_or(word).chars().count() <= 3 {
            count += 1;
        } else {
            return false;
        }
    }
    joined && count <= 3 && (count == 0 || said || !long && plain.contains('='))
}
