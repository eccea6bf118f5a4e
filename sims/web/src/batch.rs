//! Groups that the page holds, edits and evaluates.

use grpo_lambda::group::{ExtraInputs, Group, Response, Series};
use grpo_lambda::methods::{Configured, Credit, TokenTerm};
use grpo_lambda::settings::Settings;
use grpo_lambda::surrogate::Region;
use grpo_lambda_stats::table::significant;
use grpo_lambda_tools::estimate::{self, Estimate, Lines};
use grpo_lambda_tools::groups::Line;
use serde_json::{Value, json};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::{GROUPS, configure};

/// Lines of `sim estimate`.
#[wasm_bindgen]
pub struct Batch {
    lines: Lines,
}

#[wasm_bindgen]
impl Batch {
    /// Reads lines as `sim estimate --method METHOD SETTINGS` does.
    ///
    /// # Errors
    /// The text of the command line.
    #[wasm_bindgen(constructor)]
    pub fn new(text: &str, method: &str, settings: &str) -> Result<Batch, String> {
        let configured = configure(method, settings)?;
        let lines = estimate::lines(Some(&configured), GROUPS, text.as_bytes());
        lines.map(|lines| Batch { lines }).map_err(|failure| failure.line())
    }

    /// Advantages, losses and gradient of every token, each line a batch of its own or all of them one.
    ///
    /// # Errors
    /// The text of the command line.
    pub fn evaluate(
        &mut self,
        method: &str,
        settings: &str,
        as_one_batch: bool,
    ) -> Result<Evaluation, String> {
        let configured = configure(method, settings)?;
        for (number, line) in &mut self.lines {
            estimate::check(&configured, line).map_err(|what| format!("{GROUPS}:{number}: {what}"))?;
        }
        let warnings = [configured.idle(), estimate::warnings(GROUPS, &self.lines)].concat();
        let terms = terms(&configured, &self.lines, as_one_batch);
        let estimates = estimate::estimates(&configured, GROUPS, &self.lines, as_one_batch);
        let estimates = estimates.map_err(|failure| failure.line())?;
        Ok(Evaluation { estimates, terms, bounds: Bounds::new(&configured.settings), warnings })
    }

    /// The number of responses of every line.
    #[wasm_bindgen(getter)]
    pub fn sizes(&self) -> Vec<usize> {
        self.lines.iter().map(|(_, line)| line.logps.len()).collect()
    }

    /// The slots of every response: its tokens, or those of its mask.
    #[wasm_bindgen(getter)]
    pub fn lengths(&self) -> Vec<usize> {
        let token_counts = |line: &Line| match &line.masks {
            Some(masks) => masks.iter().map(Vec::len).collect::<Vec<_>>(),
            None => line.logps.iter().map(Vec::len).collect(),
        };
        self.lines.iter().flat_map(|(_, line)| token_counts(line)).collect()
    }

    /// The reward of every response, NaN where it has none.
    #[wasm_bindgen(getter)]
    pub fn rewards(&self) -> Vec<f64> {
        self.responses().map(|r| r.reward.unwrap_or(f64::NAN)).collect()
    }

    /// The mean log-ratio of every response, `log π - log π_old`.
    #[wasm_bindgen(getter)]
    pub fn log_ratios(&self) -> Vec<f64> {
        let log_ratio = |(new, r): (&Vec<f64>, &Response)| {
            new.iter().zip(&r.old_logps).map(|(new, old)| new - old).sum::<f64>() / new.len() as f64
        };
        let logps = self.lines.iter().flat_map(|(_, line)| &line.logps);
        logps.zip(self.responses()).map(log_ratio).collect()
    }

    /// Gives a response another reward, none where it is NaN.
    ///
    /// # Errors
    /// When there is no such response.
    pub fn set_reward(&mut self, response: usize, reward: f64) -> Result<(), String> {
        let (line, i) = self.place(response)?;
        line.group.responses[i].reward = (!reward.is_nan()).then_some(reward);
        Ok(())
    }

    /// Moves the policy's log-probabilities of a response by `by`, not above 0.
    ///
    /// # Errors
    /// When there is no such response.
    pub fn shift(&mut self, response: usize, by: f64) -> Result<(), String> {
        let (line, i) = self.place(response)?;
        line.logps[i].iter_mut().for_each(|x| *x = (*x + by).min(0.0));
        Ok(())
    }

    /// Cuts a response, or makes it longer by repeating its last token.
    ///
    /// # Errors
    /// When there is no such response, or something other than log-probabilities and tokens has its length.
    pub fn set_length(&mut self, response: usize, length: usize) -> Result<(), String> {
        let (line, i) = self.place(response)?;
        let answer = &mut line.group.responses[i];
        if line.masks.is_some() || line.advantages.is_some() || answer.extra_inputs != ExtraInputs::default()
        {
            let what = "a mask, advantages or extra inputs per token";
            return Err(format!(
                "the length of a response cannot be changed where its line has {what}; edit the text"
            ));
        }
        if length == 0 {
            return Err("length = 0; a response has at least one token".to_owned());
        }
        let last = |row: &Vec<f64>| row.last().copied().unwrap_or(0.0);
        let fill = last(&line.logps[i]);
        line.logps[i].resize(length, fill);
        let fill = last(&answer.old_logps);
        answer.old_logps.resize(length, fill);
        if let Some(reference) = &mut answer.ref_logps {
            let fill = last(reference);
            reference.resize(length, fill);
        }
        if let Some(token) = answer.tokens.last().copied() {
            answer.tokens.resize(length, token);
        }
        Ok(())
    }

    /// The lines as `sim estimate` reads them.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn text(&self) -> Result<String, String> {
        let lines: Result<Vec<String>, String> =
            self.lines.iter().map(|(_, line)| crate::json(&object(line))).collect();
        lines.map(|lines| lines.join("\n") + "\n")
    }

    fn responses(&self) -> impl Iterator<Item = &Response> {
        self.lines.iter().flat_map(|(_, line)| &line.group.responses)
    }

    fn place(&mut self, response: usize) -> Result<(&mut Line, usize), String> {
        let mut i = response;
        for (_, line) in &mut self.lines {
            if i < line.logps.len() {
                return Ok((line, i));
            }
            i -= line.logps.len();
        }
        Err(format!("response {response}: there is none"))
    }
}

/// The numbers of `sim estimate` as arrays over all tokens in flat order; slots that a mask leaves out are 0.
#[wasm_bindgen]
pub struct Evaluation {
    estimates: Vec<Estimate>,
    terms: Vec<Vec<TokenTerm>>,
    bounds: Bounds,
    warnings: Vec<String>,
}

/// The bounds of the clip as they were set; none of a method that has no such setting.
struct Bounds {
    low: Option<String>,
    high: Option<String>,
    cap: Option<String>,
}

impl Bounds {
    fn new(settings: &Settings) -> Bounds {
        let word = |key: &str| settings.has(key).then(|| settings.word(key).to_owned());
        let two_sided = settings.has("clip") && settings.word("clip") == "two_sided";
        Bounds {
            low: word("epsilon_low").map(|e| format!("1 - {e}")),
            high: word("epsilon_high").map(|e| format!("1 + {e}")),
            cap: word("clip_max").filter(|_| two_sided),
        }
    }
}

#[wasm_bindgen]
impl Evaluation {
    /// Why the loss of a token is flat, by its place in the arrays; empty where it is not.
    pub fn reason(&self, token: usize) -> String {
        let Some(term) = self.terms.iter().flatten().nth(token) else { return String::new() };
        let advantage =
            self.estimates.iter().flat_map(|e| &e.advantages).flatten().nth(token).copied().unwrap_or(0.0);
        let sign = if advantage < 0.0 { "negative" } else { "positive" };
        let (side, relation, bound) = match (term.region, &self.bounds.cap) {
            (Region::Free, _) => return String::new(),
            (Region::Low, _) => ("lower bound", "below", &self.bounds.low),
            (Region::High, Some(_)) if advantage < 0.0 => ("cap of the ratio", "above", &self.bounds.cap),
            (Region::High, _) => ("upper bound", "above", &self.bounds.high),
        };
        let bound = bound.as_deref().unwrap_or("the bound");
        let (ratio, advantage) = (significant(term.ratio, 4), significant(advantage, 4));
        format!("{side}: the ratio {ratio} is {relation} {bound} and the advantage {advantage} is {sign}")
    }

    /// The text that `sim estimate` prints.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn printed(&self) -> Result<String, String> {
        let lines: Result<Vec<String>, String> = self.estimates.iter().map(crate::json).collect();
        lines.map(|lines| lines.join("\n") + "\n")
    }

    /// The advantage of every token.
    #[wasm_bindgen(getter)]
    pub fn advantages(&self) -> Vec<f64> {
        self.estimates.iter().flat_map(|e| &e.advantages).flatten().copied().collect()
    }

    /// The derivative of the loss by every log-probability.
    #[wasm_bindgen(getter)]
    pub fn gradient(&self) -> Vec<f64> {
        self.estimates.iter().flat_map(|e| &e.dlogps).flatten().copied().collect()
    }

    /// The policy loss of every token, before the weights of the reduction.
    #[wasm_bindgen(getter)]
    pub fn losses(&self) -> Vec<f64> {
        self.terms.iter().flatten().map(|term| term.loss).collect()
    }

    /// The ratio that the surrogate sees at every token.
    #[wasm_bindgen(getter)]
    pub fn ratios(&self) -> Vec<f64> {
        self.terms.iter().flatten().map(|term| term.ratio).collect()
    }

    /// The KL estimate of every token.
    #[wasm_bindgen(getter)]
    pub fn kl(&self) -> Vec<f64> {
        self.terms.iter().flatten().map(|term| term.kl).collect()
    }

    /// Bound at which a token's loss is flat: -1 the lower of the clip, 1 the upper, 0 none.
    #[wasm_bindgen(getter)]
    pub fn regions(&self) -> Vec<i8> {
        let side = |term: &TokenTerm| match term.region {
            Region::Free => 0,
            Region::Low => -1,
            Region::High => 1,
        };
        self.terms.iter().flatten().map(side).collect()
    }

    /// The loss of every line.
    #[wasm_bindgen(getter)]
    pub fn loss(&self) -> Vec<f64> {
        self.estimates.iter().map(|e| e.loss).collect()
    }

    /// The metrics of every line, as JSON.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn metrics(&self) -> Result<String, String> {
        crate::json(&self.estimates.iter().map(|e| &e.metrics).collect::<Vec<_>>())
    }

    /// Warnings of the command line.
    #[wasm_bindgen(getter)]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

/// A slot in which no token is trained.
const UNTRAINED: TokenTerm = TokenTerm { loss: 0.0, ratio: 1.0, kl: 0.0, region: Region::Free };

/// The terms of every token, response by response.
fn terms(configured: &Configured, lines: &Lines, as_one_batch: bool) -> Vec<Vec<TokenTerm>> {
    let method = configured.method.as_ref();
    let credits = |batch: &[Group], given: Option<Vec<Vec<f64>>>| match given {
        Some(given) => method.credit_given(batch, given),
        None => method.credit(batch),
    };
    let credits: Vec<Credit> = if as_one_batch {
        let batch: Vec<Group> = lines.iter().map(|(_, line)| line.group.clone()).collect();
        let given: Option<Vec<_>> = lines.iter().map(|(_, line)| line.advantages.clone()).collect();
        credits(&batch, given.map(|rows| rows.concat()))
    } else {
        let own =
            |(_, line): &(usize, Line)| credits(std::slice::from_ref(&line.group), line.advantages.clone());
        lines.iter().flat_map(own).collect()
    };
    let rows = lines.iter().flat_map(|(_, line)| (0..line.logps.len()).map(move |i| (line, i)));
    let of_response = |((line, i), credit): ((&Line, usize), &Credit)| {
        let terms = method.token_terms(&line.group.responses[i], credit, &line.logps[i]);
        let Some(masks) = &line.masks else { return terms };
        let mut terms = terms.into_iter();
        masks[i]
            .iter()
            .map(|trained| if *trained { terms.next() } else { None }.unwrap_or(UNTRAINED))
            .collect()
    };
    rows.zip(&credits).map(of_response).collect()
}

/// A line as an object, its masked slots left out.
fn object(line: &Line) -> Value {
    let responses = &line.group.responses;
    let column = |of: &dyn Fn(&Response) -> Value| Value::from(responses.iter().map(of).collect::<Vec<_>>());
    let mut fields = serde_json::Map::new();
    fields.extend(line.id.clone().map(|id| ("id".to_owned(), id)));
    fields.insert("rewards".to_owned(), column(&|r| json!(r.reward)));
    fields.insert("logps".to_owned(), json!(line.logps));
    fields.insert("old_logps".to_owned(), column(&|r| json!(r.old_logps)));
    if responses.iter().all(|r| r.ref_logps.is_some()) {
        fields.insert("ref_logps".to_owned(), column(&|r| json!(r.ref_logps)));
    }
    fields.extend(line.advantages.as_ref().map(|rows| ("advantages".to_owned(), json!(rows))));
    if responses.iter().all(|r| !r.tokens.is_empty()) {
        fields.insert("tokens".to_owned(), column(&|r| json!(r.tokens)));
    }
    if responses.iter().any(|r| r.truncated) {
        fields.insert("truncated".to_owned(), column(&|r| json!(r.truncated)));
    }
    for (kind, _) in responses.first().into_iter().flat_map(|r| r.extra_inputs.series()) {
        let value = |r: &Response| {
            let found = r.extra_inputs.series().find(|(other, _)| *other == kind);
            found.map_or(Value::Null, |(_, series)| written(series))
        };
        fields.insert(kind.name().to_owned(), column(&value));
    }
    Value::Object(fields)
}

fn written(series: Series) -> Value {
    match series {
        Series::PerToken(x) | Series::PerReasoningToken(x) | Series::PerReward(x) => json!(x),
        Series::PerStep(steps) => steps.iter().map(|s| json!([s.start, s.value])).collect(),
        Series::StatePerToken(states) => json!(states),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"id":"a","rewards":[1,0],"logps":[[-0.5,-0.2],[-1.5]],"old_logps":[[-0.5,-0.6],[-1.1]],"ref_logps":[[-0.5,-0.25],[-1.5]],"tokens":[[1,2],[3]],"values":[[0.5,0.25],[0.125]],"steps":[[[0,0.5]],[[0,0.25]]],"hidden":[[[1,2],[3,4]],[[5,6]]]}"#;

    #[test]
    fn numbers_are_those_of_the_command_line() {
        for settings in ["beta=0.04", "epsilon_high=0.1"] {
            let configured = configure("grpo", settings).unwrap();
            let text = format!("{LINE}\n{}\n", LINE.replace("\"a\"", "7"));
            for one in [false, true] {
                let printed = estimate::printed(&configured, GROUPS, text.as_bytes(), one).unwrap().text;
                let mut batch = Batch::new(&text, "grpo", settings).unwrap();
                let found = batch.evaluate("grpo", settings, one).unwrap();
                assert_eq!(found.printed().unwrap(), printed);
                assert_eq!(found.gradient().len(), 6);
                assert_eq!(found.regions(), [0, 1, -1, 0, 1, -1]);
                assert_eq!(found.reason(0), "");
                assert!(
                    found
                        .reason(2)
                        .starts_with("lower bound: the ratio 0.6703 is below 1 - 0.2 and the advantage -0.7")
                );
            }
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let batch = Batch::new(LINE, "grpo", "").unwrap();
        let again = Batch::new(&batch.text().unwrap(), "grpo", "").unwrap();
        assert_eq!(batch.lines, again.lines);
    }

    #[test]
    fn edits_change_what_they_name() {
        let line = r#"{"rewards":[1,null],"logps":[[-0.5,-0.25],[-1.5]],"old_logps":[[-0.5,-0.5],[-1]]}"#;
        let mut batch = Batch::new(line, "grpo", "").unwrap();
        assert!(batch.rewards()[1].is_nan());
        batch.set_reward(1, 0.5).unwrap();
        batch.set_length(1, 3).unwrap();
        batch.shift(0, 0.375).unwrap();
        assert_eq!(batch.lengths(), [2, 3]);
        assert_eq!(batch.rewards(), [1.0, 0.5]);
        let expected = "{\"rewards\":[1.0,0.5],\"logps\":[[-0.125,0.0],[-1.5,-1.5,-1.5]],\"old_logps\":[[-0.5,-0.5],[-1.0,-1.0,-1.0]]}\n";
        assert_eq!(batch.text().unwrap(), expected);
        assert!(batch.set_length(0, 0).unwrap_err().contains("at least one token"));
        assert!(batch.set_reward(2, 0.0).unwrap_err().contains("there is none"));
        let mut extra_inputs = Batch::new(LINE, "grpo", "").unwrap();
        assert!(extra_inputs.set_length(0, 5).unwrap_err().contains("edit the text"));
    }

    #[test]
    fn masked_slots_keep_their_places_and_are_zero() {
        let line = r#"{"rewards":[1,0],"logps":[[-0.5,9,-0.25],[-1.5,-1,9]],"old_logps":[[-0.5,9,-0.25],[-1.5,-1,9]],"mask":[[1,0,1],[1,1,0]]}"#;
        let mut batch = Batch::new(line, "grpo", "").unwrap();
        let found = batch.evaluate("grpo", "", false).unwrap();
        assert_eq!(batch.lengths(), [3, 3]);
        for numbers in [found.gradient(), found.losses(), found.advantages()] {
            let zeros: Vec<bool> = numbers.iter().map(|x| *x == 0.0).collect();
            assert_eq!(zeros, [false, true, false, false, false, true], "{numbers:?}");
        }
    }

    #[test]
    fn a_line_that_lacks_what_the_method_needs_is_named() {
        let error = Batch::new(&LINE.replace("\"ref_logps\"", "\"id2\""), "grpo", "").err().unwrap();
        assert!(error.starts_with("groups.jsonl:1: `id2`: unknown field"), "{error}");
        let line = r#"{"rewards":[1,0],"logps":[[-0.5],[-1.5]],"old_logps":[[-0.5],[-1]]}"#;
        let mut batch = Batch::new(line, "grpo", "").unwrap();
        let error = batch.evaluate("grpo", "beta=0.1", false).err().unwrap();
        let by_command =
            estimate::printed(&configure("grpo", "beta=0.1").unwrap(), GROUPS, line.as_bytes(), false);
        assert_eq!(error, by_command.err().unwrap().line());
    }
}
