#!/bin/sh
# Installs harn: fetches the binary of this release for this machine, compares its checksum, and puts it into
# ~/.local/bin, or into the folder that HARN_INSTALL_DIR names.
#
#   HARN_VERSION      another version, as in v0.1.0
#   HARN_DOWNLOADS    another place that has the files of a release
set -eu

version=${HARN_VERSION:-@VERSION@}
downloads=${HARN_DOWNLOADS:-@REPOSITORY@/releases/download/$version}
folder=${HARN_INSTALL_DIR:-$HOME/.local/bin}

fail() {
  echo "install: $1" >&2
  exit 1
}

case "$(uname -s)" in
  Linux) system=unknown-linux-musl ;;
  Darwin) system=apple-darwin ;;
  MINGW* | MSYS* | CYGWIN*) fail "on Windows, take harn-x86_64-pc-windows-gnu.zip from $downloads" ;;
  *) fail "there is no binary for $(uname -s); build it: cargo install --locked --path crates/harn-cli" ;;
esac
case "$(uname -m)" in
  x86_64 | amd64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "there is no binary for $(uname -m); build it: cargo install --locked --path crates/harn-cli" ;;
esac
name=harn-$machine-$system

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fetch() {
  if command -v curl >/dev/null 2>&1; then
    curl --fail --silent --show-error --location --output "$1" "$downloads/$1"
  elif command -v wget >/dev/null 2>&1; then
    wget --quiet --output-document "$1" "$downloads/$1"
  else
    fail "needs curl or wget"
  fi || fail "cannot fetch $downloads/$1"
}

fetch "$name.tar.gz"
fetch SHA256SUMS
if command -v sha256sum >/dev/null 2>&1; then
  sum=$(sha256sum "$name.tar.gz" | cut -d ' ' -f 1)
else
  sum=$(shasum -a 256 "$name.tar.gz" | cut -d ' ' -f 1)
fi
grep -qx "$sum  $name.tar.gz" SHA256SUMS || fail "the checksum of $name.tar.gz is wrong; nothing was installed"

tar -xzf "$name.tar.gz"
mkdir -p "$folder"
# In one step: a harn that runs meanwhile is not disturbed.
cp "$name/harn" "$folder/.harn.new"
chmod 755 "$folder/.harn.new"
mv "$folder/.harn.new" "$folder/harn"

echo "installed $("$folder/harn" --version) as $folder/harn"
case ":$PATH:" in
  *":$folder:"*) ;;
  *) echo "add it to your PATH: export PATH=\"$folder:\$PATH\"" ;;
esac
