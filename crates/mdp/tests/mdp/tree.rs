use grpo_lambda_mdp::{RewardKind, Rules, Target, Tree, zoo};

/// `a` and EOS at every prefix, horizon 2: `E`, `a a` (cut), `a E`.
fn small() -> Tree {
    let rules = Rules::new(["a", "E"], 2);
    rules.build(|_| vec![0, 1], |tokens, cut| if cut { 0.25 } else { tokens.len() as f64 / 2.0 }).unwrap()
}

#[test]
fn a_small_tree_by_hand() {
    let tree = small();
    assert_eq!((tree.node_count(), tree.edge_count(), tree.leaf_count()), (2, 4, 3));
    assert_eq!((tree.nodes_at(0), tree.nodes_at(1), tree.nodes_at(2)), (0..1, 1..2, 2..2));
    assert_eq!(tree.max_len(), 2);
    assert_eq!((tree.edges_of(0), tree.edges_of(1)), (0..2, 2..4));
    assert_eq!(tree.target(0), Target::Node(1));
    assert_eq!(tree.target(1), Target::Leaf(0));
    assert_eq!(tree.parent_edge(1), Some(0));
    assert_eq!(tree.parent_edge(0), None);
    assert_eq!(tree.eos_edge(1), Some(3));
    let rows: Vec<_> = tree.leaves().map(|l| (tree.text(&tree.response(l)), tree.leaf_len(l))).collect();
    assert_eq!(rows, [("E".into(), 1), ("a a".into(), 2), ("a E".into(), 2)]);
    assert_eq!(tree.leaves().map(|l| tree.truncated(l)).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(tree.leaves().map(|l| tree.reward(l)).collect::<Vec<_>>(), [0.5, 0.25, 1.0]);
    assert_eq!(tree.path(2), [0, 3]);
    assert_eq!(tree.outcomes(0).collect::<Vec<_>>(), [(0.0, 0.5), (1.0, 0.5)]);
    assert_eq!(tree.outcomes(2).collect::<Vec<_>>(), [(1.0, 1.0)]);
    assert_eq!(tree.find(&[0, 1]), Some(Target::Leaf(2)));
    assert_eq!(tree.find(&[1, 0]), None);
    assert_eq!(tree.find(&[]), Some(Target::Node(0)));
}

#[test]
#[should_panic(expected = "of a Real tree")]
fn a_reward_beyond_the_limit_of_the_builders_is_refused() {
    let rules = Rules { reward_kind: RewardKind::Real, ..Rules::new(["a", "E"], 1) };
    let tree = rules.build(|_| vec![0, 1], |_, _| 1e30).unwrap().with_rewards(|_| -1e30);
    tree.with_rewards(|_| 1e31);
}

#[test]
fn every_zoo_tree_is_consistent() {
    for entry in zoo::all() {
        let tree = (entry.build)();
        let mut leaves = 0;
        for node in tree.nodes() {
            assert_eq!(tree.find(&tree.prefix(node)), Some(Target::Node(node)), "{}", entry.name);
            assert_eq!(tree.prefix(node).len(), tree.depth(node));
            assert!(tree.nodes_at(tree.depth(node)).contains(&node));
            assert!(!tree.edges_of(node).is_empty());
            for edge in tree.edges_of(node) {
                assert_eq!(tree.edge_node(edge), node);
                match tree.target(edge) {
                    Target::Node(child) => assert_eq!(tree.parent_edge(child), Some(edge)),
                    Target::Leaf(leaf) => {
                        assert_eq!(tree.leaf_edge(leaf), edge);
                        assert_eq!(leaf, leaves, "leaves are numbered in edge order");
                        leaves += 1;
                    }
                }
            }
        }
        assert_eq!(leaves, tree.leaf_count());
        for leaf in tree.leaves() {
            let response = tree.response(leaf);
            assert_eq!(tree.find(&response), Some(Target::Leaf(leaf)));
            assert_eq!(response.len(), tree.leaf_len(leaf));
            assert!(!tree.truncated(leaf) || response.len() == tree.horizon());
        }
    }
}
