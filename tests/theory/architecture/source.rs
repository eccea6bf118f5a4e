//! A Rust file as the tokens that can name a module: no comments, no literals, no items compiled for tests only.

/// The words and signs of `text` in order; `::` is one token. Comments and the contents of string and character literals are left out.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = text.get(at) {
        let next = text.get(at + 1).copied();
        at = match (c, next) {
            ('/', Some('/')) => until(&text, at, |rest| rest[0] == '\n'),
            ('/', Some('*')) => after_block_comment(&text, at),
            ('"', _) => after_string(&text, at + 1),
            ('\'', _) => after_quote(&text, at),
            (':', Some(':')) => {
                tokens.push("::".to_owned());
                at + 2
            }
            _ if is_word(c) => {
                let end = until(&text, at, |rest| !is_word(rest[0]));
                let word: String = text[at..end].iter().collect();
                match after_raw_string(&text, end).filter(|_| ["r", "br", "cr"].contains(&word.as_str())) {
                    Some(after) => after,
                    None => {
                        tokens.push(word);
                        end
                    }
                }
            }
            _ => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                at + 1
            }
        };
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first place from `at` on whose rest satisfies `stop`; the end of the text where none does.
fn until(text: &[char], at: usize, stop: impl Fn(&[char]) -> bool) -> usize {
    (at..text.len()).find(|&i| stop(&text[i..])).unwrap_or(text.len())
}

/// Block comments nest.
fn after_block_comment(text: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn after_string(text: &[char], mut at: usize) -> usize {
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a raw string whose hashes and opening quote begin at `at`; none where no raw string begins.
fn after_raw_string(text: &[char], at: usize) -> Option<usize> {
    let open = until(text, at, |rest| rest[0] != '#');
    let hashes = open - at;
    (text.get(open) == Some(&'"')).then(|| {
        let closes = |rest: &[char]| {
            rest[0] == '"' && rest.len() > hashes && rest[1..=hashes].iter().all(|c| *c == '#')
        };
        until(text, open + 1, closes) + 1 + hashes
    })
}

/// The end of a character literal, or the place after the quote of a lifetime.
fn after_quote(text: &[char], at: usize) -> usize {
    match (text.get(at + 1), text.get(at + 2)) {
        (Some('\\'), _) => until(text, at + 3, |rest| rest[0] == '\'') + 1,
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

/// The tokens without items under `#[cfg(test)]`, and the names of the modules in files of their own among those items.
pub(super) fn without_tests(tokens: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut test_modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        let Some(end) = attribute_end(tokens, at) else {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        };
        let attribute = &tokens[at..end];
        at = end;
        if is_test_only(attribute) {
            while let Some(end) = attribute_end(tokens, at) {
                at = end;
            }
            let item = &tokens[at..item_end(tokens, at)];
            at += item.len();
            if let [.., keyword, name, end] = item
                && keyword == "mod"
                && end == ";"
            {
                test_modules.push(name.clone());
            }
        }
    }
    (kept, test_modules)
}

/// The end of the outer attribute that begins at `at`.
fn attribute_end(tokens: &[String], at: usize) -> Option<usize> {
    let begins = tokens.get(at)? == "#" && tokens.get(at + 1)? == "[";
    begins.then(|| balanced_end(tokens, at + 1))
}

/// The place after the bracket that closes the one at `at`.
fn balanced_end(tokens: &[String], at: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "[" | "(" | "{" => depth += 1,
            "]" | ")" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// True if an attribute keeps its item out of every build but that of tests: `cfg(test)` or `cfg(all(test, ..))`.
fn is_test_only(attribute: &[String]) -> bool {
    let words: Vec<&str> = attribute.iter().map(String::as_str).collect();
    words.starts_with(&["#", "[", "cfg", "(", "test", ")"])
        || words.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"])
}

/// The place after the item that begins at `at`: after its `;`, or after the braces of its body.
fn item_end(tokens: &[String], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at].as_str() {
            ";" => return at + 1,
            // The braces of a `use` are not a body: a `;` follows.
            "{" => {
                let end = balanced_end(tokens, at);
                return if tokens.get(end).is_some_and(|t| t == ";") { end + 1 } else { end };
            }
            "[" | "(" => at = balanced_end(tokens, at),
            _ => at += 1,
        }
    }
    at
}
