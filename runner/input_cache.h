// Tokenizers, token windows and the dense models' outputs, made once per run and shared by its
// cells.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "datasets/tokenizer.h"
#include "datasets/windows.h"
#include "eval/dense_reference.h"
#include "runner/cell.h"

namespace gptqb {

class InputCache {
 public:
  // Bytes of hidden states that are kept on the host for one model.
  static constexpr int64_t kStatesBytes = int64_t{4} << 30;

  // `data_root`: $GPTQ_BENCH_DATA; relative paths of models and own sources start at `base`.
  InputCache(std::filesystem::path data_root, std::filesystem::path base);

  // The model of a cell, dense as its checkpoint or seed has it.
  std::unique_ptr<CausalLm> open(const Cell& cell, const std::string& device) const;
  // The same with another `model.backend`.
  std::unique_ptr<CausalLm> open(const Cell& cell, const std::string& device,
                                 const std::string& backend) const;

  // The Hugging Face folder a cell names, made absolute; for a synthetic model it means nothing.
  std::filesystem::path model_folder(const Cell& cell) const;

  // The files of a model folder that may be read, each hashed whole: minutes for a large model.
  const std::vector<SourceFile>& model_files(const std::filesystem::path& folder);

  // The tokenizer of a model folder.
  const Tokenizer& tokenizer(const std::filesystem::path& folder);

  // Calibration windows of a cell, drawn dataset by dataset where the experiment mixes (samples
  // split by share, the remainder to the first).
  const CalibrationWindows& calibration(const Cell& cell);

  // Windows of one dataset of an evaluator.
  const TokenWindows& evaluation(const Cell& cell, const EvaluatorSpec& evaluator,
                                 const DatasetSpec& dataset);

  // The dense model of a cell on `device`, for evaluators that compare with it.
  DenseReference& dense(const Cell& cell, const std::string& device);

  // Whether all text of a cell comes as ids, so that no tokenizer is needed.
  static bool needs_tokenizer(const Cell& cell);

 private:
  const Tokenizer* tokenizer_of(const Cell& cell);
  // The text of a dataset; of `random` so many ids of the cell's vocabulary, which only time and
  // memory of a real model may be measured on (`any_model`).
  Corpus load(const Cell& cell, const DatasetSpec& dataset, Purpose purpose, int64_t tokens,
              int64_t seed, bool any_model) const;

  std::filesystem::path data_root_;
  std::filesystem::path base_;
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers_;
  std::map<std::string, std::vector<SourceFile>> model_files_;
  std::map<std::string, CalibrationWindows> calibration_;
  std::map<std::string, TokenWindows> evaluation_;
  std::map<std::string, std::unique_ptr<DenseReference>> dense_;
};

}  // namespace gptqb
