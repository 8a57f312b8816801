use super::*;

fn options(out: &Path) -> FigureOptions {
    FigureOptions {
        paper: Paper::SmallPackets,
        out: out.to_owned(),
        trace: None,
        packets: 400,
        range_packets: 60,
        threads: 2,
    }
}

#[test]
fn every_figure_is_there_as_svg_png_and_csv_and_the_page_holds_them_all() {
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
    let html = std::fs::read_to_string(folder.path().join("index.html")).expect("it was made");
    page::tests::check(&html, &(3..=15).collect::<Vec<u32>>(), &made.claims);
    for reading in readings::Reading::ALL {
        assert!(html.contains(&format!("<dt>{}</dt>", reading.name())), "{}", reading.name());
    }
    assert!(heard.last().is_some_and(|(done, of)| done == of));
}

#[test]
fn verdicts_follow_from_the_runs() {
    let platform = convoy_sim::Platform::open("pci-accelerators").expect("it comes with the program");
    let folder = tempfile::tempdir().expect("a folder");
    let mut plan = plan::Plan::new(&platform, &options(folder.path())).expect("no trace to read");
    plan.carry_out(&platform, 2, &mut |_, _| {}).expect("in range");
    let falls =
        claims::all().into_iter().find(|claim| claim.text.starts_with("The CPU's share of packets falls"));
    let check = falls.expect("the paper's first claim").check;
    let mut runs = plan.runs(readings::Reading::PoolFromWindow);
    assert_eq!((check)(&runs).evidence, finding::Evidence::For);
    let key = *runs
        .of
        .keys()
        .find(|key| {
            (key.accelerators, key.window, key.enc_ratio) == (1, 30, 7) && key.variant == runs::Variant::Plain
        })
        .expect("a run of figure 3");
    let mut outcome = (*runs.of[&key]).clone();
    outcome.report.share[0] = 0.9;
    runs.of.insert(key, outcome.into());
    let refuted = (check)(&runs);
    assert_eq!(refuted.evidence, finding::Evidence::Against);
    assert!(refuted.measured.contains(&plots::name(key.pattern)), "{}", refuted.measured);
    // Every claim that does not say otherwise is checked with every combination.
    let small_packets::Verdicts { claims, ranges_csv, best } = small_packets::verdicts(&plan);
    let over_range = claims::all().iter().filter(|claim| claim.scope == claims::Scope::Range).count();
    assert_eq!(ranges_csv.lines().count(), 1 + over_range * plan.range().len());
    assert!(best.0 <= claims.len() && !best.1.is_empty());
}

#[test]
fn a_trace_file_takes_the_place_of_the_synthetic_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("packets.tcp");
    let sizes: Vec<u32> = (0..400).map(|at| at * 37 % 1461).collect();
    let line = |(at, size): (usize, &u32)| format!("{at}.5 9 {} 20 30 {size}\n", at / 3 % 7);
    std::fs::write(&path, sizes.iter().enumerate().map(line).collect::<String>()).expect("written");
    let with_trace = FigureOptions { trace: Some(path.clone()), ..options(folder.path()) };
    let made = make_figures(&with_trace, &mut |_, _| {}).expect("made");
    assert!(made.trace.is_some_and(|trace| trace.contains("400 packets to 7 destinations")));
    assert_eq!(made.claims[1].basis, "follows", "nothing is fitted to a trace of its own");
    // Without a window, the average length is that of the file's packets.
    let runs = std::fs::read_to_string(folder.path().join("runs.csv")).expect("it was made");
    let row = runs.lines().find(|row| row.starts_with("pool,trace,1,1,1,Plain,400,")).expect("a run");
    let scheduled: f64 = row.split(',').nth(16).expect("a column").parse().expect("a number");
    let mean = f64::from(sizes.iter().sum::<u32>()) / 400.0;
    assert!((scheduled - 40.0 - mean).abs() < 1e-6, "{scheduled} and {mean}");
    let html = std::fs::read_to_string(folder.path().join("index.html")).expect("it was made");
    assert!(html.contains("400 packets to 7 destinations") && !html.contains("is a synthetic one here"));
    // Another paper has no such trace, and a wrong line is named.
    let other = FigureOptions { paper: Paper::Grip, ..with_trace.clone() };
    assert!(matches!(make_figures(&other, &mut |_, _| {}), Err(FigureError::NoTrace)));
    std::fs::write(&path, "0.5 9 1 20 30 100\n0.6 9 1 20 30 bytes\n").expect("written");
    let error = make_figures(&with_trace, &mut |_, _| {}).expect_err("a wrong line").to_string();
    assert!(error.ends_with("packets.tcp:2: \"bytes\" is not a number of bytes up to 65535"), "{error}");
}
