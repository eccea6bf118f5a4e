//! Text as Markdown that is as readable raw as rendered: lines of a limited width, short cells.

/// Characters of a line outside tables.
pub const LINE: usize = 160;
/// Characters of a table cell.
pub const CELL: usize = 300;

/// `text` as the content of a table cell.
pub(super) fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// `text` as a cell of at most [`CELL`] characters. A longer one ends with `…` after the last sentence or clause that
/// fits.
pub(super) fn short_cell(text: &str) -> String {
    let whole = cell(text);
    if whole.chars().count() <= CELL {
        return whole;
    }
    let fits = |end: usize| whole[..end].chars().count() + " …".len() <= CELL;
    let ends = |mark: &str| whole.match_indices(mark).map(|(at, _)| at).filter(|&at| fits(at)).last();
    let end = ends(". ").max(ends("; ")).or_else(|| ends(" ")).unwrap_or(0);
    format!("{} …", &whole[..end])
}

/// `text` as lines of at most [`LINE`] characters, the first one after `first`, the others after `rest`.
pub(super) fn wrapped(first: &str, rest: &str, text: &str) -> String {
    let mut out = String::from(first);
    let mut width = first.chars().count();
    let mut at_start = true;
    for piece in pieces(text) {
        let piece_width = piece.chars().count();
        if at_start {
            at_start = false;
        } else if width + 1 + piece_width > LINE {
            out += "\n";
            out += rest;
            width = rest.chars().count();
        } else {
            out.push(' ');
            width += 1;
        }
        out += &piece;
        width += piece_width;
    }
    out.push('\n');
    out
}

/// The words of `text`, each together with those after it that would be a mark of Markdown at the start of a line.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match pieces.last_mut() {
            Some(last) if is_mark(word) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

/// True if a line that starts with `word` could be read as a list item, heading, quotation, table, fence or rule.
fn is_mark(word: &str) -> bool {
    let number = word.trim_end_matches(['.', ')']);
    let item = number.len() < word.len() && number.chars().all(|c| c.is_ascii_digit());
    item || matches!(word, "-" | "+" | "*")
        || ["#", ">", "|", "--", "==", "```", "~~~"].iter().any(|m| word.starts_with(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_up_to_the_width_and_no_word_is_lost() {
        let text = "word ".repeat(100);
        let lines = wrapped("- ", "  ", &text);
        assert!(lines.lines().all(|line| line.chars().count() <= LINE), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("  word")), "{lines}");
        assert_eq!(lines.split_whitespace().filter(|w| *w == "word").count(), 100);
        assert_eq!(lines.lines().count(), 4, "{lines}");
    }

    #[test]
    fn no_line_starts_with_a_mark_of_markdown() {
        for mark in ["-", "+", "*", "8.", "12)", "#", ">", "|A|", "---", "===", "```"] {
            let lines = wrapped("", "", &format!("x {mark} ").repeat(100));
            let found = lines.lines().find(|line| !line.starts_with('x'));
            assert_eq!(found, None, "{mark}");
        }
        assert!(!is_mark("-0.5") && !is_mark("1.25") && !is_mark("**Holds**"));
    }

    #[test]
    fn a_long_cell_ends_after_a_whole_clause() {
        assert_eq!(short_cell("a | b\nc"), "a \\| b c");
        let long = format!("first clause; second one. {}", "and so on ".repeat(40));
        assert_eq!(short_cell(&long), "first clause; second one …");
        let words = short_cell(&"word ".repeat(100));
        assert!(words.chars().count() <= CELL && words.ends_with("word …"), "{words}");
    }
}
