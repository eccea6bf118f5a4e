use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_trainer::run::digest::Digest;

#[test]
fn a_beginning_is_digested_across_pieces() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, disk) = (dir.path().join("log"), Disk::default());
    let bytes: Vec<u8> = (0..(3u32 << 20)).map(|i| i as u8).collect();
    std::fs::write(&path, &bytes).expect("writable");
    for length in [0, 1, 1 << 20, (1 << 20) + 1, 3 << 20] {
        let found = Digest::of_beginning(&disk, &path, length).expect("readable");
        assert_eq!(found, Digest::new(&bytes[..length as usize]), "{length}");
    }
    let absent = Digest::of_beginning(&disk, &dir.path().join("absent"), 5).expect("nothing to read");
    assert_eq!(absent, Digest::default());
}
