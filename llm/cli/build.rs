//! Text of `llm-train --version` besides the number: the commit, and the features that were switched on.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"));
    let features: Vec<&str> = ["candle", "candle-cuda", "candle-metal", "cuda"]
        .into_iter()
        .filter(|name| std::env::var_os(variable(name)).is_some())
        .collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    println!("cargo:rustc-env=LLM_TRAIN_FEATURES={features}");
    println!("cargo:rustc-env=LLM_TRAIN_COMMIT={}", commit());
}

/// The commit of a release build; a development build would be compiled again with every commit to know it.
fn commit() -> String {
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return "development build".to_owned();
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if let Some(head) = git(&["rev-parse", "--git-path", "HEAD"]) {
        println!("cargo:rerun-if-changed={head}");
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    let commit = git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    if changed { format!("{commit}, changed") } else { commit }
}
