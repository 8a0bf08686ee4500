// Named entries (methods, datasets, architectures, evaluators, report formats) listed one per line
// in a `.def` file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/text.h"

namespace gptqb {

// One registered name. `make` is the factory; `unavailable` is empty, or says why this build or
// machine cannot run the entry (it stays listed with that reason).
template <class Factory>
struct RegistryEntry {
  std::string name;
  std::string summary;  // one line, shown by `gptq-bench list`
  Factory make;
  std::string unavailable;
};

// A fixed set of entries. Duplicate names throw at construction; an unknown name throws with the
// known ones.
template <class Factory>
class Registry {
 public:
  // `kind` is the word used in messages: "method", "dataset", ...
  Registry(std::string kind, std::vector<RegistryEntry<Factory>> entries)
      : kind_(std::move(kind)), entries_(std::move(entries)) {
    for (size_t i = 0; i < entries_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (entries_[i].name == entries_[j].name)
          throw Error(kind_ + " registry", "name '" + entries_[i].name + "' is registered twice");
  }

  const std::vector<RegistryEntry<Factory>>& entries() const { return entries_; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : entries_) result.push_back(entry.name);
    return result;
  }

  bool has(std::string_view name) const {
    for (const auto& entry : entries_)
      if (entry.name == name) return true;
    return false;
  }

  // Throws Error listing the known names, with the nearest one suggested.
  const RegistryEntry<Factory>& at(std::string_view name) const {
    for (const auto& entry : entries_)
      if (entry.name == name) return entry;
    throw Error(kind_, unknown_name(name, names()));
  }

 private:
  std::string kind_;
  std::vector<RegistryEntry<Factory>> entries_;
};

}  // namespace gptqb
