//! Two clocks: one on the wall, and the processor's.

use std::time::Instant;

use cpu_time::ProcessTime;

/// Measurements by two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clocked<T> {
    /// By the clock on the wall: time that passed.
    pub wall: T,
    /// By the processor's clock: time that all threads of this process computed.
    pub cpu: T,
}

impl<T> Clocked<T> {
    /// `f` of each clock's part of both.
    pub fn with<U, V>(self, other: Clocked<U>, f: impl Fn(T, U) -> V) -> Clocked<V> {
        Clocked { wall: f(self.wall, other.wall), cpu: f(self.cpu, other.cpu) }
    }

    /// `f` of each clock's part.
    pub fn map<V>(&self, f: impl Fn(&T) -> V) -> Clocked<V> {
        Clocked { wall: f(&self.wall), cpu: f(&self.cpu) }
    }
}

/// A point in time by both clocks.
#[derive(Clone, Copy)]
pub struct Moment(Instant, ProcessTime);

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        Moment(Instant::now(), ProcessTime::now())
    }

    /// Seconds since then.
    pub fn elapsed(self) -> Clocked<f64> {
        Clocked { wall: self.0.elapsed().as_secs_f64(), cpu: self.1.elapsed().as_secs_f64() }
    }
}
