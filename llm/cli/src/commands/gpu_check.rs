//! `llm-train gpu-check`: every kernel on the card against what it should compute.

use std::path::PathBuf;
use std::time::Instant;

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_gpu::check::{self, Extent, Finding, OTHERS};
use grpo_lambda_gpu::kernels;
use grpo_lambda_gpu::select::{NoCard, find_card};
use grpo_lambda_gpu::{Device, Dtype};
use serde_json::{Value, json};

use super::{Command, Failure, VERSION, print};
use grpo_lambda_trainer::run::progress::say;

/// Candle, where this program was built with it.
#[cfg(feature = "candle")]
const SECOND_OPINION: Option<&check::Reference<'static>> =
    Some(&grpo_lambda_candle::pass::in_double_precision);
/// Candle, where this program was built with it.
#[cfg(not(feature = "candle"))]
const SECOND_OPINION: Option<&check::Reference<'static>> = None;

/// Arguments of `gpu-check`.
#[derive(Clone, Debug, clap::Args)]
pub struct GpuCheckArgs {
    /// The device; the CPU runs no kernels
    #[arg(long, value_name = "NAME", default_value = "cuda", value_parser = ["cuda"])]
    pub device: String,
    /// Also write the table there, after every kernel
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Also write one file to send back, as JSON: versions, cases, times
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The first comment line of the table's file
    #[arg(long, value_name = "TEXT", default_value = "llm-train gpu-check")]
    pub head: String,
    /// One kernel alone, or gemm, replay, decoder
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Small sizes alone, nothing timed
    #[arg(long)]
    pub quick: bool,
    /// Also small models against another implementation, in double precision
    #[arg(long, value_name = "ENGINE", value_parser = ["candle"])]
    pub against: Option<String>,
}

impl Command for GpuCheckArgs {
    /// Prints a line per case with error, bound, time and rate.
    fn run(&self) -> Result<(), Failure> {
        let only = self.only.as_deref();
        let known = || kernels::names().chain(OTHERS);
        if let Some(name) = only.filter(|name| known().all(|k| k != *name)) {
            let names: Vec<&str> = known().collect();
            return Err(Failure::refused(format!("--only {name}: must be one of {}", names.join(", "))));
        }
        if self.against.is_some() && SECOND_OPINION.is_none() {
            return Err(Failure::refused(
                "--against candle: this llm-train was built without it; build it with --features cuda,candle",
            ));
        }
        let extent = if self.quick { Extent::Small } else { Extent::Full };
        // A card that has bf16 has f32; it is opened once, since memory and errors are those of the process.
        let device = match find_card(Dtype::Bf16, say) {
            Ok(device) => device,
            Err(missing) => {
                let why = match missing {
                    NoCard::Unusable(error) => error.to_string(),
                    NoCard::NotBuilt => {
                        "this llm-train was built without CUDA: build it with --features cuda".to_owned()
                    }
                };
                self.write_report(&report(Err(&why), &[]))?;
                return Err(Failure::refused(format!("--device cuda: {why}")));
            }
        };
        print(&format!("{}\n", device.name()))?;
        let mut findings = Vec::new();
        let parts: Vec<&str> = known().filter(|name| only.is_none_or(|o| o == *name)).collect();
        'card: for dtype in [Dtype::F32, Dtype::Bf16] {
            for part in &parts {
                let started = Instant::now();
                let found = check::run(&device, dtype, extent, Some(part));
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
        self.write_report(&report(Ok(&*device), &findings))?;
        match check::passed(&findings) {
            true => Ok(()),
            false => {
                let failed = findings.iter().filter(|f| !f.passed()).count();
                Err(Failure::broke(format!("gpu-check: {failed} of {} cases failed", findings.len())))
            }
        }
    }
}

impl GpuCheckArgs {
    fn write_csv(&self, findings: &[Finding]) -> Result<(), Failure> {
        let Some(path) = &self.csv else { return Ok(()) };
        let text = format!("# {}\n{}\n{}", self.head, check::COLUMNS, check::csv_rows(findings));
        Disk::default().replace(path, text.as_bytes()).map_err(Failure::broke)
    }

    fn write_report(&self, report: &Value) -> Result<(), Failure> {
        let Some(path) = &self.report else { return Ok(()) };
        Disk::default().replace(path, format!("{report:#}\n").as_bytes()).map_err(Failure::broke)
    }
}

/// The report of a check on a device, or of why there was none. An error that is no number is `null`.
fn report(device: Result<&dyn Device, &str>, findings: &[Finding]) -> Value {
    let case = |f: &Finding| {
        json!({
            "kernel": f.kernel, "dtype": f.dtype.name(), "case": f.case, "passed": f.passed(), "problem": f.problem,
            "error": f.error, "bound": f.bound, "seconds": f.seconds, "bytes": f.bytes, "operations": f.operations,
        })
    };
    let directory = std::env::var_os(kernels::SOURCE_DIRECTORY).filter(|named| !named.is_empty());
    json!({
        "llm_train": VERSION,
        "system": [std::env::consts::OS, std::env::consts::ARCH],
        "device": device.ok().map(Device::name),
        "versions": device.ok().and_then(Device::identity),
        "free_and_total_bytes": device.ok().and_then(|device| device.memory().ok()),
        "kernels": directory.map_or("built in".into(), |named| named.display().to_string()),
        "problem": device.err(),
        "failed": findings.iter().filter(|f| !f.passed()).count(),
        "cases": findings.iter().map(case).collect::<Vec<_>>(),
    })
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
            seconds: Some(2e-6),
            bytes: 24.0,
            operations: 0.0,
            problem: None,
        };
        let wrong = Finding { error: f64::INFINITY, ..sound.clone() };
        let found = report(Ok(&Dry::default()), &[sound, wrong]);
        assert_eq!((&found["device"], &found["failed"]), (&json!("dry run"), &json!(1)), "{found}");
        assert_eq!((&found["cases"][0]["seconds"], &found["cases"][0]["bound"]), (&json!(2e-6), &json!(0.5)));
        assert_eq!(
            (&found["cases"][1]["passed"], &found["cases"][1]["error"]),
            (&json!(false), &Value::Null)
        );
        let none = report(Err("no driver"), &[]);
        assert_eq!((&none["problem"], &none["device"]), (&json!("no driver"), &Value::Null));
    }
}
