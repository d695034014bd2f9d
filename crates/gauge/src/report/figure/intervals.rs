//! Draws differences as intervals on a logarithmic axis: one row a method, in groups of those that promise the same.
//!
//! Invariants: what lies within noise has no colour of better or worse, nor has what does not promise the same; a
//! difference without an interval is a dot.

use super::scene::{Anchor, Face, Ink, Scene, Shape, cut};
use super::{Drawing, Form};

/// A row's difference.
pub(crate) struct Interval {
    pub(crate) name: String,
    pub(crate) group: String,
    /// Its value by the base's.
    pub(crate) ratio: f64,
    pub(crate) ends: Option<[f64; 2]>,
    pub(crate) words: String,
    pub(crate) is: Judgement,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    Better,
    Worse,
    /// Neither, or not to be judged.
    Neither,
}

impl Judgement {
    fn ink(self) -> Ink {
        match self {
            Self::Better => Ink::PowerLoss,
            Self::Worse => Ink::NotConfirmed,
            Self::Neither => Ink::ProcessCrash,
        }
    }
}

pub(crate) fn scene(title: &str, rows: &[Interval], form: Form) -> Scene {
    let mut drawing = Drawing::new(form);
    drawing.y += drawing.lengths.margin * 0.2;
    let face = Face { bold: true, ..drawing.face(Ink::Text) };
    drawing.paragraph(face, title, 3);
    let soft = Face { size: drawing.lengths.words * 0.85, ..drawing.face(Ink::Soft) };
    drawing.paragraph(
        soft,
        "Dot: the difference; line: its 95 % interval. Grey: same within noise, or not the same promise.",
        3,
    );
    let axis = Ratios::new(rows, drawing.lengths.plot);
    drawing.y += drawing.lengths.words * 1.2;
    let (top, grid) = (drawing.y, drawing.shapes.len());
    drawing.y += drawing.lengths.words * 1.2;
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = &row.group;
            let face = Face { bold: true, ..drawing.face(Ink::Text) };
            drawing.line(face, group, drawing.lengths.words * 1.6);
            drawing.y += drawing.lengths.words * 0.3;
        }
        axis.row(&mut drawing, row);
    }
    let bottom = drawing.y;
    drawing.shapes.splice(grid..grid, axis.grid(top, bottom, drawing.lengths.words));
    drawing.y += drawing.lengths.margin * 0.6;
    drawing.on_paper(title.to_owned())
}

/// The axis of ratios, with 1 at the same distance from both ends.
struct Ratios {
    most: f64,
    plot: [f64; 2],
}

impl Ratios {
    /// No interval is drawn wider than this: it says nothing.
    const MOST: f64 = 64.0;

    fn new(rows: &[Interval], plot: [f64; 2]) -> Self {
        let values = rows.iter().flat_map(|row| row.ends.into_iter().flatten().chain([row.ratio]));
        let far = values.map(|ratio| ratio.ln().abs()).filter(|far| far.is_finite()).fold(0.0, f64::max);
        Self { most: (far * 1.15).clamp(1.1_f64.ln(), Self::MOST.ln()), plot }
    }

    fn at(&self, ratio: f64) -> f64 {
        let share = f64::midpoint(ratio.max(1e-9).ln() / self.most, 1.0).clamp(0.0, 1.0);
        self.plot[0] + share * (self.plot[1] - self.plot[0])
    }

    fn row(&self, drawing: &mut Drawing, row: &Interval) {
        let narrow = drawing.form == Form::Narrow;
        let height = drawing.lengths.row;
        let middle = drawing.y + if narrow { height * 0.72 } else { height / 2.0 };
        let words = drawing.lengths.words;
        let base = if narrow { drawing.y + words * 1.1 } else { middle + words * 0.35 };
        let name = Face { mono: true, size: words * 0.97, ..drawing.face(Ink::Text) };
        let room =
            if narrow { drawing.lengths.width * 0.5 } else { self.plot[0] - drawing.lengths.margin - 16.0 };
        let text = cut(&row.name, &name, room);
        drawing.text(drawing.lengths.margin, base, name, &text);
        let end = Face { anchor: Anchor::End, size: words * 0.92, ..drawing.face(Ink::Text) };
        drawing.text(drawing.lengths.width - drawing.lengths.margin, base, end, &row.words);
        let ink = row.is.ink();
        if let Some([low, high]) = row.ends.map(|ends| ends.map(|ratio| self.at(ratio))) {
            let line = Shape::Line { from: [low, middle], to: [high, middle], width: 6.0, ink };
            drawing.shapes.push(line);
        }
        let at = [self.at(row.ratio), middle];
        drawing.shapes.push(Shape::Dot { at, radius: 8.5, ink: Ink::Paper });
        drawing.shapes.push(Shape::Dot { at, radius: 6.5, ink });
        drawing.y += height;
    }

    fn grid(&self, top: f64, bottom: f64, words: f64) -> Vec<Shape> {
        const MARKS: [f64; 14] =
            [1.0 / 32.0, 0.125, 0.25, 0.5, 0.667, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 32.0];
        let face =
            Face { size: words * 0.85, bold: false, mono: false, ink: Ink::Soft, anchor: Anchor::Middle };
        let mut shapes = Vec::new();
        let mut taken: Vec<f64> = Vec::new();
        // From the middle outwards, so that the middle is named.
        let mut marks = MARKS;
        marks.sort_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs()));
        for ratio in marks.into_iter().filter(|ratio| ratio.ln().abs() <= self.most) {
            let x = self.at(ratio);
            let (width, ink) = if ratio.ln().abs() < 1e-9 { (2.0, Ink::Soft) } else { (1.0, Ink::Grid) };
            shapes.push(Shape::Line { from: [x, top + words * 0.5], to: [x, bottom], width, ink });
            if taken.iter().all(|other| (other - x).abs() > words * 3.6) {
                taken.push(x);
                let label = if ratio.ln().abs() < 1e-9 {
                    "same".to_owned()
                } else {
                    crate::compare::text::percent((ratio - 1.0) * 100.0).replace(".0 %", " %")
                };
                shapes.push(Shape::Text { at: [x, top], face, text: label });
            }
        }
        shapes
    }
}
