//! A profile as a picture: a box a function, as wide as its share, above the one that called it.

use corelane::admin::profile::Profile;
use std::collections::BTreeMap;
use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const ROW: usize = 18;
const HEAD: usize = 44;
/// Narrower boxes are left out.
const NARROWEST: f64 = 0.3;
/// The width of a letter, about.
const LETTER: f64 = 7.3;

/// A function among those that one other has called.
#[derive(Default)]
struct Called {
    count: u64,
    calls: BTreeMap<String, Called>,
}

/// The picture, whole in itself. The words of a box are its title, which browsers show where the pointer is.
pub fn svg(profile: &Profile, of_what: &str) -> String {
    let root = tree(profile);
    let height = HEAD + ROW * (root.depth() + 1);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"monospace\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"15\">corelane profile: {}, {} samples</text>\n",
        escaped(of_what),
        root.count
    );
    if root.count > 0 {
        let picture = Picture { all: root.count, height };
        picture.draw(&mut out, "all", &root, 0.0, 0);
    }
    out + "</svg>\n"
}

fn tree(profile: &Profile) -> Called {
    let mut root = Called::default();
    for (stack, count) in &profile.stacks {
        root.count += count;
        let mut at = &mut root;
        for function in stack {
            at = at.calls.entry(function.clone()).or_default();
            at.count += count;
        }
    }
    root
}

impl Called {
    fn depth(&self) -> usize {
        1 + self.calls.values().map(Self::depth).max().unwrap_or(0)
    }
}

struct Picture {
    all: u64,
    height: usize,
}

impl Picture {
    fn draw(&self, out: &mut String, name: &str, called: &Called, left: f64, row: usize) {
        let share = called.count as f64 / self.all as f64;
        let width = WIDTH * share;
        if width < NARROWEST {
            return;
        }
        let top = self.height - ROW * (row + 1);
        let letters = (width / LETTER) as usize;
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "<g><title>{}: {} samples, {:.1} %</title><rect x=\"{left:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\" \
             stroke=\"#fff\"/><text x=\"{:.1}\" y=\"{}\">{}</text></g>",
            escaped(name),
            called.count,
            share * 100.0,
            ROW - 1,
            colour(name),
            left + 3.0,
            top + 13,
            escaped(&end_of(name, letters))
        );
        let mut left = left;
        for (name, called) in &called.calls {
            self.draw(out, name, called, left, row + 1);
            left += WIDTH * called.count as f64 / self.all as f64;
        }
    }
}

/// Of a name that is too long its end, which says most; nothing where a few letters have no room.
fn end_of(name: &str, letters: usize) -> String {
    let count = name.chars().count();
    match letters {
        _ if count <= letters => name.to_owned(),
        0..4 => String::new(),
        _ => format!("..{}", name.chars().skip(count + 2 - letters).collect::<String>()),
    }
}

/// The same for the same name, light enough for black letters.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    format!("hsl({},80%,{}%)", 15 + hash % 40, 62 + hash / 64 % 14)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(stacks: &[(&[&str], u64)]) -> Profile {
        let stack = |(names, count): &(&[&str], u64)| (names.iter().map(|name| (*name).to_owned()).collect(), *count);
        Profile { stacks: stacks.iter().map(stack).collect(), ..Profile::default() }
    }

    #[test]
    fn a_box_is_as_wide_as_its_share_and_stands_above_its_caller() {
        let picture = svg(&profile(&[(&["lane 0", "turn", "<a as b>::c"], 3), (&["lane 0", "sleep"], 1)]), "process 7");
        let boxes: Vec<&str> = picture.lines().filter(|line| line.starts_with("<g>")).collect();
        assert_eq!(boxes.len(), 5, "{picture}");
        let of = |name: &str| *boxes.iter().find(|line| line.contains(&format!("<title>{name}: "))).unwrap();
        assert!(of("turn").contains("3 samples, 75.0 %") && of("turn").contains("width=\"900.0\""), "{picture}");
        assert!(of("&lt;a as b&gt;::c").contains("75.0 %"), "{picture}");
        let top = |name: &str| of(name).split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse::<usize>().unwrap();
        assert!(top("turn") < top("lane 0") && top("turn") == top("sleep"), "{picture}");
    }

    #[test]
    fn nothing_seen_is_a_picture_of_nothing() {
        let picture = svg(&Profile::default(), "process 7");
        assert!(picture.contains("0 samples") && !picture.contains("<g>") && picture.ends_with("</svg>\n"));
    }

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(end_of("corelane_lane::turn", 8), "..::turn");
        assert_eq!(end_of("turn", 4), "turn");
        assert_eq!(end_of("a::turn", 3), "");
    }
}
