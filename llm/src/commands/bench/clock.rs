//! Time by the wall and by the processors, and an observer that takes it.

use std::cell::Cell;
use std::time::Instant;

use cpu_time::ProcessTime;
use grpo_lambda_gpu::DeviceError;

use grpo_lambda_trainer::step::{Observer, Phase};

/// Seconds of the wall and of all threads' processors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seconds {
    pub(super) wall: f64,
    pub(super) cpu: f64,
}

impl Seconds {
    pub(super) fn plus(self, other: Seconds) -> Seconds {
        Seconds { wall: self.wall + other.wall, cpu: self.cpu + other.cpu }
    }

    pub(super) fn minus(self, other: Seconds) -> Seconds {
        Seconds { wall: self.wall - other.wall, cpu: self.cpu - other.cpu }
    }
}

/// Since it was started.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    wall: Instant,
    cpu: ProcessTime,
}

impl Clock {
    pub(super) fn start() -> Self {
        Clock { wall: Instant::now(), cpu: ProcessTime::now() }
    }

    pub(super) fn read(self) -> Seconds {
        Seconds { wall: self.wall.elapsed().as_secs_f64(), cpu: self.cpu.elapsed().as_secs_f64() }
    }
}

/// The time of the phases of a step that stand for themselves.
pub(super) struct Stopwatch {
    phase: Cell<Clock>,
    pub(super) generate: Cell<Seconds>,
    pub(super) backward: Cell<Seconds>,
    pub(super) optimizer: Cell<Seconds>,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        let none = || Cell::new(Seconds::default());
        Stopwatch { phase: Cell::new(Clock::start()), generate: none(), backward: none(), optimizer: none() }
    }
}

impl Observer for Stopwatch {
    fn begin(&self, _: Phase) {
        self.phase.set(Clock::start());
    }

    fn end(&self, phase: Phase) -> Result<(), DeviceError> {
        let took = match phase {
            Phase::Sample => &self.generate,
            Phase::Backward => &self.backward,
            Phase::Optimiser => &self.optimizer,
            Phase::Reference | Phase::Evidence | Phase::Forward => return Ok(()),
        };
        took.set(took.get().plus(self.phase.get().read()));
        Ok(())
    }
}
