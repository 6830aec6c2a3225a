"""Messages become text: by the model's template, once, whatever the template allows."""

import pytest

from curate.engines.api import Message
from curate.engines.prompts import render
from curate.engines.train_tiny import tokenizer

STRICT = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
    "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
)
USER = Message("user", "1 + 1?")
SYSTEM = Message("system", "Be brief.")


@pytest.fixture
def tokens():
    return tokenizer()


def test_with_a_template(tokens) -> None:
    tokens.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<a>"
    assert render(tokens, [SYSTEM, USER]) == "<system>Be brief.<user>1 + 1?<a>"


def test_a_template_that_takes_no_system_turn_gets_its_words_in_the_first_user_turn(tokens) -> None:
    tokens.chat_template = STRICT
    assert render(tokens, [SYSTEM, USER]) == "[user]Be brief.\n\n1 + 1?[assistant]"


def test_a_template_that_fails_either_way_says_so(tokens) -> None:
    tokens.chat_template = "{{ raise_exception('never') }}"
    with pytest.raises(Exception, match="never"):
        render(tokens, [USER])


def test_without_a_template_it_is_a_question_to_continue(tokens) -> None:
    tokens.chat_template = None
    assert render(tokens, [SYSTEM, USER]) == "Be brief.\n\nQuestion: 1 + 1?\nAnswer:"


def test_content_is_never_a_template(tokens) -> None:
    for text in ("{{ 7 * 7 }}", "{% for x in y %}", "{{ ''.__class__ }}"):
        assert text in render(tokens, [Message("user", text)])
