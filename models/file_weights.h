// The tensors of a Hugging Face folder as a WeightSource.
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "models/weight_source.h"

namespace gptqb {

class FileWeights : public WeightSource {
 public:
  explicit FileWeights(TensorReader tensors) : tensors_(std::move(tensors)) {}

  void bind(const TensorTable& table) override;
  const std::vector<std::string>& names() const override { return names_; }
  bool has(const std::string& name) const override { return in_files_.contains(name); }
  std::vector<int64_t> shape(const std::string& name) const override;
  at::ScalarType dtype(const std::string& name) const override;
  at::Tensor load(const std::string& name, at::ScalarType dtype, at::Device device) override;
  bool reads_ahead(at::Device) const override { return true; }
  bool mapped() const override { return true; }
  void rest(const std::string& name) override { tensors_.release_pages(in_files_.at(name)); }
  at::Tensor rows(const std::string& name, const at::Tensor& ids, at::ScalarType dtype,
                  at::Device device) override;
  bool same(const std::string& a, const std::string& b) const override;
  std::string where() const override { return tensors_.folder().string(); }
  std::string describe(const std::string& name) const override;
  std::string fingerprint() const override { return tensors_.fingerprint(); }

 protected:
  TensorReader tensors_;
  std::map<std::string, std::string> in_files_;  // the table's names -> names in the files
  std::vector<std::string> names_;

 private:
  // Each tensor is looked through once.
  void check_finite(const std::string& name, at::ScalarType dtype);

  std::mutex known_finite_mutex_;
  std::set<std::string> known_finite_;
};

}  // namespace gptqb
