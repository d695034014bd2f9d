//! Puts a page together: head, header, content, scripts, and the policy under which a browser shows them.
//!
//! Invariants: the policy allows the style sheets and scripts that the document was made with, by their hashes, and nothing
//! else: markup that came from a result runs nothing and loads nothing, even if it were not escaped.

use super::escape::Text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

#[derive(Debug, Default)]
pub(super) struct Document<'a> {
    pub(super) title: &'a str,
    /// The program that made it, as the file states it.
    pub(super) made: &'a str,
    /// Ids of its sections, and what they are called.
    pub(super) contents: &'a [(String, String)],
    pub(super) main: &'a str,
    pub(super) footer: &'a str,
    pub(super) styles: &'a [&'a str],
    /// What its scripts read, as markup that runs nothing.
    pub(super) data: &'a str,
    pub(super) scripts: &'a [&'a str],
}

impl Document<'_> {
    pub(super) fn text(&self) -> String {
        let links =
            self.contents.iter().map(|(id, name)| format!("<li><a href=\"#{id}\">{}</a></li>", Text(name)));
        let links = links.collect::<Vec<_>>().concat();
        let inside = |tag: &str, texts: &[&str]| {
            texts.iter().map(|text| format!("<{tag}>{text}</{tag}>\n")).collect::<Vec<_>>().concat()
        };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"generator\" content=\"{made}\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <link rel=\"icon\" href=\"data:,\">\n{styles}</head>\n<body>\n\
             <a class=\"skip\" href=\"#content\">to the content</a>\n\
             <header class=\"top\">\n<p class=\"brand\">{made}</p>\n<h1>{title}</h1>\n\
             <nav class=\"contents\" aria-label=\"Contents\"><ul>{links}</ul></nav>\n</header>\n\
             <main id=\"content\">\n{main}</main>\n<footer>{footer}</footer>\n{data}{scripts}</body>\n</html>\n",
            made = Text(self.made),
            policy = policy(self.styles, self.scripts),
            title = Text(self.title),
            styles = inside("style", self.styles),
            main = self.main,
            footer = self.footer,
            data = self.data,
            scripts = inside("script", self.scripts),
        )
    }
}

/// Nothing is loaded and no form is sent; these styles and scripts apply.
fn policy(styles: &[&str], scripts: &[&str]) -> String {
    let hashes = |texts: &[&str]| {
        let hash = |text: &&str| format!(" 'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
        texts.iter().map(hash).collect::<Vec<_>>().concat()
    };
    format!(
        "default-src 'none'; script-src{}; style-src{}; img-src data:; base-uri 'none'; form-action 'none'",
        hashes(scripts),
        hashes(styles)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_the_hash_of_each_block_and_nothing_that_is_inline_otherwise() {
        // The hash of this script is an example of the policy's specification.
        let text = Document { scripts: &["doSomething();"], styles: &["p {}"], ..Document::default() }.text();
        assert!(
            text.contains(
                "script-src 'sha256-RFWPLDbv2BY+rCkDzsE+0fr8ylGr2R2faWMhq4lfEQc='; style-src 'sha256-"
            ),
            "{text}"
        );
        assert!(!text.contains("unsafe"), "{text}");
        assert!(text.contains("<script>doSomething();</script>"), "{text}");
    }
}
