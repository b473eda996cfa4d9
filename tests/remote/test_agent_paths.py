"""Every path resolves inside the root, component by component."""

import pytest

from provision.remote import agent


@pytest.fixture
def inside(root):
    real = agent.Root(str(root))
    return lambda path, follow=True: real.inside(path, follow).decode().removeprefix(str(root))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/etc/passwd", "/etc/passwd"),
        ("/etc//./passwd", "/etc/passwd"),
        ("/../../../etc/passwd", "/etc/passwd"),
        ("/etc/../../x", "/x"),
        ("/abs/x", "/etc/x"),
        ("/up/x", "/x"),
        ("/chain/x", "/etc/x"),
        ("/abs/../x", "/x"),
        ("/", ""),
    ],
)
def test_inside(root, tree, inside, path, expected):
    tree({"/abs": "->/etc", "/up": "->../../..", "/chain": "->abs"})
    assert inside(path) == expected


def test_last_link_is_kept_where_it_is_asked_for(tree, inside):
    tree({"/abs": "->/etc", "/etc/link": "->/etc/target"})
    assert inside("/abs/link", False) == "/etc/link"
    assert inside("/abs/link") == "/etc/target"


def test_loop_ends(tree, inside):
    tree({"/a": "->/b", "/b": "->/a"})
    with pytest.raises(OSError, match="symbolic links"):
        inside("/a/x")


@pytest.mark.parametrize("path", ["etc/passwd", "", "/a\0b"])
def test_bad_path_is_refused(inside, path):
    with pytest.raises(agent.Refusal):
        inside(path)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/a", ["/a"]),
        ("/{a,b}/x", ["/a/x", "/b/x"]),
        ("/{a,b}/{c,d}", ["/a/c", "/a/d", "/b/c", "/b/d"]),
        ("/x{,.d}", ["/x", "/x.d"]),
    ],
)
def test_alternatives(pattern, expected):
    assert agent.alternatives(pattern) == expected
