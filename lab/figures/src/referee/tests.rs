use super::rows::{ROWS, RowKind};
use super::runs::{Key, Load, Runs, keys, run};
use super::scenarios::{self, DISTURBED};

#[test]
fn no_policy_exceeds_the_bound_in_any_scenario() {
    let mut scenarios = scenarios::cases().expect("the platforms come with the program").remove(0).platforms;
    scenarios.seeds = 2;
    let of = |key: &Key| (*key, run(&scenarios, key, 300).expect("it runs"));
    let saturated: Vec<Key> = keys().into_iter().filter(|key| key.load == Load::Saturated).collect();
    let runs = Runs(saturated.iter().map(of).collect());
    let (mut compared, mut closest) = (0, 0.0f64);
    for key in saturated.iter().filter(|key| ROWS.iter().any(|row| row.name == key.policy)) {
        let percent = runs.of_bound(key.scenario, key.policy);
        if percent.count() > 0 {
            assert!(percent.range().1 <= 100.0, "{key:?}: {percent:?}");
            closest = closest.max(percent.range().1);
            compared += 1;
        }
    }
    let in_disturbances = ROWS.iter().filter(|row| row.kind != RowKind::Other).count();
    // Five of the disturbances are stalls, which have a bound.
    assert_eq!(compared, ROWS.len() * DISTURBED + 5 * in_disturbances);
    assert!(closest > 95.0, "{closest}");
}

#[test]
fn the_page_of_policies_cites_the_costs_of_the_scenarios() {
    let page = include_str!("../../../../docs/lab/results/policies.md");
    let costs = include_str!("../../../../docs/lab/results/engine-costs.csv");
    for row in costs.lines().skip(1) {
        let cells = row.replace(',', " | ");
        assert!(page.contains(&format!("| {cells} |")), "{row}");
    }
}
