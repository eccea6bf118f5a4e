//! Phrases that announce the answer, in many languages.

/// Nouns for an answer, parted by `|`, and the copulas that must stand behind them before the answer comes.
pub(super) struct Phrase {
    nouns: &'static str,
    copulas: &'static [&'static str],
}

const fn phrase(nouns: &'static str, copulas: &'static [&'static str]) -> Phrase {
    Phrase { nouns, copulas }
}

const ENGLISH: &[&str] = &[
    ":",
    " is ",
    " is:",
    " is\n",
    " are ",
    " are:",
    "=",
    " would be ",
    " will be ",
    " equals ",
    " comes to ",
    " must be ",
];
const ASIAN: &[&str] = &["是", "为", "為", ":", "は", "=", " is ", "선"];
const FRENCH: &[&str] = &[" est ", " est:", ":", " sont ", "=", " vaut "];
const SPANISH: &[&str] = &[" es ", " es:", ":", " son ", "="];
const PORTUGUESE: &[&str] = &[" é ", " é:", ":", " são ", "="];
const GERMAN: &[&str] =
    &[" ist ", " lautet ", " lautet:", " ist:", ":", " sind ", "=", " beträgt ", " lauten "];
const RUSSIAN: &[&str] = &[":", "—", "–", " - ", " равен ", " равно ", " является ", "="];
const ARABIC: &[&str] = &[" هي ", " هو ", " هي:", " هو:", ":", "="];
/// The verb stands behind the answer.
const NONE: &[&str] = &["", ":"];

/// Phrases for the final answer.
pub(super) const FINAL: &[Phrase] = &[
    phrase("final answer|final result", ENGLISH),
    phrase("最终答案|最后答案|最終答案|最終的な答え|最終回答", ASIAN),
    phrase("réponse finale", FRENCH),
    phrase("respuesta final", SPANISH),
    phrase("resposta final", PORTUGUESE),
    phrase("endgültige antwort|endergebnis", GERMAN),
    phrase("окончательный ответ|итоговый ответ", RUSSIAN),
    phrase("الإجابة النهائية|الجواب النهائي", ARABIC),
    phrase("अंतिम उत्तर", NONE),
    phrase("risposta finale", &[" è ", ":", "="]),
    phrase("최종 답", &["은", ":", "="]),
    phrase("eindantwoord", &[" is ", ":"]),
    phrase("đáp án cuối cùng", &[" là ", ":"]),
];

/// Phrases for an answer.
pub(super) const ANSWER: &[Phrase] = &[
    phrase("answer|correct option|correct choice", ENGLISH),
    phrase("答案|答え|正解|解答", ASIAN),
    phrase("答", &[":", "。"]),
    phrase("réponse", FRENCH),
    phrase("respuesta", SPANISH),
    phrase("resposta", PORTUGUESE),
    phrase("antwort|ergebnis", GERMAN),
    phrase("ответ", RUSSIAN),
    phrase("الإجابة|الجواب|الاجابة", ARABIC),
    phrase("故选|उत्तर|जवाब", NONE),
    phrase("risposta", &[" è ", ":", "="]),
    phrase("정답", &["은", ":", "="]),
    phrase("답", &["은", ":"]),
    phrase("đáp án|đáp số", &[" là ", ":"]),
    phrase("cevap", &[":", " = "]),
];

/// Phrases for a result; without the colon, which would be a heading.
pub(super) const RESULT: &[Phrase] = &[
    phrase("result", &[" is ", " is:", " are ", "="]),
    phrase("solution", &[" is ", " is:", " are ", " are:"]),
    phrase("solutions", &[" are ", " are:"]),
    phrase("结果", &["是", "为"]),
    phrase("résultat|solution", &[" est ", " est:"]),
    phrase("resultado", &[" es ", " es:", " é ", " é:"]),
    phrase("solución", &[" es ", " es:"]),
    phrase("solução", &[" é ", " é:"]),
    phrase("lösung", &[" ist ", " lautet ", " ist:", " lautet:"]),
    phrase("результат", &[" равен ", ":"]),
    phrase("النتيجة", ARABIC),
    phrase("الحل", &[" هو ", " هو:"]),
    phrase("परिणाम", NONE),
];

/// Words between the noun and its copula: "the answer to this question is".
const GAP: usize = 70;
/// Occurrences of a noun that are looked at, from the last one backwards.
const OCCURRENCES: usize = 16;
/// Words and signs between the copula and the answer.
const FILLERS: &str = "}|:|=|-|—|–|*|_|>|#|\"|indeed|simply|just|therefore|thus|hence|then|now|exactly|equal to|given by|\
    approximately|about|option|choice|letter|选项|选择|选|答案|является|è|est|es|é|ist|هو|هي|है|the letter|la opción|\
    l'option|вариант|الخيار";

/// The start, in bytes, of the answer that is announced last. `lower` is the text in lower case with the same offsets.
pub(super) fn announced(lower: &str, phrases: &[Phrase]) -> Option<usize> {
    let starts = phrases
        .iter()
        .flat_map(|phrase| phrase.nouns.split('|').map(|noun| behind(lower, noun, phrase.copulas)));
    starts.flatten().max()
}

fn behind(lower: &str, noun: &str, copulas: &[&str]) -> Option<usize> {
    let mut end = lower.len();
    for _ in 0..OCCURRENCES {
        let at = lower[..end].rfind(noun)?;
        let after = at + noun.len();
        if let Some(start) = copula(&lower[after..], copulas) {
            let place = after + start;
            return Some(place + fillers(&lower[place..]));
        }
        end = at;
    }
    None
}

/// The length of what stands up to the end of the copula.
fn copula(rest: &str, copulas: &[&str]) -> Option<usize> {
    let line = rest
        .find(['\n', '。', '।'])
        .map_or(rest, |end| &rest[..end + usize::from(rest[end..].starts_with('\n'))]);
    copulas
        .iter()
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
