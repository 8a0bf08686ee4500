#include "runner/report/environment_changes.h"

#include <algorithm>
#include <set>

#include "common/add_once.h"
#include "common/text.h"

namespace gptqb {
namespace {

// Values by what they are of, in the order in which they are shown.
class Facts {
 public:
  void add(const std::string& what, const std::string& value) {
    if (value.empty()) return;
    auto found = std::find_if(facts_.begin(), facts_.end(),
                              [&](const Fact& fact) { return fact.what == what; });
    if (found == facts_.end()) found = facts_.insert(facts_.end(), {what, {}});
    found->values.insert(value);
  }
  void add(const std::string& what, int64_t value) {
    if (value > 0) add(what, std::to_string(value));
  }
  std::string text(const std::string& what) const {
    for (const Fact& fact : facts_)
      if (fact.what == what) return join({fact.values.begin(), fact.values.end()}, "; ");
    return "";
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Fact& fact : facts_) result.push_back(fact.what);
    return result;
  }

 private:
  struct Fact {
    std::string what;
    std::set<std::string> values;
  };
  std::vector<Fact> facts_;
};

void add_environment(const Environment& environment, Facts& facts) {
  facts.add("device", environment.device);
  facts.add("GPU", environment.gpu);
  facts.add("driver", environment.gpu_driver);
  facts.add("CUDA", environment.gpu_runtime);
  facts.add("compute capability", environment.gpu_capability);
  facts.add("CPU", environment.cpu);
  facts.add("cores", environment.cores);
  facts.add("threads", environment.threads);
  facts.add("memory, bytes", environment.memory_bytes);
  facts.add("system", environment.os);
  const BuildInfo& build = environment.build;
  facts.add("version", build.version);
  facts.add("commit", commit_text(build));
  facts.add("build", environment.build_id);
  facts.add("compiler", build.compiler);
  facts.add("flags", build.flags);
  facts.add("built for CUDA", build.cuda);
  facts.add("built for capabilities", build.cuda_architectures);
  facts.add("built with torch", build.torch);
  for (const auto& [name, version] : environment.libraries) facts.add("library " + name, version);
}

Facts facts_of(const std::vector<Record>& records) {
  Facts facts;
  for (const Record& record : records) {
    // A skipped cell ran on nothing.
    if (record.status == CellStatus::kSkipped) continue;
    add_environment(record.environment, facts);
  }
  for (const Record& record : records) {
    const std::string model = record.inputs.model.empty() ? "synthetic" : record.inputs.model;
    facts.add("model files of " + model, record.inputs.model_fingerprint);
    facts.add("tokenizer files of " + model, record.inputs.tokenizer_fingerprint);
    facts.add("external program", record.inputs.external_fingerprint);
  }
  return facts;
}

}  // namespace

std::vector<EnvironmentChange> environment_changes(const std::vector<Record>& before,
                                                   const std::vector<Record>& after) {
  const Facts was = facts_of(before), is = facts_of(after);
  std::vector<std::string> names = was.names();
  for (const std::string& name : is.names()) add_once(name, names);
  std::vector<EnvironmentChange> changes;
  for (const std::string& name : names)
    if (was.text(name) != is.text(name)) changes.push_back({name, was.text(name), is.text(name)});
  return changes;
}

}  // namespace gptqb
