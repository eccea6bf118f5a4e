use super::*;

/// A heat map in the colours from dark to bright, over the range of its values.
fn map(values: Vec<Vec<f64>>) -> Mark {
    let label = "value".into();
    Mark::HeatMap { values, annotate: true, range: None, diverging: false, label }
}

fn every_mark() -> Figure {
    let curve = |f: fn(f64) -> f64| (1..40).map(move |i| (f64::from(i), f(f64::from(i))));
    let values = (0..4).map(|i| (0..6).map(|j| f64::from(i * j) - 5.0).collect()).collect();
    Figure::new("Every mark: λ < 1 & \"γ\"")
        .caption("made up; intervals are 95 %")
        .panel(
            Panel::new("lines")
                .x("token position t")
                .y(Axis::new("weight ε").log())
                .band("recent", curve(|x| x).map(|(x, y)| (x, y * 0.8, y * 1.2)))
                .line("recent", curve(|x| x))
                .styled_line("uniform", Style::Dashed, curve(|_| 3.0))
                .hline(2.0, "two")
                .vline(7.0, "seven"),
        )
        .panel(
            Panel::new("bars")
                .x(Axis::new("method").categories(["a", "b"]))
                .y("success")
                .bars_with_intervals("recent", [(0.0, 0.3, 0.5, 0.7), (1.0, 0.1, 0.2, 0.3)])
                .bars("uniform", [(0.0, 0.4), (1.0, 0.6)]),
        )
        .panel(
            Panel::new("points")
                .x("x")
                .y("y")
                .points("recent", [(0.0, 1.0), (1.0, 2.0)])
                .dots("runs", [(0.5, 1.0)])
                .intervals("uniform", [(0.0, 0.5, 1.0, 1.5)]),
        )
        .panel(Panel::new("map").x("column").y("row").mark(map(values)))
}

/// Every element closed in order, attributes quoted, no stray `<` or `&`: what an XML parser insists on.
fn well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        let entities = ["&lt;", "&gt;", "&amp;", "&quot;", "&apos;"];
        if text.match_indices('&').any(|(i, _)| !entities.iter().any(|e| text[i..].starts_with(e))) {
            return false;
        }
        let Some(length) = rest[start..].find('>') else { return false };
        let tag = &rest[start + 1..start + length];
        let name = |t: &str| t.split_whitespace().next().unwrap_or("").to_string();
        if tag.contains('<') || tag.matches('"').count() % 2 == 1 {
            return false;
        }
        if let Some(closing) = tag.strip_prefix('/') {
            if open.pop() != Some(name(closing)) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name(tag));
        }
        rest = &rest[start + length + 1..];
    }
    open.is_empty()
}

#[test]
fn equal_descriptions_give_equal_bytes() {
    let (a, b) = (every_mark(), every_mark());
    assert_eq!(a.to_svg().expect("SVG"), b.to_svg().expect("SVG"));
    assert_eq!(a.to_png(1.0).expect("PNG"), b.to_png(1.0).expect("PNG"));
}

#[test]
fn the_svg_is_well_formed_and_says_what_it_shows() {
    let svg = every_mark().to_svg().expect("SVG");
    assert!(well_formed(&svg));
    for text in [
        "Every mark: λ &lt; 1 &amp;",
        "made up",
        "token position t",
        "weight ε",
        "recent",
        "two",
        "seven",
        "runs",
        "value",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(svg.contains("DejaVu Sans, Verdana, sans-serif"));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn the_png_is_a_png_of_the_asked_size_and_not_wider_than_the_cap() {
    let figure = every_mark();
    let size = |bytes: &[u8]| {
        assert_eq!(&bytes[1..4], b"PNG");
        u32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]])
    };
    let one = size(&figure.to_png(1.0).expect("PNG"));
    assert_eq!(size(&figure.to_png(2.0).expect("PNG")), 2 * one);
    assert_eq!(size(&figure.to_png(50.0).expect("PNG")), 2400);
    assert!(figure.to_png(0.0).is_err() && figure.to_png(f64::NAN).is_err());
}

#[test]
fn a_name_has_one_colour_in_all_panels() {
    let figure = every_mark();
    let palette = palette::Palette::new(&figure);
    assert_eq!(palette.look("recent"), palette::Palette::new(&figure.clone().columns(1)).look("recent"));
    assert_ne!(palette.look("recent"), palette.look("uniform"));
    let pinned = palette::Palette::new(&figure.names(["uniform"]));
    assert_eq!(pinned.look("uniform"), palette.look("recent"));
}

#[test]
fn dots_are_grey_and_take_no_colour() {
    let dots = Panel::new("p").dots("runs", [(0.0, 1.0), (1.0, 2.0)]);
    let figure = Figure::new("t").panel(dots.points("recent", [(0.0, 1.0)]));
    // Two dots and one in the legend; a point and its legend.
    assert_eq!(figure.to_svg().expect("SVG").matches("<circle").count(), 5);
    let alone = Figure::new("t").panel(Panel::new("p").points("recent", [(0.0, 1.0)]));
    let look = |figure: &Figure| palette::Palette::new(figure).look("recent");
    assert_eq!(look(&figure), look(&alone));
}

#[test]
fn nothing_to_draw_is_no_panic() {
    let nan = f64::NAN;
    let panels = [
        Panel::new("none"),
        Panel::default(),
        Panel::new("").line("a", []).hline(1.0, "reference"),
        Panel::new("").line("a", [(nan, 1.0), (1.0, f64::INFINITY)]).band("a", [(0.0, nan, nan)]),
        Panel::new("").bars("a", [(0.0, nan)]).intervals("b", [(nan, nan, nan, nan)]),
        Panel::new("").mark(map(vec![])),
        Panel::new("").mark(map(vec![vec![], vec![nan, 0.0]])),
        Panel::new("").mark(map(vec![vec![nan]])),
        Panel::new("").x(Axis::new("").log()).y(Axis::new("").log()).points("a", [(0.0, -1.0)]),
        Panel::new("").y(Axis::new("").log()).bars("a", [(0.0, 0.0), (1.0, 5.0)]),
        Panel::new("").line("a", [(1e308, -1e308), (0.0, 1e-320), (1.0, 1.0)]),
        Panel::new("").x(Axis::new("").categories(["only"])).points("a", [(3.0, 1.0)]),
        Panel::new("").line("flat", [(0.0, 0.1 + 0.2), (1.0, 0.3)]).vline(nan, "x").hline(nan, "y"),
        Panel::new("")
            .x(Axis::new("").range(0.0, 1.0))
            .line("out", [(-5.0, 0.0), (5.0, 1.0)])
            .bars("b", [(9.0, 1.0)]),
    ];
    for panel in panels {
        let figure = Figure::new("").panel(panel);
        let svg = figure.to_svg().expect("SVG");
        assert!(well_formed(&svg) && !svg.contains("NaN"), "{figure:?}");
        assert!(figure.to_png(1.0).is_ok());
    }
    let empty = Figure::new("t").panel(Panel::new("p").line("a", [(f64::NAN, 0.0)])).to_svg().expect("SVG");
    assert!(empty.contains("no data"));
    assert!(Figure::new("no panels").to_svg().is_ok());
}

#[test]
fn a_point_that_is_not_finite_changes_no_axis() {
    let good = [(0.0, 1.0), (1.0, 2.0), (2.0, 1.5)];
    let frame = |extra: &[(f64, f64)]| {
        let points = good.iter().chain(extra).copied();
        Figure::new("t").panel(Panel::new("p").points("a", points)).to_svg().expect("SVG")
    };
    assert_eq!(frame(&[]), frame(&[(f64::NAN, 7.0), (0.5, f64::NEG_INFINITY)]));
}

#[test]
fn impossible_ranges_are_errors() {
    let figure = |axis: Axis| Figure::new("t").panel(Panel::new("p").x(axis).line("a", [(1.0, 1.0)]));
    assert!(figure(Axis::new("x").range(2.0, 1.0)).to_svg().is_err());
    assert!(figure(Axis::new("x").log().range(-1.0, 1.0)).to_svg().is_err());
    assert!(figure(Axis::new("x").range(0.0, f64::NAN)).to_png(1.0).is_err());
}

#[test]
fn groups_of_positions_are_named_and_ruled_off() {
    let figure = |groups: &[(&'static str, usize)]| {
        let axis = Axis::new("").categories(["a", "b", "c", "d", "e"]).groups(groups.iter().copied());
        let panel = Panel::new("p").x(Axis::new("x").categories(["k"])).y(axis);
        Figure::new("t").panel(panel.mark(map((0..5).map(|i| vec![f64::from(i)]).collect())))
    };
    let (none, two) =
        (figure(&[]).to_svg().expect("SVG"), figure(&[("first", 3), ("second", 2)]).to_svg().expect("SVG"));
    assert!(two.contains("first") && two.contains("second") && well_formed(&two));
    let rules = |svg: &str| svg.matches("<rect").count();
    assert_eq!(rules(&two), rules(&none) + 1);
    // Too many positions, none, or an empty name are drawn as far as they go.
    for odd in [&[("first", 9), ("second", 2)][..], &[("", 2), ("none", 0), ("rest", 3)]] {
        assert!(well_formed(&figure(odd).to_svg().expect("SVG")));
    }
}

#[test]
fn white_is_zero_on_a_diverging_map_of_any_range() {
    let map = |range, values: [f64; 3]| {
        let mark = Mark::HeatMap {
            values: vec![values.to_vec()],
            annotate: false,
            range: Some(range),
            diverging: true,
            label: String::new(),
        };
        Figure::new("t").panel(Panel::new("p").mark(mark))
    };
    let layout =
        |f: &Figure| layout::Layout::new(f).expect("layout").panels.remove(0).colours.expect("a map");
    let one_sided = layout(&map((0.0, 90.0), [0.0, 45.0, 90.0]));
    assert_eq!([0.0, 45.0, 90.0].map(|v| one_sided.place(v)), [0.5, 0.75, 1.0]);
    let even = layout(&map((-2.0, 2.0), [0.0, 1.0, 2.0]));
    assert_eq!([-2.0, 0.0, 1.0].map(|v| even.place(v)), [0.0, 0.5, 0.75]);
    // Where nothing is learnt, every value is 0.
    let nothing = layout(&map((-0.0, 0.0), [0.0; 3]));
    assert_eq!([-1.0, 0.0, 1.0].map(|v| nothing.place(v)), [0.0, 0.5, 1.0]);
}
