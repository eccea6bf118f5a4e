//! Signs, commands and words of one token, declared in `signs.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::{Token, plain};
use crate::node::{self, Function, relation};
use crate::words::logic;

fn token(name: &'static str) -> Option<Token> {
    let Some((kind, argument)) = name.split_once(':') else { return plain(name) };
    Some(match kind {
        "Open" => Token::Open(argument.chars().next()?),
        "Close" => Token::Close(argument.chars().next()?),
        "Relation" => Token::Relation(relation(argument)?),
        "Function" => Token::Function(node::function(argument)?),
        "Symbol" => Token::Symbol(argument.to_owned()),
        "Accent" => Token::Accent(argument),
        "Operator" => Token::Operator(argument),
        "Naming" => Token::Naming(argument),
        "Logic" => Token::Logic(logic(argument)?),
        "Currency" => Token::Currency(argument),
        _ => return None,
    })
}

static SIGNS: LazyLock<HashMap<&'static str, Token>> = LazyLock::new(|| {
    let lines = include_str!("signs.txt").lines().filter(|line| !line.starts_with("# "));
    let entries = lines.filter_map(|line| {
        let (name, spellings) = line.split_once(' ')?;
        Some((token(name)?, spellings))
    });
    entries.flat_map(|(token, all)| all.split(' ').map(move |one| (one, token.clone()))).collect()
});

/// The token of a sign, of a command with its backslash, or of a word.
pub(super) fn sign(spelling: &str) -> Option<Token> {
    SIGNS.get(spelling).cloned()
}

/// The function of a name, with or without a backslash before it.
pub(crate) fn function(name: &str) -> Option<Function> {
    let Some(Token::Function(function)) = SIGNS.get(name) else { return None };
    Some(*function)
}

/// True for the name of a Greek letter that plain text spells out.
pub(crate) fn spelled_symbol(name: &str) -> bool {
    matches!(SIGNS.get(name), Some(Token::Symbol(_))) && name.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_token_and_no_spelling_stands_twice() {
        let lines = include_str!("signs.txt").lines().filter(|line| !line.starts_with("# "));
        let spellings: usize = lines.map(|line| line.split(' ').count() - 1).sum();
        assert_eq!(SIGNS.len(), spellings);
        assert_eq!(
            (sign("≤"), sign("\\leqq")),
            (sign("<="), Some(Token::Relation(node::Relation::LessOrEqual)))
        );
        assert_eq!((function("tg"), function("six")), (Some(Function::Tan), None));
    }
}
