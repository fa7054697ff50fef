#!/usr/bin/env bash
# Builds the package with its CUDA module for the device at hand, tests it there and times it, in under eight minutes.
#
#   tools/device_check.sh [FOLDER]     seven reports go to FOLDER (default: build/device-check)
#
# Needs nvcc, CMake, pybind11, NumPy, pytest, hypothesis and PyTorch. A part that fails does not stop the others: the
# last lines say which parts failed, and the exit code is then 1. The host's build is a minute on sixteen cores. The
# times of exact steps on the host have four cores of their own, beside the tests of the device.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
reports=${1:-build/device-check}
mkdir -p "$reports"
failed=""
part() {  # part NAME SECONDS COMMAND...: runs a command, whose output is the end of the report NAME
    local name=$1 seconds=$2
    shift 2
    echo "== $*" >> "$reports/$name.txt"
    timeout "$seconds" "$@" >> "$reports/$name.txt" 2>&1 && return
    failed+=" $name"
    echo "FAILED: $*" | tee -a "$reports/$name.txt"
}
rm -f "$reports"/*.txt
part machine 20 nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

part build 60 cmake -S . -B build/device -DCMAKE_BUILD_TYPE=Release -DTIGHTDP_BUILD_PYTHON=ON \
    -DTIGHTDP_BUILD_TESTS=ON -DTIGHTDP_CUDA=AUTO -Dpybind11_DIR="$("$python" -m pybind11 --cmakedir)" \
    -DPython_EXECUTABLE="$(command -v "$python")"
part build 180 cmake --build build/device -j "$(nproc)"
find build/device \( -name '_core*.so' -o -name '_testing*.so' -o -name '_cuda*.so' \) -exec cp {} python/tightdp/ \;
export PYTHONPATH=$PWD/python PYTHONUNBUFFERED=1
part machine 30 "$python" -m tightdp info

# On the host: its C++ tests, products of integers, and exact steps on one thread each.
part host 90 ctest --test-dir build/device --output-on-failure --timeout 60
part host 90 "$python" -m pytest -q tests/release/test_product_sums.py -m "not slow"
steps=()
for model in mlp cnn transformer lora; do
    OMP_NUM_THREADS=1 taskset -c ${#steps[@]} timeout 200 "$python" bench/torch_step.py --cpu --memory --models $model \
        --ways "no privacy" auto exact >> "$reports/host_steps.txt" 2>&1 &
    steps+=($!)
done
# On the device: every test, steps of training, then clip and noise beside a copy and beside other libraries.
rest=4-$(($(nproc) - 1))
part device_tests 150 taskset -c "$rest" "$python" -m pytest -q tests/cuda
part device_steps 100 taskset -c "$rest" "$python" bench/torch_step.py --cuda --rounds 9 \
    --ways "no privacy" "one pass" auto exact
part device_times 150 taskset -c "$rest" "$python" bench/cuda.py --quick --untested
for step in "${steps[@]}"; do
    wait "$step" || failed+=" host_steps"
done
tail -n 12 "$reports"/*.txt
echo "failed:${failed:- nothing}"
[ -z "$failed" ]
