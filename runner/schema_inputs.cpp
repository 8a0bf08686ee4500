// Keys of what a cell reads: the sections `model` and `calibration`, and what names the document.
#include "common/options.h"
#include "runner/schema_sections.h"

namespace gptqb::schema {

using nlohmann::json;

namespace {

void bind_mixture(ResolvedSettings& settings, const json& value) {
  settings.calibration.datasets.clear();
  if (!value.is_array()) {
    settings.calibration.datasets.push_back({dataset_from_json(value), 1});
    return;
  }
  for (const json& part : value)
    settings.calibration.datasets.push_back(
        {dataset_from_json(part.at("dataset")), part.at("share").get<double>()});
}

}  // namespace

DatasetSpec dataset_from_json(const json& value) {
  if (value.is_string()) return DatasetSpec::parse(value.get<std::string>());
  DatasetSpec spec;
  spec.name = value.at("name").get<std::string>();
  spec.source = expand_variables(value.at("source").get<std::string>());
  if (value.contains("join")) spec.join = value.at("join").get<std::string>();
  if (value.contains("field")) spec.field = value.at("field").get<std::string>();
  return spec;
}

void append_model(std::vector<KeySpec>& table) {
  table.push_back(
      plain("name", KeyType::kText, Scope::kDocument, "required",
            "lower-case letters, digits, `_` and `-`; results go to a folder of this name"));
  table.push_back([] {
    KeySpec spec =
        word("tier", {"smoke", "base", "full"}, "full",
             "the `--tier` that runs this document; a file may hold one document per tier, "
             "parted by `---`. Without `--tier` all of them run");
    spec.scope = Scope::kDocument;
    return spec;
  }());
  table.push_back(with_bind(
      plain("model.path", KeyType::kPath, Scope::kCell, "this or model.synthetic",
            "Hugging Face folder (config.json, safetensors, tokenizer); relative paths start "
            "at the working directory"),
      [](ResolvedSettings& settings, const json& value) {
        settings.model.path_unexpanded = value.get<std::string>();
        settings.model.path = expand_variables(settings.model.path_unexpanded);
      }));
  table.push_back(model_word("model.dtype", &ModelSpec::dtype,
                             {"auto", "float16", "bfloat16", "float32"},
                             "dtype of weights and activations; auto: the checkpoint's"));
  table.push_back(model_word("model.checkpoint_format", &ModelSpec::checkpoint_format,
                             {"auto", "gptq", "gptq_v2", "compressed-tensors"},
                             "how a packed folder is read, against its own label; auto: by its "
                             "label, but by its zero points where they are symmetric and differ"));
  table.push_back(
      model_word("model.backend", &ModelSpec::backend, {"auto", "dense", "packed"},
                 "of a packed folder: packed: products by kernels; dense, auto: by dequantized "
                 "weights"));
  const std::string synthetic = "model.synthetic.";
  const auto text = [&](const char* key, std::string SyntheticModel::*field,
                        const std::string& help) {
    table.push_back(with_bind(plain(synthetic + key, KeyType::kText, Scope::kCell, "-", help),
                              [field](ResolvedSettings& settings, const json& value) {
                                settings.model.synthetic.*field = value.get<std::string>();
                              }));
  };
  const auto size = [&](KeySpec spec, int64_t SyntheticModel::*field) {
    table.push_back(
        with_bind(std::move(spec), [field](ResolvedSettings& settings, const json& value) {
          settings.model.synthetic.*field = value.is_string() ? 0 : value.get<int64_t>();
        }));
  };
  text("like", &SyntheticModel::like,
       "weights made from the seed at the shape of a published model (opt-125m ... opt-175b, "
       "bloom-560m ... bloom-176b, llama-7b ... llama-3-70b): for time and memory, never quality");
  text("architecture", &SyntheticModel::architecture, "with the sizes below, instead of `like`");
  const std::vector<std::pair<const char*, int64_t SyntheticModel::*>> sizes = {
      {"hidden_size", &SyntheticModel::hidden_size},
      {"intermediate_size", &SyntheticModel::intermediate_size},
      {"heads", &SyntheticModel::heads},
      {"kv_heads", &SyntheticModel::kv_heads},
      {"vocab_size", &SyntheticModel::vocab_size}};
  for (const auto& [key, field] : sizes)
    size(with_range(plain(synthetic + key, KeyType::kInteger, Scope::kCell, "-",
                          "size of a synthetic model"),
                    1),
         field);
  size(with_range(
           with_default(
               plain(synthetic + "seed", KeyType::kInteger, Scope::kCell, "", "of the weights"), 0),
           0),
       &SyntheticModel::seed);
  size(with_range(plain(synthetic + "packed.bits", KeyType::kInteger, Scope::kCell, "-",
                        "2, 3, 4 or 8: linears are made as codes, for `backend: packed`"),
                  2),
       &SyntheticModel::packed_bits);
  size(with_range(plain(synthetic + "packed.group_size", KeyType::kInteger, Scope::kCell, "-",
                        "columns that share a scale; -1: whole rows"),
                  -1),
       &SyntheticModel::packed_group_size);
  size(with_words(with_range(with_default(plain(synthetic + "layers", KeyType::kInteger,
                                                Scope::kCell, "", "blocks that are made"),
                                          "all"),
                             1),
                  {"all"}),
       &SyntheticModel::layers);
}

void append_calibration(std::vector<KeySpec>& table) {
  const auto calibration = &ResolvedSettings::calibration;
  table.push_back(
      with_bind(with_default(plain("calibration.dataset", KeyType::kMixture, Scope::kCell, "",
                                   "text the statistics are taken on"),
                             "c4"),
                bind_mixture));
  table.push_back(
      integer("calibration.samples", calibration, &CalibrationSpec::samples, 1, "windows"));
  table.push_back(
      integer("calibration.seqlen", calibration, &CalibrationSpec::seqlen, 8, "tokens a window"));
  table.push_back(integer("calibration.seed", calibration, &CalibrationSpec::seed, 0,
                          "of the draw, as Python's random.seed"));
  table.push_back(integer("calibration.heldout", calibration, &CalibrationSpec::heldout, 0,
                          "more windows of the same dataset, disjoint from those, never in H; for "
                          "`relative_error_heldout`"));
  table.push_back(
      planned(choice("calibration.draw", calibration, &CalibrationSpec::draw,
                     {{"reference", Draw::kReference},
                      {"disjoint", Draw::kDisjoint},
                      {"variable", Draw::kVariable}},
                     "reference: the published random windows, overlaps allowed; disjoint: none; "
                     "variable: whole documents of any length"),
              {"variable"}));
}

}  // namespace gptqb::schema
