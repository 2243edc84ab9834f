#!/bin/sh
# Two browsers and a font for the tests of pages, as far as the machine has none. Says what to do where it cannot help.
set -eu
is_there() {
    for name in "$@"; do
        if command -v "$name" >/dev/null 2>&1; then return 0; fi
    done
    return 1
}
missing=""
if ! is_there "${GRAPHFAITH_CHROMIUM:-chromium}" chromium chromium-browser google-chrome google-chrome-stable; then
    missing="chromium fonts-dejavu-core"
fi
if ! is_there "${GRAPHFAITH_FIREFOX:-firefox-esr}" firefox-esr firefox; then missing="$missing firefox-esr"; fi
if [ -z "$missing" ]; then exit 0; fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "The tests of pages need Chromium and Firefox: install them, or name them in GRAPHFAITH_CHROMIUM and GRAPHFAITH_FIREFOX." >&2
    exit 1
fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then as_root="sudo"; fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086  # These are several packages.
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
