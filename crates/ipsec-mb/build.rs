//! Finds Intel's library. Where it is not installed, the crate is built without it and says so at run time.
//!
//! `CONVOY_IPSEC_MB=off` builds without it in any case; `CONVOY_IPSEC_MB=DIR` looks in `DIR/include` and `DIR/lib`.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=CONVOY_IPSEC_MB");
    println!("cargo::rerun-if-changed=shim/shim.c");
    println!("cargo::rustc-check-cfg=cfg(has_ipsec_mb)");
    let wanted = env::var("CONVOY_IPSEC_MB").unwrap_or_default();
    let is_x86 = env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64");
    if wanted == "off" || !is_x86 {
        return;
    }
    let prefix = (!wanted.is_empty()).then(|| PathBuf::from(&wanted));
    let include =
        prefix.as_ref().map_or_else(|| PathBuf::from("/usr/include"), |prefix| prefix.join("include"));
    let header = include.join("intel-ipsec-mb.h");
    println!("cargo::rerun-if-changed={}", header.display());
    if !Path::exists(&header) {
        return;
    }
    cc::Build::new()
        .file("shim/shim.c")
        .include(&include)
        .opt_level(2)
        .warnings(true)
        .compile("convoy_mb_shim");
    if let Some(prefix) = prefix {
        println!("cargo::rustc-link-search=native={}", prefix.join("lib").display());
    }
    println!("cargo::rustc-link-lib=dylib=IPSec_MB");
    println!("cargo::rustc-cfg=has_ipsec_mb");
}
