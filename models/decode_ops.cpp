#include "models/decode_ops.h"

#include "kernels/decode.h"
#include "kernels/forward.h"
#include "methods/device_stream.h"
#include "methods/half_type.h"
#include "models/forward_ops.h"

namespace gptqb {
namespace {

bool half_on_gpu(at::Device device, at::ScalarType dtype) {
  return device.is_cuda() && (dtype == at::kHalf || dtype == at::kBFloat16);
}

const void* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

// Distances of sequences and of heads, where kernels can read the tensor as it lies; else of a copy
// that it becomes.
void readable(at::Tensor& tensor, int64_t (&strides)[2]) {
  constexpr int64_t kVector = kernels::kHalfVector;
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 16 == 0;
  if (!aligned || tensor.stride(3) != 1 || tensor.stride(0) % kVector != 0 ||
      tensor.stride(2) % kVector != 0)
    tensor = tensor.clone(at::MemoryFormat::Contiguous);
  strides[0] = tensor.stride(0);
  strides[1] = tensor.stride(2);
}

}  // namespace

bool add_norm_takes(at::Device device, at::ScalarType dtype, int64_t width) {
  return half_on_gpu(device, dtype) && width % kernels::kHalfVector == 0 &&
         width <= kernels::AddNorm::kMaxColumns;
}

at::Tensor add_norm(at::Tensor& residual, const at::Tensor& delta, const Norm& norm) {
  at::Tensor out = at::empty_like(residual);
  const at::Tensor added = delta.defined() ? delta.contiguous() : delta;
  const DeviceStream stream(residual.device());
  kernels::add_norm_cuda({.type = half_type(residual),
                          .rows = residual.numel() / residual.size(-1),
                          .columns = residual.size(-1),
                          .epsilon = static_cast<float>(norm.epsilon),
                          .rms = norm.rms,
                          .residual = residual.mutable_data_ptr(),
                          .delta = data_or_null(added),
                          .scale = data_or_null(norm.scale),
                          .shift = data_or_null(norm.shift),
                          .out = out.mutable_data_ptr()},
                         stream.handle());
  return out;
}

at::Tensor apply_norm(const at::Tensor& x, const Norm& norm) {
  const bool one_token = x.dim() == 3 && x.size(1) == 1;
  if (one_token && x.is_contiguous() && add_norm_takes(x.device(), x.scalar_type(), x.size(2))) {
    at::Tensor residual = x;  // nothing is added to it
    return add_norm(residual, {}, norm);
  }
  if (norm.rms) return rms_norm(x, norm.scale, norm.epsilon);
  return at::layer_norm(x, {x.size(-1)}, norm.scale, norm.shift, norm.epsilon);
}

at::Tensor largest_places(const at::Tensor& x) {
  if (!half_on_gpu(x.device(), x.scalar_type()) || !x.is_contiguous() ||
      reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 != 0)
    return x.argmax(-1, /*keepdim=*/true);
  at::Tensor places = at::empty({x.size(0), 1}, x.options().dtype(at::kLong));
  const DeviceStream stream(x.device());
  kernels::largest_place_cuda({.type = half_type(x),
                               .rows = x.size(0),
                               .columns = x.size(1),
                               .x = x.const_data_ptr(),
                               .out = places.mutable_data_ptr<int64_t>()},
                              stream.handle());
  return places;
}

void relu_in_place(at::Tensor& x) {
  if (!half_on_gpu(x.device(), x.scalar_type()) || !x.is_contiguous() ||
      x.numel() % kernels::kHalfVector != 0) {
    x.relu_();
    return;
  }
  const DeviceStream stream(x.device());
  kernels::relu_cuda({.type = half_type(x), .count = x.numel(), .x = x.mutable_data_ptr()},
                     stream.handle());
}

bool new_tokens_attention_takes(at::Device device, at::ScalarType dtype, int64_t head_dim) {
  return half_on_gpu(device, dtype) && head_dim % (2 * kernels::kHalfVector) == 0 &&
         head_dim <= kernels::DecodeAttention::kMaxHeadDim;
}

at::Tensor attend_new_tokens(KvCache& cache, int64_t block, const NewTokens& tokens) {
  const CacheShape& shape = cache.shape();
  const int64_t heads = tokens.queries.size(2);
  at::Tensor queries = tokens.queries, keys = tokens.keys, values = tokens.values;
  at::Tensor out = at::empty({shape.batch, 1, heads * shape.head_dim}, queries.options());
  at::Tensor cached_keys = cache.all_keys(block);
  at::Tensor cached_values = cache.all_values(block);
  kernels::DecodeAttention problem{
      .type = half_type(queries),
      .batch = shape.batch,
      .heads = heads,
      .kv_heads = shape.kv_heads,
      .head_dim = shape.head_dim,
      .position = cache.positions().const_data_ptr<int64_t>(),
      .reach = cache.reach(),
      .cosines = data_or_null(tokens.cosines),
      .sines = data_or_null(tokens.sines),
      .slopes = tokens.slopes.defined() ? tokens.slopes.const_data_ptr<float>() : nullptr,
      .query_scale = static_cast<float>(tokens.query_scale),
      .score_scale = static_cast<float>(tokens.score_scale),
      .cached_keys = cached_keys.mutable_data_ptr(),
      .cached_values = cached_values.mutable_data_ptr(),
      .positions = cache.allocated_positions(),
      .out = out.mutable_data_ptr()};
  readable(queries, problem.query_strides);
  readable(keys, problem.key_strides);
  readable(values, problem.value_strides);
  problem.queries = queries.const_data_ptr();
  problem.keys = keys.const_data_ptr();
  problem.values = values.const_data_ptr();
  problem.workspace =
      cache.scratch(kernels::decode_attention_workspace(shape.batch, heads, shape.head_dim));
  const DeviceStream stream(queries.device());
  kernels::decode_attention_cuda(problem, stream.handle());
  return out;
}

}  // namespace gptqb
