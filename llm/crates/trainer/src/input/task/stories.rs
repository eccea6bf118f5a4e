//! The stories: each turns a few random numbers into a text and the expression it asks for.
//!
//! A new story is a function and its line in [`STORIES`].

use grpo_lambda_decoder::rng::below;
use rand::Rng;

use super::expression::{Expression, Operator};

/// A word problem before its solution is computed.
pub struct StoryProblem {
    pub text: String,
    pub expression: Expression,
}

/// A story template: its name, and a function that writes a problem of a given number of steps. `None` means that the drawn numbers do not
/// fit; the caller draws again.
pub struct Story {
    pub name: &'static str,
    pub write: fn(&mut StoryRng<'_>, steps: usize) -> Option<StoryProblem>,
}

pub static STORIES: [Story; 6] = [
    Story { name: "collect", write: collect },
    Story { name: "boxes", write: boxes },
    Story { name: "shop", write: shop },
    Story { name: "share", write: share },
    Story { name: "compare", write: compare },
    Story { name: "earn", write: earn },
];

/// The random choices of a story.
pub struct StoryRng<'a> {
    rng: &'a mut dyn Rng,
    max_operand: u32,
}

const PEOPLE: [(&str, &str); 12] = [
    ("Ada", "She"),
    ("Ben", "He"),
    ("Cleo", "She"),
    ("Dan", "He"),
    ("Eva", "She"),
    ("Finn", "He"),
    ("Gia", "She"),
    ("Hugo", "He"),
    ("Ida", "She"),
    ("Jon", "He"),
    ("Kim", "She"),
    ("Leo", "He"),
];

const THINGS: [&str; 12] = [
    "apples", "books", "cards", "coins", "eggs", "marbles", "pears", "pens", "shells", "stamps", "stones",
    "toys",
];

impl<'a> StoryRng<'a> {
    pub fn new(rng: &'a mut dyn Rng, max_operand: u32) -> Self {
        StoryRng { rng, max_operand }
    }

    fn below(&mut self, n: usize) -> usize {
        below(&mut self.rng, n as u64) as usize
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// A number of things: 2 to the largest operand (never 1, so that every noun is plural).
    fn count(&mut self) -> i64 {
        self.between(2, i64::from(self.max_operand))
    }

    /// A number of times has one digit and is no more than the largest operand.
    fn largest_factor(&self) -> i64 {
        i64::from(self.max_operand.min(9))
    }

    /// A number of times, from 2.
    fn factor(&mut self) -> i64 {
        self.between(2, self.largest_factor())
    }

    pub fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 1
    }

    fn people<const N: usize>(&mut self) -> [(&'static str, &'static str); N] {
        let mut people = PEOPLE;
        std::array::from_fn(|i| {
            let j = i + self.below(people.len() - i);
            people.swap(i, j);
            people[i]
        })
    }

    fn things<const N: usize>(&mut self, except: &str) -> [&'static str; N] {
        let mut things: Vec<&str> = THINGS.into_iter().filter(|t| *t != except).collect();
        std::array::from_fn(|i| {
            let j = i + self.below(things.len() - i);
            things.swap(i, j);
            things[i]
        })
    }

    /// `n` changes up or down, each a sentence made by `gain` or `loss`; the amount never reaches 0.
    fn changes(
        &mut self,
        mut story: StoryProblem,
        n: usize,
        gain: impl Fn(&mut Self, i64) -> String,
        loss: impl Fn(&mut Self, i64) -> String,
    ) -> StoryProblem {
        for _ in 0..n {
            let now = story.expression.solve().0;
            let up = now < 3 || self.coin();
            let by =
                if up { self.count() } else { self.between(2, (now - 1).min(i64::from(self.max_operand))) };
            story.text += &if up { gain(self, by) } else { loss(self, by) };
            story.expression = story.expression.then(if up { Operator::Plus } else { Operator::Minus }, by);
        }
        story
    }
}

fn product(a: i64, b: i64) -> Expression {
    Expression::from(a).then(Operator::Times, b)
}

fn collection(
    draw: &mut StoryRng<'_>,
    changes: usize,
) -> (StoryProblem, (&'static str, &'static str), &'static str) {
    let [(name, pronoun), (other, _)] = draw.people();
    let [things] = draw.things("");
    let start = draw.count();
    let story = StoryProblem { text: format!("{name} has {start} {things}."), expression: start.into() };
    let story = draw.changes(
        story,
        changes,
        |draw, by| match draw.below(3) {
            0 => format!(" {pronoun} buys {by} more."),
            1 => format!(" {pronoun} finds {by} more."),
            _ => format!(" {other} gives {name} {by} more."),
        },
        |draw, by| match draw.below(3) {
            0 => format!(" {pronoun} gives {by} to {other}."),
            1 => format!(" {pronoun} loses {by}."),
            _ => format!(" {pronoun} sells {by}."),
        },
    );
    (story, (name, pronoun), things)
}

/// A number of things goes up and down.
fn collect(draw: &mut StoryRng<'_>, steps: usize) -> Option<StoryProblem> {
    let (mut story, (name, _), things) = collection(draw, steps);
    story.text += &format!(" How many {things} does {name} have now?");
    Some(story)
}

/// Changes as in [`collect`], then equal shares.
fn share(draw: &mut StoryRng<'_>, steps: usize) -> Option<StoryProblem> {
    let (mut story, (_, pronoun), _) = collection(draw, steps - 1);
    let total = story.expression.solve().0;
    let shares: Vec<i64> = (2..=draw.largest_factor()).filter(|&n| total % n == 0 && total != n).collect();
    if shares.is_empty() {
        return None;
    }
    let friends = shares[draw.below(shares.len())];
    story.text +=
        &format!(" {pronoun} shares them equally among {friends} friends. How many does each friend get?");
    story.expression = story.expression.then(Operator::Over, friends);
    Some(story)
}

/// Full boxes, then more and fewer.
fn boxes(draw: &mut StoryRng<'_>, steps: usize) -> Option<StoryProblem> {
    let [things] = draw.things("");
    let holder = draw.pick(&["bags", "boxes", "jars", "rows"]);
    let (holders, each) = (draw.factor(), draw.count());
    let story = StoryProblem {
        text: format!("There are {holders} {holder} with {each} {things} in each."),
        expression: product(holders, each),
    };
    let mut story = draw.changes(
        story,
        steps - 1,
        |draw, by| match draw.below(2) {
            0 => format!(" Then {by} more come in."),
            _ => format!(" Then {by} more are added."),
        },
        |draw, by| match draw.below(2) {
            0 => format!(" Then {by} are taken away."),
            _ => format!(" Then {by} are sold."),
        },
    );
    story.text += &format!(" How many {things} are there now?");
    Some(story)
}

/// A bill.
fn shop(draw: &mut StoryRng<'_>, steps: usize) -> Option<StoryProblem> {
    let [(name, pronoun)] = draw.people();
    let [things, others] = draw.things("coins");
    let (number, price) = (draw.factor(), draw.count());
    let mut text = format!("{name} buys {number} {things} for {price} coins each.");
    let mut expression = product(number, price);
    if steps >= 3 {
        let (number, price) = (draw.factor(), draw.count());
        text += &format!(" {pronoun} also buys {number} {others} for {price} coins each.");
        expression = expression.then(Operator::Plus, product(number, price));
    }
    let mut story = StoryProblem { text, expression };
    if steps.is_multiple_of(2) {
        story = draw.changes(
            story,
            1,
            |_, by| format!(" A bag costs {by} coins more."),
            |_, by| format!(" The shop takes {by} coins off."),
        );
    }
    story.text += &format!(" How many coins does {name} pay?");
    Some(story)
}

/// One has so many times as many as another.
fn compare(draw: &mut StoryRng<'_>, steps: usize) -> Option<StoryProblem> {
    let [(first, _), (second, _), (third, _)] = draw.people();
    let [things] = draw.things("");
    let (start, times, more) = (draw.count(), draw.factor(), draw.count());
    let mut text = format!("{first} has {start} {things}. {second} has {times} times as many as {first}.");
    let one = Expression::from(start);
    let two = one.clone().then(Operator::Times, times);
    if steps >= 3 {
        text += &format!(" {third} has {more} more than {second}.");
    }
    let three = two.clone().then(Operator::Plus, more);
    let (question, expression) = match steps {
        1 => (format!("How many {things} does {second} have?"), two),
        2 => (
            format!("How many {things} do {first} and {second} have together?"),
            one.then(Operator::Plus, two),
        ),
        3 => (
            format!("How many {things} do {first} and {third} have together?"),
            one.then(Operator::Plus, three),
        ),
        _ => (
            format!("How many {things} do all three have together?"),
            one.then(Operator::Plus, two).then(Operator::Plus, three),
        ),
    };
    Some(StoryProblem { text: format!("{text} {question}"), expression })
}

/// Wages, then spending.
fn earn(draw: &mut StoryRng<'_>, steps: usize) -> Option<StoryProblem> {
    let [(name, pronoun)] = draw.people();
    let (each, days) = (draw.count(), draw.factor());
    let mut text = format!("{name} earns {each} coins each day for {days} days.");
    let mut expression = product(each, days);
    let earned = each * days;
    let mut spent = 0;
    if steps >= 3 {
        let [things] = draw.things("coins");
        let (number, price) = (draw.factor(), draw.count());
        text += &format!(" {pronoun} buys {number} {things} for {price} coins each.");
        expression = expression.then(Operator::Minus, product(number, price));
        spent += number * price;
    }
    if steps.is_multiple_of(2) {
        let price = draw.count();
        text += &format!(" {pronoun} pays {price} coins for food.");
        expression = expression.then(Operator::Minus, price);
        spent += price;
    }
    text += &match spent {
        0 => " How many coins is that?".to_owned(),
        _ => format!(" How many coins does {name} have left?"),
    };
    (spent < earned).then_some(StoryProblem { text, expression })
}
