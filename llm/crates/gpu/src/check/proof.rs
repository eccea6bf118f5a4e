//! A card proves itself before it trains: the quick check once per card, driver, libraries, kernels and dtype, and a model of the run's shape once
//! per shape, too. What was proved is kept in the cache folder.

use std::path::Path;
use std::sync::Arc;

use grpo_lambda_decoder::device::{DeviceError, Dtype};
use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_decoder::model::ModelConfig;
use grpo_lambda_decoder::model::weights::fnv;

use super::{Extent, Finding, model, passed, run};
use crate::device::Device;
use crate::{image, kernels};

/// Refuses a card whose quick check fails.
///
/// A device without an [`identity`](Device::identity) computes nothing that could be wrong, or is under test itself: it is taken as it is.
///
/// # Errors
/// [`DeviceError::Missing`], a line that names the first case that failed.
pub fn prove_card(device: &Arc<dyn Device>, dtype: Dtype, report: fn(&str)) -> Result<(), DeviceError> {
    once(device, dtype, "quick check", || {
        report(&format!("{} is checked before its first run in {}", device.name(), dtype.name()));
        run(device, dtype, Extent::Small, None)
    })
}

/// Refuses a card whose log-probabilities or gradients of 64 tokens are not the CPU's, in a model of this shape with two layers at most and random
/// weights.
///
/// # Errors
/// [`DeviceError::Missing`], a line that names the first comparison that failed.
pub fn prove_shape(device: &Arc<dyn Device>, dtype: Dtype, shape: &ModelConfig) -> Result<(), DeviceError> {
    once(device, dtype, &format!("{shape:?}"), || model::of_shape(device, dtype, shape))
}

fn once(
    device: &Arc<dyn Device>,
    dtype: Dtype,
    what: &str,
    check: impl FnOnce() -> Vec<Finding>,
) -> Result<(), DeviceError> {
    let Some(identity) = device.identity() else { return Ok(()) };
    let directory = image::directory(|name| std::env::var_os(name));
    let subject = [&identity, dtype.name(), what, &kernels::current(dtype)?].join("\n");
    kept(directory.as_deref(), &subject, &device.name(), check)
}

/// Runs the check unless its subject has passed before; a pass is kept, a failure is found again each time.
fn kept(
    directory: Option<&Path>,
    subject: &str,
    name: &str,
    check: impl FnOnce() -> Vec<Finding>,
) -> Result<(), DeviceError> {
    let path = directory.map(|d| d.join(format!("proved-{:016x}.txt", fnv(subject))));
    if path.as_deref().is_some_and(|path| std::fs::read(path).is_ok_and(|kept| kept == subject.as_bytes())) {
        return Ok(());
    }
    let findings = check();
    if passed(&findings) {
        // What cannot be kept is proved again.
        if let (Some(directory), Some(path)) = (directory, path) {
            let disk = Disk::default();
            let _ = disk.create_directories(directory).and_then(|()| disk.replace(&path, subject.as_bytes()));
        }
        return Ok(());
    }
    let first = findings.iter().find(|finding| !finding.passed());
    let case = first.map_or("nothing was checked".to_owned(), |f| {
        let why =
            f.problem.clone().unwrap_or_else(|| format!("off by {:.1e}, bound {:.1e}", f.error, f.bound));
        format!("{}_{} at {}: {why}", f.kernel, f.dtype.name(), f.case)
    });
    let failed = findings.iter().filter(|finding| !finding.passed()).count();
    Err(DeviceError::Missing(format!(
        "{name} does not compute what it should: {case} ({failed} of {} cases failed); see all by llm-train \
        gpu-check, use device=cpu, or train \
         all the same by gpu.trust=true",
        findings.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_kept_for_its_subject_and_a_failure_is_found_each_time() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let directory = place.path().join("cache");
        let finding = |error: f64| Finding {
            error,
            problem: None,
            bound: 1.0,
            ..super::super::case::broken("norm", Dtype::F32, "3 x 5", "")
        };
        let mut runs = 0;
        let mut tried = |subject: &str, error: f64| {
            kept(Some(&directory), subject, "a card", || {
                runs += 1;
                vec![finding(0.5), finding(error)]
            })
        };
        let line = tried("one", 2.0).expect_err("it fails").to_string();
        assert!(line.contains("norm_f32 at 3 x 5: off by 2.0e0, bound 1.0e0 (1 of 2"), "{line}");
        assert!(tried("one", 2.0).is_err());
        assert!(tried("one", 0.0).is_ok() && tried("one", 2.0).is_ok());
        assert!(tried("another", 2.0).is_err());
        assert_eq!(runs, 4);
    }
}
