# shellcheck shell=bash disable=SC2154
# The packages and a clean Debian to install them in. Sourced after lib.sh, with $work, $convoy and
# $plugin set, in the repository's folder.
packages() { # folder release [image]
  RELEASE=$2 scripts/packages.sh "$(dirname "$convoy")" "$plugin" "$work/$1" ${3:-} >"$work/packages.log" 2>&1 || fail "no packages: $(tail "$work/packages.log")"
}
# debian VARIANT ROOT: this machine's release, of a variant of mmdebstrap.
debian() {
  local archive suite
  archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '/\/debian\/?$/ && !found++')
  suite=$(. /etc/os-release; echo "$VERSION_CODENAME")
  mmdebstrap --quiet --mode=root --variant="$1" "$suite" "$2" "$archive" >"$work/debian.log" 2>&1 || fail "no clean Debian: $(tail "$work/debian.log")"
}
