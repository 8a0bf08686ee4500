# Sourced by the other scripts: where things are, and how many builds run at once. Every name can be set from outside.
GPTQ_BENCH_TORCH_VERSION=2.11.0
export GPTQ_BENCH_CACHE="${GPTQ_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gptq-bench}"
GPTQ_BENCH_VENV="$GPTQ_BENCH_CACHE/torch-$GPTQ_BENCH_TORCH_VERSION"
GPTQ_BENCH_REPORT_VENV="$GPTQ_BENCH_CACHE/report"  # matplotlib for scripts/plots, validators for tests
export GPTQ_BENCH_LOADERS="${GPTQ_BENCH_LOADERS:-$GPTQ_BENCH_CACHE/loaders-1}"  # the number rises with tests/loaders/requirements.txt
export GPTQ_BENCH_MODELS="${GPTQ_BENCH_MODELS:-$GPTQ_BENCH_CACHE/models}"
# Scripts, not the program, look for evaluation text beside the checkout.
if [ -d ../shared/data ]; then
  export GPTQ_BENCH_DATA="${GPTQ_BENCH_DATA:-$(cd ../shared/data && pwd)}"
  export GPTQ_BENCH_SHARED="${GPTQ_BENCH_SHARED:-$(cd ../shared && pwd)}"
fi
[ -d "$GPTQ_BENCH_VENV/bin" ] && export PATH="$GPTQ_BENCH_VENV/bin:$PATH"
GPTQ_BENCH_JOBS="${GPTQ_BENCH_JOBS:-$(nproc)}"

# build PRESET [TARGET...]: configures once and builds; silent but for errors unless GPTQ_BENCH_VERBOSE is set.
build() {
  local preset=$1
  shift
  [ -e "build/$preset/build.ninja" ] || cmake --preset "$preset" ${GPTQ_BENCH_CMAKE_ARGS:-} >"/tmp/gptq-bench-configure.$$" 2>&1 || {
    cat "/tmp/gptq-bench-configure.$$" >&2
    return 1
  }
  rm -f "/tmp/gptq-bench-configure.$$"
  cmake --build "build/$preset" -j "$GPTQ_BENCH_JOBS" ${*:+--target "$@"} -- --quiet
}
