use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use grpo_lambda_trainer::run::adapter_base::{AdapterBase, FILE};

fn weights(data: [f32; 2], shape: [usize; 2]) -> Parameters<f32> {
    Parameters::from([("w".to_owned(), Tensor { shape: shape.to_vec(), data: data.to_vec() })])
}

#[test]
fn a_checksum_tells_numbers_shapes_and_names_apart_and_survives_its_file() {
    let one = AdapterBase::new(&weights([1.0, 2.0], [1, 2]));
    assert_eq!(one, AdapterBase::new(&weights([1.0, 2.0], [1, 2])));
    assert_ne!(one, AdapterBase::new(&weights([1.0, 2.000_000_2], [1, 2])));
    assert_ne!(one, AdapterBase::new(&weights([1.0, 2.0], [2, 1])));
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(AdapterBase::read(dir.path()).expect("nothing to read"), None);
    std::fs::write(dir.path().join(FILE), one.to_bytes()).expect("written");
    assert_eq!(AdapterBase::read(dir.path()).expect("its own file"), Some(one));
    std::fs::write(dir.path().join(FILE), "{").expect("written");
    AdapterBase::read(dir.path()).expect_err("no JSON");
}
