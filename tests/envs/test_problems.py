"""Problems from JSON lines."""

import json

import pytest

from llm_envs import Example, ProblemFileError, load_jsonl

GOOD = {"prompt": "1+1=", "hidden": {"answer": "2"}}


def write(tmp_path, *lines):
    path = tmp_path / "problems.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_reads_examples(tmp_path):
    chat = {
        "id": "b",
        "prompt": [{"role": "user", "content": "hi\u2028"}],
        "hidden": {},
        "gold": "x",
        "metadata": {"n": 1},
    }
    assert load_jsonl(write(tmp_path, GOOD, "", chat)) == [
        Example("1", "1+1=", {"answer": "2"}, "2"),
        Example("b", [{"role": "user", "content": "hi\u2028"}], {}, "x", {"n": 1}),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: not valid JSON"),
        ("[]", "line 2: expected an object, got list"),
        ("[" * 200_000, "line 2: not valid JSON .nested too deeply.$"),
        ('{"prompt": ' + "1" * 5000 + "}", "line 2: not valid JSON"),
        ("nul", "line 2: not valid JSON"),
        ({"hidden": {}}, "line 2, field 'prompt': missing"),
        ({**GOOD, "hidden": "2"}, "line 2, field 'hidden': expected an object, got '2'"),
        ({**GOOD, "prompt": []}, "line 2, field 'prompt': expected a string or a list"),
        ({**GOOD, "glod": "2"}, "line 2: unknown field 'glod': did you mean 'gold'"),
        ({**GOOD, "id": "1"}, "line 2, field 'id': '1' is already that of .*line 1$"),
    ],
)
def test_malformed_files(tmp_path, line, words):
    with pytest.raises(ProblemFileError, match=words) as caught:
        load_jsonl(write(tmp_path, GOOD, line))
    assert "\n" not in str(caught.value)


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(ProblemFileError, match="cannot read"):
        load_jsonl(tmp_path / "no.jsonl")
    with pytest.raises(ProblemFileError, match="holds no examples"):
        load_jsonl(write(tmp_path))


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text(json.dumps(GOOD), encoding="utf-8-sig")
    assert load_jsonl(path)[0].prompt == "1+1="


def test_a_path_that_is_none(tmp_path):
    with pytest.raises(ProblemFileError, match="cannot read"):
        load_jsonl("a\0b")
    with pytest.raises(ProblemFileError, match="cannot read"):
        load_jsonl(tmp_path)
