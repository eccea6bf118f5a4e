//! The tokens of each sign, command and word.

use super::*;
use crate::tests::hold;
use Token::*;

const COMMA: Spelling = Spelling { wide: true, comma: true, thousands: false };

#[test]
fn what_a_message_shows_of_a_text_is_short() {
    assert_eq!(shown("abcdefghijklmnopqrstuvwxyz"), "abcdefghijklmnopqrst");
    let refused = lex("\\begin{tabularx}", Spelling::STRICT).unwrap_err().to_string();
    assert!(refused.contains("tabularx"), "{refused}");
}

/// A token as `cases.tsv` writes it.
fn spelled(token: &Token) -> String {
    let Number { digits, repeating, exponent, dots } = token else { return format!("{token:?}") };
    let repeating = if repeating.is_empty() { String::new() } else { format!("~{repeating}") };
    let exponent = if *exponent == 0 { String::new() } else { format!("e{exponent}") };
    format!("{digits}{repeating}{exponent}{}", if *dots { "..." } else { "" })
}

#[test]
fn a_text_has_the_tokens_of_the_table() {
    hold(include_str!("cases.tsv"), 169, |section, fields| {
        let spelling = match section {
            "strict" => Spelling::STRICT,
            "wide" => Spelling::WIDE,
            _ => COMMA,
        };
        let found = match lex(&fields[0], spelling) {
            Ok(lexed) if lexed.tokens.is_empty() => "nothing".to_owned(),
            Ok(lexed) => lexed.tokens.iter().map(spelled).collect::<Vec<_>>().join(" "),
            Err(_) => "-".to_owned(),
        };
        (found == fields[1], found)
    });
}
