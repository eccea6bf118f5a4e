//! The words of the command line.

/// The words of the command line; bytes that are no text are shown as such.
pub(crate) fn words() -> impl ExactSizeIterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}
