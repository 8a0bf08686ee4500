// What tensors take where they lie, measured and not added up.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace gptqb {

// Bytes that `device` has less for as long as the tensors that `make` puts there live: of a GPU by
// its caching allocator, of the host by the process's own memory (files that are mapped left out).
// They are freed before this returns. 0 where the system does not tell.
int64_t held_bytes(at::Device device, const std::function<std::vector<at::Tensor>()>& make);

// Bytes that are free there now, what this process's allocator keeps for later included. 0 where
// the system does not tell.
int64_t free_bytes(at::Device device);

}  // namespace gptqb
