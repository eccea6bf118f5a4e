//! Findings for people and for files.

use comfy_table::{Table, presets};

use super::Finding;

/// The columns of [`csv_rows`].
pub const COLUMNS: &str = "kernel,dtype,case,error,bound,seconds,gb_per_s,tflop_per_s,verdict";

/// True if all passed and there is at least one.
pub fn passed(findings: &[Finding]) -> bool {
    !findings.is_empty() && findings.iter().all(Finding::passed)
}

fn rates(f: &Finding) -> [Option<f64>; 2] {
    let rate = |amount: f64, unit: f64| f.seconds.filter(|_| amount > 0.0).map(|s| amount / s / unit);
    [rate(f.bytes, 1e9), rate(f.operations, 1e12)]
}

/// A line for each, columns aligned; failures say what went wrong below it.
pub fn table(findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["kernel", "dtype", "case", "error", "bound", "us", "GB/s", "TFLOP/s", ""]);
    for f in findings {
        let [bytes, operations] = rates(f);
        let shown = |x: Option<f64>, digits: usize| x.map_or(String::new(), |x| format!("{x:.digits$}"));
        table.add_row([
            f.kernel.to_owned(),
            f.dtype.name().to_owned(),
            f.case.clone(),
            format!("{:.1e}", f.error),
            format!("{:.1e}", f.bound),
            shown(f.seconds.map(|s| s * 1e6), 1),
            shown(bytes, 0),
            shown(operations, 1),
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
        let [bytes, operations] = rates(f);
        let shown = |x: Option<f64>| x.map_or(String::new(), |x| format!("{x:.6e}"));
        let verdict = match (&f.problem, f.passed()) {
            (_, true) => "ok".to_owned(),
            (Some(problem), _) => format!("\"FAIL: {}\"", problem.replace('"', "'")),
            (None, _) => "FAIL".to_owned(),
        };
        format!(
            "{},{},{},{:.6e},{:.6e},{},{},{},{verdict}\n",
            f.kernel,
            f.dtype.name(),
            f.case,
            f.error,
            f.bound,
            shown(f.seconds),
            shown(bytes),
            shown(operations)
        )
    };
    findings.iter().map(line).collect()
}
