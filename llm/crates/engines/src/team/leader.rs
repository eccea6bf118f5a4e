//! [`Team`]: the leader's side of the conversation.

use std::cell::{RefCell, RefMut};

use serde::de::DeserializeOwned;

use super::error::TeamError;
use super::link::{Alone, Link, LinkError};
use super::order::{Order, decode, encode, receive_tensor};

/// The processes that share a run's work, as its leader has them; by default it is alone. Dropped, it sends them home.
pub struct Team {
    link: RefCell<Box<dyn Link>>,
}

impl Default for Team {
    fn default() -> Self {
        Team::new(Box::new(Alone))
    }
}

impl Team {
    /// The team that `link`, the end of process 0, reaches.
    pub fn new(link: Box<dyn Link>) -> Self {
        Team { link: RefCell::new(link) }
    }

    /// The number of processes, this one included.
    pub fn size(&self) -> usize {
        self.link.borrow().size()
    }

    /// The leader's end, for what all do together.
    pub(super) fn link(&self) -> RefMut<'_, Box<dyn Link>> {
        self.link.borrow_mut()
    }

    /// The ranks of the others.
    fn others(&self) -> std::ops::Range<usize> {
        1..self.size()
    }

    fn send(&self, rank: usize, message: &[u8]) -> Result<(), LinkError> {
        self.link().send(rank, message)
    }

    fn receive(&self, rank: usize) -> Result<Vec<u8>, LinkError> {
        self.link().receive(rank)
    }

    /// Gives an order to all.
    pub(super) fn tell_all(&self, order: &Order) -> Result<(), TeamError> {
        self.tell_each(|_| order)
    }

    /// Gives each its own order.
    pub(super) fn tell_each<O: std::borrow::Borrow<Order>>(
        &self,
        order: impl Fn(usize) -> O,
    ) -> Result<(), TeamError> {
        for rank in self.others() {
            let order = order(rank);
            let order: &Order = order.borrow();
            self.send(rank, &encode(order))?;
        }
        Ok(())
    }

    /// Sends a tensor to all.
    pub(super) fn send_tensor(&self, numbers: &[f32]) -> Result<(), TeamError> {
        self.others().try_for_each(|rank| self.send_tensor_to(rank, numbers))
    }

    /// Sends a tensor to one.
    pub(super) fn send_tensor_to(&self, rank: usize, numbers: &[f32]) -> Result<(), TeamError> {
        Ok(self.send(rank, bytemuck::cast_slice(numbers))?)
    }

    /// Asks one process for so many numbers.
    pub(super) fn ask(&self, rank: usize, order: &Order, len: usize) -> Result<Vec<f32>, TeamError> {
        self.send(rank, &encode(order))?;
        Ok(receive_tensor(&mut **self.link(), rank, len)?)
    }

    /// Takes all answers, by rank from 1, even after a failure, so that nobody is left talking.
    pub(super) fn hear_all<T: DeserializeOwned>(&self) -> Result<Vec<T>, TeamError> {
        let answers: Vec<Result<T, TeamError>> = self.others().map(|rank| self.hear(rank)).collect();
        answers.into_iter().collect()
    }

    fn hear<T: DeserializeOwned>(&self, rank: usize) -> Result<T, TeamError> {
        let failed = |reason| TeamError::Failed { rank, reason };
        decode::<Result<T, String>>(&self.receive(rank)?).and_then(|answer| answer).map_err(failed)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for rank in self.others() {
            // Who is gone already needs no goodbye.
            drop(self.send(rank, &encode(&Order::End)));
        }
    }
}
