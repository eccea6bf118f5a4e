//! Imports between modules, and the shortest way back to a module.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// For every module the modules it imports, each with a file in which it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Graph {
    edges: BTreeMap<String, BTreeMap<String, String>>,
}

/// Modules of which each imports the next, and the last one the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    /// Importing module, imported module, the file in which it happens.
    pub(super) edges: Vec<(String, String, String)>,
}

impl Graph {
    /// Notes that `file`, a part of module `from`, names module `to`. The first file of an edge is kept.
    pub(super) fn add(&mut self, from: &str, to: &str, file: &str) {
        let files = self.edges.entry(from.to_owned()).or_default();
        files.entry(to.to_owned()).or_insert_with(|| file.to_owned());
    }

    /// True if `from` imports `to`.
    pub(super) fn imports(&self, from: &str, to: &str) -> bool {
        self.edges.get(from).is_some_and(|to_files| to_files.contains_key(to))
    }

    /// A shortest cycle; the first by name of several.
    pub(super) fn shortest_cycle(&self) -> Option<Cycle> {
        let ways = self.edges.keys().filter_map(|start| self.shortest_way_back(start));
        let shortest = ways.min_by_key(Vec::len)?;
        let file = |from: &String, to: &String| self.edges[from][to].clone();
        let edges = shortest.windows(2).map(|w| (w[0].clone(), w[1].clone(), file(&w[0], &w[1])));
        Some(Cycle { edges: edges.collect() })
    }

    /// The modules of a shortest cycle through `start`, which stands at both ends: breadth first.
    fn shortest_way_back(&self, start: &str) -> Option<Vec<String>> {
        let mut ways = VecDeque::from([vec![start.to_owned()]]);
        let mut seen = BTreeSet::new();
        while let Some(way) = ways.pop_front() {
            let last = &way[way.len() - 1];
            for next in self.edges.get(last).into_iter().flat_map(BTreeMap::keys) {
                let longer = [way.clone(), vec![next.clone()]].concat();
                if next == start {
                    return Some(longer);
                }
                if seen.insert(next.clone()) {
                    ways.push_back(longer);
                }
            }
        }
        None
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (from, _, _) in &self.edges {
            write!(f, "{from} -> ")?;
        }
        writeln!(f, "{}", self.edges[0].0)?;
        for (from, to, file) in &self.edges {
            writeln!(f, "  {from} imports {to} in {file}")?;
        }
        Ok(())
    }
}
