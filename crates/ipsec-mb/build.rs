//! Finds Intel's ipsec-mb. If it is not installed, the crate is built without it, and reports that
//! at run time.
//!
//! `CONVOY_IPSEC_MB=off` never uses it; `CONVOY_IPSEC_MB=DIR` searches `DIR/include` and `DIR/lib`.

use std::env;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-env-changed=CONVOY_IPSEC_MB");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rustc-check-cfg=cfg(has_ipsec_mb)");
    match link() {
        Ok(()) => println!("cargo::rustc-cfg=has_ipsec_mb"),
        Err(why) => println!("cargo::rustc-env=CONVOY_IPSEC_MB_ABSENT={why}"),
    }
}

/// Compiles the shim and links the library. The error is the reason that `unbound.rs` reports.
fn link() -> Result<(), &'static str> {
    let wanted = env::var("CONVOY_IPSEC_MB").unwrap_or_default();
    if wanted == "off" {
        return Err("off");
    }
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return Err("processor");
    }
    let prefix = (!wanted.is_empty()).then(|| PathBuf::from(&wanted));
    if !is_there(prefix.as_deref()) {
        return Err("missing");
    }
    let mut shim = cc::Build::new();
    if let Some(prefix) = &prefix {
        shim.include(prefix.join("include"));
        println!("cargo::rustc-link-search=native={}", prefix.join("lib").display());
    }
    shim.files(["manager", "keys", "jobs"].map(|part| format!("shim/{part}.c")))
        .opt_level(2)
        .warnings(true)
        .try_compile("convoy_mb_shim")
        .map_err(|error| {
            println!("cargo::warning=without ipsec-mb: {error}");
            "missing"
        })?;
    println!("cargo::rustc-link-lib=dylib=IPSec_MB");
    Ok(())
}

/// Whether the library can be used. Only linking a program shows that: header or library may be
/// missing or too old.
fn is_there(prefix: Option<&Path>) -> bool {
    let Ok(compiler) = cc::Build::new().cargo_metadata(false).warnings(false).try_get_compiler() else {
        return false;
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("probe");
    let mut command = compiler.to_command();
    if let Some(prefix) = prefix {
        command.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib"));
    }
    command.args(["shim/probe.c", "-lIPSec_MB", "-o"]).arg(out);
    command.output().is_ok_and(|output| output.status.success())
}
