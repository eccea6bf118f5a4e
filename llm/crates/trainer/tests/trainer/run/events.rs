use grpo_lambda_trainer::run::events::{masked, scalars};

#[test]
fn records_have_the_bytes_tensorboard_reads() {
    // Read back once with tensorboard 2.21: wall_time 1.5, step 300, loss = 0.25 (llm/scripts/read_events.py).
    let record = scalars(1.5, 300, &[("loss".to_owned(), 0.25)]);
    let data = [
        &[0x09][..],
        &1.5f64.to_le_bytes(),
        &[0x10, 0xac, 0x02],
        &[0x2a, 13, 0x0a, 11, 0x0a, 4],
        b"loss",
        &[0x15],
        &0.25f32.to_le_bytes(),
    ]
    .concat();
    assert_eq!(record.len(), 12 + data.len() + 4);
    assert_eq!(record[..8], (data.len() as u64).to_le_bytes());
    assert_eq!(record[12..12 + data.len()], data);
}

#[test]
fn the_checksum_is_castagnoli_rotated_and_shifted() {
    // crc32c of "123456789" is 0xe3069283 (RFC 3720).
    assert_eq!(masked(b"123456789"), 0xe306_9283u32.rotate_right(15).wrapping_add(0xa282_ead8));
}
