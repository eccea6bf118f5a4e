//! The place of this process in its team.

use std::time::Duration;

use super::leader::Team;
use super::link::Link;

/// The variables with which launchers tell a process the size of its team: Open MPI, MPICH, Slurm's srun, torchrun.
const VARIABLES: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"];

/// The role of a process in a run.
pub enum Seat {
    /// It trains, with this team.
    Leader(Team),
    /// It works for the leader, whom this reaches.
    Worker(Box<dyn Link>),
}

/// A launcher that started several processes which cannot become a team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    #[error(
        "{variable}={size}: this process was started as one of {size}, and this build works alone: build llm-train with --features mpi, or start it \
         once, without {variable}"
    )]
    NoMpi { variable: &'static str, size: usize },
    #[error(
        "{variable}={size}: this process was started as one of {size}, and MPI knows of one: start llm-train with mpirun -n {size}, or without {variable}"
    )]
    Alone { variable: &'static str, size: usize },
    #[error("MPI cannot be started a second time in one process")]
    Twice,
}

/// The variable that tells of several processes, and how many.
fn told(read: impl Fn(&str) -> Option<String>) -> Option<(&'static str, usize)> {
    let size = |variable: &'static str| Some((variable, read(variable)?.trim().parse().ok()?));
    VARIABLES.into_iter().filter_map(size).find(|(_, size)| *size > 1)
}

/// Takes this process's seat. A worker that does not answer within `patience` ends the run.
///
/// # Errors
/// [`LaunchError`]: when a launcher started several processes, and they would all train the same run.
pub fn join(patience: Duration) -> Result<Seat, LaunchError> {
    match told(|variable| std::env::var(variable).ok()) {
        None => Ok(Seat::Leader(Team::default())),
        Some((variable, size)) => several(variable, size, patience),
    }
}

#[cfg(feature = "mpi")]
fn several(variable: &'static str, size: usize, patience: Duration) -> Result<Seat, LaunchError> {
    let link = super::mpi::Mpi::join(patience).ok_or(LaunchError::Twice)?;
    match (link.rank(), link.size()) {
        (_, 1) => Err(LaunchError::Alone { variable, size }),
        (0, _) => Ok(Seat::Leader(Team::new(Box::new(link)))),
        _ => Ok(Seat::Worker(Box::new(link))),
    }
}

#[cfg(not(feature = "mpi"))]
fn several(variable: &'static str, size: usize, _: Duration) -> Result<Seat, LaunchError> {
    Err(LaunchError::NoMpi { variable, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_processes_are_told_of_by_any_launcher() {
        let with = |name: &'static str, value: &'static str| {
            told(move |variable| (variable == name).then(|| value.to_owned()))
        };
        for variable in VARIABLES {
            assert_eq!(with(variable, "4"), Some((variable, 4)));
            assert_eq!(with(variable, "1"), None);
            assert_eq!(with(variable, "many"), None);
        }
        assert_eq!(with("RANK", "4"), None);
    }
}
