//! Integers of any size, compared as text: the answers of training, and the shortest way for the commonest answer.

/// The canonical spelling of `12`, `-7`, `+3`, `007`, `$12$`, and with thousands commas of `1,234`, not `0,125`.
pub(super) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix('$').and_then(|t| t.strip_suffix('$')).unwrap_or(text).trim();
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let digits_only = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    let mut groups = unsigned.split(',');
    let first = groups.next().filter(|group| digits_only(group))?;
    let leads = first.len() <= 3 && !first.starts_with('0');
    if !groups.all(|group| leads && group.len() == 3 && digits_only(group)) {
        return None;
    }
    Some(match unsigned.replace(',', "").trim_start_matches('0') {
        "" => "0".to_owned(),
        digits if text.starts_with('-') => format!("-{digits}"),
        digits => digits.to_owned(),
    })
}
