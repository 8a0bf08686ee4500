#include "models/weight_source.h"

#include "common/error.h"

namespace gptqb {

QuantizedLinear WeightSource::unpack(const std::string& name) const {
  throw Error(where(), "expected a packed weight, got '" + name + "', which is dense");
}

}  // namespace gptqb
