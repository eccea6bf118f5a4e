//! Puts every mutant of a file behind its switch.
//!
//! A mutated branch holds the original text of what it does not mutate, since only one mutant is on at a time.

use std::collections::{BTreeMap, HashMap};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::edits::{self, Edit};
use crate::lazy::{self, Constants};
use crate::mutant::{Mutant, Numbered, Status};
use crate::source::Source;
use crate::switch::{marked, on};

/// The rewritten text, and what became of the mutants.
pub(crate) fn rewrite(
    source: &Source,
    mutants: &[Numbered],
    constants: &Constants,
) -> (String, BTreeMap<usize, Status>) {
    let mut wanted: HashMap<(String, usize), Vec<(usize, Mutant)>> = HashMap::new();
    for Numbered { number, mutant } in mutants {
        let key = (mutant.genre.clone(), source.offset(mutant.span.start));
        wanted.entry(key).or_default().push((*number, (*mutant).clone()));
    }
    let mut rewriter =
        Rewriter { source, constants, wanted, edits: Vec::new(), fixed: false, status: BTreeMap::new() };
    rewriter.visit_file(&source.tree);
    (edits::apply(&source.text, rewriter.edits), rewriter.status)
}

struct Rewriter<'s> {
    source: &'s Source<'s>,
    constants: &'s Constants,
    /// Mutants by genre and start, until they are found.
    wanted: HashMap<(String, usize), Vec<(usize, Mutant)>>,
    edits: Vec<Edit>,
    /// Inside a constant that stays one.
    fixed: bool,
    status: BTreeMap<usize, Status>,
}

impl Rewriter<'_> {
    /// The mutants of a genre that start here, as far as they can stand behind a switch.
    fn take(&mut self, genre: &str, at: Span, possible: bool) -> Vec<(usize, Mutant)> {
        let start = self.source.range(at).0;
        let found = self.wanted.remove(&(genre.to_owned(), start)).unwrap_or_default();
        let status = match (self.fixed, possible) {
            (true, _) => Status::Constant,
            (_, false) => Status::LetChain,
            _ => Status::Switch,
        };
        self.status.extend(found.iter().map(|(number, _)| (*number, status)));
        if status == Status::Switch { found } else { Vec::new() }
    }

    /// `(if on { mutated } else { as it was })`
    fn choose(&mut self, span: Span, rank: u8, alternatives: Vec<(usize, String)>) {
        if alternatives.is_empty() {
            return;
        }
        let branches = alternatives
            .iter()
            .map(|(number, text)| format!("if {} {{ {} }} else ", on(*number), marked(*number, text)));
        let before = format!("({}{{ ", branches.collect::<String>());
        self.edits.push(Edit::wrap(self.source.range(span), rank, before, " })"));
    }

    /// A function whose value is replaced returns at once.
    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let Some(first) = block.stmts.first() else { return };
        let found = self.take("FnValue", first.span(), true);
        if found.is_empty() {
            return;
        }
        let boxed = self.boxed(signature);
        let (open, close) = self.source.range(block.span());
        let mut text = String::new();
        for (number, mutant) in found {
            let value = if mutant.replacement.is_empty() { "()" } else { &mutant.replacement };
            let value = if boxed { format!("Box::new({value})") } else { value.to_owned() };
            text += &format!(" if {} {{ {} }}", on(number), marked(number, &format!("return {value};")));
        }
        if boxed {
            self.edits.push(Edit::insert(open + 1, text + " Box::new({"));
            self.edits.push(Edit::insert(close - 1, "})".to_owned()));
        } else {
            self.edits.push(Edit::insert(open + 1, text));
        }
    }

    /// `impl Trait` is one type, a mutant's value is another: both become a boxed `dyn Trait`.
    fn boxed(&mut self, signature: &syn::Signature) -> bool {
        let syn::ReturnType::Type(_, output) = &signature.output else { return false };
        let syn::Type::ImplTrait(bounds) = &**output else { return false };
        let kept = bounds.bounds.iter().filter(|b| !matches!(b, syn::TypeParamBound::PreciseCapture(_)));
        let captures = kept.clone().count() == bounds.bounds.len();
        let mut words: Vec<String> = kept.map(|b| self.source.text_of(b.span()).to_owned()).collect();
        let lifetimes: Vec<_> = signature.generics.lifetimes().collect();
        let inputs = self.source.text_of(signature.inputs.span());
        match lifetimes.as_slice() {
            _ if !captures || words.iter().any(|w| w.starts_with('\'')) => {}
            [one] => words.push(self.source.text_of(one.lifetime.span()).to_owned()),
            _ if inputs.contains('&') => words.push("'_".to_owned()),
            _ => {}
        }
        let text = format!("Box<dyn {}>", words.join(" + "));
        self.edits.push(Edit::replace(self.source.range(output.span()), &text));
        true
    }

    /// A function; a `const` one with mutants of its own is not `const` any more, unless a constant calls it.
    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let before = self.status.len();
        let stays = signature.constness.is_some() && self.constants.calls(&signature.ident);
        let outer = std::mem::replace(&mut self.fixed, stays);
        self.body(signature, block);
        self.visit_block(block);
        self.fixed = outer;
        if let Some(token) = signature.constness.filter(|_| !stays && self.status.len() > before) {
            self.edits.push(Edit::replace(self.source.range(token.span), ""));
        }
    }

    fn inside_constant(&mut self, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.fixed, true);
        visit(self);
        self.fixed = outer;
    }
}

fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Rewriter<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Const(_) | syn::Item::Static(_) if self.constants.has(self.source, item) => {
                self.edits.extend(lazy::edits(self.source, item));
                visit::visit_item(self, item);
            }
            syn::Item::Const(_) | syn::Item::Static(_) => {
                self.inside_constant(|s| visit::visit_item(s, item))
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.inside_constant(|s| visit::visit_impl_item_const(s, item));
    }

    fn visit_type_array(&mut self, array: &'ast syn::TypeArray) {
        self.inside_constant(|s| visit::visit_type_array(s, array));
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        let outer = std::mem::replace(&mut self.fixed, false);
        visit::visit_expr_closure(self, closure);
        self.fixed = outer;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.function(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if self.constants.names(self.source, &path.path) {
            self.edits.push(Edit::insert(self.source.range(path.span()).1, "()".to_owned()));
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let possible = !has_let(&binary.left) && !has_let(&binary.right);
        let found = self.take("BinaryOperator", binary.op.span(), possible);
        let [left, op, right] =
            [binary.left.span(), binary.op.span(), binary.right.span()].map(|s| self.source.text_of(s));
        let assigns = op.ends_with('=') && !["==", "!=", "<=", ">="].contains(&op);
        let mutated = |(number, mutant): (usize, Mutant)| {
            let op = mutant.replacement;
            (
                number,
                if assigns { format!("{left} {op} ({right})") } else { format!("({left}) {op} ({right})") },
            )
        };
        self.choose(binary.span(), 5, found.into_iter().map(mutated).collect());
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let found = self.take("UnaryOperator", unary.op.span(), true);
        let (op, inner) = (self.source.text_of(unary.op.span()), self.source.text_of(unary.expr.span()));
        // Twice is not at all, and has the type of the expression where `inner` is a reference.
        let twice = format!("{op}{op}({inner})");
        self.choose(unary.span(), 6, found.into_iter().map(|(number, _)| (number, twice.clone())).collect());
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, literal: &'ast syn::ExprStruct) {
        let (start, end) = self.source.range(literal.span());
        let text = &self.source.text;
        let mut texts = Vec::new();
        for field in &literal.fields {
            let (from, to) = self.source.range(field.span());
            let comma = text[to..end].find(',').filter(|at| text[to..to + at].trim().is_empty());
            let without = format!("{}{}", &text[start..from], &text[comma.map_or(to, |at| to + at + 1)..end]);
            let found = self.take("StructField", field.span(), true);
            texts.extend(found.into_iter().map(|(number, _)| (number, self.with_calls(literal, &without))));
        }
        self.choose(literal.span(), 4, texts);
        visit::visit_expr_struct(self, literal);
    }

    fn visit_expr_match(&mut self, expr: &'ast syn::ExprMatch) {
        // cargo-mutants takes `_ if guard` for a wildcard, too.
        let rest = |arm: &syn::Arm| arm.guard.is_none() && matches!(arm.pat, syn::Pat::Wild(_));
        if !expr.arms.iter().any(rest) {
            for arm in &expr.arms {
                let gone = self.take("MatchArm", arm.span(), true);
                self.status.extend(gone.iter().map(|(number, _)| (*number, Status::DoesNotCompile)));
            }
        }
        visit::visit_expr_match(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let possible = arm.guard.as_ref().is_none_or(|(_, guard)| !has_let(guard));
        let gone = self.take("MatchArm", arm.span(), possible);
        let Some((_, guard)) = &arm.guard else {
            let end = self.source.range(arm.pat.span()).1;
            self.edits
                .extend(gone.iter().map(|(number, _)| Edit::insert(end, format!(" if !{}", on(*number)))));
            return visit::visit_arm(self, arm);
        };
        let found = self.take("MatchArmGuard", guard.span(), possible);
        self.choose(guard.span(), 2, found.into_iter().map(|(number, m)| (number, m.replacement)).collect());
        let range = self.source.range(guard.span());
        self.edits.extend(
            gone.iter().map(|(number, _)| Edit::wrap(range, 1, format!("!{} && (", on(*number)), ")")),
        );
        visit::visit_arm(self, arm);
    }
}

impl Rewriter<'_> {
    /// The text of a struct without a field, where the base may be a constant that is a function now.
    fn with_calls(&self, literal: &syn::ExprStruct, text: &str) -> String {
        match literal.rest.as_deref() {
            Some(syn::Expr::Path(base)) if self.constants.names(self.source, &base.path) => {
                let name = self.source.text_of(base.span());
                text.replace(&format!("..{name}"), &format!("..{name}()"))
            }
            _ => text.to_owned(),
        }
    }
}
