"""Test the files of recordings: peculiarities are accepted, and errors name the file, the row and the column."""

from __future__ import annotations

import datetime
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from graphfaith._base import expansion
from graphfaith._base.errors import DataError, InputError, OutputError, UnsupportedError
from graphfaith_studies.plant import Recording, load
from graphfaith_studies.plant.loader import load_each
from graphfaith_studies.plant.series import series_of
from graphfaith_studies.swat import SWAT, TAGS, Planned, Schedule, column, simulate, write_csv
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
    assert np.allclose(recording.readings, run.readings, rtol=digits, atol=1e-30)  # a flow that stops is 1e-55
    return True


# Writing and reading ----------------------------------------------------------------------------------------------


def test_what_was_written_is_read_again(run, file):
    recording = load(SWAT, file, show=False)
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
    assert same(load(SWAT, rewrite(file, quirk(lines_of(file)))), run)


def test_missing_seconds_are_bridged(run, file):
    lines = lines_of(file)
    del lines[2 + 50], lines[2 + 200 : 2 + 280]
    recording = load(SWAT, rewrite(file, lines))
    assert recording.gaps == ()
    assert np.array_equal(recording.times, run.times)
    kept = np.setdiff1d(np.arange(STEPS), [50, *range(201, 281)])
    assert np.allclose(recording.readings[kept], run.readings[kept], rtol=1e-6, atol=0)
    level = column("LIT101")
    assert recording.readings[50, level] == pytest.approx(run.readings[[49, 51], level].mean(), rel=1e-6)
    assert set(recording.readings[:, column("MV101")]) <= {0.0, 1.0, 2.0}
    assert recording.notices == (f"{81 * 51} missing readings are bridged, in gaps of up to 120 s",)


def test_a_long_gap_is_left_open_and_listed(run, file):
    lines = lines_of(file)
    del lines[2 + 100 : 2 + 250]
    rewrite(file, lines)
    recording = load(SWAT, file)
    assert recording.gaps == ((100, 150),)
    assert "150 rows before 2024-02-29 00:02:30" in recording.notices[0]
    rows = recording.seconds
    assert np.allclose(recording.readings, run.readings[rows], rtol=1e-6, atol=0)
    assert load(SWAT, file, max_gap=150).gaps == ()
    assert load(SWAT, file, max_gap=149).gaps == ((100, 150),)


def test_a_bar_is_shown_when_asked_for(file, capsys):
    load(SWAT, file, show=True)
    assert "Reading" in capsys.readouterr().err
    load(SWAT, file, show=False)
    assert capsys.readouterr().err == ""


# Errors in a file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "text", "what"),
    [
        ("LIT101", "full", "1 readings of LIT101 are not numbers (the first is 'full' in row 10)"),
        ("FIT301", "", "1 readings of FIT301 are not numbers (the first is an empty cell in row 10)"),
        ("PIT503", "nan", "1 readings of PIT503 are not numbers (the first is row 10)"),
        ("AIT202", "inf", "1 readings of AIT202 are not numbers (the first is row 10)"),
        ("LIT101", "1e999", "1 readings of LIT101 are not numbers (the first is row 10)"),
        (
            "LIT301",
            "-999",
            "1 readings of LIT301 are impossible (the first is -999 in row 10; possible are -100 to 2000)",
        ),
        ("MV101", "7", "1 readings of MV101 are impossible (the first is 7 in row 10; a valve has one of 0, 1, 2)"),
        ("P603", "1.5", "a pump has one of 0, 1, 2"),
        ("Normal/Attack", "Atack", "row 10, column Normal/Attack: 'Atack' is neither 'Normal' nor 'Attack'"),
        ("Normal/Attack", "", "an empty cell is neither"),
        ("Timestamp", "noon", "1 row is left out (row 10, column Timestamp: 'noon' is not a time such as"),
        ("Timestamp", " 02/28/2024 11:58:27 PM", "1 row is left out (row 10, column Timestamp: there is no such day)"),
        ("Timestamp", " 28/02/2024 13:58:27 PM", "is not a time such as"),
        ("Timestamp", " 28/02/2024 11:58:61 PM", "is not a time such as"),
        ("Timestamp", " 28/02/2024 11:58:26 PM", "1 times occur twice, the first is 2024-02-28 23:58:26 in row 10"),
    ],
)
def test_a_wrong_cell_is_mended_and_named(run, file, tag, text, what):
    edit(file, 10, tag, text)
    recording = load(SWAT, file)
    assert any(what in notice for notice in recording.notices)
    assert any("missing readings are bridged" in notice for notice in recording.notices)
    assert len(recording.notices) == 2  # Nothing is said twice.
    assert np.array_equal(recording.times, run.times)
    others = np.arange(STEPS) != 7
    assert np.allclose(recording.readings[others], run.readings[others], rtol=1e-6, atol=0)
    # The row before and the row after tell what was in between; every instrument of the plant is slow.
    assert np.allclose(recording.readings[7], run.readings[[6, 8]].mean(0), rtol=0.2, atol=1.0)


@pytest.mark.parametrize(
    ("row", "stamp"), [(10, " 28/02/2024 11:58:21 PM"), (10, " 28/02/2051 11:58:21 PM"), (3, " 01/03/2024 11:58:21 PM")]
)
def test_one_time_out_of_order_is_left_out(run, file, row, stamp):
    edit(file, row, "Timestamp", stamp)
    recording = load(SWAT, file)
    assert recording.notices[0].startswith("1 row is left out, because the time is out of order (20")
    assert f"in row {row})" in recording.notices[0]
    # Between two rows it is bridged; before the first one there is nothing to bridge from.
    assert np.array_equal(recording.times, run.times[1:] if row == 3 else run.times)


def test_an_hour_that_comes_twice_is_refused(file):
    lines = lines_of(file)
    lines[100:100] = lines[50:80]
    with pytest.raises(
        DataError, match=r"plant.csv': row 101, column Timestamp: the time goes back to .* sort the rows"
    ):
        load(SWAT, rewrite(file, lines))


def test_a_time_in_another_age_is_refused(file):
    edit(file, STEPS + 2, "Timestamp", " 28/02/2099 11:58:21 PM")
    with pytest.raises(
        DataError, match=f"row {STEPS + 2}, column Timestamp: 2099-02-28 23:58:21 is too far from 2024-"
    ):
        load(SWAT, file)


def test_shuffled_rows_are_refused(file):
    lines = lines_of(file)
    for row in range(20, 20 + STEPS // 10, 2):
        lines[row], lines[row + 1] = lines[row + 1], lines[row]
    with pytest.raises(DataError, match="row 22, column Timestamp: the time goes back"):
        load(SWAT, rewrite(file, lines))


def test_rows_at_uneven_times(run, file):
    """A row every two seconds, and some between them: these have no place of their own."""
    lines = lines_of(file)
    kept = [line for number, line in enumerate(lines[2:]) if number % 2 == 0 or number in (41, 81)]
    recording = load(SWAT, rewrite(file, [*lines[:2], *kept]))
    assert "2 rows are less than 2 s from another, the first is row 24; they are left out" in recording.notices
    assert np.array_equal(recording.times, run.times[::2])


@pytest.mark.parametrize("text", ['"2.5', '"2"5', "2.5 m\xb3/h", "x" * 200_000])
def test_one_odd_cell_does_not_refuse_a_file(run, file, text):
    edit(file, 10, "FIT101", text)
    file.write_bytes(file.read_text(encoding="utf-8").encode("latin-1"))
    named, bridged = load(SWAT, file).notices
    assert named.startswith("1 readings of FIT101 are not numbers (the first is ")
    assert bridged.startswith("1 missing readings are bridged")


def test_states_in_words(run, file):
    lines = lines_of(file)
    places = [1 + place for place, tag in enumerate(SWAT.tags) if tag.is_actuator]
    cells = [line.split(",") for line in lines[2:]]
    for row in cells:
        for place in places:
            row[place] = SWAT.tags[place - 1].kind.states[int(row[place])].upper()
    recording = load(SWAT, rewrite(file, [*lines[:2], *map(",".join, cells)]))
    assert np.allclose(recording.readings, run.readings, rtol=1e-6, atol=0)
    assert recording.notices == load(SWAT, rewrite(file, lines)).notices


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_spreadsheets_call_unicode(run, file, encoding):
    file.write_bytes(file.read_text().replace(",", "\t").replace(".", ",").encode(encoding))
    assert np.allclose(load(SWAT, file).readings, run.readings, rtol=1e-6, atol=0)


def test_a_name_in_two_lines(run, file):
    lines = lines_of(file)
    lines[1] = lines[1].replace("Normal/Attack", '"Normal/\nAttack"')
    assert len(load(SWAT, rewrite(file, lines))) == STEPS


def test_a_file_in_which_most_is_wrong_is_refused(run, file):
    lines = lines_of(file)
    spoilt = [line.rsplit(",", 1)[0] + ",-999" for line in lines[2:]]
    with pytest.raises(DataError, match="row 3, column Normal/Attack: '-999' is neither"):
        load(SWAT, rewrite(file, [*lines[:2], *spoilt]))
    for text, what in (("-999", "possible are -100 to 2000"), ("", "an empty cell in row 3")):
        cells = [line.split(",") for line in lines[2:]]
        for row in cells[: STEPS * 2 // 3]:
            row[1 + column("LIT101")] = text
        with pytest.raises(DataError, match=f"readings of LIT101 are .*{what}.*is its unit mm"):
            load(SWAT, rewrite(file, [*lines[:2], *map(",".join, cells)]))
    cells = [line.split(",") for line in lines[2:]]
    for row in cells[STEPS // 4 : STEPS // 4 + 150]:
        row[1 + column("LIT101")] = "bad"
    rewrite(file, [*lines[:2], *map(",".join, cells)])
    assert load(SWAT, file).gaps == ((STEPS // 4, 150),)


def test_metres_instead_of_millimetres_are_noticed(file):
    lines = lines_of(file)
    cells = [line.split(",") for line in lines[2:]]
    for row in cells:
        row[1 + column("LIT101")] = str(float(row[1 + column("LIT101")]) / 1000)
    (notice,) = load(SWAT, rewrite(file, [*lines[:2], *map(",".join, cells)])).notices
    assert "the median of LIT101 is 0." in notice
    assert "is it in another unit?" in notice


def at(lines, moments):
    """Return the rows of a file with other time stamps."""
    return [*lines[:2], *(f"{stamp},{line.split(',', 1)[1]}" for stamp, line in zip(moments, lines[2:], strict=False))]


def test_the_month_may_come_first(run, file):
    lines = lines_of(file)
    start = np.datetime64("2024-03-04T23:58:20", "s")
    times = (start + np.arange(STEPS)).tolist()
    american = at(lines, [f"{time:%m/%d/%Y %H:%M:%S}" for time in times])
    recording = load(SWAT, rewrite(file, american))
    # Both 03/04, 03/05 and 4 March, 5 March are days; only the second follow each other.
    assert recording.times[0] == start
    assert recording.notices == ("dates are written as month/day: 03/04 is 4 March",)
    assert recording.day_first is False
    one_day = at(lines[:102], [f"{time:%m/%d/%Y %H:%M:%S}" for time in times[:100]])
    recording = load(SWAT, rewrite(file, one_day))
    assert recording.times[0] == np.datetime64("2024-04-03T23:58:20")
    assert "03/04 is read as 3 April, as the plant file says; the days of this file do not tell" in recording.notices[0]


def test_a_file_of_one_day_is_read_as_the_file_beside_it(run, file, tmp_path):
    """A file of days tells the order of its dates, and one program has written both."""
    lines = lines_of(file)
    times = (np.datetime64("2024-03-04T23:58:20", "s") + np.arange(STEPS)).tolist()
    stamps = [f"{time:%m/%d/%Y %H:%M:%S}" for time in times]
    whole, day = tmp_path / "a_normal.csv", tmp_path / "b_monitor.csv"
    whole.write_text("\n".join(at(lines, stamps)) + "\n")
    day.write_text("\n".join(at(lines[:102], stamps[:100])) + "\n")
    said = []
    first, second = load_each(SWAT, [whole, day], say=said.append)
    assert first.times[0] == second.times[0] == np.datetime64("2024-03-04T23:58:20")
    assert said[-1] == (
        "b_monitor.csv: 03/04 is read as 4 March, as a_normal.csv says; the days of this file do not tell"
    )
    # A file that does not tell has nothing to say of the next one.
    second, _ = load_each(SWAT, [day, whole])
    assert second.times[0] == np.datetime64("2024-04-03T23:58:20")


@pytest.mark.parametrize(
    "form",
    [
        "%d.%m.%Y %H:%M:%S",
        "%d-%m-%y %H:%M:%S",
        "%Y/%m/%d %H:%M:%S",
        "%Y-%m-%dT%H:%M:%S.400Z",
        "%d-%b-%y %H:%M:%S",
        "%d %B %Y %I:%M:%S %p",
    ],
)
def test_other_layouts_of_time(run, file, form):
    lines = at(lines_of(file), [time.strftime(form) for time in run.times.tolist()])
    assert same(load(SWAT, rewrite(file, lines)), run)


def test_rows_every_minute(run, file):
    times = (np.datetime64("2024-02-28T22:00:00", "s") + 60 * np.arange(STEPS)).tolist()
    recording = load(SWAT, rewrite(file, at(lines_of(file), [f"{time:%d/%m/%Y %H:%M}" for time in times])))
    assert (recording.plant.period, recording.plant.step, recording.plant.quiet) == (60, 60, 720)
    assert "rows are 60 s apart, and not 1 s: a step of the forecaster is 60 s" in recording.notices
    medians = series_of(recording)
    assert len(medians) == STEPS
    assert len(medians.targets) == STEPS - SWAT.window + 1


SIZE = """
import resource, sys
from pathlib import Path
from graphfaith_studies.plant import load
from graphfaith_studies.plant.series import series_of
from graphfaith_studies.swat import SWAT
medians = series_of(load(SWAT, Path(sys.argv[1]), show=False))
print(len(medians), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // 10**6)
"""


def lengthen(file, size):
    """Write a file of at least so many bytes with the same rows again and again, and return it and its seconds."""
    head, rows = lines_of(file)[:2], [line.split(",", 1)[1] for line in lines_of(file)[2:]]
    big = file.with_name(f"{size:.0f}.csv")
    start, count = datetime.datetime(2024, 1, 1), 0
    with big.open("w") as out:
        out.write("\n".join(head) + "\n")
        while big.stat().st_size < size:
            for row in rows:
                # Every thousandth second is missing, so that rows are put in.
                if count % 1000:
                    out.write(f"{start + datetime.timedelta(seconds=count)},{row}\n")
                count += 1
    return big, count


def test_a_long_file_does_not_take_more_memory_than_it_has_bytes(file, monkeypatch):
    """Readings are kept once, in single precision; so a file of 500 MB is read in less than 1 GB, with the program."""
    monkeypatch.setattr("graphfaith_studies.plant.repair._BLOCK", 200)  # small against these files
    load(SWAT, file, show=False)  # What the first call of all loads and keeps is not the file's.
    sizes, peaks = [], []
    for size in (2e5, 1e6):
        big, _ = lengthen(file, size)
        sizes.append(big.stat().st_size)
        tracemalloc.start()
        try:
            load(SWAT, big, show=False)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert 0.5 * (sizes[1] - sizes[0]) < peaks[1] - peaks[0] < sizes[1] - sizes[0]


def shorten(file):
    """Write the rows with at most two digits a reading, so that many of them are in a file of the same size."""
    lines = lines_of(file)
    cells = [line.split(",") for line in lines[2:]]
    rows = [",".join([*row[:1], *(f"{float(value):.2g}" for value in row[1:-1]), row[-1]]) for row in cells]
    return rewrite(file, lines[:2] + rows)


CHECK = """
import resource, sys
from graphfaith.cli.application import main
try:
    main()
except SystemExit:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // 10**6)
"""


@pytest.mark.nightly
def test_500_megabytes_of_short_rows_are_checked_in_a_gigabyte(file):
    """The shorter the rows, the more of them, and memory goes with their number."""
    big, count = lengthen(shorten(file), 500e6)
    assert 500e6 / count < 235  # bytes a row
    command = [sys.executable, "-c", CHECK, "plant", "check", "--plant", "swat", str(big)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    big.unlink()
    told, *_, megabytes = done.stdout.splitlines()
    assert f"{count - 1} rows from" in told
    assert int(megabytes) < 1000


@pytest.mark.nightly
def test_a_file_of_500_megabytes_is_in_memory_once(file):
    big, count = lengthen(file, 500e6)
    done = subprocess.run([sys.executable, "-c", SIZE, str(big)], capture_output=True, text=True, check=True)
    steps, megabytes = map(int, done.stdout.split())
    big.unlink()
    assert steps == -(-(count - 1) // 10)
    assert megabytes < 1000  # the program takes 230 of them, and the readings in single precision 350


def test_a_doubled_row_counts_once(run, file):
    lines = lines_of(file)
    lines.insert(21, lines[20])
    recording = load(SWAT, rewrite(file, lines))
    assert same(recording, run)
    assert "1 times occur twice" in recording.notices[0]


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
        load(SWAT, rewrite(file, lines))


def test_a_row_that_is_cut_off_is_left_out(run, file):
    file.write_text(file.read_text()[:-200])
    recording = load(SWAT, file)
    assert len(recording) == STEPS - 1
    assert f"1 row is left out (row {STEPS + 2}, column " in recording.notices[0]
    assert "the row ends after" in recording.notices[0]


def test_decimal_commas_between_commas(run, file):
    lines = lines_of(file)
    cells = lines[9].split(",")
    lines[9] = ",".join([*cells[:2], *cells[1:]])
    (left_out, bridged) = load(SWAT, rewrite(file, lines)).notices
    assert "the row has more cells than the header: 54 cells for 53 names" in left_out or "is neither" in left_out
    assert "51 missing readings are bridged" in bridged


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "is a header"),
        (b"a,b\n" * 100, "none of its first 10 rows is a header"),
        (b"\xff\xfe\x00\x01" * 50, "is a header"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 50, "is a header"),
        (b"FIT101,\xe9\n", "is a header"),
        (b'FIT101,"x" y\n', "is a header"),
    ],
)
def test_other_files_are_refused(tmp_path, content, what):
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=what) as caught:
        load(SWAT, path)
    assert "odd.csv" in str(caught.value)


def test_a_header_alone_is_refused(file):
    with pytest.raises(DataError, match="there is no row below the header"):
        load(SWAT, rewrite(file, lines_of(file)[:2]))


def test_files_that_are_not_there(tmp_path, file):
    with pytest.raises(DataError, match="there is no such file"):
        load(SWAT, tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="it is a folder"):
        load(SWAT, tmp_path / "folder.csv")
    with pytest.raises(InputError, match=r"use a \.csv or \.xlsx file"):
        load(SWAT, tmp_path / "plant.xls")
    for wrong in (-1, 1.5, True):
        with pytest.raises(InputError, match="max_gap must be"):
            load(SWAT, file, max_gap=wrong)


def test_what_cannot_be_written(run, tmp_path):
    with pytest.raises(InputError, match=r"end the name in \.csv"):
        write_csv(run, tmp_path / "plant.txt")
    with pytest.raises(OutputError, match="does not exist"):
        write_csv(run, tmp_path / "no" / "plant.csv")
    unknown = np.where(np.arange(51) == 7, np.nan, run.readings)
    for wrong, what in (
        (Recording(SWAT, run.times[:0], run.readings[:0], run.labels[:0]), "a recording needs T > 0 times"),
        (Recording(SWAT, run.times, run.readings, run.labels[:-1]), r"got 400, \[400, 51\] and \[399\]"),
        (Recording(SWAT, run.times, run.readings[:, :50], run.labels), r"got 400, \[400, 50\]"),
        (Recording(SWAT, run.times, unknown, run.labels), "readings of a recording must be finite"),
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
    assert same(load(SWAT, workbook(tmp_path / "plant.xlsx", run, times=times, banner=banner)), run, digits=1e-6)


def test_a_workbook_that_declares_a_wrong_size_is_read(run, tmp_path):
    path = workbook(tmp_path / "plant.xlsx", run)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = parts[sheet].replace(b"<sheetData>", b'<dimension ref="A1:C3"/><sheetData>')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert same(load(SWAT, path), run, digits=1e-6)


def test_a_wrong_cell_of_a_workbook_is_named(run, tmp_path):
    def spoil(place, cells):
        if place == 6:
            cells[1 + column("AIT504")] = "n/a"

    notices = load(SWAT, workbook(tmp_path / "plant.xlsx", run, spoil=spoil)).notices
    assert "1 readings of AIT504 are not numbers (the first is 'n/a' in row 9)" in notices


def test_damaged_workbooks_are_refused(run, tmp_path):
    path = workbook(tmp_path / "plant.xlsx", run)
    content = path.read_bytes()
    # The file is cut off; or it is not a workbook; or some bytes of the sheet differ, which only reading detects.
    middle = len(content) // 2
    spoilt = content[:middle] + bytes(byte ^ 255 for byte in content[middle : middle + 64]) + content[middle + 64 :]
    for damaged in (content[:middle], b"Timestamp,FIT101\n", spoilt):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"plant.xlsx': it is not an xlsx file, or it is damaged"):
            load(SWAT, path)


def test_an_empty_workbook_is_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(DataError, match="is a header"):
        load(SWAT, tmp_path / "empty.xlsx")


def test_without_openpyxl_the_error_names_the_package_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "plant.xlsx").write_bytes(b"x")
    with pytest.raises(UnsupportedError, match=r"pip install 'graphfaith\[studies\]'"):
        load(SWAT, tmp_path / "plant.xlsx")


def test_every_attack_label_round_trips(tmp_path):
    attacked = simulate(2500 / 86_400, attacks=Schedule((Planned(ATTACKS[6], 600), Planned(ATTACKS[7], 600))))
    assert same(load(SWAT, write_csv(attacked, tmp_path / "two.csv")), attacked)
    assert attacked.labels.sum() == sum(span.stop - span.start for span in attacked.spans) > 0


def test_a_workbook_that_inflates_is_refused(run, tmp_path, monkeypatch):
    path = workbook(tmp_path / "plant.xlsx", run)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/more.xml", bytes(10**7))
    monkeypatch.setattr(expansion, "_total_memory", lambda: 10**8)
    with pytest.raises(DataError, match=r"plant.xlsx': it declares 10 MB, which may take 16 times as much in memory"):
        load(SWAT, path)
