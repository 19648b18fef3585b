//! A writer of HTML pages: headings and lists. All text is escaped here.

use std::borrow::Cow;

use super::writer::legible;

/// A page under construction.
pub struct HtmlPage(String);

impl HtmlPage {
    /// Begins a page with a title, which is its first heading as well.
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        Self(format!("<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n"))
    }

    /// Adds a heading of the third level.
    pub fn heading(&mut self, text: &str) {
        self.0.extend(["<h3>", &escape(text), "</h3>\n"]);
    }

    /// Adds a list of names with their values.
    pub fn list<'t>(&mut self, items: impl Iterator<Item = (&'t str, &'t str)>) {
        self.0.push_str("<ul>\n");
        for (name, value) in items {
            self.0.extend(["<li>", &escape(name), ": ", &escape(value), "</li>\n"]);
        }
        self.0.push_str("</ul>\n");
    }

    /// Ends the page.
    pub fn finish(mut self) -> Vec<u8> {
        self.0.push_str("<hr/>\n</body>\n</html>\n");
        self.0.into_bytes()
    }
}

/// Escapes text for an element or a quoted attribute. Control characters are replaced.
fn escape(text: &str) -> Cow<'_, str> {
    let text = legible(text);
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_title_and_lists_and_no_markup_of_others() {
        let mut page = HtmlPage::new("404 <Not> Found");
        page.list([("Code", "x"), ("Key", "</li><script>'\"&\0")].into_iter());
        page.heading("More & <more>");
        assert_eq!(
            String::from_utf8(page.finish()).unwrap(),
            "<html>\n<head><title>404 &lt;Not&gt; Found</title></head>\n<body>\n<h1>404 &lt;Not&gt; Found</h1>\n<ul>\n\
             <li>Code: x</li>\n<li>Key: &lt;/li&gt;&lt;script&gt;&#39;&quot;&amp;\u{fffd}</li>\n</ul>\n\
             <h3>More &amp; &lt;more&gt;</h3>\n<hr/>\n</body>\n</html>\n"
        );
    }
}
