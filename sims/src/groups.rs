//! One group as one line of JSON: what `sim estimate` reads.
//!
//! ```json
//! {"rewards": [1, 0], "logps": [[-0.5, -0.25], [-1.0]], "old_logps": [[-0.5, -0.25], [-1.0]]}
//! ```
//! Optional: `advantages` (one number per response, or one per token; `rewards` may then be left out), `mask` (one flag per slot of padded
//! rows, 1 where a token is trained), `id`, `truncated` (one flag per response), `ref_logps` and `tokens` (one list per response), and every kind of evidence that
//! [`Evidence`] declares, in its form: a list of numbers per response, a list of `[first token, value]` per response (steps), or a list of
//! states per response, each a list of numbers (hidden states).

use crate::failure::quoted;
use crate::json::{self, Json};
use grpo_lambda::check::{self, BatchError};
use grpo_lambda::group::{
    Evidence, EvidenceKind, EvidenceSource, Group, PerStep, Response, StatePerToken, StepValue,
};
use grpo_lambda::padded;
use grpo_lambda::settings::did_you_mean;
use serde_json::Value;
use std::collections::HashMap;

/// A group with the current log-probabilities of its responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The caller's name for the group: a JSON string or number, echoed as it is.
    pub id: Option<Value>,
    /// Rewards, old log-probabilities and evidence.
    pub group: Group,
    /// Current log-probabilities, one list per response.
    pub logps: Vec<Vec<f64>>,
    /// Advantages in place of the method's own, one list per response.
    pub advantages: Option<Vec<Vec<f64>>>,
    /// Which slots of each row hold a trained token; none where all do. Everything else here holds trained tokens only.
    pub masks: Option<Vec<Vec<bool>>>,
    /// Whether no response of the group has a reward, so that its advantages are 0.
    pub ungraded: bool,
}

/// A positive log-probability: possible for the density of a continuous policy, a mistake otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Positive {
    /// Where the first one stands, as in `logps[0][2]`.
    pub place: String,
    /// Its value.
    pub value: f64,
    /// How many there are.
    pub count: usize,
}

/// What rounding may add to a log-probability of 0.
const ROUNDING: f64 = 1e-6;

const REQUIRED: [&str; 3] = ["rewards", "logps", "old_logps"];

/// Every field of a line, in the order of messages. What a response may carry beside them is declared with [`Evidence`].
fn known() -> Vec<&'static str> {
    let before = ["id", "rewards", "logps", "old_logps", "ref_logps"];
    let after = ["tokens", "truncated", "advantages", "mask"];
    before.into_iter().chain(Evidence::KINDS.map(EvidenceKind::name)).chain(after).collect()
}

/// What TRL and verl call the fields.
const OTHERS: [(&str, &str); 14] = [
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
    ("tool_mask", "mask"),
    ("sampling_per_token_logps", "sampler_logps"),
    ("rollout_log_probs", "sampler_logps"),
    ("token_level_rewards", "rewards"),
];

type Lists = Vec<Vec<f64>>;

impl Line {
    /// Reads one line and checks it against what a method needs.
    ///
    /// # Errors
    /// What is wrong and what would be right, starting with the field.
    pub fn parse(text: &str, needs: &[EvidenceKind]) -> Result<Self, String> {
        let mut line = Fields::read(text)?.line()?;
        line.check(needs)?;
        Ok(line)
    }

    /// Checks the line against what a method needs, and notes whether it is ungraded.
    ///
    /// # Errors
    /// As [`Line::parse`].
    pub fn check(&mut self, needs: &[EvidenceKind]) -> Result<(), String> {
        self.ungraded = false;
        if self.advantages.is_some() {
            // What the loss reads beside advantages; entropies choose the tokens that count.
            let loss = [EvidenceKind::RefLogps, EvidenceKind::SamplerLogps, EvidenceKind::Entropies];
            let needs: Vec<EvidenceKind> = needs.iter().copied().filter(|kind| loss.contains(kind)).collect();
            return check::responses(&self.group, &self.logps, &needs).map_err(|e| e.to_string());
        }
        match check::group(&self.group, &self.logps, needs) {
            // A group that nobody could grade teaches nothing; the others of its batch do.
            Err(BatchError::NoRewards(_)) => self.ungraded = true,
            other => other.map_err(|e| e.to_string())?,
        }
        Ok(())
    }

    /// Numbers of trained tokens as rows of the caller's width, 0 where no token is trained.
    pub fn widened(&self, rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let Some(masks) = &self.masks else { return rows };
        rows.iter().zip(masks).map(|(row, mask)| padded::scatter(row, mask, 0.0)).collect()
    }

    /// Rows of the caller's width as the numbers of trained tokens.
    ///
    /// # Errors
    /// Where a row has neither one entry per slot nor one per trained token.
    pub fn narrowed(&self, field: &str, rows: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, String> {
        let narrow = |(i, row): (usize, Vec<f64>)| {
            let trained = self.logps[i].len();
            match self.masks.as_ref().map(|masks| &masks[i]) {
                Some(mask) if row.len() == mask.len() => Ok(padded::compress(&row, mask)),
                _ if row.len() == trained => Ok(row),
                _ => Err(format!(
                    "{field}[{i}] has {} entries; {trained}, one per token, are needed",
                    row.len()
                )),
            }
        };
        rows.into_iter().enumerate().map(narrow).collect()
    }

    /// Log-probabilities above 0, if there are any.
    pub fn positive(&self) -> Option<Positive> {
        let responses = &self.group.responses;
        let of = |field: &'static str, i: usize, values: &[f64]| {
            let found = values.iter().enumerate().filter(|(_, x)| **x > ROUNDING);
            found.map(|(t, x)| (format!("{field}[{i}][{t}]"), *x)).collect::<Vec<_>>()
        };
        let mut all = (0..responses.len()).flat_map(|i| {
            let reference = responses[i].ref_logps.as_deref().unwrap_or(&[]);
            let old = of("old_logps", i, &responses[i].old_logps);
            [of("logps", i, &self.logps[i]), old, of("ref_logps", i, reference)].concat()
        });
        let (place, value) = all.next()?;
        Some(Positive { place, value, count: 1 + all.count() })
    }
}

/// The fields of a line that are not yet taken.
struct Fields(Vec<(String, Json)>);

impl Fields {
    fn read(text: &str) -> Result<Self, String> {
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
    fn take(&mut self, field: &'static str) -> Option<Json> {
        let place = self.0.iter().position(|(key, _)| key == field)?;
        Some(self.0.swap_remove(place).1).filter(|value| *value != Json::Null)
    }

    fn require(&mut self, field: &'static str) -> Result<Json, String> {
        self.take(field).ok_or_else(|| format!("{field}: missing; every line needs {}", REQUIRED.join(", ")))
    }

    /// A list with one entry per response.
    fn per_response(
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

    /// A list of numbers per response.
    fn lists(&mut self, field: &'static str, responses: usize, value: Json) -> Result<Lists, String> {
        let items = self.per_response(field, responses, value, LISTS)?;
        items.into_iter().enumerate().map(|(i, item)| numbers(&format!("{field}[{i}]"), item, LIST)).collect()
    }

    fn line(&mut self) -> Result<Line, String> {
        let logps = self.require("logps")?;
        let given = self.take("advantages");
        let rewards = match (self.take("rewards"), &given, &logps) {
            (Some(rewards), ..) => rewards_of(rewards)?,
            (None, Some(_), Json::List(rows)) => vec![None; rows.len()],
            _ => return Err(format!("rewards: missing; every line needs {}", REQUIRED.join(", "))),
        };
        let n = rewards.len();
        let logps = self.lists("logps", n, logps)?;
        let old_logps = self.require("old_logps")?;
        let old_logps = self.lists("old_logps", n, old_logps)?;
        let ref_logps = self.take("ref_logps").map(|value| self.lists("ref_logps", n, value)).transpose()?;
        let evidence = self.evidence(n)?;
        let tokens = self.tokens(n)?;
        let truncated = self.truncated(n)?;
        let advantages = given.map(|value| self.advantages(n, value, &logps)).transpose()?;
        let masks = self.masks(n)?;
        let id = self.id()?;
        let ref_logps = ref_logps.map_or(vec![None; n], |lists| lists.into_iter().map(Some).collect());
        let columns =
            rewards.into_iter().zip(old_logps).zip(ref_logps).zip(tokens).zip(truncated).zip(evidence);
        let responses = columns.map(|(((((reward, old_logps), ref_logps), tokens), truncated), evidence)| {
            Response { tokens, old_logps, ref_logps, reward, truncated, evidence }
        });
        let group = Group { responses: responses.collect() };
        let line = Line { id, group, logps, advantages, masks: None, ungraded: false };
        match masks {
            Some(masks) => compressed(line, masks),
            None => checked_advantages(line),
        }
    }

    /// One number per response, for all its slots, or one per slot.
    fn advantages(&mut self, n: usize, value: Json, logps: &Lists) -> Result<Lists, String> {
        const RIGHT: &str = "a list with a number, or a list of numbers, per response";
        let row = |(i, item): (usize, Json)| match number(&item) {
            Some(x) => Ok(vec![x; logps[i].len()]),
            None => {
                numbers(&format!("advantages[{i}]"), item, "a number, or a list of numbers, one per token")
            }
        };
        self.per_response("advantages", n, value, RIGHT)?.into_iter().enumerate().map(row).collect()
    }

    /// The slots that hold a trained token.
    fn masks(&mut self, n: usize) -> Result<Option<Vec<Vec<bool>>>, String> {
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

    /// The evidence of every response.
    fn evidence(&mut self, responses: usize) -> Result<Vec<Evidence>, String> {
        let mut columns = EvidenceColumns { fields: self, responses, columns: HashMap::new(), response: 0 };
        let of_response = |i| {
            columns.response = i;
            Evidence::read(&mut columns)
        };
        (0..responses).map(of_response).collect()
    }

    fn tokens(&mut self, responses: usize) -> Result<Vec<Vec<u32>>, String> {
        const RIGHT: &str = "a whole number from 0 to 4294967295";
        let Some(value) = self.take("tokens") else { return Ok(vec![Vec::new(); responses]) };
        let items = self.per_response("tokens", responses, value, "a list of lists of token ids")?;
        let of_response = |(i, item)| {
            let place = format!("tokens[{i}]");
            let ids = self::items(&place, item, "a list of token ids")?;
            if ids.is_empty() {
                return Err(BatchError::EmptyResponse { field: "tokens", response: i }.to_string());
            }
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
        if !mask.contains(&true) {
            return Err(format!(
                "mask[{i}] holds no trained token; leave the response out, it has no part in the loss"
            ));
        }
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
        response.evidence = padded::compress_evidence(&response.evidence, mask);
    }
    checked_advantages(Line { masks: Some(masks), ..line })
}

const LISTS: &str = "a list of lists of numbers";
const LIST: &str = "a list of numbers, one per token";
const STEP: &str = "[first token, value]";

/// The fields of a line that hold evidence, as the responses read it one after the other.
struct EvidenceColumns<'a> {
    fields: &'a mut Fields,
    responses: usize,
    /// What each kind's field holds for every response; none where there is no such field.
    columns: HashMap<EvidenceKind, Option<Vec<Json>>>,
    /// The response that reads.
    response: usize,
}

impl EvidenceColumns<'_> {
    /// What a kind's field holds for the response, and its place as in `values[2]`. The whole field must be `right`.
    fn item(&mut self, kind: EvidenceKind, right: &str) -> Result<Option<(String, Json)>, String> {
        let (field, i) = (kind.name(), self.response);
        if !self.columns.contains_key(&kind) {
            let value = self.fields.take(field);
            let column =
                value.map(|v| self.fields.per_response(field, self.responses, v, right)).transpose()?;
            self.columns.insert(kind, column);
        }
        let column = self.columns.get_mut(&kind).and_then(Option::as_mut);
        Ok(column.map(|items| (format!("{field}[{i}]"), std::mem::replace(&mut items[i], Json::Null))))
    }
}

impl EvidenceSource for EvidenceColumns<'_> {
    type Error = String;

    fn numbers(&mut self, kind: EvidenceKind) -> Result<Option<Vec<f64>>, String> {
        self.item(kind, LISTS)?.map(|(place, item)| numbers(&place, item, LIST)).transpose()
    }

    fn steps(&mut self, kind: EvidenceKind) -> Result<Option<PerStep>, String> {
        let Some((place, item)) = self.item(kind, "a list of lists of [first token, value]")? else {
            return Ok(None);
        };
        let pairs = items(&place, item, "a list of [first token, value]")?.into_iter().enumerate();
        pairs.map(|(t, pair)| step(&place, t, &pair)).collect::<Result<_, _>>().map(Some)
    }

    fn states(&mut self, kind: EvidenceKind) -> Result<Option<StatePerToken>, String> {
        const RIGHT: &str = "a list of lists of states, one per token, each a list of numbers";
        let Some((place, item)) = self.item(kind, RIGHT)? else { return Ok(None) };
        let states = items(&place, item, "a list of states, one per token")?.into_iter().enumerate();
        let state = |(t, state)| numbers(&format!("{place}[{t}]"), state, "a list of numbers");
        states.map(state).collect::<Result<_, _>>().map(Some)
    }
}

/// A step of a response, `[first token, value]`.
fn step(place: &str, index: usize, pair: &Json) -> Result<StepValue, String> {
    let Json::List(entries) = pair else { return Err(wrong(place, index, pair, STEP)) };
    let start = entries.first().and_then(|start| match start {
        Json::Number(n) => n.as_u64().and_then(|n| usize::try_from(n).ok()),
        _ => None,
    });
    match (start, entries.get(1).and_then(number), entries.len()) {
        (Some(start), Some(value), 2) => Ok(StepValue { start, value }),
        _ => Err(wrong(place, index, pair, STEP)),
    }
}

const WHOLE_OBJECT: &str = "each line must be one whole JSON object with rewards, logps and old_logps";

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

fn items(place: &str, value: Json, right: &str) -> Result<Vec<Json>, String> {
    match value {
        Json::List(items) => Ok(items),
        other => Err(format!("{place} = {other}; must be {right}")),
    }
}

/// A list of numbers; what is no list is said to be no `right`.
fn numbers(place: &str, value: Json, right: &str) -> Result<Vec<f64>, String> {
    let entry = |(t, x): (usize, Json)| number(&x).ok_or_else(|| wrong(place, t, &x, "a number"));
    items(place, value, right)?.into_iter().enumerate().map(entry).collect()
}

/// The number; a bare `NaN` or `Infinity` too, for [`check::group`] to refuse with its place.
fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(n) => n.as_f64(),
        Json::Bare(x) => Some(*x),
        _ => None,
    }
}

fn wrong(place: &str, index: usize, found: &Json, right: &str) -> String {
    format!("{place}[{index}] = {found}; must be {right}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::group::Series;

    const PLAIN: &str = r#"{"rewards":[1,0],"logps":[[-0.5,-0.25],[-1]],"old_logps":[[-0.5,-0.25],[-1]]}"#;

    fn error(line: &str) -> String {
        Line::parse(line, &[]).expect_err(line)
    }

    #[test]
    fn every_field_lands_where_it_belongs() {
        let text = r#"{"id":7,"rewards":[1,null],"logps":[[-0.5],[-1]],"old_logps":[[-2],[-3]],"ref_logps":[[-4],[-5]],
            "entropies":[[0.1],[0.2]],"values":[[0.3],[0.4]],"collisions":[[0.5],[0.6]],"steps":[[[0,0.7]],[[0,0.8]]],
            "shifts":[[],[0.9]],"saliencies":[[1],[2]],"teacher_logps":[[-0.1],[-0.2]],"tokens":[[11],[12]],"hidden":[[[1,2]],[[3,4]]],
            "truncated":[false,true]}"#;
        let line = Line::parse(text, &[]).unwrap();
        let [a, b] = &line.group.responses[..] else { panic!("two responses") };
        assert_eq!(line.id, Some(7.into()));
        assert_eq!(line.logps, [[-0.5], [-1.0]]);
        assert_eq!((a.reward, b.reward, a.truncated, b.truncated), (Some(1.0), None, false, true));
        assert_eq!(
            (&a.old_logps[..], b.ref_logps.as_deref(), &b.tokens[..]),
            (&[-2.0][..], Some(&[-5.0][..]), &[12][..])
        );
        let found = &b.evidence;
        for (found, expected) in [
            (&found.entropies, 0.2),
            (&found.values, 0.4),
            (&found.collisions, 0.6),
            (&found.shifts, 0.9),
            (&found.saliencies, 2.0),
            (&found.teacher_logps, -0.2),
        ] {
            assert_eq!(found, &Some(vec![expected]));
        }
        assert_eq!(found.steps, Some(vec![StepValue { start: 0, value: 0.8 }]));
        assert_eq!(found.hidden, Some(vec![vec![3.0, 4.0]]));
        assert_eq!(found.series().count(), 8);
    }

    /// A kind that is declared is read: whoever declares one need not come here.
    #[test]
    fn every_declared_kind_of_evidence_is_a_field_of_its_form() {
        let evidence = Evidence::constant(1, 0.5);
        for (kind, series) in evidence.series() {
            let entry = match series {
                Series::PerToken(_) | Series::PerReasoningToken(_) | Series::PerReward(_) => "[0.5]",
                Series::PerStep(_) => "[[0,0.5]]",
                Series::StatePerToken(_) => "[[0.5]]",
            };
            let field = kind.name();
            let line = format!(
                r#"{{"{field}":[{entry},{entry}],"rewards":[1,0],"logps":[[-0.5],[-1]],"old_logps":[[-2],[-3]]}}"#
            );
            let line = Line::parse(&line, &[kind]).expect(field);
            for response in &line.group.responses {
                assert!(response.evidence.series().eq([(kind, series)]), "{field}");
            }
            let error = error(&PLAIN.replacen('{', &format!("{{\"{field}\":[{entry}],"), 1));
            assert_eq!(error, format!("{field}: 1 entries for 2 rewards; one per response is needed"));
        }
    }

    #[test]
    fn a_step_that_is_no_pair_of_token_and_value_is_named_with_its_place() {
        for (steps, place) in [
            ("[[[0]],[[0,1]]]", "steps[0][0]"),
            ("[[[0,1]],[7]]", "steps[1][0]"),
            ("[[[0.5,1]],[[0,1]]]", "steps[0][0]"),
        ] {
            let line = PLAIN.replacen('{', &format!("{{\"steps\":{steps},"), 1);
            let message = error(&line);
            assert!(
                message.starts_with(place) && message.ends_with("must be [first token, value]"),
                "{message}"
            );
        }
    }

    #[test]
    fn null_is_the_same_as_absent_for_optional_fields() {
        let nulls = r#"{"id":null,"ref_logps":null,"tokens":null,"truncated":null,"#;
        assert_eq!(Line::parse(&PLAIN.replacen('{', nulls, 1), &[]), Line::parse(PLAIN, &[]));
    }

    #[test]
    fn a_wrong_type_is_named_with_its_place() {
        for (from, to, expected) in [
            ("[1,0]", "1", "rewards = 1; must be a list of numbers"),
            ("[1,0]", "[true,0]", "rewards[0] = true; must be a number, or null"),
            ("[1,0]", "[\"1\",0]", "rewards[0] = the text `1`; must be"),
            (
                "\"logps\":[[-0.5,-0.25],[-1]]",
                "\"logps\":[-0.5,-0.25]",
                "logps[0] = -0.5; must be a list of numbers, one per token",
            ),
            ("\"logps\":[[-0.5,-0.25]", "\"logps\":[[-0.5,null]", "logps[0][1] = null; must be a number"),
            (
                "\"logps\":[[-0.5,-0.25],[-1]]",
                "\"logps\":null",
                "logps: missing; every line needs rewards, logps, old_logps",
            ),
            ("{", "{\"tokens\":[[1,-2],[3]],", "tokens[0][1] = -2; must be a whole number from 0"),
            ("{", "{\"tokens\":[[1,2.5],[3]],", "tokens[0][1] = 2.5; must be a whole number from 0"),
            ("{", "{\"tokens\":[[1,2],[]],", "tokens[1] is empty"),
            ("{", "{\"truncated\":[0,1],", "truncated[0] = 0; must be true or false"),
            ("{", "{\"truncated\":[true],", "truncated: 1 entries for 2 rewards"),
            ("{", "{\"id\":[1],", "id = a list of 1; must be a string or a number"),
            ("{", "{\"id\":NaN,", "id = NaN; must be a string or a number"),
            ("{", "{\"id\":123456789012345678901234567890,", "id = 1.2345678901234568e+29; must be"),
        ] {
            let line = PLAIN.replacen(from, to, 1);
            assert!(error(&line).starts_with(expected), "{line}\n{}", error(&line));
        }
    }

    #[test]
    fn positive_log_probabilities_are_found_and_rounding_is_not() {
        let line = PLAIN.replace("-0.25],[-1]]}", "0.25],[3]]}").replacen("-0.5", "1e-7", 1);
        let positive = Line::parse(&line, &[]).unwrap().positive().unwrap();
        assert_eq!(positive, Positive { place: "old_logps[0][1]".into(), value: 0.25, count: 2 });
        assert_eq!(Line::parse(PLAIN, &[]).unwrap().positive(), None);
    }
}
