#!/bin/sh
# A browser and a font for the tests of pages, if the machine has none. Says what to do where it cannot help.
set -eu
for name in "${GRAPHFAITH_CHROMIUM:-chromium}" chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests of pages need Chromium: install it, or name it in GRAPHFAITH_CHROMIUM." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then as_root="sudo"; fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
