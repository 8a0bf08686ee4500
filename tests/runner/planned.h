// Plans of experiments that tests spell out, for a build with the methods none, rtn and gptq.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runner/plan.h"
#include "tests/support/message.h"

namespace gptqb::test {

inline PlanOptions build() {
  return {.methods = {"none", "rtn", "gptq"}, .evaluators = {"perplexity"}};
}

// Of `text` behind two lines of a name and a model.
inline Plan plan(const std::string& text, const std::vector<std::string>& set = {},
                 const PlanOptions& options = build()) {
  const auto experiments =
      parse_experiments("name: p\nmodel: {path: /m}\n" + text, "p.yaml", {.set = set, .tier = ""});
  EXPECT_EQ(experiments.size(), 1u);
  return make_plan(experiments.at(0), options);
}

inline std::string fault_of(const std::string& text) {
  return message_of([&] { plan(text); });
}

}  // namespace gptqb::test
