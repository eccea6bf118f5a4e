use grpo_lambda_trainer::input::hub::{RepositoryKind, is_hub_name, snapshot};

#[test]
fn a_model_is_found_next_to_a_data_set_of_its_name_and_its_absence_says_how_to_get_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let missing = |kind| snapshot(kind, "Qwen/Qwen2.5-0.5B", dir.path()).expect_err("absent");
    let model = missing(RepositoryKind::Model);
    assert!(model.contains("`hf download Qwen/Qwen2.5-0.5B`"), "{model}");
    assert!(missing(RepositoryKind::Dataset).contains("`hf download --repo-type dataset Qwen/"));
    let there = dir.path().join("models--Qwen--Qwen2.5-0.5B/snapshots/abc");
    std::fs::create_dir_all(&there).expect("writable");
    assert_eq!(snapshot(RepositoryKind::Model, "Qwen/Qwen2.5-0.5B", dir.path()), Ok(there));
    missing(RepositoryKind::Dataset);
    let other = dir.path().join("models--Qwen--Qwen2.5-0.5B/snapshots/def");
    std::fs::create_dir(&other).expect("writable");
    assert!(missing(RepositoryKind::Model).contains("2 snapshots in"));
    std::fs::remove_dir(other).expect("empty");
    // A name of a snapshot that is not there yet: an older one is not taken for it.
    let refs = dir.path().join("models--Qwen--Qwen2.5-0.5B/refs");
    std::fs::create_dir_all(&refs).expect("writable");
    std::fs::write(refs.join("main"), "def\n").expect("writable");
    let under_way = missing(RepositoryKind::Model);
    assert!(under_way.contains("refs/main names the snapshot def, which is not in"), "{under_way}");
}

#[test]
fn a_name_of_the_hub_has_two_plain_parts() {
    assert!(is_hub_name("openai/gsm8k") && is_hub_name("Qwen/Qwen2.5-0.5B"));
    assert!(!["gsm8k", "/no/such", "a/b/c", "./x", "a b/c", ""].iter().any(|text| is_hub_name(text)));
}
