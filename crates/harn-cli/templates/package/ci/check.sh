#!/bin/sh
# What must hold before a change is taken.
set -eu
cd "$(dirname "$0")/.."
harn check lib tests
harn lint lib tests
harn fmt --check lib tests
harn test
