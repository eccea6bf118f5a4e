//! Keys of the method's settings.

pub(super) const METHOD: &str = "method.";
pub(super) const METHOD_NAME: &str = "method.name";
