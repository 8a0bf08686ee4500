// Keys of the section `kernels`: throughput of the kernels on this device.
#include "runner/kernel_settings.h"
#include "runner/schema_sections.h"

namespace gptqb::schema {

using nlohmann::json;

namespace {

// A value or a list of them.
template <class T>
std::vector<T> listed(const json& value) {
  return value.is_array() ? value.get<std::vector<T>>() : std::vector<T>{value.get<T>()};
}

KeySpec list_of(std::string name, KeyType type, json default_value, std::string meaning) {
  KeySpec spec = plain("kernels." + name, type, Scope::kProduct, "-", std::move(meaning));
  spec.arity = Arity::kOneOrList;
  if (!default_value.is_null()) spec = with_default(spec, std::move(default_value));
  return spec;
}

template <class T>
KeySpec binding(KeySpec spec, std::vector<T> KernelBenchSpec::*member) {
  return with_bind(std::move(spec), [member](ResolvedSettings& settings, const json& value) {
    settings.kernels.*member = listed<T>(value);
  });
}

}  // namespace

void append_kernels(std::vector<KeySpec>& table) {
  const KernelBenchSpec defaults;
  table.push_back(with_bind(plain("kernels.like", KeyType::kText, Scope::kProduct, "-",
                                  "kernel throughput at the shapes of a published model's linears"),
                            [](ResolvedSettings& settings, const json& value) {
                              settings.kernels_like = value.get<std::string>();
                            }));
  table.push_back(with_bind(
      list_of("shapes", KeyType::kText, nullptr, "`KxN` (in x out features), instead of `like`"),
      [](ResolvedSettings& settings, const json& value) {
        settings.kernels.shapes.clear();
        for (const std::string& text : listed<std::string>(value))
          settings.kernels.shapes.push_back(kernel_shape(text));
      }));
  table.push_back(
      binding(with_range(list_of("m", KeyType::kInteger, defaults.m, "rows of the activations"), 1),
              &KernelBenchSpec::m));
  table.push_back(
      binding(with_words(list_of("bits", KeyType::kChoice, defaults.bits, "bits of a code"),
                         {"2", "3", "4", "8"}),
              &KernelBenchSpec::bits));
  table.push_back(
      binding(with_words(with_range(list_of("group_size", KeyType::kInteger, defaults.group_sizes,
                                            "columns that share a scale; -1: one a row"),
                                    1),
                         {"-1"}),
              &KernelBenchSpec::group_sizes));
  table.push_back(binding(list_of("symmetric", KeyType::kBool, json::array({true}),
                                  "fixed zero point, which is not stored"),
                          &KernelBenchSpec::symmetric));
  table.push_back(binding(
      list_of("act_order", KeyType::kBool, json::array({false}), "columns of a group lie anywhere"),
      &KernelBenchSpec::act_order));
  table.push_back(with_bind(with_words(list_of("dtype", KeyType::kChoice, json::array({"float16"}),
                                               "of the activations and the result"),
                                       {"float16", "bfloat16"}),
                            [](ResolvedSettings& settings, const json& value) {
                              settings.kernels.types.clear();
                              for (const std::string& name : listed<std::string>(value))
                                settings.kernels.types.push_back(
                                    name == "float16" ? kernels::HalfType::kFloat16
                                                      : kernels::HalfType::kBFloat16);
                            }));
  table.push_back(
      with_bind(with_default(plain("kernels.cold", KeyType::kBool, Scope::kProduct, "",
                                   "weights rotate through more memory than the caches hold"),
                             defaults.cold),
                [](ResolvedSettings& settings, const json& value) {
                  settings.kernels.cold = value.get<bool>();
                }));
  table.push_back(binding(list_of("kernel", KeyType::kText, nullptr,
                                  "names of kernels, each of which must run every problem; `all`: "
                                  "every one that can; without: the one that selection takes"),
                          &KernelBenchSpec::kernels));
  table.push_back(with_bind(plain("kernels.filter", KeyType::kText, Scope::kProduct, "-",
                                  "regular expression found in the names "
                                  "KERNEL/KxN/m:M/bits:B/group:G/sym/natural/float16; "
                                  "with a leading `-` not found"),
                            [](ResolvedSettings& settings, const json& value) {
                              settings.kernels.filter = value.get<std::string>();
                            }));
  const auto number = [&](const char* name, int64_t KernelBenchSpec::*member, double min,
                          const char* meaning) {
    table.push_back(
        with_bind(with_range(with_default(plain(std::string("kernels.") + name, KeyType::kInteger,
                                                Scope::kProduct, "", meaning),
                                          defaults.*member),
                             min),
                  [member](ResolvedSettings& settings, const json& value) {
                    settings.kernels.*member = value.get<int64_t>();
                  }));
  };
  number("repetitions", &KernelBenchSpec::repetitions, 3,
         "of many calls each; times are their median and spread");
  number("seed", &KernelBenchSpec::seed, 0, "of codes and activations");
}

}  // namespace gptqb::schema
