//! Scale of the tests: `cargo test` and `cargo test-all` do a part of what is long, `LONG_TESTS=1 cargo test-all` all of it but on the PTX machine, as CI does.

/// `part` of something long, or `all` of it.
pub(crate) fn of<T>(part: T, all: T) -> T {
    let long = std::env::var_os("LONG_TESTS").is_some_and(|value| !value.is_empty() && value != "0");
    if long { all } else { part }
}
