//! `llm-train gpu-check`: every kernel on the card against what it should compute.

use std::path::PathBuf;

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_gpu::Dtype;
use grpo_lambda_gpu::check::{self, Extent, OTHERS};
use grpo_lambda_gpu::kernels;
use grpo_lambda_gpu::select::{NoCard, find_card};

use super::{Command, Failure, print};
use grpo_lambda_trainer::run::progress::say;

/// Arguments of `gpu-check`.
#[derive(Clone, Debug, clap::Args)]
pub struct GpuCheckArgs {
    /// The device; the CPU runs no kernels
    #[arg(long, value_name = "NAME", default_value = "cuda", value_parser = ["cuda"])]
    pub device: String,
    /// Also write the table there
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The first comment line of that file
    #[arg(long, value_name = "TEXT", default_value = "llm-train gpu-check")]
    pub head: String,
    /// One kernel alone, or gemm, replay, decoder
    #[arg(long, value_name = "NAME")]
    pub only: Option<String>,
    /// Small sizes alone, nothing timed
    #[arg(long)]
    pub quick: bool,
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
        let extent = if self.quick { Extent::Small } else { Extent::Full };
        // A card that has bf16 has f32; it is opened once, since memory and errors are those of the process.
        let device = match find_card(Dtype::Bf16, say) {
            Ok(device) => device,
            Err(NoCard::Unusable(error)) => return Err(Failure::refused(format!("--device cuda: {error}"))),
            Err(NoCard::NotBuilt) => {
                let right = "this llm-train was built without CUDA: build it with --features cuda";
                return Err(Failure::refused(format!("--device cuda: {right}")));
            }
        };
        print(&format!("{}\n", device.name()))?;
        let mut findings = Vec::new();
        for dtype in [Dtype::F32, Dtype::Bf16] {
            findings.extend(check::run(&device, dtype, extent, only));
            // What one kernel broke stays broken for this process.
            if device.synchronize().is_err() {
                break;
            }
        }
        print(&check::table(&findings))?;
        if let Some(path) = &self.csv {
            let text = format!("# {}\n{}\n{}", self.head, check::COLUMNS, check::csv_rows(&findings));
            Disk::default().replace(path, text.as_bytes()).map_err(Failure::broke)?;
        }
        match check::passed(&findings) {
            true => Ok(()),
            false => {
                let failed = findings.iter().filter(|f| !f.passed()).count();
                Err(Failure::broke(format!("gpu-check: {failed} of {} cases failed", findings.len())))
            }
        }
    }
}
