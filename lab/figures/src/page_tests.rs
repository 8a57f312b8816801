use super::*;
use crate::tables::tests::claim;
use crate::verdict::Verdict;

/// The names of the elements of a page that is well-formed.
///
/// # Panics
/// If an element is not closed, closed in another order, or an attribute is not quoted.
pub(crate) fn elements(html: &str) -> Vec<String> {
    let mut rest = html.strip_prefix("<!doctype html>\n").expect("the type of the document");
    let (mut open, mut all) = (Vec::new(), Vec::new());
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        let is_style = open.last().is_some_and(|name| name == "style");
        assert!(is_style || !text.contains('>'), "text with markup: {text}");
        let end = start + rest[start..].find('>').expect("a tag has an end");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed in order");
            continue;
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "quotes in pairs: {tag}");
        let name: String = tag.split(|it: char| it.is_whitespace() || it == '/').take(1).collect();
        if !tag.ends_with('/') {
            open.push(name.clone());
        }
        all.push(name);
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    all
}

/// Checks the page of a paper: that it is well-formed, needs no other file, and has each of these
/// figures, with its reading, and each claim once.
pub(crate) fn check(html: &str, figures: &[u32], claims: &[crate::ClaimVerdict]) {
    let names = elements(html);
    let count = |name: &str| names.iter().filter(|it| *it == name).count();
    assert_eq!((count("figure"), count("svg")), (figures.len(), figures.len()));
    assert_eq!(count("article"), claims.len());
    assert_eq!(html.matches("class=\"reading\"><b>Reading:</b> </p>").count(), 0, "a reading is empty");
    assert_eq!(html.matches("class=\"reading\"").count(), figures.len());
    for number in figures {
        assert_eq!(html.matches(&format!("id=\"figure-{number}\"")).count(), 1, "figure {number}");
    }
    for (number, claim) in (1..).zip(claims) {
        let heading = format!("<h3>{number}. {}</h3>", escaped(&claim.claim));
        assert_eq!(html.matches(&format!("id=\"claim-{number}\"")).count(), 1, "claim {number}");
        assert!(html.contains(&heading), "{heading}");
    }
    for link in html.split("href=\"").skip(1) {
        assert!(link.starts_with("#claim-"), "it needs no other file");
    }
    assert!(!html.contains("src=") && !html.contains("url(") && !html.contains("@import"));
}

fn picture(number: u32) -> Picture {
    Picture {
        number,
        title: format!("Shares & lengths {number}"),
        reading: "pool".to_owned(),
        note: String::new(),
        svg: "<?xml?><svg width=\"1\"><text>0 &lt; 1</text></svg>".to_owned(),
        csv: "series,x\na,1\n".to_owned(),
    }
}

fn made(readings: Vec<(&'static str, String)>) -> String {
    let claims = [
        claim("IV, figure 3", Verdict::Shown),
        claim("IV, figures 3, 4", Verdict::NotShown),
        claim("V", Verdict::ByConstruction),
    ];
    let pictured: Vec<Vec<u32>> = claims.iter().map(|claim| figures_named(&claim.source)).collect();
    let page = Page {
        title: "Packets <small>",
        paper: "A paper",
        about: "7 runs".to_owned(),
        readings,
        pictures: vec![picture(3), picture(4)],
        claims: &claims,
        pictured: &pictured,
    };
    let html = page.html();
    check(&html, &[3, 4], &claims);
    html
}

#[test]
fn page_has_each_claim_beside_its_figure_and_the_others_at_the_end() {
    let html = made(Vec::new());
    let at = |what: &str| html.find(what).unwrap_or_else(|| panic!("{what} is missing"));
    assert!(at("id=\"figure-3\"") < at("id=\"claim-1\"") && at("id=\"claim-2\"") < at("id=\"figure-4\""));
    assert!(at("id=\"figure-4\"") < at("href=\"#claim-2\""), "the second figure links to the claim");
    assert!(at("id=\"without-figure\"") < at("id=\"claim-3\""));
    assert!(html.contains("<article class=\"by-construction\" id=\"claim-3\">"));
}

#[test]
fn text_that_looks_like_markup_is_escaped() {
    let html = made(Vec::new());
    assert!(html.contains("<title>Packets &lt;small&gt;</title>"));
    assert!(html.contains("It is &quot;faster&quot; where W &gt; 1 &amp; more"));
}

#[test]
fn readings_are_listed_with_their_values_if_there_are_several() {
    assert!(!made(Vec::new()).contains("id=\"readings\""));
    let html = made(vec![("pool", "72 packets".to_owned())]);
    assert!(html.contains("<dt>pool</dt><dd>72 packets</dd>"));
}

#[test]
fn source_names_the_figures_of_a_claim() {
    assert_eq!(figures_named("IV-B.1, figure 7"), [7]);
    assert_eq!(figures_named("4.2.2, figures 9, 10"), [9, 10]);
    assert_eq!(figures_named("figure 6, GRIP card"), [6]);
    assert!(figures_named("IV-B.1").is_empty());
}

#[test]
#[should_panic(expected = "closed in order")]
fn page_with_an_element_that_is_not_closed_is_not_well_formed() {
    elements("<!doctype html>\n<p><b></p>");
}
