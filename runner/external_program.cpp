#include "runner/external_program.h"

#include <algorithm>
#include <set>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"
#include "models/safetensors.h"
#include "runner/child_process.h"
#include "runner/text_tail.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTailBytes = 800;
constexpr const char* kFormatVersion = "1";

std::string shape_text(at::IntArrayRef shape) {
  std::vector<std::string> sizes;
  for (const int64_t size : shape) sizes.push_back(std::to_string(size));
  return "[" + join(sizes, ", ") + "]";
}

const char* yes_or_no(bool value) { return value ? "true" : "false"; }

// As `method.order` spells it.
std::string order_text(const MethodConfig& method) {
  switch (method.order_or(ColumnOrder::kNatural)) {
    case ColumnOrder::kNatural:
      return "natural";
    case ColumnOrder::kAct:
      return "act";
    case ColumnOrder::kReverse:
      return "reverse";
    case ColumnOrder::kRandom:
      return "random:" + std::to_string(method.order_seed);
    case ColumnOrder::kGreedy:
      return "greedy";
  }
  return "";
}

// Everything a method may want to know beside its two matrices; all values are text.
std::map<std::string, std::string> settings_of(const LinearProblem& problem) {
  const QuantConfig& quant = problem.quant;
  const MethodConfig& method = problem.method;
  return {{"format_version", kFormatVersion},
          {"layer", problem.layer},
          {"bits", std::to_string(quant.bits)},
          {"group_size", std::to_string(quant.group_size)},
          {"symmetric", yes_or_no(quant.symmetric)},
          {"grid_search", quant.grid_search == GridSearch::kMse ? "mse" : "none"},
          {"grid_norm", number_text(quant.grid_norm)},
          {"grid_steps", std::to_string(quant.grid_steps)},
          {"grid_shrink", number_text(quant.grid_shrink)},
          {"scale_dtype", quant.scale_dtype == ScaleDtype::kFloat16 ? "float16" : "float32"},
          {"damping", number_text(method.damping)},
          {"block_size", std::to_string(method.block_size)},
          {"act_order", yes_or_no(method.act_order)},
          {"order", order_text(method)},
          {"static_groups", yes_or_no(method.static_groups)},
          {"model_dtype", safetensors_dtype_name(problem.weight.scalar_type())},
          {"tokens", std::to_string(problem.stats->tokens())},
          {"sequences", std::to_string(problem.stats->sequences())}};
}

// The words of `command` with the two paths in their places.
std::vector<std::string> words_for(const std::string& command, const fs::path& input,
                                   const fs::path& output) {
  std::vector<std::string> words = split_command(command);
  bool placed = false;
  const auto place = [&](std::string& word, const std::string& name, const fs::path& path) {
    for (size_t at = word.find(name); at != std::string::npos;
         at = word.find(name, at + path.string().size())) {
      word.replace(at, name.size(), path.string());
      placed = true;
    }
  };
  for (std::string& word : words) {
    place(word, "{input}", input);
    place(word, "{output}", output);
  }
  if (!placed) words.insert(words.end(), {input.string(), output.string()});
  return words;
}

// One answer file, read tensor by tensor. Its errors are clauses that solve() completes.
class Answer {
 public:
  Answer(const fs::path& path, const LinearProblem& problem) : file_(path), problem_(problem) {}

  LinearReplacement read() const {
    check_names();
    const QuantConfig& quant = problem_.quant;
    const int64_t rows = problem_.weight.size(0);
    const int64_t columns = problem_.weight.size(1);
    const int64_t groups = quant.groups(columns);
    if (has("weight")) return DenseWeights{numbers("weight", {rows, columns})};
    QuantizedLinear quantized;
    quantized.bits = quant.bits;
    quantized.group_size = quant.group_size;
    quantized.codes = integers("codes", {rows, columns}, quant.max_code()).to(at::kByte);
    quantized.scales = scales({rows, groups});
    quantized.zeros = integers("zeros", {rows, groups}, quant.max_code()).to(at::kByte);
    if (has("g_idx"))
      quantized.group_of_input = integers("g_idx", {columns}, groups - 1).to(at::kInt);
    if (!has("input_transform")) return quantized;
    const bool diagonal = file_.view("input_transform").dim() == 1;
    return TransformedLinear{
        std::move(quantized),
        numbers("input_transform",
                diagonal ? std::vector<int64_t>{columns} : std::vector<int64_t>{columns, columns})
            .to(at::kFloat)};
  }

 private:
  bool has(const std::string& name) const { return file_.tensors().contains(name); }

  [[noreturn]] static void refuse(const std::string& name, const std::string& expected,
                                  const std::string& got) {
    throw Error(name, "expected " + expected + ", got " + got);
  }

  void check_names() const {
    static const std::set<std::string> kCodes = {"codes", "scales", "zeros"};
    std::vector<std::string> names;
    for (const auto& [name, info] : file_.tensors()) names.push_back(name);
    const std::string got = names.empty() ? "no tensor" : join(names, ", ");
    if (has("weight")) {
      if (names.size() == 1) return;
      refuse("answer", "`weight` alone or codes, not both", got);
    }
    for (const std::string& name : kCodes)
      if (!has(name)) refuse("answer", "codes, scales and zeros, or weight", got);
    for (const std::string& name : names)
      if (!kCodes.contains(name) && name != "g_idx" && name != "input_transform")
        refuse("answer", "codes, scales, zeros, g_idx, input_transform or weight", got);
  }

  // A copy: the file goes away.
  at::Tensor tensor(const std::string& name, const std::vector<int64_t>& shape,
                    bool floating) const {
    const at::Tensor view = file_.view(name);
    const std::string kind = safetensors_dtype_name(view.scalar_type());
    if (at::isFloatingType(view.scalar_type()) != floating || view.scalar_type() == at::kBool)
      refuse(name, floating ? "a floating dtype" : "an integer dtype", kind);
    if (view.sizes() != at::IntArrayRef(shape))
      refuse(name, "shape " + shape_text(shape), shape_text(view.sizes()));
    return view.clone();
  }

  at::Tensor integers(const std::string& name, const std::vector<int64_t>& shape,
                      int64_t largest) const {
    const at::Tensor values = tensor(name, shape, false).to(at::kLong);
    for (const int64_t value : {values.min().item<int64_t>(), values.max().item<int64_t>()})
      if (value < 0 || value > largest)
        refuse(name, "whole numbers from 0 to " + std::to_string(largest), std::to_string(value));
    return values;
  }

  at::Tensor numbers(const std::string& name, const std::vector<int64_t>& shape) const {
    const at::Tensor values = tensor(name, shape, true);
    const int64_t bad = values.isfinite().logical_not().sum().item<int64_t>();
    if (bad > 0) refuse(name, "finite numbers", std::to_string(bad) + " that are NaN or infinite");
    return values;
  }

  // Rounding them here would part the codes from the grid they were chosen on.
  at::Tensor scales(const std::vector<int64_t>& shape) const {
    const at::Tensor given = numbers("scales", shape).to(at::kDouble);
    if (given.le(0).any().item<bool>())
      refuse("scales", "numbers above 0", number_text(given.min().item<double>()));
    const bool half = problem_.quant.scale_dtype == ScaleDtype::kFloat16;
    const at::Tensor stored = given.to(half ? at::kHalf : at::kFloat);
    const int64_t changed = stored.to(at::kDouble).ne(given).sum().item<int64_t>();
    if (changed > 0)
      refuse("scales",
             std::string("numbers that ") + (half ? "float16" : "float32") +
                 " holds, as quant.scale_dtype says",
             std::to_string(changed) + " that it does not. Round scales before codes are chosen" +
                 (half ? ", or set quant.scale_dtype: float32" : ""));
    return stored.to(at::kFloat);
  }

  SafetensorsFile file_;
  const LinearProblem& problem_;
};

}  // namespace

ExternalProgram::ExternalProgram(const std::string& command, fs::path folder)
    : command_(command), folder_(std::move(folder)) {
  split_command(command_);
}

LinearReplacement ExternalProgram::solve(const LinearProblem& problem) {
  const fs::path folder = fs::absolute(folder_ / problem.layer);
  const fs::path input = folder / "input.safetensors";
  const fs::path output = folder / "output.safetensors";
  const fs::path log = folder / "log.txt";
  const auto fail = [&](std::string message) -> Error {
    if (message.ends_with('.')) message.pop_back();
    return Error(problem.layer, message + ". Command: " + command_ + ". " +
                                    printed_text(log, kTailBytes) + ". Its files are in " +
                                    folder.string());
  };
  fs::remove_all(folder);
  write_safetensors(input,
                    {{"weight", problem.weight.to(at::kCPU, at::kFloat).contiguous()},
                     {"hessian", problem.stats->hessian().cpu().contiguous()}},
                    settings_of(problem));
  std::string ended;
  try {
    ended = run_child(words_for(command_, input, output), log);
  } catch (const Error& error) {
    throw fail(error.what());
  }
  if (!ended.empty())
    throw fail("expected the external program to end with status 0, got " + ended);
  if (!fs::exists(output))
    throw fail("expected the external program to write " + output.string() + ", got no file");
  try {
    LinearReplacement answer = Answer(output, problem).read();
    fs::remove_all(folder);
    return answer;
  } catch (const Error& error) {
    throw fail(std::string("expected an answer that can be used, got a fault: ") + error.what());
  }
}

std::string command_fingerprint(const std::string& command) {
  if (command.empty()) return "";
  Sha256 hash;
  for (const std::string& word : split_command(command)) {
    std::error_code ignored;
    if (!fs::is_regular_file(word, ignored)) continue;
    hash.add(word + '\n');
    hash.add(sha256_hex(read_file(word)));
  }
  return hash.hex();
}

}  // namespace gptqb
