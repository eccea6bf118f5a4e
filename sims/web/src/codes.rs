//! A group as systematic sampling draws it: codes, responses, and what it leaves of RLOO's variance.

use grpo_lambda::systematic::{Sets, code};
use grpo_lambda_mdp::expected::{SetMoments, code_intervals, response_at};
use grpo_lambda_mdp::{LeafId, Oracle};
use serde_json::json;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::Task;

#[wasm_bindgen]
impl Task {
    /// A group of `size` responses in as many systematic sets as there are shifts, as JSON: the interval of codes of every response of the task; the
    /// code, set, response and expected reward of each of the group; and for every number of sets the variance of RLOO's update with the other sets
    /// as its baseline, over that of independent responses, exactly (null where that is 0).
    ///
    /// # Errors
    /// For a size below 2 or above 64, shifts outside `[0,1)`, or a number of shifts that does not divide the size.
    pub fn codes(&self, size: usize, shifts: &[f64]) -> Result<String, String> {
        let sets = shifts.len();
        if !(2..=64).contains(&size) {
            return Err(format!("group = {size}; must be from 2 to 64"));
        }
        if sets < 1 || !size.is_multiple_of(sets) {
            return Err(format!("sets = {sets}; must divide the group size {size}"));
        }
        if let Some(shift) = shifts.iter().find(|s| !(0.0..1.0).contains(*s)) {
            return Err(format!("shift = {shift}; must be at least 0 and below 1"));
        }
        let oracle = Oracle::new(&self.tree, &self.policy);
        let intervals = code_intervals(&oracle);
        let tokens =
            |leaf: LeafId| self.tree.path(leaf).iter().map(|&e| self.tree.token(e)).collect::<Vec<u32>>();
        let said =
            |leaf: LeafId| json!({ "text": self.tree.text(&tokens(leaf)), "reward": self.tree.reward(leaf) });
        let partition = Sets::new(sets);
        let response = |place: usize| {
            let set = partition.set_of(place, size);
            let code = code(place - partition.members(set, size).start, size / sets, shifts[set]);
            json!({ "set": set, "code": code, "of": said(response_at(&intervals, code)) })
        };
        let independent = SetMoments::new(&oracle, 1).cross_variance(size);
        let left = |sets: usize| {
            let variance = SetMoments::new(&oracle, size / sets).cross_variance(sets);
            json!({ "sets": sets, "left": (independent > 0.0).then(|| variance / independent) })
        };
        crate::json(&json!({
            "intervals": intervals.iter().map(|(end, leaf)| json!({ "end": end, "of": said(*leaf) })).collect::<Vec<_>>(),
            "responses": (0..size).map(response).collect::<Vec<_>>(),
            "left": (2..=size).filter(|sets| size.is_multiple_of(*sets)).map(left).collect::<Vec<_>>(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn codes(size: usize, shifts: &[f64]) -> Result<Value, String> {
        let task = Task::zoo("fork", None)?;
        task.codes(size, shifts).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn responses_lie_where_their_codes_do() {
        let found = codes(8, &[0.25, 0.875]).unwrap();
        let ends: Vec<f64> =
            found["intervals"].as_array().unwrap().iter().map(|i| i["end"].as_f64().unwrap()).collect();
        assert!(ends.is_sorted() && (ends.last().unwrap() - 1.0).abs() < 1e-12);
        let all = found["responses"].as_array().unwrap();
        let of_set = |set: u64| {
            all.iter()
                .filter(move |r| r["set"] == set)
                .map(|r| r["code"].as_f64().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!((of_set(0), of_set(1)), (vec![0.25, 0.5, 0.75, 0.0], vec![0.875, 0.125, 0.375, 0.625]));
        for r in all {
            let at = ends.iter().position(|end| r["code"].as_f64().unwrap() < *end).unwrap();
            assert_eq!(r["of"], found["intervals"][at]["of"]);
        }
        // One response a set is independent sampling.
        let left = found["left"].as_array().unwrap();
        assert_eq!(left.iter().map(|l| l["sets"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 4, 8]);
        assert!(
            (left[2]["left"].as_f64().unwrap() - 1.0).abs() < 1e-12
                && left[0]["left"].as_f64().unwrap() < 1.0
        );
    }

    #[test]
    fn refusals_name_what_would_be_right() {
        assert_eq!(codes(8, &[0.5; 3]).unwrap_err(), "sets = 3; must divide the group size 8");
        assert_eq!(codes(8, &[1.0, 0.0]).unwrap_err(), "shift = 1; must be at least 0 and below 1");
        assert_eq!(codes(1, &[0.5]).unwrap_err(), "group = 1; must be from 2 to 64");
    }
}
