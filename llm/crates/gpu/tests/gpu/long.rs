//! Scale of the tests on the PTX machine: all that is long takes half an hour, which `LONG_TESTS=all` asks for.

/// `part` of something long, or `all` of it.
pub(crate) fn of<T>(part: T, all: T) -> T {
    if std::env::var_os("LONG_TESTS").is_some_and(|value| value == "all") { all } else { part }
}
