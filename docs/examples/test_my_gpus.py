# ruff: noqa: ARG001, S101
"""Tests of one's own on a GPU guest: pytest --hosts=ssh://guest test_my_gpus.py"""


def test_eight_gpus_work(nvidia_gpus, same_boot):
    assert nvidia_gpus.count == 8
    assert all(nvidia_gpus.data_check.values())


def test_no_pair_is_granted(p2p_pairs):
    assert p2p_pairs.granted == ()
