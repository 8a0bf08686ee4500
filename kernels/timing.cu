#include <algorithm>
#include <utility>

#include "kernels/cuda_check.h"
#include "kernels/timing.h"

namespace gptqb::kernels {
namespace {

class Event {
 public:
  Event() { GPTQB_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// An executable graph, or none.
class Graph {
 public:
  Graph() = default;
  ~Graph() { reset(nullptr); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void reset(cudaGraphExec_t exec) {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    exec_ = exec;
  }
  cudaGraphExec_t get() const { return exec_; }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

class CudaTimer final : public RepetitionTimer {
 public:
  CudaTimer(TimedCall call, const TimingOptions& options, void* stream)
      : call_(std::move(call)), options_(options), stream_(static_cast<cudaStream_t>(stream)) {
    if (stream == nullptr)
      throw Error("time_on_cuda",
                  "expected a stream of its own, got the default one, on which "
                  "nothing can be captured");
    // Outside a capture once: code is loaded and libraries take their workspaces. Then once more
    // for a first guess, which is on the long side: it holds the launch.
    call_(0, stream_);
    GPTQB_CUDA(cudaEventRecord(start_.get(), stream_));
    call_(0, stream_);
    GPTQB_CUDA(cudaEventRecord(stop_.get(), stream_));
    capture(calls_per_graph(elapsed(), options_));
    seconds_a_call({});
    const int64_t wanted = calls_per_graph(seconds_a_call({}), options_);
    if (wanted > calls_) capture(wanted);
    for (int64_t i = 0; i < options_.warmup; ++i) seconds_a_call({});
  }

  double run() override { return seconds_a_call(options_.during); }
  int64_t calls() const override { return calls_; }

 private:
  void capture(int64_t calls) {
    cudaGraph_t graph = nullptr;
    GPTQB_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    try {
      for (int64_t i = 0; i < calls; ++i) call_(i % options_.copies, stream_);
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    GPTQB_CUDA(cudaStreamEndCapture(stream_, &graph));
    size_t nodes = 0;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    cudaGraphExec_t exec = nullptr;
    const cudaError_t made = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(made, "cudaGraphInstantiate");
    graph_.reset(exec);
    calls_ = calls;
    // A launch on another stream than the captured one would run at once, and the graph be empty.
    if (nodes < static_cast<size_t>(calls))
      throw Error("time_on_cuda", "expected at least " + std::to_string(calls) +
                                      " captured operations, got " + std::to_string(nodes) +
                                      ": the operation runs on another stream than it was given");
    GPTQB_CUDA(cudaGraphUpload(exec, stream_));
    GPTQB_CUDA(cudaStreamSynchronize(stream_));
  }

  double seconds_a_call(const std::function<void()>& during) {
    GPTQB_CUDA(cudaEventRecord(start_.get(), stream_));
    GPTQB_CUDA(cudaGraphLaunch(graph_.get(), stream_));
    GPTQB_CUDA(cudaEventRecord(stop_.get(), stream_));
    if (during) during();
    return elapsed() / static_cast<double>(calls_);
  }

  // Seconds between the two events, once they have happened.
  double elapsed() {
    GPTQB_CUDA(cudaEventSynchronize(stop_.get()));
    float milliseconds = 0;
    GPTQB_CUDA(cudaEventElapsedTime(&milliseconds, start_.get(), stop_.get()));
    return 1e-3 * static_cast<double>(milliseconds);
  }

  TimedCall call_;
  TimingOptions options_;
  cudaStream_t stream_;
  Event start_, stop_;
  Graph graph_;
  int64_t calls_ = 1;
};

}  // namespace

int64_t cuda_cache_bytes() { return cuda_attribute(cudaDevAttrL2CacheSize); }

std::unique_ptr<RepetitionTimer> time_on_cuda(TimedCall call, const TimingOptions& options,
                                              void* stream) {
  return std::make_unique<CudaTimer>(std::move(call), options, stream);
}

}  // namespace gptqb::kernels
