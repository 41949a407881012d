"""Names, keyword arguments and sharing: what `gymnasium.make` passes on."""

import contextlib
import copy
import gc
import pickle
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from small_tasks import Share, make_task

import llm_envs
from llm_envs import ByteTokenizer, ClosedError, OptionError, check_task, register_task
from llm_envs.task import load_task

ID, TEXT_ID = "llm_envs/Reverse-v0", "llm_envs/ReverseText-v0"
WATCHED = "test_registration:Watched"
ROOT = Path(llm_envs.__file__).parents[1]


def run(code, *paths):
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {[*map(str, paths), str(ROOT)]}\n{textwrap.dedent(code)}"],
        capture_output=True,
        text=True,
        timeout=60,
    )


def make(id: Any, **options: Any) -> Any:
    """`gym.make`, typed so that attributes of our own environments may be read."""
    return gym.make(id, **options)


def test_importing_imports_no_torch():
    done = run("import llm_envs; print([m for m in ('torch', 'transformers') if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_make_without_import():
    code = """
        import gymnasium
        env = gymnasium.make("llm_envs:llm_envs/CodeRepair-v0", task="small_tasks:make_task")
        env.reset()
        print(env.spec.id)
    """
    done = run(code, Path(__file__).parent)
    assert done.stdout.strip() == "llm_envs/CodeRepair-v0", done.stderr


def test_another_distribution_called_verifiers(tmp_path):
    (tmp_path / "verifiers").mkdir()
    (tmp_path / "verifiers" / "__init__.py").write_text("class Environment: ...\n")
    done = run("import llm_envs", tmp_path)
    assert "ImportError: llm_envs needs the package `verifiers` that comes with it" in done.stderr


def test_factory_options_and_environment_options():
    env = make(ID, budget=5, max_length=99, split="test").unwrapped
    assert env.format.max_new_tokens == 5
    assert env.max_length == 99
    assert env.env.split == "test"
    assert make(ID, budget=5, max_new_tokens=3).unwrapped.format.max_new_tokens == 3


@pytest.mark.parametrize(
    ("id", "options", "words"),
    [
        (ID, {"bugdet": 5}, "unknown option 'bugdet': did you mean 'budget'"),
        (ID, {"max_lenght": 5}, "unknown option 'max_lenght': did you mean 'max_length'"),
        (TEXT_ID, {"strict": True}, "unknown option 'strict'"),
        (ID, {"split": "tset"}, "unknown split of task 'Reverse' 'tset': did you mean 'test'"),
        (ID, {"verifier": "exact_mach"}, "unknown verifier 'exact_mach'.*Did you mean 'exact_match'"),
        (ID, {"task": "Revers"}, "unknown task 'Revers'.*module:function"),
        (ID, {"task": "small_tasks:mak_task"}, "cannot load the task"),
        (ID, {"task": "no_such_module:make_task"}, "No module named 'no_such_module'"),
    ],
)
def test_one_sentence_for_what_is_unknown(id, options, words):
    with pytest.raises(ValueError, match=words):
        make(id, **options)
    if id == ID:
        with pytest.raises(ValueError, match=words):
            gym.make_vec(id, num_envs=2, **options)


def test_tasks_are_built_once_per_options():
    tasks = [make(TEXT_ID, **options).unwrapped.task for options in ({}, {}, {"budget": 9}, {"budget": 9})]
    assert tasks[0] is tasks[1]
    assert tasks[2] is tasks[3] is not tasks[0]
    assert pickle.loads(pickle.dumps(tasks[2])) is tasks[2]
    assert copy.deepcopy(tasks[2]) is tasks[2]


def test_objects_are_shared_when_specs_are_copied():
    class Uncopyable(Share):
        def __deepcopy__(self, memo):
            raise AssertionError("a verifier was copied")

    judge, tokenizer = Uncopyable(), ByteTokenizer()
    env = make(ID, verifier=judge, tokenizer=tokenizer, extra_verifiers=[judge])
    again = make(env.spec)
    assert again.unwrapped.env.verifier is judge
    assert again.unwrapped.env.extra_verifiers == {"Uncopyable": judge}
    assert again.unwrapped.format.tokenizer is tokenizer
    vector = gym.make_vec(ID, num_envs=2, verifier=judge)
    assert vector.spec is not None
    assert copy.deepcopy(vector.spec).kwargs["verifier"].value is judge


def test_objects_are_rebuilt_when_pickled():
    env = make(TEXT_ID, verifier=Share(weight=0.25))
    assert pickle.loads(pickle.dumps(env)).unwrapped.verifier.weight == 0.25
    assert make(pickle.loads(pickle.dumps(env.spec))).unwrapped.verifier.weight == 0.25


@pytest.mark.parametrize("task", [make_task(budget=6), lambda: make_task(budget=6)], ids=["object", "function"])
def test_register_task(task):
    register_task("Mine", task)
    try:
        env = make("llm_envs/Mine-v0")
        assert env.unwrapped.format.max_new_tokens == 6
        assert make(make("llm_envs/MineText-v0").spec).reset()[1]["task"] == "Reverse"
        assert '"task": "Mine"' in env.spec.to_json()
        with pytest.raises(OptionError, match="unknown option 'budget'"):
            make("llm_envs/Mine-v0", budget=3)
        register_task("Mine", make_task(budget=4))  # again: replaced
        assert load_task("Mine").max_new_tokens == 4
    finally:
        for id in ("llm_envs/Mine-v0", "llm_envs/MineText-v0"):
            del gym.registry[id]


@pytest.mark.parametrize("name", ["", None, 5, "my task", "a/b", "é"])
def test_names_that_cannot_be_registered(name):
    before = set(gym.registry)
    with pytest.raises(OptionError, match="a task's name has only letters"):
        register_task(name, make_task())
    assert set(gym.registry) == before


def test_a_name_whose_ids_are_another_tasks():
    spec = gym.registry[TEXT_ID]
    with pytest.raises(OptionError, match="llm_envs/ReverseText-v0 belongs to the task 'Reverse'"):
        register_task("ReverseText", make_task())
    assert gym.registry[TEXT_ID] is spec
    assert "llm_envs/ReverseText-v0" in gym.registry


class Watched(Share):
    """Counts in the class, since environments make one of their own."""

    closes = 0

    def close(self):
        Watched.closes += 1


@pytest.mark.parametrize("use", [
    lambda: make(ID, verifier=WATCHED, max_length=-1),
    lambda: gym.make_vec(ID, num_envs=3, verifier=WATCHED, max_length=-1),
    lambda: check_task(ID, limit=1, verifier=WATCHED, rebuild=False),
])  # fmt: skip
def test_verifiers_are_given_back(use):
    Watched.closes = 0
    with contextlib.suppress(OptionError):
        use()
    assert Watched.closes


def test_a_loan_is_given_back_by_every_close_and_when_forgotten():
    Watched.closes = 0
    first, second = (make(TEXT_ID, verifier=WATCHED).unwrapped for _ in range(2))
    first.close()
    first.close()
    assert Watched.closes == 0, "the second has it"
    second.close()
    assert Watched.closes == 1
    with pytest.raises(ClosedError, match="TextEnv.reset called after close; make a new environment"):
        second.reset()
    third = make(TEXT_ID, verifier=WATCHED)
    del third
    gc.collect()
    deadline = time.monotonic() + 10
    while Watched.closes == 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Watched.closes == 2
