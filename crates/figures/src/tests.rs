use super::*;

fn options(out: &Path) -> FigureOptions {
    FigureOptions {
        paper: Paper::SmallPackets,
        out: out.to_owned(),
        packets: 400,
        range_packets: 60,
        threads: 2,
    }
}

#[test]
fn every_figure_is_there_as_svg_png_and_csv_and_the_report_holds_them_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heard = Vec::new();
    let made = make_figures(&options(folder.path()), &mut |done, of| heard.push((done, of))).expect("made");
    for number in 3..=15 {
        let read = |end: &str| {
            let path = folder.path().join(format!("figure-{number:02}.{end}"));
            assert!(made.files.contains(&path), "{}", path.display());
            std::fs::read(path).expect("it was made")
        };
        let svg = String::from_utf8(read("svg")).expect("text");
        assert!(svg.contains(&format!("Figure {number}.")), "a heading that is text");
        assert!(svg.contains("T_enc ratio of the CPU") || svg.contains("pattern (sizes: payload)"));
        let drawn = png::Decoder::new(std::io::Cursor::new(read("png"))).read_info().expect("a PNG");
        let (width, height) = drawn.info().size();
        assert!(width >= 3 * 620 && height == 3 * 430, "{width} x {height}");
        let mut pixels = vec![0; drawn.output_buffer_size().expect("it fits")];
        let mut drawn = drawn;
        drawn.next_frame(&mut pixels).expect("whole");
        let is_drawn = |pixel: &&[u8]| **pixel != [255; 3];
        assert!(pixels.chunks(3).filter(is_drawn).count() > 10_000, "axes, curves and text on white");
        assert!(String::from_utf8(read("csv")).expect("text").lines().count() > 8);
    }
    let html = std::fs::read_to_string(folder.path().join("report.html")).expect("it was made");
    assert_eq!(html.matches("<svg").count(), 13);
    assert!(!html.contains("src=") && !html.contains("href="), "it needs no other file");
    assert_eq!(
        html.matches("class=\"yes\"").count() + html.matches("class=\"no\"").count(),
        made.claims.len()
    );
    assert!(heard.last().is_some_and(|(done, of)| done == of));
}

#[test]
fn verdicts_follow_from_the_runs() {
    let platform = Platform::open("pci-accelerators").expect("it comes with the program");
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = Plan::new(&platform, &options(folder.path()));
    plan.carry_out(&platform, 2, &mut |_, _| {}).expect("in range");
    let falls =
        claims::all().into_iter().find(|claim| claim.text.starts_with("The CPU's share of packets falls"));
    let check = falls.expect("the paper's first claim").check;
    let mut runs = plan.chosen();
    assert!((check)(&runs).shown);
    let key = *runs
        .0
        .keys()
        .find(|key| {
            (key.accelerators, key.window, key.enc_ratio) == (1, 30, 7) && key.variant == runs::Variant::Plain
        })
        .expect("a run of figure 3");
    let mut outcome = (*runs.0[&key]).clone();
    outcome.report.share[0] = 0.9;
    runs.0.insert(key, outcome.into());
    let refuted = (check)(&runs);
    assert!(!refuted.shown);
    assert!(refuted.measured.contains(&plots::name(key.pattern)), "{}", refuted.measured);
    // Every claim is checked with every combination.
    let Verdicts { claims, ranges_csv, best } = verdicts(&plan);
    assert_eq!(ranges_csv.lines().count(), 1 + claims.len() * plan.range().len());
    assert!(best.0 <= claims.len() && !best.1.is_empty());
}
