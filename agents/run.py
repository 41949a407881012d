"""One folder per run: configuration, TensorBoard events, sampled answers, checkpoints and the acceptance record.

config.json         every setting
metrics.jsonl       one line per iteration
tensorboard/        the same numbers
samples.jsonl       sampled answers with their verdicts
checkpoints/NAME/   what `AutoModelForCausalLM.from_pretrained` loads
record.json         what the run was, cost and reached
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import os
import platform
import resource
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from agents.rollout import Rollout


class RunFolder:
    """Writes a run's folder; nothing is created before `create`.

    Args:
        path: the folder; must not exist, or be empty.
    """

    def __init__(self, path: Path) -> None:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FileExistsError(f"run folder {path} exists and is not empty; give another one or remove it")
        self.path = path
        self._writer: Any = None

    def create(self, config: dict[str, Any]) -> None:
        """Make the folder and write the configuration."""
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "config.json", config)
        self._writer = SummaryWriter(str(self.path / "tensorboard"))

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

    def record(self, content: dict[str, Any]) -> None:
        """Write `record.json`, replacing an earlier one."""
        write_json(self.path / "record.json", content)

    def checkpoint(self, name: str) -> Path:
        """Where the checkpoint of that name goes."""
        return self.path / "checkpoints" / name

    def close(self) -> None:
        """Flush what is buffered."""
        if self._writer is not None:
            self._writer.close()

    def _append(self, name: str, lines: list[dict[str, Any]]) -> None:
        with (self.path / name).open("a") as file:
            file.writelines(json.dumps(jsonable(line)) + "\n" for line in lines)


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all: a reader never sees half a file."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.write_text(json.dumps(jsonable(content), indent=2) + "\n")
    os.replace(unfinished, path)


def jsonable(value: Any) -> Any:
    """Dataclasses, paths and tuples as plain JSON; NaN (undefined) as null, since JSON has no NaN."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return jsonable({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if getattr(value, "shape", None) == ():  # NumPy's and torch's numbers
        return jsonable(value.item())
    return str(value)


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


def weight_fingerprint(model: torch.nn.Module) -> str:
    """Hash of every parameter's bytes: two policies with the same fingerprint are the same policy."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]
