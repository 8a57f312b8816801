//! Commands that need the cluster's agent, where it is not installed.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A configuration with a cluster, and the key file that it names.
fn configuration(folder: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let key = folder.join("cluster.key");
    fs::write(&key, format!("{}\n", "0f".repeat(32))).expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("allowed");
    let text = format!(
        "[cluster]\nname = \"west\"\nendpoints = [\"http://127.0.0.1:1\"]\nsecret = \"{}\"\ntunnels = \"store\"\n",
        key.display()
    );
    let file = folder.join("site.toml");
    fs::write(&file, text).expect("written");
    file
}

#[test]
fn cluster_command_without_the_agent_names_both_folders() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let convoy = folder.path().join("convoy");
    fs::hard_link(env!("CARGO_BIN_EXE_convoy"), &convoy).expect("the same file system");
    let config = configuration(folder.path());
    let ran = Command::new(&convoy).args(["cluster", "history", "--config"]).arg(config).output();
    let ran = ran.expect("it runs");
    let stderr = String::from_utf8(ran.stderr).expect("text");
    let beside = folder.path().canonicalize().expect("it is there");
    let expected = format!(
        "the cluster's agent convoy-cluster-agent was found neither in {} nor in /usr/libexec/convoy",
        beside.display()
    );
    assert!(stderr.contains(&expected), "{stderr}");
    assert_eq!(ran.status.code(), Some(1), "{stderr}");
}
