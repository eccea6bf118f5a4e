//! LaTeX commands.

use super::signs::{function, sign};
use super::{Lexer, Token, shown, unreadable};
use crate::node::Relation;
use crate::units;
use crate::verdict::Reason;
use crate::words::is_among;

/// Sizes of brackets.
const SIZES: &str = "left|right|middle|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr|biggl|biggr|Biggl|Biggr";
/// The look of something, not its meaning.
const LOOKS: &str = "quad|qquad|displaystyle|textstyle|scriptstyle|limits|nolimits|thinspace|medspace|thickspace|\
    enspace|hline|boldsymbol|mathbf|bm|mathit|pmb|bf|rm|it|boxed|fbox|dollar|nonumber|notag|hfill|large|Large|LARGE|\
    small|normalsize|strut|noindent|centering|allowbreak|nobreak|relax|underline|bold|mathop";
/// Commands whose braces hold a text.
const TEXTS: &str =
    "text|mbox|textbf|textit|textrm|mathrm|operatorname|hbox|textnormal|mathsf|texttt|textsf|emph";
/// Environments that are tables, and those of rows.
const TABLES: &str = "pmatrix|bmatrix|matrix|Bmatrix|smallmatrix|vmatrix|Vmatrix|array";
const ROWS: &str = "cases|aligned|align|gathered|gather|split|rcases|dcases|alignat|eqnarray";

impl Lexer<'_> {
    pub(super) fn command(&mut self) -> Result<(), Reason> {
        let start = self.at;
        self.at += 1;
        let name = self.take_while(|c| c.is_ascii_alphabetic());
        if name.is_empty() {
            return self.escape();
        }
        if let Some(token) = sign(&self.text[start..self.at]) {
            self.push(token);
            return Ok(());
        }
        match name {
            _ if is_among(name, SIZES) => {
                self.take(".");
                self.take_brace_of_rows();
            }
            // Unit vectors.
            "mathbf" | "bm" | "boldsymbol" | "bold" if is_unit_vector(self.rest()) => {
                self.push(Token::Accent("vec"));
            }
            _ if is_among(name, LOOKS) => {}
            // Here the braces are no part of the answer.
            "hspace" | "vspace" | "color" | "phantom" | "hphantom" | "vphantom" | "label" | "tag" => {
                self.braced();
            }
            _ if is_among(name, TEXTS) => {
                let inside = self.needed(name)?;
                if self.is_upright_symbol(inside) {
                    return self.mathematics(inside);
                }
                return self.text_in(inside);
            }
            "Omega" if self.spelling.wide && self.after_value() => self.push(Token::Text("ohm".into())),
            "mathbb" | "mathcal" | "mathfrak" | "Bbb" => {
                let token = self.alphabet(name)?;
                self.push(token);
            }
            "emptyset" | "varnothing" => self.empty_set(),
            "not" => {
                let Some(after) = self.rest().trim_start().strip_prefix('=') else {
                    return unreadable("\\not before what is not `=`");
                };
                self.at = self.text.len() - after.len();
                self.push(Token::Relation(Relation::Unequal));
            }
            "begin" | "end" => return self.environment(name == "begin"),
            _ => self.push(function(name).map_or_else(|| Token::Symbol(name.to_owned()), Token::Function)),
        }
        Ok(())
    }

    /// `\mathrm{\pi}`, and a letter after a value that is no unit: mathematics in upright letters.
    fn is_upright_symbol(&self, inside: &str) -> bool {
        let mut letters = inside.chars();
        match (letters.next(), letters.next()) {
            (Some('π'), None) => true,
            (Some('\\'), Some(_)) => {
                sign(inside).is_some()
                    || ["\\frac", "\\dfrac", "\\sqrt"].iter().any(|name| inside.starts_with(name))
            }
            (Some(letter), None) => {
                let unit = units::canonical(inside).is_some();
                letter.is_ascii_alphabetic() && !unit && self.after_value()
            }
            _ => inside == "pi",
        }
    }

    /// `\{` before an array of equations, which `\right.` ends.
    fn take_brace_of_rows(&mut self) {
        let rest = self.rest().trim_start();
        let Some(after) = rest.strip_prefix("\\{").or_else(|| rest.strip_prefix("\\lbrace")) else { return };
        let after = after.trim_start();
        if ["array", "matrix", "aligned"].iter().any(|name| after.starts_with(&format!("\\begin{{{name}}}")))
        {
            self.at = self.text.len() - after.len();
            self.braced_rows = true;
        }
    }

    /// `\mathbb{R}`, `\mathbb Z`, `\mathcal{C}`.
    fn alphabet(&mut self, name: &str) -> Result<Token, Reason> {
        let letter = self.braced().map(str::trim).unwrap_or_else(|| {
            self.take_while(char::is_whitespace);
            self.take_while(|c| c.is_ascii_alphabetic())
        });
        let blackboard = matches!(name, "mathbb" | "Bbb");
        match letter {
            "" => unreadable(format!("\\{name} without braces")),
            "R" if blackboard => Ok(Token::Reals),
            _ => Ok(Token::Symbol(format!("{name} {letter}"))),
        }
    }

    fn environment(&mut self, begins: bool) -> Result<(), Reason> {
        let name = self.needed(if begins { "begin" } else { "end" })?;
        let plain = name.trim_end_matches('*');
        if plain == "array" && begins {
            self.braced();
        }
        let token = match plain {
            _ if is_among(plain, TABLES) => self.table(begins, plain == "vmatrix"),
            _ if is_among(plain, ROWS) && begins => Token::RowsOpen,
            _ if is_among(plain, ROWS) => Token::RowsClose,
            "equation" | "math" | "displaymath" | "center" => return Ok(()),
            other => return unreadable(format!("the environment `{}`", shown(other))),
        };
        self.push(token);
        Ok(())
    }

    /// The beginning or end of a table: of a matrix, or of the equations after a single brace.
    fn table(&mut self, begins: bool, determinant: bool) -> Token {
        if begins {
            let rows = std::mem::take(&mut self.braced_rows);
            self.environments.push(rows);
            return if rows { Token::RowsOpen } else { Token::MatrixOpen(determinant) };
        }
        if self.environments.pop() == Some(true) { Token::RowsClose } else { Token::MatrixClose }
    }

    /// A backslash before something that is not a letter.
    fn escape(&mut self) -> Result<(), Reason> {
        let Some(c) = self.peek() else { return Ok(()) };
        self.at += c.len_utf8();
        let token = match c {
            // A space of some width, a delimiter of mathematics, a quotation mark, a currency.
            '!' | ',' | ';' | ':' | ' ' | '\n' | '$' | '(' | ')' | '[' | ']' | '&' | '>' | '/' | '#'
            | '-' | '"' | '\'' => {
                return Ok(());
            }
            '{' => Token::Open('{'),
            '}' => Token::Close('}'),
            // Outside of rows the backslash of a command was written twice.
            '\\' if self.spelling.wide
                && !self.text.contains("\\begin")
                && self.rest().starts_with(|c: char| c.is_ascii_alphabetic()) =>
            {
                self.at -= 1;
                return self.command();
            }
            '\\' => {
                self.row_space();
                Token::RowEnd
            }
            '%' => Token::Percent,
            '|' => Token::Bar,
            '_' => Token::Underscore,
            other => return unreadable(format!("`\\{other}` has no meaning here")),
        };
        self.push(token);
        Ok(())
    }

    /// The `[6pt]` of `\\[6pt]`.
    fn row_space(&mut self) {
        let Some(inside) = self.rest().strip_prefix('[') else { return };
        let Some((length, _)) = inside.split_once(']') else { return };
        let unit = ["pt", "em", "ex", "mm", "cm", "in"].iter().any(|unit| length.ends_with(unit));
        if unit && length.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            self.at += length.len() + 2;
        }
    }
}

/// `{i}` or ` i` after the command of a bold letter.
fn is_unit_vector(rest: &str) -> bool {
    let rest = rest.trim_start();
    let letter = rest.trim_start_matches('{');
    let mut after = letter.chars().skip(1);
    let ended =
        after.next().is_none_or(|c| if letter.len() < rest.len() { c == '}' } else { !c.is_alphanumeric() });
    letter.starts_with(['i', 'j', 'k']) && ended
}
