//! Phrases that announce the answer, in many languages.

/// Nouns for an answer, and the copulas between them and the answer; each parted by `|`.
pub(super) type Phrase = (&'static str, &'static str);

const ENGLISH: &str = ":| is | is:| is\n| are | are:|=| would be | will be | equals | comes to | must be ";
const ASIAN: &str = "是|为|為|选|選|:|は|=| is |선";
const FRENCH: &str = " est | est:|:| sont |=| vaut ";
const SPANISH: &str = " es | es:|:| son |=";
const PORTUGUESE: &str = " é | é:|:| são |=";
const GERMAN: &str = " ist | lautet | lautet:| ist:|:| sind |=| beträgt | lauten ";
const RUSSIAN: &str = ":|—|–| - | равен | равно | является |=";
const ARABIC: &str = " هي | هو | هي:| هو:|:|=";
/// The verb stands behind the answer.
const NONE: &str = "|:";

/// Phrases for the final answer.
pub(super) const FINAL: &[Phrase] = &[
    ("final answer|final result", ENGLISH),
    ("最终答案|最后答案|最終答案|最終的な答え|最終回答", ASIAN),
    ("réponse finale", FRENCH),
    ("respuesta final", SPANISH),
    ("resposta final", PORTUGUESE),
    ("endgültige antwort|endergebnis", GERMAN),
    ("окончательный ответ|итоговый ответ", RUSSIAN),
    ("الإجابة النهائية|الجواب النهائي", ARABIC),
    ("अंतिम उत्तर", NONE),
    ("risposta finale", " è |:|="),
    ("최종 답", "은|:|="),
    ("eindantwoord", " is |:"),
    ("đáp án cuối cùng", " là |:"),
];

/// Phrases for an answer.
pub(super) const ANSWER: &[Phrase] = &[
    ("answer|correct option|correct choice", ENGLISH),
    ("ans", ".|:|=| is "),
    ("答案|答え|正解|解答", ASIAN),
    ("答", ":|。"),
    ("réponse", FRENCH),
    ("respuesta", SPANISH),
    ("resposta", PORTUGUESE),
    ("antwort|ergebnis", GERMAN),
    ("ответ", RUSSIAN),
    ("الإجابة|الجواب|الاجابة", ARABIC),
    ("故选|उत्तर|जवाब", NONE),
    ("risposta", " è |:|="),
    ("정답", "은|:|="),
    ("답", "은|:"),
    ("đáp án|đáp số", " là |:"),
    ("cevap", ":| = "),
];

/// Phrases for a result; without the colon, which would be a heading.
pub(super) const RESULT: &[Phrase] = &[
    ("result", " is | is:| are |="),
    ("solution", " is | is:| are | are:"),
    ("solutions", " are | are:"),
    ("结果", "是|为"),
    ("résultat|solution", " est | est:"),
    ("resultado", " es | es:| é | é:"),
    ("solución", " es | es:"),
    ("solução", " é | é:"),
    ("lösung", " ist | lautet | ist:| lautet:"),
    ("результат", " равен |:"),
    ("النتيجة", ARABIC),
    ("الحل", " هو | هو:"),
    ("परिणाम", NONE),
];

/// Most bytes between the noun and its copula: "the answer to this question is".
const GAP: usize = 70;
/// Occurrences of a noun that are looked at, from the last one backwards.
const OCCURRENCES: usize = 16;
/// Words and signs between the copula and the answer.
const FILLERS: &str = "}|:|=|-|—|–|*|_|>|#|\"|indeed|simply|just|therefore|thus|hence|then|now|exactly|equal to|given by|\
    approximately|about|option|choice|letter|选项|选择|选|答案|является|è|est|es|é|ist|هو|هي|है|the letter|la opción|\
    l'option|вариант|الخيار";

/// The place, in bytes, of the words that announce an answer last, and the start of that answer. `lower` is the text in lower case.
pub(super) fn announced(lower: &str, phrases: &[Phrase]) -> Option<(usize, usize)> {
    let start = |(nouns, copulas): &Phrase| {
        nouns.split('|').filter_map(|noun| behind(lower, noun, copulas)).max_by_key(|(_, start)| *start)
    };
    phrases.iter().filter_map(start).max_by_key(|(_, start)| *start)
}

fn behind(lower: &str, noun: &str, copulas: &str) -> Option<(usize, usize)> {
    let mut end = lower.len();
    for _ in 0..OCCURRENCES {
        let at = lower[..end].rfind(noun)?;
        let after = at + noun.len();
        // `answers`, but not `resulting`.
        let inside = noun.is_ascii() && lower[..at].ends_with(|c: char| c.is_ascii_alphabetic());
        let whole =
            !inside && !lower[after..].trim_start_matches('s').starts_with(|c: char| c.is_ascii_alphabetic());
        if let Some(start) = copula(&lower[after..], copulas).filter(|_| whole) {
            let place = after + start;
            return Some((at, place + fillers(&lower[place..])));
        }
        end = at;
    }
    None
}

/// The length of what stands up to the end of the copula.
fn copula(rest: &str, copulas: &str) -> Option<usize> {
    let line = rest
        .find(['\n', '。', '।'])
        .map_or(rest, |end| &rest[..end + usize::from(rest[end..].starts_with('\n'))]);
    copulas
        .split('|')
        .filter_map(|copula| line.find(copula).map(|at| (at, at + copula.len())))
        .filter(|(at, _)| {
            *at <= GAP && !line[..*at].contains([',', ';', '$', '\\']) && !line[..*at].contains(". ")
        })
        .min()
        .map(|(_, end)| end)
}

fn fillers(rest: &str) -> usize {
    let mut left = rest;
    loop {
        let trimmed = left.trim_start();
        let found = FILLERS.split('|').find_map(|filler| {
            let after = trimmed.strip_prefix(filler)?;
            let word = filler.ends_with(|c: char| c.is_ascii_alphabetic());
            let negative = matches!(filler, "-" | "–" | "—") && !after.starts_with(' ');
            (!negative && (!word || !after.starts_with(|c: char| c.is_ascii_alphanumeric()))).then_some(after)
        });
        match found {
            Some(after) => left = after,
            None => return rest.len() - trimmed.len(),
        }
    }
}
