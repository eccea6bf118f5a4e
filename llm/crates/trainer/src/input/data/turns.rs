//! Conversations in a column: their turns in any of the usual spellings.

use serde_json::value::RawValue;

use super::cells::{is_on, scalar, short};
use crate::input::json::Fields;
use crate::input::prompt::Message;

/// A turn of a conversation.
pub(super) struct Turn {
    /// The name that templates use: one of the second names of [`ROLES`].
    role: &'static str,
    content: Option<Box<RawValue>>,
    ground_truth: Option<Box<RawValue>>,
    /// Fields other than its text.
    others: Fields,
}

/// Spellings of roles, with the name that chat templates know.
const ROLES: [(&str, &str); 9] = [
    ("system", "system"),
    ("developer", "developer"),
    ("user", "user"),
    ("human", "user"),
    ("assistant", "assistant"),
    ("gpt", "assistant"),
    ("model", "assistant"),
    ("bot", "assistant"),
    ("tool", "tool"),
];

/// Fields of a turn that a chat template may write into the prompt.
const NOT_READ: [&str; 7] =
    ["tool_calls", "tool_call_id", "function_call", "reasoning_content", "thinking", "images", "tools"];

pub(super) const ASSISTANT: &str = "assistant";

/// The turns of a column.
pub(super) fn turns(value: &RawValue, name: &str) -> Result<Vec<Turn>, String> {
    let wrong = || {
        let shown = short(value.get());
        format!(
            "{name} = {shown}: must be a list of turns, as in [{{\"role\": \"user\", \"content\": \"..\"}}]"
        )
    };
    let list: Vec<Fields> = serde_json::from_str(value.get()).map_err(|_| wrong())?;
    let turn = |mut others: Fields| {
        let mut take = |names: [&str; 2]| {
            let mut found = names.map(|name| others.remove(name).filter(|value| value.get() != "null"));
            if found.iter().all(Option::is_some) {
                let [first, second] = names;
                return Err(format!(
                    "{name}: a turn has both `{first}` and `{second}`; leave one of them out"
                ));
            }
            Ok(found.iter_mut().find_map(Option::take))
        };
        let role = take(["role", "from"])?.and_then(|role| scalar(&role)).ok_or_else(wrong)?;
        let content = take(["content", "value"])?;
        let ground_truth = others.remove("ground_truth").filter(|value| value.get() != "null");
        let known = ROLES.iter().find(|(spelling, _)| *spelling == role).map(|(_, role)| *role);
        let role = known.ok_or_else(|| {
            let roles = ROLES.map(|(spelling, _)| spelling).join(", ");
            format!("{name}: a turn of `{}`; the roles are {roles}", short(&role))
        })?;
        Ok(Turn { role, content, ground_truth, others })
    };
    list.into_iter().map(turn).collect()
}

/// True for a list of turns, whatever their roles.
pub(super) fn is_conversation(value: &RawValue) -> bool {
    let list: Result<Vec<Fields>, _> = serde_json::from_str(value.get());
    let has_role = |turn: &Fields| ["role", "from"].iter().any(|name| turn.contains_key(*name));
    list.is_ok_and(|list| !list.is_empty() && list.iter().all(has_role))
}

impl Turn {
    /// True if it is the assistant's and says something.
    pub(super) fn is_answer(&self) -> bool {
        self.role == ASSISTANT && self.content.as_ref().is_some_and(|text| is_on(text))
    }

    /// True if it is the assistant's and holds a reference, or says something.
    pub(super) fn is_reference(&self) -> bool {
        self.is_answer() || (self.role == ASSISTANT && self.ground_truth.is_some())
    }

    fn text(&self, name: &str) -> Result<String, String> {
        let value =
            self.content.as_ref().ok_or_else(|| format!("{name}: the turn of the {} is empty", self.role))?;
        scalar(value).ok_or_else(|| format!("{name} = {}: must be a text", short(value.get())))
    }

    /// The turn as it is asked.
    fn asked(&self, name: &str) -> Result<Message, String> {
        if let Some(field) =
            NOT_READ.iter().find(|field| self.others.get(**field).is_some_and(|value| is_on(value)))
        {
            return Err(format!(
                "{name}: a turn has `{field}`, which is not read; write it into the turn's text, or leave it out"
            ));
        }
        Ok(Message::new(self.role, &self.text(name)?))
    }
}

/// The names of the fields that say something and are not read, of the turns up to the last one of the user.
pub(super) fn unread(turns: &[Turn]) -> impl Iterator<Item = &str> {
    let asked = turns.iter().rposition(|turn| turn.role == "user").map_or(0, |last| last + 1);
    let others = turns[..asked].iter().flat_map(|turn| &turn.others);
    others.filter(|(_, value)| is_on(value)).map(|(name, _)| name.as_str())
}

/// The conversation up to the last turn of the user: the turns before it, and its text. What the assistant says after it must be read as the answer
/// or the solution, which `is_read` says.
pub(super) fn question(turns: &[Turn], name: &str, is_read: bool) -> Result<(Vec<Message>, String), String> {
    let last = turns.iter().rposition(|turn| turn.role == "user");
    let last = last.ok_or_else(|| format!("{name}: no turn of the user"))?;
    if !is_read
        && let Some(turn) =
            turns[last + 1..].iter().find(|turn| turn.content.as_ref().is_some_and(|text| is_on(text)))
    {
        return Err(format!(
            "{name}: ends in a turn of the {} with text, which a prompt does not go on from; leave that turn out",
            turn.role
        ));
    }
    let before = turns[..last].iter().map(|turn| turn.asked(name)).collect::<Result<_, _>>()?;
    Ok((before, turns[last].asked(name)?.content))
}

/// The assistant's last turn.
pub(super) fn last_answer<'a>(turns: &'a [Turn], name: &str) -> Result<&'a Turn, String> {
    turns
        .iter()
        .rfind(|turn| turn.role == ASSISTANT)
        .ok_or_else(|| format!("{name}: no turn of the {ASSISTANT}"))
}

/// The texts of the assistant's last turn: its reference, where it has one, else what it says.
pub(super) fn reference(turns: &[Turn], name: &str) -> Result<Box<RawValue>, String> {
    let turn = last_answer(turns, name)?;
    let truth = turn.ground_truth.as_ref().map(|truth| {
        let inner = serde_json::from_str::<Fields>(truth.get()).ok();
        inner.and_then(|mut fields| fields.remove("value")).unwrap_or_else(|| truth.clone())
    });
    truth.or_else(|| turn.content.clone()).ok_or_else(|| format!("{name}: the assistant says nothing"))
}

/// The text of the assistant's last turn.
pub(super) fn last_text(value: &RawValue, name: &str) -> Result<String, String> {
    last_answer(&turns(value, name)?, name)?.text(name)
}
