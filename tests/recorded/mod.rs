//! Recorded numbers of other programs: files under gzip, and long tensors as a sketch.

use std::path::Path;

use flate2::read::GzDecoder;

/// The content of a recorded file, without its compression if its name ends in `gz`.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if path.extension().is_none_or(|ending| ending != "gz") {
        return bytes;
    }
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut GzDecoder::new(&bytes[..]), &mut whole).expect("gzip");
    whole
}

/// Numbers of a sketch.
const SKETCH: usize = 64;

/// Signed sums of `x`, or `x` itself where it is no longer than they are: as `llm/crates/decoder/tests/fixtures/sketch.py` records them.
///
/// Each number goes with a sign into one of the sums, both by a hash of its place. A difference between two arrays, in one number or in all, is a
/// difference of the same norm between their sketches up to a tenth or so.
pub(crate) fn sketch(x: &[f32]) -> Vec<f64> {
    if x.len() <= SKETCH {
        return x.iter().map(|x| f64::from(*x)).collect();
    }
    let mut sums = vec![0.0; SKETCH];
    for (i, x) in x.iter().enumerate() {
        let mut hash = (i as u32 + 1).wrapping_mul(0x9e37_79b1);
        hash = (hash ^ hash >> 15).wrapping_mul(0x85eb_ca77);
        hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae3d);
        hash ^= hash >> 16;
        let sign = if hash & 64 == 0 { 1.0 } else { -1.0 };
        sums[hash as usize % SKETCH] += sign * f64::from(*x);
    }
    sums
}
