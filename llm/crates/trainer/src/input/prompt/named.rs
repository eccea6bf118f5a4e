//! The shipped templates.
//!
//! They follow understand-r1-zero's evaluation, as its text describes it, and open-r1. The parts on which a model or a grader depends are exact:
//! the ChatML marks and the sentence of Qwen2.5-Math's training, the tags and their order, `\boxed{}`, the prefilled `<think>`, the text that ends
//! a response. Words that only explain a conversation to a base model are our own, so scores differ from those under the original, which can
//! be given as a Jinja file.

use grpo_lambda_grade::Extraction;

use super::target::TargetStyle;

/// A problem and the response to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SolvedExample {
    pub problem: String,
    /// The response in the form that a model should write.
    pub response: String,
}

/// The text between examples in a template without turns.
pub(super) const BLANK_LINES: &str = "\n\n\n";

impl SolvedExample {
    /// Removes [`BLANK_LINES`] inside the response, which would announce the next problem.
    pub(super) fn without_blank_lines(mut self) -> SolvedExample {
        while self.response.contains(BLANK_LINES) {
            self.response = self.response.replace(BLANK_LINES, "\n\n");
        }
        self
    }
}

/// A shipped template.
#[derive(Clone, Copy, Debug)]
pub struct NamedTemplate {
    pub name: &'static str,
    /// Its description on one line.
    pub about: &'static str,
    /// True if it takes the chat template of the checkpoint.
    pub is_chat: bool,
    /// The default system prompt; `None` for a template without a place for one.
    pub system: Option<&'static str>,
    /// Texts that end a response.
    pub stop: &'static [&'static str],
    /// The place of the answer in a response.
    pub extraction: Extraction,
    pub(super) style: TargetStyle,
    /// The text before the first problem; `{system}` is filled in.
    pub head: &'static str,
    /// A problem; `{problem}` is filled in.
    pub turn: &'static str,
    /// The text between a response and the next problem.
    pub(super) turn_end: &'static str,
}

impl NamedTemplate {
    /// The prompt of a problem after solved examples, separated by at least a line break.
    pub(super) fn render(&self, system: Option<&str>, solved: &[SolvedExample], problem: &str) -> String {
        let mut text = self.head.replace("{system}", system.unwrap_or_default());
        for example in solved {
            self.push_turn(&mut text, &example.problem);
            let parted =
                text.ends_with(char::is_whitespace) || example.response.starts_with(char::is_whitespace);
            text += if parted { "" } else { "\n" };
            text += &example.response;
            text += self.turn_end;
        }
        self.push_turn(&mut text, problem);
        text
    }

    fn push_turn(&self, text: &mut String, problem: &str) {
        // A problem that holds `{problem}` itself stays as it is.
        let (before, after) = self.turn.split_once("{problem}").unwrap_or((self.turn, ""));
        text.extend([before, problem, after]);
    }
}

pub(super) fn listed() -> String {
    NAMED_TEMPLATES.iter().map(|n| n.name).collect::<Vec<_>>().join(", ")
}

/// The problem and nothing else.
const PLAIN: NamedTemplate = NamedTemplate {
    name: "no",
    about: "the problem and nothing else",
    is_chat: false,
    system: None,
    stop: &[],
    extraction: Extraction::Boxed,
    style: TargetStyle::BOXED,
    head: "",
    turn: "{problem}",
    turn_end: BLANK_LINES,
};

/// Every shipped template.
pub static NAMED_TEMPLATES: &[NamedTemplate] = &[
    PLAIN,
    NamedTemplate {
        name: "line",
        about: "the problem and a line break, as the embedded task has it",
        turn: "{problem}\n",
        ..PLAIN
    },
    NamedTemplate {
        name: "qwen_math",
        about: "what the chat template of Qwen2.5-Math makes of a problem, for any tokenizer",
        system: Some("Please reason step by step, and put your final answer within \\boxed{}."),
        head: "<|im_start|>system\n{system}<|im_end|>\n",
        turn: "<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n",
        turn_end: "<|im_end|>\n",
        ..PLAIN
    },
    NamedTemplate {
        name: "r1",
        about: "a conversation described to a base model, <think> prefilled, the answer in <answer> tags",
        stop: &["</answer>"],
        extraction: Extraction::Tag,
        style: TargetStyle::R1,
        head: "What follows is a conversation in which User asks and Assistant solves. Assistant first works the problem out in its mind \
               and then tells User the answer, and marks both: <think> the reasoning </think> <answer> the answer </answer>.\n",
        turn: "User: {problem}\nAssistant: <think>",
        turn_end: "\n",
        ..PLAIN
    },
    NamedTemplate {
        name: "open_reasoner",
        about: "as r1, with the answer boxed inside its tags",
        stop: &["</answer>"],
        extraction: Extraction::LenientTag,
        style: TargetStyle::OPEN_REASONER,
        head: "What follows is a conversation in which User asks and Assistant solves. Assistant first works the problem out in its mind \
               and then tells User the answer, and marks both: <think> the reasoning </think> <answer> the answer </answer>.\n",
        turn: "User: Write the answer as \\boxed{} inside <answer> </answer>; it is read from there. {problem}\nAssistant: <think>",
        turn_end: "\n",
        ..PLAIN
    },
    NamedTemplate {
        name: "open_r1",
        about: "the checkpoint's chat template with a system prompt for open-r1's layout of thought and answer",
        is_chat: true,
        system: Some(
            "You solve the user's problem. Think it through first, as if talking to yourself, and then give the answer, in exactly \
             this layout:\n<think>\n...\n</think>\n<answer>\n...\n</answer>",
        ),
        extraction: Extraction::LenientTag,
        style: TargetStyle::OPEN_R1,
        turn: "",
        turn_end: "",
        ..PLAIN
    },
];
