use super::*;
use crate::testing::ScriptedEngine;
use crate::{EngineControl as _, FaultPlan, Faulty, InjectedFault, Software};
use convoy_ipsec::{Aead, KeyBits};

const GCM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });

/// An engine that fails when it is measured, so that costs can only come from the cache.
fn broken() -> IdleEngine {
    let plan = FaultPlan { probes: None, ..FaultPlan::once(InjectedFault::Vanish, 0) };
    IdleEngine::new(Faulty::new(Box::new(Software::new("software0")), plan))
}

fn kept(folder: &Path) -> PathBuf {
    let path = folder.join("deep").join("calibration.toml");
    let (mut cache, warning) = CalibrationCache::open(Some(path.clone()), "; software 1");
    assert_eq!(warning, None);
    let AlgorithmCost { model, handover, t_key, train } =
        cache.cost(&mut IdleEngine::new(Software::new("software0")), GCM).expect("software can do AES-GCM");
    assert!(model.t_block > 0.0 && model.t_init >= 0.0);
    assert_eq!(handover, Handover::default(), "it works on the caller's core");
    assert!(t_key >= 0.0 && t_key.is_finite());
    assert!(train.is_some_and(|train| train.t_block > 0.0));
    cache.save().expect("the folder can be made");
    path
}

#[test]
fn what_other_threads_disturbed_is_used_and_measured_again_at_the_next_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calibration.toml");
    let description = Software::new("software0").description().clone();
    let cost = AlgorithmCost::from(CostModel { t_init: 1.0, t_block: 2.0 });
    let open = || CalibrationCache::open(Some(path.clone()), "; software 1").0;
    for (is_disturbed, is_kept) in [(true, false), (false, true)] {
        let mut cache = open();
        cache.learn(&description, GCM, cost, is_disturbed);
        assert_eq!(cache.cost(&mut broken(), GCM), Ok(cost), "it is used until then");
        cache.save().expect("the folder is there");
        assert_eq!(open().cost(&mut broken(), GCM).is_ok(), is_kept);
    }
}

#[test]
fn what_was_measured_is_not_measured_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = kept(folder.path());
    let (mut cache, warning) = CalibrationCache::open(Some(path.clone()), "; software 1");
    assert_eq!(warning, None);
    cache.cost(&mut broken(), GCM).expect("known");
    cache.forget();
    let error = cache.cost(&mut broken(), GCM).expect_err("cannot be measured");
    assert_eq!(error.to_string(), "engine software0: it has disappeared");
    let names: Vec<_> = std::fs::read_dir(path.parent().expect("a folder")).expect("readable").collect();
    assert_eq!(names.len(), 1, "nothing is left beside the file");
}

#[test]
fn another_machines_file_is_stale_and_a_broken_one_unreadable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = kept(folder.path());
    let (cache, warning) = CalibrationCache::open_as(Some(path.clone()), "another".to_owned());
    assert!(matches!(warning, Some(CacheWarning::Stale { .. })), "{warning:?}");
    assert!(cache.known.0.is_empty());
    let text = std::fs::read_to_string(&path).expect("readable");
    let of_format = |rest: &str| format!("format = {FORMAT}\n{rest}");
    for bad in [
        "not toml [",
        &of_format("fingerprint = 7"),
        &of_format("x = 1"),
        &text.replace("t_init_ns = ", "t_init_ns = -1"),
        &text.replace("handover_packet_ns = ", "handover_packet_ns = -1"),
        &text.replace("t_key_ns = ", "t_key_ns = -1"),
    ] {
        std::fs::write(&path, bad).expect("writable");
        let (cache, warning) = CalibrationCache::open(Some(path.clone()), "; software 1");
        assert!(matches!(warning, Some(CacheWarning::Unreadable { .. })), "{bad}: {warning:?}");
        assert!(cache.known.0.is_empty());
    }
}

#[test]
fn a_file_of_the_first_format_is_measured_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = kept(folder.path());
    let text = std::fs::read_to_string(&path).expect("readable");
    let is_old = |line: &&str| !line.starts_with("format") && !line.starts_with("handover");
    let old: Vec<&str> = text.lines().filter(is_old).collect();
    assert!(old.len() < text.lines().count());
    std::fs::write(&path, old.join("\n")).expect("writable");
    let (cache, warning) = CalibrationCache::open(Some(path), "; software 1");
    let warning = warning.expect("it lacks what is needed").to_string();
    let expected = format!("(format 1, not {FORMAT}), so engines are calibrated again");
    assert!(warning.ends_with(&expected), "{warning}");
    assert!(cache.known.0.is_empty());
}

#[test]
fn a_handover_is_measured_of_an_engine_elsewhere_and_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("calibration.toml");
    let there = || IdleEngine::new(Software::on_core("there", 0).expect("a thread"));
    let (mut cache, _) = CalibrationCache::open(Some(path.clone()), "; software 1");
    let measured = there().calibrate(GCM).expect("software can do AES-GCM");
    cache.learn(there().description(), GCM, measured, false);
    let Handover { t_init, t_packet, t_block } = measured.handover;
    assert!([t_init, t_packet, t_block].iter().all(|ns| *ns >= 0.0), "{measured:?}");
    assert!(measured.handover.cost(64, 5_632) > 0, "{measured:?}");
    cache.save().expect("writable");
    let (cache, warning) = CalibrationCache::open(Some(path), "; software 1");
    assert_eq!(warning, None);
    assert_eq!(cache.known().of(there().description(), GCM), Some(measured));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let blocked = folder.path().join("file");
    std::fs::write(&blocked, "").expect("writable");
    let (mut cache, _) = CalibrationCache::open(None, "; software 1");
    cache.path = Some(blocked.join("calibration.toml"));
    cache.forget();
    let error = cache.save().expect_err("a file is no folder").to_string();
    assert!(error.contains("calibration.toml: cannot be written"), "{error}");
}

#[test]
fn an_engine_on_another_core_is_measured_for_itself() {
    let (mut cache, _) = CalibrationCache::open(None, "; software 1");
    cache.cost(&mut IdleEngine::new(Software::new("software0")), GCM).expect("software can do AES-GCM");
    let elsewhere = ScriptedEngine::elsewhere("there", 0, |_| true);
    cache.cost(&mut IdleEngine::new(elsewhere), GCM).expect("so can this");
    assert_eq!(cache.known.0.len(), 2);
}

#[test]
fn a_model_is_measured_each_time() {
    let mut engine = IdleEngine::new(Software::new("software0"));
    assert!(!engine.description().is_model);
    let (mut cache, _) = CalibrationCache::open(None, "; software 1");
    cache.cost(&mut engine, GCM).expect("software can do AES-GCM");
    assert_eq!(cache.known.0.len(), 1);
    let model = ScriptedEngine::elsewhere("model", 0, |_| true).describe(|it| it.is_model = true);
    cache.cost(&mut IdleEngine::new(model), GCM).expect("software can do AES-GCM");
    assert_eq!(cache.known.0.len(), 1);
}
