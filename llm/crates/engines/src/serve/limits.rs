//! The limits that every server has; those that a user sets are fields of [`super::ServeSettings`]. docs/engines.md lists both.

use std::time::Duration;

/// Bytes of a request line with its headers.
pub(super) const HEAD: usize = 16 << 10;
/// Headers of a request.
pub(super) const HEADERS: usize = 64;
/// Connections whose client is waited for. One more takes the place of the one that has been waited for longest.
pub(super) const CONNECTIONS: usize = 128;
/// The time in which a request's head arrives.
pub(super) const HEAD_TIME: Duration = Duration::from_secs(10);
/// The time in which its body arrives.
pub(super) const BODY_TIME: Duration = Duration::from_secs(30);
/// The time in which the client takes the answer.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(60);
/// The time for which bytes of a refused body are taken and thrown away, so that its client reads the refusal.
pub(super) const LINGER: Duration = Duration::from_secs(1);
/// The time that requests in the queue have to end after a signal.
pub(super) const GRACE: Duration = Duration::from_secs(30);
/// Prompts of a request.
pub(super) const PROMPTS: usize = 1024;
/// Bytes of a prompt's text for each token of the model's context; longer texts are not tokenised.
pub(super) const BYTES_PER_TOKEN: usize = 64;
/// Stop strings of a request.
pub(super) const STOPS: usize = 64;
/// Bytes of a stop string: so many tokens are decoded and searched after each new one.
pub(super) const STOP_BYTES: usize = 256;
/// Stop tokens of a request.
pub(super) const STOP_TOKENS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_limit() {
        let page = include_str!("../../../../../docs/engines.md");
        let seconds = |time: Duration| format!("{} s", time.as_secs());
        for (limit, value) in [
            ("request line with headers", format!("{} KiB", HEAD >> 10)),
            ("headers", HEADERS.to_string()),
            ("time in which they arrive", seconds(HEAD_TIME)),
            ("time in which the body arrives", seconds(BODY_TIME)),
            ("time in which the client takes the answer", seconds(ANSWER_TIME)),
            ("connections that send a request or take an answer", CONNECTIONS.to_string()),
            ("prompts", PROMPTS.to_string()),
            ("text of a prompt", format!("{BYTES_PER_TOKEN} bytes for each token of the context")),
            ("stop strings", format!("{STOPS}, of {STOP_BYTES} bytes")),
            ("stop tokens", STOP_TOKENS.to_string()),
            ("time for requests in the queue after SIGTERM or SIGINT", seconds(GRACE)),
        ] {
            assert!(page.contains(&format!("| {limit} | {value} |")), "{limit} | {value}");
        }
    }
}
