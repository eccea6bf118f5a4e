//! `llm-train gpu-check`: every kernel on the card against what it should compute.

#[cfg(any(feature = "cuda", test))]
mod cases;

use std::path::PathBuf;

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_gpu::{Device, kernels};
use serde_json::{Value, json};

use super::{Command, Failure, Result, VERSION};

/// Arguments of `gpu-check`.
#[derive(Clone, Debug, clap::Args)]
pub struct GpuCheckArgs {
    /// The device; the CPU runs no kernels
    #[arg(long, value_name = "NAME", default_value = "cuda", value_parser = ["cuda"])]
    pub device: String,
    /// Also write the table there, after every kernel
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Also write one file to send back, as JSON: versions and cases
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The first comment line of the table's file
    #[arg(long, value_name = "TEXT", default_value = "llm-train gpu-check")]
    pub head: String,
    /// One kernel alone, or gemm, replay, decoder
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Also small models against another implementation, in double precision
    #[arg(long, value_name = "ENGINE", value_parser = ["candle"])]
    pub against: Option<String>,
}

impl Command for GpuCheckArgs {
    /// Prints a line per case with error and bound.
    fn run(&self) -> Result<()> {
        if self.against.is_some() && !cfg!(feature = "candle") {
            return Err(Failure::refused(
                "--against candle: this llm-train was built without it; build it with --features cuda,candle",
            ));
        }
        #[cfg(feature = "cuda")]
        return self.checked();
        #[cfg(not(feature = "cuda"))]
        Err(self.without_card("this llm-train was built without CUDA: build it with --features cuda"))
    }
}

impl GpuCheckArgs {
    /// Writes why there is no card into the report, and returns the refusal.
    fn without_card(&self, why: &str) -> Failure {
        match self.write_report(&report(Err(why), &[])) {
            Ok(()) => Failure::refused(format!("--device cuda: {why}")),
            Err(unwritable) => unwritable,
        }
    }

    fn write_report(&self, report: &Value) -> Result<()> {
        let Some(path) = &self.report else { return Ok(()) };
        Disk::default().replace(path, format!("{report:#}\n").as_bytes()).map_err(Failure::broke)
    }
}

/// The report of a check on a device, or of why there was none.
fn report(device: Result<&dyn Device, &str>, cases: &[Value]) -> Value {
    let directory = std::env::var_os(kernels::SOURCE_DIRECTORY).filter(|named| !named.is_empty());
    json!({
        "llm_train": VERSION,
        "system": [std::env::consts::OS, std::env::consts::ARCH],
        "device": device.ok().map(Device::name),
        "versions": device.ok().and_then(Device::identity),
        "free_and_total_bytes": device.ok().and_then(|device| device.memory().ok()),
        "kernels": directory.map_or("built in".into(), |named| named.display().to_string()),
        "problem": device.err(),
        "failed": cases.iter().filter(|case| case["passed"] == json!(false)).count(),
        "cases": cases,
    })
}
