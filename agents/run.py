"""One folder per run: configuration, TensorBoard events, sampled answers, checkpoints and the acceptance record.

config.json         every setting
preparation.json    seconds that problems and warm-up took
sensitivity.json    which part of the reward rules the last batch's advantages
metrics.jsonl       one line per iteration
tensorboard/        the same numbers
samples.jsonl       sampled answers with their verdicts
checkpoints/NAME/   what `AutoModelForCausalLM.from_pretrained` loads; NAME is the iteration
best.json           which of them did best on held-out problems
before.json         held-out evaluations before training
stopped/            the batch on which a loss became NaN
record.json         what the run was, cost and reached
"""

from __future__ import annotations

import json
import math
import platform
import resource
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from agents.batch import save_batch
from agents.checkpoint import CheckpointError, read_summary
from agents.evaluate import Evaluation
from agents.files import write_json, write_text
from agents.jsonable import jsonable
from agents.rollout import Rollout


class RunFolder:
    """Writes a run's folder; nothing is created before `create`, or touched before `resume`.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.best: float | None = None
        self._writer: Any = None

    def create(self, config: dict[str, Any]) -> None:
        """Make the folder and write the configuration.

        Raises:
            FileExistsError: there is something in it.
        """
        self.require_new()
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "config.json", config)
        self._open_writer(None)

    def require_new(self) -> None:
        """Raises FileExistsError when the folder is there and not empty."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise FileExistsError(f"run folder {self.path} exists and is not empty; give another one or remove it")

    def resume(self) -> Path | None:
        """Open the folder again; returns its newest checkpoint, and forgets what was logged after that.

        Raises:
            FileNotFoundError: no run was started in the folder.
        """
        if not (self.path / "config.json").exists():
            raise FileNotFoundError(f"{self.path} is not a run folder: config.json is missing")
        for pattern in ("*.unfinished", "*.removed"):
            for rest in (self.path / "checkpoints").glob(pattern):
                shutil.rmtree(rest)
        newest = self.newest_checkpoint()
        iteration = read_summary(newest)["iteration"] if newest is not None else 0
        for name in ("metrics.jsonl", "samples.jsonl"):
            lines = [line for line in read_lines(self.path / name) if line["iteration"] <= iteration]
            write_text(self.path / name, "".join(json.dumps(line) + "\n" for line in lines))
        if (self.path / "best.json").exists():
            best = json.loads((self.path / "best.json").read_text())
            self.best = best["score"] if best["iteration"] <= iteration else None
        self._open_writer(iteration + 1)
        return newest

    def iteration(self, agent: Any, metrics: dict[str, float], batch: Any) -> None:
        """Keep an iteration: numbers, a few answers, and a checkpoint when one is due or it is the best so far.

        Raises:
            OSError: the disk is full, or the like; names the last good checkpoint.
        """
        try:
            self._iteration(agent, metrics, batch)
        except OSError as error:
            good = self.newest_checkpoint() or "none was written"
            raise OSError(f"iteration {agent.iteration} not kept: {error}; the last good checkpoint: {good}") from error

    def _iteration(self, agent: Any, metrics: dict[str, float], batch: Any) -> None:
        self.log(metrics, agent.iteration)
        decode = getattr(agent.env.unwrapped, "decode", None)
        if decode is not None:
            self.log_samples(batch.rollout, decode, agent.iteration)
        score, every = metrics.get("eval/sampled"), agent.config.checkpoint_every
        best = every and score is not None and score > (-math.inf if self.best is None else self.best)  # never NaN
        if best or (every and agent.iteration % every == 0):
            folder = self.checkpoint(f"{agent.iteration:06d}")
            agent.save(folder)
            if best:
                self.best = score
                write_json(
                    self.path / "best.json", {"checkpoint": folder.name, "iteration": agent.iteration, "score": score}
                )
            self.prune(agent.config.keep_checkpoints)

    def log(self, metrics: dict[str, float], iteration: int) -> None:
        """One iteration's numbers, to TensorBoard and to `metrics.jsonl`."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, iteration)
        self._append("metrics.jsonl", [{"iteration": iteration, **metrics}])

    def log_samples(self, rollout: Rollout, decode: Any, iteration: int, limit: int = 8) -> None:
        """The first few answers of a batch with their verdicts."""
        lines: list[dict[str, Any]] = []
        for i, (prompt, answer) in enumerate(rollout.texts(decode)[:limit]):
            info = rollout.infos[i]
            kept: dict[str, Any] = {
                name: info[name] for name in ("example_id", "verdict", "stop_reason") if name in info
            }
            lines.append(
                {"iteration": iteration, "prompt": prompt, "answer": answer, "score": float(rollout.scores[i]), **kept}
            )
        self._append("samples.jsonl", lines)

    def history(self) -> list[dict[str, float]]:
        """The metrics of every iteration so far; undefined ones are NaN again."""
        lines = read_lines(self.path / "metrics.jsonl")
        return [{name: float("nan") if value is None else value for name, value in line.items()} for line in lines]

    def keep(self, name: str, evaluations: dict[str, Evaluation]) -> dict[str, Evaluation]:
        """Write held-out evaluations to a file of the folder; returns them."""
        write_json(self.path / name, evaluations)
        return evaluations

    def kept(self, name: str) -> dict[str, Evaluation] | None:
        """Evaluations written by `keep`; None when there is no such file."""
        path = self.path / name
        if not path.exists():
            return None
        return {split: Evaluation.from_json(found) for split, found in json.loads(path.read_text()).items()}

    def save_last(self, agent: Any) -> None:
        """Write the checkpoint `last`; an earlier one is there until the new one is whole."""
        last, earlier = self.checkpoint("last"), self.checkpoint("last.replaced")
        if last.exists():
            remove(earlier)
            last.rename(earlier)
        agent.save(last)
        remove(earlier)

    def record(self, content: dict[str, Any]) -> None:
        """Write `record.json`, replacing an earlier one."""
        write_json(self.path / "record.json", content)

    def checkpoint(self, name: str) -> Path:
        """Where the checkpoint of that name goes."""
        return self.path / "checkpoints" / name

    def newest_checkpoint(self) -> Path | None:
        """The checkpoint of the latest iteration; folders that are none are passed by."""
        found: list[tuple[int, str, Path]] = []
        for folder in (self.path / "checkpoints").glob("*"):
            if folder.name.endswith((".unfinished", ".removed")):
                continue
            try:
                found.append((read_summary(folder)["iteration"], folder.name, folder))
            except CheckpointError:
                continue
        return max(found)[2] if found else None

    def prune(self, keep: int) -> None:
        """Remove all but the newest `keep` numbered checkpoints and the best one."""
        best = self.path / "best.json"
        kept = json.loads(best.read_text())["checkpoint"] if best.exists() else None
        numbered = sorted(folder for folder in (self.path / "checkpoints").glob("*") if folder.name.isdigit())
        for folder in numbered[:-keep]:
            if folder.name != kept:
                remove(folder)

    def stopped(self, batch: Any, iteration: int) -> str:
        """Keep the batch on which training stopped; says where it is and where the last good weights are."""
        file = self.path / "stopped" / f"{iteration:06d}.pt"
        file.parent.mkdir(exist_ok=True)
        save_batch(file.with_suffix(".unfinished"), batch)
        file.with_suffix(".unfinished").rename(file)
        newest = self.newest_checkpoint()
        return f"its batch is {file}, the last good checkpoint: {newest or 'none was written'}"

    def close(self) -> None:
        """Flush what is buffered."""
        if self._writer is not None:
            self._writer.close()

    def _open_writer(self, purge_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        self._writer = SummaryWriter(str(self.path / "tensorboard"), purge_step=purge_step)

    def _append(self, name: str, lines: list[dict[str, Any]]) -> None:
        with (self.path / name).open("a") as file:
            file.writelines(json.dumps(jsonable(line)) + "\n" for line in lines)


def remove(folder: Path) -> None:
    """Remove a checkpoint; half removed, it is not taken for one."""
    if folder.exists():
        gone = folder.with_name(folder.name + ".removed")
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines of a file; a last line that was cut off when the process died is left out."""
    lines: list[dict[str, Any]] = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def versions() -> dict[str, str]:
    """What ran: interpreter, libraries, machine."""
    packages = ("llm-envs", "torch", "transformers", "gymnasium", "numpy", "tokenizers")
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found | {"platform": platform.platform(), "threads": str(torch.get_num_threads())}


def peak_memory(device: torch.device) -> dict[str, int]:
    """Most bytes held so far: resident memory of this process and, on CUDA, allocated device memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    peak = {"process_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}
    if device.type == "cuda":
        peak["cuda_bytes"] = torch.cuda.max_memory_allocated(device)
    return peak
