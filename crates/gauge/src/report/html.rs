//! Renders results as one self-contained HTML file with charts, tables and findings.
//!
//! ```text
//!   page ─┬─ comparison              of several results of one scenario       html/versus.rs
//!         ├─ run, one a result       recommendation · table · pictures · findings    html/run.rs, rows.rs, charts.rs
//!         └─ pictures as JSON        drawn by page.js with uPlot              html/picture.rs
//! ```
//!
//! Invariants: the page loads nothing and runs nothing but its own scripts (its policy forbids it); every text goes through `escape`; every
//! figure of a picture stands in a table too; without scripts the page lacks only the pictures.

mod charts;
mod document;
pub(crate) mod escape;
mod picture;
mod rows;
mod run;
mod versus;

use crate::compare::families::Families;
use crate::compare::side::Side;
use crate::lookup::unique;
use crate::report::figure::Form;
use crate::report::figure::scene::{INKS, Scene};
use crate::report::figure::svg::{Colours, element};
use crate::report::markdown::add;
use crate::result::RunResult;
use document::Document;
use escape::{Text, Words, script_json};
use picture::Picture;

const CSS: &str = include_str!("html/page.css");
const JS: &str = include_str!("html/page.js");
const CHARTS_JS: &str = include_str!("../../vendor/uplot/uPlot.iife.min.js");
const CHARTS_CSS: &str = include_str!("../../vendor/uplot/uPlot.min.css");
const CHARTS_LICENCE: &str = include_str!("../../vendor/uplot/LICENSE");

/// A result and what it is called, such as its file's name.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// The name.
    pub name: &'a str,
    /// The result.
    pub result: &'a RunResult,
}

/// The page of one result.
pub fn html(result: &RunResult) -> String {
    page(&[Named { name: "result.json", result }], &[])
}

/// The page of several results and the published tables with them: a comparison for each scenario of which there are
/// two and more, then each result by itself.
pub fn page(results: &[Named<'_>], published: &[Side]) -> String {
    let mut page = Page::default();
    let mut contents = Vec::new();
    let sides = results.iter().map(|named| Side::own(named.name, named.result));
    let sides: Vec<Side> = sides.chain(published.iter().cloned()).collect();
    let families = Families::new(sides.clone(), None).ok();
    let title = match results {
        [one] if published.is_empty() => run::heading(one.result),
        _ => several_title(&sides, families.as_ref()),
    };
    if results.iter().any(|other| other.result.scenario != results[0].result.scenario) {
        summary(&mut page, results, &mut contents);
    }
    for comparison in families.iter().flat_map(|families| &families.comparisons) {
        versus::section(&mut page, comparison, results, &mut contents);
    }
    for (index, named) in results.iter().enumerate() {
        if sides.len() > 1 {
            let id = format!("run-{index}");
            let scenario = named.result.scenario.as_str();
            page.add(&format!("<h2 id=\"{id}\">{}</h2>\n", Text(scenario)));
            page.add(&format!("<p><strong>{}</strong></p>\n", Text(&run::heading(named.result))));
            page.add(&format!("<p class=\"soft\">from <code>{}</code></p>\n", Text(named.name)));
            let alone = results.iter().filter(|other| other.result.scenario == scenario).count() == 1;
            contents
                .push((id, if alone { scenario.to_owned() } else { format!("{scenario}: {}", named.name) }));
        }
        run::section(&mut page, named.result, sides.len() > 1, &mut contents);
    }
    let alone = |side: &&Side| {
        let compared = families.iter().flat_map(|families| &families.comparisons);
        side.published && compared.flat_map(|one| &one.sides).all(|other| other.name != side.name)
    };
    sides.iter().filter(alone).for_each(|side| versus::lone(&mut page, side, &mut contents));
    let version = results.first().map_or(env!("CARGO_PKG_VERSION"), |named| &named.result.seawall);
    whole(&page, &title, &format!("seawall {version}"), &contents)
}

/// What each result says, in a sentence, with the way to it.
fn summary(page: &mut Page, results: &[Named<'_>], contents: &mut Vec<(String, String)>) {
    page.heading(contents, true, "Summary");
    page.out += "<dl class=\"facts summary\">\n";
    for (index, named) in results.iter().enumerate() {
        page.add(&format!(
            "<dt><a href=\"#run-{index}\">{}</a></dt><dd>{}</dd>\n",
            Text(&named.result.scenario),
            Words(&crate::report::summary::sentence(named.result))
        ));
    }
    page.out += "</dl>\n";
}

/// `3 results compared`, where one comparison has them all; else which scenarios they are of.
fn several_title(sides: &[Side], families: Option<&Families>) -> String {
    let number = crate::figures::plural(sides.len() as u64, "result", "results");
    if families.is_some_and(|families| families.alone.is_empty() && families.comparisons.len() == 1) {
        return format!("{number} compared");
    }
    let scenarios = unique(sides.iter().map(|side| side.scenario.as_str()));
    format!("{number}: {}", crate::figures::listing(&scenarios, scenarios.len()))
}

fn whole(page: &Page, title: &str, made: &str, contents: &[(String, String)]) -> String {
    let pictures = serde_json::to_string(&page.pictures).unwrap_or_else(|_| "[]".to_owned());
    let main = format!(
        "<noscript><p class=\"advice bad\">The pictures need scripts, which are off. Every figure stands in a \
         table.</p></noscript>\n{}",
        page.out
    );
    let data = format!(
        "<script type=\"application/json\" id=\"pictures\">{}</script>\n<!-- uPlot 1.6.32\n{CHARTS_LICENCE}-->\n",
        script_json(&pictures)
    );
    Document {
        title,
        made,
        contents,
        main: &main,
        footer: &format!(
            "Made by {} from measurements of this machine. One file, nothing is loaded. Pictures by uPlot 1.6.32 (MIT).",
            Text(made)
        ),
        styles: &[CHARTS_CSS, CSS, &inks(), &page.rules],
        data: &data,
        scripts: &[CHARTS_JS, JS],
    }
    .text()
}

/// The colours of a picture's shapes, as rules: the policy of a page forbids styles in attributes.
fn inks() -> String {
    let rule = |(_, name, _)| {
        format!(".fill-{name} {{ fill: var(--{name}); }}\n.stroke-{name} {{ stroke: var(--{name}); }}\n")
    };
    INKS.map(rule).concat()
}

#[derive(Default)]
struct Page {
    out: String,
    pictures: Vec<Picture>,
    ids: usize,
    /// Rules of the style sheet that are this page's alone.
    rules: String,
}

struct Caption<'a> {
    title: &'a str,
    /// What to look for.
    words: &'a str,
    table: &'a str,
}

impl Page {
    fn add(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn id(&mut self, what: &str) -> String {
        self.ids += 1;
        format!("{what}-{}", self.ids)
    }

    /// A class of that width, per cent.
    fn wide(&mut self, percent: f64) -> String {
        let id = self.id("wide");
        add(&mut self.rules, &format!(".{id} {{ width: {percent:.3}%; }}\n"));
        id
    }

    fn heading(&mut self, contents: &mut Vec<(String, String)>, nav: bool, words: &str) {
        let id = self.id("section");
        self.add(&format!("<h3 id=\"{id}\">{}</h3>\n", Text(words)));
        if nav {
            contents.push((id, words.to_owned()));
        }
    }

    /// A drawing, laid out for wide screens and for phones.
    fn share(&mut self, scene: impl Fn(Form) -> Scene) {
        self.out += "<figure class=\"share\">\n";
        for (form, class) in [(Form::Wide, "for-wide"), (Form::Narrow, "for-narrow")] {
            self.out += &element(&scene(form), Colours::OfPage, class);
        }
        self.out += "</figure>\n";
    }

    fn picture(&mut self, picture: Picture, caption: &Caption<'_>) {
        let id = &picture.id;
        let names: Vec<&str> = picture.series.iter().map(|line| line.name.as_str()).collect();
        let label = format!(
            "Picture: {}. Series: {}. Left and right arrow keys read its values; the table below holds them.",
            caption.title,
            names.join(", ")
        );
        self.add(&format!(
            "<figure id=\"{id}\">\n<figcaption><strong>{}</strong> <span class=\"soft\">{}</span></figcaption>\n\
             <div class=\"plot\" role=\"img\" tabindex=\"0\" aria-label=\"{}\" aria-describedby=\"{id}-table\"></div>\n\
             <output class=\"readout\" aria-live=\"polite\"></output>\n\
             <fieldset><legend>shown</legend></fieldset>\n\
             <details id=\"{id}-table\"><summary>The figures behind this picture</summary>\n{}</details>\n</figure>\n",
            Text(caption.title),
            Words(caption.words),
            Text(&label),
            caption.table
        ));
        self.pictures.push(picture);
    }
}

/// A table of texts that scrolls by itself where it is wider than the screen. The first column heads its row.
fn table(label: &str, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = scroll(label);
    out += "<table><thead><tr>";
    for head in heads {
        add(&mut out, &format!("<th scope=\"col\">{}</th>", Text(head)));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in rows {
        out += "<tr>";
        for (index, cell) in row.iter().enumerate() {
            let tag = if index == 0 { "th scope=\"row\"" } else { "td" };
            add(&mut out, &format!("<{tag}>{}</{}>", Text(cell), &tag[..2]));
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// The opening of a region that scrolls, reachable by keyboard.
fn scroll(label: &str) -> String {
    format!("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">", Text(label))
}

fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let each = |(label, words): (&str, &str)| format!("<dt>{}</dt><dd>{}</dd>\n", Text(label), Words(words));
    format!("<dl class=\"facts\">\n{}</dl>\n", facts.into_iter().map(each).collect::<Vec<_>>().concat())
}
