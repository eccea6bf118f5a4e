//! Arithmetic of matrices whose entries are expressions.

use super::budget::Budget;
use super::exact;
use super::node::{Node, Sign};
use super::verdict::{Reason, undefined};

type Rows = Vec<Vec<Node>>;

/// Largest power of a matrix, and largest determinant, that is worked out.
const MOST: usize = 8;
const DETERMINANT: usize = 5;

fn mismatch<T>() -> Result<T, Reason> {
    undefined("matrices whose shapes do not fit")
}

/// An entry, as a number if it is one.
fn entry(node: Node, budget: &mut Budget) -> Result<Node, Reason> {
    if let Some(value) = exact::rational(&node, budget)? {
        return Ok(Node::exact(value));
    }
    budget.spend(size(&node))?;
    Ok(node)
}

pub(super) fn size(node: &Node) -> u64 {
    1 + node.children().into_iter().map(size).sum::<u64>()
}

/// A sum, worked out if all its terms are matrices.
pub(super) fn sum(terms: Vec<(Sign, Node)>, budget: &mut Budget) -> Result<Node, Reason> {
    let rows: Option<Vec<&Rows>> =
        terms.iter().map(|(_, n)| if let Node::Matrix(rows) = n { Some(rows) } else { None }).collect();
    let Some((first, others)) = rows.as_ref().and_then(|rows| rows.split_first()) else {
        return Ok(Node::Sum(terms));
    };
    let shape = |rows: &Rows| (rows.len(), rows[0].len());
    if others.iter().any(|rows| shape(rows) != shape(first)) {
        return mismatch();
    }
    let (height, width) = shape(first);
    let cell = |i: usize, j: usize| {
        let parts = terms.iter().zip(rows.iter().flatten());
        entry(Node::Sum(parts.map(|((sign, _), rows)| (*sign, rows[i][j].clone())).collect()), budget)
    };
    table(height, width, cell).map(Node::Matrix)
}

fn table(
    height: usize,
    width: usize,
    mut cell: impl FnMut(usize, usize) -> Result<Node, Reason>,
) -> Result<Rows, Reason> {
    (0..height).map(|i| (0..width).map(|j| cell(i, j)).collect()).collect()
}

/// A product, worked out if a matrix is among its factors and none divides.
pub(super) fn product(factors: Vec<(bool, Node)>, budget: &mut Budget) -> Result<Node, Reason> {
    let is_matrix = |node: &Node| matches!(node, Node::Matrix(_));
    if !factors.iter().any(|(_, n)| is_matrix(n))
        || factors.iter().any(|(divides, n)| *divides && is_matrix(n))
    {
        return Ok(Node::Product(factors));
    }
    let mut scalars = Vec::new();
    let mut product: Option<Rows> = None;
    for (divides, factor) in factors {
        product = match (factor, product) {
            (Node::Matrix(right), None) => Some(right),
            (Node::Matrix(right), Some(left)) => Some(times(&left, &right, budget)?),
            (scalar, product) => {
                scalars.push((divides, scalar));
                product
            }
        };
    }
    let rows = product.unwrap_or_default();
    if scalars.is_empty() {
        return Ok(Node::Matrix(rows));
    }
    let scaled = |i: usize, j: usize| {
        let mut all = scalars.clone();
        all.push((false, rows[i][j].clone()));
        entry(Node::Product(all), budget)
    };
    table(rows.len(), rows[0].len(), scaled).map(Node::Matrix)
}

fn times(left: &Rows, right: &Rows, budget: &mut Budget) -> Result<Rows, Reason> {
    if left[0].len() != right.len() {
        return mismatch();
    }
    table(left.len(), right[0].len(), |i, j| {
        let part = |k: usize| (Sign::Plus, left[i][k].clone().times(right[k][j].clone()));
        entry(Node::Sum((0..right.len()).map(part).collect()), budget)
    })
}

/// A power; of a matrix the whole ones that are small, and the transpose.
pub(super) fn power(base: Node, exponent: Node, budget: &mut Budget) -> Result<Node, Reason> {
    if let Node::Matrix(rows) = &base {
        if matches!(&exponent, Node::Symbol(name) if name == "T" || name == "top") {
            return table(rows[0].len(), rows.len(), |i, j| Ok(rows[j][i].clone())).map(Node::Matrix);
        }
        if let Some(n @ 1..=MOST) = exponent.as_integer().and_then(|n| usize::try_from(n).ok()) {
            let power = (1..n).try_fold(rows.clone(), |product, _| times(&product, rows, budget));
            return power.map(Node::Matrix);
        }
    }
    Ok(Node::Power(Box::new(base), Box::new(exponent)))
}

/// The determinant, by expansion along the first row: a sum that is still to be added up.
pub(super) fn determinant(rows: &[Vec<Node>], budget: &mut Budget) -> Result<Node, Reason> {
    let order = rows.len();
    if rows.iter().any(|row| row.len() != order) {
        return mismatch();
    }
    if order > DETERMINANT {
        return Err(Reason::TooLarge(format!("a determinant of order {order}")));
    }
    if order == 1 {
        return Ok(rows[0][0].clone());
    }
    let mut terms = Vec::new();
    for (j, first) in rows[0].iter().enumerate() {
        let minor: Rows = rows[1..].iter().map(|row| [&row[..j], &row[j + 1..]].concat()).collect();
        let below = determinant(&minor, budget).and_then(|sum| entry(sum, budget))?;
        let sign = if j % 2 == 0 { Sign::Plus } else { Sign::Minus };
        terms.push((sign, first.clone().times(below)));
    }
    Ok(Node::Sum(terms))
}
