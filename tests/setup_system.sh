#!/usr/bin/env bash
# Installs what the browser and container tests need, as root on Debian; else says what is missing.
# A test whose need is missing skips by name with the reason, and fails when CI=true.
set -euo pipefail

packages=(chromium libatomic1 fonts-noto-cjk podman catatonit runc netavark slirp4netns busybox-static iptables iproute2)

missing=()
for package in "${packages[@]}"; do
  command -v dpkg-query >/dev/null && dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' \
    || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Not installed here (needs root on Debian): ${missing[*]}. Tests that need them are skipped with the reason." >&2
  exit 0
fi
echo "Installing for the tests: ${missing[*]} ..."
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { apt-get install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1; }
# The lists of a fresh machine are empty, and those of an old one name files that are gone.
install || { apt-get update -q >"$log" 2>&1 && install; } || {
  tail -n 5 "$log" >&2
  echo "These could not be installed: ${missing[*]}. Tests that need them are skipped with the reason." >&2
}
