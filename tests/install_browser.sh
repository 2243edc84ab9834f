#!/bin/sh
# Two browsers and a font for the tests of pages, as far as the machine has none. Asks before it installs a package of the
# system, and says what to do where it may not. CI=true, or GRAPHFAITH_INSTALL=yes, is the answer yes.
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
missing="${missing# }"
if [ -z "$missing" ]; then exit 0; fi
refuse() {
    echo "The tests of pages need: $missing. $1" >&2
    echo "Install them, name browsers you have in GRAPHFAITH_CHROMIUM and GRAPHFAITH_FIREFOX, or run the other tests:" >&2
    echo "    make check && .venv/bin/pytest --ignore tests/view --ignore tests/docs" >&2
    exit 1
}
if ! command -v apt-get >/dev/null 2>&1; then refuse "There is no apt-get here to install them."; fi
as_root=""
if [ "$(id -u)" -ne 0 ]; then
    as_root="sudo"
    if ! command -v sudo >/dev/null 2>&1; then refuse "You are not root, and there is no sudo."; fi
fi
install="${as_root:+$as_root }apt-get install -y --no-install-recommends $missing"
if [ "${CI:-}" != "true" ] && [ "${GRAPHFAITH_INSTALL:-}" != "yes" ]; then
    if [ ! -t 0 ]; then refuse "There is no terminal to ask in; GRAPHFAITH_INSTALL=yes runs '$install'."; fi
    printf "The tests of pages need %s. Run '%s'? [y/N] " "$missing" "$install"
    read -r answer
    case "$answer" in
        y | Y | yes) ;;
        *) refuse "Nothing was installed." ;;
    esac
fi
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086  # These are several words, and several packages.
$install -qq >/dev/null
