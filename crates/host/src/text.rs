//! Escapes untrusted text, so that it moves no cursor, changes no terminal and begins no line.
//!
//! File names, file contents, what a peer sends and what a product answers may hold any character. A terminal obeys
//! control characters (ANSI and OSC sequences retitle windows, clear screens and fill clipboards), a newline forges a
//! line of output, and bidirectional overrides reorder what is read. So such text passes through here before it
//! reaches a terminal, a log or a report.
//!
//! A backslash stays as it is, otherwise every Windows path would double; `a\nb` is shown the same whether it held a
//! newline or those four characters. Where the difference matters, use JSON.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal shows this character as one of its own glyphs, and the ones around it in their order.
fn is_shown(character: char) -> bool {
    !matches!(character,
        // Control characters of ASCII and Latin-1: ESC, newline, and CSI and OSC as single characters.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Soft hyphen, fillers and other characters without a glyph: two names that look alike.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        // Marks, embeddings, overrides and isolates of the bidirectional algorithm.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        // Line and paragraph separator.
        | '\u{2028}' | '\u{2029}'
        // Musical and shorthand format characters; tags and variation selectors.
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line: each control character, bidirectional override and character without a glyph is shown as
/// `\n`, `\r`, `\t` or `\u{1b}`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find(|character| !is_shown(character)) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for character in text[first..].chars() {
        match character {
            shown if is_shown(shown) => out.push(shown),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(other));
            }
        }
    }
    Cow::Owned(out)
}

/// As [`printable`], cut after `chars_max` characters of `text`; what was left out is counted.
#[must_use]
pub fn printable_cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => printable(text),
        Some((end, _)) => {
            let mut out = printable(&text[..end]).into_owned();
            // Writing to a string cannot fail.
            let _ = write!(out, "… ({} bytes more)", text.len() - end);
            Cow::Owned(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_as_text() {
        for (given, shown) in [
            ("", ""),
            ("plain, ünïcode, 日本語, 🌊", "plain, ünïcode, 日本語, 🌊"),
            ("C:\\logs\\a", "C:\\logs\\a"),
            ("\u{1b}[2J\u{1b}[31mred", "\\u{1b}[2J\\u{1b}[31mred"),
            ("\u{1b}]0;title\u{7}", "\\u{1b}]0;title\\u{7}"),
            ("\u{1b}]52;c;cm0gLXJm\u{1b}\\", "\\u{1b}]52;c;cm0gLXJm\\u{1b}\\"),
            ("\u{9b}2J and \u{9d}0;title\u{9c}", "\\u{9b}2J and \\u{9d}0;title\\u{9c}"),
            ("a\ndamage none\r\n\tb\u{8}\u{7f}\0", "a\\ndamage none\\r\\n\\tb\\u{8}\\u{7f}\\u{0}"),
            ("seg\u{202e}gpj.\u{202c}exe", "seg\\u{202e}gpj.\\u{202c}exe"),
            ("a\u{2066}b\u{2069}c\u{200f}d\u{61c}", "a\\u{2066}b\\u{2069}c\\u{200f}d\\u{61c}"),
            (
                "a\u{200b}b\u{feff}\u{ad}\u{2028}\u{2029}\u{85}",
                "a\\u{200b}b\\u{feff}\\u{ad}\\u{2028}\\u{2029}\\u{85}",
            ),
            ("tag\u{e0041}", "tag\\u{e0041}"),
        ] {
            assert_eq!(printable(given), shown);
            assert!(printable(given).chars().all(is_shown));
        }
        assert!(matches!(printable("nothing to do"), Cow::Borrowed(_)));
    }

    #[test]
    fn no_control_character_of_any_plane_gets_through() {
        for character in (0..=0x10_ffff).filter_map(char::from_u32).filter(|character| character.is_control())
        {
            assert!(!printable(&character.to_string()).contains(character), "{character:?}");
        }
    }

    #[test]
    fn what_is_cut_is_counted_and_no_character_is_split() {
        assert_eq!(printable_cut("three", 5), "three");
        assert_eq!(printable_cut("üüüü", 2), "üü… (4 bytes more)");
        assert_eq!(printable_cut("\u{1b}\u{1b}a", 1), "\\u{1b}… (2 bytes more)");
    }
}
