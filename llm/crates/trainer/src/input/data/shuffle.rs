//! The order in which a data set is read: every row once an epoch, each epoch in another order.

use std::sync::{Arc, Mutex, PoisonError};

use grpo_lambda_decoder::rng::{Address, Purpose, below};

/// The order of `rows` rows in `epoch` under `seed`: a permutation of `0..rows`, drawn uniformly (Fisher-Yates) from the stream at
/// (seed, epoch), and a pure function of the three.
///
/// ```
/// use grpo_lambda_trainer::input::data::permutation;
/// let mut order = permutation(7, 0, 5);
/// assert_eq!(order, permutation(7, 0, 5));
/// order.sort_unstable();
/// assert_eq!(order, [0, 1, 2, 3, 4]);
/// ```
pub fn permutation(seed: u64, epoch: u64, rows: u32) -> Vec<u32> {
    let mut rng = Address::new(seed, Purpose::Order).step(epoch).generator(0);
    let mut order: Vec<u32> = (0..rows).collect();
    for last in (1..order.len()).rev() {
        let other = below(&mut rng, last as u64 + 1) as usize;
        order.swap(last, other);
    }
    order
}

/// Epochs one after the other: position `p` is row `order(epoch)[p mod n]` of epoch `first + p / n`.
///
/// Keeps the order of the epoch it was last asked for, 4 bytes a row; what it answers does not depend on that.
#[derive(Debug)]
pub struct Shuffled {
    seed: u64,
    rows: u32,
    first: u64,
    kept: Mutex<Option<(u64, Arc<[u32]>)>>,
}

impl Shuffled {
    /// The order of `rows` rows under `seed`, from the epoch `first` on.
    ///
    /// # Panics
    /// If there is no row.
    pub fn new(seed: u64, rows: u32, first: u64) -> Shuffled {
        assert!(rows > 0, "an order needs a row");
        Shuffled { seed, rows, first, kept: Mutex::new(None) }
    }

    /// The row at a position, from 0 on through all epochs.
    pub fn at(&self, position: u64) -> usize {
        let rows = u64::from(self.rows);
        let (epoch, place) = (self.first + position / rows, position % rows);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let order = match &*kept {
            Some((of, order)) if *of == epoch => order.clone(),
            _ => {
                let order: Arc<[u32]> = permutation(self.seed, epoch, self.rows).into();
                *kept = Some((epoch, order.clone()));
                order
            }
        };
        order[place as usize] as usize
    }

    /// The rows from a position on, without end.
    pub fn from(&self, position: u64) -> impl Iterator<Item = usize> + '_ {
        (position..).map(|p| self.at(p))
    }
}
