//! Functions with their powers, bases and arguments.

use super::{Parser, unreadable};
use crate::lex::Token;
use crate::node::{Function, Node};
use crate::verdict::Reason;

impl Parser<'_> {
    /// A function, its power and base, and its argument: brackets, or the factors up to the next sign or function.
    pub(super) fn call(&mut self, function: Function) -> Result<Node, Reason> {
        let (mut power, mut base) = (None, None);
        loop {
            if self.take(&Token::Caret) {
                power = Some(self.script()?);
            } else if self.take(&Token::Underscore) {
                base = Some(self.argument_whole()?);
            } else {
                break;
            }
        }
        let mut arguments = self.call_arguments()?;
        let many = matches!(function, Function::Gcd | Function::Lcm | Function::Max | Function::Min);
        if arguments.is_empty() || (!many && arguments.len() != 1) {
            return unreadable("a function with the wrong number of arguments");
        }
        if let Some(base) = base {
            if function != Function::Log {
                return unreadable("a function with an index");
            }
            arguments.push(base);
        }
        Ok(powered(function, arguments, power))
    }

    fn call_arguments(&mut self) -> Result<Vec<Node>, Reason> {
        match self.peek() {
            Some(Token::Open('(' | '[' | '{') | Token::BraceOpen) => match self.nested(Self::primary)? {
                Node::Set(items) | Node::Group(_, items, _) => Ok(items),
                one => Ok(vec![one]),
            },
            _ => {
                let mut factors = vec![(false, self.factor()?)];
                while self.at_factor() && !matches!(self.peek(), Some(Token::Function(_) | Token::Text(_))) {
                    self.juxtaposed(&mut factors)?;
                }
                Ok(vec![if factors.len() == 1 { factors.remove(0).1 } else { Node::Product(factors) }])
            }
        }
    }
}

/// `\sin^{-1}` is the inverse function; `\sin^2 x` the square of the sine.
fn powered(function: Function, arguments: Vec<Node>, power: Option<Node>) -> Node {
    let inverted = match function {
        Function::Sin => Some(Function::Arcsin),
        Function::Cos => Some(Function::Arccos),
        Function::Tan => Some(Function::Arctan),
        _ => None,
    };
    match (power, inverted) {
        (Some(power), Some(inverted)) if power == Node::integer(-1) => Node::Call(inverted, arguments),
        (Some(power), _) => Node::Power(Box::new(Node::Call(function, arguments)), Box::new(power)),
        (None, _) => Node::Call(function, arguments),
    }
}
