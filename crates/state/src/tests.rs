use std::sync::Mutex;

use data_encoding::HEXLOWER_PERMISSIVE;

use super::*;

/// A clock that was never set, as at each start of a machine without a battery.
const BOOT_NS: u64 = 1_000_000_000;

fn config(more: &str, tunnels: &[(&str, u32, &str)]) -> Config {
    let tunnel = |(name, spi, key): &(&str, u32, &str)| {
        format!(
            "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\nlocal_ts = [\"10.1.0.0/24\"]\n\
             remote_ts = [\"10.2.0.0/24\"]\nesp_proposal = \"aes128gcm16\"\n[tunnel.manual]\nspi_in = {}\nspi_out = {spi}\n\
             key_in = \"00112233445566778899aabbccddeeff00112233\"\nkey_out = \"{key}\"\n",
            spi + 1
        )
    };
    let tunnels: String = tunnels.iter().map(tunnel).collect();
    Config::parse("test.toml", &format!("[gateway]\n{more}\n{tunnels}")).expect("good")
}

const KEY: &str = "ffeeddccbbaa99887766554433221100ffeeddcc";

fn one(path: &Path) -> Config {
    config(&format!("state = \"{}\"", path.display()), &[("site-b", 0x1000, KEY)])
}

fn quiet() -> Notify {
    Arc::new(|_| ())
}

fn open(config: &Config) -> Result<Option<State>, StateError> {
    State::open(config, &quiet())
}

#[test]
fn a_damaged_file_and_one_that_cannot_be_made_where_it_was_named_stop_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    drop(open(&one(&path)).expect("made"));
    std::fs::write(&path, vec![0; 1024 * 1024]).expect("written");
    let error = open(&one(&path)).err().expect("refused").to_string();
    assert!(error.contains("is damaged") && error.contains("new keys at both ends"), "{error}");
    let error = open(&one(Path::new("/dev/null/state"))).err().expect("refused").to_string();
    assert!(
        error.contains("/dev/null/state cannot be") && error.contains("or to \"\" for no state file"),
        "{error}"
    );
}

#[test]
fn without_a_file_the_start_says_what_a_restart_then_means() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let notifier = Arc::clone(&reported);
    let notify: Notify = Arc::new(move |words| notifier.lock().expect("no panic").push(words));
    let mut config = config("state = \"\"", &[("site-b", 0x1000, KEY)]);
    assert!(State::open(&config, &notify).expect("allowed").is_none());
    config.state = Some(convoy_config::StatePath { path: "/dev/null/state".into(), is_default: true });
    assert!(
        State::open(&config, &notify).expect("allowed where the configuration does not name it").is_none()
    );
    let reported = reported.lock().expect("no panic");
    assert_eq!(reported.len(), 2);
    assert!(reported.iter().all(|words| words.contains("there is no state file")), "{reported:?}");
}

#[test]
fn the_first_static_keys_wait_for_a_restart_where_there_is_to_be_a_file() {
    let reported = Arc::new(Mutex::new(0));
    let count = Arc::clone(&reported);
    let notify: Notify = Arc::new(move |_| *count.lock().expect("no panic") += 1);
    let mut config = one(Path::new("/var/lib/convoy/state"));
    let error = State::do_without(&config, false, &notify).expect_err("it is not open").to_string();
    assert!(error.contains("need a restart") && error.contains("/var/lib/convoy/state"), "{error}");
    State::do_without(&config, true, &notify).expect("the start has reported what it means to have none");
    assert_eq!(*reported.lock().expect("no panic"), 0);
    config.state = None;
    State::do_without(&config, false, &notify).expect("there is to be none");
    assert_eq!(*reported.lock().expect("no panic"), 1);
    config.tunnels[0].manual.clear();
    State::do_without(&config, false, &notify).expect("no static keys");
}

#[test]
fn without_static_keys_there_is_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let mut config = one(&path);
    config.tunnels[0].manual.clear();
    assert!(open(&config).expect("nothing to do").is_none());
    assert!(!path.exists());
}

#[test]
fn a_clock_that_was_never_set_is_refused_where_only_it_keeps_nonces_apart() {
    let config = config("state = \"\"", &[("site-b", 0x1000, KEY)]);
    let error = needs_clock(&config.tunnels, BOOT_NS).expect_err("1970").to_string();
    assert!(error.contains("\"site-b\"") && error.contains("never set"), "{error}");
    needs_clock(&config.tunnels, EARLIEST_NS).expect("set");
}

#[test]
fn two_tunnels_that_send_with_one_key_do_not_begin() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = one(&folder.path().join("state"));
    let mut other = config.tunnels[0].clone();
    other.name = "site-c".to_owned();
    other.manual[0].spi_out = 0x2000;
    config.tunnels.push(other);
    let state = open(&config).expect("usable").expect("static keys");
    let error = state.start(&config.tunnels, &config.tunnels).expect_err("refused").to_string();
    assert!(error.contains("\"site-b\" and \"site-c\" have the same key_out"), "{error}");
}

#[test]
fn nothing_of_a_key_is_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("state");
    let config = one(&path);
    let state = open(&config).expect("usable").expect("static keys");
    state.start(&config.tunnels, &config.tunnels).expect("begun");
    let bytes = std::fs::read(&path).expect("read");
    let key = HEXLOWER_PERMISSIVE.decode(KEY.as_bytes()).expect("hexadecimal");
    assert!(!bytes.windows(4).any(|window| key.windows(4).any(|part| part == window)));
}
