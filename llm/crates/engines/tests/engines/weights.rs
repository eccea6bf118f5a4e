//! The checkpoints that a run hands over, in a directory that it shares.

use std::fs;

use grpo_lambda_decoder::disk::Disk;
use grpo_lambda_engines::remote::weights::{HandOver, MARK};
use grpo_lambda_trainer::run::read_id;

#[test]
fn a_run_removes_its_own_checkpoints_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let shared = folder.path().join("shared");
    let begun = |number: &str| {
        let run = folder.path().join(number);
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("id"), number).unwrap();
        let mut hand_over = HandOver::new(shared.clone(), run);
        let id = read_id(&Disk::default(), &hand_over.run).unwrap().unwrap();
        let path = hand_over.next(id).unwrap();
        fs::write(path.join("model.safetensors"), "w").unwrap();
        (hand_over, path)
    };
    let (one, two) = ("0123456789abcdef", "fedcba9876543210");
    // Names that are not ours, or ours without the mark, or with that of another run.
    let others = [
        "weights-1/x".to_owned(),
        format!("weights-{one}-x/x"),
        format!("weights-{one}-1/x"),
        format!("weights-{one}-2/{MARK}"),
    ];
    for file in others.iter().map(|file| shared.join(file)) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, two).unwrap();
    }
    // A link to a directory elsewhere, although it has the mark.
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join(MARK), one).unwrap();
    std::os::unix::fs::symlink(&elsewhere, shared.join(format!("weights-{one}-9"))).unwrap();
    let ((killed, left), (neighbour, of_another)) = (begun(one), begun(two));
    assert!(left.ends_with(format!("weights-{one}-3")) && of_another.ends_with(format!("weights-{two}-1")));
    std::mem::forget(killed);
    fs::write(left.join("optimiser"), "o").unwrap();
    let (again, path) = begun(one);
    assert!(path == left && !path.join("optimiser").exists(), "removed and written again");
    drop(again);
    assert!(!left.exists() && of_another.join("model.safetensors").exists());
    drop(neighbour);
    assert!(others.iter().all(|file| fs::read_to_string(shared.join(file)).is_ok_and(|text| text == two)));
    assert_eq!(fs::read_dir(&shared).unwrap().count(), others.len() + 1);
    assert!(elsewhere.join(MARK).exists());
}
