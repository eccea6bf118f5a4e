//! The process that has the optimiser of each tensor.

use serde::{Deserialize, Serialize};

/// The owner of each tensor that gets a gradient: the process that adds it up, has its optimiser and moves it.
///
/// Nothing else depends on it, and so no result: not the order of a sum, not a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Owners(Vec<(String, usize)>);

impl Owners {
    /// Gives tensors of these sizes, the largest first, each to the process that has least so far; the first by name or by rank where several are alike.
    ///
    /// Hence no process has more than `total / processes` and the largest tensor.
    pub fn balanced(sizes: impl IntoIterator<Item = (String, usize)>, processes: usize) -> Self {
        let mut sizes: Vec<(String, usize)> = sizes.into_iter().collect();
        sizes.sort_by(|(a, size), (b, other)| other.cmp(size).then_with(|| a.cmp(b)));
        let mut loads = vec![0; processes.max(1)];
        let mut owners = Vec::with_capacity(sizes.len());
        for (name, size) in sizes {
            let least = (0..loads.len()).min_by_key(|rank| loads[*rank]).unwrap_or(0);
            loads[least] += size;
            owners.push((name, least));
        }
        owners.sort();
        Owners(owners)
    }

    /// Names, sorted, and owners.
    pub fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, owner)| (name.as_str(), *owner))
    }

    /// The owner of a tensor; none of one that gets no gradient.
    pub fn owner(&self, name: &str) -> Option<usize> {
        let at = self.0.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        Some(self.0[at].1)
    }

    /// Forgets the tensors that `keep`, given name and owner, does not want.
    pub fn retain(&mut self, keep: impl Fn(&str, usize) -> bool) {
        self.0.retain(|(name, owner)| keep(name, *owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(sizes: &[usize]) -> Vec<(String, usize)> {
        sizes.iter().enumerate().map(|(i, size)| (format!("t{i}"), *size)).collect()
    }

    fn loads(owners: &Owners, sizes: &[(String, usize)], processes: usize) -> Vec<usize> {
        let mut loads = vec![0; processes];
        for (name, size) in sizes {
            loads[owners.owner(name).expect("every tensor has an owner")] += size;
        }
        loads
    }

    /// By hand: 9 to process 0, 7 to 1, 6 to 2; 5 to 2, which has least; 4 to 1; 3 to 0.
    #[test]
    fn the_largest_go_first_each_to_the_process_that_has_least() {
        let owners = Owners::balanced(named(&[3, 9, 4, 6, 5, 7]), 3);
        let told: Vec<(&str, usize)> = owners.iter().collect();
        assert_eq!(told, [("t0", 0), ("t1", 0), ("t2", 1), ("t3", 2), ("t4", 2), ("t5", 1)]);
        let alike = Owners::balanced(named(&[1, 1, 1]), 2);
        assert_eq!(alike.iter().collect::<Vec<_>>(), [("t0", 0), ("t1", 1), ("t2", 0)]);
    }

    #[test]
    fn no_process_has_more_than_its_part_and_the_largest_tensor_in_whatever_order_they_are_told() {
        for (seed, count) in [(3, 1), (5, 2), (11, 40), (17, 300)] {
            let sizes = named(&(0..count).map(|i| (i * i * seed) % 1009 + i % 2).collect::<Vec<_>>());
            let (total, largest) =
                (sizes.iter().map(|s| s.1).sum::<usize>(), sizes.iter().map(|s| s.1).max().unwrap_or(0));
            for processes in 1..=7 {
                let owners = Owners::balanced(sizes.clone(), processes);
                assert_eq!(owners, Owners::balanced(sizes.iter().rev().cloned(), processes));
                let most = loads(&owners, &sizes, processes).into_iter().max().unwrap_or(0);
                assert!(most <= total / processes + largest, "{count} {processes}: {most}");
                assert!(owners.iter().map(|(name, _)| name).is_sorted());
            }
        }
    }

    #[test]
    fn a_tensor_without_a_gradient_has_no_owner() {
        let mut owners = Owners::balanced(named(&[4, 2]), 2);
        owners.retain(|name, owner| (name, owner) == ("t1", 1));
        assert_eq!((owners.owner("t0"), owners.owner("t1"), owners.owner("u")), (None, Some(1), None));
    }
}
