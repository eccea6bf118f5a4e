//! The fields of a line: which there are, and what each must hold.

use super::values::{LIST, LISTS, items, number, numbers, wrong};
use super::{Line, extra_inputs};
use crate::failure::quoted;
use crate::json::{self, Json};
use grpo_lambda::check::BatchError;
use grpo_lambda::group::{ExtraInputs, Group, InputKind, Response};
use grpo_lambda::padded;
use grpo_lambda::settings::did_you_mean;
use serde_json::Value;

const REQUIRED: [&str; 3] = ["rewards", "logps", "old_logps"];

/// Every field of a line, in the order of messages. What a response may carry besides is declared with [`ExtraInputs`].
fn known() -> Vec<&'static str> {
    let before = ["id", "rewards", "logps", "old_logps", "ref_logps"];
    let after = ["tokens", "truncated", "advantages", "mask"];
    before.into_iter().chain(ExtraInputs::KINDS.map(InputKind::name)).chain(after).collect()
}

/// Names of the fields in TRL and verl.
const OTHERS: [(&str, &str); 13] = [
    ("per_token_logps", "logps"),
    ("log_prob", "logps"),
    ("log_probs", "logps"),
    ("old_per_token_logps", "old_logps"),
    ("old_log_prob", "old_logps"),
    ("old_log_probs", "old_logps"),
    ("ref_per_token_logps", "ref_logps"),
    ("ref_log_prob", "ref_logps"),
    ("completion_mask", "mask"),
    ("response_mask", "mask"),
    ("sampling_per_token_logps", "sampler_logps"),
    ("rollout_log_probs", "sampler_logps"),
    ("token_level_rewards", "rewards"),
];

type Lists = Vec<Vec<f64>>;
type Masks = Option<Vec<Vec<bool>>>;

const WHOLE_OBJECT: &str = "each line must be one whole JSON object with rewards, logps and old_logps";

/// The fields of a line that are not yet taken.
pub(super) struct Fields(Vec<(String, Json)>);

impl Fields {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let entries = match json::parse(text) {
            Ok(Json::Object(entries)) => entries,
            Ok(other) => return Err(format!("the line is {other}; {WHOLE_OBJECT}")),
            Err(what) if what.ends_with("number out of range") => {
                return Err(format!("{what}; numbers must fit a 64-bit float"));
            }
            Err(what) => return Err(format!("{what}; {WHOLE_OBJECT}")),
        };
        let known = known();
        for (i, (key, _)) in entries.iter().enumerate() {
            if !known.contains(&key.as_str()) {
                let ours = OTHERS.iter().find(|(theirs, _)| theirs == key).map(|(_, ours)| *ours);
                let hint = match ours {
                    _ if key == "tool_mask" => {
                        " (here it is a factor of `mask`: completion_mask times tool_mask)".to_owned()
                    }
                    Some(ours) => format!(" (here it is `{ours}`)"),
                    None => did_you_mean(key, known.iter().copied()),
                };
                return Err(format!(
                    "{}: unknown field{hint}; the fields are {}",
                    quoted(key),
                    known.join(", ")
                ));
            }
            if entries[..i].iter().any(|(earlier, _)| earlier == key) {
                return Err(format!("{key}: given twice; each field may appear once"));
            }
        }
        Ok(Fields(entries))
    }

    /// The field, where it is present and not null.
    pub(super) fn take(&mut self, field: &'static str) -> Option<Json> {
        let place = self.0.iter().position(|(key, _)| key == field)?;
        Some(self.0.swap_remove(place).1).filter(|value| *value != Json::Null)
    }

    fn require(&mut self, field: &'static str) -> Result<Json, String> {
        self.take(field).ok_or_else(|| format!("{field}: missing; every line needs {}", REQUIRED.join(", ")))
    }

    /// A list with one entry per response.
    pub(super) fn per_response(
        &mut self,
        field: &'static str,
        responses: usize,
        value: Json,
        right: &str,
    ) -> Result<Vec<Json>, String> {
        let items = items(field, value, right)?;
        if items.len() != responses {
            let error = BatchError::Count { field, found: items.len(), expected: responses };
            return Err(error.to_string());
        }
        Ok(items)
    }

    /// A list of numbers per response, of which those in masked slots are not read.
    fn lists(
        &mut self,
        field: &'static str,
        responses: usize,
        value: Json,
        masks: &Masks,
    ) -> Result<Lists, String> {
        let items = self.per_response(field, responses, value, LISTS)?;
        let row = |(i, item)| numbers(&format!("{field}[{i}]"), unread(item, masks, i), LIST);
        items.into_iter().enumerate().map(row).collect()
    }

    pub(super) fn line(&mut self) -> Result<Line, String> {
        let logps = self.require("logps")?;
        let given = self.take("advantages");
        let rewards = match (self.take("rewards"), &given, &logps) {
            (Some(rewards), ..) => rewards_of(rewards)?,
            (None, Some(_), Json::List(rows)) => vec![None; rows.len()],
            _ => return Err(format!("rewards: missing; every line needs {}", REQUIRED.join(", "))),
        };
        let n = rewards.len();
        let masks = self.masks(n)?;
        let logps = self.lists("logps", n, logps, &masks)?;
        let old_logps = self.require("old_logps")?;
        let old_logps = self.lists("old_logps", n, old_logps, &masks)?;
        let ref_logps = self.take("ref_logps");
        let ref_logps = ref_logps.map(|value| self.lists("ref_logps", n, value, &masks)).transpose()?;
        let extra_inputs = extra_inputs::of_responses(n, |field, right| {
            let Some(value) = self.take(field) else { return Ok(None) };
            let items = self.per_response(field, n, value, right)?.into_iter().enumerate();
            Ok(Some(items.map(|(i, item)| unread(item, &masks, i)).collect()))
        })?;
        let tokens = self.tokens(n)?;
        let truncated = self.truncated(n)?;
        let advantages = given.map(|value| self.advantages(n, value, &logps, &masks)).transpose()?;
        let id = self.id()?;
        let ref_logps = ref_logps.map_or(vec![None; n], |lists| lists.into_iter().map(Some).collect());
        let columns =
            rewards.into_iter().zip(old_logps).zip(ref_logps).zip(tokens).zip(truncated).zip(extra_inputs);
        let responses =
            columns.map(|(((((reward, old_logps), ref_logps), tokens), truncated), extra_inputs)| Response {
                tokens,
                old_logps,
                ref_logps,
                reward,
                truncated,
                extra_inputs,
            });
        let group = Group { responses: responses.collect() };
        let line = Line { id, group, logps, advantages, masks: None, ungraded: false };
        match masks {
            Some(masks) => compressed(line, masks),
            None => checked_advantages(line),
        }
    }

    /// One number per response, for all its slots, or one per slot.
    fn advantages(&mut self, n: usize, value: Json, logps: &Lists, masks: &Masks) -> Result<Lists, String> {
        const RIGHT: &str = "a list with a number, or a list of numbers, per response";
        let row = |(i, item): (usize, Json)| match number(&item) {
            Some(x) => Ok(vec![x; logps[i].len()]),
            None => {
                let right = "a number, or a list of numbers, one per token";
                numbers(&format!("advantages[{i}]"), unread(item, masks, i), right)
            }
        };
        self.per_response("advantages", n, value, RIGHT)?.into_iter().enumerate().map(row).collect()
    }

    /// The slots that hold a trained token.
    fn masks(&mut self, n: usize) -> Result<Masks, String> {
        const RIGHT: &str = "1 or true where the slot holds a trained token, else 0 or false";
        let Some(value) = self.take("mask") else { return Ok(None) };
        let row = |(i, item): (usize, Json)| {
            let place = format!("mask[{i}]");
            let flag = |(t, x): (usize, Json)| match (&x, number(&x)) {
                (Json::Bool(flag), _) => Ok(*flag),
                (_, Some(0.0)) => Ok(false),
                (_, Some(1.0)) => Ok(true),
                _ => Err(wrong(&place, t, &x, RIGHT)),
            };
            items(&place, item, "a list of 0 and 1")?.into_iter().enumerate().map(flag).collect()
        };
        let rows = self.per_response("mask", n, value, "a list of lists of 0 and 1")?;
        rows.into_iter().enumerate().map(row).collect::<Result<_, _>>().map(Some)
    }

    fn tokens(&mut self, responses: usize) -> Result<Vec<Vec<u32>>, String> {
        const RIGHT: &str = "a whole number from 0 to 4294967295";
        let Some(value) = self.take("tokens") else { return Ok(vec![Vec::new(); responses]) };
        let items = self.per_response("tokens", responses, value, "a list of lists of token ids")?;
        let of_response = |(i, item)| {
            let place = format!("tokens[{i}]");
            let ids = self::items(&place, item, "a list of token ids")?;
            let id = |(t, x): (usize, Json)| {
                match &x {
                    Json::Number(n) => n.as_u64().and_then(|id| u32::try_from(id).ok()),
                    _ => None,
                }
                .ok_or_else(|| wrong(&place, t, &x, RIGHT))
            };
            ids.into_iter().enumerate().map(id).collect()
        };
        items.into_iter().enumerate().map(of_response).collect()
    }

    fn truncated(&mut self, responses: usize) -> Result<Vec<bool>, String> {
        let Some(value) = self.take("truncated") else { return Ok(vec![false; responses]) };
        let items = self.per_response("truncated", responses, value, "a list of true and false")?;
        let flag = |(i, item)| match item {
            Json::Bool(flag) => Ok(flag),
            other => Err(wrong("truncated", i, &other, "true or false")),
        };
        items.into_iter().enumerate().map(flag).collect()
    }

    /// The id; refused when it could not be echoed as it was written.
    fn id(&mut self) -> Result<Option<Value>, String> {
        match self.take("id") {
            None => Ok(None),
            Some(Json::Text(text)) => Ok(Some(Value::String(text))),
            // An integer beyond 64 bits has been read as the nearest f64 and would be echoed as another number.
            Some(Json::Number(n)) if !n.is_f64() || n.as_f64().is_some_and(|x| x.abs() < 2f64.powi(63)) => {
                Ok(Some(Value::Number(n)))
            }
            Some(other) => Err(format!("id = {other}; must be a string or a number of at most 64 bits")),
        }
    }
}

fn rewards_of(value: Json) -> Result<Vec<Option<f64>>, String> {
    const RIGHT: &str = "a number, or null when the response could not be graded";
    let reward = |(i, item): (usize, Json)| match item {
        Json::Null => Ok(None),
        item => number(&item).map(Some).ok_or_else(|| wrong("rewards", i, &item, RIGHT)),
    };
    items("rewards", value, "a list of numbers, one per response")?
        .into_iter()
        .enumerate()
        .map(reward)
        .collect()
}

/// A list with an entry per slot, 0 in place of whatever stands in the masked slots of response `i`; steps, which have their own form, as they are.
fn unread(item: Json, masks: &Masks, i: usize) -> Json {
    match (item, masks.as_ref().and_then(|masks| masks.get(i))) {
        (Json::List(items), Some(mask)) if items.len() == mask.len() => {
            let is_list = |(item, read): (&Json, &bool)| *read && matches!(item, Json::List(_));
            if items.iter().zip(mask).any(is_list) {
                return Json::List(items);
            }
            let of_slot = |(item, read): (Json, &bool)| if *read { item } else { Json::Number(0.into()) };
            Json::List(items.into_iter().zip(mask).map(of_slot).collect())
        }
        (item, _) => item,
    }
}

/// Advantages that are given have one number per token, each finite.
fn checked_advantages(line: Line) -> Result<Line, String> {
    for (i, row) in line.advantages.iter().flatten().enumerate() {
        if row.len() != line.logps[i].len() {
            let error = BatchError::Length {
                field: "advantages",
                response: i,
                found: row.len(),
                expected: line.logps[i].len(),
            };
            return Err(error.to_string());
        }
        if let Some((token, &value)) = row.iter().enumerate().find(|(_, x)| !x.is_finite()) {
            return Err(BatchError::NotFinite { field: "advantages", response: i, token, value }.to_string());
        }
    }
    Ok(line)
}

/// The line with the trained tokens of its padded rows alone: what stands in the other slots, be it no number, is not looked at.
fn compressed(mut line: Line, masks: Vec<Vec<bool>>) -> Result<Line, String> {
    for (i, mask) in masks.iter().enumerate() {
        let response = &mut line.group.responses[i];
        let rows = [("logps", Some(&mut line.logps[i])), ("old_logps", Some(&mut response.old_logps))];
        let reference = ("ref_logps", response.ref_logps.as_mut());
        let advantages = ("advantages", line.advantages.as_mut().map(|rows| &mut rows[i]));
        for (field, row) in rows.into_iter().chain([reference, advantages]) {
            let Some(row) = row else { continue };
            if row.len() != mask.len() {
                return Err(format!(
                    "{field}[{i}] has {} entries, mask[{i}] has {}; one per slot is needed",
                    row.len(),
                    mask.len()
                ));
            }
            *row = padded::compress(row, mask);
        }
        if response.tokens.len() == mask.len() {
            response.tokens = padded::compress(&response.tokens, mask);
        }
        response.extra_inputs = padded::compress_inputs(&response.extra_inputs, mask);
    }
    checked_advantages(Line { masks: Some(masks), ..line })
}
