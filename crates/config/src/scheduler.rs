//! `[scheduler]`.

use std::collections::BTreeMap;

use convoy_ipsec::{ClassMap, DSCP_VALUES};
use convoy_scheduler::{
    CLASSES, ClassDiscipline, HeuristicFactory, Research, SchedulerConfig, SchedulingPolicy, WINDOW_MAX,
};
use convoy_settings::{Checker, Text};
use toml::Spanned;

use super::file;

/// How late an engine may be before it is no longer waited for, in us, by default. Above what a
/// time slice on a busy core adds to a prediction, far below what an operator would notice.
const LATE_MARGIN_US: u64 = 200;
/// The baselines: only a program that has rivals has them.
const BASELINES: [&str; 5] = ["cpu-only", "round-robin", "packet-size", "first-capable", "least-loaded"];
/// The longest that packets may be held back, in us.
const MAX_WAIT_US: u64 = 1_000_000;

pub(super) fn scheduler(
    c: &mut Checker<'_>,
    file: &file::Scheduler,
    rivals: &'static [HeuristicFactory],
) -> (SchedulerConfig, ClassMap) {
    warn_of_former_keys(c, file);
    let range = 1..=WINDOW_MAX;
    let window = c.in_range(file.window.as_ref(), "scheduler.window", 32, range.clone());
    let least = c.in_range(file.window_min.as_ref(), "scheduler.window_min", 1, range.clone());
    let most = c.in_range(file.window_max.as_ref(), "scheduler.window_max", WINDOW_MAX, range);
    let is_adaptive = file.window_min.is_some() || file.window_max.is_some();
    if let Some(bound) = file.window_min.as_ref().or(file.window_max.as_ref())
        && !(least..=most).contains(&window)
    {
        let what = format!("window = {window} must lie between window_min = {least} and window_max = {most}");
        c.add(&bound.span(), "scheduler.window_min", what);
    }
    let max_wait_us = c.in_range(file.max_wait_us.as_ref(), "scheduler.max_wait_us", 0, 0..=MAX_WAIT_US);
    let late = file.late_margin_us.as_ref();
    let late_margin_us = c.in_range(late, "scheduler.late_margin_us", LATE_MARGIN_US, 0..=MAX_WAIT_US);
    let (classes, discipline) = classes(c, file);
    let (policy, heuristic) = policy(c, file, rivals);
    let config = SchedulerConfig {
        policy,
        late_margin: Some(late_margin_us * 1000),
        window,
        max_wait: max_wait_us * 1000,
        byte_limit: c.in_range(file.byte_limit.as_ref(), "scheduler.byte_limit", 65_536, 1..=u32::MAX),
        classes,
        discipline,
        adaptive: is_adaptive.then_some((least, most)),
        research: Research { heuristic, ..Research::default() },
        ..SchedulerConfig::default()
    };
    (config, class_map(c, file.dscp.as_ref().map(Spanned::get_ref), classes))
}

/// Warns of the keys that were for comparisons of policies.
fn warn_of_former_keys(c: &mut Checker<'_>, file: &file::Scheduler) {
    for (key, value) in [
        ("packet_size_threshold", &file.packet_size_threshold),
        ("full_queue", &file.full_queue),
        ("depth_unit", &file.depth_unit),
        ("overtake", &file.overtake),
    ] {
        if let Some(value) = value {
            let what = "this key no longer has an effect; remove it. It was for comparisons of policies, which \
                        `convoy-lab sim run` makes";
            c.warn(&value.span(), &format!("scheduler.{key}"), what);
        }
    }
}

/// The policy by name, and the rival that takes its place if that is meant.
fn policy(
    c: &mut Checker<'_>,
    file: &file::Scheduler,
    rivals: &'static [HeuristicFactory],
) -> (SchedulingPolicy, Option<HeuristicFactory>) {
    let Some(text) = &file.policy else { return (SchedulingPolicy::default(), None) };
    let name = text.get_ref().as_str();
    if let Some(rival) = rivals.iter().find(|rival| rival.name == name) {
        return (SchedulingPolicy::default(), Some(*rival));
    }
    let error = match name.parse() {
        Ok(policy) => return (policy, None),
        Err(error) => format!("{error}"),
    };
    let what = if BASELINES.contains(&name) {
        let own = SchedulingPolicy::names();
        format!(
            "{name:?} is for comparisons, which only the laboratory makes: install the package convoy-lab, and \
             run this file by `convoy-lab run`; policies of the gateway: {own}"
        )
    } else {
        rivals.iter().fold(error, |error, rival| error + ", " + rival.name)
    };
    c.add(&text.span(), "scheduler.policy", what);
    (SchedulingPolicy::default(), None)
}

fn classes(c: &mut Checker<'_>, file: &file::Scheduler) -> (usize, ClassDiscipline) {
    let given = file.weights.as_ref().map_or(1, |weights| weights.get_ref().len()).clamp(1, CLASSES);
    let classes = c.in_range(file.classes.as_ref(), "scheduler.classes", given, 1..=CLASSES);
    let classes = classes.clamp(1, CLASSES);
    let mut discipline = ClassDiscipline::Strict;
    if let Some(list) = &file.weights {
        if list.get_ref().len() == classes {
            let mut weights = [0; CLASSES];
            weights[..classes].copy_from_slice(list.get_ref());
            discipline = ClassDiscipline::Weighted(weights);
        } else {
            let what = "give one weight for each class, 1 to 8 of them, that of the highest class first";
            c.add(&list.span(), "scheduler.weights", what);
        }
    }
    (classes, discipline)
}

/// DSCPs that are not named belong to the lowest class.
fn class_map(c: &mut Checker<'_>, dscps: Option<&BTreeMap<Text, Spanned<u8>>>, classes: usize) -> ClassMap {
    let lowest = classes as u8 - 1;
    let mut map = ClassMap::uniform(lowest);
    for (dscp, class) in dscps.into_iter().flatten() {
        let key = format!("scheduler.dscp.{}", dscp.get_ref());
        let number = dscp.get_ref().parse().ok().filter(|number| usize::from(*number) < DSCP_VALUES);
        let class_number = c.in_range(Some(class), &key, lowest, 0..=lowest);
        match number {
            Some(number) => map.set(number, class_number),
            None => c.add(&dscp.span(), &key, "a DSCP is a number from 0 to 63"),
        }
    }
    map
}
