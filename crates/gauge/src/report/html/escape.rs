//! Escapes text for HTML; all text of a page passes through these types.
//!
//! Invariant: whatever a file system, device or result file calls itself, the page shows it as text.

use std::fmt;

/// Text as it stands in an element or between the double quotes of an attribute.
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(['&', '<', '>', '"', '\'', '\0']) {
            f.write_str(&rest[..at])?;
            f.write_str(match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'"' => "&quot;",
                b'\'' => "&#39;",
                // No page may hold it.
                _ => "\u{FFFD}",
            })?;
            rest = &rest[at + 1..];
        }
        f.write_str(rest)
    }
}

/// Prose, in which what stands between backticks is code.
pub(super) struct Words<'a>(pub(super) &'a str);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, code, after)) = code(rest) {
            write!(f, "{}<code>{}</code>", Text(before), Text(code))?;
            rest = after;
        }
        Text(rest).fmt(f)
    }
}

/// What stands before, in and after the first pair of backticks.
fn code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

/// The id of a row, which may be broken at its plus signs.
pub(crate) struct Id<'a>(pub(crate) &'a str);

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Text(self.0).to_string().replace('+', "+<wbr>"))
    }
}

/// JSON as it stands in a script element, which ends at the first `</script` whatever the quotes around it say.
pub(super) fn script_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // These occur in JSON inside of strings only, where the escape means the same.
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let hostile = "<img src=x onerror=\"alert('1')\">&amp;\0";
        let shown = Text(hostile).to_string();
        assert_eq!(shown, "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;amp;\u{FFFD}");
        assert_eq!(Id("a+<b>").to_string(), "a+<wbr>&lt;b&gt;");
    }

    #[test]
    fn code_is_marked_and_nothing_else_becomes_markup() {
        assert_eq!(Words("`a<b` and `c`, `").to_string(), "<code>a&lt;b</code> and <code>c</code>, `");
        assert_eq!(Words("plain & <b>").to_string(), "plain &amp; &lt;b&gt;");
    }

    #[test]
    fn json_in_a_script_cannot_end_it_and_means_the_same() {
        let hostile = "</script><script>alert(1)</script><!--&\u{2028}";
        let json = serde_json::to_string(hostile).expect("JSON");
        let escaped = script_json(&json);
        assert!(!escaped.contains('<') && !escaped.contains('&') && !escaped.contains('\u{2028}'));
        assert_eq!(serde_json::from_str::<String>(&escaped).expect("JSON"), hostile);
    }
}
