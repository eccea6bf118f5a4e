//! The part of each value in its clause: a reader of function words, marks and values.

use std::ops::Range;

use super::chain::{Formula, Kind};
use super::language::{Language, Role};
use crate::words::{self, is_among};

/// The standing of a value in its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// No value of the statement.
    None,
    /// A symbol, or a value that is known.
    Known,
    /// After a preposition.
    Circumstance,
    /// After the verb, new.
    New,
    /// The end of a computation, after a preposition.
    ComputedAside,
    /// The end of a computation.
    Computed,
}

/// A piece of a sentence.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// In lower case.
    Word(String),
    Value(Stated),
    /// A comma, semicolon, colon or dash.
    Mark(char),
}

/// A value with what stands around it.
#[derive(Clone, Debug)]
pub(super) struct Stated {
    pub(super) formula: Formula,
    pub(super) rank: Rank,
    /// The place with the delimiters.
    pub(super) outer: Range<usize>,
    /// A comma ends the formula between its delimiters.
    pub(super) comma: bool,
}

/// Verbs after "which" and "that" that go on with the statement.
const CONTINUES: &str = "means|gives|is|are|equals|makes|leaves|implies|simplifies|rounds|evaluates|has|\
    have|reduces|solves|results|yields|produces|leads";
/// Verbs that make of "which" a conclusion.
const CONCLUDES: &str = "means|gives|makes|leaves|yields|simplifies|reduces|becomes|leads|results";
/// Words whose "of" names what is not stated: `a multiple of 6`, `instead of 6`.
const PROPERTY: &str =
    "multiple|multiples|divisor|divisors|divisible|instead|lieu|lugar|moins|plus|más|menos";
/// Verbs of what is still to be done with cases: `There are 4 cases to consider`.
const PLANS: &str = "consider|examine|distinguish|analyze|analyse";
/// Words between a condition and its statement.
const THEN: &str = "then|alors|dann|entonces|那么";
/// Words that open a condition only at the beginning of a clause.
const OPENING: &str = "given|let|consider|take|suppose|assume|assuming|provided|define|denote";

/// The clause that is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum In {
    #[default]
    Statement,
    /// A reason: no value of it counts.
    Reason,
    /// A condition before its statement.
    Condition,
    /// The words that say more of a statement before them, or its purpose: only the end of a computation counts.
    More,
}

/// The reader of a sentence.
#[derive(Default)]
struct Reader {
    out: Vec<Stated>,
    /// Values before the last contrast or conclusion.
    dropped: usize,
    /// Values before the last comma.
    recent: usize,
    clause: In,
    /// Values of a condition in the middle of its statement: `the remainder when N is divided by 7 is 3`.
    embedded: Option<usize>,
    /// After a verb that asks.
    asks: bool,
    /// In a participle that begins the sentence: `Subtracting 3 from both sides, we`.
    participle: bool,
    /// The sentence begins with a word that bears a number.
    heading: bool,
    /// Right after a colon.
    colon: bool,
    /// After the first end of a range: `from 7 to 5`.
    ranges: bool,
    /// After a verb of arithmetic that is still to be done.
    steps: bool,
    /// After an equals sign among words.
    equals: bool,
    denied: bool,
    /// Only auxiliaries and relative pronouns stand after the last value: `45, which is`.
    about: bool,
    /// Conditions that begin a clause since the last conclusion: several leave no single value.
    cases: usize,
    /// The last of them is one of time.
    when: bool,
    /// The function word just before, across fillers.
    before: Option<Role>,
    /// Right after a definite article: `from the original 12`.
    definite: bool,
    /// Words left in which "of" follows a noun with the indefinite article.
    new_noun: u8,
    last_word: String,
    /// Words since the last value or mark.
    distance: usize,
    /// The rank of a value right before a connective.
    inherited: Option<Rank>,
}

impl Reader {
    fn stated(&self, from: usize) -> bool {
        self.out[from.max(self.dropped)..].iter().any(|s| s.rank >= Rank::New)
    }

    /// True where a verb that follows would ask.
    fn wishes(&self, language: &Language) -> bool {
        let before = self.last_word.as_str();
        before.is_empty() || language.is(before, Role::Wish) || language.is(before, Role::So)
    }

    /// Reads a word after the last value that may deny it: `x = 6 is not a solution`, `45, which is impossible`.
    fn judge(&mut self, word: &str, role: Option<Role>, language: &Language) {
        let denies = role == Some(Role::Deny) || word == "no";
        let after = match self.distance {
            0 => denies && word.contains("n't"),
            1 => language.is(word, Role::Wrong) || denies && language.is(&self.last_word, Role::Auxiliary),
            _ => language.is(word, Role::Wrong),
        };
        if let (true, Some(last)) = (self.about && after, self.out.last_mut()) {
            last.rank = Rank::None;
        }
        let between = matches!(role, Some(Role::Relative | Role::Indefinite | Role::Filler));
        self.about &= between || language.is(word, Role::Auxiliary);
    }

    fn mark(&mut self, mark: char) {
        self.colon = matches!(mark, ':' | '：');
        self.about &= !self.colon;
        // `Step 3 of 4:`
        if self.colon && self.heading {
            self.out.iter_mut().for_each(|value| value.rank = Rank::None);
        }
        if matches!(mark, '=' | '≈') {
            self.equals = true;
            self.clause = if self.clause == In::Reason { In::Reason } else { In::Statement };
        } else if !(self.colon && (self.asks || is_among(&self.last_word, OPENING)) && self.out.is_empty()) {
            // A colon goes on with what is asked or given: `Simplify: 18/24`, `Given: the area is 8`.
            (self.recent, self.asks, self.steps, self.clause) = (self.out.len(), false, false, In::Statement);
        }
        (self.before, self.denied, self.distance) = (None, false, 0);
        self.last_word.clear();
    }

    /// The part that a word has here.
    fn role(&self, word: &str, next: Option<&Item>, language: &Language) -> Option<Role> {
        let last = self.last_word.as_str();
        let (next, formula) = match next {
            Some(Item::Word(next)) => (next.as_str(), None),
            Some(Item::Value(value)) => ("", Some(&value.formula)),
            _ => ("", None),
        };
        match language.role(word) {
            // `is at least 12` bounds a value, `needs at least 12` states it.
            _ if word == "at" && is_among(next, "least|most") => {
                (last.is_empty() || language.is(last, Role::Copula)).then_some(Role::Deny)
            }
            _ if last == "at" && is_among(word, "least|most") => Some(Role::Filler),
            // `For n = 1 the claim holds`
            Some(Role::Preposition)
                if formula.is_some_and(|f| f.assigns) && self.out.is_empty() && last.is_empty() =>
            {
                Some(Role::Compare)
            }
            Some(Role::Preposition) if is_among(last, PROPERTY) => Some(Role::Compare),
            // `This is equal to 16`
            _ if word == "equal" && next == "to" => Some(Role::Copula),
            Some(Role::Preposition) if last == "equal" => Some(Role::Filler),
            Some(Role::Contrast) if next == "of" => None,
            // `the value asked for is 5`
            Some(Role::Ask) if word == "asked" && next == "for" => None,
            // `It may be 14`
            _ if next == "be" && is_among(word, "may|might|could") => Some(Role::Deny),
            // `As n^2 = 4, n is 2`, `as n grows`, but not `factors as n(n + 1)`
            _ if word == "as" && formula.is_some_and(|f| last.is_empty() || f.kind == Kind::Name) => {
                Some(Role::Condition)
            }
            // `after giving 6 away` concludes nothing.
            Some(Role::So) if self.before == Some(Role::Preposition) && word.ends_with("ing") => None,
            // `which makes 15`
            Some(Role::Relative) if is_among(next, CONCLUDES) => Some(Role::So),
            // `there are 5` counts and says of nothing that it is 5.
            Some(Role::Copula) if last == "there" => None,
            role => role,
        }
    }

    fn word(&mut self, word: &str, next: Option<&Item>, language: &Language) {
        let next_word = if let Some(Item::Word(next)) = next { next.as_str() } else { "" };
        let continues = is_among(next_word, CONTINUES);
        if self.participle && (is_among(word, CONTINUES) || language.role(word) == Some(Role::Subject)) {
            (self.participle, self.clause) = (false, In::Statement);
        }
        let role = self.role(word, next, language);
        match role {
            // `and since n is even, it is 8`
            Some(Role::Reason) if is_among(&self.last_word, "and|but") => self.clause = In::Condition,
            Some(Role::Reason) => self.clause = In::Reason,
            // `It is not true that the sum is 18`
            Some(Role::Relative) if self.denied && word == "that" => self.clause = In::Reason,
            Some(Role::Condition) if self.last_word.is_empty() || !is_among(word, OPENING) => {
                self.suppose(word)
            }
            Some(Role::Relative)
                if (self.distance < 2 || matches!(word, "who" | "whose"))
                    && (!continues || word == "that")
                    && self.stated(if word == "that" { self.recent } else { 0 }) =>
            {
                self.clause = In::More;
            }
            // `Find x such that x + 6 = 10`
            Some(Role::Relative) if self.asks => self.asks = self.last_word == "such",
            Some(Role::Contrast | Role::So) => {
                self.dropped = self.out.len();
                self.cases *= usize::from(is_among(word, THEN));
                (self.clause, self.asks, self.equals, self.denied) = (In::Statement, false, false, false);
                (self.before, self.new_noun) = (None, 0);
            }
            Some(Role::Ask) => self.asks |= self.wishes(language) || language.is(word, Role::Wish),
            _ if word == "work" && next_word == "out" => self.asks = true,
            Some(Role::Do) => self.steps |= self.wishes(language),
            // `to be solved`, `the task of solving`
            Some(Role::Solved) if self.before == Some(Role::Preposition) => self.asks = true,
            Some(Role::Deny) => self.denied = true,
            _ => {}
        }
        // `to make 16 muffins` after a value
        if word == "to" && self.stated(self.recent) {
            self.clause = In::More;
        }
        // `to multiply 3 by 4 gives`
        self.steps &= !is_among(word, CONTINUES) && word != "get";
        self.judge(word, role, language);
        self.place(word, role, matches!(next, Some(Item::Value(_))));
        self.colon = false;
        // `Il faut maintenant résoudre`
        if role != Some(Role::Filler) {
            self.last_word = word.to_owned();
        }
        self.distance += 1;
    }

    /// Begins a condition with the word.
    fn suppose(&mut self, word: &str) {
        self.cases += usize::from(self.last_word.is_empty());
        self.when = word == "when";
        // `If k = 2, it is 8; if k = 3, it is 27`
        if self.cases > 1 {
            self.out[self.dropped..].iter_mut().for_each(|value| value.rank = Rank::None);
        }
        self.clause = if self.stated(0) { In::More } else { In::Condition };
        self.embedded = (!self.last_word.is_empty()).then_some(0);
    }

    /// Notes the word as what stands before the next value.
    fn place(&mut self, word: &str, role: Option<Role>, object: bool) {
        self.new_noun = if role == Some(Role::Indefinite) { 4 } else { self.new_noun.saturating_sub(1) };
        let connective = words::connective(word).is_some() && self.distance == 0;
        self.inherited = self.inherited.filter(|_| connective);
        // `of the original 12`, `after giving 6 away`
        let passed = self.definite || word.ends_with("ing");
        let aside = self.before == Some(Role::Preposition)
            && (role == Some(Role::Definite) || role.is_none() && passed);
        self.definite = role == Some(Role::Definite);
        if word == "of" && self.new_noun > 0 && role != Some(Role::Compare) {
            self.before = None;
            self.equals |= is_among(&self.last_word, "total|sum");
        } else if !(aside || role == Some(Role::Filler) && self.before.is_some()) {
            self.before = role;
        }
        // `not 2`, `not at the 2`, `not get 2`, but not `not hard: 2`
        self.denied &= role.is_some() || object;
    }

    fn value(&mut self, value: &Stated, after: &[Item], language: &Language) {
        let formula = &value.formula;
        let formal = formula.assigns || formula.value.is_some();
        let said = self.before == Some(Role::Copula);
        let computed = formula.kind == Kind::Result || self.equals;
        // `9 more than Beth`
        let words =
            after.iter().map_while(|item| if let Item::Word(word) = item { Some(word) } else { None });
        let measures = words.clone().take(3).any(|word| language.is(word, Role::Compare));
        // `100% sure`, `4 different cases to consider`, `two ways to approach this`
        let next: Vec<&str> = words.take(5).map(String::as_str).collect();
        let solves = |three: &[&str]| matches!(three, ["to", "approach" | "tackle" | "solve", "this" | "it"]);
        let planned = next.first().is_some_and(|word| is_among(word, "sure|certain|confident"))
            || next.windows(2).any(|pair| pair[0] == "to" && is_among(pair[1], PLANS))
            || next.windows(3).any(solves);
        // `6 of whom are children`, `1/2 of the 8`
        let part = match after {
            [Item::Word(of), Item::Word(whom), ..] => of == "of" && is_among(whom, "whom|which"),
            [Item::Word(of), Item::Value(_), ..] => of == "of",
            _ => false,
        };
        // `by day 5`
        let numbered = self.before == Some(Role::Label);
        let aside = self.before == Some(Role::Preposition) || part || (numbered || measures) && !computed;
        let ends_range = std::mem::take(&mut self.ranges) && self.last_word == "to";
        self.ranges = self.last_word == "from";
        let known = formula.kind == Kind::Name || self.before == Some(Role::Definite) && !computed;
        let rank = match self.clause {
            _ if self.denied || self.cases > 1 || self.before == Some(Role::Compare) => Rank::None,
            _ if (self.asks || self.steps || planned) && !computed => Rank::None,
            In::Condition if said && self.embedded.is_some_and(|values| values > 1) => Rank::New,
            In::Condition if computed => Rank::Circumstance,
            In::More if computed => Rank::ComputedAside,
            In::Reason | In::Condition | In::More => Rank::None,
            In::Statement if known || ends_range || self.ranges => Rank::Known,
            // `That makes 3 a day: 21 a week.`
            In::Statement if self.colon => Rank::Computed,
            In::Statement if (computed || formal || said) && !aside => Rank::Computed,
            In::Statement if computed => Rank::ComputedAside,
            In::Statement if aside => Rank::Circumstance,
            In::Statement => Rank::New,
        };
        // `If x = 2, then x^2 = 4` states nothing of a text that does not know x; `when x = 2` does.
        let supposed = self.clause == In::Condition && !self.when && !self.participle;
        self.cases += usize::from(supposed && formula.assigns);
        // An equation whose unknown is asked for afterwards is none either.
        if self.asks && formula.kind == Kind::Name {
            self.out.iter_mut().filter(|s| s.formula.equation).for_each(|s| s.rank = Rank::None);
        }
        let rank = self.inherited.map_or(rank, |before| rank.min(before));
        self.embedded = self.embedded.map(|values| values + 1);
        self.out.push(Stated { rank, ..value.clone() });
        self.inherited = Some(rank).filter(|rank| *rank == Rank::Circumstance);
        (self.before, self.denied, self.equals, self.distance) = (None, false, false, 0);
        self.last_word.clear();
        (self.colon, self.about) = (false, true);
    }
}

/// Ranks the values of a sentence; a contrast or a conclusion takes back what stands before it.
pub(super) fn ranked(items: &[Item], language: &Language) -> Vec<Stated> {
    let first = if let Some(Item::Word(word)) = items.first() { word.as_str() } else { "" };
    let (participle, heading) = (first.ends_with("ing"), language.is(first, Role::Label));
    let clause = if participle { In::Condition } else { In::Statement };
    let mut reader = Reader { clause, participle, heading, ..Reader::default() };
    for (i, item) in items.iter().enumerate() {
        match item {
            Item::Mark(mark) => reader.mark(*mark),
            Item::Word(word) => reader.word(word, items.get(i + 1), language),
            Item::Value(value) => reader.value(value, &items[i + 1..], language),
        }
    }
    let Reader { mut out, dropped, .. } = reader;
    // After a contrast or conclusion without a value the statement before it stands.
    if out[dropped..].iter().any(|s| s.rank >= Rank::Circumstance) { out.split_off(dropped) } else { out }
}
