use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::eval::origin::{CONFIG, Origin};

#[test]
fn the_run_is_found_from_its_directory_and_from_anything_in_its_checkpoints() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = dir.path().join("run");
    let step = run.join("checkpoints/step-00000003");
    std::fs::create_dir_all(step.join("reference")).expect("writable");
    let written = Config::resolve("tiny", &["task.kind=addition"]).expect("valid");
    std::fs::write(run.join(CONFIG), written.to_toml()).expect("writable");
    for model in [run.clone(), step.clone(), step.join("reference")] {
        let origin = Origin::find(&model).expect("readable").expect("of a run");
        assert_eq!((origin.run, origin.config), (run.clone(), written.clone()));
    }
    // A copy of a checkpoint knows no run, nor does a directory that has its own configuration.
    let copy = dir.path().join("copy/step-00000003");
    std::fs::create_dir_all(&copy).expect("writable");
    assert!(Origin::find(&copy).expect("nothing to read").is_none());
    std::fs::write(copy.join("config.json"), "{}").expect("writable");
    std::fs::write(copy.join(CONFIG), "[tool.mine]").expect("writable");
    assert!(Origin::find(&copy).expect("nothing to read").is_none());
    std::fs::write(run.join(CONFIG), "[tool.mine]\nx = 1").expect("writable");
    Origin::find(&step).expect_err("a run whose configuration is not one");
}

#[test]
#[cfg(unix)]
fn links_to_checkpoints_and_of_checkpoints_lead_to_the_run() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (run, elsewhere) = (dir.path().join("run"), dir.path().join("elsewhere"));
    std::fs::create_dir_all(run.join("checkpoints/step-00000001")).expect("writable");
    std::fs::create_dir_all(&elsewhere).expect("writable");
    std::fs::write(run.join(CONFIG), "").expect("writable");
    symlink(run.join("checkpoints/step-00000001"), dir.path().join("best")).expect("a link");
    symlink(&elsewhere, run.join("checkpoints/step-00000002")).expect("a link");
    let best = Origin::directory(&dir.path().join("best")).expect("of a run");
    assert_eq!(best, run.canonicalize().expect("there"));
    assert_eq!(Origin::directory(&run.join("checkpoints/step-00000002")), Some(run));
}
