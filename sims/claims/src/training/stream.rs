//! The seeds of runs.

/// For what a run is used. Rates are never chosen on the runs that are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To choose a learning rate.
    Selection,
    /// To be reported.
    Report,
}

/// The seed of a run's stream.
///
/// ```text
/// s = mix(mix(mix(seed, phase), fnv1a(MDP)), run),   mix(s, x) = splitmix64(s XOR x)
/// ```
/// Method and learning rate are left out on purpose: run `i` of every method draws from the same ChaCha8 stream (common random
/// numbers), so that all methods see the same first group and differences between methods are paired.
pub(crate) fn stream(seed: u64, phase: Phase, mdp: &str, run: usize) -> u64 {
    let name = mdp.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    [phase as u64, name, run as u64].into_iter().fold(seed, |state, x| splitmix64(state ^ x))
}

/// A bijection of 64-bit numbers that scatters neighbours.
pub(crate) fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_every_part_of_their_name() {
        let base = stream(1, Phase::Report, "fork", 0);
        for other in [
            stream(2, Phase::Report, "fork", 0),
            stream(1, Phase::Selection, "fork", 0),
            stream(1, Phase::Report, "chain", 0),
            stream(1, Phase::Report, "fork", 1),
        ] {
            assert_ne!(base, other);
        }
    }
}
