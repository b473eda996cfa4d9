"""Finding the server's own NCCL."""

from __future__ import annotations

from pathlib import Path

import pytest

from provision.guest.onboard.nccl_find import find

WHEEL = "nvidia/nccl/lib/libnccl.so.2"


def place(root: Path, path: str, content: str = "library") -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)
    return target


def found(root: Path, given: str = "") -> list[tuple[str, str]]:
    return [(copy["path"], copy["found"]) for copy in find(str(root), given)]


def test_the_copy_of_a_running_server_comes_first_and_is_listed_once(tmp_path: Path) -> None:
    path = f"/opt/vllm/.venv/lib/python3.12/site-packages/{WHEEL}"
    place(tmp_path, path)
    place(tmp_path, "/usr/lib/x86_64-linux-gnu/libnccl.so.2.19.3")
    line = f"7f00-7f01 r-xp 00000000 fd:01 99 {path}\n"
    for pid in (41, 42):
        place(tmp_path, f"/proc/{pid}/maps", line * 3 + "7f02-7f03 rw-p 00000000 00:00 0 [heap]\n")
    copies = find(str(tmp_path))
    assert [(copy["path"], copy["found"]) for copy in copies] == [
        (path, "running process"),
        ("/usr/lib/x86_64-linux-gnu/libnccl.so.2.19.3", "folder"),
    ]
    assert copies[0]["pids"] == [41, 42]


def test_a_server_in_a_container_is_reached_by_way_of_its_process(tmp_path: Path) -> None:
    place(tmp_path, "/proc/77/maps", "7f00-7f01 r-xp 00000000 fd:01 99 /app/lib/libnccl.so.2\n")
    place(tmp_path, "/proc/77/root/app/lib/libnccl.so.2")
    assert found(tmp_path) == [("/proc/77/root/app/lib/libnccl.so.2", "running process")]


@pytest.mark.parametrize(
    ("path", "how"),
    [
        (f"/usr/local/lib/python3.10/dist-packages/{WHEEL}", "site-packages"),
        (f"/home/ml/venv/lib/python3.11/site-packages/{WHEEL}", "site-packages"),
        ("/opt/conda/lib/python3.11/site-packages/torch/lib/libnccl.so.2", "site-packages"),
        ("/usr/lib64/libnccl.so.2", "folder"),
        (f"/var/lib/docker/overlay2/abc/diff/usr/local/lib/python3.12/dist-packages/{WHEEL}", "container"),
    ],
)
def test_places(tmp_path: Path, path: str, how: str) -> None:
    place(tmp_path, path)
    assert found(tmp_path) == [(path, how)]


def test_the_loaders_cache_names_a_folder_of_its_own(tmp_path: Path) -> None:
    place(tmp_path, "/data/special/libnccl.so.2")
    place(tmp_path, "/etc/ld.so.cache", "ld.so-1.7.0\0libnccl.so.2\0/data/special/libnccl.so.2\0/lib/libc.so.6\0")
    assert found(tmp_path) == [("/data/special/libnccl.so.2", "loader cache")]


def test_a_given_path_comes_first_and_empty_or_deleted_files_do_not_count(tmp_path: Path) -> None:
    place(tmp_path, "/mine/libnccl.so.2")
    place(tmp_path, "/usr/lib64/libnccl.so.2", "")
    place(tmp_path, "/proc/5/maps", "7f00-7f01 r-xp 00000000 fd:01 99 /gone/libnccl.so.2 (deleted)\n")
    assert found(tmp_path, "/mine/libnccl.so.2") == [("/mine/libnccl.so.2", "given")]


def test_links_to_one_file_are_one_copy(tmp_path: Path) -> None:
    real = place(tmp_path, "/usr/lib64/libnccl.so.2.28.3")
    (real.parent / "libnccl.so.2").symlink_to(real.name)
    assert len(found(tmp_path)) == 1


def test_none(tmp_path: Path) -> None:
    assert found(tmp_path) == []
