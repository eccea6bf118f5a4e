mod fit;
mod scores;

use grpo_lambda_mdp::zoo::Family;
use grpo_lambda_mdp::{Maskable, zoo};

#[test]
fn the_mask_has_an_embedding_of_its_own() {
    let tree = zoo::Chain::default().tree().unwrap();
    let policy = Maskable::random(&tree, 3, 1.0, 1);
    assert_eq!(policy.embeddings.len(), tree.tokens().len() + 1);
    assert_eq!((policy.gains.len(), policy.output.len()), (tree.horizon(), tree.tokens().len()));
}
