import shlex

from hypothesis import given
from hypothesis import strategies as st

from provision.remote import quoting


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_words_come_back(argv):
    assert shlex.split(quoting.join(argv)) == argv


def test_nothing_is_left_to_the_shell():
    assert quoting.join(["a b", "$(id)", ";"]) == "'a b' '$(id)' ';'"
