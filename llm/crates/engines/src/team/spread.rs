//! The exchange of weights that have moved.

use grpo_lambda_decoder::model::Decoder;
use grpo_lambda_decoder::model::weights::Parameters;

use super::link::{Link, LinkError};
use super::order::receive_tensor;
use super::owners::Owners;

/// Gives every process every trained tensor as its owner has it: as `moved` says, or else as the owner's model has it. Every process calls it.
///
/// Each makes its transfers in the order of (tensor, receiver): as in the sum of gradients, nobody waits in a circle.
pub(super) fn spread<'w>(
    model: &mut Decoder<f32>,
    link: &mut dyn Link,
    owners: &Owners,
    moved: impl Fn(&str) -> Option<&'w [f32]>,
) -> Result<(), LinkError> {
    let mut done = Ok(());
    model.update(|parameters| done = exchange(parameters, link, owners, moved));
    done
}

fn exchange<'w>(
    parameters: &mut Parameters<f32>,
    link: &mut dyn Link,
    owners: &Owners,
    moved: impl Fn(&str) -> Option<&'w [f32]>,
) -> Result<(), LinkError> {
    for (name, owner) in owners.iter() {
        let Some(tensor) = parameters.get_mut(name) else { continue };
        if owner != link.rank() {
            tensor.data = receive_tensor(link, owner, tensor.data.len())?;
            continue;
        }
        if let Some(weights) = moved(name) {
            tensor.data.copy_from_slice(weights);
        }
        for rank in (0..link.size()).filter(|rank| *rank != owner) {
            link.send(rank, bytemuck::cast_slice(&tensor.data))?;
        }
    }
    Ok(())
}
