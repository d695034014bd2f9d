//! Defines a drawing as a list of shapes, which [`super::svg`] renders.
//!
//! Invariants: coordinates are pixels from the upper left corner; shapes are painted in their order; a colour is named by
//! what it stands for, so that a page can show it on light and on dark ground.

use crate::rank::EffectiveClass;

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The ground.
    Paper,
    Text,
    /// Words of less weight.
    Soft,
    Grid,
    Warning,
    PowerLoss,
    NotConfirmed,
    SystemCrash,
    ProcessCrash,
    /// A row without a class.
    Row,
}

/// Each with its name in a page's style sheet, and red, green and blue on light ground.
pub(crate) const INKS: [(Ink, &str, [u8; 3]); 10] = [
    (Ink::Paper, "card", [0xff, 0xff, 0xff]),
    (Ink::Text, "ink", [0x1c, 0x21, 0x27]),
    (Ink::Soft, "soft", [0x5a, 0x64, 0x70]),
    (Ink::Grid, "grid", [0xe3, 0xe6, 0xe9]),
    (Ink::Warning, "bad", [0xa3, 0x20, 0x1d]),
    (Ink::PowerLoss, "power-loss", [0x17, 0x75, 0x43]),
    (Ink::NotConfirmed, "not-confirmed", [0xb3, 0x20, 0x2c]),
    (Ink::SystemCrash, "system-crash", [0xb3, 0x6b, 0x00]),
    (Ink::ProcessCrash, "process-crash", [0x7a, 0x84, 0x90]),
    (Ink::Row, "accent", [0x0b, 0x5c, 0xad]),
];

impl Ink {
    pub(crate) fn row(self) -> (Self, &'static str, [u8; 3]) {
        INKS.into_iter().find(|(ink, ..)| *ink == self).unwrap_or(INKS[1])
    }

    pub(crate) fn of(class: EffectiveClass) -> Self {
        match class {
            EffectiveClass::PowerLoss => Self::PowerLoss,
            EffectiveClass::NotConfirmed => Self::NotConfirmed,
            EffectiveClass::SystemCrash => Self::SystemCrash,
            EffectiveClass::ProcessCrash => Self::ProcessCrash,
        }
    }
}

/// Where a text stands from its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Face {
    /// Height of a line's letters, pixels.
    pub size: f64,
    pub bold: bool,
    /// Whether all letters have one width.
    pub mono: bool,
    pub ink: Ink,
    pub anchor: Anchor,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Rect {
        /// Left and upper edge.
        at: [f64; 2],
        size: [f64; 2],
        ink: Ink,
    },
    Line {
        from: [f64; 2],
        to: [f64; 2],
        width: f64,
        ink: Ink,
    },
    Dot {
        at: [f64; 2],
        radius: f64,
        ink: Ink,
    },
    Text {
        /// Where its base line is.
        at: [f64; 2],
        face: Face,
        text: String,
    },
}

/// A drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Scene {
    /// Width and height, pixels.
    pub(crate) size: [f64; 2],
    /// What it shows, for those who do not see it.
    pub(crate) title: String,
    pub(crate) shapes: Vec<Shape>,
}

/// How wide a text may become in the widest of common fonts, pixels.
pub(crate) fn width_of(text: &str, face: &Face) -> f64 {
    let each = if face.mono { 0.602 } else { 0.58 };
    text.chars().count() as f64 * each * face.size * if face.bold { 1.06 } else { 1.0 }
}

/// `text`, cut so that it is no wider than `width` pixels.
pub(crate) fn cut(text: &str, face: &Face, width: f64) -> String {
    let all = text.chars().count();
    let fitting = (1..=all).rev().find(|count| {
        let shorter: String = text.chars().take(*count).collect();
        width_of(&shorter, face) <= width
    });
    crate::report::text::elided(text, fitting.unwrap_or(1))
}
