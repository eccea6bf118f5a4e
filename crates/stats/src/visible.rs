//! Texts of files, programs and models before people's eyes.

/// A text for a terminal, which takes some characters for commands: control characters are spelt out, but for tabs and ends of lines, and so
/// are the marks that change the order in which their neighbours are shown.
///
/// ```
/// use grpo_lambda_stats::visible;
/// assert_eq!(visible("a\tb\n\u{1b}[2J \u{202e}é"), "a\tb\n\\u{1b}[2J \\u{202e}é");
/// ```
pub fn visible(text: &str) -> String {
    spelt(text, |c| matches!(c, '\n' | '\t'))
}

/// A text on one line of a terminal: as [`visible`], with tabs and ends of lines spelt out too.
pub fn visible_line(text: &str) -> String {
    spelt(text, |_| false)
}

/// `head` and the words of `text` after it, in lines of at most `width` characters that begin below the text; a longer word has a line of its own, and two
/// blanks stay two.
///
/// ```
/// use grpo_lambda_stats::hanging;
/// assert_eq!(hanging("  lr  ", "the learning rate", 16), "  lr  the\n      learning\n      rate");
/// ```
pub fn hanging(head: &str, text: &str, width: usize) -> String {
    let indent = head.chars().count();
    let (mut out, mut used) = (head.to_owned(), indent);
    for word in text.split(' ') {
        let length = word.chars().count();
        if used > indent && used + 1 + length > width {
            out += &format!("\n{:indent$}", "");
            used = indent;
        } else if used > indent {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += length;
    }
    out
}

fn spelt(text: &str, stays: fn(char) -> bool) -> String {
    let is_command =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_command(c) && !stays(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
