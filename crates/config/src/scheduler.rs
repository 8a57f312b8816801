//! `[scheduler]`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use convoy_ipsec::{ClassMap, DSCP_VALUES};
use convoy_scheduler::{CLASSES, ClassDiscipline, Policy, SchedulerConfig, WINDOW_MAX, WindowOrder};
use convoy_settings::{Checker, Text};
use toml::Spanned;

use super::file;

/// How late an engine may be before it is no longer waited for, in us, by default. Above what a
/// time slice on a busy core adds to a prediction, far below what an operator would notice.
const LATE_MARGIN_US: u64 = 200;
/// The most multi-packets that may pass one of the window.
const AGEING_MAX: usize = 1_000_000;
/// The longest that packets may be held back, in us.
const MAX_WAIT_US: u64 = 1_000_000;

pub(super) fn scheduler(c: &mut Checker<'_>, file: &file::Scheduler) -> (SchedulerConfig, ClassMap) {
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
    let config = SchedulerConfig {
        policy: policy(c, file),
        heuristic: None,
        full_queue: named(c, file.full_queue.as_ref(), "scheduler.full_queue"),
        depth_unit: named(c, file.depth_unit.as_ref(), "scheduler.depth_unit"),
        late_margin: Some(late_margin_us * 1000),
        order: order(c, file),
        ageing: file
            .ageing
            .as_ref()
            .map(|given| c.in_range(Some(given), "scheduler.ageing", 0, 0..=AGEING_MAX)),
        credits: file
            .credits
            .as_ref()
            .map(|given| c.in_range(Some(given), "scheduler.credits", 1, 1..=WINDOW_MAX)),
        window,
        max_wait: max_wait_us * 1000,
        byte_limit: c.in_range(file.byte_limit.as_ref(), "scheduler.byte_limit", 65_536, 1..=u32::MAX),
        window_bytes: c.in_range(
            file.window_bytes.as_ref(),
            "scheduler.window_bytes",
            u64::MAX,
            1..=u64::MAX,
        ),
        classes,
        discipline,
        adaptive: is_adaptive.then_some((least, most)),
        correct: true,
        measure: true,
    };
    (config, class_map(c, file.dscp.as_ref().map(Spanned::get_ref), classes))
}

fn named<T: FromStr<Err: Display> + Default>(c: &mut Checker<'_>, text: Option<&Text>, key: &str) -> T {
    text.and_then(|text| c.read(text, key)).unwrap_or_default()
}

/// The order of the window, also from the key `overtake`, which `window_order` has replaced.
fn order(c: &mut Checker<'_>, file: &file::Scheduler) -> WindowOrder {
    let former = file.overtake.as_ref().map(|overtake| {
        let order = if *overtake.get_ref() { WindowOrder::Overtake } else { WindowOrder::Arrival };
        let what = format!("this key is deprecated; write window_order = \"{order}\" instead");
        c.warn(&overtake.span(), "scheduler.overtake", what);
        order
    });
    let given = file.window_order.as_ref();
    let given = given.and_then(|order| c.read(order, "scheduler.window_order"));
    given.or(former).unwrap_or_default()
}

fn policy(c: &mut Checker<'_>, file: &file::Scheduler) -> Policy {
    let key = "scheduler.policy";
    let mut policy = named(c, file.policy.as_ref(), key);
    let threshold = file.packet_size_threshold.as_ref();
    if let (Policy::PacketSize(bytes), Some(given)) = (&mut policy, threshold) {
        *bytes = *given.get_ref();
    }
    let fits = matches!(policy, Policy::PacketSize(_));
    c.only(threshold, fits, "scheduler.packet_size_threshold", "it is only for policy = \"packet-size\"");
    policy
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
