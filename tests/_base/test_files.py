"""Files are written whole, through links, with the permissions they had; what is no file is refused beforehand."""

from __future__ import annotations

import os
import socket
import stat
import struct

import pytest

from graphfaith._base import files
from graphfaith._base.errors import DataError, InputError, OutputError
from graphfaith._base.files import check_output, check_writable, make_folder, read_file, write_file, write_parts


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_fifo(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def link_to_device(path):
    path.symlink_to("/dev/null")


def link_to_link_to_fifo(path):
    os.mkfifo("pipe")
    path.with_name("between").symlink_to("pipe")
    path.symlink_to("between")


def link_to_itself(path):
    path.symlink_to(path.name)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_fifo, "a FIFO"),
        (make_socket, "a socket"),
        (link_to_device, "a device"),
        (link_to_link_to_fifo, "a FIFO"),
        (link_to_itself, "a link that leads to itself"),
    ],
)
def test_what_is_no_regular_file_is_refused_and_not_replaced(folder, make, kind):
    path = folder / "r.json"
    make(path)
    before = path.lstat()
    for refuse in (lambda: check_output(path, (".json",)), lambda: write_file(path, b"new")):
        with pytest.raises(OutputError, match=f"it is {kind}, not a regular file"):
            refuse()
    assert path.lstat().st_ino == before.st_ino
    assert path.lstat().st_mode == before.st_mode


def test_a_pipe_without_a_name_is_refused(folder):
    reading, writing = os.pipe()
    try:
        (folder / "r.json").symlink_to(f"/proc/self/fd/{writing}")
        with pytest.raises(OutputError, match="it is a FIFO, not a regular file"):
            check_output(folder / "r.json", (".json",))
    finally:
        os.close(reading)
        os.close(writing)


def test_a_link_to_a_file_is_written_through(folder):
    target = folder / "data"  # without a suffix: the name that the user gave says which format it is
    target.write_bytes(b"old")
    link = folder / "r.json"
    link.symlink_to("data")
    write_file(check_output(link, (".json",)), b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    (folder / "later.json").symlink_to("missing")
    write_file(folder / "later.json", b"new")
    assert (folder / "missing").read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_permissions_of_an_overwritten_file_are_kept(folder, mode):
    path = folder / "r.json"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_file(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_bytes() == b"new"


def test_nobody_else_can_read_a_replacement_before_it_has_the_permissions_of_the_old_file(folder, monkeypatch):
    path = folder / "r.json"
    path.write_bytes(b"old")
    path.chmod(0o600)
    made, usual = [], files._pass_on_permissions

    def look(before, path, handle):
        made.append(stat.S_IMODE(os.fstat(handle).st_mode))
        usual(before, path, handle)

    monkeypatch.setattr(files, "_pass_on_permissions", look)
    write_file(path, b"new")
    assert made == [0o600]


def test_a_new_file_has_the_mode_that_the_umask_gives(folder):
    before = os.umask(0o027)
    try:
        write_file(folder / "r.json", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "r.json").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_of_an_overwritten_file_is_kept(folder):
    path = folder / "r.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.chown(path, 1234, 2345)
    write_file(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_access_list_is_kept(folder):
    path = folder / "r.json"
    path.write_bytes(b"old")
    nobody = 0xFFFFFFFF
    # Owner rw, user 1234 rw, group nothing, at most rw, others nothing: the mode shows rw for the group.
    entries = [(0x01, 6, nobody), (0x02, 6, 1234), (0x04, 0, nobody), (0x10, 6, nobody), (0x20, 0, nobody)]
    content = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", content)
    except (OSError, AttributeError):
        pytest.skip("this file system has no access lists")
    write_file(path, b"new")
    assert os.getxattr(path, "system.posix_acl_access") == content


def test_the_content_is_on_the_disk_before_the_name_and_the_name_too(folder, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: (done.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    write_file(folder / "r.json", b"new")
    assert len(done) == 3
    assert done[0].startswith(f"{folder}/.graphfaith-")
    assert done[1:] == ["replace", str(folder)]


@pytest.mark.parametrize("letter", ["x", "é", "字", "𝄞"])
def test_names_of_any_length_that_the_system_has_work_and_others_are_refused(folder, letter):
    size = len(letter.encode())
    longest = letter * ((255 - 5) // size) + ".json"
    write_file(check_output(longest, (".json",)), b"new")
    assert (folder / longest).read_bytes() == b"new"
    with pytest.raises(OutputError, match="bytes, and 255 are possible there"):
        check_output(letter + longest, (".json",))
    with pytest.raises(DataError, match="File name too long"):
        read_file(folder / (10 * longest), "cannot load")


@pytest.mark.parametrize("path", ["a\0b.json", "no/such/r.json", "d/" * 3000 + "r.json"])
def test_impossible_paths_are_refused_in_one_line(folder, path):
    with pytest.raises(OutputError, match="cannot write") as caught:
        check_output(path, (".json",))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_folder_that_cannot_be_made_is_an_error(folder):
    (folder / "file").write_bytes(b"")
    for path in (folder / "file", folder / "file" / "within", folder / ("x" * 300), folder / "a\0b"):
        with pytest.raises(OutputError, match="cannot make the folder"):
            make_folder(path)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(folder):
    (folder / "r.json").write_bytes(b"old")

    def parts():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parts(folder / "r.json", parts())
    assert (folder / "r.json").read_bytes() == b"old"
    assert [path.name for path in folder.iterdir()] == ["r.json"]


def test_a_result_that_cannot_get_its_name_is_kept_under_another(folder):
    def parts():
        yield b"result"
        (folder / "r.json").mkdir()  # somebody else was quicker

    with pytest.raises(OutputError, match="the result is in") as caught:
        write_parts(folder / "r.json", parts())
    draft = next(path for path in folder.iterdir() if path.is_file())
    assert str(draft) in str(caught.value)
    assert draft.read_bytes() == b"result"


def test_a_file_of_another_user_in_a_folder_for_all_is_refused(folder, monkeypatch):
    folder.chmod(0o1777)
    (folder / "r.json").write_bytes(b"old")
    check_writable(folder / "r.json")
    monkeypatch.setattr(os, "geteuid", lambda: 4321)
    with pytest.raises(OutputError, match="only its owner may replace it"):
        check_writable(folder / "r.json")


def test_a_name_without_a_known_suffix_is_refused(folder):
    with pytest.raises(InputError, match=r"end the name in \.png or \.pdf"):
        check_output(folder / "r.json", (".png", ".pdf"))
