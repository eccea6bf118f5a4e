//! Tasks: embedded arithmetic word problems with worked solutions, unlimited in number, or the rows of a data set.
//!
//! ```
//! use grpo_lambda_trainer::input::task::{Level, Split, Task};
//! let task = Task::Stories(vec![Level { steps: 2, max_operand: 20 }]);
//! let problem = task.problem(0, Split::Train, 5);
//! println!("{}{}", problem.prompt, problem.solution);
//! assert_eq!(problem, task.problem(0, Split::Train, 5));
//! ```
//!
//! Problem `index` of a split and level is a pure function of `(seed, split, level, index)`. A hash of its story and expression (operands and
//! operations, not names and things) decides a problem's split, so a held-out problem cannot appear in training under any seed, level or dressing.
//! Within a split problems may repeat, easy ones often; [`Task::distinct`] leaves repetitions out.

mod expression;
mod source;
#[doc(hidden)]
pub mod stories;

pub use expression::{Expression, Operator, SolutionStep};
pub use source::{AnswerReading, DatasetTask, LengthFilter, TaskSource};

use std::collections::BTreeMap;

use grpo_lambda_decoder::rng::{Address, Purpose, below};
use grpo_lambda_grade::{Extraction, Gold};
use stories::{STORIES, Story, StoryRng};

use crate::input::prompt::RenderedPrompt;
use crate::input::tokens::{ModelTokenizer, TextTokens, TokenError};

/// Parts of the problem space that share no problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Split {
    /// For supervised and reinforcement learning: eight tenths of all problems.
    Train,
    /// For monitoring a run: one tenth.
    Validation,
    /// For the accuracy that is reported: one tenth.
    Test,
}

impl Split {
    pub const ALL: [Split; 3] = [Split::Train, Split::Validation, Split::Test];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Split::Train => "train",
            Split::Validation => "validation",
            Split::Test => "test",
        }
    }

    /// The split a canonical problem belongs to: FNV-1a of its spelling, mixed, modulo 10.
    pub fn from_canonical(canonical: &str) -> Split {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for byte in canonical.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        match (hash >> 32) % 10 {
            0 => Split::Test,
            1 => Split::Validation,
            _ => Split::Train,
        }
    }
}

/// The difficulty of a word problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level {
    /// Lines of the worked solution, 1 to [`Level::MAX_STEPS`].
    pub steps: usize,
    /// Largest number in the problem, 3 to [`Level::MAX_OPERAND`]. Numbers of times never exceed 9.
    pub max_operand: u32,
}

impl Level {
    /// Most steps a story can have.
    pub const MAX_STEPS: usize = 4;
    /// Smallest useful [`Level::max_operand`].
    pub const MIN_OPERAND: u32 = 3;
    /// Largest number a story can have.
    pub const MAX_OPERAND: u32 = 999;
}

/// A problem with its solution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The prompt; in the embedded task it ends with a line break.
    pub prompt: String,
    /// True if the tokenizer puts its special tokens around the prompt.
    pub special_tokens: bool,
    /// A worked solution to imitate; in the embedded task one line per step, then `\boxed{answer}`.
    pub solution: String,
    /// The answer alone, without worked steps.
    pub answer_only: String,
    pub gold: Gold,
    /// The place of the answer in a response.
    pub extraction: Extraction,
    /// The expression to compute; `None` for a data set's row.
    pub expression: Option<Expression>,
    /// Story and expression: two problems with the same canonical spelling differ in names and things only. Of a data set, the problem as published.
    pub canonical: String,
    /// The columns of a data set's row that are not asked.
    pub others: BTreeMap<String, serde_json::Value>,
}

impl Problem {
    fn new(name: &str, text: &str, expression: Expression) -> Problem {
        let (value, steps) = expression.solve();
        let lines: String = steps.iter().map(|step| format!("{step}\n")).collect();
        Problem {
            prompt: format!("{text}\n"),
            special_tokens: true,
            solution: format!("{lines}\\boxed{{{value}}}"),
            answer_only: format!("\\boxed{{{value}}}"),
            gold: Gold::from(value),
            extraction: Extraction::Boxed,
            canonical: format!("{name} {expression}"),
            expression: Some(expression),
            others: BTreeMap::new(),
        }
    }

    /// The problem for people: a data set's row as published, an embedded one as it is asked.
    pub fn text(&self) -> &str {
        if self.expression.is_some() { self.prompt.trim_end() } else { &self.canonical }
    }

    /// This problem with its answer on the line below it, as a teacher reads it; `None` if its prompt does not hold its text as it stands.
    pub fn answered(&self) -> Option<Problem> {
        let (before, after) = self.prompt.rsplit_once(self.text())?;
        Some(Problem {
            prompt: format!("{before}{}\n{}{after}", self.text(), self.answer_only),
            ..self.clone()
        })
    }

    /// The answer alone, in its box or tags, without worked steps.
    pub fn answer_only(&self) -> &str {
        &self.answer_only
    }

    /// Number of steps of the solution; 0 where it is not known.
    pub fn steps(&self) -> usize {
        self.expression.as_ref().map_or(0, |e| e.solve().1.len())
    }

    /// The prompt as token ids.
    pub fn encode(&self, tokens: &ModelTokenizer) -> Result<TextTokens, TokenError> {
        tokens.rendered(&RenderedPrompt { text: self.prompt.clone(), special_tokens: self.special_tokens })
    }
}

/// A source of problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Sums of two digits, `3+5=?`. There are a hundred of them, so nothing is held out and every split draws from all: for tests.
    Addition,
    /// Word problems. Problem `i` has level `i` modulo their number, so that levels are equally frequent.
    Stories(Vec<Level>),
}

impl Task {
    /// True if splits share no problem.
    pub fn holds_out(&self) -> bool {
        matches!(self, Task::Stories(_))
    }

    /// Problem `index` of `split` under `seed`.
    ///
    /// # Panics
    /// If there is no level, or one outside its bounds.
    pub fn problem(&self, seed: u64, split: Split, index: u64) -> Problem {
        let address = Address::new(seed, Purpose::Problems).prompt(split as u64);
        match self {
            Task::Addition => {
                let mut rng = address.response(index).generator(0);
                let pair = below(&mut rng, 100) as i64;
                let (a, b) = (pair / 10, pair % 10);
                let sum = Expression::from(a).then(Operator::Plus, b);
                let solution = format!("\\boxed{{{}}}", a + b);
                Problem { solution, ..Problem::new("addition", &format!("{a}+{b}=?"), sum) }
            }
            Task::Stories(levels) => {
                assert!(!levels.is_empty(), "a task needs a level");
                let level = levels[(index % levels.len() as u64) as usize];
                story(address, split, level, index / levels.len() as u64)
            }
        }
    }
}

impl Task {
    /// The first `n` problems of a split, all different in story and expression, or fewer if the split has fewer.
    pub fn distinct(&self, seed: u64, split: Split, n: usize) -> Vec<Problem> {
        let mut seen = std::collections::HashSet::new();
        let mut found = Vec::new();
        for index in 0.. {
            // After this many repetitions no further problem is expected.
            if found.len() == n || index >= 50 * found.len() + 1000 {
                break;
            }
            let problem = self.problem(seed, split, index as u64);
            if seen.insert(problem.canonical.clone()) {
                found.push(problem);
            }
        }
        found
    }
}

/// Problem `index` of `split` at one level.
fn story(address: Address, split: Split, level: Level, index: u64) -> Problem {
    let Level { steps, max_operand } = level;
    assert!((1..=Level::MAX_STEPS).contains(&steps), "{steps} steps are not in 1..={}", Level::MAX_STEPS);
    assert!(
        (Level::MIN_OPERAND..=Level::MAX_OPERAND).contains(&max_operand),
        "operand {max_operand} is not in {}..={}",
        Level::MIN_OPERAND,
        Level::MAX_OPERAND
    );
    let code = (steps as u64) << 32 | u64::from(max_operand);
    let mut rng = address.step(code).response(index).generator(0);
    // Every pass draws afresh from one stream; about one in ten of the rarest split is kept, so a few thousand
    // passes without success mean that this level has no problem in this split.
    for _ in 0..100_000 {
        let mut draw = StoryRng::new(&mut rng, max_operand);
        let Story { name, write } = draw.pick(&STORIES.each_ref());
        // Numbers that do not work out are drawn again for the same story, or stories that often fail would be rare.
        let Some(drawn) = (0..20).find_map(|_| write(&mut draw, steps)) else { continue };
        let problem = Problem::new(name, &drawn.text, drawn.expression);
        // A problem has fewer steps if it asks for the same product twice.
        if problem.steps() == steps && Split::from_canonical(&problem.canonical) == split {
            return problem;
        }
    }
    panic!("{level:?} has no problem in the {} split", split.name())
}
