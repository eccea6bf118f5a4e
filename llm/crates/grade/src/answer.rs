//! One answer, read once and comparable with any number of others.

use super::budget::{Budget, LONGEST};
use super::fold::folded;
use super::kind::{Kind, is_infinite};
use super::lex::Spelling;
use super::node::Node;
use super::parse::{Reading, parse};
use super::rules::{Rule, Rules};
use super::units::Unit;
use super::verdict::{Reason, Verdict};
use super::{compare, integer, normal, parts, words};

/// An answer as text, with its readings as mathematics.
///
/// ```
/// use grpo_lambda_grade::Answer;
/// let half = Answer::read(r"\frac{1}{2}");
/// assert_eq!(half.compare(&Answer::read("0.5")).equal, Some(true));
/// assert_eq!(half.compare(&Answer::read("2^{-1} + x")).equal, Some(false));
/// ```
#[derive(Clone, Debug)]
pub struct Answer {
    /// The text without dollar signs, with single blanks.
    text: String,
    rules: Rules,
    /// Its canonical spelling if it is an integer.
    integer: Option<String>,
    /// Its words if it is nothing but words.
    words: Option<String>,
    choice: Option<Choice>,
    /// The ways to read it as mathematics; two if a comma can be read in two ways.
    readings: Result<Vec<Reading>, Reason>,
    /// Further ways, for the lenient rules.
    more: Vec<Reading>,
}

/// A letter that is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) letter: char,
    /// True if nothing stands after it.
    alone: bool,
}

const LISTED: Spelling = Spelling { thousands: false, ..Spelling::STRICT };
const WIDE: [Spelling; 3] =
    [Spelling::WIDE, Spelling { wide: true, ..LISTED }, Spelling { comma: true, wide: true, ..LISTED }];

impl Answer {
    /// Reads an answer that stands alone, the content of a box, for the strict rules.
    pub fn read(text: &str) -> Answer {
        Answer::read_by(text, Rules::STRICT)
    }

    /// Reads an answer that stands alone for comparisons by these rules.
    ///
    /// ```
    /// use grpo_lambda_grade::{Answer, Rules};
    /// let read = |text| Answer::read_by(text, Rules::LENIENT);
    /// let verdict = read("12345").compare(&read("12 345"));
    /// assert_eq!(verdict.to_string(), "equal by thousands");
    /// ```
    pub fn read_by(text: &str, rules: Rules) -> Answer {
        let currency = text.contains("\\$");
        let text = tidy(&folded(text));
        let text = parts::assigned(&text).unwrap_or(text);
        let integer = if currency { None } else { integer::canonical(&text) };
        if integer.is_some()
            && let Ok(n) = text.trim_start_matches('+').parse::<i64>()
        {
            let readings = Ok(vec![Reading::plain(Node::integer(n))]);
            return Answer { text, rules, integer, words: None, choice: None, readings, more: Vec::new() };
        }
        let mut readings = readings(&text);
        let mut more = more_readings(&text, rules, readings.as_deref().unwrap_or(&[]));
        if currency {
            readings.iter_mut().flatten().chain(&mut more).for_each(in_dollars);
        }
        let choice = choice(&text, readings.as_deref().unwrap_or(&[]));
        if rules.has(Rule::ChoiceText) && choice.is_some_and(|c| !c.alone) {
            more.extend(choice_text(&text));
        }
        let words = words_of(&text);
        if let Some(words) =
            words.as_ref().filter(|w| !rules.minus(Rules::STRICT).is_empty() && words::has_value(w))
        {
            more.push(Reading::plain(Node::Words(words.clone())));
        }
        Answer { words, rules, integer, choice, readings, more, text }
    }

    /// Compares two answers by the rules of this one. The order matters only to two lenient rules:
    /// [`Rule::BaseDropped`] and [`Rule::DecimalComma`] take this side for the reference.
    pub fn compare(&self, other: &Answer) -> Verdict {
        self.compare_by(other, self.rules)
    }

    /// Compares two answers by some of the rules of this one.
    pub(super) fn compare_by(&self, other: &Answer, rules: Rules) -> Verdict {
        Verdict { kinds: self.kind().zip(other.kind()), ..self.decide(other, rules) }
    }

    /// The kind of the first reading; `None` if there is none.
    fn kind(&self) -> Option<Kind> {
        match (&self.choice, &self.words, &self.readings) {
            (Some(_), ..) => Some(Kind::Choice),
            (_, Some(words), _) if words::is_date(words) => Some(Kind::Date),
            (_, Some(_), _) => Some(Kind::Word),
            (.., Ok(readings)) => readings.first().map(|reading| Kind::read(&reading.node)),
            _ => None,
        }
    }

    /// True for more than a number, a word or a name.
    pub(super) fn is_compound(&self) -> bool {
        let bare = self.words.is_some() || self.integer.is_some() || self.choice.is_some();
        !bare && self.readings.iter().flatten().all(|reading| normal::is_compound(&reading.node))
    }

    fn decide(&self, other: &Answer, rules: Rules) -> Verdict {
        if self.text.is_empty() || other.text.is_empty() {
            return Verdict::open(Reason::NoAnswer);
        }
        if self.text == other.text && self.kind() == other.kind() {
            return Verdict::decided(true, Rules::NONE);
        }
        if let (Some(a), Some(b)) = (&self.integer, &other.integer) {
            return Verdict::decided(a == b, Rules::NONE);
        }
        if let (Some(own), Some(others)) = (&self.words, &other.words) {
            let one = own == others && words::folds(&self.text, &other.text);
            if rules.has(Rule::Words) && (one || words::says_none(own) && words::says_none(others)) {
                return Verdict::decided(true, Rules::NONE.with(Rule::Words));
            }
            if rules.has(Rule::NumberWords) && self.same_names(other) {
                return Verdict::decided(true, Rules::NONE.with(Rule::Words).with(Rule::Unordered));
            }
        }
        if let (Some(a), Some(b)) = (self.choice, other.choice)
            && rules.has(Rule::Choice)
            && (a.alone || b.alone)
        {
            let used = if a.alone && b.alone { Rules::NONE } else { Rules::NONE.with(Rule::Choice) };
            return Verdict::decided(a.letter == b.letter, used);
        }
        let strict = rules.minus(rules.minus(Rules::STRICT));
        let first = self.by_readings(other, strict, false);
        if first.is_equal() || strict == rules {
            return first;
        }
        let second = self.by_readings(other, rules, true);
        // A strict verdict stands if the lenient rules cannot read.
        if second.equal.is_none() && first.equal.is_some() { first } else { second }
    }

    /// True if both are lists of the same names in any order.
    fn same_names(&self, other: &Answer) -> bool {
        let names = |answer: &Answer| {
            let text =
                without_text_commands(&answer.text).replace("\\text{", "").replace('}', "").to_lowercase();
            let mut names: Vec<String> =
                text.replace(" and ", ",").split([',', ';']).map(words::canonical).collect();
            names.retain(|name| !name.is_empty());
            names.sort();
            names
        };
        let own = names(self);
        own.len() > 1 && own == names(other)
    }

    /// The rules beyond the strict ones on which further readings rest.
    pub(super) fn leniencies(&self) -> Rules {
        self.more.iter().fold(Rules::NONE, |all, reading| all.and(reading.rules)).minus(Rules::STRICT)
    }

    /// True if a short response is this text and nothing else, in any case.
    pub(super) fn is_spelled(&self, response: &str) -> bool {
        let plain = |text: &str| {
            let text = tidy(&folded(text)).replace("\\text{", " ").replace('}', " ").to_lowercase();
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        // In mathematics a capital is another symbol.
        let own = plain(&self.text);
        let words = own.split(|c: char| !c.is_alphabetic()).any(|word| word.chars().count() >= 3);
        words && !own.contains(['\\', '^', '_', '=']) && own == plain(response)
    }

    fn by_readings(&self, other: &Answer, rules: Rules, lenient: bool) -> Verdict {
        let [own, others] = [self, other].map(|answer| answer.ways(rules, lenient));
        if !own.is_empty() && !others.is_empty() {
            return any_same(&own, &others, rules, is_decimal(&self.text));
        }
        // A text is no number, whatever it says.
        if self.words.is_some() || other.words.is_some() {
            return Verdict::decided(false, Rules::NONE);
        }
        let reason = [self, other].into_iter().find_map(|a| a.readings.clone().err());
        Verdict::open(reason.unwrap_or(Reason::NoAnswer))
    }

    /// The readings that rest on these rules only.
    fn ways(&self, rules: Rules, lenient: bool) -> Vec<&Reading> {
        let more = self.more.iter().filter(|_| lenient);
        self.readings.iter().flatten().chain(more).filter(|r| r.rules.minus(rules).is_empty()).collect()
    }
}

/// True if any reading of one is the same as any of the other.
fn any_same(own: &[&Reading], others: &[&Reading], rules: Rules, decimal: bool) -> Verdict {
    let mut budget = Budget::new(rules);
    let mut open = None;
    // A reference with a comma is a list unless its own spelling says that it is a decimal.
    let listed = !decimal && own.first().is_some_and(|first| matches!(first.node, Node::List(_)));
    for x in own.iter().filter(|x| !(listed && x.rules.has(Rule::DecimalComma))) {
        for y in others.iter().filter(|y| !are_ends(&x.node, y)) {
            budget.used = x.rules.and(y.rules);
            match compare::same(&x.node, &y.node, &mut budget) {
                Ok(true) if normal::is_evaluated(&y.node, &x.node) => {
                    return Verdict::decided(true, budget.used);
                }
                Ok(true) if rules.has(Rule::Evaluated) => {
                    return Verdict::decided(true, budget.used.with(Rule::Evaluated));
                }
                Ok(_) => {}
                Err(reason) => open = Some(reason),
            }
        }
    }
    open.map_or(Verdict::decided(false, Rules::NONE), Verdict::open)
}

/// True if `listed` joins two values by a word, or one of them is infinite, and `reference` is a pair in round
/// brackets: these are the ends of an open interval, or what else they are, but no pair.
fn are_ends(reference: &Node, listed: &Reading) -> bool {
    let (Node::Group('(', pair, ')'), Node::List(values)) = (reference, &listed.node) else { return false };
    let named = compare::names::assignments(&listed.node).is_some();
    pair.len() == 2 && !named && (listed.joined || values.iter().any(is_infinite))
}

/// True if the only comma of a text is a decimal sign and parts no list: between one digit and two, four or more.
fn is_decimal(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    text.trim_start_matches('-').split_once(',').is_some_and(|(whole, after)| {
        digits(whole) && digits(after) && whole.len() == 1 && !matches!(after.len(), 1 | 3)
    })
}

/// Removes dollar signs, the full stop of a sentence and double blanks.
pub(super) fn tidy(text: &str) -> String {
    let text = text.replace("\\$", "").replace('$', "");
    let mut out = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.ends_with(char::is_whitespace) {
        out.push(' ');
    }
    let end = out.trim_end().trim_end_matches(['.', '。']).trim_end().len();
    // Dots at the end of a number are part of it, and a backslash keeps its blank.
    let end = if out[end..].starts_with("...") { end + 3 } else { end };
    out.truncate(if out[..end].ends_with('\\') { (end + 1).min(out.len()) } else { end });
    out
}

fn readings(text: &str) -> Result<Vec<Reading>, Reason> {
    if text.len() > LONGEST {
        return Err(Reason::TooLarge(format!("an answer of {} bytes, more than {LONGEST}", text.len())));
    }
    // `5 March`, and `2024-03-05`, which is no difference.
    let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|b| b.is_ascii_digit());
    let bare = without_text_commands(text).trim_end_matches('}');
    let dashed = matches!(bare.split('-').collect::<Vec<_>>()[..],
        [year, month, day] if digits(year, 4) && digits(month, 2) && digits(day, 2));
    let date = words::canonical(bare);
    if dashed || !text.contains('\\') && date.contains(char::is_alphabetic) && words::is_date(&date) {
        return Ok(vec![Reading::plain(Node::Words(date))]);
    }
    let mut budget = Budget::new(Rules::STRICT);
    match parse(text, Spelling::STRICT, &mut budget) {
        Ok(reading) if !reading.two_ways => Ok(vec![reading]),
        Ok(reading) => Ok(std::iter::once(reading).chain(parse(text, LISTED, &mut budget).ok()).collect()),
        Err(reason) => parse(text, LISTED, &mut budget).map(|r| vec![r]).map_err(|_| reason),
    }
}

/// The further readings by the lenient rules, each once.
fn more_readings(text: &str, rules: Rules, known: &[Reading]) -> Vec<Reading> {
    let mut more: Vec<Reading> = Vec::new();
    let dated = matches!(known, [Reading { node: Node::Words(date), .. }] if words::is_date(date));
    if rules.minus(Rules::STRICT).is_empty() || text.len() > LONGEST || dated {
        return more;
    }
    let mut budget = Budget::new(rules);
    let comma = text.contains([',', '.']);
    for spelling in WIDE.into_iter().take(if comma { 3 } else { 1 }) {
        if let Ok(reading) = parse(text, spelling, &mut budget)
            && reading.rules.minus(rules).is_empty()
            && !known.iter().chain(&more).any(|r| r.node == reading.node)
        {
            more.push(reading);
        }
    }
    more
}

fn in_dollars(reading: &mut Reading) {
    let value = std::mem::replace(&mut reading.node, Node::Infinity);
    reading.node = match value {
        // `\$3.50 \text{ per hour}`
        Node::Unit(inner, Unit::Noun(words)) => Node::Unit(inner, Unit::Noun(format!("dollar {words}"))),
        Node::Unit(inner, Unit::Measure(rate)) if rate.starts_with('/') => {
            Node::Unit(inner, Unit::Noun(format!("dollar per {}", &rate[1..])))
        }
        unit @ Node::Unit(..) => unit,
        value => Node::Unit(Box::new(value), Unit::Measure("dollar".into())),
    };
}

/// The canonical spelling of a text that is nothing but words, at least one of them longer than a letter.
fn words_of(text: &str) -> Option<String> {
    if text.len() > LONGEST {
        return None;
    }
    let mut plain = text.replace("\\ ", " ").replace('~', " ");
    for command in ["\\text{", "\\mbox{", "\\textbf{", "\\mathrm{", "\\textit{", "\\operatorname{"] {
        plain = plain.replace(command, " ");
    }
    let marked = plain.len() != text.len();
    let allowed =
        |c: char| c.is_alphabetic() || c == ' ' || "',.-:;!?\"()".contains(c) || (marked && c == '}');
    let long = plain.split(|c: char| !c.is_alphabetic()).any(|w| w.chars().count() > 1);
    (long && plain.chars().all(allowed)).then(|| words::canonical(&plain))
}

/// Removes the text commands before the letter of a choice.
fn without_text_commands(text: &str) -> &str {
    let mut rest = text;
    for mark in ["\\text{", "\\textbf{", "\\mathrm{", "\\mathbf{", "{"] {
        rest = rest.strip_prefix(mark).unwrap_or(rest);
    }
    rest
}

/// `C`, `(C)`, `\text{(C)}`, and the letter before `(C) 12` or `C. 12`.
pub(super) fn choice(text: &str, readings: &[Reading]) -> Option<Choice> {
    let rest = without_text_commands(text);
    let named = ["Option ", "Choice ", "option ", "choice "].iter().find_map(|word| rest.strip_prefix(word));
    let rest = named.unwrap_or(rest);
    let bracket = rest.starts_with('(');
    let rest = rest.strip_prefix('(').unwrap_or(rest);
    let letter = rest.chars().next().filter(|c| c.is_ascii_alphabetic())?;
    let upper = letter.to_ascii_uppercase();
    if !('A'..='J').contains(&upper) || (!bracket && letter != upper) {
        return None;
    }
    let after = &rest[1..];
    let alone = matches!(readings, [Reading { node: Node::Symbol(name), .. }] if name.len() == 1)
        || named.is_some() && after.trim_matches([' ', '}', '.', ')']).is_empty();
    // `(A), (B) and (D)` is a list.
    let marks = if bracket { ")" } else { ").:" };
    let closed = after.starts_with(|c| marks.contains(c)) && !(bracket && after.starts_with("),"));
    (alone || closed && !names_another(&after[1..])).then_some(Choice { letter: upper, alone })
}

/// True if the text after a choice names one more: `or (B)`, `(B)(C)`, `B. C.`, `/(B)`.
fn names_another(text: &str) -> bool {
    let text = text.trim_start_matches(['}', ' ', '~']);
    let mark = |c: char| ('A'..='J').contains(&c);
    let first = without_text_commands(text).trim_start();
    let word = first.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    // `A: false, B: true`
    let judged = text.match_indices(": ").any(|(at, _)| {
        let mut before = text[..at].chars().rev();
        before.next().is_some_and(mark) && before.next().is_none_or(|c| !c.is_alphanumeric())
    });
    let begins = judged || first.starts_with(['/', '&']) || words::connective(word).is_some();
    let mut letters = first.chars();
    let listed = letters.next().is_some_and(mark) && letters.next().is_some_and(|c| ".):".contains(c));
    let bracketed = text.match_indices('(').any(|(at, _)| {
        let mut inside = text[at + 1..].chars();
        // `P(A)` is a probability.
        let is_argument = text[..at].ends_with(|c: char| c.is_alphanumeric());
        !is_argument && inside.next().is_some_and(mark) && inside.next() == Some(')')
    });
    begins || listed || bracketed
}

/// The text after the letter of a choice, as an answer of its own.
fn choice_text(text: &str) -> Option<Reading> {
    let (_, after) = without_text_commands(text).split_once([')', '.', ':'])?;
    let after = after.trim_start_matches(['}', ' ', '~']);
    let mut reading = parse(after, Spelling::STRICT, &mut Budget::new(Rules::STRICT)).ok()?;
    reading.rules = reading.rules.with(Rule::ChoiceText);
    Some(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_at_most_so_many_bytes() {
        let too_long = |bytes: usize| {
            let found = readings(&"x".repeat(bytes)).err();
            found.is_some_and(|reason| reason.to_string().contains("an answer of"))
        };
        let text = |bytes: usize| words_of(&"a".repeat(bytes)).is_some();
        assert!(!too_long(LONGEST) && too_long(LONGEST + 1) && too_long(LONGEST + 2));
        assert!(text(LONGEST) && !text(LONGEST + 1) && !text(LONGEST + 2));

        let more = |bytes: usize, rules: Rules| more_readings(&"x".repeat(bytes), rules, &[]).len();
        assert_eq!(more(3, Rules::STRICT), 0);
        assert_eq!((more(3, Rules::LENIENT), more(LONGEST, Rules::LENIENT)), (1, 1));
        assert_eq!((more(LONGEST + 1, Rules::LENIENT), more(LONGEST + 2, Rules::LENIENT)), (0, 0));
    }
}
