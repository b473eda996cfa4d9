"""Every PCI address stays text, and what is repeated or broken is said with its line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provision.inventory.yaml_text import YamlProblem, read_yaml

BUSES = range(256)


@pytest.mark.parametrize(
    "form", ["0000:{:02x}:00.0", "{:02x}:00.0", "0000:{:02X}:1f.7", "10000:{:02x}:00.0", "{:02x}:00"]
)
def test_an_unquoted_address_is_text_for_every_bus(form):
    for bus in BUSES:
        text = form.format(bus)
        document = read_yaml(
            f"value: {text}\nlist:\n  - {text}\nflow: [{text}, {text}]\nmap: {{a: {text}}}\n{text}: key\n"
        )
        assert document.data == {
            "value": text,
            "list": [text],
            "flow": [text, text],
            "map": {"a": text},
            text: "key",
        }


def test_an_address_is_a_key_in_flow_style_too():
    assert read_yaml("{0000:41:00.0: a, 41:00.0: b}").data == {"0000:41:00.0": "a", "41:00.0": "b"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("100", 100),
        ("-5", -5),
        ("0.5", 0.5),
        ("12.50", 12.5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ('"100"', "100"),
        ("010", "010"),
        ("0002", "0002"),
        ("10_0", "10_0"),
        ("0x1f", "0x1f"),
        ("1e3", "1e3"),
        (".5", ".5"),
        ("1.", "1."),
        (".inf", ".inf"),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("y", "y"),
        ("2025-01-01", "2025-01-01"),
        ("12:30", "12:30"),
        ("+1", "+1"),
        ("=", "="),
        ("9" * 5000, "9" * 5000),
        ("9" * 400 + ".0", "9" * 400 + ".0"),
        ("!!str 100", "100"),
        ("00.0", "00.0"),
    ],
)
def test_only_what_is_unmistakable_is_more_than_text(text, value):
    read = read_yaml(f"key: {text}").data["key"]
    assert read == value
    assert type(read) is type(value)


def test_numbers_as_keys_are_numbers():
    assert read_yaml("100: a\n200: b").data == {100: "a", 200: "b"}


def test_places_name_the_line_of_key_and_value():
    document = read_yaml("a:\n  b:\n    - x\n    - y\n")
    assert document.places[("a", "b", 1)].value == 4
    assert document.places[("a", "b")].key == 2
    assert document.line_of(("a", "nothing", "below")) == 2
    assert document.line_of(("a",), key=True) == 1


def test_repeated_keys_are_found_at_any_depth():
    document = read_yaml("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n'a': 3\n")
    assert sorted(document.repeated) == [(5, ("b", "c"), 3), (6, ("a",), 1), (7, ("a",), 1)]


def test_a_number_and_its_quoted_twin_are_one_key():
    assert read_yaml('100: a\n"100": b').repeated == [(2, ("100",), 1)]


def test_a_key_that_overrides_a_merged_one_is_not_repeated():
    document = read_yaml("x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  a: 3\n")
    assert document.data["y"] == {"a": 3, "b": 2}
    assert document.repeated == []
    assert document.places[("y", "b")].value == 1
    assert document.places[("y", "a")].value == 4


def test_merged_lists_and_nested_merges_are_known():
    document = read_yaml("p: &p {a: 1}\nq: &q\n  <<: *p\n  b: 2\nr: {<<: [*q, *p], c: 3}\n")
    assert document.data["r"] == {"a": 1, "b": 2, "c": 3}
    assert document.places[("r", "b")].value == 4


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\n\tb: 2\n", 2, "tab"),
        ("a:\n\t- b\n", 2, "tab"),
        ("a: [1, 2\nb: 3\n", 2, "flow sequence"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("a: *nothing\n", 1, "undefined alias"),
        ("a: &a [*a]\n", 1, "contains itself"),
        ("a: &a\n  <<: *a\n", 1, "contains itself"),
        ("? [a, b]\n: c\n", 1, "cannot be a key"),
        ("a: !python/object:os.system {}\n", 1, "tag"),
        ("a:\n  b: !!int twelve\n", 2, "tag"),
        ("a: !!float x\n", 1, "tag"),
        ("!!binary a: x\n", 1, "tag"),
        ("a: !!set {b, c}\n", 1, "tag"),
        ("<<: 3\n", 1, "mapping"),
        ("a: \x07bell\n", 1, "control character"),
    ],
)
def test_broken_text_is_said_with_its_line(text, line, words):
    with pytest.raises(YamlProblem) as caught:
        read_yaml(text)
    assert caught.value.line == line
    assert words in caught.value.text


@pytest.mark.parametrize(
    "text",
    ["secret: [hunter2\n", "secret: *hunter2\n", "token: !hunter2 x\n", "api_key: 'hunter2\n", "password: @hunter2\n"],
)
def test_broken_text_never_shows_what_may_be_a_secret(text):
    with pytest.raises(YamlProblem) as caught:
        read_yaml(text)
    assert "hunter2" not in caught.value.text


def test_aliases_of_aliases_do_not_run_away():
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for n in range(1, 9):
        text += f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n"
    with pytest.raises(YamlProblem, match="expands to more than"):
        read_yaml(text)


def test_deep_nesting_is_refused():
    with pytest.raises(YamlProblem, match="nested too deeply"):
        read_yaml("[" * 5000)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    with suppress(YamlProblem):
        assert read_yaml(text).places is not None
