// A build without CUDA has no device to record on.
#include "common/error.h"
#include "methods/graph_replay.h"

namespace gptqb {

struct GraphReplay::Recording {};

GraphReplay::GraphReplay() = default;
GraphReplay::~GraphReplay() = default;

bool GraphReplay::available(at::Device) { return false; }

void GraphReplay::record(const Work&, const at::Tensor&, const std::function<void()>&) {
  throw Error("GraphReplay", "expected a build with CUDA");
}

const std::vector<at::Tensor>& GraphReplay::run(const at::Tensor&) {
  throw Error("GraphReplay", "expected a build with CUDA");
}

}  // namespace gptqb
