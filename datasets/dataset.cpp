#include "datasets/dataset.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "datasets/own_source.h"

namespace gptqb {

#define GPTQB_DATASET(function, name, summary) std::unique_ptr<Dataset> make_##function();
#include "datasets/datasets.def"
#undef GPTQB_DATASET

const Registry<DatasetFactory>& datasets() {
  static const Registry<DatasetFactory> registry("dataset", {
#define GPTQB_DATASET(function, name, summary) {name, summary, make_##function, ""},
#include "datasets/datasets.def"
#undef GPTQB_DATASET
                                                            });
  return registry;
}

namespace {

void check_split(const Dataset& dataset, const std::string& name, const std::string& split) {
  const std::vector<std::string> known = dataset.splits();
  if (split.empty() || std::find(known.begin(), known.end(), split) != known.end()) return;
  throw Error("dataset " + name, "split after '@': " + unknown_name(split, known));
}

}  // namespace

DatasetSpec DatasetSpec::parse(const std::string& text) {
  DatasetSpec spec;
  const size_t at = text.find('@');
  spec.name = text.substr(0, at);
  if (at != std::string::npos) spec.split = text.substr(at + 1);
  const auto& entry = datasets().at(spec.name);
  if (at != std::string::npos && spec.split.empty())
    throw Error("dataset " + spec.name, "expected a split after '@', got none");
  check_split(*entry.make(), spec.name, spec.split);
  return spec;
}

std::string DatasetSpec::label() const { return split.empty() ? name : name + "@" + split; }

std::string Corpus::joined() const {
  size_t size = 0;
  for (const std::string& document : documents) size += document.size() + join.size();
  std::string text;
  text.reserve(size);
  for (size_t i = 0; i < documents.size(); ++i) {
    if (i > 0) text += join;
    text += documents[i];
  }
  return text;
}

Corpus load_corpus(const DatasetSpec& spec, Purpose purpose, const std::filesystem::path& data_root,
                   const std::filesystem::path& base) {
  if (!spec.source.empty()) return load_own_source(spec, data_root, base);
  const std::unique_ptr<Dataset> dataset = datasets().at(spec.name).make();
  check_split(*dataset, spec.name, spec.split);
  return dataset->load(purpose, spec.split, data_root);
}

}  // namespace gptqb
