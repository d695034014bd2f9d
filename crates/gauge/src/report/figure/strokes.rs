//! Defines the letters of pictures that are made without a font: each a few strokes of a round pen.
//!
//! ```text
//!   14 ─ capitals     a stroke is `x,y-x,y-…`, or an arc `@x,y,rx,ry,from,to` in degrees, counter-clockwise
//!   10 ─ small letters
//!    0 ─ base line     units of which 14 are the height of a capital
//! ```
//!
//! Invariant: a character that the table lacks is drawn as a box, never left out.

/// A letter.
pub(super) struct Letter {
    /// The character.
    pub(super) character: char,
    /// Its width without the space behind it, units.
    pub(super) width: f64,
    /// Its strokes.
    pub(super) strokes: &'static str,
}

const fn letter(character: char, width: f64, strokes: &'static str) -> Letter {
    Letter { character, width, strokes }
}

/// Units between two letters.
pub(super) const SPACE: f64 = 3.2;
/// The height of a capital, units.
pub(super) const CAPITAL: f64 = 14.0;

/// What stands for a character that is not here.
const BOX: Letter = letter('\u{25a1}', 9.0, "0,0-0,12-9,12-9,0-0,0");

/// The letter of a character.
pub(super) fn find(character: char) -> &'static Letter {
    LETTERS.iter().find(|letter| letter.character == character).unwrap_or(&BOX)
}

#[rustfmt::skip]
const LETTERS: &[Letter] = &[
    letter(' ', 3.5, ""),
    letter('!', 2.0, "1,14-1,5 1,0-1,0.4"),
    letter('"', 5.0, "1,14-1,10 4,14-4,10"),
    letter('#', 10.0, "2.5,0-4.5,14 6.5,0-8.5,14 0.5,9.5-10,9.5 0,4.5-9.5,4.5"),
    letter('$', 9.0, "@4.5,10.6,4.1,3.4,30,270 @4.5,3.6,4.4,3.6,-150,90 4.5,16-4.5,-2"),
    letter('%', 12.0, "@2.5,11.5,2.5,2.5,0,360 @9.5,2.5,2.5,2.5,0,360 2,0-10,14"),
    letter('&', 11.0, "11,0-2.5,10-2.5,12-4,13.8-6,13.8-7.5,12-7.5,10.5-1,5.5-0.4,3.5-1,1.5-3,0-5.5,0-8,1.5-10,5.5"),
    letter('\'', 2.0, "1,14-1,10"),
    letter('(', 4.0, "4,16-1.7,12-0.6,6-1.7,0-4,-4"),
    letter(')', 4.0, "0,16-2.3,12-3.4,6-2.3,0-0,-4"),
    letter('*', 8.0, "4,13-4,5 0.5,11-7.5,7 7.5,11-0.5,7"),
    letter('+', 9.0, "4.5,1.5-4.5,10.5 0,6-9,6"),
    letter(',', 2.0, "1.3,0.5-0.2,-3"),
    letter('-', 6.0, "0.5,5.5-5.5,5.5"),
    letter('.', 2.0, "1,0-1,0.3"),
    letter('/', 7.0, "0,-2-7,15"),
    letter('0', 9.0, "@4.5,9.5,4.5,4.5,0,180 9,9.5-9,4.5 0,9.5-0,4.5 @4.5,4.5,4.5,4.5,180,360"),
    letter('1', 9.0, "1.5,11-5,14-5,0"),
    letter('2', 9.0, "@4.5,9.7,4.3,4.3,-35,165 8.02,7.23-0,0-9,0"),
    letter('3', 9.0, "@4.3,10.6,3.8,3.4,-90,155 @4.3,3.6,4.5,3.6,-155,90 3,7.2-4.3,7.2"),
    letter('4', 9.5, "7,0-7,14-0,4-9.5,4"),
    letter('5', 9.0, "8.3,14-1.5,14-0.7,7.56 @4.2,4.6,4.6,4.6,-150,140"),
    letter('6', 9.0, "@4.5,4.5,4.4,4.5,0,360 0.1,4.5-1,9-3.5,12.5-6.5,14"),
    letter('7', 9.0, "0,14-9,14-3,0"),
    letter('8', 9.0, "@4.5,10.6,3.7,3.4,0,360 @4.5,3.6,4.4,3.6,0,360"),
    letter('9', 9.0, "@4.5,9.5,4.4,4.5,0,360 8.9,9.5-8,5-5.5,1.5-2.5,0"),
    letter(':', 2.0, "1,0-1,0.3 1,8-1,8.3"),
    letter(';', 2.0, "1.3,0.5-0.2,-3 1,8-1,8.3"),
    letter('<', 9.0, "9,11-0,6-9,1"),
    letter('=', 9.0, "0,8-9,8 0,4-9,4"),
    letter('>', 9.0, "0,11-9,6-0,1"),
    letter('?', 7.0, "@3.5,10.6,3.4,3.4,-60,170 5.2,7.66-3.5,5.6-3.5,4 3.5,0-3.5,0.3"),
    letter('@', 13.0, "@6.5,6,6.5,7.5,20,320 @6.5,6,3,3.2,0,360 9.5,9-9.5,4.5-10.5,3-12,3.5-12.6,8.5"),
    letter('A', 11.0, "0,0-5.5,14-11,0 2,5-9,5"),
    letter('B', 9.0, "0,0-0,14-4.5,14 @4.5,10.7,3.7,3.3,-90,90 0,7.4-4.7,7.4 @4.7,3.7,4.3,3.7,-90,90 0,0-4.7,0"),
    letter('C', 10.0, "@6,7,6,7,50,310"),
    letter('D', 10.0, "0,0-0,14-4,14 @4,7,6,7,-90,90 4,0-0,0"),
    letter('E', 8.0, "8,14-0,14-0,0-8,0 0,7.2-7,7.2"),
    letter('F', 8.0, "8,14-0,14-0,0 0,7.2-7,7.2"),
    letter('G', 10.5, "@6,7,6,7,48,315 10.24,2.05-10.24,6.5-6.5,6.5"),
    letter('H', 10.0, "0,0-0,14 10,0-10,14 0,7.2-10,7.2"),
    letter('I', 2.0, "1,0-1,14"),
    letter('J', 6.5, "6.5,14-6.5,4 @3.25,4,3.25,4,180,360"),
    letter('K', 9.0, "0,0-0,14 9,14-0,5 3.2,8.2-9.3,0"),
    letter('L', 7.5, "0,14-0,0-7.5,0"),
    letter('M', 12.0, "0,0-0,14-6,4-12,14-12,0"),
    letter('N', 10.0, "0,0-0,14-10,0-10,14"),
    letter('O', 12.0, "@6,7,6,7,0,360"),
    letter('P', 8.8, "0,0-0,14-4.5,14 @4.5,10.3,4.3,3.7,-90,90 4.5,6.6-0,6.6"),
    letter('Q', 12.0, "@6,7,6,7,0,360 7.5,3.5-12,-1.5"),
    letter('R', 9.3, "0,0-0,14-4.5,14 @4.5,10.3,4.3,3.7,-90,90 4.5,6.6-0,6.6 4.5,6.6-9.3,0"),
    letter('S', 9.0, "@4.5,10.6,4.1,3.4,30,270 @4.5,3.6,4.4,3.6,-150,90"),
    letter('T', 10.0, "0,14-10,14 5,14-5,0"),
    letter('U', 10.0, "0,14-0,5 @5,5,5,5,180,360 10,5-10,14"),
    letter('V', 11.0, "0,14-5.5,0-11,14"),
    letter('W', 14.0, "0,14-3.5,0-7,12-10.5,0-14,14"),
    letter('X', 10.0, "0,0-10,14 0,14-10,0"),
    letter('Y', 10.0, "0,14-5,7-10,14 5,7-5,0"),
    letter('Z', 9.5, "0,14-9.5,14-0,0-9.5,0"),
    letter('[', 4.0, "4,16-0.5,16-0.5,-3-4,-3"),
    letter('\\', 7.0, "0,15-7,-2"),
    letter(']', 4.0, "0,16-3.5,16-3.5,-3-0,-3"),
    letter('^', 8.0, "0,9-4,14-8,9"),
    letter('_', 9.0, "0,-2-9,-2"),
    letter('`', 4.0, "0,15-3,12"),
    letter('a', 8.0, "@4,5,4,5,0,360 8,10-8,0"),
    letter('b', 8.0, "0,14-0,0 @4,5,4,5,0,360"),
    letter('c', 7.3, "@4.3,5,4.3,5,50,310"),
    letter('d', 8.0, "8,14-8,0 @4,5,4,5,0,360"),
    letter('e', 8.5, "0.1,5.3-8.4,5.3 @4.25,5,4.25,5,4,315"),
    letter('f', 5.5, "@4.6,11.2,2.6,2.8,60,180 2,11.2-2,0 0,9.5-5.2,9.5"),
    letter('g', 8.0, "@4,5,4,5,0,360 8,10-8,-0.5 @4,-0.5,4,3.8,200,360"),
    letter('h', 8.0, "0,14-0,0 @4,6,4,4,0,180 8,6-8,0"),
    letter('i', 2.0, "1,10-1,0 1,13.3-1,13.6"),
    letter('j', 4.0, "3,10-3,-2 @1,-2,2,2.2,250,360 3,13.3-3,13.6"),
    letter('k', 7.3, "0,14-0,0 7,10-0,4 2.5,6.2-7.3,0"),
    letter('l', 2.0, "1,14-1,0"),
    letter('m', 12.0, "0,10-0,0 @3,7,3,3,0,180 6,7-6,0 @9,7,3,3,0,180 12,7-12,0"),
    letter('n', 8.0, "0,10-0,0 @4,6,4,4,0,180 8,6-8,0"),
    letter('o', 8.5, "@4.25,5,4.25,5,0,360"),
    letter('p', 8.0, "0,10-0,-4.5 @4,5,4,5,0,360"),
    letter('q', 8.0, "8,10-8,-4.5 @4,5,4,5,0,360"),
    letter('r', 5.2, "0,10-0,0 @3.8,6.2,3.8,3.8,60,180"),
    letter('s', 7.0, "@3.5,7.5,3.2,2.5,25,270 @3.5,2.5,3.5,2.5,-155,90"),
    letter('t', 5.5, "2.2,13.5-2.2,2.5 @4.4,2.5,2.2,2.5,180,285 0,10-5.5,10"),
    letter('u', 8.0, "0,10-0,4 @4,4,4,4,180,360 8,10-8,0"),
    letter('v', 8.0, "0,10-4,0-8,10"),
    letter('w', 12.0, "0,10-3,0-6,9-9,0-12,10"),
    letter('x', 8.0, "0,0-8,10 0,10-8,0"),
    letter('y', 8.0, "0,10-4,0 8,10-3,-2.5-1.5,-4.2-0,-4.4"),
    letter('z', 7.5, "0,10-7.5,10-0,0-7.5,0"),
    letter('{', 5.0, "5,16-3,15-3,8-0.5,6-3,4-3,-2-5,-3"),
    letter('|', 2.0, "1,16-1,-4"),
    letter('}', 5.0, "0,16-2,15-2,8-4.5,6-2,4-2,-2-0,-3"),
    letter('~', 9.0, "0,5-1.5,7-3.5,7-5.5,5-7.5,5-9,7"),
    letter('µ', 8.0, "0,10-0,-4.5 @4,4,4,4,180,360 8,10-8,0"),
    letter('·', 3.0, "1.5,5.5-1.5,5.8"),
    letter('–', 9.0, "0,5.5-9,5.5"),
    letter('−', 9.0, "0,6-9,6"),
    letter('…', 11.0, "1,0-1,0.3 5.5,0-5.5,0.3 10,0-10,0.3"),
    letter('×', 9.0, "0.5,2-8.5,10 0.5,10-8.5,2"),
    letter('≈', 9.0, "0,7.5-1.5,9-3.5,9-5.5,7.5-7.5,7.5-9,9 0,3-1.5,4.5-3.5,4.5-5.5,3-7.5,3-9,4.5"),
    letter('→', 11.0, "0,6-11,6 7.5,9.5-11,6-7.5,2.5"),
];

/// The lines of a letter, each between two points, units.
pub(super) fn lines(letter: &Letter) -> Vec<[[f64; 2]; 2]> {
    let mut lines = Vec::new();
    for stroke in letter.strokes.split(' ').filter(|stroke| !stroke.is_empty()) {
        let points = stroke.strip_prefix('@').map_or_else(|| corners(stroke), arc);
        lines.extend(points.windows(2).filter_map(|pair| <[[f64; 2]; 2]>::try_from(pair).ok()));
    }
    lines
}

/// The points of a stroke of straight lines. A minus sign behind a comma belongs to its number.
fn corners(stroke: &str) -> Vec<[f64; 2]> {
    let mut points = Vec::new();
    let mut rest = stroke;
    while let Some((x, behind)) = rest.split_once(',') {
        let end = behind[1..].find('-').map_or(behind.len(), |at| at + 1);
        let y = &behind[..end];
        points.push([x, y].map(number));
        rest = behind[end..].strip_prefix('-').unwrap_or("");
    }
    points
}

/// Points on an arc, close enough to look round.
fn arc(words: &str) -> Vec<[f64; 2]> {
    const STEPS: u32 = 24;
    let mut numbers = words.split(',').map(number);
    let [x, y, across, up, from, to] = std::array::from_fn(|_| numbers.next().unwrap_or(0.0));
    let point = |step: u32| {
        let angle = (from + (to - from) * f64::from(step) / f64::from(STEPS)).to_radians();
        [x + across * angle.cos(), y + up * angle.sin()]
    };
    (0..=STEPS).map(point).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_letter_of_ascii_and_of_figures_is_drawn_within_its_width() {
        for character in (' '..='~').chain("µ·–−…×≈→".chars()) {
            let letter = find(character);
            assert_eq!(letter.character, character);
            let lines = lines(letter);
            assert_eq!(lines.is_empty(), character == ' ', "{character}");
            for [x, y] in lines.into_iter().flatten() {
                assert!((-0.3..=letter.width + 0.5).contains(&x), "{character}: {x}");
                assert!((-5.0..=16.5).contains(&y), "{character}: {y}");
            }
        }
        assert_eq!(find('\u{4e16}').character, '\u{25a1}');
    }

    #[test]
    fn strokes_are_read_as_they_are_written() {
        assert_eq!(corners("1.5,2-3,-4.5-0,0"), [[1.5, 2.0], [3.0, -4.5], [0.0, 0.0]]);
        let points = arc("1,2,3,4,0,90");
        assert!((points[0][0] - 4.0).abs() < 1e-9 && (points[24][1] - 6.0).abs() < 1e-9);
    }
}
