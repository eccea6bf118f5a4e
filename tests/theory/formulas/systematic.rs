use grpo_lambda::systematic::{Code, Sets};

#[test]
fn members_are_the_places_of_a_set() {
    for size in 1..12 {
        for sets in [Sets::new(1), Sets::new(2), Sets::new(3), Sets::SINGLE] {
            let mut next = 0;
            for set in 0..sets.count(size) {
                let members = sets.members(set, size);
                assert_eq!(members.start, next);
                assert!(!members.is_empty() && members.clone().all(|place| sets.set_of(place, size) == set));
                next = members.end;
            }
            assert_eq!(next, size);
        }
    }
}

#[test]
fn a_code_is_used_up_after_24_bits_and_then_asks_for_fresh_numbers() {
    let mut code = Code::new(1.0 / 3.0);
    let mut asked = 0;
    let fresh = |asked: &mut usize| {
        *asked += 1;
        0.9
    };
    let tokens: Vec<usize> = (0..30).map(|_| code.token(&[1.0, 1.0], || fresh(&mut asked))).collect();
    // A third is 0.0101.. in binary, and 0.9 takes the upper half.
    assert_eq!(tokens[..25], (0..25).map(|t| t % 2).collect::<Vec<_>>());
    assert_eq!((&tokens[25..], asked), (&[1; 5][..], 5));
}

#[test]
fn the_ends_of_the_unit_interval_are_inside_the_outermost_tokens_of_positive_weight() {
    for (number, token) in [(0.0, 1), (1.0 - f64::EPSILON / 2.0, 2)] {
        let mut code = Code::new(number);
        // Ten tokens of probability 0.3 leave some of the 24 bits.
        for _ in 0..10 {
            assert_eq!(code.token(&[0.0, 0.3, 0.7, 0.0], || unreachable!()), token);
        }
    }
}
