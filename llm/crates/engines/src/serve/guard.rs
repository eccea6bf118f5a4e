//! Access: whoever is on this machine, or has the token; no web page.

use std::net::IpAddr;

use hyper::Method;
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

use super::error::ApiError;

/// The rules by which a request's head is refused.
pub(super) struct Guard {
    /// The token that requests must carry.
    pub(super) token: Option<String>,
    /// True if only this machine reaches the address. Another address has names that are not known here, and wants the token.
    pub(super) is_local: bool,
}

impl Guard {
    /// Refuses a request that a browser sent for a web page, and one without the token, where there is one.
    pub(super) fn check(&self, head: &Parts) -> Result<(), ApiError> {
        self.check_host(head)?;
        // A page that its user visits could otherwise have the browser, which is on this machine, ask.
        if head.headers.contains_key(ORIGIN) {
            return Err(ApiError::new(
                403,
                "a request with the header Origin comes from a web page, which may not ask",
            ));
        }
        let Some(token) = self.token.as_deref().filter(|_| head.uri.path() != "/health") else {
            return Ok(());
        };
        let given = text(&head.headers, AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        match given {
            Some(given) if same(given.trim().as_bytes(), token.as_bytes()) => Ok(()),
            _ => Err(ApiError::new(401, "the header Authorization: Bearer TOKEN is missing or wrong")),
        }
    }

    /// Refuses another name than this machine's own: whoever owns the name can have it lead here, and a browser then takes their page for ours.
    fn check_host(&self, head: &Parts) -> Result<(), ApiError> {
        let mut hosts = head.headers.get_all(HOST).iter();
        let (host, further) = (hosts.next(), hosts.next());
        if further.is_some() || (host.is_none() && head.version == hyper::Version::HTTP_11) {
            return Err(ApiError::new(400, "a request has one header Host"));
        }
        let named = head.uri.authority().map(|authority| authority.as_str().as_bytes());
        match named.into_iter().chain(host.map(|host| host.as_bytes())).find(|name| !is_loopback(name)) {
            Some(name) if self.is_local => Err(ApiError::new(
                421,
                format!(
                    "Host = {}: this server listens on this machine alone; ask for localhost or 127.0.0.1",
                    String::from_utf8_lossy(name)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Refuses a body that does not say it is JSON.
    pub(super) fn check_type(&self, head: &Parts, body: &Incoming) -> Result<(), ApiError> {
        let kind = text(&head.headers, CONTENT_TYPE).unwrap_or_default();
        let is_json = |kind: &str| kind.trim().eq_ignore_ascii_case("application/json");
        if head.method == Method::GET || body.is_end_stream() || kind.split(';').next().is_some_and(is_json) {
            return Ok(());
        }
        Err(ApiError::new(415, format!("Content-Type = {kind:?}: must be application/json")))
    }
}

/// The text of a header.
fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// True for a name of this machine that no other has; the port may be that of a tunnel.
fn is_loopback(authority: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(authority) else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// True if two byte strings are equal, in a time that does not depend on the place where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (x, y)| different | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::{Guard, same};
    use hyper::http::Request;

    #[test]
    fn a_server_that_others_reach_goes_by_any_name_and_by_its_token() {
        let status = |is_local: bool, token: Option<&str>, host: &str, given: &str| {
            let head = Request::get("/v1/models").header("Host", host).header("Authorization", given);
            let (head, ()) = head.body(()).expect("a request").into_parts();
            Guard { token: token.map(str::to_owned), is_local }
                .check(&head)
                .map_or_else(|e| e.status, |()| 200)
        };
        for (is_local, token, host, given, expected) in [
            (true, None, "localhost:8000", "", 200),
            (true, None, "LOCALHOST", "", 200),
            (true, None, "127.8.8.8:80", "", 200),
            (true, None, "[::1]:9", "", 200),
            (true, None, "rebound.example:8000", "", 421),
            (true, None, "localhost.evil.example", "", 421),
            (true, None, "127.0.0.1.evil.example", "", 421),
            (true, None, "10.0.0.1", "", 421),
            (true, None, "[::2]", "", 421),
            (true, None, "a b", "", 421),
            (true, None, "", "", 421),
            (true, Some("secret"), "rebound.example:8000", "Bearer secret", 421),
            (true, Some("secret"), "localhost", "Bearer secret", 200),
            (false, Some("secret"), "gpu-box:8000", "Bearer secret", 200),
            (false, Some("secret"), "rebound.example:8000", "", 401),
            (false, Some("secret"), "gpu-box:8000", "Bearer secrets", 401),
            (false, Some("secret"), "gpu-box:8000", "secret", 401),
        ] {
            assert_eq!(status(is_local, token, host, given), expected, "{is_local} {token:?} {host} {given}");
        }
    }

    #[test]
    fn equal_is_equal() {
        assert!(same(b"abc", b"abc") && same(b"", b""));
        assert!(!same(b"abc", b"abd") && !same(b"abc", b"ab") && !same(b"", b"a"));
    }
}
