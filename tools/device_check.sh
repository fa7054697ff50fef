#!/usr/bin/env bash
# Builds the package with its CUDA module for the device at hand, tests it there and times it, in under eight minutes.
#
#   tools/device_check.sh [FOLDER]     reports go to FOLDER (default: build/device-check)
#
# Needs nvcc, CMake, pybind11, NumPy, pytest and PyTorch. Exits with 1 if something fails. On sixteen cores, the host's
# build takes a minute. Five minutes are left for the tests of the device, and one for the product sums on the host.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
reports=${1:-build/device-check}
mkdir -p "$reports"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$reports/device.txt"

cmake -S . -B build/device -DCMAKE_BUILD_TYPE=Release -DTIGHTDP_BUILD_PYTHON=ON -DTIGHTDP_BUILD_TESTS=ON \
    -DTIGHTDP_CUDA=AUTO -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
    -DPython_EXECUTABLE="$(command -v "$python")" > "$reports/configure.txt"
timeout 180 cmake --build build/device -j "$(nproc)" > "$reports/build.txt"
ctest --test-dir build/device --output-on-failure --timeout 60 > "$reports/host_tests.txt"
find build/device \( -name '_core*.so' -o -name '_testing*.so' -o -name '_cuda*.so' \) -exec cp {} python/tightdp/ \;

export PYTHONPATH=$PWD/python
"$python" -m tightdp info | tee "$reports/info.txt"
# Runs every test of the device. Then times clipping and noise, beside a copy and beside other libraries.
timeout 300 "$python" bench/cuda.py --quick | tee "$reports/timings.txt"
# Tests the product sums and their noise on the host.
timeout 60 "$python" -m pytest -q tests/release/test_product_sums.py -m "not slow" | tee "$reports/products.txt"
