//! A request that is refused: `{"error": {"message", "type", "param", "code"}}`, as vLLM and OpenAI answer.

use serde_json::{Value, json};

use crate::remote::cut;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: u16,
    pub(super) message: String,
    /// The field it is about.
    pub(super) field: Option<String>,
}

impl ApiError {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        ApiError { status, message: message.into(), field: None }
    }

    /// A failure of this program.
    pub(super) fn internal(why: impl std::fmt::Display) -> Self {
        ApiError::new(500, why.to_string())
    }

    /// A field with a value that cannot be served.
    pub(super) fn field(field: &str, message: impl Into<String>) -> Self {
        ApiError { status: 400, message: message.into(), field: Some(field.to_owned()) }
    }

    pub(super) fn body(&self) -> Value {
        let kind = match self.status {
            400 | 413 | 415 | 421 => "BadRequestError",
            401 | 403 => "AuthenticationError",
            404 | 405 => "NotFoundError",
            429 => "RateLimitError",
            _ => "InternalServerError",
        };
        // Field names and values are the client's words, of any length.
        let (message, field) = (cut(&self.message, 1000), self.field.as_deref().map(|field| cut(field, 80)));
        json!({"error": {"message": message, "type": kind, "param": field, "code": self.status}})
    }
}
