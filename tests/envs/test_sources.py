"""Problems from folders, tables, generators and reasoning-gym."""

import importlib.util
import json
from random import Random
from typing import Any

import gymnasium as gym
import pytest

from llm_envs import OptionError, ProblemFileError, ProceduralProblems, build_task, check_task
from llm_envs.records import RecordReader
from llm_envs.registration import text_env
from llm_envs.sources.procedural import SIZES
from llm_envs.sources.reasoning_gym import make_task
from llm_envs.splits import SHARES, content_of
from llm_envs.text_env import TextEnv
from verifiers import Answer, Example, VerifierError

BUGGY, FIXED = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TESTS = {"entry": "add", "tests": [{"args": [1, 2], "expected": 3}]}
PYTEST = "from solution import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


def problem(folder, **files):
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name.replace("_DOT_", ".")).write_text(text if isinstance(text, str) else json.dumps(text))
    return folder


def test_a_folder_of_programs_is_a_task(tmp_path):
    problem(tmp_path / "one", buggy_DOT_py=BUGGY, tests_DOT_json=TESTS, solution_DOT_py=FIXED)
    told = {"prompt_DOT_txt": "Write add(a, b).", "buggy_DOT_py": BUGGY}
    problem(tmp_path / "two", **told, tests_DOT_json=TESTS, solution_DOT_py=FIXED)
    problem(tmp_path / ".git", config="")
    task = build_task("Adding", {"train": tmp_path}, verifier="function_tests")
    one, two = task.problems("train")
    assert (one.id, one.prompt, one.hidden, one.gold) == ("train/one", BUGGY, TESTS, FIXED)
    assert two.prompt == "Write add(a, b)."
    assert task.wrong(two) == BUGGY
    shown = build_task("Adding", {"train": tmp_path}, prompt="Repair:\n{buggy}").problems("train")
    assert [example.prompt for example in shown] == [f"Repair:\n{BUGGY}"] * 2
    report = check_task(task)
    assert report.ok, report


def test_a_folder_with_pytest_files(tmp_path):
    problem(tmp_path / "one", prompt_DOT_txt="Write add.", test_add_DOT_py=PYTEST, solution_DOT_py=FIXED)
    task = build_task("Adding", {"train": tmp_path}, verifier="pytest_files")
    assert task.problems("train")[0].hidden == {"files": {"test_add.py": PYTEST}, "module": "solution"}
    report = check_task(task)
    assert report.ok, report


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"tests_DOT_json": TESTS, "solution_DOT_py": FIXED}, "one: needs prompt.txt or buggy.py"),
        ({"buggy_DOT_py": BUGGY, "tests_DOT_json": TESTS}, "one: needs solution.py"),
        ({"buggy_DOT_py": BUGGY, "solution_DOT_py": FIXED}, "one: needs either tests.json or test_"),
        (
            {"buggy_DOT_py": BUGGY, "solution_DOT_py": FIXED, "tests_DOT_json": TESTS, "test_x_DOT_py": PYTEST},
            "one: needs either tests.json or test_",
        ),
        ({"buggy_DOT_py": BUGGY, "solution_DOT_py": FIXED, "tests_DOT_json": "{"}, "tests.json: not valid JSON"),
        ({"buggy_DOT_py": BUGGY, "solution_DOT_py": FIXED, "tests_DOT_json": []}, "tests.json: expected an object"),
        ({"buggy_DOT_py": "", "solution_DOT_py": "", "tests_DOT_json": "[" * 200_000}, "tests.json: not valid JSON"),
        ({"buggy_DOT_py": "", "solution_DOT_py": "", "tests_DOT_json": "1" * 5000}, "tests.json: not valid JSON"),
        ({"bugy_DOT_txt": BUGGY}, "bugy.txt: expected prompt.txt"),
    ],
)
def test_malformed_folders(tmp_path, files, words):
    problem(tmp_path / "one", **files)
    with pytest.raises(ProblemFileError, match=words):
        build_task("Adding", {"train": tmp_path}).problems("train")


def test_malformed_tests_name_the_folder_and_the_field(tmp_path):
    problem(tmp_path / "one", buggy_DOT_py=BUGGY, tests_DOT_json={"entry": "add", "tests": []}, solution_DOT_py=FIXED)
    report = check_task(build_task("Adding", {"train": tmp_path}, verifier="function_tests"))
    assert len(report.problems) == 1
    assert "no environment can be made" in report.problems[0]
    assert f"{tmp_path / 'one'}: example 'train/one': hidden['tests'] must be a non-empty list" in report.problems[0]


@pytest.mark.parametrize(
    ("files", "verifier"),
    [
        ({"tests_DOT_json": {"tests": [{"stdin": "1 2", "stdout": "3"}]}}, "program_tests"),
        ({"tests_DOT_json": TESTS}, "function_tests"),
        ({"test_add_DOT_py": PYTEST}, "pytest_files"),
    ],
)
def test_a_folder_without_a_verifier_says_which_one_to_name(tmp_path, files, verifier):
    problem(tmp_path / "one", buggy_DOT_py=BUGGY, solution_DOT_py=FIXED, **files)
    with pytest.raises(ProblemFileError, match=f"one: .*name the verifier of the task: verifier='{verifier}'$"):
        text_env(build_task("Adding", {"train": tmp_path}), {})
    text_env(build_task("Adding", {"train": tmp_path}, verifier=verifier), {}).close()


def test_a_folder_of_whole_programs_is_a_task(tmp_path):
    whole = {"buggy_DOT_py": "print(1)", "solution_DOT_py": "print(sum(map(int, input().split())))"}
    problem(tmp_path / "one", tests_DOT_json={"tests": [{"stdin": "1 2", "stdout": "3"}]}, **whole)
    report = check_task(build_task("Programs", {"train": tmp_path}, verifier="program_tests"))
    assert report.ok, report


def test_an_empty_folder(tmp_path):
    with pytest.raises(ProblemFileError, match="expected a subfolder for each problem"):
        build_task("Adding", {"train": tmp_path}).problems("train")


class Dataset:
    """What is used of `datasets.Dataset`."""

    column_names = ["Question", "Target"]

    def __init__(self, start=0, end=60):
        self.rows = [{"Question": f"{n} + 1", "Target": n + 1} for n in range(start, end)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        assert isinstance(index, int)
        return dict(self.rows[index])


def test_rows_of_a_dataset():
    hidden = {"answer": "Target"}
    task = build_task("D", Dataset(), prompt="{Question} = ", hidden=hidden, verifier="numeric")
    assert sum(len(task.problems(split)) for split in task.splits) == 60
    given = {"train": Dataset(0, 5), "test": Dataset(5, 8)}
    task = build_task("D", given, prompt="{Question} = ", hidden=hidden)
    assert task.problems("test")[0] == Example("test/0", "5 + 1 = ", {"answer": 6}, "6")
    with pytest.raises(ProblemFileError, match=r"problems\['train'\], row 0: unknown field of the template prompt"):
        build_task("D", given, prompt="{question}").problems("train")


def test_datasets_that_stream_are_refused():
    class Iterable:
        column_names = None

    with pytest.raises(OptionError, match="gives its rows by number, got Iterable; load it without streaming"):
        build_task("D", {"train": Iterable()}).problems("train")


def draw(rng):
    a, b = rng.randint(0, 9), rng.randint(0, 9)
    return {"prompt": f"{a} + {b} = ", "answer": str(a + b)} if a else None


def test_generated_splits_are_disjoint_by_content():
    task = build_task("Sum", ProceduralProblems(draw), verifier="exact_match")
    assert {split: len(task.problems(split)) for split in task.splits} == SIZES
    contents = {split: {content_of(e) for e in task.problems(split)[:400]} for split in task.splits}
    assert sum(map(len, contents.values())) == len(set.union(*contents.values())) > 80  # of 90, so draws do overlap
    assert check_task(task, limit=20).ok


def test_generated_examples_depend_on_split_and_index_alone():
    problems = ProceduralProblems(draw, {"train": 10**9, "validation": 5, "test": 5})
    one, two = (build_task("Sum", problems).problems("train") for _ in range(2))
    first = one[10**9 - 1]
    assert one[3].id == "train/3"
    assert (two[3], two[10**9 - 1]) == (one[3], first)
    other = build_task("Sum", ProceduralProblems(draw, seed=1)).problems("train")
    assert [e.prompt for e in other[:9]] != [e.prompt for e in one[:9]]


def test_what_a_generator_may_do_wrong():
    alone = build_task("One", ProceduralProblems(lambda rng: {"prompt": "p", "answer": "a"}))
    with pytest.raises(ProblemFileError, match="generate drew no problem of split .* can draw too few to be split"):
        [alone.problems(split)[0] for split in alone.splits]
    bad = build_task("Bad", ProceduralProblems(lambda rng: {"answer": "a"}))
    with pytest.raises(ProblemFileError, match="a problem that generate drew for train/0, field 'prompt': missing"):
        bad.problems("train")[0]
    with pytest.raises(OptionError, match="sizes must be positive integers"):
        ProceduralProblems(draw, {"train": 0})
    nothing: list[Any] = [5, {}, None]
    for sizes in nothing:
        with pytest.raises(OptionError, match="sizes must be a dict split -> number of examples"):
            ProceduralProblems(draw, sizes)
    with pytest.raises(OptionError, match="generate must be a function"):
        ProceduralProblems([{"prompt": "p", "answer": "a"}])  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="with the same names"):
        build_task("Bad", ProceduralProblems(draw, {"train": 5, "test": 5}))
    halves = build_task("Sum", ProceduralProblems(draw, {"a": 5, "b": 5}), splits={"a": 1, "b": 1})
    assert halves.problems("b")[4].id == "b/4"


def test_examples_from_a_generator():
    drawn = ProceduralProblems(lambda rng: Example("", f"{rng.random()}", {}), {"train": 3}).examples(
        "train", RecordReader(), {"train": 1.0}
    )
    assert [example.id for example in drawn] == ["train/0", "train/1", "train/2"]


needs_reasoning_gym = pytest.mark.skipif(
    importlib.util.find_spec("reasoning_gym") is None, reason="needs the extra reasoning-gym"
)


@needs_reasoning_gym
def test_reasoning_gym_is_split_by_question():
    import reasoning_gym

    first, second = (reasoning_gym.create_dataset("chain_sum", seed=seed, size=20) for seed in (0, 1))
    assert {item["question"] for item in first} & {item["question"] for item in second}  # by its own seeds, it overlaps
    task = make_task("leg_counting", {"min_animals": 1, "max_animals": 1})  # few questions
    prompts = {split: {e.prompt for e in task.problems(split)[:60]} for split in task.splits}
    assert sum(map(len, prompts.values())) == len(set.union(*prompts.values()))
    assert set(task.splits) == set(SHARES)


@needs_reasoning_gym
def test_reasoning_gym_is_judged_by_its_own_scorer():
    report = check_task("llm_envs.sources.reasoning_gym:make_task", limit=2, dataset="chain_sum")
    assert report.ok, report
    env = TextEnv(make_task("chain_sum"))
    verdicts = []
    for change in ("{}", "{}.00", "It is {}.", "no"):
        env.reset(options={"index": 0})
        verdicts.append(env.step(change.format(env.example.gold))[4]["verdict"])
    assert [verdict["kind"] for verdict in verdicts] == ["passed", "passed", "partial", "wrong"]
    assert verdicts[1]["score"] == 1.0 > verdicts[2]["score"]


@needs_reasoning_gym
@pytest.mark.parametrize(
    ("dataset", "config", "words"),
    [
        ("chain_sums", {}, "unknown dataset of reasoning-gym 'chain_sums': did you mean 'chain_sum'"),
        ("n_queens", {}, "may evaluate what the policy writes as Python"),
        ("countdown", {}, "may evaluate what the policy writes as Python"),
        ("ransom_note", {}, "are others in every process"),
        ("composite", {}, "register its parts one by one"),
        ("chain_sum", {"seed": 3}, "must leave out seed and size"),
        ("chain_sum", {"max_term": 3}, "does not take config="),
        ("chain_sum", {"min_terms": 0}, "does not take config="),
        ("chain_sum", {"min_terms": {1}}, "config must be made of plain values"),
        ("chain_sum", [3], "config must be a dict"),
        (3, {}, "dataset must be a string"),
    ],
)
def test_what_is_refused_of_reasoning_gym(dataset, config, words):
    with pytest.raises(OptionError, match=words):
        make_task(dataset, config)


@needs_reasoning_gym
def test_hidden_data_of_another_version_break_the_judge_and_not_the_answer():
    task = make_task("chain_sum")
    example = task.problems("train")[0]
    judge = TextEnv(task).verifier
    for field, value, words in (("question", "another", "gives another question"), ("index", "0", "'index'")):
        changed = Example("x", "", {**example.hidden, field: value})
        with pytest.raises(VerifierError, match=words):
            judge.verify(changed, Answer("1"))


@needs_reasoning_gym
@pytest.mark.slow
def test_every_dataset_of_reasoning_gym_is_a_task_or_is_refused():
    from reasoning_gym.factory import DATASETS

    refused, wrong = set(), {}
    for name in sorted(DATASETS):
        try:
            task = make_task(name, max_new_tokens=20_000)
        except OptionError:
            refused.add(name)
            continue
        report = check_task(task, limit=1, split="train", rebuild=False, max_length=100_000)
        if not report.ok:
            wrong[name] = report.problems
    assert len(refused) == 16
    faults = {name: {problem.split(":")[1].strip() for problem in problems} for name, problems in wrong.items()}
    assert all(fault == {"no gold answer"} for fault in faults.values()), wrong


def test_generators_draw_from_what_they_are_given():
    assert draw(Random(3)) == draw(Random(3))


def test_gymnasium_takes_options_of_a_source():
    if importlib.util.find_spec("reasoning_gym") is None:
        pytest.skip("needs the extra reasoning-gym")
    options = {"task": "llm_envs.sources.reasoning_gym:make_task", "dataset": "chain_sum", "config": {"max_terms": 3}}
    env = gym.make("llm_envs/TransformText-v0", **options)  # type: ignore[arg-type]
    assert env.reset(seed=0)[0].count("+") + env.reset(seed=0)[0].count("-") <= 2
