#include "models/file_weights.h"

#include <cstring>

#include "common/error.h"
#include "models/message_text.h"

namespace gptqb {

void FileWeights::bind(const TensorTable& table) {
  in_files_ = match_tensors(table, tensors_).dense;
  for (const auto& [name, in_file] : in_files_) names_.push_back(name);
}

std::vector<int64_t> FileWeights::shape(const std::string& name) const {
  return tensors_.info(in_files_.at(name)).shape;
}

at::ScalarType FileWeights::dtype(const std::string& name) const {
  return tensors_.info(in_files_.at(name)).dtype;
}

at::Tensor FileWeights::load(const std::string& name, at::ScalarType dtype, at::Device device) {
  check_finite(name, dtype);
  return tensors_.view(in_files_.at(name)).to(dtype).to(device);
}

at::Tensor FileWeights::rows(const std::string& name, const at::Tensor& ids, at::ScalarType dtype,
                             at::Device device) {
  check_finite(name, dtype);
  return at::embedding(tensors_.view(in_files_.at(name)), ids).to(dtype).to(device);
}

bool FileWeights::same(const std::string& a, const std::string& b) const {
  const at::Tensor first = tensors_.view(in_files_.at(a));
  const at::Tensor second = tensors_.view(in_files_.at(b));
  return first.scalar_type() == second.scalar_type() && first.sizes() == second.sizes() &&
         std::memcmp(first.const_data_ptr(), second.const_data_ptr(), first.nbytes()) == 0;
}

std::string FileWeights::describe(const std::string& name) const {
  return tensors_.describe(in_files_.at(name));
}

void FileWeights::check_finite(const std::string& name, at::ScalarType dtype) {
  {
    const std::lock_guard lock(known_finite_mutex_);
    if (known_finite_.contains(name)) return;
  }
  const at::Tensor stored = tensors_.view(in_files_.at(name));
  int64_t position = first_non_finite(stored);
  if (position >= 0)
    throw Error(describe(name), "expected finite weights, got NaN or infinity at " +
                                    index_text(position, stored.sizes().vec()) +
                                    ". The file is damaged: fetch it again.");
  if (dtype == at::kHalf && stored.scalar_type() != at::kHalf) {
    position = first_non_finite(stored.to(at::kHalf));
    if (position >= 0)
      throw Error(describe(name), "expected weights that fit in float16, got one beyond 65504 at " +
                                      index_text(position, stored.sizes().vec()) +
                                      ". Use dtype bfloat16 or float32.");
  }
  const std::lock_guard lock(known_finite_mutex_);
  known_finite_.insert(name);
}

}  // namespace gptqb
