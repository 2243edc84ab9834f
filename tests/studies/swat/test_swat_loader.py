"""Test the files of recordings: peculiarities are accepted, and errors name the file, the row and the column."""

from __future__ import annotations

import datetime
import sys
import zipfile

import numpy as np
import pytest

from graphfaith._base import expansion
from graphfaith._base.errors import DataError, InputError, OutputError, UnsupportedError
from graphfaith_studies.swat import TAGS, Planned, Recording, Schedule, column, load, simulate, write_csv
from graphfaith_studies.swat.attacks import ATTACKS, Attack, Force

STEPS = 400


@pytest.fixture(scope="module")
def run():
    attack = Attack(1, (Force("MV101", 2),), 220)
    return simulate(STEPS / 86_400, seed=5, attacks=Schedule((Planned(attack, 120),)), start="2024-02-28T23:58:20")


@pytest.fixture
def file(run, tmp_path):
    return write_csv(run, tmp_path / "plant.csv")


def lines_of(path):
    return path.read_text().split("\n")[:-1]


def rewrite(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def edit(path, row, tag, text):
    """Write a text into a cell of a file; ``row`` is counted from 1."""
    lines = lines_of(path)
    cells = lines[row - 1].split(",")
    cells[{"Timestamp": 0, "Normal/Attack": 52}.get(tag, 0) or (column(tag) + 1 if tag in TAGS else 0)] = text
    lines[row - 1] = ",".join(cells)
    return rewrite(path, lines)


def same(recording, run, digits=6e-7):
    assert np.array_equal(recording.times, run.times)
    assert np.array_equal(recording.labels, run.labels)
    assert np.allclose(recording.readings, run.readings, rtol=digits, atol=0)
    return True


# Writing and reading ----------------------------------------------------------------------------------------------


def test_what_was_written_is_read_again(run, file):
    recording = load(file, show=False)
    assert same(recording, run)
    assert recording.gaps == ()
    assert len(recording) == STEPS
    assert recording.seconds.tolist() == list(range(STEPS))


def test_the_file_has_the_quirks_of_the_genuine_ones(run, file):
    lines = lines_of(file)
    assert [cell for cell in lines[0].split(",") if cell] == ["P1", "P2", "P3", "P4", "P5", "P6"]
    header = lines[1].split(",")
    assert header[0] == " Timestamp"
    assert " MV101" in header
    assert header[-1] == "Normal/Attack"
    assert [name.strip() for name in header[1:-1]] == list(TAGS)
    assert lines[2].startswith(" 28/02/2024 11:58:20 PM,")
    assert lines[2 + 100].startswith(" 29/02/2024 12:00:00 AM,")
    labels = [line.rsplit(",", 1)[1] for line in lines[2:]]
    assert (labels.count("Attack"), labels.count("A ttack")) == (216, 4)
    assert labels.count("Normal") == STEPS - 220


def test_the_same_run_gives_the_same_bytes(run, file, tmp_path):
    assert write_csv(run, tmp_path / "again.csv").read_bytes() == file.read_bytes()


def without_banner(lines):
    return lines[1:]


def semicolons(lines):
    return [line.replace(",", ";").replace(".", ",") for line in lines]


def tabs(lines):
    return [line.replace(",", "\t") for line in lines]


def short_times(lines):
    return [line.replace(" 28/02/2024 11:", "28/2/2024 11:").replace(" AM,", "am,") for line in lines]


def full_clock(lines):
    moved = [line.replace(" 28/02/2024 11:", "2024-02-28 23:").replace(" PM,", ",") for line in lines]
    return [line.replace(" 29/02/2024 12:", "2024-02-29 00:").replace(" AM,", ",") for line in moved]


def more_spaces(lines):
    return [
        line.replace("LIT101", "LIT 101 ").replace(",Normal", ", Nor mal ").replace(",Attack", ", attack")
        for line in lines
    ]


def quoted(lines):
    return [",".join(f'"{cell}"' for cell in line.split(",")) for line in lines]


def turned(lines):
    return [",".join(reversed(line.split(","))) for line in lines]


def blank_end(lines):
    return [*lines, "", "," * 52, ""]


def another_column(lines):
    return [f"{line},note" if place == 1 else f"{line},x" for place, line in enumerate(lines)]


def windows(lines):
    return [f"{line}\r" for line in lines]


def marked(lines):
    return ["\ufeff" + lines[1], *lines[2:]]


@pytest.mark.parametrize(
    "quirk",
    [
        *(without_banner, semicolons, tabs, short_times, full_clock, more_spaces, quoted, turned, blank_end),
        *(another_column, windows, marked),
    ],
)
def test_quirks_are_accepted(run, file, quirk):
    assert same(load(rewrite(file, quirk(lines_of(file)))), run)


def test_missing_seconds_are_accepted_and_listed(run, file):
    lines = lines_of(file)
    del lines[2 + 50], lines[2 + 200 : 2 + 280]
    recording = load(rewrite(file, lines))
    assert [tuple(gap) for gap in recording.gaps] == [(50, 1), (200, 80)]
    assert len(recording) == STEPS - 81
    rows = recording.seconds  # aligned by time stamp
    assert np.allclose(recording.readings, run.readings[rows], rtol=1e-6, atol=0)
    assert np.array_equal(recording.labels, run.labels[rows])


def test_a_long_gap_is_refused_unless_it_is_allowed(file):
    lines = lines_of(file)
    del lines[2 + 100 : 2 + 250]
    rewrite(file, lines)
    with pytest.raises(DataError, match=r"plant.csv': row 103, column Timestamp: 150 seconds .* max_gap=150"):
        load(file)
    assert load(file, max_gap=150).gaps == ((100, 150),)
    with pytest.raises(DataError, match="up to 149 are accepted"):
        load(file, max_gap=149)


def test_a_bar_is_shown_when_asked_for(file, capsys):
    load(file, show=True)
    assert "Reading" in capsys.readouterr().err
    load(file, show=False)
    assert capsys.readouterr().err == ""


# Errors in a file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "text", "what"),
    [
        ("LIT101", "full", "'full' is not a number"),
        ("FIT301", "", "an empty cell is not a number"),
        ("PIT503", "nan", "'nan' is not a number"),
        ("AIT202", "inf", "'inf' is not a number"),
        ("MV101", "7", "7 is not a state"),
        ("P603", "1.5", "1.5 is not a state"),
        ("Normal/Attack", "Atack", "'Atack' is neither 'Normal' nor 'Attack'"),
        ("Normal/Attack", "", "an empty cell is neither"),
        ("Timestamp", "noon", "'noon' is not a time such as"),
        ("Timestamp", " 02/28/2024 11:58:27 PM", "is not a time such as"),
        ("Timestamp", " 28/02/2024 13:58:27 PM", "is not a time such as"),
        ("Timestamp", " 28/02/2024 11:58:61 PM", "is not a time such as"),
        ("Timestamp", " 28/02/2024 11:58:26 PM", "2024-02-28 23:58:26 occurs twice: row 9 has 2024-02-28 23:58:26"),
        ("Timestamp", " 28/02/2024 11:58:21 PM", "the time goes back to 2024-02-28 23:58:21: row 9 has"),
        ("Timestamp", " 29/02/2024 11:58:21 PM", "86394 seconds are missing before"),
    ],
)
def test_a_wrong_cell_is_named(file, tag, text, what):
    edit(file, 10, tag, text)
    with pytest.raises(DataError) as caught:
        load(file)
    assert f"plant.csv': row 10, column {tag}: " in str(caught.value)
    assert what in str(caught.value)


def test_shuffled_rows_are_refused(file):
    lines = lines_of(file)
    lines[20], lines[21] = lines[21], lines[20]
    with pytest.raises(DataError, match="row 22, column Timestamp: the time goes back"):
        load(rewrite(file, lines))


def test_a_doubled_row_is_refused(file):
    lines = lines_of(file)
    lines.insert(21, lines[20])
    with pytest.raises(DataError, match=r"row 22, column Timestamp: .* occurs twice"):
        load(rewrite(file, lines))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("LIT301", "LIT302", "row 2, column LIT301: the header has no such column"),
        ("LIT301", "LIT101", "row 2, column LIT101: the header has this column twice"),
        ("Normal/Attack", "note", "row 2, column Normal/Attack: the header has no such column"),
        ("Timestamp", "t", "row 2, column Timestamp: the header has no such column"),
        ("IT", "X", "column FIT101: the header has no such column, and 24 more are missing"),
    ],
)
def test_a_wrong_header_is_named(file, old, new, what):
    lines = lines_of(file)
    lines[1] = lines[1].replace(old, new)
    with pytest.raises(DataError, match=what):
        load(rewrite(file, lines))


def test_a_row_that_is_cut_off_is_named(file):
    file.write_text(file.read_text()[:-200])
    with pytest.raises(DataError, match=rf"row {STEPS + 2}, column \w+: the row ends after \d+ cells"):
        load(file)


def test_decimal_commas_between_commas_are_refused(file):
    lines = lines_of(file)
    lines[9] = lines[9].replace(".", ",", 1)
    with pytest.raises(DataError, match="row 10, column"):
        load(rewrite(file, lines))
    lines[9] = lines[8].replace(":26 ", ":27 ") + ",9"
    with pytest.raises(
        DataError, match="row 10, column Normal/Attack: the row has more cells than the header: 54 cells"
    ):
        load(rewrite(file, lines))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "is a header"),
        (b"a,b\n" * 100, "none of its first 10 rows is a header"),
        (b"\xff\xfe\x00\x01" * 50, "not a CSV file in UTF-8"),
        (b"FIT101,\xe9\n", "not a CSV file in UTF-8"),
        (b'FIT101,"x" y\n', "not a CSV file in UTF-8"),
    ],
)
def test_other_files_are_refused(tmp_path, content, what):
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=what) as caught:
        load(path)
    assert "odd.csv" in str(caught.value)


def test_a_header_alone_is_refused(file):
    with pytest.raises(DataError, match="there is no row below the header"):
        load(rewrite(file, lines_of(file)[:2]))


def test_files_that_are_not_there(tmp_path, file):
    with pytest.raises(DataError, match="there is no such file"):
        load(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="it is a folder"):
        load(tmp_path / "folder.csv")
    with pytest.raises(InputError, match=r"use a \.csv or \.xlsx file"):
        load(tmp_path / "plant.xls")
    for wrong in (-1, 1.5, True):
        with pytest.raises(InputError, match="max_gap must be"):
            load(file, max_gap=wrong)


def test_what_cannot_be_written(run, tmp_path):
    with pytest.raises(InputError, match=r"end the name in \.csv"):
        write_csv(run, tmp_path / "plant.txt")
    with pytest.raises(OutputError, match="does not exist"):
        write_csv(run, tmp_path / "no" / "plant.csv")
    unknown = np.where(np.arange(51) == 7, np.nan, run.readings)
    for wrong, what in (
        (Recording(run.times[:0], run.readings[:0], run.labels[:0]), "a recording needs T > 0 times"),
        (Recording(run.times, run.readings, run.labels[:-1]), r"got 400, \[400, 51\] and \[399\]"),
        (Recording(run.times, run.readings[:, :50], run.labels), r"got 400, \[400, 50\]"),
        (Recording(run.times, unknown, run.labels), "readings of a recording must be finite"),
    ):
        with pytest.raises(InputError, match=what):
            write_csv(wrong, tmp_path / "plant.csv")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_file(run, file, monkeypatch):
    old = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OutputError, match="No space left"):
        write_csv(run, file)
    assert file.read_bytes() == old
    assert [path.name for path in file.parent.iterdir()] == ["plant.csv"]


# xlsx -------------------------------------------------------------------------------------------------------------


def workbook(path, run, *, times=str, banner=True, spoil=None):
    """Write a run as a workbook, with its times as text (``times=str``) or as dates (``times=datetime``)."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    if banner:
        sheet.append([None, "P1"])
    sheet.append([" Timestamp", *(f" {tag}" if tag[0] == "M" else tag for tag in TAGS), "Normal/Attack"])
    for place, (time, row, label) in enumerate(
        zip(run.times.tolist(), run.readings.tolist(), run.labels.tolist(), strict=True)
    ):
        stamp = time if times is datetime else f" {time.day}/{time.month}/{time.year} {time:%I:%M:%S %p}"
        cells = [stamp, *row, "A ttack" if label else "Normal"]
        if spoil is not None:
            spoil(place, cells)
        sheet.append(cells)
    book.save(path)
    return path


@pytest.mark.parametrize("times", [str, datetime])
@pytest.mark.parametrize("banner", [True, False])
def test_a_workbook_is_read(run, tmp_path, times, banner):
    assert same(load(workbook(tmp_path / "plant.xlsx", run, times=times, banner=banner)), run, digits=1e-15)


def test_a_workbook_that_declares_a_wrong_size_is_read(run, tmp_path):
    path = workbook(tmp_path / "plant.xlsx", run)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b"<sheetData>", b'<dimension ref="A1:C3"/><sheetData>')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert same(load(path), run, digits=1e-15)


def test_a_wrong_cell_of_a_workbook_is_named(run, tmp_path):
    def spoil(place, cells):
        if place == 6:
            cells[1 + column("AIT504")] = "n/a"

    with pytest.raises(DataError, match=r"plant.xlsx': row 9, column AIT504: 'n/a' is not a number"):
        load(workbook(tmp_path / "plant.xlsx", run, spoil=spoil))


def test_damaged_workbooks_are_refused(run, tmp_path):
    path = workbook(tmp_path / "plant.xlsx", run)
    content = path.read_bytes()
    # The file is cut off; or it is not a workbook; or some bytes of the sheet differ, which only reading detects.
    middle = len(content) // 2
    spoilt = content[:middle] + bytes(byte ^ 255 for byte in content[middle : middle + 64]) + content[middle + 64 :]
    for damaged in (content[:middle], b"Timestamp,FIT101\n", spoilt):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"plant.xlsx': it is not an xlsx file, or it is damaged"):
            load(path)


def test_an_empty_workbook_is_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(DataError, match="is a header"):
        load(tmp_path / "empty.xlsx")


def test_without_openpyxl_the_error_names_the_package_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "plant.xlsx").write_bytes(b"x")
    with pytest.raises(UnsupportedError, match=r"pip install 'graphfaith\[studies\]'"):
        load(tmp_path / "plant.xlsx")


def test_every_attack_label_round_trips(tmp_path):
    attacked = simulate(2500 / 86_400, attacks=Schedule((Planned(ATTACKS[6], 600), Planned(ATTACKS[7], 600))))
    assert same(load(write_csv(attacked, tmp_path / "two.csv")), attacked)
    assert attacked.labels.sum() == sum(span.stop - span.start for span in attacked.spans) > 0


def test_a_workbook_that_inflates_is_refused(run, tmp_path, monkeypatch):
    path = workbook(tmp_path / "plant.xlsx", run)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", bytes(10**7))
    monkeypatch.setattr(expansion, "_total_memory", lambda: 10**8)
    with pytest.raises(DataError, match=r"plant.xlsx': it declares 10 MB, which may take 16 times as much in memory"):
        load(path)
