use grpo_lambda_trainer::plan::cards::of_driver;

#[test]
fn a_card_is_known_by_its_drivers_name_and_not_taken_for_another() {
    let found = |name: &str| of_driver(name).map(|a| a.name);
    assert_eq!(found("NVIDIA H100 80GB HBM3"), Some("h100"));
    assert_eq!(found("NVIDIA H200"), Some("h200"));
    assert_eq!(found("NVIDIA A100-SXM4-80GB"), Some("a100"));
    for other in ["NVIDIA H100 PCIe", "NVIDIA A100-SXM4-40GB", "NVIDIA H200 NVL", "NVIDIA GH200 480GB"] {
        assert_eq!(found(other), None, "{other}");
    }
}
