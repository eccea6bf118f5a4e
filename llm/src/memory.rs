//! How much memory this process has used.

/// The largest resident size so far, in MiB, where the system tells (Linux).
pub fn peak_rss_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}
