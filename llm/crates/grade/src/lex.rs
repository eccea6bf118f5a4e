//! From text to tokens: LaTeX, plain text and the usual Unicode signs, in one pass.

use super::node::{Function, Relation};
use super::verdict::Reason;
use super::words;

/// What the parser reads.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Digits with at most one point, the repeating digits behind it, and a power of ten (`1.5e3`).
    Number {
        digits: String,
        repeating: String,
        exponent: i64,
    },
    Symbol(String),
    Function(Function),
    Pi,
    Euler,
    Imaginary,
    Infinity,
    Frac,
    Root,
    Binom,
    /// `\vec`, `\hat` and the like: the name is kept where it changes what is meant.
    Accent(&'static str),
    /// `\text{...}` and plain units.
    Text(String),
    /// `(`, `[`, `{` (a set), `<` (an angle bracket), `f` (floor), `c` (ceiling).
    Open(char),
    /// The closing counterparts: `)`, `]`, `}`, `>`, `f`, `c`.
    Close(char),
    BraceOpen,
    BraceClose,
    Bar,
    Separator,
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
    Times,
    Divide,
    Caret,
    Underscore,
    Bang,
    Degree,
    Percent,
    Prime,
    Relation(Relation),
    Union,
    Without,
    Reals,
    MatrixOpen,
    MatrixClose,
    Cell,
    RowEnd,
    /// `\circ`: degrees where it is a power, composition elsewhere.
    Circ,
}

/// The tokens of an answer, and whether a comma in it can be read both as a thousands comma and as a separator.
#[derive(Clone, Debug)]
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    pub(super) two_ways: bool,
}

/// Reads `text`. `thousands`: whether `1,234` outside brackets is one number.
pub(super) fn lex(text: &str, thousands: bool) -> Result<Lexed, Reason> {
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new(), depth: 0, thousands, two_ways: false };
    while let Some(c) = lexer.peek() {
        lexer.token(c)?;
    }
    Ok(Lexed { tokens: lexer.tokens, two_ways: lexer.two_ways })
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// Open brackets, in which a comma always separates.
    depth: usize,
    thousands: bool,
    two_ways: bool,
}

/// A part of the input, short enough for a message.
fn shown(text: &str) -> String {
    text.chars().take(20).collect()
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.at += prefix.len();
        }
        found
    }

    /// The longest prefix of such characters, taken.
    fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn push(&mut self, token: Token) {
        self.tokens.push(token);
    }

    fn token(&mut self, c: char) -> Result<(), Reason> {
        if c.is_whitespace() || matches!(c, '$' | '~' | '\u{200b}' | '`') {
            self.at += c.len_utf8();
            return Ok(());
        }
        if c.is_ascii_digit() || (c == '.' && self.rest()[1..].starts_with(|d: char| d.is_ascii_digit())) {
            self.number();
            return Ok(());
        }
        if c == '\\' {
            return self.command();
        }
        if c.is_ascii_alphabetic() {
            self.word();
            return Ok(());
        }
        self.at += c.len_utf8();
        let token = match c {
            '(' | '[' => {
                self.depth += 1;
                Token::Open(c)
            }
            ')' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                Token::Close(c)
            }
            '{' => {
                self.depth += 1;
                Token::BraceOpen
            }
            '}' => {
                self.depth = self.depth.saturating_sub(1);
                Token::BraceClose
            }
            '|' => Token::Bar,
            ',' | ';' | '，' | '；' | '、' => Token::Separator,
            '+' => Token::Plus,
            '-' | '−' | '–' | '—' => Token::Minus,
            '±' => Token::PlusMinus,
            '∓' => Token::MinusPlus,
            '*' if self.take("*") => Token::Caret,
            '*' | '×' | '·' | '⋅' | '∙' => Token::Times,
            '/' | '÷' | '∕' => Token::Divide,
            '^' => Token::Caret,
            '_' => Token::Underscore,
            '!' => Token::Bang,
            '°' | 'º' => Token::Degree,
            '%' => Token::Percent,
            '\'' | '′' => Token::Prime,
            '"' | '″' => {
                self.push(Token::Prime);
                Token::Prime
            }
            '=' => {
                self.take("=");
                Token::Relation(Relation::Equal)
            }
            '<' if self.take("=") => Token::Relation(Relation::LessOrEqual),
            '>' if self.take("=") => Token::Relation(Relation::GreaterOrEqual),
            '<' => Token::Relation(Relation::Less),
            '>' => Token::Relation(Relation::Greater),
            '≤' | '⩽' => Token::Relation(Relation::LessOrEqual),
            '≥' | '⩾' => Token::Relation(Relation::GreaterOrEqual),
            '≠' => Token::Relation(Relation::Unequal),
            '≈' => Token::Relation(Relation::Equal),
            '∈' => Token::Relation(Relation::In),
            '∪' => Token::Union,
            '∞' => Token::Infinity,
            'π' => Token::Pi,
            '√' => Token::Root,
            'ℝ' => Token::Reals,
            '&' => Token::Cell,
            '²' | '³' => {
                self.push(Token::Caret);
                plain_number(if c == '²' { "2" } else { "3" })
            }
            'α'..='ω' | 'Α'..='Ω' => Token::Symbol(c.to_string()),
            // The end of a sentence.
            '.' if self.rest().trim_end_matches(['$', ' ', '\n']).is_empty() => return Ok(()),
            other => return Err(Reason::Unreadable(format!("`{other}` has no meaning here"))),
        };
        self.push(token);
        Ok(())
    }

    fn digits(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_digit())
    }

    fn number(&mut self) {
        let mut digits = self.digits().to_owned();
        if !digits.is_empty() {
            self.thousands(&mut digits);
        }
        let mut repeating = String::new();
        let rest = self.rest();
        let fraction = rest.starts_with('.')
            && rest[1..].starts_with(|c: char| c.is_ascii_digit() || c == '\\')
            || (rest == "." && !digits.is_empty());
        if fraction {
            self.at += 1;
            let after = self.digits();
            if !after.is_empty() {
                digits.push('.');
                digits += after;
            }
            for mark in ["\\overline{", "\\bar{", "\\dot{"] {
                let Some(inside) = self.rest().strip_prefix(mark) else { continue };
                let length = inside.bytes().take_while(u8::is_ascii_digit).count();
                if length > 0 && inside[length..].starts_with('}') {
                    repeating = inside[..length].to_owned();
                    self.at += mark.len() + length + 1;
                    if after.is_empty() {
                        digits.push('.');
                    }
                }
            }
        }
        let exponent = self.power_of_ten();
        self.push(Token::Number { digits, repeating, exponent });
    }

    /// The `e3` of `1.5e3`, and 0 where there is none.
    fn power_of_ten(&mut self) -> i64 {
        let rest = self.rest();
        let Some(after) = rest.strip_prefix(['e', 'E']) else { return 0 };
        let unsigned = after.strip_prefix(['+', '-']).unwrap_or(after);
        let length = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 || length > 6 {
            return 0;
        }
        let end = after.len() - unsigned.len() + length;
        self.at += 1 + end;
        after[..end].trim_start_matches('+').parse().unwrap_or(0)
    }

    /// Adds the groups of three digits that follow behind thousands commas or thin spaces.
    fn thousands(&mut self, digits: &mut String) {
        if digits.len() > 3 {
            return;
        }
        // The whole run must fit: `27,54,108` is a list.
        let (mut ahead, mut groups, mut sure) = (self.at, Vec::new(), false);
        loop {
            let rest = &self.text[ahead..];
            let marks =
                [(",\\!", true), (", \\!", true), ("{,}", true), ("\\,", true), ("\\ ", true), (",", false)];
            let Some((mark, certain)) = marks.into_iter().find(|(mark, _)| rest.starts_with(mark)) else {
                break;
            };
            let after = rest[mark.len()..].trim_start_matches(if certain { ' ' } else { '\0' });
            let length = after.bytes().take_while(u8::is_ascii_digit).count();
            if length == 0 {
                break;
            }
            if length != 3 {
                return;
            }
            sure |= certain;
            groups.push(&after[..3]);
            ahead = self.text.len() - after.len() + 3;
        }
        if groups.is_empty() || (!sure && (self.depth > 0 || digits.starts_with('0'))) {
            return;
        }
        self.two_ways |= !sure;
        if sure || self.thousands {
            groups.iter().for_each(|group| digits.push_str(group));
            self.at = ahead;
        }
    }

    /// Letters of plain text: a name with a meaning, a unit behind a number, or one symbol for each letter.
    fn word(&mut self) {
        let word = self.take_while(|c| c.is_ascii_alphabetic());
        let behind_number = matches!(
            self.tokens.last(),
            Some(Token::Number { .. } | Token::BraceClose | Token::Close(_) | Token::Degree | Token::Text(_))
        );
        let token = match word {
            "e" => Token::Euler,
            "i" => Token::Imaginary,
            "pi" => Token::Pi,
            "inf" | "infinity" | "infty" | "oo" => Token::Infinity,
            "sqrt" => Token::Root,
            "and" | "or" => Token::Separator,
            "in" if !behind_number => Token::Relation(Relation::In),
            _ if behind_number && words::is_plain_unit(word) => Token::Text(word.to_owned()),
            _ => match words::function(word) {
                Some(function) => Token::Function(function),
                None if words::spelled_symbol(word) => Token::Symbol(word.to_owned()),
                None => {
                    for letter in word.chars() {
                        self.push(match letter {
                            'e' => Token::Euler,
                            'i' => Token::Imaginary,
                            other => Token::Symbol(other.to_string()),
                        });
                    }
                    return;
                }
            },
        };
        self.push(token);
    }

    /// The content of the braces that follow, taken; nothing where there are none.
    fn braced(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        let inside = trimmed.strip_prefix('{')?;
        let mut depth = 1usize;
        for (i, b) in inside.bytes().enumerate() {
            match b {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.at += rest.len() - trimmed.len() + 1 + i + 1;
                return Some(&inside[..i]);
            }
        }
        None
    }

    fn command(&mut self) -> Result<(), Reason> {
        self.at += 1;
        let name = self.take_while(|c| c.is_ascii_alphabetic());
        if name.is_empty() {
            return self.escape();
        }
        let token = match name {
            "frac" | "dfrac" | "tfrac" | "cfrac" => Token::Frac,
            "sqrt" => Token::Root,
            "binom" | "dbinom" | "tbinom" => Token::Binom,
            "left" | "right" | "middle" | "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl"
            | "Bigr" | "biggl" | "biggr" | "Biggl" | "Biggr" => {
                self.take(".");
                return Ok(());
            }
            "quad" | "qquad" | "displaystyle" | "textstyle" | "limits" | "nolimits" | "thinspace"
            | "medspace" | "thickspace" | "hline" | "boldsymbol" | "mathbf" | "bm" | "mathit" | "vec"
            | "overrightarrow" | "bf" | "rm" | "it" | "boxed" | "fbox" | "ldots" | "dots" => return Ok(()),
            "text" | "mbox" | "textbf" | "textit" | "textrm" | "mathrm" | "operatorname" | "hbox"
            | "textnormal" | "mathsf" | "texttt" => {
                let inside =
                    self.braced().ok_or_else(|| Reason::Unreadable(format!("\\{name} without braces")))?;
                return self.text_in(inside);
            }
            "mathbb" | "mathcal" | "mathfrak" | "Bbb" => match self.braced() {
                Some("R") if name == "mathbb" || name == "Bbb" => Token::Reals,
                Some(inside) => Token::Symbol(format!("{name} {inside}")),
                None => return Err(Reason::Unreadable(format!("\\{name} without braces"))),
            },
            "dot" => Token::Accent("dot "),
            "ddot" => Token::Accent("ddot "),
            "hat" | "widehat" => Token::Accent("hat "),
            "bar" | "overline" => Token::Accent("bar "),
            "tilde" | "widetilde" => Token::Accent("tilde "),
            "pm" => Token::PlusMinus,
            "mp" => Token::MinusPlus,
            "times" | "cdot" | "ast" | "cdotp" => Token::Times,
            "div" | "over" => Token::Divide,
            "circ" => Token::Circ,
            "degree" => Token::Degree,
            "prime" => Token::Prime,
            "percent" => Token::Percent,
            "pi" => Token::Pi,
            "infty" | "infin" => Token::Infinity,
            "le" | "leq" | "leqslant" | "leqq" => Token::Relation(Relation::LessOrEqual),
            "ge" | "geq" | "geqslant" | "geqq" => Token::Relation(Relation::GreaterOrEqual),
            "lt" => Token::Relation(Relation::Less),
            "gt" => Token::Relation(Relation::Greater),
            "ne" | "neq" => Token::Relation(Relation::Unequal),
            "approx" | "equiv" | "to" | "rightarrow" | "colon" => Token::Relation(Relation::Equal),
            "in" => Token::Relation(Relation::In),
            "cup" => Token::Union,
            "setminus" | "backslash" => Token::Without,
            "lbrace" => Token::Open('{'),
            "rbrace" => Token::Close('}'),
            "langle" => Token::Open('<'),
            "rangle" => Token::Close('>'),
            "lfloor" => Token::Open('f'),
            "rfloor" => Token::Close('f'),
            "lceil" => Token::Open('c'),
            "rceil" => Token::Close('c'),
            "lvert" | "rvert" | "vert" | "mid" => Token::Bar,
            "emptyset" | "varnothing" => {
                self.push(Token::Open('{'));
                Token::Close('}')
            }
            "begin" => match self.braced() {
                Some("pmatrix" | "bmatrix" | "vmatrix" | "matrix" | "Bmatrix" | "smallmatrix") => {
                    Token::MatrixOpen
                }
                Some("array") => {
                    self.braced();
                    Token::MatrixOpen
                }
                Some(other) => {
                    return Err(Reason::Unreadable(format!("the environment `{}`", shown(other))));
                }
                None => return Err(Reason::Unreadable("\\begin without braces".into())),
            },
            "end" => {
                self.braced();
                Token::MatrixClose
            }
            "lor" | "land" | "vee" | "wedge" => Token::Separator,
            "dollar" => return Ok(()),
            "epsilon" | "varepsilon" => Token::Symbol("epsilon".into()),
            "phi" | "varphi" => Token::Symbol("phi".into()),
            "theta" | "vartheta" => Token::Symbol("theta".into()),
            _ => match words::function(name) {
                Some(function) => Token::Function(function),
                None => Token::Symbol(name.to_owned()),
            },
        };
        match token {
            Token::Open(_) | Token::MatrixOpen => self.depth += 1,
            Token::Close(_) | Token::MatrixClose => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.push(token);
        Ok(())
    }

    /// A backslash before something that is not a letter.
    fn escape(&mut self) -> Result<(), Reason> {
        let Some(c) = self.peek() else { return Ok(()) };
        self.at += c.len_utf8();
        let token = match c {
            // A space of some width, math mode delimiters, currency.
            '!' | ',' | ';' | ':' | ' ' | '\n' | '$' | '(' | ')' | '[' | ']' | '&' | '>' => return Ok(()),
            '{' => {
                self.depth += 1;
                Token::Open('{')
            }
            '}' => {
                self.depth = self.depth.saturating_sub(1);
                Token::Close('}')
            }
            '\\' => Token::RowEnd,
            '%' => Token::Percent,
            '|' => Token::Bar,
            '#' => return Ok(()),
            '_' => Token::Underscore,
            other => return Err(Reason::Unreadable(format!("`\\{other}` has no meaning here"))),
        };
        self.push(token);
        Ok(())
    }

    /// The content of a text command: a separator, a function, one letter, or words.
    fn text_in(&mut self, inside: &str) -> Result<(), Reason> {
        let inside = inside.trim().trim_matches('~');
        let token = match inside {
            "" => return Ok(()),
            "and" | "or" | "," | "and " => Token::Separator,
            "in" => Token::Relation(Relation::In),
            "e" => Token::Euler,
            "i" => Token::Imaginary,
            _ if words::function(inside).is_some() && inside != "min" && inside != "sec" => {
                match words::function(inside) {
                    Some(function) => Token::Function(function),
                    None => return Ok(()),
                }
            }
            _ if inside.bytes().all(|b| b.is_ascii_digit()) => plain_number(inside),
            _ => Token::Text(inside.to_owned()),
        };
        self.push(token);
        Ok(())
    }
}

/// A whole number.
pub(super) fn plain_number(digits: &str) -> Token {
    Token::Number { digits: digits.to_owned(), repeating: String::new(), exponent: 0 }
}
