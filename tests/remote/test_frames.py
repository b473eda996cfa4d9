"""Messages survive any cutting of the stream, and noise before the marker does no harm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.remote import frames


def feed(data: bytes, size: int):
    parts = iter([data[at : at + size] for at in range(0, len(data), size)])
    return lambda: next(parts, b"")


@given(st.lists(st.binary(max_size=200), max_size=4), st.integers(1, 50))
def test_messages_come_out_as_they_went_in(bodies, size):
    reader = frames.Reader()
    receive = feed(frames.message({"a": 1}, *bodies) + frames.message({"end": True}), size)
    header, got = reader.next(receive)
    assert (header["a"], got) == (1, bodies)
    assert reader.next(receive) == ({"end": True}, [])


@given(st.binary(max_size=300), st.integers(1, 40))
def test_noise_before_the_marker_is_passed_over(noise, size):
    reader = frames.Reader()
    receive = feed(noise + b"\nMARK-1\n" + frames.message({"hello": 1}), size)
    assert reader.skip_to("MARK-1", receive) == noise
    assert reader.next(receive) == ({"hello": 1}, [])


def test_end_before_the_marker_gives_the_noise():
    with pytest.raises(frames.StreamEnded) as caught:
        frames.Reader().skip_to("M", feed(b"Welcome!\n", 4))
    assert caught.value.noise == b"Welcome!\n"


def test_a_shell_that_never_stops_talking_ends():
    with pytest.raises(frames.NotFrames, match="too much"):
        frames.Reader().skip_to("M", lambda: b"x" * 65536)


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", frames.frame(b"no json"), frames.frame(b"[1]")])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(frames.NotFrames):
        frames.Reader().next(feed(data, 100))


def test_a_cut_in_the_middle_is_an_end():
    with pytest.raises(frames.StreamEnded):
        frames.Reader().next(feed(frames.message({"a": 1}, b"body")[:-2], 5))
