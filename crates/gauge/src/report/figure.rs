//! Draws the picture of a result that can be shared: one row a method, from p50 to p99.9 on a logarithmic axis.
//!
//! ```text
//!   title · device · when, label, provider, version         scene.rs   shapes and colours
//!             1 µs      10 µs      100 µs                   svg.rs     as a file, or in a page
//!   outlives power loss
//!   name          |        ●━━━━━━━──────                p50  p99.9
//!   ── below this line a power cut loses acknowledged commits ──
//! ```
//!
//! Invariants: figures, order and classes are those of every other report; a colour is a class, the same in every picture;
//! a run from which nothing is recommended says so in the picture, because it is shown without the report.

pub(crate) mod intervals;
pub(crate) mod scene;
pub mod svg;

use super::facts;
use crate::figures::{duration_ns, round_duration};
use crate::judgement::Judgement;
use crate::latency::Latency;
use crate::ranges;
use crate::rank::{EffectiveClass, Ranked, Ranking};
use crate::result::RunResult;
use crate::row::{Measured, Row};
use scene::{Anchor, Face, Ink, Scene, Shape, cut, width_of};

/// How wide a picture is, and how its rows are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For screens and posts: the name beside its range.
    Wide,
    /// For phones: the name above its range.
    Narrow,
}

struct Lengths {
    width: f64,
    margin: f64,
    title: f64,
    words: f64,
    /// From one row to the next.
    row: f64,
    /// Where the axis begins and ends.
    plot: [f64; 2],
    bar: f64,
}

impl Form {
    fn lengths(self) -> Lengths {
        match self {
            Self::Wide => Lengths {
                width: 1200.0,
                margin: 36.0,
                title: 27.0,
                words: 16.0,
                row: 32.0,
                plot: [330.0, 960.0],
                bar: 13.0,
            },
            Self::Narrow => Lengths {
                width: 420.0,
                margin: 14.0,
                title: 19.0,
                words: 13.0,
                row: 46.0,
                plot: [20.0, 400.0],
                bar: 9.0,
            },
        }
    }
}

struct Bar<'a> {
    name: String,
    latency: &'a Latency,
    ink: Ink,
    is_best: bool,
}

struct Band<'a> {
    heading: String,
    ink: Ink,
    class: Option<EffectiveClass>,
    bars: Vec<Bar<'a>>,
}

/// The picture of a result.
pub fn scene(result: &RunResult, form: Form) -> Scene {
    let ranking = Ranking::new(result);
    let bands = if result.study.ranked { by_class(&ranking) } else { by_group(result) };
    let mut drawing = Drawing::new(form);
    let title = title(result);
    drawing.head(&title, result, &ranking);
    let axis = Axis::new(&bands, &drawing.lengths);
    let top = drawing.y;
    drawing.y += drawing.lengths.words * 1.9;
    let grid = drawing.shapes.len();
    drawing.bands(&bands, &axis, result.study.ranked);
    let bottom = drawing.y;
    drawing.shapes.splice(grid..grid, axis.grid(top, bottom, drawing.lengths.words));
    drawing.foot(result);
    drawing.on_paper(title)
}

fn title(result: &RunResult) -> String {
    if result.study.ranked {
        format!("What a durable commit of {} costs", result.plan.transaction())
    } else {
        crate::figures::capital(&result.study.title)
    }
}

fn by_class<'a>(ranking: &Ranking<'a>) -> Vec<Band<'a>> {
    let recommended = Judgement::of(ranking).recommended;
    let bar = |row: &Ranked<'a>| Bar {
        name: row.row.id.clone(),
        latency: row.measured.main(),
        ink: Ink::of(row.class),
        is_best: recommended.as_ref() == Some(&row.row.id),
    };
    let band = |class: EffectiveClass| {
        let bars: Vec<Bar<'a>> = ranking.of(class).map(bar).collect();
        let heading = match class {
            EffectiveClass::PowerLoss => {
                format!("outlives power loss, {}", facts::condition(&ranking.result.environment))
            }
            EffectiveClass::NotConfirmed => "claims power loss, not confirmed by the device".to_owned(),
            EffectiveClass::SystemCrash => "outlives a system crash only".to_owned(),
            EffectiveClass::ProcessCrash => "outlives a process crash only".to_owned(),
        };
        (!bars.is_empty()).then(|| Band { heading, ink: Ink::of(class), class: Some(class), bars })
    };
    EffectiveClass::ALL.into_iter().filter_map(band).collect()
}

fn by_group(result: &RunResult) -> Vec<Band<'_>> {
    let mut bands: Vec<Band<'_>> = Vec::new();
    let timed = |(row, measured): (_, _)| -> Option<(&Row, &Latency)> {
        let (row, measured): (&Row, &Measured) = (row, measured);
        Some((row, measured.main())).filter(|(_, latency)| latency.count() > 0)
    };
    for (row, latency) in result.measured().filter_map(timed) {
        let bar = Bar { name: row.label.clone(), latency, ink: Ink::Row, is_best: false };
        match bands.iter_mut().find(|band| band.heading == row.group) {
            Some(band) => band.bars.push(bar),
            None => {
                bands.push(Band { heading: row.group.clone(), ink: Ink::Text, class: None, bars: vec![bar] });
            }
        }
    }
    bands
}

/// How far a row's range goes: to p99.9, or as far as its samples carry.
pub(super) fn far_ns(latency: &Latency) -> u64 {
    let carried = [99.9, 99.0].into_iter().find_map(|percent| latency.percentile(percent).ns());
    carried.unwrap_or(latency.p50_ns()).max(latency.p50_ns())
}

struct Axis {
    low_ns: f64,
    high_ns: f64,
    plot: [f64; 2],
}

impl Axis {
    fn new(bands: &[Band<'_>], lengths: &Lengths) -> Self {
        let bars = || bands.iter().flat_map(|band| &band.bars);
        let low_ns = bars().map(|bar| bar.latency.p50_ns()).min().unwrap_or(1_000).max(1) as f64;
        let high_ns = bars().map(|bar| far_ns(bar.latency)).max().unwrap_or(1_000_000) as f64;
        Self { low_ns: low_ns / 1.25, high_ns: high_ns.max(low_ns * 4.0) * 1.15, plot: lengths.plot }
    }

    fn at(&self, ns: f64) -> f64 {
        let share = (ns.max(1.0) / self.low_ns).ln() / (self.high_ns / self.low_ns).ln();
        self.plot[0] + share.clamp(0.0, 1.0) * (self.plot[1] - self.plot[0])
    }

    /// Lines at one, two and five of each power of ten, and words where there is room.
    fn grid(&self, top: f64, bottom: f64, words: f64) -> Vec<Shape> {
        let face =
            Face { size: words * 0.85, bold: false, mono: false, ink: Ink::Soft, anchor: Anchor::Middle };
        let marks = (0..12).flat_map(|power| [1, 2, 5].map(|times| times * 10_u64.pow(power)));
        let marks: Vec<u64> =
            marks.filter(|ns| (self.low_ns..=self.high_ns).contains(&(*ns as f64))).collect();
        let is_ten = |ns: u64| 10_u64.pow(ns.ilog10()) == ns;
        let mut shapes = Vec::new();
        let mut taken: Vec<[f64; 2]> = Vec::new();
        // Powers of ten come first, so that the others take what room is left.
        let order = marks.iter().filter(|ns| is_ten(**ns)).chain(marks.iter().filter(|ns| !is_ten(**ns)));
        for ns in order.copied() {
            let x = self.at(ns as f64);
            let width = if is_ten(ns) { 1.4 } else { 0.7 };
            shapes.push(Shape::Line { from: [x, top + words * 0.7], to: [x, bottom], width, ink: Ink::Grid });
            let label = round_duration(ns);
            let half = width_of(&label, &face) / 2.0 + 5.0;
            if taken.iter().all(|[from, to]| x + half < *from || x - half > *to) {
                taken.push([x - half, x + half]);
                shapes.push(Shape::Text { at: [x, top + words * 0.4], face, text: label });
            }
        }
        shapes
    }
}

struct Drawing {
    lengths: Lengths,
    form: Form,
    shapes: Vec<Shape>,
    y: f64,
}

impl Drawing {
    fn new(form: Form) -> Self {
        Self { lengths: form.lengths(), form, shapes: Vec::new(), y: 0.0 }
    }

    fn on_paper(mut self, title: String) -> Scene {
        let size = [self.lengths.width, self.y.ceil()];
        self.shapes.insert(0, Shape::Rect { at: [0.0, 0.0], size, ink: Ink::Paper });
        Scene { size, title, shapes: self.shapes }
    }

    fn text(&mut self, x: f64, y: f64, face: Face, text: &str) {
        self.shapes.push(Shape::Text { at: [x, y], face, text: text.to_owned() });
    }

    fn line(&mut self, face: Face, text: &str, height: f64) {
        let (left, room) = (self.lengths.margin, self.lengths.width - 2.0 * self.lengths.margin);
        self.y += height;
        let text = cut(text, &face, room);
        self.text(left, self.y, face, &text);
    }

    /// Words over as many lines as they need, at most `lines`.
    fn paragraph(&mut self, face: Face, text: &str, lines: usize) {
        let room = self.lengths.width - 2.0 * self.lengths.margin;
        let mut rest: Vec<&str> = text.split(' ').collect();
        for nth in 1..=lines {
            let fits = |count: &usize| width_of(&rest[..*count].join(" "), &face) <= room;
            let count = (1..=rest.len()).rev().find(fits).unwrap_or(1.min(rest.len()));
            let count = if nth == lines { rest.len() } else { count };
            let line = rest[..count].join(" ");
            self.line(face, &line, face.size * 1.4);
            rest.drain(..count);
            if rest.is_empty() {
                return;
            }
        }
    }

    fn face(&self, ink: Ink) -> Face {
        Face { size: self.lengths.words, bold: false, mono: false, ink, anchor: Anchor::Start }
    }

    fn head(&mut self, title: &str, result: &RunResult, ranking: &Ranking<'_>) {
        let heading = Face { size: self.lengths.title, bold: true, ..self.face(Ink::Text) };
        let lines = if self.form == Form::Wide { 1 } else { 3 };
        self.y += self.lengths.margin * 0.4;
        self.paragraph(heading, title, if self.form == Form::Wide { 2 } else { 3 });
        self.y += 4.0;
        self.paragraph(self.face(Ink::Text), &place(result), lines);
        self.paragraph(self.face(Ink::Soft), &stamp(result), lines + 1);
        if let Some(words) = Judgement::of(ranking).headline() {
            self.y += 4.0;
            let face = Face { bold: true, ..self.face(Ink::Warning) };
            self.paragraph(face, words, 2 * lines);
        }
        self.y += self.lengths.words * 1.9;
    }

    fn bands(&mut self, bands: &[Band<'_>], axis: &Axis, ranked: bool) {
        let mut drawn = false;
        if self.form == Form::Wide && !bands.is_empty() {
            let end = Face { size: 13.0, anchor: Anchor::End, ..self.face(Ink::Soft) };
            for (x, head) in self.columns().into_iter().zip(["p50", "p99", "p99.9"]) {
                self.text(x, self.y - self.lengths.words * 1.5, end, head);
            }
        }
        for band in bands {
            if band.class > Some(EffectiveClass::PowerLoss) && !drawn && ranked {
                drawn = true;
                self.boundary();
            }
            if !band.heading.is_empty() {
                let face = Face { bold: true, ..self.face(band.ink) };
                match self.form {
                    Form::Wide => self.line(face, &band.heading, self.lengths.words * 1.5),
                    Form::Narrow => self.paragraph(face, &band.heading, 2),
                }
                self.y += self.lengths.words * 0.35;
            }
            band.bars.iter().for_each(|bar| self.bar(bar, axis));
            self.y += self.lengths.words * 0.3;
        }
    }

    fn boundary(&mut self) {
        let face = Face { bold: true, size: self.lengths.words * 0.9, ..self.face(Ink::Warning) };
        let words = "below this line a power cut loses acknowledged commits";
        let (left, right) = (self.lengths.margin, self.lengths.width - self.lengths.margin);
        self.y += self.lengths.words * 0.7;
        let y = self.y;
        self.shapes.push(Shape::Line { from: [left, y], to: [right, y], width: 2.0, ink: Ink::Warning });
        self.line(face, words, face.size * 1.5);
    }

    fn columns(&self) -> [f64; 3] {
        let right = self.lengths.width - self.lengths.margin;
        [right - 140.0, right - 70.0, right]
    }

    fn bar(&mut self, bar: &Bar<'_>, axis: &Axis) {
        let row = self.lengths.row;
        let narrow = self.form == Form::Narrow;
        let middle = self.y + if narrow { row * 0.72 } else { row / 2.0 };
        let base =
            if narrow { self.y + self.lengths.words * 1.1 } else { middle + self.lengths.words * 0.35 };
        let size = self.lengths.words * if narrow { 1.0 } else { 0.97 };
        let name = Face { mono: true, size, bold: bar.is_best, ..self.face(Ink::Text) };
        let figures = self.figures(bar.latency);
        let end = Face { anchor: Anchor::End, size: size * 0.92, ..self.face(Ink::Text) };
        let both = format!("{} – {}", figures[0], figures[2]);
        let right = self.lengths.width - self.lengths.margin;
        let room_end = if narrow { right - width_of(&both, &end) } else { axis.plot[0] - 6.0 };
        let text = cut(&bar.name, &name, room_end - self.lengths.margin - 10.0);
        self.text(self.lengths.margin, base, name, &text);
        if narrow {
            self.text(right, base, end, &both);
        } else {
            for (nth, (x, figure)) in self.columns().into_iter().zip(figures).enumerate() {
                let face = if nth == 0 { Face { bold: true, ..end } } else { end };
                self.text(x, base, face, &figure);
            }
        }
        let p50 = axis.at(bar.latency.p50_ns() as f64);
        let p99 = bar.latency.percentile(99.0).ns().map_or(p50, |ns| axis.at(ns as f64));
        let far = axis.at(far_ns(bar.latency) as f64);
        let (thick, ink) = (self.lengths.bar, bar.ink);
        self.shapes.extend([
            Shape::Line { from: [p99, middle], to: [far, middle], width: 3.0, ink },
            Shape::Line {
                from: [far, middle - thick * 0.4],
                to: [far, middle + thick * 0.4],
                width: 3.0,
                ink,
            },
            Shape::Rect { at: [p50, middle - thick / 2.0], size: [p99 - p50, thick], ink },
            Shape::Dot { at: [p50, middle], radius: thick * 0.72, ink: Ink::Paper },
            Shape::Dot { at: [p50, middle], radius: thick * 0.56, ink },
        ]);
        self.y += row;
    }

    /// p50, p99 and p99.9, as far as the samples carry them.
    fn figures(&self, latency: &Latency) -> [String; 3] {
        let at = |percent: f64| latency.percentile(percent).ns().map_or("-".to_owned(), duration_ns);
        let far = duration_ns(far_ns(latency));
        [duration_ns(latency.p50_ns()), at(99.0), if self.form == Form::Narrow { far } else { at(99.9) }]
    }

    fn foot(&mut self, result: &RunResult) {
        let face = Face { size: self.lengths.words * 0.85, ..self.face(Ink::Soft) };
        self.y += self.lengths.words * 0.4;
        // What its user calls it stands above.
        let done = facts::title(&RunResult { label: None, ..result.clone() });
        let words = format!("dot: p50; bar: to p99; line: to p99.9, or as far as the samples carry. {done}");
        self.paragraph(face, &words, if self.form == Form::Wide { 2 } else { 4 });
        self.y += self.lengths.margin * 0.6;
    }
}

fn place(result: &RunResult) -> String {
    let environment = &result.environment;
    let known = facts::place(environment, &[]);
    let devices = known.iter().filter(|(label, _)| *label == "device").map(|(_, words)| words.as_str());
    let mut parts: Vec<String> = devices.map(|words| words.replace(", does not turn", "")).collect();
    parts.push(environment.file_system.kind.clone());
    parts.join(" · ")
}

/// When and where it was measured, and by what.
pub fn stamp(result: &RunResult) -> String {
    let environment = &result.environment;
    let mut parts: Vec<String> = result.label.iter().cloned().collect();
    parts.extend(facts::day(result).map(|day| format!("measured {day}")));
    parts.extend(ranges::provider(result).map(str::to_owned));
    parts.push(environment.system.clone());
    parts.extend(environment.hypervisor.as_ref().map(|name| format!("virtual machine: {name}")));
    parts.extend(environment.wine.as_ref().map(|version| format!("Wine {version}")));
    parts.push(format!("seawall {}", result.seawall));
    parts.join(" · ")
}
