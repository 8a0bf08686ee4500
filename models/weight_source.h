// Where a model's tensors come from: the files of a checkpoint, or a seed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "methods/quant_config.h"
#include "methods/quantized_linear.h"
#include "models/tensor_table.h"

namespace gptqb {

// What of a checkpoint is packed: weights of linears, and the bits their tensors take in the files.
struct PackedShare {
  int64_t weights = 0;
  int64_t bits = 0;
};

// Tensors by the names of an architecture's table.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Finds the tensors of `table`, before anything else is asked. Throws Error as match_tensors.
  virtual void bind(const TensorTable& table) = 0;

  // Names of all tensors that are there, blocks written out.
  virtual const std::vector<std::string>& names() const = 0;
  // Whether an optional tensor is there; the others are, once bound.
  virtual bool has(const std::string& name) const = 0;
  virtual std::vector<int64_t> shape(const std::string& name) const = 0;
  virtual at::ScalarType dtype(const std::string& name) const = 0;

  // The whole tensor in `dtype` on `device`; on the CPU it may be a view of the file. Throws Error
  // naming tensor and position if a value is NaN, infinite, or beyond `dtype`.
  virtual at::Tensor load(const std::string& name, at::ScalarType dtype, at::Device device) = 0;
  // Whether load() to the host may run in a second thread, and gives there what load() to `device`
  // gives.
  virtual bool reads_ahead(at::Device device) const = 0;
  // Whether tensors are views of files, so that their pages count as host memory and rows are taken
  // from there. Else nothing is kept but tables whose rows were asked for, on the device.
  virtual bool mapped() const = 0;
  // The tensor is not needed for a while: memory that holds pages of a file may go.
  virtual void rest(const std::string& name) = 0;
  // Rows `ids` (i64 of any shape, CPU) of a matrix: [.., columns], as load.
  virtual at::Tensor rows(const std::string& name, const at::Tensor& ids, at::ScalarType dtype,
                          at::Device device) = 0;
  // Whether two tensors hold the same bits.
  virtual bool same(const std::string& a, const std::string& b) const = 0;

  // Of a packed checkpoint.
  virtual PackedShare packed_share() const { return {}; }
  // How a weight is packed; empty: it is dense.
  virtual std::optional<QuantConfig> packed_as(const std::string&) const { return std::nullopt; }
  // Codes and grids of a packed weight, on the host. Throws Error if `name` is none.
  virtual QuantizedLinear unpack(const std::string& name) const;
  // What a reader of results must know of how the tensors were read.
  virtual std::vector<std::string> notes() const { return {}; }

  // The folder or the seed, for messages.
  virtual std::string where() const = 0;
  // "<file>, tensor '<name>'", for messages.
  virtual std::string describe(const std::string& name) const = 0;
  virtual std::string fingerprint() const = 0;
};

}  // namespace gptqb
