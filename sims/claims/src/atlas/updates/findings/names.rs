//! Names of entrants.

use crate::atlas::updates::overall::Overall;
use crate::experiments::common::text::list;

/// The names of some entrants; `none` where there is none.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a Overall>) -> String {
    list(&all.map(|o| o.entrant.name).collect::<Vec<_>>())
}
