"""The wheel and the source archive: what is in them, what they ask for, and that they install and run."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import graphfaith

ROOT = Path(__file__).parent.parent
VERSION = ROOT / "src" / "graphfaith" / "_base" / "version.py"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
# All that the root of the repository holds. What a command wrote there by accident is not among it.
IN_ROOT = {
    ".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md",
    "LICENSE", "Makefile", "README.md", "SECURITY.md", "benchmarks", "constraints-oldest.txt", "constraints.txt",
    "docs", "examples", "mkdocs.yml", "pyproject.toml", "src", "stress", "tests",
}  # fmt: skip


def kept():
    """The names of all files of the repository, or of the source archive that this is."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode == 0 and "pyproject.toml" in (names := done.stdout.splitlines()):
        return [name for name in names if (ROOT / name).is_file()]
    made = {"__pycache__", "site", "dist", "PKG-INFO"}
    paths = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [
        str(path)
        for path in paths
        if not made & set(path.parts) and (not path.parts[0].startswith(".") or len(path.parts) == 1)
    ]


def test_the_root_of_the_repository_holds_known_files_only():
    found = {name.partition("/")[0] for name in kept()}
    assert found - IN_ROOT == set(), "made by accident, or to be added to IN_ROOT"
    hidden = {name for name in IN_ROOT if name.startswith(".")}  # A source archive has not all of them.
    assert IN_ROOT - hidden - found == set(), "gone: to be taken from IN_ROOT"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the source archive, and the wheel that was made from that archive."""
    out = tmp_path_factory.mktemp("dist")
    tree = tmp_path_factory.mktemp("tree") / "graphfaith"
    # A copy of what is in the repository: a build leaves files behind.
    for name in kept():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree], check=True, capture_output=True
    )
    return out


def one(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def test_the_wheel_has_the_library_the_studies_and_what_they_read(built):
    with zipfile.ZipFile(one(built, "*.whl")) as wheel:
        names = set(wheel.namelist())
        meta = Parser().parsestr(wheel.read(next(name for name in names if name.endswith("METADATA"))).decode())
        points = wheel.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    assert {name.split("/")[0] for name in names} == {
        "graphfaith",
        "graphfaith_studies",
        f"graphfaith-{graphfaith.__version__}.dist-info",
    }
    there = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*") if path.is_file()}
    left_out = {name for name in there - names if "__pycache__" not in name}
    assert left_out == {"conftest.py"}  # of the doctests
    assert not any("__pycache__" in name for name in names)
    assert meta["Name"] == "graphfaith"
    assert meta["Version"] == graphfaith.__version__
    assert "arxiv.org/abs/2205.11850" in meta["Project-URL"]
    assert {"docs", "many", "query", "studies", "test"} <= set(meta.get_all("Provides-Extra"))
    assert meta.get_payload().startswith("# graphfaith")
    assert "graphfaith = graphfaith.cli.application:main" in points
    for name in ("reproduce", "bench", "swat"):
        assert f"{name} = graphfaith_studies." in points


def test_the_version_stands_in_one_place(built):
    written = re.search(r'__version__ = "(.+)"', VERSION.read_text()).group(1)
    assert written == graphfaith.__version__
    assert f'version = "{written}"' not in (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text()
    # Citation files cannot read it from elsewhere.
    assert f"\nversion: {written}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{written}}}" in (ROOT / "docs" / "cite.md").read_text()
    assert one(built, "*.tar.gz").name == f"graphfaith-{written}.tar.gz"


def test_the_changelog_begins_with_this_version_and_its_date():
    (first, *_) = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    found = re.fullmatch(rf"{re.escape(graphfaith.__version__)} \((\d+ \w+ \d{{4}})\)", first)
    assert found is not None, first
    day = datetime.datetime.strptime(found[1], "%d %B %Y").date()
    assert f"\ndate-released: {day.isoformat()}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_source_archive_has_what_its_makefile_its_tests_and_its_site_read(built):
    with tarfile.open(one(built, "*.tar.gz")) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert names - {"PKG-INFO"} == {name for name in kept() if not name.startswith((".ci/", ".github/"))}
    assert {"Makefile", "mkdocs.yml", "docs/demo.png", "tests/test_release.py"} <= names
    # A limit on accidents: data sets and models that were trained are downloaded or made.
    assert one(built, "*.tar.gz").stat().st_size < 12_000_000
    assert one(built, "*.whl").stat().st_size < 1_500_000


@pytest.mark.nightly
def test_the_site_is_built_from_the_source_archive(built, tmp_path):
    with tarfile.open(one(built, "*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "site" / "demo.png").is_file()
    tests = [sys.executable, "-m", "pytest", "tests/docs/test_matrix.py", "tests/docs/test_runs.py"]
    done = subprocess.run(tests, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_is_required_is_a_lower_bound_only(built):
    """Nothing is pinned from above: pip has no reason to change the numpy or the torch that somebody has."""
    with zipfile.ZipFile(one(built, "*.whl")) as wheel:
        text = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    needed = [line.partition(": ")[2] for line in text.splitlines() if line.startswith("Requires-Dist:")]
    assert any(line.startswith("torch>=") for line in needed)
    for line in needed:
        assert re.fullmatch(r"[\w.-]+(\[\w+\])?>=[\d.]+( ?; extra == '\w+')?", line), line


def test_installing_it_changes_nothing_else(built, tmp_path):
    """Pip would install graphfaith alone, without constraints, beside the numpy and the torch that are there."""
    report = tmp_path / "report.json"
    command = [*PIP, "install", "--dry-run", "--no-index", "--ignore-installed", "--no-deps", "--report", report]
    subprocess.run([*command, one(built, "*.whl")], check=True, capture_output=True)
    assert [item["metadata"]["name"] for item in json.loads(report.read_text())["install"]] == ["graphfaith"]
    # And with everything that it needs: all of it is here, so that nothing is looked for.
    subprocess.run([*PIP, "install", "--dry-run", "--no-index", "--report", report, f"{one(built, '*.whl')}[many]"],
                   check=True, capture_output=True)  # fmt: skip
    names = [item["metadata"]["name"] for item in json.loads(report.read_text())["install"]]
    assert names in ([], ["graphfaith"])


def environment(folder):
    """An empty environment, and the command that runs its Python away from this repository."""
    venv.create(folder, with_pip=False)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    python = folder / "bin" / "python"

    def run(*arguments):
        done = subprocess.run([python, *arguments], cwd=folder, env=clean, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return python, run


def test_the_wheel_runs_where_the_repository_is_not(built, tmp_path):
    python, run = environment(tmp_path / "env")
    subprocess.run([*PIP, "--python", python, "install", "--no-index", "--no-deps", one(built, "*.whl")], check=True)
    # What it needs is borrowed from here, the library itself is not.
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    import torch

    (packages / "borrowed.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    code = "import graphfaith, graphfaith_studies; print(graphfaith.__file__, graphfaith.explain.__module__)"
    file, module = run("-c", code).split()
    assert Path(file).is_relative_to(tmp_path)
    assert module == "graphfaith.facade.prediction"
    assert run("-m", "graphfaith", "--version").strip() == f"graphfaith {graphfaith.__version__}"
    assert (tmp_path / "env" / "bin" / "graphfaith").exists()
    arguments = ("--node", "503", "--method", "saliency", "--test-samples", "20", "--page", "page.html")
    assert "ba-shapes node 503" in run("-m", "graphfaith", "explain", *arguments)
    assert (tmp_path / "env" / "page.html").stat().st_size > 10_000  # The page's script and style came with the wheel.


def test_the_oldest_versions_stay_as_they_are(built, tmp_path):
    """Beside the oldest of everything pip installs graphfaith alone: no numpy and no torch is made newer by it."""
    python, _ = environment(tmp_path / "env")
    (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest = dict(line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().split())
    for name, _, version in (line.partition(">=") for line in asked):
        # What make test-oldest tries is what is asked for, but for torch, which has one version in all our tests.
        tried = oldest[name.replace("_", "-")]
        assert name == "torch" or tried in (version, f"{version}.0"), name
        record = packages / f"{name}-{version}.dist-info"
        record.mkdir()
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (record / "INSTALLER").write_text("pip\n")
        (record / "RECORD").write_text("")
    report = tmp_path / "report.json"
    command = [*PIP, "--python", python, "install", "--dry-run", "--no-index", "--report", report, one(built, "*.whl")]
    subprocess.run(command, check=True, capture_output=True)
    assert [item["metadata"]["name"] for item in json.loads(report.read_text())["install"]] == ["graphfaith"]


def test_our_own_tests_pin_torch():
    """Every environment that make sets up has the torch of constraints.txt; a newer one would bring gigabytes."""
    (torch_line,) = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), flags=re.M)
    assert torch_line in (ROOT / "constraints-oldest.txt").read_text().splitlines()
    for target in ("demo", "docs", "check", "test-oldest", "test-newest"):
        # In an empty folder for environments, so that make would set up each of them.
        words = ["make", "-n", "-B", f"VENV={target}-env", target]
        printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        installs = [line for line in printed.replace("\\\n", "").splitlines() if "pip install" in line]
        assert installs
        for line in installs:
            assert torch_line in line or re.search(r"-c constraints(-oldest)?\.txt", line), line


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "extra"), [("*.whl", ""), ("*.tar.gz", ""), ("*.whl", "[studies]")])
def test_pip_installs_wheel_and_source_with_the_oldest_dependencies(built, tmp_path, kind, extra):
    """The extra is the one of which there is an oldest version too; pyarrow, of the others, wants a newer numpy."""
    python, run = environment(tmp_path / "env")
    pip = [*PIP, "--python", python, "install", "-c", ROOT / "constraints-oldest.txt"]
    subprocess.run([*pip, f"{one(built, kind)}{extra}"], check=True)
    oldest = dict(line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().split())
    code = "from importlib.metadata import version; import sys; print(*map(version, sys.argv[1:]))"
    names = [name for name in oldest if name != "captum" or extra]
    # The part after + says how a version was built, as in 2.13.0+cpu; pip takes it for the same version.
    found = [version.partition("+")[0] for version in run("-c", code, *names).split()]
    assert found == [oldest[name] for name in names]
    assert "ba-shapes node 503" in run("-m", "graphfaith", "explain", "--node", "503", "--test-samples", "20")
    if extra:
        words = ("--nodes", "503", "--method", "captum-saliency", "--measure", "delta", "--test-samples", "20")
        assert "captum-saliency" in run("-m", "graphfaith", "judge", *words)


@pytest.mark.nightly
@pytest.mark.parametrize("extra", ["", "[many]", "[studies]"])
def test_pip_installs_it_into_an_environment_and_leaves_numpy_and_torch_alone(built, tmp_path, extra):
    """Everything real: pip chooses what is missing, without constraints, beside an older numpy and our torch."""
    python, run = environment(tmp_path / "env")
    pip = [*PIP, "--python", python, "install"]
    torch_here = subprocess.run([*PIP, "freeze"], capture_output=True, text=True, check=True).stdout
    torch_here = re.search(r"^torch==(\S+)$", torch_here, flags=re.M).group(1)
    older = "2.2.6"
    subprocess.run([*pip, f"numpy=={older}", f"torch=={torch_here}"], check=True)
    subprocess.run([*pip, f"{one(built, '*.whl')}{extra}"], check=True)
    assert run("-c", "import numpy, torch; print(numpy.__version__, torch.__version__)").split() == [older, torch_here]
    assert "ba-shapes node 503" in run("-m", "graphfaith", "explain", "--node", "503", "--test-samples", "20")
    if extra == "[many]":
        assert "700 rows" in run("-m", "graphfaith", "explain-many", "--out", "run", "--method", "saliency")
    if extra == "[studies]":
        assert "captum-saliency" in run("-m", "graphfaith", "judge", "--nodes", "503", "--method", "captum-saliency",
                                        "--measure", "delta", "--test-samples", "20")  # fmt: skip


def test_no_file_names_where_packages_come_from():
    """Which index pip asks is the business of whoever installs; a file that names one would overrule that."""
    hosts = ["".join(parts) for parts in (("py", "pi.org"), ("python", "hosted.org"), ("ana", "conda.org"))]
    hosts += ["".join(parts) for parts in (("--index", "-url"), ("--extra-index", "-url"), ("--find", "-links"))]
    folders = ("src", "tests", "docs", "benchmarks", "examples", "stress", ".github")
    files = [path for name in folders for path in (ROOT / name).rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file()]
    assert len(files) > 500
    for path in files:
        if "__pycache__" not in path.parts:
            text = path.read_bytes().decode(errors="ignore")
            assert not [host for host in hosts if host in text], path.relative_to(ROOT)


def test_make_test_asks_before_it_installs_a_package_of_the_system(tmp_path):
    script = ROOT / "tests" / "install_browser.sh"
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "id", "printf", "cat"):
        (tools / name).symlink_to(shutil.which(name))
    called = tmp_path / "called"
    for name in ("apt-get", "sudo"):
        (tools / name).write_text(f'#!/bin/sh\necho "$0 $*" >> {called}\n')
        (tools / name).chmod(0o755)

    def run(**variables):
        return subprocess.run(["/bin/sh", script], env={"PATH": str(tools), **variables}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)  # fmt: skip

    done = run()
    assert done.returncode == 1
    assert "There is no terminal to ask in; GRAPHFAITH_INSTALL=yes runs" in done.stderr
    assert "GRAPHFAITH_CHROMIUM" in done.stderr
    assert not called.exists()
    for answer in ({"CI": "true"}, {"GRAPHFAITH_INSTALL": "yes"}):
        assert run(**answer).returncode == 0
        assert "chromium" in called.read_text()
        called.unlink()
    (tools / "apt-get").unlink()
    done = run(CI="true")
    assert done.returncode == 1
    assert "There is no apt-get here" in done.stderr
    for name in ("chromium", "firefox"):
        (tools / name).symlink_to("/bin/true")
    assert run().returncode == 0
