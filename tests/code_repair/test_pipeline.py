"""Programs of three files."""

import pytest

from llm_envs.code_repair.pipeline import is_like, one_file, three_files
from llm_envs.code_repair.repairs import families_of, passes, public_tests, stream
from llm_envs.code_repair.tool_task import make_task

COUNT = 140


@pytest.mark.parametrize(
    ("value", "samples", "like"),
    [
        (3, [1, 5], True),
        (6, [1, 5], False),
        (True, [0, 1], False),
        ("ab", ["", "abc"], True),
        ("ax", ["", "abc"], False),
        ([1, 2], [[], [0, 9, 9]], True),
        ([], [[1]], False),
        ([10], [[], [0, 9, 9]], False),
        ([[1]], [[[1]], [[2]]], False),  # a matrix may have to be square
        ({"a": 1}, [{"a": 1}], False),
        (None, [None], False),
    ],
)
def test_only_what_lies_between_samples_is_handed_on(value, samples, like):
    assert is_like(value, samples) is like


@pytest.mark.parametrize("split", ["train", "test"])
def test_files_work_together_where_types_allow(split):
    examples = make_task(3).problems(split)[:COUNT]
    pipelines = 0
    for example in examples:
        files, fixed, path = (example.metadata[key] for key in ("files", "fixed", "path"))
        assert list(files) == list(fixed) == ["main.py", "a.py", "b.py"]
        assert {name for name in files if files[name] != fixed[name]} == {path}
        assert passes(one_file(fixed), "run", example.hidden["tests"])
        assert not passes(one_file(files), "run", example.hidden["tests"])
        assert not passes(one_file(files), "run", example.metadata["public"])
        assert len(example.hidden["tests"]) >= 6
        pipelines += "name" not in files["main.py"]
    assert pipelines > (0.85 if split == "train" else 0.6) * COUNT
    assert {example.metadata["path"] for example in examples} == {"a.py", "b.py"}


def test_the_bug_is_as_often_first_as_last():
    paths = [example.metadata["path"] for example in make_task(3).problems("train")[:COUNT]]
    assert 0.35 < paths.count("a.py") / COUNT < 0.65


def test_without_a_partner_main_calls_by_name():
    repair, partner = (stream(name, "train", 1)[0] for name in ("map_cells", "change_values"))
    whole, files, fixed = three_files(repair, [partner], buggy_first=True)
    assert "def run(name, *args)" in files["main.py"]
    assert [test["args"][0] for test in (*whole.tests, *public_tests(whole))].count(repair.name) == len(
        (*whole.tests, *whole.shown)
    )
    assert passes(one_file(fixed), "run", whole.tests)
    assert not passes(one_file(files), "run", whole.tests)


def test_partners_come_from_the_same_split_and_families():
    names = {family.name for family in families_of("test")}
    originals = {stream(name, "test", 1)[0].original for name in names}
    for example in make_task(3).problems("test")[: len(names)]:
        assert {example.metadata["fixed"][path] for path in ("a.py", "b.py")} <= originals
