//! How people say that the answer follows, in many languages.

/// Words for an answer and what must stand behind them before the answer comes. Of the first kind there is one final answer; the
/// others are looked for where that is not said.
pub(super) struct Phrase {
    noun: &'static str,
    copulas: &'static [&'static str],
}

const fn phrase(noun: &'static str, copulas: &'static [&'static str]) -> Phrase {
    Phrase { noun, copulas }
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

/// Said of the final answer.
pub(super) const FINAL: &[Phrase] = &[
    phrase("final answer", ENGLISH),
    phrase("final result", ENGLISH),
    phrase("最终答案", ASIAN),
    phrase("最后答案", ASIAN),
    phrase("最終答案", ASIAN),
    phrase("最終的な答え", ASIAN),
    phrase("最終回答", ASIAN),
    phrase("réponse finale", FRENCH),
    phrase("respuesta final", SPANISH),
    phrase("resposta final", PORTUGUESE),
    phrase("endgültige antwort", GERMAN),
    phrase("endergebnis", GERMAN),
    phrase("окончательный ответ", RUSSIAN),
    phrase("итоговый ответ", RUSSIAN),
    phrase("الإجابة النهائية", ARABIC),
    phrase("الجواب النهائي", ARABIC),
    phrase("अंतिम उत्तर", NONE),
    phrase("risposta finale", &[" è ", ":", "="]),
    phrase("최종 답", &["은", ":", "="]),
    phrase("eindantwoord", &[" is ", ":"]),
    phrase("đáp án cuối cùng", &[" là ", ":"]),
];

/// Said of an answer.
pub(super) const ANSWER: &[Phrase] = &[
    phrase("answer", ENGLISH),
    phrase("correct option", ENGLISH),
    phrase("correct choice", ENGLISH),
    phrase("答案", ASIAN),
    phrase("答", &[":", "。"]),
    phrase("故选", NONE),
    phrase("答え", ASIAN),
    phrase("正解", ASIAN),
    phrase("解答", ASIAN),
    phrase("réponse", FRENCH),
    phrase("respuesta", SPANISH),
    phrase("resposta", PORTUGUESE),
    phrase("antwort", GERMAN),
    phrase("ergebnis", GERMAN),
    phrase("ответ", RUSSIAN),
    phrase("الإجابة", ARABIC),
    phrase("الجواب", ARABIC),
    phrase("الاجابة", ARABIC),
    phrase("उत्तर", NONE),
    phrase("जवाब", NONE),
    phrase("risposta", &[" è ", ":", "="]),
    phrase("정답", &["은", ":", "="]),
    phrase("답", &["은", ":"]),
    phrase("đáp án", &[" là ", ":"]),
    phrase("đáp số", &[" là ", ":"]),
    phrase("cevap", &[":", " = "]),
];

/// Said of a result; without the colon, which would be a heading.
pub(super) const RESULT: &[Phrase] = &[
    phrase("result", &[" is ", " is:", " are ", "="]),
    phrase("solution", &[" is ", " is:", " are ", " are:"]),
    phrase("solutions", &[" are ", " are:"]),
    phrase("结果", &["是", "为"]),
    phrase("résultat", &[" est ", " est:"]),
    phrase("solution", &[" est ", " est:"]),
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
/// What may stand between the copula and the answer.
const FILLERS: [&str; 45] = [
    "}",
    ":",
    "=",
    "-",
    "—",
    "–",
    "*",
    "_",
    ">",
    "#",
    "\"",
    "indeed",
    "simply",
    "just",
    "therefore",
    "thus",
    "hence",
    "then",
    "now",
    "exactly",
    "equal to",
    "given by",
    "approximately",
    "about",
    "option",
    "choice",
    "letter",
    "选项",
    "选择",
    "选",
    "答案",
    "является",
    "è",
    "est",
    "es",
    "é",
    "ist",
    "هو",
    "هي",
    "है",
    "the letter",
    "la opción",
    "l'option",
    "вариант",
    "الخيار",
];

/// Where the answer begins that is announced last, in bytes. `lower` is the text in lower case with the same offsets.
pub(super) fn announced(lower: &str, phrases: &[Phrase]) -> Option<usize> {
    phrases.iter().filter_map(|phrase| behind(lower, phrase)).max()
}

fn behind(lower: &str, phrase: &Phrase) -> Option<usize> {
    let mut end = lower.len();
    for _ in 0..OCCURRENCES {
        let at = lower[..end].rfind(phrase.noun)?;
        let after = at + phrase.noun.len();
        if let Some(start) = copula(&lower[after..], phrase.copulas) {
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
        let found = FILLERS.iter().find_map(|filler| {
            let after = trimmed.strip_prefix(filler)?;
            let word = filler.ends_with(|c: char| c.is_ascii_alphabetic());
            let negative = matches!(*filler, "-" | "–" | "—") && !after.starts_with(' ');
            (!negative && (!word || !after.starts_with(|c: char| c.is_ascii_alphanumeric()))).then_some(after)
        });
        match found {
            Some(after) => left = after,
            None => return rest.len() - trimmed.len(),
        }
    }
}
