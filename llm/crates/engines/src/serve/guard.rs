//! Access: whoever is on this machine, or has the token; no web page.

use tiny_http::{Header, Method, Request};

use super::error::ApiError;

/// The header `name` of a request.
fn header<'r>(request: &'r Request, name: &'static str) -> Option<&'r str> {
    let named = |h: &&Header| h.field.equiv(name);
    request.headers().iter().find(named).map(|h| h.value.as_str())
}

/// Refuses a request without the token, where there is one, and every request that a browser sent for a web page.
pub(super) fn check(request: &Request, path: &str, token: Option<&str>) -> Result<(), ApiError> {
    // A page that its user visits could otherwise have the browser, which is on this machine, ask.
    if header(request, "Origin").is_some() {
        return Err(ApiError::new(
            403,
            "a request with the header Origin comes from a web page, which may not ask",
        ));
    }
    let Some(token) = token.filter(|_| path != "/health") else { return Ok(()) };
    let given = header(request, "Authorization").and_then(|value| value.strip_prefix("Bearer "));
    match given {
        Some(given) if same(given.trim().as_bytes(), token.as_bytes()) => Ok(()),
        _ => Err(ApiError::new(401, "the header Authorization: Bearer TOKEN is missing or wrong")),
    }
}

/// Refuses a body that does not say it is JSON.
pub(super) fn check_type(request: &Request) -> Result<(), ApiError> {
    let kind = header(request, "Content-Type").unwrap_or_default();
    let bodyless = *request.method() == Method::Get || request.body_length() == Some(0);
    if bodyless
        || kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
    {
        return Ok(());
    }
    Err(ApiError::new(415, format!("Content-Type = {kind:?}: must be application/json")))
}

/// True if two byte strings are equal, in a time that does not depend on the place where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (x, y)| different | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn equal_is_equal() {
        assert!(same(b"abc", b"abc") && same(b"", b""));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"ab") && !same(b"", b"a"));
    }
}
