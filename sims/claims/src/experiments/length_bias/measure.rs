//! What is computed.

use super::fixed_length::{FixedLength, fixed_length};
use super::fork::{AtLambda, OfMethod, OracleCredit, Region, by_lambda, methods, oracle_credit, regions};
use super::per_response::{PerResponse, per_response};
use crate::experiment::Context;

pub(super) struct Numbers {
    pub(super) fixed_length: Vec<FixedLength>,
    pub(super) oracle_credit: OracleCredit,
    pub(super) methods: Vec<OfMethod>,
    pub(super) regions: Vec<Region>,
    pub(super) by_lambda: Vec<AtLambda>,
    pub(super) per_response: Vec<PerResponse>,
}

pub(super) fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let fixed_length = fixed_length()?;
    (context.progress)(0.2, "implied credit");
    let oracle_credit = oracle_credit()?;
    (context.progress)(0.3, "methods");
    let methods = methods()?;
    (context.progress)(0.5, "regions");
    let regions = regions(if context.full { 21 } else { 13 })?;
    let by_lambda = by_lambda()?;
    (context.progress)(0.9, "1/T");
    let per_response = per_response(context.seed)?;
    Ok(Numbers { fixed_length, oracle_credit, methods, regions, by_lambda, per_response })
}
