//! What `convoy-demo` prints.

use std::process::Command;

#[test]
fn demo_in_any_folder_sends_the_built_in_capture_and_prints_lines_of_at_most_100_columns() {
    let reported = Command::new(env!("CARGO_BIN_EXE_convoy-demo"))
        .args(["--seconds", "1"])
        .current_dir(std::env::temp_dir())
        .output()
        .expect("the binary was built");
    let [page, progress] =
        [reported.stdout, reported.stderr].map(|text| String::from_utf8(text).expect("text"));
    assert_eq!(reported.status.code(), Some(0), "{progress}");
    let wide: Vec<&str> = page.lines().filter(|line| line.chars().count() > 100).collect();
    assert_eq!(wide, [""; 0], "{page}");
    let words = page.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("962 packets of real programs"), "{page}");
    for sentence in ["What the window gained", "With the accelerators: ", "arrived unchanged"] {
        assert!(words.contains(sentence), "{sentence}: {page}");
    }
    let (_, worst) = words.split_once("relative to the best policy there: ").expect("the last line");
    for policy in
        ["finishing-time", "cpu-only", "round-robin", "packet-size", "first-capable", "least-loaded"]
    {
        assert_eq!(worst.matches(policy).count(), 1, "{worst}");
        assert!(
            page.lines().filter(|line| line.contains(&format!(" {policy} "))).count() >= 2,
            "{policy}: {page}"
        );
    }
    assert!(progress.contains("all engines") && progress.contains(", round "), "{progress}");
    assert!(!page.contains(", round "), "{page}");
}
