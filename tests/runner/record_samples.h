// Small records made by hand, for tests of everything that reads records.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runner/record.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

namespace gptqb::test {

inline Metric metric(const std::string& name, double value, std::vector<double> samples = {}) {
  Metric result;
  result.name = name;
  result.value = value;
  result.unit = std::string("1");
  result.count = static_cast<int64_t>(samples.size());
  result.samples = std::move(samples);
  return result;
}

// An ok cell of model "m" on windows "w" of wikitext2 with these window losses; `bits` 0: no
// `quant.*` settings.
inline Record record(const std::string& id, const std::string& method, int bits, double perplexity,
                     std::vector<double> losses) {
  Record result;
  result.cell_id = id;
  result.experiment = "tiny";
  result.cell = R"({"method.name":")" + method + R"("})";
  result.settings = {{"model.path", "m"}, {"method.name", method}};
  if (bits > 0) {
    result.settings.emplace_back("quant.bits", std::to_string(bits));
    result.settings.emplace_back("quant.group_size", "-1");
  }
  result.metrics.push_back(metric("perplexity.wikitext2", perplexity, std::move(losses)));
  WindowsRecord windows;
  windows.role = "evaluation";
  windows.name = "wikitext2";
  windows.dataset = "wikitext2@test";
  windows.count = result.metrics[0].count;
  windows.seqlen = 8;
  windows.documents = 3;
  windows.stream_tokens = 35;
  windows.dropped_tokens = 3;
  windows.ids_sha256 = "0123456789abcdef";
  result.inputs.windows.push_back(windows);
  result.inputs.model = std::string("m");
  result.environment.cpu = "Test CPU";
  result.environment.threads = 2;
  result.environment.os = "Test OS";
  result.environment.build = {"0.1.0", "0123456789abcdef", false, "GNU-12",
                              "-O3",   "2.11.0",           "",    ""};
  return result;
}

inline LayerHealth layer(const std::string& name, const std::string& status = "ok") {
  LayerHealth health;
  health.layer = name;
  health.method = "gptq";
  health.bits = 4;
  health.group_size = -1;
  health.loss = 1.5;
  health.relative_error = 0.25;
  health.status = status;
  return health;
}

}  // namespace gptqb::test
