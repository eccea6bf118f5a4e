//! The words of the command line.

/// The command line as one text, for the files that name it.
pub(crate) fn line() -> String {
    words().collect::<Vec<_>>().join(" ")
}

/// The words of the command line; bytes that are no text are shown as such.
pub(crate) fn words() -> impl ExactSizeIterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}
