//! Tables of cases, as those in `refused/`.

/// The cases of a table: a command line, or what its test makes one of; the lines that begin with `<`, which are its standard input; and below it,
/// indented by four blanks, what is expected. Empty lines and those that begin with `#` say nothing.
///
/// # Panics
/// If a line is of no case, or there is none.
pub(crate) fn cases(table: &str) -> Vec<(&str, String, &str)> {
    let (mut all, mut next, mut stdin) = (Vec::new(), None, String::new());
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match (line.strip_prefix("    "), line.strip_prefix("< ")) {
            (Some(expected), _) => {
                let case = next.take().unwrap_or_else(|| panic!("expected of nothing: {line:?}"));
                all.push((case, std::mem::take(&mut stdin), expected));
            }
            (None, Some(more)) => stdin += &format!("{more}\n"),
            (None, None) => assert_eq!(next.replace(line), None, "expects nothing, before {line:?}"),
        }
    }
    assert!(next.is_none() && stdin.is_empty() && !all.is_empty(), "{next:?} and {stdin:?} are left");
    all
}
