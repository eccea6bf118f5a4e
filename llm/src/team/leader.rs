//! [`Team`]: the leader's side of the conversation.

use std::cell::RefCell;

use serde::de::DeserializeOwned;

use super::error::TeamError;
use super::link::{Link, LinkError};
use super::order::{Order, decode, encode, numbers};

/// The processes that share a run's work, as its leader has them; by default it is alone. Dropped, it sends them home.
#[derive(Default)]
pub struct Team {
    link: Option<RefCell<Box<dyn Link>>>,
}

impl Team {
    /// The team that `link`, the end of process 0, reaches.
    pub fn new(link: Box<dyn Link>) -> Self {
        Team { link: Some(RefCell::new(link)) }
    }

    /// How many processes there are, this one included.
    pub fn size(&self) -> usize {
        self.link.as_ref().map_or(1, |link| link.borrow().size())
    }

    /// The ranks of the others.
    fn others(&self) -> std::ops::Range<usize> {
        1..self.size()
    }

    fn send(&self, rank: usize, message: &[u8]) -> Result<(), LinkError> {
        self.link.as_ref().map_or(Ok(()), |link| link.borrow_mut().send(rank, message))
    }

    fn receive(&self, rank: usize) -> Result<Vec<u8>, LinkError> {
        let nobody = || LinkError { rank, reason: "does not exist".to_owned() };
        self.link.as_ref().ok_or_else(nobody)?.borrow_mut().receive(rank)
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
        Ok(self.others().try_for_each(|rank| self.send(rank, bytemuck::cast_slice(numbers)))?)
    }

    /// What all answer, by rank from 1. Every answer is taken even after a failure, so that nobody is left talking.
    pub(super) fn hear_all<T: DeserializeOwned>(&self) -> Result<Vec<T>, TeamError> {
        let answers: Vec<Result<T, TeamError>> = self.others().map(|rank| self.hear(rank)).collect();
        answers.into_iter().collect()
    }

    fn hear<T: DeserializeOwned>(&self, rank: usize) -> Result<T, TeamError> {
        let failed = |reason| TeamError::Failed { rank, reason };
        decode::<Result<T, String>>(&self.receive(rank)?).and_then(|answer| answer).map_err(failed)
    }

    /// The numbers of every process from 1 on.
    pub(super) fn hear_tensors(&self) -> Result<Vec<Vec<f32>>, TeamError> {
        self.others().map(|rank| Ok(numbers(&self.receive(rank)?))).collect()
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
