use super::pattern::{Pattern, best};

#[test]
fn the_most_specific_match_wins() {
    let open = |fixed: &[u32]| Pattern { fixed: fixed.to_vec(), open: true };
    let exact = |fixed: &[u32]| Pattern { fixed: fixed.to_vec(), open: false };
    let patterns = [open(&[]), open(&[1]), exact(&[1, 2]), open(&[1, 2]), exact(&[])];
    assert_eq!(best(&patterns, &[1, 2]), Some(2));
    assert_eq!(best(&patterns, &[1, 2, 3]), Some(3));
    assert_eq!(best(&patterns, &[1, 3]), Some(1));
    assert_eq!(best(&patterns, &[1]), Some(1));
    assert_eq!(best(&patterns, &[0]), Some(0));
    assert_eq!(best(&patterns, &[]), Some(4));
    assert_eq!(best(&patterns[1..4], &[0]), None);
}
