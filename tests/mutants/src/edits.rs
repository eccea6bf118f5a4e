//! Edits that are disjoint or nested, and the text they make.

/// The text of a range stays, itself edited, between two others. A range without length is an insertion.
#[derive(Debug)]
pub(crate) struct Edit {
    pub start: usize,
    pub end: usize,
    /// Rank among edits of one range: the lower is outside.
    pub rank: u8,
    pub before: String,
    pub after: String,
    /// True if the text of the range stays.
    pub keep: bool,
}

impl Edit {
    pub(crate) fn insert(at: usize, text: String) -> Edit {
        Edit { start: at, end: at, rank: 0, before: text, after: String::new(), keep: true }
    }

    pub(crate) fn wrap(range: (usize, usize), rank: u8, before: String, after: &str) -> Edit {
        Edit { start: range.0, end: range.1, rank, before, after: after.to_owned(), keep: true }
    }

    pub(crate) fn replace(range: (usize, usize), text: &str) -> Edit {
        Edit {
            start: range.0,
            end: range.1,
            rank: 9,
            before: text.to_owned(),
            after: String::new(),
            keep: false,
        }
    }
}

/// `text` with all edits.
pub(crate) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|e| (e.start, std::cmp::Reverse(e.end), e.rank));
    let mut out = String::new();
    let mut open: Vec<&Edit> = Vec::new();
    let mut at = 0;
    let close = |out: &mut String, at: &mut usize, edit: &Edit| {
        if edit.keep {
            *out += &text[*at..edit.end];
        }
        *at = edit.end;
        *out += &edit.after;
    };
    for edit in &edits {
        while let Some(top) =
            open.pop_if(|top| top.end <= edit.start && (top.start, top.end) != (edit.start, edit.end))
        {
            close(&mut out, &mut at, top);
        }
        out += &text[at..edit.start];
        at = edit.start;
        out += &edit.before;
        open.push(edit);
    }
    while let Some(top) = open.pop() {
        close(&mut out, &mut at, top);
    }
    out + &text[at..]
}
