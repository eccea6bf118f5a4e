//! The exact answers of the layer, computed natively: what the page in a browser is compared with.
//!
//! Requests come one JSON object per line, answers leave in their order, each with the milliseconds it took.

use grpo_lambda_web::{Task, graded, length_bonus};
use serde_json::{Value, json};
use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?).map_err(std::io::Error::other)?;
        let began = std::time::Instant::now();
        let answer = answer(&request);
        let took = began.elapsed().as_secs_f64() * 1e3;
        writeln!(
            out,
            "{}",
            json!({ "answer": answer.as_ref().ok(), "error": answer.as_ref().err(), "took": took })
        )?;
    }
    Ok(())
}

fn answer(request: &Value) -> Result<Value, String> {
    let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| request[key].as_u64().map(|x| x as usize);
    let found = if request["call"] == "graded" {
        graded(&text("reference"), &text("response"), request["free"] == true)?
    } else if request["call"] == "lengthBonus" {
        length_bonus(number("policy").unwrap_or(0), number("horizon").unwrap_or(0))?
    } else {
        let task = match request["toml"].as_str() {
            Some(toml) => Task::toml(toml, number("knob"))?,
            None => Task::zoo(&text("task"), number("knob"))?,
        };
        let task = match request["rate"].as_f64() {
            Some(rate) => task.at_success_rate(rate)?,
            None => task,
        };
        match request["shifts"].as_array() {
            Some(shifts) => {
                let shifts: Vec<f64> = shifts.iter().filter_map(Value::as_f64).collect();
                task.codes(number("group").unwrap_or(8), &shifts)?
            }
            None => task.measure(&text("method"), &text("settings"), number("group").unwrap_or(8))?,
        }
    };
    serde_json::from_str(&found).map_err(|e| e.to_string())
}
