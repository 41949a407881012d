"""A task of one's own in ten lines: records, templates, splits, and what is said when something is wrong."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from llm_envs import Example, OptionError, ProblemFileError, Verifier, build_task, register_task
from llm_envs.records import RecordReader
from llm_envs.splits import SHARES, content_of, split_of

SUMS = [{"question": f"{a} + {b}", "answer": str(a + b)} for a in range(12) for b in range(12)]
PROMPT = "{question} = "


@pytest.fixture(autouse=True)
def registry():
    """Leaves the registry as it was."""
    before = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(before)


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def everything(task):
    return {split: list(task.problems(split)) for split in task.splits}


def test_a_list_of_records_is_a_task_at_both_levels():
    register_task("Sums", problems=SUMS, prompt=PROMPT, verifier="exact_match", max_new_tokens=8, max_length=64)
    env = gym.make("llm_envs/SumsText-v0", split="test")
    prompt, info = env.reset(seed=0)
    a, b = prompt.removesuffix(" = ").split(" + ")
    assert info["task"] == "Sums"
    assert env.step(str(int(a) + int(b)))[1] == 1.0
    env.reset(seed=0)
    assert env.step("12345")[1] == 0.0
    token_env = gym.make("llm_envs/Sums-v0")
    token_env.reset(seed=0)
    assert token_env.get_wrapper_attr("max_length") == 64
    assert token_env.unwrapped.format.max_new_tokens == 8  # type: ignore[attr-defined]


def test_what_the_template_does_not_show_is_hidden():
    reader = RecordReader(PROMPT)
    assert reader.read("here", "7", SUMS[13]) == Example("7", "1 + 1 = ", {"answer": "2"}, "2")
    whole = {"id": 3, "prompt": "p", "hidden": {"x": 1}, "gold": "g", "metadata": {"n": 1}}
    assert RecordReader().read("here", "7", whole) == Example("3", "p", {"x": 1}, "g", {"n": 1})
    assert RecordReader("{n}{prompt}").read("here", "7", whole).prompt == "1p"  # metadata may be shown


def test_functions_and_renamed_fields():
    record = {"Question": "2 + 3", "Solution": "2 + 3 = 5 #### 5"}
    reader = RecordReader(
        prompt=lambda r: [{"role": "user", "content": r["Question"]}],
        hidden=lambda r: {"answer": r["Solution"].split("#### ")[1]},
        gold="{Solution}",
    )
    example = reader.read("here", "0", record)
    assert example.prompt == [{"role": "user", "content": "2 + 3"}]
    assert (example.hidden, example.gold) == ({"answer": "5"}, "2 + 3 = 5 #### 5")
    renamed = RecordReader("{Question}", hidden={"answer": "Solution"}).read("here", "0", record)
    assert renamed.hidden == {"answer": record["Solution"]}


@pytest.mark.parametrize(
    ("arguments", "record", "words"),
    [
        ({"prompt": "{qestion}"}, SUMS[0], "here: unknown field of the template prompt 'qestion': did you mean 'quest"),
        ({}, SUMS[0], "here, field 'prompt': missing; write one into every record"),
        ({"prompt": PROMPT, "hidden": {"answer": "anser"}}, SUMS[0], "field that hidden names 'anser': did you mean"),
        ({"prompt": lambda r: r["x"]}, SUMS[0], "here: prompt cannot be made, KeyError: 'x'"),
        ({"prompt": lambda r: 3}, SUMS[0], "here, field 'prompt': expected a string or a list .* got 3"),
        ({}, {"prompt": "p", "hidden": {}, "glod": ""}, "here: unknown field 'glod': did you mean 'gold'"),
        ({}, ["p"], "here: expected an object, got list"),
        ({"prompt": "{q} ="}, {"q": None}, "here, field 'q': the template prompt shows it, and it is null"),
        ({"prompt": "{q}", "gold": "{a}"}, {"q": "x", "a": None}, "here, field 'a': the template gold shows it"),
        ({"prompt": "{n:>{w}}"}, {"n": 3}, "here: unknown field of the template prompt 'w'"),
        ({"prompt": "{x}"}, Example("1", "p", {}), "prompt, hidden and gold are for records"),
    ],
)
def test_one_sentence_about_a_record(arguments, record, words):
    with pytest.raises(ProblemFileError, match=words) as caught:
        RecordReader(**arguments).read("here", "0", record)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"problems": SUMS, "verifer": "x"}, "unknown option of register_task.'Bad'.* did you mean 'verifier'"),
        ({"task": "a:b", "problems": SUMS}, "takes a task, or problems"),
        ({}, "needs a task or problems"),
        ({"problems": SUMS, "prompt": "{}"}, "prompt must give the names of fields"),
        ({"problems": SUMS, "prompt": "{a"}, "prompt is no template"),
        ({"problems": SUMS, "prompt": "{question.__class__}"}, "name whole fields such as .* got {question.__class__}"),
        ({"problems": SUMS, "prompt": "{question[0]}"}, r"prompt must name whole fields .* got {question\[0\]}"),
        ({"problems": SUMS, "prompt": "{question:>{answer.real}}"}, "prompt must name whole fields"),
        ({"problems": SUMS, "gold": "{answer.__class__}"}, "gold must name whole fields"),
        *(
            ({"problems": SUMS, "splits": {"train": share, "test": 1}}, "a positive, finite number")
            for share in (float("inf"), float("nan"), 10**400, 0, -1, True, "1")
        ),
        ({"problems": SUMS, "splits": ("train", "test")}, "splits must give each split's share"),
        ({"problems": {"train": SUMS}, "splits": {"train": 1}}, "problems is a dict, whose keys are the splits"),
    ],
)
def test_mistakes_are_found_when_registering(options, words):
    with pytest.raises(OptionError, match=words):
        register_task("Bad", **options)
    assert "llm_envs/Bad-v0" not in gym.registry


def test_splits_are_disjoint_by_content_and_stay_when_problems_are_added():
    few, many = (everything(build_task("S", problems, prompt=PROMPT)) for problems in (SUMS[:100], SUMS))
    assert list(few) == ["train", "validation", "test"]
    assert sum(map(len, many.values())) == len(SUMS)
    assert 0.7 < len(many["train"]) / len(SUMS) < 0.9
    for split in few:
        assert {e.prompt for e in few[split]} <= {e.prompt for e in many[split]}
        assert all(split_of(content_of(e), SHARES) == split for e in many[split])


def test_equal_problems_are_never_split():
    twice = [{**record, "id": f"{i}/{n}"} for n, record in enumerate(SUMS) for i in (0, 1)]
    splits = everything(build_task("S", twice, prompt=PROMPT))
    assert all(len(examples) == 2 * len({e.prompt for e in examples}) for examples in splits.values())


def test_metadata_says_what_belongs_together():
    grouped = [{**record, "metadata": {"content_hash": str(n // 3)}} for n, record in enumerate(SUMS)]
    splits = everything(build_task("S", grouped, prompt=PROMPT))
    assert all(len(examples) % 3 == 0 for examples in splits.values())


def test_shares_of_splits():
    splits = everything(build_task("S", SUMS, prompt=PROMPT, splits={"lessons": 1, "exam": 1}))
    assert 0.35 < len(splits["exam"]) / len(SUMS) < 0.65
    assert len(everything(build_task("S", SUMS[:3], prompt=PROMPT, splits={"test": 1}))["test"]) == 3


def test_lists_that_are_too_small_say_what_to_do():
    with pytest.raises(ProblemFileError, match=r"3 examples are too few .* would be empty; give more, or problems="):
        build_task("S", SUMS[:3], prompt=PROMPT).problems("train")


def test_given_splits_must_not_share_content():
    same = {**SUMS[0], "id": "elsewhere"}
    task = build_task("S", {"train": SUMS[:5], "test": [*SUMS[5:8], same]}, prompt=PROMPT)
    with pytest.raises(
        ProblemFileError, match=r"'train' and 'test' must be disjoint, but problems\['test'\]\[3\] has the"
    ):
        task.problems("train")
    ids = build_task("S", {"train": [{**SUMS[0], "id": "a"}], "test": [{**SUMS[1], "id": "a"}]}, prompt=PROMPT)
    with pytest.raises(ProblemFileError, match="has the id of"):
        ids.problems("test")


def test_a_function_of_the_split_gives_records_or_examples():
    task = build_task(
        "S", lambda split: SUMS[:9] if split == "train" else SUMS[9:12], prompt=PROMPT, splits=["train", "x"]
    )
    assert task.splits == ("train", "x")
    assert task.problems("x")[0].id == "x/0"
    assert task.problems("x") is task.problems("x")
    with pytest.raises(OptionError, match="unknown split 'test'"):
        task.problems("test")
    overlapping = build_task("S", lambda split: SUMS[:9], prompt=PROMPT)
    overlapping.problems("train")
    with pytest.raises(ProblemFileError, match="must be disjoint"):
        overlapping.problems("test")


class OneByOne(Sequence):
    """Somebody's own sequence, which builds what it holds when it is read."""

    def __init__(self, start, size, make):
        self.start, self.size, self.make, self.read = start, size, make, set()

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if not 0 <= index < self.size:
            raise IndexError(index)
        self.read.add(index)
        return self.make(self.start + index)


def numbered(n):
    return Example(str(n), f"{n} + 1 = ", {"answer": str(n + 1)}, str(n + 1))


def test_sequences_of_ones_own_must_not_share_content_either():
    for make in (numbered, lambda n: {"prompt": f"{n} = ", "answer": str(n)}):
        sequences = {"train": OneByOne(0, 10**9, make), "test": OneByOne(900, 5, make)}
        task = build_task("S", lambda split, sequences=sequences: sequences[split], splits=("train", "test"))
        assert str(task.problems("train")[3].prompt).startswith("3 ")
        assert len(sequences["train"].read) < 5  # nothing to compare with yet
        with pytest.raises(
            ProblemFileError, match=r"must be disjoint, but problems\('test'\)\[0\] has the content of .*900"
        ):
            task.problems("test")
        assert len(sequences["train"].read) <= 1001
    mixed = build_task(
        "S", lambda split: OneByOne(0, 9, numbered) if split == "a" else [numbered(3)], splits=("a", "b")
    )
    mixed.problems("b")
    with pytest.raises(ProblemFileError, match="'b' and 'a' must be disjoint"):
        mixed.problems("a")
    with pytest.raises(ProblemFileError, match="must be disjoint"):
        build_task("S", {"a": OneByOne(0, 9, numbered), "b": OneByOne(8, 9, numbered)}).problems("a")


def test_sequences_of_ones_own_that_share_nothing_are_read_on_demand():
    sequences = {"train": OneByOne(0, 500, numbered), "test": OneByOne(500, 500, numbered)}
    task = build_task("S", sequences.__getitem__, splits=("train", "test"))
    assert task.problems("train") is sequences["train"]
    assert task.problems("test") is sequences["test"]

    class Callable(OneByOne):
        def __call__(self, split):
            raise AssertionError

    dealt = everything(build_task("S", Callable(0, 200, numbered)))
    assert sum(map(len, dealt.values())) == 200
    wrong = build_task("S", lambda split: OneByOne(0, 9, lambda n: 3), splits=("train",))
    with pytest.raises(ProblemFileError, match=r"problems\('train'\)\[0\]: expected an object, got int"):
        wrong.problems("train")


def test_a_split_may_be_made_from_another():
    task: Any
    task = build_task(
        "S",
        lambda split: SUMS[:9] if split == "a" else SUMS[len(task.problems("a")) :],
        splits=("a", "b"),
        prompt=PROMPT,
    )
    assert len(task.problems("b")) == len(SUMS) - 9


def test_data_that_are_nested_too_deeply_to_compare_are_one_sentence():
    deep = json.loads("[" * 800 + "]" * 800)
    with pytest.raises(ProblemFileError, match="nested too deeply"):
        build_task("S", {"train": [{"prompt": "p", "answer": deep}]}).problems("train")


def test_malformed_hidden_data_are_found_when_the_environment_is_made(tmp_path):
    path = write(tmp_path / "sums.jsonl", *SUMS[:2], {"question": "1 + 1", "answer": 2})
    register_task("Sums", problems={"train": path}, prompt=PROMPT, verifier="exact_match")
    words = r"sums\.jsonl, line 3: example 'train/3': hidden\['answer'\] must be a string, got 2"
    for make in (gym.make, lambda id: gym.make_vec(id, num_envs=2)):
        with pytest.raises(ProblemFileError, match=words):
            make("llm_envs/Sums-v0")
    gym.make("llm_envs/Sums-v0", verifier="word_list")  # which has nothing against it


def test_every_verifier_object_checks_the_examples_once():
    class Counting(Verifier):
        asked = 0

        def validate(self, example):
            self.asked += 1

        def verify(self, example, answer):
            raise AssertionError

    judge = Counting()
    register_task("Sums", problems={"train": SUMS[:7]}, prompt=PROMPT, verifier=judge)
    gym.make_vec("llm_envs/Sums-v0", num_envs=4)
    gym.make("llm_envs/Sums-v0")
    assert judge.asked == 7


def test_a_function_is_a_verifier():
    register_task(
        "Short", problems={"train": SUMS}, prompt=PROMPT, verifier=lambda example, answer: len(answer.text) < 3
    )
    env = gym.make("llm_envs/ShortText-v0")
    rewards = []
    for message in ("ab", "abc"):
        env.reset(seed=0)
        rewards.append(env.step(message)[1])
    assert rewards == [1.0, 0.0]


def test_anything_else_is_refused():
    with pytest.raises(OptionError, match="problems must be a path, a list of records"):
        build_task("S", 3).problems("train")
    with pytest.raises(ProblemFileError, match=r"problems\[1\], field 'id': 'a' is already that of problems\[0\]"):
        build_task("S", [{**record, "id": "a"} for record in SUMS], prompt=PROMPT).problems("train")
