//! Constants that hold mutants. A constant cannot ask a switch, so it becomes a function, and each mention of it a call.

use std::collections::HashSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, Item, Type};

use crate::edits::Edit;
use crate::mutant::Numbered;
use crate::source::Source;

/// The constants that become functions, by module and name.
pub(crate) struct Constants {
    lazy: HashSet<(String, String)>,
    defined: HashSet<(String, String)>,
    /// The imports of each module.
    imported: HashSet<(String, String)>,
    /// The functions that constants call.
    called: HashSet<String>,
}

impl Constants {
    pub(crate) fn find(sources: &[(Source, Vec<Numbered>)]) -> Constants {
        let (mut lazy, mut defined, mut imported) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut calls = Calls::default();
        sources.iter().for_each(|(source, _)| calls.visit_file(&source.tree));
        let mut within_macros = Words::default();
        sources.iter().for_each(|(source, _)| within_macros.visit_file(&source.tree));
        for (source, mutants) in sources {
            let mut imports = Imports::default();
            imports.visit_file(&source.tree);
            imported.extend(imports.0.into_iter().map(|name| (source.module().to_owned(), name)));
            for item in &source.tree.items {
                let Some((name, _, value)) = parts(item) else { continue };
                // A mention inside a macro is not seen, so that it could not become a call.
                let seen = !within_macros.0.contains(&name);
                let place = (source.module().to_owned(), name);
                if seen && becomes_function(item).is_some() && holds(source, value, mutants) {
                    lazy.insert(place.clone());
                }
                defined.insert(place);
            }
        }
        Constants { lazy, defined, imported, called: calls.names }
    }

    /// True if a constant calls a function of this name, which has to stay `const` then.
    pub(crate) fn calls(&self, function: &syn::Ident) -> bool {
        self.called.contains(&function.to_string())
    }

    /// True if this item of a file is one of them.
    pub(crate) fn has(&self, source: &Source, item: &Item) -> bool {
        parts(item).is_some_and(|(name, ..)| self.lazy.contains(&(source.module().to_owned(), name)))
    }

    /// True if a path names one of them.
    pub(crate) fn names(&self, source: &Source, path: &syn::Path) -> bool {
        let words: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        let Some((name, before)) = words.split_last() else { return false };
        let own = (source.module().to_owned(), name.clone());
        match before.last() {
            Some(module) => self.lazy.contains(&(module.clone(), name.clone())),
            None if self.defined.contains(&own) => self.lazy.contains(&own),
            None => self.imported.contains(&own) && self.lazy.iter().any(|(_, lazy)| lazy == name),
        }
    }
}

/// The words that stand inside macros.
#[derive(Default)]
struct Words(HashSet<String>);

impl Words {
    fn add(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(word) => drop(self.0.insert(word.to_string())),
                TokenTree::Group(group) => self.add(group.stream()),
                // The arguments that a format string captures.
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                    self.0.extend(words.map(str::to_owned));
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Words {
    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.add(invocation.tokens.clone());
    }
}

/// The functions that are called inside constants.
#[derive(Default)]
struct Calls {
    inside: bool,
    names: HashSet<String>,
}

impl Calls {
    fn within(&mut self, value: &Expr) {
        let outer = std::mem::replace(&mut self.inside, true);
        self.visit_expr(value);
        self.inside = outer;
    }
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.within(&item.expr);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.within(&item.expr);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.within(&item.expr);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let (true, Expr::Path(path)) = (self.inside, &*call.func) {
            self.names.extend(path.path.segments.last().map(|s| s.ident.to_string()));
        }
        visit::visit_expr_call(self, call);
    }
}

/// The names that `use` brings in.
#[derive(Default)]
struct Imports(HashSet<String>);

impl<'ast> Visit<'ast> for Imports {
    fn visit_use_name(&mut self, name: &'ast syn::UseName) {
        self.0.insert(name.ident.to_string());
    }
}

/// Name, type and value of a constant.
fn parts(item: &Item) -> Option<(String, &Type, &Expr)> {
    match item {
        Item::Const(item) => Some((item.ident.to_string(), &item.ty, &item.expr)),
        Item::Static(item) => Some((item.ident.to_string(), &item.ty, &item.expr)),
        _ => None,
    }
}

/// True if a mutant stands in the value, outside of closures: those run later anyway.
fn holds(source: &Source, value: &Expr, mutants: &[Numbered]) -> bool {
    struct Closures(Vec<proc_macro2::Span>);
    impl<'ast> Visit<'ast> for Closures {
        fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
            self.0.push(closure.span());
            visit::visit_expr_closure(self, closure);
        }
    }
    let mut closures = Closures(Vec::new());
    closures.visit_expr(value);
    let within = |at: usize, span| {
        let (start, end) = source.range(span);
        (start..end).contains(&at)
    };
    mutants
        .iter()
        .map(|m| source.offset(m.mutant.span.start))
        .any(|at| within(at, value.span()) && !closures.0.iter().any(|closure| within(at, *closure)))
}

/// The forms that can: a value without references, and a reference to a list.
enum Form<'a> {
    Value,
    List { element: &'a Type, list: &'a Expr },
}

fn becomes_function(item: &Item) -> Option<Form<'_>> {
    let (_, ty, value) = parts(item)?;
    match (ty, value) {
        (Type::Reference(reference), Expr::Reference(list)) => match &*reference.elem {
            Type::Slice(slice) => Some(Form::List { element: &slice.elem, list: &list.expr }),
            _ => None,
        },
        (Type::Reference(_) | Type::Slice(_), _) => None,
        _ => Some(Form::Value),
    }
}

/// The edits that make a function of the constant.
pub(crate) fn edits(source: &Source, item: &Item) -> Vec<Edit> {
    let (Some((name, ty, value)), Some(form)) = (parts(item), becomes_function(item)) else {
        return Vec::new();
    };
    let start = match item {
        Item::Const(item) => source.range(item.const_token.span).0,
        Item::Static(item) => source.range(item.static_token.span).0,
        _ => return Vec::new(),
    };
    let end = source.range(item.span()).1;
    let between = |from: usize, to: usize, text: &str| Edit::replace((from, to), text);
    match form {
        Form::Value => {
            let head = format!("fn {name}() -> {} {{ ", source.text_of(ty.span()));
            let (from, to) = source.range(value.span());
            vec![between(start, from, &head), between(to, end, " }")]
        }
        Form::List { element, list } => {
            let element = source.text_of(element.span());
            let head = format!(
                "fn {name}() -> &'static [{element}] {{ static LIST: std::sync::LazyLock<Vec<{element}>> = std::sync::LazyLock::new(|| Vec::from("
            );
            let (from, to) = source.range(list.span());
            vec![between(start, from, &head), between(to, end, ")); &LIST }")]
        }
    }
}
