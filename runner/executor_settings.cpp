#include "runner/executor_settings.h"

#include <algorithm>

namespace gptqb {
namespace {

// What the program decides for each submission; a second value would win or lose in silence.
constexpr const char* kOwnOptions[] = {"--array",   "-a",     "--dependency", "-d",
                                       "--output",  "-o",     "--open-mode",  "--parsable",
                                       "--requeue", "--wrap", "--no-requeue", "--wait"};

bool is_own(const std::string& option) {
  const std::string name = option.substr(0, option.find('='));
  return std::any_of(std::begin(kOwnOptions), std::end(kOwnOptions), [&](const std::string& own) {
    // A short option may have its value right behind it.
    return own.starts_with("--") ? name == own : !name.starts_with("--") && name.starts_with(own);
  });
}

}  // namespace

ExecutorSettings executor_settings(const Settings& document, Faults& faults) {
  ExecutorSettings settings;
  const auto setting = [&](const char* key) {
    const auto found = document.find(std::string("executor.") + key);
    return found == document.end() ? nullptr : &found->second;
  };
  if (const Setting* name = setting("name")) settings.name = name->value.get<std::string>();
  if (const Setting* workers = setting("workers")) settings.workers = workers->value.get<int64_t>();
  if (const Setting* text = setting("partition")) settings.partition = text->value;
  if (const Setting* text = setting("time")) settings.time = text->value;
  if (const Setting* text = setting("gres")) settings.gres = text->value;
  const Setting* extra = setting("extra");
  if (extra == nullptr) return settings;
  for (const auto& word : extra->value) {
    const std::string option = word.get<std::string>();
    // sbatch takes a word without a dash for the script.
    if (option.size() < 2 || option[0] != '-')
      faults.add(extra->position, "executor.extra",
                 "expected options that begin with - and hold their value (--mem=32G), got '" +
                     option + "'");
    else if (is_own(option))
      faults.add(extra->position, "executor.extra",
                 "expected options that gptq-bench does not give itself, got '" + option + "'");
    settings.extra.push_back(option);
  }
  return settings;
}

}  // namespace gptqb
