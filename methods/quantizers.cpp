#include "methods/quantizer.h"

namespace gptqb {

#define GPTQB_METHOD(name, summary) std::unique_ptr<Quantizer> make_##name();
#include "methods/methods.def"
#undef GPTQB_METHOD

const Registry<QuantizerFactory>& quantizers() {
  static const Registry<QuantizerFactory> registry("method", {
#define GPTQB_METHOD(name, summary) {#name, summary, make_##name, ""},
#include "methods/methods.def"
#undef GPTQB_METHOD
                                                             });
  return registry;
}

}  // namespace gptqb
