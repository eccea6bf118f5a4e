use super::*;
use crate::atlas::entrants::BASELINE;
use crate::atlas::off_policy::cases::UPDATES;
use crate::atlas::off_policy::measure::Reused;
use crate::atlas::off_policy::pairs::Fit;
use crate::atlas::off_policy::regions::Regions;
use crate::atlas::off_policy::row::{Mode, Row};
use crate::atlas::off_policy::trust_region::{BOTH, Q, RECENT, Synthetic};
use crate::experiments::common::findings::words;

fn row(mode: Mode, method: &str, x: f64, ignored: bool, cosine: f64) -> Row {
    Row {
        mode,
        mdp: "fork".into(),
        method: method.into(),
        x,
        ignored,
        kl: 0.1,
        fit: Some(Fit { cosine, scale: 1.0, bias: 0.0 }),
        regions: (mode == Mode::Inner).then(Regions::default),
    }
}

/// Methods that keep their direction, and traces that keep the trust region.
fn faithful() -> Numbers {
    let last = UPDATES as f64;
    let rows_of = |name| {
        [
            row(Mode::Inner, name, last, false, 1.0),
            row(Mode::Stale, name, 0.0, false, 1.0),
            row(Mode::Stale, name, last, false, 1.0),
            row(Mode::Temperature, name, 0.7, false, 1.0),
            row(Mode::Temperature, name, 0.7, true, 0.9),
        ]
    };
    let synthetic = |trace, convex| Synthetic { lambda: Q, trace, convex, outside: 0.0, outside_late: 0.0 };
    Numbers {
        size: 4,
        batches: 1,
        rows: [BASELINE, "GRPO, printed clip"].into_iter().flat_map(rows_of).collect(),
        reused: vec![Reused {
            mdp: "fork".into(),
            method: BASELINE.into(),
            gain: Vec::new(),
            kl: Vec::new(),
            more: [0.1, 0.2, 0.3],
        }],
        synthetic: vec![synthetic(RECENT, false), synthetic(BOTH, false), synthetic("token (GRPO)", true)],
        pairs: Vec::new(),
    }
}

#[test]
fn each_verdict_follows_its_own_numbers() {
    let verdicts = |change: fn(&mut Numbers)| {
        let mut n = faithful();
        change(&mut n);
        words(&findings(&n))
    };
    let [h, w, f] = ["Holds", "Holds when", "Fails"];
    assert_eq!(verdicts(|_| {}), [h; 6]);
    assert_eq!(verdicts(|n| n.synthetic[0].outside = 0.4)[..2], [f, h], "a summed trace leaves the region");
    assert_eq!(verdicts(|n| n.synthetic[2].outside = 0.4)[..2], [h, f], "so does a weighted mean");
    assert_eq!(verdicts(|n| n.rows[2].fit.as_mut().unwrap().cosine = 0.5)[2], f);
    let printed_pulls_back = |n: &mut Numbers| n.rows[5].regions.as_mut().unwrap().lowered_high = 0.2;
    assert_eq!(verdicts(printed_pulls_back)[3], w);
    assert_eq!(
        verdicts(|n| n.rows[0].regions.as_mut().unwrap().raised_low = 0.2)[3],
        f,
        "PPO's clip binds there"
    );
    assert_eq!(verdicts(|n| n.rows[3].fit.as_mut().unwrap().cosine = 0.5)[4], f, "correcting makes it worse");
    assert_eq!(verdicts(|n| n.reused[0].more[0] = -0.1)[5], f);
}
