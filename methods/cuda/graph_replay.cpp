#include "methods/graph_replay.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <utility>

namespace gptqb {

struct GraphReplay::Recording {
  at::cuda::CUDAGraph graph;
  at::Tensor input;
  std::vector<at::Tensor> outputs;
};

GraphReplay::GraphReplay() = default;
GraphReplay::~GraphReplay() = default;

bool GraphReplay::available(at::Device device) { return device.is_cuda(); }

void GraphReplay::record(const Work& work, const at::Tensor& example,
                         const std::function<void()>& undo) {
  const c10::cuda::CUDAGuard device(example.device());
  auto next = std::make_unique<Recording>();
  next->input = example.clone();
  // The default stream cannot be recorded. What libraries set up at their first call on a stream
  // must not be part of the recording.
  const auto stream =
      c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.current_device().index());
  c10::cuda::getCurrentCUDAStream().synchronize();
  {
    const c10::cuda::CUDAStreamGuard current(stream);
    work(next->input);
    if (undo) undo();
    stream.synchronize();
    // One pool for all recordings, so that each one uses again what the one before the last used.
    // Other threads read and write beside this one.
    next->graph.capture_begin(recording_ ? recording_->graph.pool() : at::cuda::MempoolId_t{0, 0},
                              cudaStreamCaptureModeThreadLocal);
    try {
      next->outputs = work(next->input);
    } catch (...) {
      next->graph.capture_end();  // or the stream would go on recording
      throw;
    }
    next->graph.capture_end();
  }
  recording_ = std::move(next);
}

const std::vector<at::Tensor>& GraphReplay::run(const at::Tensor& input) {
  if (!input.is_same(recording_->input)) recording_->input.copy_(input);
  recording_->graph.replay();
  return recording_->outputs;
}

}  // namespace gptqb
