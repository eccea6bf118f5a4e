//! Names of settings in TRL and verl with ours, which the refusal of theirs states.

/// Every name of theirs and what stands for it here; one that both trainers have means the same in both.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("foreign.txt").lines();
    let entry = |line: &'static str| line.split_once(": ").expect("a test reads the compiled-in file");
    lines.filter(|line| !line.starts_with('#')).map(entry)
}

/// A hint for another trainer's key, ` (.. here it is ..)`; by a name of several parts alone, if that is asked for.
pub(super) fn hint(key: &str, of_parts: bool) -> Option<String> {
    let key = key.trim_start_matches('-').replace('-', "_");
    // The longest name fits best: `rollout.n` rather than `n`.
    let fits = |theirs: &str| key == theirs || key.ends_with(&format!(".{theirs}"));
    let found = names().filter(|(theirs, _)| fits(theirs) && (!of_parts || theirs.contains('.')));
    let (_, ours) = found.max_by_key(|(theirs, _)| theirs.len())?;
    Some(format!(" (a name of TRL or verl; here it is {ours})"))
}
