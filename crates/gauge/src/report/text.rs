//! Wraps text to a width, with a label before the first line; a [`Page`] collects lines.
//!
//! Invariant: no line is wider than the width; a word that is wider is cut into pieces of it. Every character
//! used in reports is one column wide.

use super::{Role, Style};

/// A report for a terminal, as it grows.
pub(crate) struct Page {
    pub out: String,
    pub width: usize,
    style: Style,
}

impl Page {
    pub(crate) fn new(width: usize, style: Style) -> Self {
        Self { out: String::new(), width, style }
    }

    /// A line as it is; the caller has seen to its width.
    pub(crate) fn line(&mut self, role: Role, text: &str) {
        self.out += &self.style.paint(role, text.trim_end());
        self.out.push('\n');
    }

    pub(crate) fn blank(&mut self) {
        self.out.push('\n');
    }

    /// A paragraph after a label.
    pub(crate) fn say(&mut self, role: Role, label: &str, text: &str) {
        let indent = " ".repeat(width_of(label));
        for line in wrapped(label, &indent, text, self.width) {
            self.line(role, &line);
        }
    }
}

/// How many columns `text` takes.
pub(crate) fn width_of(text: &str) -> usize {
    text.chars().count()
}

/// `text` in lines of at most `width` columns; the first begins with `first`, the others with `rest`.
pub fn wrapped(first: &str, rest: &str, text: &str, width: usize) -> Vec<String> {
    let room = |lead: &str| width.saturating_sub(width_of(lead)).max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut lead = first;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let mut word = word;
        while !line.is_empty() && width_of(&line) + 1 + width_of(word) > room(lead) {
            lines.push(format!("{lead}{line}"));
            lead = rest;
            line.clear();
        }
        while width_of(word) > room(lead) {
            let at = word.char_indices().nth(room(lead)).map_or(word.len(), |(at, _)| at);
            lines.push(format!("{lead}{}", &word[..at]));
            lead = rest;
            word = &word[at..];
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(format!("{lead}{line}").trim_end().to_owned());
    lines
}

/// `text` in at most `width` columns, its end replaced by `…` if it is longer.
pub(crate) fn elided(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_too_wide_and_no_word_is_lost() {
        let text = "a few words and onethatisverylongindeed µs";
        for width in 8..50 {
            let lines = wrapped("lead  ", "      ", text, width);
            assert!(lines.iter().all(|line| width_of(line) <= width), "{width}: {lines:?}");
            let joined: String = lines.concat();
            let letters = |s: &str| s.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(letters(&joined), format!("lead{}", letters(text)));
        }
        assert_eq!(elided("abcdef", 4), "abc…");
    }
}
