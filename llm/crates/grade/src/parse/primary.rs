//! Numbers, symbols and other values that stand alone.

use super::named::{derivative, is_function};
use super::number::number;
use super::{Parser, spelled, unreadable};
use crate::lex::{Token, plain_number};
use crate::node::{Function, Node};
use crate::verdict::Reason;
use crate::words::{self, Logic};

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Result<Node, Reason> {
        let Some(token) = self.peek().cloned() else { return unreadable("it breaks off") };
        self.at += 1;
        match token {
            Token::Number { ref digits, ref repeating, exponent, .. } => {
                if self.peek() == Some(&Token::Underscore) && repeating.is_empty() && exponent == 0 {
                    return self.numeral(digits);
                }
                number(&token)
            }
            // The measure of an angle.
            Token::Symbol(name) if name == "m" && self.take(&Token::Naming("\\angle")) => {
                self.naming("\\measure")
            }
            Token::Symbol(name) => self.symbol(name),
            Token::Euler if self.peek() == Some(&Token::Underscore) => self.subscripted("e".into()),
            Token::Imaginary if self.peek() == Some(&Token::Underscore) => self.subscripted("i".into()),
            Token::Euler => Ok(Node::Euler),
            Token::Imaginary => Ok(Node::Imaginary),
            Token::Pi => Ok(Node::Pi),
            Token::Infinity => Ok(Node::Infinity),
            Token::Dots => Ok(Node::Dots),
            Token::Reals => Ok(self.reals()),
            Token::Accent(kind) => self.accented(kind),
            Token::Naming(sign) => self.naming(sign),
            Token::Operator(name) => self.operator(name),
            Token::Logic(Logic::Not) => Ok(Node::Logic(Logic::Not, vec![self.nested(Self::factor)?])),
            Token::Text(text) => Ok(words_node(&text)),
            Token::Function(function) => self.call(function),
            Token::Frac => {
                let (top, bottom) = (self.argument()?, self.argument()?);
                match derivative(&top, &bottom) {
                    Some(derivative) => Ok(derivative),
                    None => crate::matrix::product(vec![(false, top), (true, bottom)], self.budget),
                }
            }
            Token::Binom => Ok(Node::Call(Function::Binomial, vec![self.argument()?, self.argument()?])),
            Token::Root => self.root(),
            Token::Open(open) => self.brackets(open),
            Token::BraceOpen => {
                self.at -= 1;
                self.nested(Self::braces)
            }
            Token::Bar => self.absolute(),
            // `]0, 1]`
            Token::Close(']') => self.brackets('('),
            Token::MatrixOpen(determinant) => self.matrix(determinant),
            Token::RowsOpen => self.rows(),
            other => unreadable(format!("{} where a value should be", spelled(&other))),
        }
    }

    /// The real line, or the half of it that `\mathbb{R}^+` and `\mathbb{R}^{-}` mean.
    fn reals(&mut self) -> Node {
        let half = match &self.tokens[self.at..] {
            [Token::Caret, sign, ..] if *sign != Token::BraceOpen => Some((sign, 2)),
            [Token::Caret, Token::BraceOpen, sign, Token::BraceClose, ..] => Some((sign, 4)),
            _ => None,
        };
        let (low, high, length) = match half {
            Some((Token::Plus, length)) => (Node::integer(0), Node::Infinity, length),
            Some((Token::Minus, length)) => (Node::minus_infinity(), Node::integer(0), length),
            _ => (Node::minus_infinity(), Node::Infinity, 0),
        };
        self.at += length;
        Node::interval(low, high, (false, false))
    }

    fn absolute(&mut self) -> Result<Node, Reason> {
        self.bars += 1;
        let inside = self.nested(Self::sum)?;
        self.bars -= 1;
        self.close(&Token::Bar, "a bar that is not closed")?;
        Ok(Node::Call(Function::Abs, vec![inside]))
    }

    /// The argument of `\frac` and its like: braces, or one digit or sign of several.
    pub(super) fn argument(&mut self) -> Result<Node, Reason> {
        match self.peek() {
            Some(Token::BraceOpen) => self.nested(Self::braces),
            Some(Token::Number { digits, repeating, exponent: 0, .. })
                if digits.len() > 1 && repeating.is_empty() && !digits.contains('.') =>
            {
                let (first, rest) = digits.split_at(1);
                let (first, rest) = (plain_number(first), plain_number(rest));
                self.tokens[self.at] = rest;
                number(&first)
            }
            _ => self.nested(Self::primary),
        }
    }

    /// An index: braces, or one number, symbol or text as a whole.
    pub(super) fn argument_whole(&mut self) -> Result<Node, Reason> {
        self.nested(if self.peek() == Some(&Token::BraceOpen) { Self::braces } else { Self::primary })
    }

    /// A symbol, or the number of combinations `C_n^k`, `C(n, k)` of two numbers.
    fn symbol(&mut self, name: String) -> Result<Node, Reason> {
        if name == "C"
            && let [Token::Underscore, rest @ ..] = &self.tokens[self.at..]
        {
            let (n, after) = one_number(rest);
            if let (Some(n), Some(Token::Caret)) = (n, rest.get(after))
                && let (Some(k), end) = one_number(&rest[after + 1..])
            {
                self.at += 1 + after + 1 + end;
                return Ok(Node::Call(Function::Binomial, vec![number(&n)?, number(&k)?]));
            }
        }
        self.subscripted(name)
    }

    /// A symbol with its indices, which are part of its name.
    pub(super) fn subscripted(&mut self, mut name: String) -> Result<Node, Reason> {
        while self.take(&Token::Underscore) {
            let start = self.at;
            if self.peek() == Some(&Token::BraceOpen) {
                self.skip_braces()?;
            } else if self.peek().is_some() {
                self.at += 1;
            }
            name.push('_');
            for token in &self.tokens[start..self.at] {
                match token {
                    Token::BraceOpen | Token::BraceClose | Token::Naming(_) => {}
                    Token::Symbol(part) | Token::Text(part) => name += part,
                    Token::Number { digits, .. } => name += digits,
                    Token::Euler => name.push('e'),
                    Token::Imaginary => name.push('i'),
                    other => name += &format!("{other:?}").to_lowercase(),
                }
            }
        }
        // `I(0)` is the value of a function: nobody multiplies by a written zero.
        if let [Token::Open('('), Token::Number { digits, .. }, Token::Close(')'), ..] =
            &self.tokens[self.at..]
            && digits.trim_matches('0').is_empty()
            && !is_function(&name)
        {
            name = format!("{name}({digits})");
            self.at += 3;
        }
        Ok(Node::Symbol(name))
    }

    fn skip_braces(&mut self) -> Result<(), Reason> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(Token::BraceOpen) => depth += 1,
                Some(Token::BraceClose) => depth -= 1,
                Some(_) => {}
                None => return unreadable("an index that breaks off"),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn root(&mut self) -> Result<Node, Reason> {
        let mut order = Node::integer(2);
        if self.take(&Token::Open('[')) {
            order = self.nested(Self::sum)?;
            self.close(&Token::Close(']'), "the order of a root that is not closed")?;
        }
        let inside = self.argument_whole()?;
        Ok(Node::Call(Function::Root, vec![inside, order]))
    }
}

/// A whole number here, in braces or not, and the tokens that it takes.
fn one_number(tokens: &[Token]) -> (Option<Token>, usize) {
    match tokens {
        [number @ Token::Number { .. }, ..] => (Some(number.clone()), 1),
        [Token::BraceOpen, number @ Token::Number { .. }, Token::BraceClose, ..] => (Some(number.clone()), 3),
        _ => (None, 0),
    }
}

/// A text as a value: the letter of a choice, or words.
fn words_node(text: &str) -> Node {
    let bare = text.trim_matches(|c: char| !c.is_alphanumeric());
    if bare.len() == 1 && bare.bytes().all(|b| b.is_ascii_alphabetic()) {
        return Node::Symbol(bare.to_owned());
    }
    Node::Words(words::canonical(text))
}
