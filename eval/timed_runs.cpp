#include "eval/timed_runs.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "common/error.h"
#include "common/progress.h"
#include "common/statistics.h"

namespace gptqb {
namespace {

// Takes what Google Benchmark reports and prints nothing.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  explicit Collector(std::vector<TimedResult>& results) {
    for (TimedResult& result : results) by_name_[result.name] = &result;
    SetOutputStream(&output_);
    SetErrorStream(&output_);
  }

  bool ReportContext(const Context&) override { return true; }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const auto known = by_name_.find(run.run_name.function_name);
      if (known == by_name_.end() || !known->second->failure.empty()) continue;
      const double seconds = run.real_accumulated_time / static_cast<double>(run.iterations);
      TimedResult& result = *known->second;
      if (run.run_type == Run::RT_Iteration)
        result.samples.push_back(seconds);
      else if (run.aggregate_name == "median")
        result.median = seconds;
      else if (run.aggregate_name == "p10")
        result.p10 = seconds;
      else if (run.aggregate_name == "p90")
        result.p90 = seconds;
    }
  }

  std::string output() const { return output_.str(); }

 private:
  std::map<std::string, TimedResult*> by_name_;
  std::ostringstream output_;
};

// Registered benchmarks live as long as this.
class Registration {
 public:
  Registration() { benchmark::ClearRegisteredBenchmarks(); }
  ~Registration() { benchmark::ClearRegisteredBenchmarks(); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
};

// Flags of Google Benchmark are global, and set by its command line alone.
void list_only(bool on) {
  std::string program = "gptq-bench";
  std::string flag = std::string("--benchmark_list_tests=") + (on ? "true" : "false");
  char* argv[] = {program.data(), flag.data(), nullptr};
  int argc = 2;
  benchmark::Initialize(&argc, argv);
}

// One run, repetition after repetition.
class Repeated {
 public:
  Repeated(const TimedRun& run, TimedResult& result, int64_t repetitions)
      : run_(run), result_(result), left_(repetitions) {}

  void repeat(benchmark::State& state, bool& interrupted) {
    // Asked to leave a repetition out, Google Benchmark must still pass through its loop.
    try {
      if (interrupted || interrupt_requested()) throw Interrupted();
      if (!started_) timer_ = run_.prepare();
      started_ = true;
      if (timer_ == nullptr) {
        state.SkipWithError("failed before");
      } else {
        result_.calls = timer_->calls();
        for (auto _ : state) state.SetIterationTime(timer_->run());
        if (--left_ == 0) finish();
      }
      return;
    } catch (const Interrupted&) {
      interrupted = true;
    } catch (const std::exception& fault) {
      result_.failure = fault.what();
    }
    started_ = true;
    timer_.reset();
    state.SkipWithError("failed");
  }

 private:
  void finish() {
    timer_.reset();
    if (run_.finish) run_.finish();
  }

  const TimedRun& run_;
  TimedResult& result_;
  int64_t left_;
  bool started_ = false;
  std::unique_ptr<kernels::RepetitionTimer> timer_;
};

}  // namespace

std::vector<std::string> filtered_names(const std::vector<std::string>& names,
                                        const std::string& filter) {
  if (filter.empty()) return names;
  const Registration registration;
  for (const std::string& name : names)
    benchmark::RegisterBenchmark(name.c_str(), [](benchmark::State&) {});
  std::vector<TimedResult> none;
  Collector collector(none);
  list_only(true);
  benchmark::RunSpecifiedBenchmarks(&collector, filter);
  list_only(false);
  std::vector<std::string> selected;
  std::istringstream lines(collector.output());
  for (std::string line; std::getline(lines, line);)
    if (std::find(names.begin(), names.end(), line) != names.end()) selected.push_back(line);
  if (selected.empty())
    throw Error("filter", "expected a regular expression that is found in a name, got '" + filter +
                              "'. Names are like " + (names.empty() ? "" : names.front()));
  return selected;
}

std::vector<TimedResult> run_timed(const std::vector<TimedRun>& runs, int64_t repetitions) {
  std::vector<TimedResult> results;
  for (const TimedRun& run : runs) {
    results.emplace_back();
    results.back().name = run.name;
  }
  const Registration registration;
  bool interrupted = false;
  std::vector<std::unique_ptr<Repeated>> repeated;
  for (size_t i = 0; i < runs.size(); ++i) {
    repeated.push_back(std::make_unique<Repeated>(runs[i], results[i], repetitions));
    benchmark::RegisterBenchmark(
        runs[i].name.c_str(), [timed = repeated.back().get(), &interrupted](
                                  benchmark::State& state) { timed->repeat(state, interrupted); })
        ->Iterations(1)
        ->Repetitions(static_cast<int>(repetitions))
        ->UseManualTime()
        ->ComputeStatistics("p10", [](const auto& values) { return quantile(values, 0.1); })
        ->ComputeStatistics("p90", [](const auto& values) { return quantile(values, 0.9); });
  }
  Collector collector(results);
  if (!runs.empty()) benchmark::RunSpecifiedBenchmarks(&collector, "all");
  if (interrupted) throw Interrupted();
  return results;
}

}  // namespace gptqb
