//! Values as Python writes them in jinja2 and in `json.dumps`.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// A value as `str` of Python.
pub(super) fn text(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::None => "None".to_owned(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.to_owned(),
        ValueKind::Seq | ValueKind::Map => repr(value),
        _ => value.to_string(),
    }
}

/// A value as `repr` of Python, where it is a text, a list or a dictionary.
fn repr(value: &Value) -> String {
    let list = |values: Vec<String>| values.join(", ");
    match value.kind() {
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Seq => {
            let items = value.try_iter().map(|items| items.map(|v| repr(&v)).collect()).unwrap_or_default();
            format!("[{}]", list(items))
        }
        ValueKind::Map => {
            let pair = |key: Value| {
                let inner = value.get_item(&key).unwrap_or_default();
                format!("{}: {}", repr(&key), repr(&inner))
            };
            let pairs = value.try_iter().map(|keys| keys.map(pair).collect()).unwrap_or_default();
            format!("{{{}}}", list(pairs))
        }
        _ => text(value),
    }
}

/// A text in the quotes that Python chooses, with escapes for what is not printable.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if printable(c) => out.push(c),
            c => match c as u32 {
                n @ 0..=0xff => out.push_str(&format!("\\x{n:02x}")),
                n @ 0..=0xffff => out.push_str(&format!("\\u{n:04x}")),
                n => out.push_str(&format!("\\U{n:08x}")),
            },
        }
    }
    out.push(quote);
    out
}

/// True if Python prints the character: a blank, or none of the categories C and Z. Rust escapes the same ones, and combining marks without a
/// letter before them, so one is put there.
fn printable(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || (!c.is_ascii() && format!("a{c}").escape_debug().eq(['a', c]))
}

/// The filter `tojson` of transformers: `json.dumps` with `ensure_ascii=False`.
pub(super) fn tojson(value: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    let indent: Option<Value> = kwargs.get("indent")?;
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let sort_keys: Option<bool> = kwargs.get("sort_keys")?;
    let ensure_ascii: Option<bool> = kwargs.get("ensure_ascii")?;
    kwargs.assert_all_used()?;
    let indent = match indent.filter(|v| !v.is_none()) {
        None => None,
        Some(v) => match (v.as_str(), v.as_usize()) {
            (Some(text), _) => Some(text.to_owned()),
            (None, Some(n)) => Some(" ".repeat(n.min(64))),
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "tojson: indent must be a number or a text",
                ));
            }
        },
    };
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        // With an indent a comma ends its line.
        _ => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
    };
    let style = Dump { indent, item, key, sort: sort_keys == Some(true), ascii: ensure_ascii == Some(true) };
    let json = serde_json::to_value(value)
        .map_err(|e| Error::new(ErrorKind::BadSerialization, format!("tojson: {e}")))?;
    let mut out = String::new();
    style.write(&json, 0, &mut out);
    Ok(Value::from(out))
}

struct Dump {
    indent: Option<String>,
    item: String,
    key: String,
    sort: bool,
    ascii: bool,
}

impl Dump {
    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn string(&self, text: &str, out: &mut String) {
        for c in serde_json::Value::from(text).to_string().chars() {
            if self.ascii && !c.is_ascii() {
                let mut units = [0u16; 2];
                c.encode_utf16(&mut units).iter().for_each(|u| out.push_str(&format!("\\u{u:04x}")));
            } else {
                out.push(c);
            }
        }
    }

    fn write(&self, value: &serde_json::Value, depth: usize, out: &mut String) {
        use serde_json::Value as Json;
        let (open, close, mut items): (_, _, Vec<(Option<&String>, &Json)>) = match value {
            Json::String(text) => return self.string(text, out),
            Json::Array(items) if !items.is_empty() => {
                ('[', ']', items.iter().map(|item| (None, item)).collect())
            }
            Json::Object(map) if !map.is_empty() => {
                ('{', '}', map.iter().map(|(key, inner)| (Some(key), inner)).collect())
            }
            other => return out.push_str(&other.to_string()),
        };
        if self.sort && open == '{' {
            items.sort_by_key(|(key, _)| *key);
        }
        out.push(open);
        for (i, (key, inner)) in items.into_iter().enumerate() {
            out.push_str(if i > 0 { &self.item } else { "" });
            self.line(depth + 1, out);
            if let Some(key) = key {
                self.string(key, out);
                out.push_str(&self.key);
            }
            self.write(inner, depth + 1, out);
        }
        self.line(depth, out);
        out.push(close);
    }
}
