//! Sentences of hand-written pages: struck words, numbers in running text, and sentences without a verb after a colon.

use super::words::{pages, prose};

/// Words that had a private sense here, and a word of the field for each.
pub(super) const STRUCK: [(&str, &str); 12] = [
    ("evidence", "inputs"),
    ("told", "significant, inconclusive"),
    ("coins", "random rewards"),
    ("entrant", "method"),
    ("twin", "control"),
    ("stand-in", "toy model, substitute"),
    ("anti-oracle", "permuted credit"),
    ("anew", "again"),
    ("alike", "equally"),
    ("behind", "after"),
    ("beside", "next to, with"),
    ("drift", "train/inference mismatch"),
];

/// Numbers that a sentence may have; more belong into a table.
const NUMBERS: usize = 3;

/// Words after a colon from which on they should be a sentence of their own.
const LONG: usize = 10;

/// Verbs that pages use; forms in -ed are verbs, too.
const VERBS: &str = "\
    is are was were be been has have had does do did can may must will would should could cannot isn need needs \
    takes take gives give makes make says say names name prints print reads read writes write runs run computes \
    compute compares compare uses use shows show holds hold keeps keep gets get ends end stops stop begins begin \
    starts start stands stand lies lie goes go comes come counts count fails fail passes pass changes change adds \
    add refuses refuse learns learn trains train loses lose calls call checks check finds find fits fit depends \
    depend follows follow grows grow falls fall rises rise costs cost allows allow asks ask answers answer accepts \
    accept rejects reject wins win measures measure samples sample tells tell trusts trust means mean moves move \
    sends send puts put sees see sets set leaves leave lets let draws draw expects expect becomes become applies \
    apply appears appear differs differ agrees agree repeats repeat resumes resume continues continue copies copy \
    opens open builds build installs install warns warn lists list pull pulls divides divide returns return works \
    work lowers raises raise weighs weigh judges judge replaces replace covers cover exists exist decodes decode \
    updates update selects select remains remain contains contain catches catch earns earn pays pay happens happen \
    includes include matters matter treats treat belongs belong imports import ignores ignore stays stay shares \
    share limits limit helps help yields yield speaks speak reaches reach turns turn drops drop took gave got ran \
    kills kill breaks break arrives arrive varies vary explains explain defines define promises promise prevents \
    prevent produces produce reports report loads load requires require touches touch knows know carries carry \
    decides decide expands expand scores score grades grade";

/// Pages that report results, number by number, and those of the grader.
const LEFT_OUT: [&str; 2] = ["llm/results/", "llm/crates/grade/"];

/// The paragraphs and list items of a page with the line on which each begins; code, formulas and addresses of links are left out.
fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(prose(page)) {
        let first = line.split_whitespace().next().unwrap_or_default();
        let item = ["-", "*", "+"].contains(&first)
            || first.strip_suffix('.').is_some_and(|n| n.parse::<u8>().is_ok());
        match found.last_mut().filter(|_| open && !item) {
            Some((_, text)) if !line.is_empty() => *text += &format!(" {line}"),
            _ if !line.is_empty() => found.push((number, line.to_owned())),
            _ => {}
        }
        open = !line.is_empty();
    }
    found.into_iter().map(|(number, text)| (number, plain(&text))).collect()
}

/// The word that stands for a piece of code or a formula.
const CODE: &str = "X";

/// A paragraph with [`CODE`] for each piece of code or formula, and without the addresses of its links.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for mark in ["``", "`", "$"] {
        let pieces = text.split(mark).enumerate();
        text = pieces.map(|(i, piece)| if i % 2 == 0 { piece } else { CODE }).collect();
    }
    let pieces = text.split("](").enumerate();
    pieces
        .map(|(i, piece)| if i == 0 { piece } else { piece.split_once(')').map_or("", |(_, rest)| rest) })
        .collect()
}

/// The sentences of a paragraph.
fn sentences(text: &str) -> Vec<&str> {
    let ends = text.match_indices(['.', '?', '!']).filter_map(|(at, _)| {
        let rest = text[at + 1..].strip_prefix(' ')?;
        rest.starts_with(|c: char| c.is_uppercase() || c == '*').then_some(at + 1)
    });
    let cuts: Vec<usize> = [0].into_iter().chain(ends).chain([text.len()]).collect();
    cuts.windows(2).map(|cut| text[cut[0]..cut[1]].trim()).collect()
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The complaint about a sentence, if there is one.
fn complaint(sentence: &str) -> Option<String> {
    let words: Vec<&str> = sentence.split_whitespace().map(bare).collect();
    let lower = |word: &str| word.to_lowercase();
    for (struck, better) in STRUCK {
        if words.iter().any(|word| lower(word).trim_end_matches('s') == struck.trim_end_matches('s')) {
            return Some(format!("`{struck}`; say {better}"));
        }
    }
    if words
        .windows(2)
        .any(|pair| lower(pair[0]) == "less" && (pair[1].ends_with("'s") || pair[1].ends_with("’s")))
    {
        return Some("`less X's`; say minus".to_owned());
    }
    let is_number = |word: &&&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || ".,e-".contains(c))
    };
    let numbers = words.iter().filter(is_number).count();
    if numbers > NUMBERS {
        return Some(format!("{numbers} numbers; make a table"));
    }
    let (_, rest) = sentence.rsplit_once(": ")?;
    let rest: Vec<String> = rest.split_whitespace().map(|word| lower(bare(word))).collect();
    let is_verb = |word: &String| word.ends_with("ed") || VERBS.split(' ').any(|verb| verb == word);
    let is_word = |word: &&String| word.starts_with(char::is_alphabetic) && **word != lower(CODE);
    let is_long = rest.iter().filter(is_word).count() >= LONG;
    (is_long && !rest.iter().any(is_verb)).then(|| "no verb after the colon".to_owned())
}

fn complaints(page: &str) -> Vec<(usize, String)> {
    let of = |(line, text): (usize, String)| {
        let found: Vec<_> =
            sentences(&text).into_iter().filter_map(|s| Some(format!("{}: {s}", complaint(s)?))).collect();
        found.into_iter().map(move |what| (line, what))
    };
    paragraphs(page).into_iter().flat_map(of).collect()
}

#[test]
fn sentences_of_hand_written_pages_are_read_once() {
    let mut found = Vec::new();
    for (page, text) in
        pages().into_iter().filter(|(page, _)| !LEFT_OUT.iter().any(|folder| page.starts_with(folder)))
    {
        found.extend(complaints(&text).into_iter().map(|(line, what)| format!("{page}:{line}: {what}")));
    }
    assert!(found.is_empty(), "{} sentences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_struck_word_many_numbers_and_a_missing_verb_are_found() {
    let page = "A twin stands here. It is 1.5B wide.\n\n- In 1, 2 and 3 cases\n  of 4 it fails.\n\n`twin`: 1 2 3 4\n\n\
                A kernel: a small block of many threads, with no word about its size or its colour at all.\n\n\
                A kernel: it runs in a small block of many threads and does its work there.\n";
    let found: Vec<_> = complaints(page)
        .into_iter()
        .map(|(line, what)| (line, what.split(&[';', ':'][..]).next().unwrap().to_owned()))
        .collect();
    let expected = [(1, "`twin`"), (3, "4 numbers"), (6, "4 numbers"), (8, "no verb after the colon")];
    assert_eq!(found, expected.map(|(line, what)| (line, what.to_owned())));
}
