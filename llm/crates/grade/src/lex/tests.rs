//! The tokens of each sign, command and word.

use super::plain_number as number;
use super::*;
use Token::*;

const STRICT: Spelling = Spelling::STRICT;
const WIDE: Spelling = Spelling::WIDE;

fn symbol(name: &str) -> Token {
    Symbol(name.into())
}

fn reads(text: &str, spelling: Spelling) -> Vec<Token> {
    lex(text, spelling).unwrap_or_else(|e| panic!("{text}: {e}")).tokens
}

#[test]
fn commands_and_signs_of_one_token() {
    for (texts, token) in [
        ("\\dot", Accent("dot ")),
        ("\\ddot", Accent("ddot ")),
        ("\\hat|\\widehat", Accent("hat ")),
        ("\\tilde|\\widetilde", Accent("tilde ")),
        ("\\percent|\\text{%}|\\text{\\%}", Percent),
        ("\\imath|i", Imaginary),
        ("\\land|\\wedge|∧", And),
        ("∨", Or),
        ("\\euro", Currency("euro")),
        ("\\pounds|\\textsterling", Currency("gbp")),
        ("\\yen", Currency("yen")),
        ("\\epsilon|\\varepsilon", symbol("epsilon")),
        ("\\phi|\\varphi", symbol("phi")),
        ("\\lparen", Open('(')),
        ("\\rparen", Close(')')),
        ("\\lbrack", Open('[')),
        ("\\rbrack", Close(']')),
        ("\\lt", Relation(super::Relation::Less)),
        ("\\gt", Relation(super::Relation::Greater)),
        ("\\not =", Relation(super::Relation::Unequal)),
        ("\\mathbb{R}|\\mathbb R", Reals),
        ("\\mathcal{R}", symbol("mathcal R")),
        ("⟨", Open('<')),
        ("〉", Close('>')),
        ("⌊", Open('f')),
        ("⌋", Close('f')),
        ("⌈", Open('c')),
        ("⌉", Close('c')),
        ("⋯", Dots),
        ("∓", MinusPlus),
        ("∩", Intersection),
        ("∖", Without),
        ("⇒", Implies),
        ("∠", symbol("∠")),
        ("△", symbol("△")),
        ("e|\\text{e}", Euler),
        ("in|\\text{in}", Relation(super::Relation::In)),
        ("\\text{,}", Separator),
        ("\\text{mod}", Modulus),
        ("\\text{°}", Degree),
        ("\\text{:}", Colon),
        ("\\text{sin}", Function(super::Function::Sin)),
        ("\\text{ hours }", Text("hours".into())),
    ] {
        for text in texts.split('|') {
            assert_eq!(reads(text, STRICT), std::slice::from_ref(&token), "{text}");
        }
    }
    for nothing in ["\\text{}", "\\text{ ~ }", "\\quad", "\\hspace{3pt}", "\\left.", "\\,", "$"] {
        assert_eq!(reads(nothing, STRICT), [], "{nothing}");
    }
    assert_eq!(reads("\"", STRICT), [Prime, Prime]);
    assert_eq!(reads("″", WIDE), [Prime, Prime]);
    assert_eq!(reads("\"", WIDE), []);
    for meaningless in ["\\not<", "\\mathbb{}", "\\mathbb", "\\text", "\\@", "¤", "#"] {
        assert!(lex(meaningless, STRICT).is_err(), "{meaningless}");
    }
}

#[test]
fn a_word_means_something_else_behind_a_value() {
    let five = || number("5");
    assert_eq!(reads("5 \\text{in}", STRICT), [five(), Text("in".into())]);
    assert_eq!(reads("5\\text{in}. ", STRICT), [five(), Text("in".into())]);
    // In the middle of a formula it is the sign for an element.
    assert_eq!(reads("5 \\text{in} A", STRICT), [five(), Relation(super::Relation::In), symbol("A")]);
    assert_eq!(reads("5 \\text{percent}", STRICT), [five(), Percent]);
    assert_eq!(reads("5 \\text{min}", STRICT), [five(), Text("min".into())]);
    assert_eq!(reads("5 \\text{sec}", STRICT), [five(), Text("sec".into())]);
    assert_eq!(reads("5\\text{th}", WIDE), [five()]);
    assert_eq!(reads("5\\text{th}", STRICT), [five(), Text("th".into())]);
    assert_eq!(reads("\\text{th}", WIDE), [Text("th".into())]);
    assert_eq!(reads("5 in", STRICT), [five(), Imaginary, symbol("n")]);
    assert_eq!(reads("(1,2) U (3,4)", STRICT)[5], Union);
    assert_eq!(reads("(1,2) U", STRICT)[5], symbol("U"));
    assert_eq!(reads("2 U (3)", STRICT)[1], symbol("U"));
    assert_eq!(reads("minus 5", WIDE), [Minus, five()]);
    assert_ne!(reads("minus 5", STRICT), [Minus, five()]);
    assert_eq!(reads("5 p.m.", WIDE), [five(), Text("pm".into())]);
    assert_eq!(reads("USD 5", STRICT), [Currency("dollar"), five()]);
    assert_ne!(reads("3 USD 5", STRICT)[1], Currency("dollar"));
    assert_eq!(reads("5Ω", WIDE), [five(), Text("ohm".into())]);
    assert_eq!(reads("5Ω", STRICT), [five(), symbol("Omega")]);
}

#[test]
fn a_text_with_mathematics_in_it_is_read_part_by_part() {
    assert_eq!(reads("\\text{4 and $x$}", STRICT), [number("4"), And, symbol("x")]);
    assert_eq!(reads("\\text{-5}", STRICT), [Minus, number("5")]);
    assert_eq!(reads("\\text{if $x$}", STRICT), [Text("if".into()), symbol("x")]);
    assert_eq!(reads("x & \\text{if}", STRICT), [symbol("x"), Cell]);
    assert_eq!(reads("\\text{a {b} c}", STRICT), [Text("a {b} c".into())]);
    assert_eq!(reads("\\text{Answer:}", STRICT), [Text("Answer".into()), Colon]);
}

#[test]
fn powers_of_ten_repeating_digits_and_groups() {
    let spelled = |text: &str, spelling| {
        let tokens = reads(text, spelling);
        let [Number { digits, repeating, exponent, dots }] = &tokens[..] else {
            return format!("{tokens:?}");
        };
        format!("{digits} {repeating} {exponent} {dots}")
    };
    for (text, expected) in [
        ("1.5e3", "1.5  3 false"),
        ("1.5E-3", "1.5  -3 false"),
        ("2e+123456", "2  123456 false"),
        ("0.1\\overline{36}", "0.1 36 0 false"),
        ("0.\\overline{3}", "0. 3 0 false"),
        (
            "0.\\overline 37",
            "[Number { digits: \"0.\", repeating: \"3\", exponent: 0, dots: false }, Number { digits: \"7\", repeating: \"\", exponent: 0, dots: false }]",
        ),
        ("0.333\\ldots", "0.333  0 true"),
        ("1{,}234{,}567", "1234567  0 false"),
        ("1,\\!234", "1234  0 false"),
        ("1,234,567", "1234567  0 false"),
        ("5.", "5  0 false"),
        (".5", ".5  0 false"),
    ] {
        assert_eq!(spelled(text, STRICT), expected, "{text}");
    }
    for (text, expected) in [
        ("1.5 x 10^3", "1.5  3 false"),
        ("1.5 x 10^{-3}", "1.5  -3 false"),
        ("3{,}5", "3.5  0 false"),
        ("1 234 567", "1234567  0 false"),
        ("1'234", "1234  0 false"),
    ] {
        assert_eq!(spelled(text, WIDE), expected, "{text}");
    }
    // Seven digits are no exponent, a letter in place of a cross is no sign to the strict, and what does not fit is a list.
    assert!(reads("2e1234567", STRICT).len() > 1);
    assert!(reads("1.5 x 10^3", STRICT).len() > 1 && reads("1.5 x 10^{-3", WIDE).len() > 1);
    assert!(reads("1.5 x 10^1234567", WIDE).len() > 1 && reads("1.5 x 10^y", WIDE).len() > 1);
    assert_eq!(reads("27,54,108", STRICT), [number("27"), Separator, number("54"), Separator, number("108")]);
    assert_eq!(reads("(1,234)", STRICT), [Open('('), number("1"), Separator, number("234"), Close(')')]);
    assert_eq!(reads("0,234", STRICT), [number("0"), Separator, number("234")]);
    assert_eq!(reads("2A_{16}", STRICT), [number("2A"), Underscore, BraceOpen, number("16"), BraceClose]);
    assert_eq!(reads("2A", STRICT), [number("2"), symbol("A")]);
}

#[test]
fn raised_and_lowered_characters_are_a_power_or_an_index() {
    let run = |inside: &[Token]| [&[symbol("x"), Caret, BraceOpen], inside, &[BraceClose]].concat();
    assert_eq!(reads("x²³", STRICT), run(&[number("23")]));
    assert_eq!(reads("x⁻¹", STRICT), run(&[Minus, number("1")]));
    assert_eq!(reads("x⁺²", STRICT), run(&[Plus, number("2")]));
    assert_eq!(reads("xⁿ", STRICT), run(&[symbol("n")]));
}

#[test]
fn rows_may_say_how_far_apart_they_stand() {
    let matrix = |between: &str| reads(&format!("\\begin{{pmatrix}}1{between}2\\end{{pmatrix}}"), STRICT);
    let plain = matrix("\\\\");
    assert_eq!(plain, [MatrixOpen(false), number("1"), RowEnd, number("2"), MatrixClose]);
    for between in ["\\\\[6pt]", "\\\\[-1ex]", "\\\\[2.5em]"] {
        assert_eq!(matrix(between), plain, "{between}");
    }
    // Brackets with something else in them are an entry.
    for between in ["\\\\[6]", "\\\\[pt]", "\\\\[x]"] {
        assert!(matrix(between).len() > plain.len(), "{between}");
    }
    // A backslash written twice outside of rows.
    assert_eq!(reads("\\\\frac", WIDE), [Frac]);
    assert_eq!(reads("\\\\frac", STRICT)[0], RowEnd);
    assert_eq!(reads("\\\\2", WIDE), [RowEnd, number("2")]);
}

#[test]
fn what_a_message_shows_of_a_text_is_short() {
    assert_eq!(shown("abcdefghijklmnopqrstuvwxyz"), "abcdefghijklmnopqrst");
    let refused = lex("\\begin{tabularx}", STRICT).unwrap_err().to_string();
    assert!(refused.contains("tabularx"), "{refused}");
}

#[test]
fn a_mark_between_digits_is_read_as_the_spelling_says() {
    const COMMA: Spelling = Spelling { wide: true, comma: true, thousands: false };
    let five = || number("5");
    let parts = |text: &str| [BraceOpen, Separator, BraceClose, number(text)];
    let thousands = Number { digits: "2".into(), repeating: String::new(), exponent: 3, dots: false };
    for (text, spelling, expected) in [
        ("3{,}5", STRICT, [&[number("3")][..], &parts("5")].concat()),
        ("2000{,}000", STRICT, [&[number("2000")][..], &parts("000")].concat()),
        ("3{,}x", WIDE, [&[number("3")][..], &parts("0")[..3], &[symbol("x")]].concat()),
        ("0,x", COMMA, vec![number("0"), Separator, symbol("x")]),
        ("3,5", COMMA, vec![number("3.5")]),
        ("5.\\bar x", STRICT, vec![five(), Accent("bar "), symbol("x")]),
        ("5\\bar x", STRICT, vec![five(), Accent("bar "), symbol("x")]),
        ("2 x 10^000003", WIDE, vec![thousands]),
        ("(1,\\!000)", STRICT, vec![Open('('), number("1000"), Close(')')]),
        ("1234 567", WIDE, vec![number("1234"), number("567")]),
        ("12 345", STRICT, vec![number("12"), number("345")]),
        ("1 234,5", WIDE, vec![number("1234"), Separator, five()]),
        ("1.234,5", WIDE, vec![number("1234.5")]),
        ("1.234,x", WIDE, vec![number("1.234"), Separator, symbol("x")]),
        ("(1)+2,345", STRICT, vec![Open('('), number("1"), Close(')'), Plus, number("2345")]),
        ("{1}+2,345", STRICT, vec![BraceOpen, number("1"), BraceClose, Plus, number("2345")]),
        ("x \\not= 5", STRICT, vec![symbol("x"), Relation(super::Relation::Unequal), five()]),
        (
            "\\begin{pmatrix}{2}\\end{pmatrix}",
            STRICT,
            vec![MatrixOpen(false), BraceOpen, number("2"), BraceClose, MatrixClose],
        ),
        ("\\begin{array}{cc}2\\end{array}", STRICT, vec![MatrixOpen(false), number("2"), MatrixClose]),
    ] {
        assert_eq!(reads(text, spelling), expected, "{text}");
    }
}

#[test]
fn only_the_lenient_rules_read_words_behind_a_number() {
    let five = || number("5");
    assert_eq!(reads("5 maçãs", WIDE), [five(), Text("maçãs".into())]);
    assert_eq!(reads("5 pommes", WIDE), [five(), Text("pommes".into())]);
    assert_eq!(reads("3rd", WIDE), [number("3")]);
    assert_eq!(reads("2 million", WIDE), [number("2"), Times, number("1000000")]);
    assert!(reads("5 pommes", STRICT).len() > 2 && !reads("2 million", STRICT).contains(&Times));
    assert_eq!(reads("3rd", STRICT), [number("3"), symbol("r"), symbol("d")]);
    assert!(lex("5 a.m.", STRICT).is_err());
    assert_eq!(reads("\\text{approximately } 5", STRICT), [five()]);
    assert_eq!(reads("\\text{Thus, } 5", STRICT), [five()]);
}
