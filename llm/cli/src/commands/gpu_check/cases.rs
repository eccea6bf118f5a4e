//! The cases of a check: run one kernel after the other, printed and written.
#![cfg_attr(not(feature = "cuda"), allow(dead_code))] // without cards only their report is tested

use std::time::Instant;

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_gpu::check::{self, Extent, Finding, OTHERS};
use grpo_lambda_gpu::select::{NoCard, find_card};
use grpo_lambda_gpu::{Dtype, kernels};
use grpo_lambda_trainer::run::progress::say;
use serde_json::{Value, json};

use super::super::{Failure, Result, print};
use super::{GpuCheckArgs, report};

/// Candle, where this program was built with it.
#[cfg(feature = "candle")]
const SECOND_OPINION: Option<&check::Reference<'static>> =
    Some(&grpo_lambda_candle::pass::in_double_precision);
/// Candle, where this program was built with it.
#[cfg(not(feature = "candle"))]
const SECOND_OPINION: Option<&check::Reference<'static>> = None;

impl GpuCheckArgs {
    /// Checks the first card.
    pub(super) fn checked(&self) -> Result<()> {
        let only = self.only.as_deref();
        let known = || kernels::names().chain(OTHERS);
        if let Some(name) = only.filter(|name| known().all(|k| k != *name)) {
            let names: Vec<&str> = known().collect();
            return Err(Failure::refused(format!("--only {name}: must be one of {}", names.join(", "))));
        }
        // A card that has bf16 has f32; it is opened once, since memory and errors are those of the process.
        let device = match find_card(Dtype::Bf16, say) {
            Ok(device) => device,
            Err(NoCard::Unusable(error)) => return Err(self.without_card(&error.to_string())),
            Err(missing @ NoCard::NotBuilt) => return Err(self.without_card(&missing.to_string())),
        };
        print(&format!("{}\n", device.name()))?;
        let mut findings = Vec::new();
        let parts: Vec<&str> = known().filter(|name| only.is_none_or(|o| o == *name)).collect();
        'card: for dtype in [Dtype::F32, Dtype::Bf16] {
            for part in &parts {
                let started = Instant::now();
                let found = check::run(&device, dtype, Extent::Small, Some(part));
                say(&format!(
                    "{part} in {}: {} cases in {:.1} s",
                    dtype.name(),
                    found.len(),
                    started.elapsed().as_secs_f64()
                ));
                findings.extend(found);
                self.write_csv(&findings)?;
                // What one kernel broke stays broken for this process.
                if device.synchronize().is_err() {
                    break 'card;
                }
            }
            if let (Some(name), Some(reference)) = (&self.against, SECOND_OPINION) {
                findings.extend(check::against(&device, dtype, name, reference));
                self.write_csv(&findings)?;
            }
        }
        print(&check::table(&findings))?;
        self.write_report(&report(Ok(&*device), &cases(&findings)))?;
        match check::passed(&findings) {
            true => Ok(()),
            false => {
                let failed = findings.iter().filter(|f| !f.passed()).count();
                Err(Failure::broke(format!("gpu-check: {failed} of {} cases failed", findings.len())))
            }
        }
    }

    fn write_csv(&self, findings: &[Finding]) -> Result<()> {
        let Some(path) = &self.csv else { return Ok(()) };
        let text = format!("# {}\n{}\n{}", self.head, check::COLUMNS, check::csv_rows(findings));
        Disk::default().replace(path, text.as_bytes()).map_err(Failure::broke)
    }
}

/// The cases of a report. An error that is no number is `null`.
fn cases(findings: &[Finding]) -> Vec<Value> {
    let case = |f: &Finding| {
        json!({
            "kernel": f.kernel, "dtype": f.dtype.name(), "case": f.case, "passed": f.passed(), "problem": f.problem,
            "error": f.error, "bound": f.bound,
        })
    };
    findings.iter().map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda_gpu::dry::Dry;

    #[test]
    fn a_report_holds_what_tells_a_card_from_another_and_every_case() {
        let sound = Finding {
            kernel: "round",
            dtype: Dtype::F32,
            case: "3 numbers".to_owned(),
            error: 0.0,
            bound: 0.5,
            problem: None,
            bits: 0,
        };
        let wrong = Finding { error: f64::INFINITY, ..sound.clone() };
        let found = report(Ok(&Dry::default()), &cases(&[sound, wrong]));
        assert_eq!((&found["device"], &found["failed"]), (&json!("dry run"), &json!(1)), "{found}");
        assert_eq!(found["cases"][0]["bound"], json!(0.5));
        assert_eq!(
            (&found["cases"][1]["passed"], &found["cases"][1]["error"]),
            (&json!(false), &Value::Null)
        );
        let none = report(Err("no driver"), &[]);
        assert_eq!((&none["problem"], &none["device"]), (&json!("no driver"), &Value::Null));
    }
}
