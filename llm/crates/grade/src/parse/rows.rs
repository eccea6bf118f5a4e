//! Matrices, and the rows of `cases` and aligned equations.

use super::{Parser, conditions, unreadable};
use crate::lex::Token;
use crate::matrix;
use crate::node::{Node, Relation};
use crate::verdict::Reason;

impl Parser<'_> {
    pub(super) fn matrix(&mut self, determinant: bool) -> Result<Node, Reason> {
        let mut rows = vec![Vec::new()];
        loop {
            match self.peek() {
                None => return unreadable("a matrix that is not closed"),
                Some(Token::MatrixClose) => {
                    self.at += 1;
                    break;
                }
                Some(Token::RowEnd) => {
                    self.at += 1;
                    rows.push(Vec::new());
                }
                Some(Token::Cell) => self.at += 1,
                Some(_) => {
                    let cell = self.nested(Self::relation)?;
                    if let Some(row) = rows.last_mut() {
                        row.push(cell);
                    }
                }
            }
        }
        rows.retain(|row| !row.is_empty());
        let width = rows.first().map_or(0, Vec::len);
        if width == 0 || rows.iter().any(|row| row.len() != width) {
            return unreadable("a matrix whose rows differ in length");
        }
        if determinant {
            return matrix::determinant(&rows, self.budget);
        }
        Ok(Node::Matrix(rows))
    }

    /// Rows of equations: a list of them, where each has its own left side, or the last of a derivation; values with
    /// conditions as they are.
    pub(super) fn rows(&mut self) -> Result<Node, Reason> {
        let mut rows: Vec<Vec<Node>> = vec![Vec::new()];
        loop {
            match self.peek() {
                None => return unreadable("rows that are not closed"),
                Some(Token::RowsClose) => {
                    self.at += 1;
                    break;
                }
                Some(Token::RowEnd) => {
                    self.at += 1;
                    rows.push(Vec::new());
                }
                Some(Token::Cell) => self.at += 1,
                Some(token) => {
                    // A row without a left side goes on with the row above.
                    if matches!(token, Token::Relation(_))
                        && rows.len() > 1
                        && rows.last().is_some_and(Vec::is_empty)
                    {
                        rows.pop();
                    }
                    let mut cells = self.row_cell(rows.last().and_then(|row| row.last()))?;
                    match (rows.last_mut(), cells.continued) {
                        (Some(row), true) => {
                            row.pop();
                            row.append(&mut cells.nodes);
                        }
                        (Some(row), false) => row.append(&mut cells.nodes),
                        _ => {}
                    }
                }
            }
        }
        rows.retain(|row| !row.is_empty());
        if rows.iter().any(|row| row.len() > 1) {
            return Ok(Node::Cases(rows));
        }
        let mut items: Vec<Node> = rows.into_iter().flatten().collect();
        match items.len() {
            0 => unreadable("an environment without rows"),
            1 => Ok(items.remove(0)),
            _ if conditions(&items) => Ok(Node::All(items)),
            n if is_derivation(&items) => Ok(items.remove(n - 1)),
            _ => Ok(Node::List(items)),
        }
    }

    /// One cell; `x &= 5` is one relation although a mark stands in it.
    fn row_cell(&mut self, before: Option<&Node>) -> Result<Cells, Reason> {
        if let Some(Token::Relation(relation)) = self.peek().cloned() {
            self.at += 1;
            let right = self.nested(Self::relation)?;
            let (first, mut rest) = match right {
                Node::Chain(first, rest, _) => (*first, rest),
                one => (one, Vec::new()),
            };
            rest.insert(0, (relation, first));
            let (nodes, continued) = match before {
                Some(Node::Chain(left, known, label)) => {
                    let all: Vec<(Relation, Node)> = known.iter().cloned().chain(rest).collect();
                    (vec![Node::Chain(left.clone(), all, *label)], true)
                }
                Some(left) => {
                    let label = matches!(left, Node::Symbol(_) | Node::Words(_));
                    (vec![Node::Chain(Box::new(left.clone()), rest, label)], true)
                }
                // A row that goes on with the sides of the row above says its value.
                None => (rest.pop().map(|(_, last)| vec![last]).unwrap_or_default(), false),
            };
            return Ok(Cells { nodes, continued });
        }
        let nodes = self.nested(Self::items)?;
        if nodes.is_empty() {
            return unreadable("a row that does not read as mathematics");
        }
        Ok(Cells { nodes, continued: false })
    }
}

/// True if the last row gives the value of a symbol that the rows before it are about.
fn is_derivation(items: &[Node]) -> bool {
    let Some((Node::Chain(name, _, true), before)) = items.split_last() else { return false };
    let Node::Symbol(name) = &**name else { return false };
    let named = |n: &Node| matches!(n, Node::Chain(_, _, true));
    before.iter().any(|row| !named(row)) && before.iter().all(|row| row.has_symbol(name))
}

/// What was read between two marks of a row.
struct Cells {
    nodes: Vec<Node>,
    /// True if it takes the place of the cell before it.
    continued: bool,
}
