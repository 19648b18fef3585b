//! Documents with an element a line, and the lines in which one differs from the stored one.

use super::text::visible;

/// A line of one of the two documents.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangedLine {
    pub(super) is_new: bool,
    pub(super) text: String,
}

/// The lines of `stored` that go, then those of `edited` that come: all between the first and the
/// last difference. The layout does not count.
pub(super) fn changes(stored: &str, edited: &str) -> Vec<ChangedLine> {
    let old = lines(stored);
    let new = lines(edited);
    let shorter = old.len().min(new.len());
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let same_at_end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let after = same_at_end.min(shorter - before);
    let mut changed = Vec::new();
    for (is_new, lines) in [(false, &old), (true, &new)] {
        for line in &lines[before..lines.len() - after] {
            changed.push(ChangedLine { is_new, text: visible(line).into_owned() });
        }
    }
    changed
}

/// A document with an element, or a value, a line.
fn lines(document: &str) -> Vec<String> {
    let lines: Vec<String> = match serde_json::from_str::<serde_json::Value>(document) {
        Ok(value) => format!("{value:#}").lines().map(str::to_owned).collect(),
        // Its indentation means nothing.
        Err(_) => laid_out(document).lines().map(|line| line.trim().to_owned()).collect(),
    };
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// An XML document with an element a line, for people to read and to edit. Empty elements stay
/// empty: a line end in one would be its value.
pub(super) fn laid_out(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    let mut rest = document;
    let mut depth = 0_usize;
    while let Some(at) = rest.find("><") {
        let (head, tail) = rest.split_at(at + 1);
        text += head;
        rest = tail;
        let tag = &head[head.rfind('<').unwrap_or(0)..];
        let opens = !(tag.starts_with("</") || tag.starts_with("<?") || tag.ends_with("/>"));
        let closes_next = rest.starts_with("</");
        // What stands before the tag on its line may have opened and closed elements of its own.
        depth = depth.saturating_add_signed(isize::from(opens) - isize::from(closes_next));
        if !(opens && closes_next) {
            text.push('\n');
            text += &"  ".repeat(depth.min(DEPTH_MAX));
        }
    }
    text + rest
}

/// Steps of indentation: hostile documents must not make their page long.
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(stored: &str, edited: &str) -> Vec<String> {
        let signed = changes(stored, edited).into_iter().map(|line| {
            let sign = if line.is_new { '+' } else { '-' };
            format!("{sign}{}", line.text)
        });
        signed.collect()
    }

    #[test]
    fn elements_have_lines_and_empty_ones_stay_empty() {
        let document = "<?xml version=\"1.0\"?>\n<A x=\"1\"><B><C>1</C><D/></B><E></E><F>a</F></A>";
        let shown = "<?xml version=\"1.0\"?>\n<A x=\"1\">\n  <B>\n    <C>1</C>\n    <D/>\n  </B>\n  <E></E>\n  <F>a</F>\n</A>";
        assert_eq!(laid_out(document), shown);
        for other in ["", "<A/>", "text", "><", "</A></A></A>"] {
            assert_eq!(laid_out(other).replace(['\n', ' '], ""), other);
        }
    }

    #[test]
    fn lines_between_the_first_and_the_last_difference_are_changed() {
        assert_eq!(told("<A><B>1</B><C/></A>", "<A><B>2</B><C/></A>"), ["-<B>1</B>", "+<B>2</B>"]);
        assert_eq!(told("<A><B/></A>", "<A>\r\n  <B/>\r\n  <B/>\r\n</A>\r\n"), ["+<B/>"]);
        assert_eq!(
            told("{\"a\":1}", "{ \"a\": 1, \"b\": 2 }"),
            ["-  \"a\": 1", "+  \"a\": 1,", "+  \"b\": 2"]
        );
        assert_eq!(told("", "<A/>"), ["+<A/>"]);
        assert_eq!(told("<A/>", ""), ["-<A/>"]);
        assert_eq!(told("a\nb\na", "a\nb\na\nb\na"), ["+b", "+a"]);
        assert_eq!(told("x", "\u{202e}"), ["-x", "+⟨U+202E⟩"]);
        assert!(told("{\"a\":1}", "{ \"a\" : 1 }").is_empty() && told("", "\n").is_empty());
    }
}
