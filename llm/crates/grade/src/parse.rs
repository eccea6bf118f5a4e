//! From tokens to a tree, by recursive descent with a bound on depth and steps.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Pow, Signed, Zero};

use super::budget::{Budget, DEPTH};
use super::lex::{Lexed, Token, lex, plain_number};
use super::node::{Function, Node, Number, Sign};
use super::verdict::Reason;
use super::words;

/// Most digits of a number inside an expression.
const DIGITS: usize = 2000;

/// Reads an answer. The second value says whether a comma could also have been read the other way.
pub(super) fn parse(text: &str, thousands: bool, budget: &mut Budget) -> Result<(Node, bool), Reason> {
    let Lexed { tokens, two_ways } = lex(text, thousands)?;
    budget.spend(tokens.len() as u64)?;
    let mut parser = Parser { tokens, at: 0, depth: 0, bars: 0, budget };
    let node = parser.list()?;
    match parser.peek() {
        None => Ok((node, two_ways)),
        Some(token) => Err(Reason::Unreadable(format!("{} is not expected there", spelled(token)))),
    }
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
    /// Open `|`, the next of which closes.
    bars: u32,
    budget: &'a mut Budget,
}

fn unreadable<T>(what: impl Into<String>) -> Result<T, Reason> {
    Err(Reason::Unreadable(what.into()))
}

/// A token in a message.
fn spelled(token: &Token) -> String {
    match token {
        Token::Number { digits, .. } => format!("the number {}", digits.chars().take(20).collect::<String>()),
        Token::Symbol(name) => format!("`{}`", name.chars().take(20).collect::<String>()),
        Token::Text(text) => format!("`{}`", text.chars().take(20).collect::<String>()),
        Token::Open(c) | Token::Close(c) => format!("a bracket `{c}`"),
        Token::Relation(_) => "a relation sign".into(),
        other => format!("{other:?}").to_lowercase(),
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn peek_after(&self, steps: usize) -> Option<&Token> {
        self.tokens.get(self.at + steps)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    /// Runs a part one level deeper.
    fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T, Reason>) -> Result<T, Reason> {
        self.budget.spend(1)?;
        if self.depth == DEPTH {
            return Err(Reason::TooLarge(format!("nested deeper than {DEPTH}")));
        }
        self.depth += 1;
        let result = part(self);
        self.depth -= 1;
        result
    }

    /// Items with separators between them; one item is itself.
    fn list(&mut self) -> Result<Node, Reason> {
        let mut items = self.items()?;
        match items.len() {
            0 => unreadable("nothing where a value should be"),
            1 => Ok(items.remove(0)),
            _ => Ok(Node::List(items)),
        }
    }

    fn items(&mut self) -> Result<Vec<Node>, Reason> {
        let mut items = Vec::new();
        loop {
            while self.take(&Token::Separator) {}
            match self.peek() {
                None
                | Some(
                    Token::Close(_) | Token::BraceClose | Token::Cell | Token::RowEnd | Token::MatrixClose,
                ) => {
                    return Ok(items);
                }
                _ => items.push(self.nested(Self::relation)?),
            }
            if self.peek() != Some(&Token::Separator) {
                return Ok(items);
            }
        }
    }

    /// `a`, `a = b`, `a < b <= c`.
    fn relation(&mut self) -> Result<Node, Reason> {
        let start = self.at;
        let first = self.union()?;
        let label = self.is_label(start, self.at);
        let mut rest = Vec::new();
        while let Some(Token::Relation(relation)) = self.peek() {
            let relation = *relation;
            self.at += 1;
            rest.push((relation, self.union()?));
        }
        Ok(if rest.is_empty() { first } else { Node::Chain(Box::new(first), rest, label) })
    }

    /// Whether these tokens only name something: `x`, `x_{0}`, `f(x)`, `f(x, y)`, a text.
    fn is_label(&self, start: usize, end: usize) -> bool {
        let tokens = &self.tokens[start..end];
        let name =
            |t: &Token| matches!(t, Token::Symbol(_) | Token::Euler | Token::Imaginary | Token::Text(_));
        let inside = |t: &Token| {
            name(t)
                || matches!(t, Token::Number { .. } | Token::Separator | Token::BraceOpen | Token::BraceClose)
        };
        let [first, rest @ ..] = tokens else { return false };
        if !name(first) && !matches!(first, Token::Function(Function::Max | Function::Min)) {
            return false;
        }
        match rest {
            [] => true,
            [Token::Prime] => true,
            [Token::Underscore, index @ ..] => {
                let braced = matches!(index, [Token::BraceOpen, .., Token::BraceClose]);
                braced && !index[1..index.len() - 1].contains(&Token::BraceClose) || index.len() == 1
            }
            [Token::Open('('), middle @ .., Token::Close(')')] => middle.iter().all(inside),
            _ => false,
        }
    }

    /// Sets joined by union and difference.
    fn union(&mut self) -> Result<Node, Reason> {
        let mut parts = vec![self.nested(Self::sum)?];
        loop {
            if self.take(&Token::Union) {
                parts.push(self.nested(Self::sum)?);
            } else if self.take(&Token::Without) {
                let right = self.nested(Self::sum)?;
                let left =
                    if parts.len() == 1 { parts.remove(0) } else { Node::Union(std::mem::take(&mut parts)) };
                parts.push(Node::Without(Box::new(left), Box::new(right)));
            } else {
                return Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Union(parts) });
            }
        }
    }

    fn sign(&mut self) -> Option<Sign> {
        let sign = match self.peek()? {
            Token::Plus => Sign::Plus,
            Token::Minus => Sign::Minus,
            Token::PlusMinus => Sign::PlusMinus,
            Token::MinusPlus => Sign::MinusPlus,
            _ => return None,
        };
        self.at += 1;
        Some(sign)
    }

    fn sum(&mut self) -> Result<Node, Reason> {
        let mut terms = Vec::new();
        let mut sign = self.sign();
        loop {
            // `x + -y`
            let second = if sign.is_some() { self.sign() } else { None };
            let mut term = self.product()?;
            if let Some(second) = second {
                term = Node::Sum(vec![(second, term)]);
            }
            if terms.is_empty() && sign.is_none() && !self.at_sign() {
                return Ok(term);
            }
            terms.push((sign.unwrap_or(Sign::Plus), term));
            sign = self.sign();
            if sign.is_none() {
                break;
            }
        }
        // A number with its sign is a number.
        if let [(Sign::Minus, Node::Number(number))] = &mut terms[..] {
            let value = -std::mem::take(&mut number.value);
            return Ok(Node::Number(Number { value, ..number.clone() }));
        }
        if let [(Sign::Plus, _)] = &terms[..] {
            return Ok(terms.remove(0).1);
        }
        Ok(Node::Sum(terms))
    }

    fn at_sign(&self) -> bool {
        matches!(self.peek(), Some(Token::Plus | Token::Minus | Token::PlusMinus | Token::MinusPlus))
    }

    /// Whether a factor begins here without a sign of multiplication.
    fn at_factor(&self) -> bool {
        match self.peek() {
            Some(Token::Bar) => self.bars == 0,
            Some(
                Token::Number { .. }
                | Token::Symbol(_)
                | Token::Function(_)
                | Token::Pi
                | Token::Euler
                | Token::Imaginary
                | Token::Infinity
                | Token::Frac
                | Token::Root
                | Token::Binom
                | Token::Accent(_)
                | Token::Text(_)
                | Token::Open(_)
                | Token::BraceOpen
                | Token::Reals
                | Token::MatrixOpen,
            ) => true,
            _ => false,
        }
    }

    fn product(&mut self) -> Result<Node, Reason> {
        let mut factors = vec![(false, self.factor()?)];
        let mut unit = None;
        loop {
            if self.take(&Token::Times) {
                let factor = self.signed_factor()?;
                factors.push((false, factor));
            } else if self.take(&Token::Divide) {
                let factor = self.signed_factor()?;
                factors.push((true, factor));
            } else if let Some(Token::Text(_)) = self.peek() {
                unit = self.unit()?;
                unit = Some(unit.unwrap_or_default());
                break;
            } else if self.at_factor() {
                self.juxtaposed(&mut factors)?;
            } else {
                break;
            }
        }
        let value = match &factors[..] {
            [(false, _)] => factors.remove(0).1,
            _ => Node::Product(factors),
        };
        Ok(match unit {
            None => value,
            Some(name) => Node::Unit(Box::new(value), Some(name).filter(|n| !n.is_empty())),
        })
    }

    fn signed_factor(&mut self) -> Result<Node, Reason> {
        match self.sign() {
            None => self.factor(),
            Some(sign) => Ok(Node::Sum(vec![(sign, self.factor()?)])),
        }
    }

    /// A factor behind another without a sign: a product, or the fraction of a mixed number.
    fn juxtaposed(&mut self, factors: &mut Vec<(bool, Node)>) -> Result<(), Reason> {
        let behind_number = matches!(self.tokens.get(self.at - 1), Some(Token::Number { .. }));
        let whole = match factors.last() {
            Some((false, node)) if behind_number => node.as_integer().cloned(),
            _ => None,
        };
        let number = |token: Option<&Token>| match token {
            Some(Token::Number { digits, repeating, exponent: 0 })
                if repeating.is_empty() && !digits.contains('.') && digits.len() < 10 =>
            {
                digits.parse::<u32>().ok()
            }
            _ => None,
        };
        if behind_number && matches!(self.peek(), Some(Token::Number { .. })) {
            // `1 1/2`, and nothing else.
            let parts = (number(self.peek()), self.peek_after(1), number(self.peek_after(2)));
            let (Some(whole), (Some(top), Some(Token::Divide), Some(bottom))) = (whole, parts) else {
                return unreadable("two numbers side by side");
            };
            if top >= bottom || factors.len() != 1 {
                return unreadable("two numbers side by side");
            }
            self.at += 3;
            factors[0].1 = mixed(&whole, top, bottom);
            return Ok(());
        }
        let is_fraction = self.peek() == Some(&Token::Frac);
        let factor = self.factor()?;
        if let (true, Some(whole), Node::Product(parts)) = (is_fraction, &whole, &factor)
            && let [(false, top), (true, bottom)] = &parts[..]
            && let (Some(top), Some(bottom)) = (top.as_integer(), bottom.as_integer())
            && let (Ok(top), Ok(bottom)) = (u32::try_from(top), u32::try_from(bottom))
            && top < bottom
            && !whole.is_zero()
            && let Some(last) = factors.last_mut()
        {
            last.1 = mixed(whole, top, bottom);
            return Ok(());
        }
        factors.push((false, factor));
        Ok(())
    }

    /// The unit at this place, in canonical spelling; words that are no unit say nothing.
    fn unit(&mut self) -> Result<Option<String>, Reason> {
        let mut name = String::new();
        let mut known = true;
        let mut divided = false;
        loop {
            match self.peek() {
                Some(Token::Text(text)) => {
                    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
                        match words::unit(&word.to_lowercase()) {
                            Some(unit) => name = name + if divided { "/" } else { " " } + unit,
                            None => known = false,
                        }
                    }
                    self.at += 1;
                }
                Some(Token::Symbol(letter)) if divided && letter.len() == 1 => {
                    name = format!("{name}/{letter}");
                    self.at += 1;
                }
                _ => return unreadable("a unit that breaks off"),
            }
            if self.take(&Token::Caret) {
                let power = self.script()?;
                match power.as_integer() {
                    Some(n) if *n != BigInt::one() => name = format!("{name}^{n}"),
                    Some(_) => {}
                    None => known = false,
                }
            }
            divided = self.take(&Token::Divide);
            if !divided && !matches!(self.peek(), Some(Token::Text(_))) {
                return Ok(Some(name.trim().to_owned()).filter(|n| known && !n.is_empty()));
            }
        }
    }

    /// A primary with what stands behind it: powers, factorials, degrees, percent.
    fn factor(&mut self) -> Result<Node, Reason> {
        self.nested(|p| {
            let mut node = p.primary()?;
            loop {
                match p.peek() {
                    Some(Token::Bang) => {
                        p.at += 1;
                        node = Node::Call(Function::Factorial, vec![node]);
                    }
                    Some(Token::Degree) => {
                        p.at += 1;
                        node = p.degrees(node);
                    }
                    Some(Token::Percent) => {
                        p.at += 1;
                        node = Node::Percent(Box::new(node));
                    }
                    Some(Token::Prime) => {
                        p.at += 1;
                        node = primed(node);
                    }
                    Some(Token::Caret) => {
                        p.at += 1;
                        node = p.power(node)?;
                    }
                    _ => return Ok(node),
                }
                p.budget.spend(1)?;
                p.deepen(&node)?;
            }
        })
    }

    /// Refuses a chain such as `x!!!!...` that is as deep as nesting.
    fn deepen(&self, node: &Node) -> Result<(), Reason> {
        let (mut depth, mut at) = (0, node);
        loop {
            at = match at {
                Node::Call(Function::Factorial, list) if list.len() == 1 => &list[0],
                Node::Degrees(inner) | Node::Percent(inner) | Node::Power(inner, _) => inner,
                _ => return Ok(()),
            };
            depth += 1;
            if depth > 8 {
                return unreadable("a pile of signs behind a value");
            }
        }
    }

    /// `90^\circ`, and the letter of a temperature behind it.
    fn degrees(&mut self, node: Node) -> Node {
        if let Some(Token::Symbol(letter)) = self.peek()
            && (letter == "C" || letter == "F")
        {
            let unit = format!("degree {letter}");
            self.at += 1;
            return Node::Unit(Box::new(node), Some(unit));
        }
        if let Some(Token::Text(letter)) = self.peek()
            && (letter == "C" || letter == "F")
        {
            let unit = format!("degree {letter}");
            self.at += 1;
            return Node::Unit(Box::new(node), Some(unit));
        }
        Node::Degrees(Box::new(node))
    }

    fn power(&mut self, base: Node) -> Result<Node, Reason> {
        let braced = self.peek() == Some(&Token::BraceOpen);
        let ahead = usize::from(braced);
        match self.peek_after(ahead) {
            Some(Token::Circ | Token::Degree) => {
                self.at += 1 + ahead;
                self.close_brace(braced)?;
                return Ok(self.degrees(base));
            }
            Some(Token::Prime) => {
                self.at += ahead;
                let mut node = base;
                while self.take(&Token::Prime) {
                    node = primed(node);
                }
                self.close_brace(braced)?;
                return Ok(node);
            }
            _ => {}
        }
        let exponent = self.script()?;
        Ok(Node::Power(Box::new(base), Box::new(exponent)))
    }

    fn close_brace(&mut self, open: bool) -> Result<(), Reason> {
        if open && !self.take(&Token::BraceClose) { unreadable("a brace that is not closed") } else { Ok(()) }
    }

    /// What stands behind `^`: braces, or one signed factor with its own power.
    fn script(&mut self) -> Result<Node, Reason> {
        if self.peek() == Some(&Token::BraceOpen) {
            return self.nested(Self::braces);
        }
        match self.sign() {
            None => self.factor(),
            Some(sign) => Ok(Node::Sum(vec![(sign, self.factor()?)])),
        }
    }

    fn braces(&mut self) -> Result<Node, Reason> {
        self.at += 1;
        let bars = std::mem::take(&mut self.bars);
        let mut items = self.items()?;
        self.bars = bars;
        self.close_brace(true)?;
        match items.len() {
            0 => unreadable("empty braces"),
            1 => Ok(items.remove(0)),
            _ => Ok(Node::Set(items)),
        }
    }

    /// The argument of `\frac` and its like: braces, or one digit or sign of several.
    fn argument(&mut self) -> Result<Node, Reason> {
        match self.peek() {
            Some(Token::BraceOpen) => self.nested(Self::braces),
            Some(Token::Number { digits, repeating, exponent: 0 })
                if digits.len() > 1 && repeating.is_empty() && !digits.contains('.') =>
            {
                let (first, rest) = digits.split_at(1);
                let (first, rest) = (first.to_owned(), plain_number(rest));
                self.tokens[self.at] = rest;
                number(&first, "", 0)
            }
            _ => self.nested(Self::primary),
        }
    }

    fn primary(&mut self) -> Result<Node, Reason> {
        let Some(token) = self.peek().cloned() else { return unreadable("it breaks off") };
        self.at += 1;
        match token {
            Token::Number { digits, repeating, exponent } => {
                if self.peek() == Some(&Token::Underscore) && repeating.is_empty() && exponent == 0 {
                    return self.numeral(&digits);
                }
                number(&digits, &repeating, exponent)
            }
            Token::Symbol(name) => self.subscripted(name),
            Token::Euler if self.peek() == Some(&Token::Underscore) => self.subscripted("e".into()),
            Token::Imaginary if self.peek() == Some(&Token::Underscore) => self.subscripted("i".into()),
            Token::Euler => Ok(Node::Euler),
            Token::Imaginary => Ok(Node::Imaginary),
            Token::Pi => Ok(Node::Pi),
            Token::Infinity => Ok(Node::Infinity),
            Token::Reals => {
                let ends = vec![Node::Sum(vec![(Sign::Minus, Node::Infinity)]), Node::Infinity];
                Ok(Node::Group('(', ends, ')'))
            }
            Token::Accent(kind) => match self.argument()? {
                Node::Symbol(name) => self.subscripted(format!("{kind}{name}")),
                other if kind == "bar " => Ok(other),
                _ => unreadable("an accent over something that is not a symbol"),
            },
            Token::Text(text) => Ok(words_node(&text)),
            Token::Function(function) => self.call(function),
            Token::Frac => {
                let top = self.argument()?;
                let bottom = self.argument()?;
                Ok(Node::Product(vec![(false, top), (true, bottom)]))
            }
            Token::Binom => {
                let top = self.argument()?;
                let bottom = self.argument()?;
                Ok(Node::Call(Function::Binomial, vec![top, bottom]))
            }
            Token::Root => self.root(),
            Token::Open(open) => self.brackets(open),
            Token::BraceOpen => {
                self.at -= 1;
                self.nested(Self::braces)
            }
            Token::Bar => {
                self.bars += 1;
                let inside = self.nested(Self::sum)?;
                self.bars -= 1;
                if !self.take(&Token::Bar) {
                    return unreadable("a bar that is not closed");
                }
                Ok(Node::Call(Function::Abs, vec![inside]))
            }
            Token::MatrixOpen => self.matrix(),
            other => unreadable(format!("{} where a value should be", spelled(&other))),
        }
    }

    /// `52_8`, `52_{8}`.
    fn numeral(&mut self, digits: &str) -> Result<Node, Reason> {
        self.at += 1;
        let index = self.argument_whole()?;
        let base = index.as_integer().and_then(|b| u32::try_from(b).ok()).filter(|b| (2..=36).contains(b));
        let Some(base) = base else { return unreadable("a number with an index that is not a base") };
        if digits.len() > DIGITS {
            return Err(Reason::TooLarge(format!("a number of {} digits", digits.len())));
        }
        match BigInt::parse_bytes(digits.as_bytes(), base) {
            Some(value) => Ok(Node::Numeral(value, base)),
            None => unreadable(format!(
                "{} has a digit that base {base} does not know",
                &digits[..digits.len().min(20)]
            )),
        }
    }

    /// An index: braces, or one number, symbol or text as a whole.
    fn argument_whole(&mut self) -> Result<Node, Reason> {
        match self.peek() {
            Some(Token::BraceOpen) => self.nested(Self::braces),
            _ => self.nested(Self::primary),
        }
    }

    /// A symbol with its indices, which are part of its name.
    fn subscripted(&mut self, mut name: String) -> Result<Node, Reason> {
        while self.take(&Token::Underscore) {
            let start = self.at;
            if self.peek() == Some(&Token::BraceOpen) {
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
                        break;
                    }
                }
            } else if self.peek().is_some() {
                self.at += 1;
            }
            name.push('_');
            for token in &self.tokens[start..self.at] {
                match token {
                    Token::BraceOpen | Token::BraceClose => {}
                    Token::Symbol(part) | Token::Text(part) => name += part,
                    Token::Number { digits, .. } => name += digits,
                    Token::Euler => name.push('e'),
                    Token::Imaginary => name.push('i'),
                    other => name += &format!("{other:?}").to_lowercase(),
                }
            }
        }
        // `I(0)` and `f(2)` are values of functions: nobody multiplies by a written zero.
        if let [Token::Open('('), Token::Number { digits, .. }, Token::Close(')'), ..] =
            &self.tokens[self.at..]
            && (digits.trim_matches('0').is_empty() || "fghFGH".contains(name.as_str()))
        {
            name = format!("{name}({digits})");
            self.at += 3;
        }
        Ok(Node::Symbol(name))
    }

    fn root(&mut self) -> Result<Node, Reason> {
        let mut order = Node::integer(2);
        if self.take(&Token::Open('[')) {
            order = self.nested(Self::sum)?;
            if !self.take(&Token::Close(']')) {
                return unreadable("the order of a root that is not closed");
            }
        }
        let inside = self.argument_whole()?;
        Ok(Node::Call(Function::Root, vec![inside, order]))
    }

    /// A function, its power and base, and its argument: brackets, or the factors up to the next sign or function.
    fn call(&mut self, function: Function) -> Result<Node, Reason> {
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
        let mut arguments = match self.peek() {
            Some(Token::Open('(' | '[')) => {
                self.at += 1;
                let bars = std::mem::take(&mut self.bars);
                let items = self.items()?;
                self.bars = bars;
                if !matches!(self.peek(), Some(Token::Close(')' | ']'))) {
                    return unreadable("a bracket that is not closed");
                }
                self.at += 1;
                items
            }
            Some(Token::BraceOpen) => match self.nested(Self::braces)? {
                Node::Set(items) => items,
                one => vec![one],
            },
            _ => {
                let mut factors = vec![(false, self.factor()?)];
                while self.at_factor() && !matches!(self.peek(), Some(Token::Function(_) | Token::Text(_))) {
                    self.juxtaposed(&mut factors)?;
                }
                vec![if factors.len() == 1 { factors.remove(0).1 } else { Node::Product(factors) }]
            }
        };
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
        // `\sin^{-1}` is the inverse function; `\sin^2 x` the square of the sine.
        let inverse = |power: &Node| {
            *power == Node::integer(-1)
                || matches!(power, Node::Sum(terms)
            if matches!(&terms[..], [(Sign::Minus, one)] if *one == Node::integer(1)))
        };
        let inverted = match function {
            Function::Sin => Some(Function::Arcsin),
            Function::Cos => Some(Function::Arccos),
            Function::Tan => Some(Function::Arctan),
            _ => None,
        };
        Ok(match (power, inverted) {
            (Some(power), Some(inverted)) if inverse(&power) => Node::Call(inverted, arguments),
            (Some(power), _) => Node::Power(Box::new(Node::Call(function, arguments)), Box::new(power)),
            (None, _) => Node::Call(function, arguments),
        })
    }

    fn brackets(&mut self, open: char) -> Result<Node, Reason> {
        let bars = std::mem::take(&mut self.bars);
        let items = self.nested(Self::items);
        self.bars = bars;
        let mut items = items?;
        let Some(Token::Close(close)) = self.peek().cloned() else {
            return unreadable("a bracket that is not closed");
        };
        self.at += 1;
        let one = items.len() == 1;
        match (open, close) {
            ('{', '}') => Ok(Node::Set(items)),
            _ if items.is_empty() => unreadable("empty brackets"),
            ('(', ')') | ('[', ']') if one => Ok(items.remove(0)),
            ('f', 'f') if one => Ok(Node::Call(Function::Floor, items)),
            ('c', 'c') if one => Ok(Node::Call(Function::Ceil, items)),
            ('<', '>') => Ok(Node::Group('(', items, ')')),
            ('(' | '[', ')' | ']') if items.len() > 1 => Ok(Node::Group(open, items, close)),
            _ => unreadable("brackets that do not match"),
        }
    }

    fn matrix(&mut self) -> Result<Node, Reason> {
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
        Ok(Node::Matrix(rows))
    }
}

/// A symbol with one more prime; on a number the sign of minutes and seconds, which is left out.
fn primed(node: Node) -> Node {
    match node {
        Node::Symbol(name) => Node::Symbol(format!("{name}'")),
        other => other,
    }
}

/// A text as a value: the letter of a choice, or words.
fn words_node(text: &str) -> Node {
    let canonical = words::canonical(text);
    let bare = text.trim_matches(|c: char| !c.is_alphanumeric());
    if bare.len() == 1 && bare.bytes().all(|b| b.is_ascii_alphabetic()) {
        return Node::Symbol(bare.to_owned());
    }
    Node::Words(canonical)
}

/// `w + t/b`, or `w - t/b` for a negative `w`.
fn mixed(whole: &BigInt, top: u32, bottom: u32) -> Node {
    let part = BigRational::new(top.into(), bottom.into());
    let part = if whole.is_negative() { -part } else { part };
    let value = BigRational::from_integer(whole.clone()) + part;
    Node::Number(Number { value, places: None, significant: 1 })
}

/// The exact value of digits with a point, repeating digits and a power of ten.
fn number(digits: &str, repeating: &str, exponent: i64) -> Result<Node, Reason> {
    let length = digits.len() + repeating.len();
    if length > DIGITS || exponent.unsigned_abs() > DIGITS as u64 {
        return Err(Reason::TooLarge(format!("a number of more than {DIGITS} digits")));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}{repeating}");
    let Some(all_value) = BigInt::parse_bytes(all.as_bytes(), 10) else {
        return unreadable("a number without digits");
    };
    if !digits.contains('.') && repeating.is_empty() && exponent == 0 {
        let value = BigRational::from_integer(all_value);
        return Ok(Node::Number(Number { value, places: None, significant: 1 }));
    }
    let ten = |n: usize| BigInt::from(10).pow(n as u32);
    let mut value = if repeating.is_empty() {
        BigRational::new(all_value, ten(fraction.len()))
    } else {
        // 0.ab(cd) = (abcd - ab) / (9900)
        let head = BigInt::parse_bytes(format!("0{whole}{fraction}").as_bytes(), 10).unwrap_or_default();
        let nines = ten(repeating.len()) - BigInt::one();
        BigRational::new(all_value - head, nines * ten(fraction.len()))
    };
    let scale = ten(exponent.unsigned_abs() as usize);
    value = if exponent < 0 { value / scale } else { value * scale };
    let places = if repeating.is_empty() { Some(fraction.len() as i64 - exponent) } else { None };
    let significant = all.trim_start_matches('0').len() as u32;
    Ok(Node::Number(Number { value, places, significant }))
}
