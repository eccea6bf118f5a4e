//! The direction of the expected update against the horizon: towards the reward, and towards longer responses.

mod horizon;
mod lumped;

pub use horizon::{ARMS, Arm, CLAMP, GROUP, HORIZONS, POLICIES, Point, at_horizon, sweep};
