"""Evaluate any agent on any environment.

    python -m agents evaluate --agent scripted --env llm_envs/CodeRepairText-v0 --split validation --episodes 100
    python -m agents evaluate --agent ppo --checkpoint runs/NAME/checkpoints/last --env llm_envs/CodeRepair-v0 --k 8
    python -m agents evaluate --agent ppo --options model FOLDER --env llm_envs/Arithmetic-v0    # any causal LM
    python -m agents list

The same command again goes on where an interrupted one stopped (`--out` names the file of answers).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
from rich.console import Console

import agents
from agents.checkpoint import SUMMARY, read_summary
from agents.evaluate import powers_of_two
from agents.files import write_json
from agents.jsonable import jsonable
from agents.models import spoken_by
from agents.policy_agent import PolicyAgent
from agents.results import by_family, evaluate_agent, summarise, summary_table


@dataclass
class Evaluate:
    """Pass rates of an agent on held-out problems, per family and kind of verdict."""

    agent: str
    """Name of the agent (`python -m agents list`), or module:Class."""
    env: str
    """Id of an environment at the agent's level."""
    split: str | None = "validation"
    """Split of the task; `None` for an environment without splits."""
    episodes: int = 100
    """Problems; the first ones of the split."""
    k: int = 1
    """Answers to each, for pass@k."""
    greedy: bool = False
    """The most probable answer instead of drawn ones (with k = 1)."""
    checkpoint: Path | None = None
    """What the agent's `save` wrote."""
    verifier: tuple[str, ...] = ()
    """Other verifiers that judge the same answers: names or module:Class."""
    env_options: tuple[str, ...] = ()
    """Further keyword arguments of the environment, as name value pairs; values are JSON where they can be. Those a
    checkpoint was trained with need not be said."""
    options: tuple[str, ...] = ()
    """Keyword arguments of the agent, as name value pairs: `device cuda`, or `model FOLDER` for a model of your own,
    whose tokenizer the environment then gets, too."""
    rows: int = 16
    """Episodes at once."""
    seed: int = 0
    """Of the draws."""
    out: Path | None = None
    """File of answers; evaluations/NAME.jsonl when not given."""

    def __post_init__(self) -> None:
        for name in ("episodes", "k", "rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.greedy and self.k > 1:
            raise ValueError("greedy answers to a problem are all the same: k must be 1")


@dataclass
class List:
    """Names of all agents."""


def evaluate(args: Evaluate) -> None:
    """Build the agent, play what is missing, print tables, write JSON beside the answers."""
    import_namespace(args.env)
    env_options, options = own_env_options(args), pairs("options", args.options)
    which = identity(args, options)
    if args.checkpoint is not None:
        env_options = options_of(args) | env_options
        agent = agents.load(args.agent, args.checkpoint, args.env, env_options=env_options, **options)
    else:
        agent = agents.make(args.agent, args.env, env_options=env_options, **options)
        if isinstance(agent, PolicyAgent) and isinstance(options["model"], str):
            env_options = spoken_by(agent.tokenizer) | env_options
    if args.verifier:
        env_options["extra_verifiers"] = list(args.verifier)
    out = args.out or Path("evaluations") / f"{default_name(args)}.jsonl"
    results = evaluate_agent(
        agent, args.env, problems(args, env_options), out, k=args.k, env_options=env_options,
        deterministic=args.greedy, seed=args.seed, rows=args.rows, which=which,
    )  # fmt: skip
    ks = powers_of_two(args.k)
    everything = summarise(results, ks)
    families = {name or "other": summarise(group, ks) for name, group in by_family(results).items()}
    console = Console(width=None if sys.stdout.isatty() else 160)
    groups = {"all": everything, **(families if len(families) > 1 else {})}
    console.print(summary_table(f"{args.agent} on {args.env}, {args.split}", groups, "reward"))
    console.print(f"verdicts: {', '.join(f'{kind} {n}' for kind, n in everything.kinds.items()) or 'none'}")
    summary = out.with_name(out.name.removesuffix(".jsonl") + ".summary.json")
    write_json(summary, {"all": everything, "families": families})
    print(f"answers: {out}, summary: {summary}")
    if everything.failed:
        reason = next(result.failed for result in results if result.failed)
        raise ValueError(f"{everything.failed} answers failed (the same command asks for them again): {reason}")


def own_env_options(args: Evaluate) -> dict[str, Any]:
    """What the command says about the environment; a judge that breaks costs the answer, not the evaluation."""
    env_options = pairs("env_options", args.env_options)
    if "split" in env_options:
        raise ValueError("give the split as --split, not in --env-options")
    if args.verifier and "extra_verifiers" in env_options:
        raise ValueError("give other judges as --verifier or in --env-options, not both")
    if args.split is not None:
        env_options["split"] = args.split
    if str(gym.spec(args.env.rpartition(":")[2]).entry_point).startswith("llm_envs."):
        env_options.setdefault("on_verifier_error", "unscored")
    return env_options


def identity(args: Evaluate, options: dict[str, Any]) -> dict[str, Any]:
    """What tells this agent from others of its name."""
    which: dict[str, Any] = {"options": without_key(options)}
    if args.checkpoint is not None:
        which["weights"] = digest(args.checkpoint)
    elif isinstance(options.get("model"), str) and Path(options["model"]).expanduser().exists():
        which["weights"] = digest(Path(options["model"]).expanduser())
    return which


def digest(path: Path) -> str:
    """Hash of a file, or of every file below a folder."""
    found = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as content:
                found.update(f"{file.relative_to(path)} {hashlib.file_digest(content, 'sha256').hexdigest()}".encode())
    return found.hexdigest()[:16]


def without_key(options: dict[str, Any]) -> dict[str, Any]:
    """Options that may be written down: an endpoint's key may not."""
    return {name: value for name, value in options.items() if name != "api_key"}


def problems(args: Evaluate, env_options: dict[str, Any]) -> range:
    """The first `episodes` problems, or all there are."""
    env = gym.make(args.env, disable_env_checker=True, **env_options)
    try:
        known = env.get_wrapper_attr("num_examples") if env.has_wrapper_attr("num_examples") else args.episodes
        return range(min(args.episodes, known))
    finally:
        env.close()


def options_of(args: Evaluate) -> dict[str, Any]:
    """What the environment needs to be the one the checkpoint was trained in: its tokenizer, format and budgets."""
    assert args.checkpoint is not None
    options: dict[str, Any] = {}
    if (args.checkpoint / SUMMARY).exists():
        trained_in = read_summary(args.checkpoint).get("env", {})
        own = args.env.rpartition(":")[2]
        options |= {
            name: value
            for name, value in trained_in.get("options", {}).items()
            if name == "tokenizer" or trained_in.get("id") == own
        }
    if any((args.checkpoint / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")):
        options["tokenizer"] = str(args.checkpoint)
    return options


def import_namespace(env: str) -> None:
    """Import the module of `module:namespace/Name-v0`, or the package named as the namespace, unless it is known."""
    module, _, own = env.rpartition(":")
    if own not in gym.registry and (module or "/" in own):
        try:
            importlib.import_module(module or own.partition("/")[0])
        except (ImportError, TypeError, ValueError) as error:
            raise ValueError(f"unknown environment {env!r}: {error}") from error


def pairs(what: str, values: tuple[str, ...]) -> dict[str, Any]:
    """("difficulty", "2") -> {"difficulty": 2}"""
    if len(values) % 2:
        raise ValueError(f"{what} must be pairs of a name and a value, got {' '.join(values)!r}")
    return {name: plain(value) for name, value in zip(values[::2], values[1::2], strict=True)}


def plain(text: str) -> Any:
    """JSON where it is some, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def default_name(args: Evaluate) -> str:
    """Readable, and different for evaluations that differ in more than how many answers they ask for."""
    options = without_key(pairs("options", args.options))
    which = jsonable({**vars(args), "options": options, "episodes": 0, "k": 0, "rows": 0, "out": None})
    digest = hashlib.sha256(json.dumps(which, sort_keys=True).encode()).hexdigest()[:8]
    return f"{args.agent.replace(':', '.')}-{args.env.split('/')[-1]}-{args.split}-{digest}"


def main() -> None:
    """Run a command; a person's mistake is one sentence."""
    import tyro  # of the command line alone
    from transformers.utils import logging

    if not sys.stdout.isatty():
        logging.disable_progress_bar()
    Command = Annotated[Evaluate, tyro.conf.subcommand("evaluate")] | Annotated[List, tyro.conf.subcommand("list")]
    try:
        args: Any = tyro.cli(Command)  # type: ignore[call-overload]
        if isinstance(args, List):
            print("\n".join(agents.names()))
        else:
            evaluate(args)
    except (ValueError, ImportError, OSError, TypeError, FloatingPointError, gym.error.Error) as error:
        raise SystemExit(f"error: {error}") from error
    except RuntimeError as error:
        if "VerifierError" not in (base.__name__ for base in type(error).__mro__):  # not ours to import
            raise
        raise SystemExit(f"error: the judge does not work: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    sys.path.insert(1, "")  # so that module:Class finds a module in the current folder
    main()
