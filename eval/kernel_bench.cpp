#include "eval/kernel_bench.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "eval/plain_read.h"
#include "eval/random_weight.h"
#include "eval/timed_runs.h"
#include "kernels/device_clocks.h"
#include "methods/device_stream.h"
#include "methods/half_type.h"
#include "methods/matmul_device.h"
#include "methods/packed_copies.h"

namespace gptqb {
namespace {

using kernels::HalfType;
using kernels::MatmulProblem;

// Lowest clock and everything that held it back, over the repetitions of one operation.
class ClockWatch {
 public:
  explicit ClockWatch(at::Device device) : device_(device) {}
  void look() {
    const kernels::DeviceClocks now =
        device_.is_cuda() ? kernels::cuda_clocks(device_.index()) : kernels::cpu_clocks();
    if (!now.unavailable.empty()) return;
    lowest_ = lowest_ == 0 ? now.clock_mhz : std::min(lowest_, now.clock_mhz);
    throttled_.insert(now.throttled.begin(), now.throttled.end());
  }
  int64_t lowest() const { return lowest_; }
  std::string throttled() const { return join({throttled_.begin(), throttled_.end()}, ", "); }

 private:
  at::Device device_;
  int64_t lowest_ = 0;
  std::set<std::string> throttled_;
};

// The device with a stream of its own, and how things are timed on it.
class Bench {
 public:
  Bench(const KernelBenchSpec& spec, at::Device device, Progress& progress,
        const KernelSource& source)
      : spec_(spec),
        device_(device),
        progress_(progress),
        source_(source),
        matmul_device_(matmul_device(device)) {
    if (device_.is_cuda()) stream_.emplace(device_);
    cache_bytes_ = device_.is_cuda() ? kernels::cuda_cache_bytes() : kernels::cpu_cache_bytes();
  }

  KernelBenchResult run() {
    const auto cases = cases_of(spec_, matmul_device_, source_);
    add_ceilings();
    // All dense products of a shape, then its kernels: each weight is made once.
    for (size_t i = 0; i < cases.size(); ++i) {
      const bool first = i == 0 || !same_shape(cases[i].problem, cases[i - 1].problem);
      for (size_t j = i; first && j < cases.size(); ++j)
        if (same_shape(cases[j].problem, cases[i].problem)) add_baseline(cases[j].problem);
      add_kernel(cases[i]);
    }
    progress_.begin("measurements", static_cast<int64_t>(runs_.size()));
    return result_of(run_timed(runs_, spec_.repetitions));
  }

 private:
  // What a run leaves beside its times.
  struct Outcome {
    explicit Outcome(at::Device device) : clocks(device) {}
    KernelRow row;
    ClockWatch clocks;
    ProductError error;
  };

  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions().device(device_).dtype(type);
  }
  void* handle() const { return stream_ ? stream_->handle() : nullptr; }
  void synchronize() const {
    if (stream_) stream_->synchronize();
  }

  // Made on the device: the largest weights hold 600 million numbers.
  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType type, int64_t seed) const {
    at::manual_seed(static_cast<uint64_t>(seed));
    return at::randn(sizes, options(at::kFloat)).to(type);
  }

  // Copies to rotate through; a graph of more calls than this takes too long to make.
  int64_t copies_of(int64_t bytes) const {
    constexpr int64_t kMost = 8192;
    return spec_.cold ? std::min(copies_that_are_cold(bytes), kMost) : 1;
  }
  int64_t copies_that_are_cold(int64_t bytes) const {
    // Of one large weight alone a part might stay, whatever the cache replaces.
    return std::max<int64_t>(
        kernels::copies_beyond_cache(bytes, std::max(2 * cache_bytes_, spec_.cold_bytes)), 2);
  }
  const char* cache_of(int64_t bytes) const {
    return copies_of(bytes) == copies_that_are_cold(bytes) ? "cold" : "warm";
  }

  std::unique_ptr<kernels::RepetitionTimer> timer(kernels::TimedCall call, int64_t copies,
                                                  ClockWatch* clocks) const {
    kernels::TimingOptions timing;
    timing.copies = copies;
    timing.seconds = spec_.seconds;
    if (clocks != nullptr) timing.during = [clocks] { clocks->look(); };
    return device_.is_cuda() ? kernels::time_on_cuda(std::move(call), timing, handle())
                             : kernels::time_on_cpu(std::move(call), timing);
  }

  // Runs come in this order; outcomes stand beside them, null for ceilings.
  void add(TimedRun run, std::shared_ptr<Outcome> outcome) {
    run.prepare = [prepare = std::move(run.prepare), this] {
      auto timer = prepare();
      progress_.advance();
      return timer;
    };
    runs_.push_back(std::move(run));
    outcomes_.push_back(std::move(outcome));
  }

  void add_ceilings() {
    TimedRun read;
    read.name = "ceiling/read";
    read.prepare = [this] { return time_read(); };
    add(std::move(read), nullptr);
    std::vector<at::ScalarType> types;
    if (device_.is_cpu()) types.push_back(at::kFloat);
    if (device_.is_cuda())
      for (const HalfType type : spec_.types) types.push_back(scalar_type(type));
    for (const at::ScalarType type : types) {
      TimedRun dense;
      dense.name = std::string("ceiling/dense/") + type_name(type);
      dense.prepare = [this, type] { return time_dense(type); };
      add(std::move(dense), nullptr);
    }
  }

  // All of it by one call.
  std::unique_ptr<kernels::RepetitionTimer> time_read() const {
    return timer(plain_read(device_, spec_.read_bytes, handle()), 1, nullptr);
  }

  int64_t dense_size() const { return device_.is_cuda() ? 8192 : 1024; }

  std::unique_ptr<kernels::RepetitionTimer> time_dense(at::ScalarType type) const {
    const int64_t size = dense_size();
    const auto left = normal({size, size}, type, 1);
    const auto right = normal({size, size}, type, 2);
    const auto product = at::full({size, size}, NAN, left.options());
    const auto call = [left, right, product](int64_t, void*) {
      auto out = product;
      at::mm_out(out, left, right.t());
    };
    call(0, handle());
    require_right(ExactProduct(right).error_of(left.narrow(0, 0, 64), {}, product.narrow(0, 0, 64)),
                  std::string("ceiling/dense/") + type_name(type));
    return timer(call, 1, nullptr);
  }

  static void require_right(const ProductError& error, const std::string& what) {
    if (error.right()) return;
    throw Error(what, "expected errors within their bound, got " + number_text(error.of_bound) +
                          " times the bound (largest error over largest value: " +
                          number_text(error.max_relative) +
                          "). Its result is wrong, so it was not timed");
  }

  // The type in which the dense product of a problem is taken.
  at::ScalarType dense_type(const MatmulProblem& problem) const {
    return device_.is_cpu() ? at::kFloat : scalar_type(problem.type);
  }

  std::string dense_name(const MatmulProblem& problem) const {
    return "dense/" + std::to_string(problem.k) + "x" + std::to_string(problem.n) +
           "/m:" + std::to_string(problem.m) + "/" + type_name(dense_type(problem));
  }

  void add_baseline(const MatmulProblem& problem) {
    TimedRun run;
    run.name = dense_name(problem);
    for (const TimedRun& known : runs_)
      if (known.name == run.name) return;
    auto outcome = std::make_shared<Outcome>(device_);
    KernelRow& row = outcome->row;
    row.kernel = "dense";
    row.k = problem.k;
    row.n = problem.n;
    row.m = problem.m;
    row.dtype = type_name(dense_type(problem));
    row.bits = 8 * static_cast<int64_t>(at::elementSize(dense_type(problem)));
    row.symmetric = true;
    row.reason = device_.is_cuda() ? "baseline: cuBLAS" : "baseline: ATen in float32";
    row.weight_bytes = problem.k * problem.n * row.bits / 8;
    row.cache = cache_of(row.weight_bytes);
    run.prepare = [this, problem, outcome] { return prepare_baseline(problem, *outcome); };
    add(std::move(run), std::move(outcome));
  }

  std::unique_ptr<kernels::RepetitionTimer> prepare_baseline(const MatmulProblem& problem,
                                                             Outcome& outcome) {
    const at::ScalarType type = dense_type(problem);
    const auto weights = dense_weights(problem, copies_of(outcome.row.weight_bytes));
    const auto x = normal({problem.m, problem.k}, type, spec_.seed + 1);
    const auto y = at::full({problem.m, problem.n}, NAN, x.options());
    const auto call = [weights, x, y](int64_t copy, void*) {
      auto out = y;
      at::mm_out(out, x, weights[static_cast<size_t>(copy)]);
    };
    call(0, handle());
    outcome.error = ExactProduct(weights[0].t()).error_of(x, {}, y);
    require_right(outcome.error, dense_name(problem));
    return timer(call, static_cast<int64_t>(weights.size()), &outcome.clocks);
  }

  // [k, n] each, as views of [n, k]; kept while baselines of a shape follow each other.
  const std::vector<at::Tensor>& dense_weights(const MatmulProblem& problem, int64_t copies) {
    const at::ScalarType type = dense_type(problem);
    if (!dense_.empty() && dense_[0].size(0) == problem.k && dense_[0].size(1) == problem.n &&
        dense_[0].scalar_type() == type)
      return dense_;
    quantized_.reset();
    dense_.clear();
    const auto one = normal({problem.n, problem.k}, type, spec_.seed)
                         .mul_(1 / std::sqrt(static_cast<double>(problem.k)));
    for (int64_t copy = 0; copy < copies; ++copy)
      dense_.push_back((copy == 0 ? one : one.clone()).t());
    return dense_;
  }

  void add_kernel(const KernelCase& each) {
    const MatmulProblem& problem = each.problem;
    auto outcome = std::make_shared<Outcome>(device_);
    KernelRow& row = outcome->row;
    row.kernel = each.choice.kernel;
    row.k = problem.k;
    row.n = problem.n;
    row.m = problem.m;
    row.bits = problem.bits;
    row.group_size = problem.group_size;
    row.symmetric = problem.symmetric;
    row.act_order = problem.act_order;
    row.dtype = type_name(problem.type);
    row.reason = each.choice.reason;
    TimedRun run;
    run.name = each.name;
    auto launched = std::make_shared<Launched>();
    run.prepare = [this, each, outcome, launched] {
      try {
        return prepare_kernel(each, *outcome, *launched);
      } catch (...) {
        *launched = {};  // what it holds is needed for the next one
        throw;
      }
    };
    run.finish = [this, each, launched] { check_after(each, *launched); };
    add(std::move(run), std::move(outcome));
  }

  // One weight and all that is made of it, kept while cases that share it follow each other.
  struct Quantized {
    explicit Quantized(const RandomWeightSpec& spec, at::Device device)
        : weight(spec), exact(weight.view(), device) {}
    RandomWeight weight;
    ExactProduct exact;
    std::map<std::string, std::shared_ptr<PackedCopies>, std::less<>> packed;  // by layout
  };

  Quantized& quantized(const MatmulProblem& problem) {
    const RandomWeightSpec wanted{.rows = problem.n,
                                  .columns = problem.k,
                                  .bits = problem.bits,
                                  .group_size = problem.group_size,
                                  .symmetric = problem.symmetric,
                                  .act_order = problem.act_order,
                                  .seed = static_cast<uint64_t>(spec_.seed)};
    if (!quantized_ || quantized_->weight.spec() != wanted) {
      dense_.clear();
      quantized_.reset();
      quantized_.emplace(wanted, device_);
    }
    return *quantized_;
  }

  // What a kernel works on, and what it gave when it was checked.
  struct Launched {
    std::shared_ptr<kernels::MatmulKernel> kernel;
    std::shared_ptr<PackedCopies> packed;
    at::Tensor x, y, workspace, checked;
  };

  std::unique_ptr<kernels::RepetitionTimer> prepare_kernel(const KernelCase& each, Outcome& outcome,
                                                           Launched& launched) {
    const MatmulProblem& problem = each.problem;
    launched.kernel = source_.make(each.choice.kernel);
    Quantized& weight = quantized(problem);
    const std::string layout(launched.kernel->layout());
    auto& packed = weight.packed[layout];
    if (!packed)
      packed = std::make_shared<PackedCopies>(layout, weight.weight.view(), device_,
                                              [&](int64_t bytes) { return copies_of(bytes); });
    launched.packed = packed;
    outcome.row.weight_bytes = packed->bytes();
    outcome.row.cache = cache_of(packed->bytes());

    launched.x = normal({problem.m, problem.k}, scalar_type(problem.type), spec_.seed + 1);
    launched.y = at::full({problem.m, problem.n}, NAN, launched.x.options());
    launched.workspace = at::zeros(
        {std::max<int64_t>(
            launched.kernel->workspace_bytes(packed->view(0).shape, problem.m, matmul_device_),
            16)},
        options(at::kByte));
    const auto call = [problem, launched](int64_t copy, void* stream) {
      kernels::MatmulArguments arguments;
      arguments.m = problem.m;
      arguments.type = problem.type;
      arguments.weight = launched.packed->view(copy);
      arguments.x = launched.x.const_data_ptr();
      arguments.y = launched.y.data_ptr();
      arguments.workspace = launched.workspace.data_ptr();
      launched.kernel->launch(arguments, stream);
    };
    call(0, handle());
    synchronize();
    outcome.error = weight.exact.error_of(launched.x, {}, launched.y);
    require_right(outcome.error, each.name);
    launched.checked = launched.y.clone();
    return timer(call, packed->copies(), &outcome.clocks);
  }

  // After thousands of launches in a row: the same bits.
  void check_after(const KernelCase& each, Launched& launched) const {
    const bool same = at::equal(launched.y, launched.checked);
    launched = {};
    if (!same)
      throw Error(each.name, "expected the same bits after many launches in a row, got others");
  }

  KernelBenchResult result_of(const std::vector<TimedResult>& times) const {
    KernelBenchResult result;
    std::map<std::string, double> dense_rates, dense_seconds;
    for (size_t i = 0; i < times.size(); ++i) {
      const TimedResult& time = times[i];
      if (outcomes_[i] != nullptr) {
        if (time.failure.empty()) dense_seconds[time.name] = time.median;
        continue;
      }
      if (!time.failure.empty()) throw Error(time.name, "not measured: " + time.failure);
      if (time.name == "ceiling/read") {
        result.read_bytes_per_second =
            static_cast<double>(plain_read_bytes(spec_.read_bytes)) / time.median;
        continue;
      }
      const std::string type = time.name.substr(time.name.rfind('/') + 1);
      dense_rates[type] = 2 * std::pow(static_cast<double>(dense_size()), 3) / time.median;
      result.dense_flops_per_second.emplace_back(type, dense_rates[type]);
    }
    for (size_t i = 0; i < times.size(); ++i) {
      if (outcomes_[i] == nullptr) continue;
      if (!times[i].failure.empty()) {
        result.failures.push_back({times[i].name, times[i].failure});
        continue;
      }
      result.rows.push_back(row_of(*outcomes_[i], times[i], result, dense_rates, dense_seconds));
    }
    if (std::string note = beyond_ceiling(result.rows); !note.empty()) result.notes.push_back(note);
    if (device_.is_cuda() && result.rows.size() > 0 && result.rows[0].clock_mhz == 0)
      result.notes.push_back("clocks could not be read: " +
                             kernels::cuda_clocks(device_.index()).unavailable);
    return result;
  }

  KernelRow row_of(const Outcome& outcome, const TimedResult& time, const KernelBenchResult& result,
                   const std::map<std::string, double>& dense_rates,
                   const std::map<std::string, double>& dense_seconds) const {
    KernelRow row = outcome.row;
    row.us = 1e6 * time.median;
    row.us_p10 = 1e6 * time.p10;
    row.us_p90 = 1e6 * time.p90;
    row.gb_per_s = 1e-9 * static_cast<double>(row.weight_bytes) / time.median;
    row.tflop_per_s = 2e-12 * static_cast<double>(row.m) * static_cast<double>(row.n) *
                      static_cast<double>(row.k) / time.median;
    MatmulProblem problem{.m = row.m, .n = row.n, .k = row.k};
    problem.type =
        row.dtype == type_name(HalfType::kBFloat16) ? HalfType::kBFloat16 : HalfType::kFloat16;
    row.read_gb_per_s = 1e-9 * result.read_bytes_per_second;
    row.dense_tflop_per_s = 1e-12 * dense_rates.at(type_name(dense_type(problem)));
    row.bandwidth_share = row.gb_per_s / row.read_gb_per_s;
    row.dense_rate_share = row.tflop_per_s / row.dense_tflop_per_s;
    const auto dense = dense_seconds.find(dense_name(problem));
    row.speedup_vs_f16 = dense == dense_seconds.end() ? NAN : dense->second / time.median;
    row.max_relative_error = outcome.error.max_relative;
    row.mean_relative_error = outcome.error.mean_relative;
    row.error_of_bound = outcome.error.of_bound;
    row.calls = time.calls;
    for (const double seconds : time.samples) row.samples.push_back(1e6 * seconds);
    row.repetitions = static_cast<int64_t>(time.samples.size());
    row.clock_mhz = outcome.clocks.lowest();
    row.throttled = outcome.clocks.throttled();
    return row;
  }

  const KernelBenchSpec& spec_;
  const at::Device device_;
  Progress& progress_;
  const KernelSource& source_;
  const kernels::MatmulDevice matmul_device_;
  std::optional<SideStream> stream_;
  int64_t cache_bytes_ = 0;
  std::vector<TimedRun> runs_;
  std::vector<std::shared_ptr<Outcome>> outcomes_;
  std::optional<Quantized> quantized_;
  std::vector<at::Tensor> dense_;
};

}  // namespace

double KernelRow::intensity() const {
  const double flops = 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const double element = dtype == "float32" ? 4 : 2;
  return flops / (static_cast<double>(weight_bytes) + element * static_cast<double>(m * (n + k)));
}

std::string beyond_ceiling(const std::vector<KernelRow>& rows) {
  constexpr double kNoise = 1.05;
  const auto beyond = std::count_if(rows.begin(), rows.end(), [](const KernelRow& row) {
    return row.cache == "cold" && std::max(row.bandwidth_share, row.dense_rate_share) > kNoise;
  });
  if (beyond == 0) return "";
  return std::to_string(beyond) + " of " + std::to_string(rows.size()) +
         " rows are beyond what the plain read or the large dense product reached: something else "
         "used this device meanwhile. Measure again when it is idle; the shares mean nothing now";
}

void check_kernel_bench(const KernelBenchSpec& spec, const kernels::MatmulDevice& device,
                        const KernelSource& source) {
  cases_of(spec, device, source);
}

KernelBenchResult bench_kernels(const KernelBenchSpec& spec, at::Device device, Progress& progress,
                                const KernelSource& source) {
  const c10::InferenceMode inference;
  return Bench(spec, device, progress, source).run();
}

}  // namespace gptqb
