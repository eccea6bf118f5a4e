//! What runs found: read back, drawn, compared, put beside the paper.

pub mod compare;
pub mod control;
pub mod curves;
pub mod doctor;
pub mod export;
pub mod figures;
pub mod record;
pub mod reproduce;
