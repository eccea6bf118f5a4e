//! Matrices, and the rows of `cases` and aligned equations.

use super::{Parser, conditions, unreadable};
use crate::lex::Token;
use crate::matrix;
use crate::node::Node;
use crate::verdict::Reason;

type Rows = Vec<Vec<Node>>;

impl Parser<'_> {
    /// The rows up to `close` that are not empty; `cell` reads a part between two marks.
    fn table(
        &mut self,
        close: &Token,
        unclosed: &str,
        cell: impl Fn(&mut Self, &mut Rows) -> Result<(), Reason>,
    ) -> Result<Rows, Reason> {
        let mut rows = vec![Vec::new()];
        while !self.take(close) {
            match self.peek() {
                None => return unreadable(unclosed),
                Some(Token::RowEnd) => {
                    self.at += 1;
                    rows.push(Vec::new());
                }
                Some(Token::Cell) => self.at += 1,
                Some(_) => cell(self, &mut rows)?,
            }
        }
        rows.retain(|row| !row.is_empty());
        Ok(rows)
    }

    pub(super) fn matrix(&mut self, determinant: bool) -> Result<Node, Reason> {
        let rows = self.table(&Token::MatrixClose, "a matrix that is not closed", |parser, rows| {
            let cell = parser.nested(Self::relation)?;
            if let Some(row) = rows.last_mut() {
                row.push(cell);
            }
            Ok(())
        })?;
        let width = rows.first().map_or(0, Vec::len);
        if width == 0 || rows.iter().any(|row| row.len() != width) {
            return unreadable("a matrix whose rows differ in length");
        }
        if determinant { matrix::determinant(&rows, self.budget) } else { Ok(Node::Matrix(rows)) }
    }

    /// Reads rows of equations: a list of them, the last one of a derivation, or values with conditions.
    pub(super) fn rows(&mut self) -> Result<Node, Reason> {
        let rows = self.table(&Token::RowsClose, "rows that are not closed", |parser, rows| {
            // A row without a left side goes on with the row above.
            let relation = matches!(parser.peek(), Some(Token::Relation(_)));
            if relation && rows.len() > 1 && rows.last().is_some_and(Vec::is_empty) {
                rows.pop();
            }
            rows.last_mut().map_or(Ok(()), |row| parser.row_cell(row))
        })?;
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

    /// Adds a cell to its row; `x &= 5` is one relation although a mark stands in it.
    fn row_cell(&mut self, row: &mut Vec<Node>) -> Result<(), Reason> {
        let Some(&Token::Relation(relation)) = self.peek() else {
            let mut nodes = self.nested(Self::items)?;
            if nodes.is_empty() {
                return unreadable("a row that does not read as mathematics");
            }
            row.append(&mut nodes);
            return Ok(());
        };
        self.at += 1;
        let (first, mut rest) = match self.nested(Self::relation)? {
            Node::Chain(first, rest, _) => (*first, rest),
            one => (one, Vec::new()),
        };
        rest.insert(0, (relation, first));
        match row.pop() {
            Some(Node::Chain(left, mut known, label)) => {
                known.append(&mut rest);
                row.push(Node::Chain(left, known, label));
            }
            Some(left) => {
                let label = matches!(left, Node::Symbol(_) | Node::Words(_));
                row.push(Node::Chain(Box::new(left), rest, label));
            }
            // A row that goes on with the sides of the row above says its value.
            None => row.extend(rest.pop().map(|(_, last)| last)),
        }
        Ok(())
    }
}

/// True if the last row gives the value of a symbol that the rows before it are about.
fn is_derivation(items: &[Node]) -> bool {
    let Some((Node::Chain(name, _, true), before)) = items.split_last() else { return false };
    let Node::Symbol(name) = &**name else { return false };
    let named = |n: &Node| matches!(n, Node::Chain(_, _, true));
    before.iter().any(|row| !named(row)) && before.iter().all(|row| row.has_symbol(name))
}
