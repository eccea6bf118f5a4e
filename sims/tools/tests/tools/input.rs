use grpo_lambda_tools::input::all;
use std::io;

#[test]
fn what_does_not_end_is_read_to_the_bound_and_no_further() {
    assert_eq!(all(&b"abcd"[..], 4).unwrap(), b"abcd");
    let error = all(io::repeat(0), 1 << 20).unwrap_err().to_string();
    assert_eq!(error, "longer than 1 MiB; must be at most that long");
}
