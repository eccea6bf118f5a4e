//! Findings for people and for files.

use comfy_table::{Table, presets};

use super::Finding;

/// The columns of [`csv_rows`].
pub const COLUMNS: &str = "kernel,dtype,case,error,bound,verdict";

/// True if all passed and there is at least one.
pub fn passed(findings: &[Finding]) -> bool {
    !findings.is_empty() && findings.iter().all(Finding::passed)
}

/// A line for each, columns aligned; failures say what went wrong below it.
pub fn table(findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["kernel", "dtype", "case", "error", "bound", ""]);
    for f in findings {
        table.add_row([
            f.kernel.to_owned(),
            f.dtype.name().to_owned(),
            f.case.clone(),
            format!("{:.1e}", f.error),
            format!("{:.1e}", f.bound),
            if f.passed() { "ok" } else { "FAIL" }.to_owned(),
        ]);
    }
    let mut text = table.trim_fmt() + "\n";
    for f in findings.iter().filter(|f| !f.passed()) {
        let why =
            f.problem.clone().unwrap_or_else(|| format!("off by {:.3e}, bound {:.3e}", f.error, f.bound));
        text += &format!("FAIL {}_{} at {}: {why}\n", f.kernel, f.dtype.name(), f.case);
    }
    let failed = findings.iter().filter(|f| !f.passed()).count();
    text + &format!("{} cases, {failed} failed\n", findings.len())
}

/// A line of [`COLUMNS`] for each.
pub fn csv_rows(findings: &[Finding]) -> String {
    let line = |f: &Finding| {
        let verdict = match (&f.problem, f.passed()) {
            (_, true) => "ok".to_owned(),
            (Some(problem), _) => format!("\"FAIL: {}\"", problem.replace('"', "'")),
            (None, _) => "FAIL".to_owned(),
        };
        format!("{},{},{},{:.6e},{:.6e},{verdict}\n", f.kernel, f.dtype.name(), f.case, f.error, f.bound)
    };
    findings.iter().map(line).collect()
}
