#!/bin/sh
# Runs all checks. Run it before each commit.
set -eu
cd "$(dirname "$0")/.."
harn check lib tests
harn lint lib tests
harn fmt --check lib tests
harn test
