//! All colours, for light and for dark, and how they reach the plots.
//!
//! Plots are drawn in the colours for light; the style sheet finds each of them in its attribute and puts the variable
//! of that name in its place, which follows the theme.

use plotters::style::RGBColor;
use std::fmt::Write;

/// What a thing in a plot is drawn in. The first three differ for the colour-blind, and in their dashes and points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// What the plot is about.
    First,
    /// What it is compared with: dashed.
    Second,
    /// A third curve: dotted.
    Third,
    /// Errors.
    Bad,
    /// One of many runs.
    Faint,
    /// Letters.
    Letters,
    /// Axes.
    Axis,
    /// The grid.
    Grid,
    /// A span that is set apart.
    Shade,
}

impl Ink {
    const ALL: [Ink; 9] =
        [Self::First, Self::Second, Self::Third, Self::Bad, Self::Faint, Self::Letters, Self::Axis, Self::Grid, Self::Shade];

    fn colour(self) -> &'static Colour {
        &COLOURS[self as usize]
    }

    /// The colour for light, as it stands in attributes.
    pub fn attribute(self) -> String {
        attribute(self.colour().light)
    }

    /// The colour for light, for drawing.
    pub fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.colour().light.to_be_bytes();
        RGBColor(red, green, blue)
    }

    /// Lengths of dashes and gaps; none for a whole line.
    fn dashes(self) -> Option<&'static str> {
        match self {
            Self::Second => Some("16 9"),
            Self::Third => Some("3 8"),
            _ => None,
        }
    }
}

/// A colour of the page as 0xRRGGBB.
struct Colour {
    name: &'static str,
    light: u32,
    dark: u32,
}

const fn colour(name: &'static str, light: u32, dark: u32) -> Colour {
    Colour { name, light, dark }
}

/// Those of [`Ink`] first, in its order.
const COLOURS: [Colour; 14] = [
    colour("first", 0x0062A3, 0x62B9F0),
    colour("second", 0xB84A00, 0xF5A83C),
    colour("third", 0x007354, 0x35C99A),
    colour("bad", 0xA81C3C, 0xFF869A),
    colour("faint", 0x737D89, 0x7D8895),
    colour("letters", 0x1B222B, 0xE5EAEF),
    colour("axis", 0x6B7683, 0x8D98A5),
    colour("grid", 0xDFE3E8, 0x333B45),
    colour("shade", 0xE2E7EC, 0x2B323B),
    colour("paper", 0xFFFFFF, 0x14181D),
    colour("panel", 0xF5F7F9, 0x1D232A),
    colour("quiet", 0x4E5864, 0xAAB4BF),
    colour("good", 0x0B6B33, 0x62D08C),
    colour("rule", 0xC9CFD6, 0x3E4752),
];

fn attribute(rgb: u32) -> String {
    format!("#{rgb:06X}")
}

/// The part of the style sheet that the colours make.
pub fn style() -> String {
    let variables = |of: fn(&Colour) -> u32| -> String {
        COLOURS.iter().map(|colour| format!("--{}:{};", colour.name, attribute(of(colour)))).collect()
    };
    let light = variables(|colour| colour.light);
    let dark = variables(|colour| colour.dark);
    let mut style = format!(":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n");
    for ink in Ink::ALL {
        let (name, seen) = (ink.colour().name, ink.attribute());
        for property in ["fill", "stroke"] {
            // Writing to a string does not fail.
            let _ = writeln!(style, "svg [{property}=\"{seen}\"]{{{property}:var(--{name})}}");
        }
        if let Some(dashes) = ink.dashes() {
            let _ = writeln!(style, "svg [stroke=\"{seen}\"]{{stroke-dasharray:{dashes}}}");
        }
    }
    style
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by WCAG 2.2.
    fn luminance(rgb: u32) -> f64 {
        let [_, red, green, blue] = rgb.to_be_bytes().map(|channel| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a) + 0.05, luminance(b) + 0.05);
        if a > b { a / b } else { b / a }
    }

    fn named(name: &str) -> &'static Colour {
        COLOURS.iter().find(|colour| colour.name == name).unwrap()
    }

    fn least_contrast(name: &str, grounds: &[&str]) -> f64 {
        let of = |ground: &&str| {
            let (colour, ground) = (named(name), named(ground));
            contrast(colour.light, ground.light).min(contrast(colour.dark, ground.dark))
        };
        grounds.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn text_has_the_contrast_that_wcag_asks_for() {
        for name in ["letters", "quiet", "good", "bad", "first"] {
            let contrast = least_contrast(name, &["paper", "panel", "shade"]);
            assert!(contrast >= 4.5, "{name}: {contrast:.2}");
        }
    }

    #[test]
    fn marks_have_the_contrast_that_wcag_asks_for() {
        for name in ["first", "second", "third", "bad", "faint", "axis"] {
            let contrast = least_contrast(name, &["paper", "shade"]);
            assert!(contrast >= 3.0, "{name}: {contrast:.2}");
        }
    }

    #[test]
    fn each_colour_of_a_plot_is_told_from_the_others_and_has_its_variable() {
        let style = style();
        for (index, ink) in Ink::ALL.into_iter().enumerate() {
            assert_eq!(ink as usize, index);
            let rule = format!("svg [stroke=\"{}\"]{{stroke:var(--{})}}", ink.attribute(), ink.colour().name);
            assert_eq!(style.matches(&rule).count(), 1);
            assert_eq!(Ink::ALL.iter().filter(|other| other.attribute() == ink.attribute()).count(), 1);
        }
    }

    #[test]
    fn drawing_uses_the_colour_of_the_attribute() {
        let RGBColor(red, green, blue) = Ink::Second.rgb();
        assert_eq!(format!("#{red:02X}{green:02X}{blue:02X}"), Ink::Second.attribute());
    }
}
