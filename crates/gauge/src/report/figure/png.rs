//! Paints a drawing and packs it as PNG, without a font, a browser or a library of pictures.
//!
//! A pixel is painted by its distance from the middle of a stroke: half covered where the edge runs through it. Letters are
//! strokes ([`super::strokes`]) of a round pen.
//!
//! Invariant: what a drawing shows is the same as in SVG; only the letters have another shape.

use super::scene::{Anchor, Face, Ink, Scene, Shape};
use super::strokes;
use flate2::Compression;
use flate2::Crc;
use flate2::write::ZlibEncoder;
use std::io::{self, Write as _};

/// Pixels of the picture for one of the drawing, so that it is sharp on fine screens.
const SCALE: f64 = 2.0;
/// What every PNG begins with.
const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];

/// The picture of `scene`.
///
/// # Errors
/// None that writing to memory can have.
pub fn picture(scene: &Scene) -> io::Result<Vec<u8>> {
    let mut canvas = Canvas::new(scene.size.map(|length| length * SCALE));
    for shape in &scene.shapes {
        canvas.paint(shape);
    }
    canvas.packed()
}

struct Canvas {
    width: usize,
    height: usize,
    /// Red, green and blue, row by row.
    pixels: Vec<u8>,
}

/// A line of a pen, pixels.
#[derive(Clone, Copy)]
struct Stroke {
    from: [f64; 2],
    to: [f64; 2],
}

impl Stroke {
    fn distance(&self, [x, y]: [f64; 2]) -> f64 {
        let [dx, dy] = [self.to[0] - self.from[0], self.to[1] - self.from[1]];
        let length = dx * dx + dy * dy;
        let along =
            if length > 0.0 { ((x - self.from[0]) * dx + (y - self.from[1]) * dy) / length } else { 0.0 };
        let along = along.clamp(0.0, 1.0);
        (x - self.from[0] - along * dx).hypot(y - self.from[1] - along * dy)
    }
}

/// The nearest whole number, of a place on the canvas.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "places are checked against the canvas"
)]
fn whole(place: f64) -> usize {
    place.max(0.0).round() as usize
}

impl Canvas {
    fn new(size: [f64; 2]) -> Self {
        let [width, height] = size.map(|length| whole(length).max(1));
        Self { width, height, pixels: vec![0xff; width * height * 3] }
    }

    fn paint(&mut self, shape: &Shape) {
        match shape {
            Shape::Rect { at, size, ink } => self.rect(at.map(|n| n * SCALE), size.map(|n| n * SCALE), *ink),
            Shape::Line { from, to, width, ink } => {
                let stroke = Stroke { from: from.map(|n| n * SCALE), to: to.map(|n| n * SCALE) };
                self.strokes(&[stroke], width * SCALE / 2.0, *ink);
            }
            Shape::Dot { at, radius, ink } => {
                let at = at.map(|n| n * SCALE);
                self.strokes(&[Stroke { from: at, to: at }], radius * SCALE, *ink);
            }
            Shape::Text { at, face, text } => self.text(at.map(|n| n * SCALE), face, text),
        }
    }

    fn text(&mut self, [x, y]: [f64; 2], face: &Face, text: &str) {
        // A capital of common fonts is 0.72 of the size that they are set in.
        let unit = face.size * 0.72 / strokes::CAPITAL * SCALE;
        let advance = |character: char| {
            if face.mono { 8.5 + strokes::SPACE } else { strokes::find(character).width + strokes::SPACE }
        };
        let width: f64 = text.chars().map(|character| advance(character) * unit).sum();
        let mut left = match face.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - (width - strokes::SPACE * unit) / 2.0,
            Anchor::End => x - width + strokes::SPACE * unit,
        };
        let pen = unit * if face.bold { 1.25 } else { 0.85 };
        for character in text.chars() {
            let letter = strokes::find(character);
            // In a face of one width a letter stands in the middle of its place.
            let place = left + if face.mono { (8.5 - letter.width) / 2.0 * unit } else { 0.0 };
            let at = |[across, up]: [f64; 2]| [place + across * unit, y - up * unit];
            let lines = strokes::lines(letter).into_iter();
            let lines: Vec<Stroke> = lines.map(|[from, to]| Stroke { from: at(from), to: at(to) }).collect();
            self.strokes(&lines, pen, face.ink);
            left += advance(character) * unit;
        }
    }

    /// All pixels within `radius` of a stroke, each painted once.
    fn strokes(&mut self, strokes: &[Stroke], radius: f64, ink: Ink) {
        let ends = || strokes.iter().flat_map(|stroke| [stroke.from, stroke.to]);
        let least =
            |axis: usize| ends().map(|point| point[axis]).fold(f64::INFINITY, f64::min) - radius - 1.0;
        let most = |axis: usize| ends().map(|point| point[axis]).fold(0.0, f64::max) + radius + 1.0;
        if strokes.is_empty() {
            return;
        }
        for row in whole(least(1))..self.height.min(whole(most(1)) + 1) {
            for column in whole(least(0))..self.width.min(whole(most(0)) + 1) {
                let middle = [column as f64 + 0.5, row as f64 + 0.5];
                let near = strokes.iter().map(|stroke| stroke.distance(middle)).fold(f64::INFINITY, f64::min);
                self.blend(column, row, radius - near + 0.5, ink);
            }
        }
    }

    fn rect(&mut self, [x, y]: [f64; 2], [w, h]: [f64; 2], ink: Ink) {
        // How much of a pixel lies between two edges.
        let within = |pixel: usize, from: f64, to: f64| {
            (to.min(pixel as f64 + 1.0) - from.max(pixel as f64)).clamp(0.0, 1.0)
        };
        for row in whole(y - 1.0)..self.height.min(whole(y + h) + 1) {
            for column in whole(x - 1.0)..self.width.min(whole(x + w) + 1) {
                self.blend(column, row, within(column, x, x + w) * within(row, y, y + h), ink);
            }
        }
    }

    /// Covers a pixel by so much.
    fn blend(&mut self, column: usize, row: usize, share: f64, ink: Ink) {
        if share <= 0.0 {
            return;
        }
        let share = share.min(1.0);
        let at = (row * self.width + column) * 3;
        for (pixel, colour) in self.pixels[at..at + 3].iter_mut().zip(ink.rgb()) {
            let mixed = f64::from(*pixel) * (1.0 - share) + f64::from(colour) * share;
            *pixel = u8::try_from(whole(mixed)).unwrap_or(u8::MAX);
        }
    }

    fn packed(&self) -> io::Result<Vec<u8>> {
        let mut image = ZlibEncoder::new(Vec::new(), Compression::best());
        for row in self.pixels.chunks(self.width * 3) {
            // Each row as it is, without a filter: large parts are of one colour.
            image.write_all(&[0])?;
            image.write_all(row)?;
        }
        let length = |length: usize| u32::try_from(length).map_err(io::Error::other);
        let mut header = Vec::new();
        header.extend(big_endian(length(self.width)?));
        header.extend(big_endian(length(self.height)?));
        // Eight bits of each of three colours, deflated, no filter of its own, not interlaced.
        header.extend([8, 2, 0, 0, 0]);
        let mut out = SIGNATURE.to_vec();
        for (kind, data) in [(b"IHDR", header), (b"IDAT", image.finish()?), (b"IEND", Vec::new())] {
            out.extend(big_endian(length(data.len())?));
            let start = out.len();
            out.extend(kind);
            out.extend(data);
            let mut crc = Crc::new();
            crc.update(&out[start..]);
            out.extend(big_endian(crc.sum()));
        }
        Ok(out)
    }
}

/// Four bytes, the highest first, as PNG has them.
fn big_endian(number: u32) -> [u8; 4] {
    [24, 16, 8, 0].map(|shift| u8::try_from(number >> shift & 0xff).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::io::Read as _;

    /// The pixels of a picture, as any reader of PNG finds them.
    fn read(png: &[u8]) -> (usize, usize, Vec<u8>) {
        let number = |at: usize| png[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        assert_eq!(png[..8], SIGNATURE);
        let (width, height) = (number(16), number(20));
        let bytes = number(33);
        let mut plain = Vec::new();
        ZlibDecoder::new(&png[41..41 + bytes]).read_to_end(&mut plain).expect("deflated");
        assert_eq!(plain.len(), height * (1 + width * 3));
        assert_eq!(png[41 + bytes + 4..].len(), 12, "the end stands behind the only data");
        let pixels = plain.chunks(1 + width * 3).flat_map(|row| row[1..].to_vec()).collect();
        (width, height, pixels)
    }

    #[test]
    fn shapes_are_where_they_belong_in_their_colours() {
        let text = Face { size: 20.0, bold: false, mono: false, ink: Ink::Text, anchor: Anchor::Middle };
        let scene = Scene {
            size: [100.0, 60.0],
            title: "t".to_owned(),
            shapes: vec![
                Shape::Rect { at: [0.0, 0.0], size: [10.0, 10.0], ink: Ink::Warning },
                Shape::Line { from: [20.0, 5.0], to: [90.0, 5.0], width: 4.0, ink: Ink::PowerLoss },
                Shape::Dot { at: [50.0, 30.0], radius: 5.0, ink: Ink::SystemCrash },
                Shape::Text { at: [50.0, 55.0], face: text, text: "I".to_owned() },
            ],
        };
        let png = picture(&scene).expect("packed");
        let (width, height, pixels) = read(&png);
        assert_eq!((width, height), (200, 120));
        let at = |x: usize, y: usize| {
            let at = (y * 2 * width + x * 2) * 3;
            [pixels[at], pixels[at + 1], pixels[at + 2]]
        };
        assert_eq!(at(5, 5), Ink::Warning.rgb());
        assert_eq!([at(20, 5), at(90, 5)], [Ink::PowerLoss.rgb(); 2]);
        assert_eq!(at(50, 30), Ink::SystemCrash.rgb());
        assert_eq!(at(50, 50), Ink::Text.rgb(), "the stem of the letter");
        assert_eq!([at(95, 58), at(40, 30), at(50, 20)], [[0xff; 3]; 3], "the rest is paper");
    }

    #[test]
    fn what_lies_beyond_the_edge_is_cut_off() {
        let line = Shape::Line { from: [-50.0, -9.0], to: [500.0, 900.0], width: 9.0, ink: Ink::Text };
        let scene = Scene { size: [20.0, 10.0], title: String::new(), shapes: vec![line] };
        assert_eq!(read(&picture(&scene).expect("packed")).0, 40);
    }
}
