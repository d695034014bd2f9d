//! Writes a drawing as SVG: a file by itself, or part of a page that gives it its colours.
//!
//! Invariants: it loads nothing and holds no script; every text is escaped.

use super::scene::{Anchor, Face, Ink, Scene, Shape};
use crate::report::html::escape::Text;

const SANS: &str = "system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif";
const MONO: &str = "ui-monospace,'Cascadia Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace";

/// Where the colours come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    /// Those of light ground.
    Own,
    /// The classes of a page's style sheet.
    OfPage,
}

/// The whole document, by itself.
pub fn document(scene: &Scene) -> String {
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}", element(scene, Colours::Own, ""))
}

pub(crate) fn element(scene: &Scene, colours: Colours, classes: &str) -> String {
    let [width, height] = scene.size.map(number);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{classes}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">\n",
        Text(&scene.title)
    );
    for shape in &scene.shapes {
        let drawn = match shape {
            Shape::Rect { at: [x, y], size: [w, h], ink } => format!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>\n",
                number(*x),
                number(*y),
                number(*w),
                number(*h),
                paint("fill", *ink, colours)
            ),
            Shape::Line { from: [x1, y1], to: [x2, y2], width, ink } => format!(
                "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke-width=\"{}\" stroke-linecap=\"round\"{}/>\n",
                number(*x1),
                number(*y1),
                number(*x2),
                number(*y2),
                number(*width),
                paint("stroke", *ink, colours)
            ),
            Shape::Dot { at: [x, y], radius, ink } => format!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>\n",
                number(*x),
                number(*y),
                number(*radius),
                paint("fill", *ink, colours)
            ),
            Shape::Text { at, face, text } => words(*at, face, text, colours),
        };
        out += &drawn;
    }
    out + "</svg>\n"
}

fn words([x, y]: [f64; 2], face: &Face, text: &str, colours: Colours) -> String {
    let anchor = match face.anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    format!(
        "<text x=\"{}\" y=\"{}\" font-family=\"{}\" font-size=\"{}\" font-weight=\"{}\" text-anchor=\"{anchor}\"{}>{}</text>\n",
        number(x),
        number(y),
        if face.mono { MONO } else { SANS },
        number(face.size),
        if face.bold { 650 } else { 400 },
        paint("fill", face.ink, colours),
        Text(text)
    )
}

fn paint(what: &str, ink: Ink, colours: Colours) -> String {
    match colours {
        Colours::Own => {
            let (.., [red, green, blue]) = ink.row();
            format!(" {what}=\"#{red:02x}{green:02x}{blue:02x}\"")
        }
        Colours::OfPage => format!(" class=\"{what}-{}\"", ink.row().1),
    }
}

fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
