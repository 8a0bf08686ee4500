#include "methods/quantize_model.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "common/error.h"
#include "common/text.h"
#include "methods/activation_hash.h"
#include "methods/clock.h"
#include "methods/hessian.h"
#include "methods/quantize_embedding.h"
#include "methods/row_sample.h"

namespace gptqb {
namespace {

// Hidden states of all sequences at one point of the model, in chunks [sequences, seqlen, hidden].
using Stream = std::vector<at::Tensor>;

// One linear of the loaded block and what is to be done with it.
struct LayerPlan {
  std::string linear;  // name within the block
  std::string layer;   // full name
  LayerSettings settings;
  std::shared_ptr<const Quantizer> quantizer;  // null: stays dense
  std::string skipped;                         // why, if it stays dense
};

// What the linears of a stage read: in H, on held-out windows, and the factor they share.
struct StageData {
  std::unique_ptr<CalibrationStats> stats;
  std::unique_ptr<CalibrationStats> heldout;
  FactorCache factors;
  double seconds_hessian = 0;
};

class Driver {
 public:
  Driver(BlockModel& model, const QuantizeOptions& options)
      : model_(model),
        options_(options),
        progress_(options.progress != nullptr ? *options.progress : silent_progress()),
        clock_(model.device(), "read") {}

  QuantizeReport run(const at::Tensor& calibration, const at::Tensor& heldout) {
    has_calibration_ = calibration.defined() && calibration.size(0) > 0;
    make_plan();
    if (!anything_to_do()) {
      for (int64_t block = 0; block < model_.block_count(); ++block) report_skipped(block);
      return finish();
    }
    report_.untied_head = (head_ || options_.embedding) && model_.extras().tied_head;
    embed_windows(calibration, heldout);
    progress_.begin("blocks", model_.block_count());
    for (int64_t block = 0; block < model_.block_count(); ++block) {
      throw_if_interrupted();
      clock_.enter("read");
      model_.load_block(block);
      count_weights();
      if (!resume_block(block)) quantize_block(block);
      progress_.advance();
    }
    clock_.enter("read");
    model_.release_block();
    if (head_ && !resume_head()) quantize_head();
    clock_.enter("read");
    return finish();
  }

 private:
  // --- what is to be done ---

  // Resolves every layer's settings and refuses impossible ones before any work is done.
  void make_plan() {
    std::map<std::string, std::shared_ptr<const Quantizer>> made;
    for (int64_t block = 0; block < model_.block_count(); ++block) {
      std::vector<std::vector<LayerPlan>> stages;
      for (const auto& stage : model_.stages()) {
        std::vector<LayerPlan> layers;
        for (const auto& linear : stage.linears)
          layers.push_back(plan_layer(model_.block_name(block) + "." + linear, linear, made));
        stages.push_back(std::move(layers));
      }
      plan_.push_back(std::move(stages));
    }
    if (options_.head) plan_head();
    if (options_.embedding) options_.embedding->validate(model_.extras().embedding);
  }

  // The head is a linear like others, but no rule of the layers reaches it.
  void plan_head() {
    const std::string name = model_.extras().head;
    LayerPlan plan{.linear = name,
                   .layer = name,
                   .settings = {.skip = false,
                                .method = options_.method.name,
                                .quant = *options_.head,
                                .rule = ""},
                   .quantizer = quantizers().at(options_.method.name).make(),
                   .skipped = ""};
    plan.settings.quant.validate(name);
    if (!plan.quantizer)
      throw Error(name, "expected a method that quantizes, got " + options_.method.name);
    if (plan.quantizer->needs_stats() && !has_calibration_)
      throw Error(name,
                  "expected calibration windows for method " + options_.method.name + ", got none");
    head_ = std::move(plan);
  }

  LayerPlan plan_layer(const std::string& layer, const std::string& linear,
                       std::map<std::string, std::shared_ptr<const Quantizer>>& made) {
    LayerPlan plan{.linear = linear,
                   .layer = layer,
                   .settings = options_.settings(layer),
                   .quantizer = nullptr,
                   .skipped = ""};
    if (plan.settings.skip) {
      plan.skipped = "skipped: left dense by an override";
      return plan;
    }
    if (!glob_match(options_.method.layers, layer)) {
      plan.skipped = "skipped: left dense, not of method.layers " + options_.method.layers;
      return plan;
    }
    const auto& name = plan.settings.method;
    if (!made.contains(name)) made[name] = quantizers().at(name).make();
    plan.quantizer = made[name];
    if (!plan.quantizer) {
      plan.skipped = "skipped: method " + name + " leaves layers dense";
      return plan;
    }
    if (const auto threshold = plan.quantizer->outlier_threshold(options_.method))
      outlier_threshold_ = threshold;
    plan.settings.quant.validate(layer);
    if (plan.quantizer->prepares_blocks() && options_.method.true_sequential)
      throw Error(layer, "expected true_sequential: false for method " + name +
                             ", which looks at a block as a whole, got true");
    if (plan.quantizer->needs_stats() && !has_calibration_)
      throw Error(layer, "expected calibration windows for method " + name + ", got none");
    return plan;
  }

  bool anything_to_do() const {
    if (head_ || options_.embedding) return true;
    for (const auto& block : plan_)
      for (const auto& stage : block)
        if (has_work(stage)) return true;
    return false;
  }

  static bool has_work(const std::vector<LayerPlan>& stage) {
    return std::any_of(stage.begin(), stage.end(),
                       [](const LayerPlan& layer) { return layer.quantizer != nullptr; });
  }

  // One past the last stage of a block in which a layer is quantized.
  size_t stages_with_work(int64_t block) const {
    size_t count = 0;
    for (size_t stage = 0; stage < plan_[block].size(); ++stage)
      if (has_work(plan_[block][stage])) count = stage + 1;
    return count;
  }

  bool is_last(int64_t block) const { return block + 1 == model_.block_count(); }
  bool dense_inputs() const { return options_.method.inputs == StatsInputs::kDense; }

  // --- forward passes ---

  Stream embed(const at::Tensor& ids) {
    Stream stream;
    const int64_t step = std::max<int64_t>(options_.sequences_per_chunk, 1);
    for (int64_t begin = 0; begin < ids.size(0); begin += step) {
      throw_if_interrupted();
      stream.push_back(model_.embed(ids.narrow(0, begin, std::min(step, ids.size(0) - begin))));
    }
    return stream;
  }

  // The streams that enter block 0. What is "quantized" sees the quantized embedding, what is dense
  // the one as loaded.
  void embed_windows(const at::Tensor& calibration, const at::Tensor& heldout) {
    const bool has_heldout = heldout.defined() && heldout.size(0) > 0;
    clock_.enter("forward");
    if (has_heldout) heldout_quantized_ = heldout_dense_ = embed(heldout);
    if (has_calibration_) calibration_ = embed(calibration);
    if (!options_.embedding) return;
    clock_.enter("solve");
    auto result =
        quantize_embedding(model_, *options_.embedding, options_.compat, calibration, heldout);
    count_end(*options_.embedding, result.replacement);
    model_.replace_end(ModelEnd::kEmbedding, result.replacement);
    report_.layers.push_back(std::move(result.health));
    clock_.enter("forward");
    if (has_heldout) heldout_quantized_ = embed(heldout);
    if (has_calibration_ && !dense_inputs()) calibration_ = embed(calibration);
  }

  Stream run_block(const Stream& stream) {
    clock_.enter("forward");
    Stream outputs;
    for (const auto& hidden : stream) {
      throw_if_interrupted();
      outputs.push_back(model_.run_block(hidden));
    }
    return outputs;
  }

  // Adds a stage's input to its statistics, which are made when their size is first seen.
  void collect(std::unique_ptr<CalibrationStats>& stats, const at::Tensor& input, double& seconds) {
    clock_.enter("hessian");
    const double before = clock_.total();
    const auto accumulation = options_.method.solver == SolverKind::kReference
                                  ? Accumulation::kPublished
                                  : Accumulation::kSum;
    if (!stats)
      stats = std::make_unique<CalibrationStats>(input.size(-1), input.device(), accumulation,
                                                 outlier_threshold_, options_.method.precision);
    stats->add(input);
    seconds += clock_.total() - before;
    clock_.enter("forward");
  }

  using StatsMember = std::unique_ptr<CalibrationStats> StageData::*;

  // Statistics of all stages from the dense block. With `to_the_end` the block's output is
  // returned; otherwise the pass stops at the input of the last stage that needs statistics.
  Stream collect_all(int64_t block, const Stream& stream, StatsMember member, bool to_the_end,
                     std::vector<StageData>& data) {
    clock_.enter("forward");
    const size_t needed = stages_with_work(block);
    Stream outputs;
    for (const auto& hidden : stream) {
      throw_if_interrupted();
      auto activations = model_.begin(hidden);
      for (size_t stage = 0; stage < plan_[block].size(); ++stage) {
        if (has_work(plan_[block][stage]))
          collect(data[stage].*member, activations.input, data[stage].seconds_hessian);
        if (!to_the_end && stage + 1 >= needed) break;
        model_.run_stage(stage, activations);
      }
      if (to_the_end) outputs.push_back(std::move(activations.residual));
    }
    return outputs;
  }

  std::vector<BlockActivations> begin_all(const Stream& stream) {
    clock_.enter("forward");
    std::vector<BlockActivations> all;
    for (const auto& hidden : stream) all.push_back(model_.begin(hidden));
    return all;
  }

  // One stage on kept intermediates.
  void run_stage(size_t stage, std::vector<BlockActivations>& all) {
    clock_.enter("forward");
    for (auto& activations : all) {
      throw_if_interrupted();
      model_.run_stage(stage, activations);
    }
  }

  static Stream residuals(std::vector<BlockActivations> all) {
    Stream stream;
    for (auto& activations : all) stream.push_back(std::move(activations.residual));
    return stream;
  }

  // --- one block ---

  void quantize_block(int64_t block) {
    std::vector<StageData> data(plan_[block].size());
    FinishedBlock finished;
    if (options_.method.true_sequential)
      quantize_in_sequence(block, data, finished);
    else
      quantize_at_once(block, data, finished);

    const double drift = record_drift(finished.health);
    report_.layers.insert(report_.layers.end(), finished.health.begin(), finished.health.end());
    if (drift > 1)
      progress_.note(model_.block_name(block) + ": output drifts by more than its own size");
    if (options_.resume != nullptr) {
      finished.output_hash = has_output(block) ? hash(calibration_) : 0;
      clock_.enter("write");
      options_.resume->save(block, finished);
    }
  }

  // The last block feeds at most the head; without it its output is not computed and not checked on
  // resuming.
  bool has_output(int64_t block) const { return has_calibration_ && (!is_last(block) || head_); }

  // Published flow: statistics of all stages from the dense block, then all linears, then the
  // quantized block.
  void quantize_at_once(int64_t block, std::vector<StageData>& data, FinishedBlock& finished) {
    const bool output = has_output(block);
    Stream dense_output =
        collect_all(block, calibration_, &StageData::stats, dense_inputs() && output, data);
    if (dense_inputs()) {
      heldout_dense_ = collect_all(block, heldout_dense_, &StageData::heldout, true, data);
    } else {
      collect_all(block, heldout_quantized_, &StageData::heldout, false, data);
      heldout_dense_ = run_block(heldout_dense_);
    }
    const auto preparation = prepare(block, data, finished);
    for (size_t stage = 0; stage < data.size(); ++stage) {
      solve_stage(plan_[block][stage], data[stage], preparation, finished);
      data[stage] = StageData{};
    }
    if (output) calibration_ = dense_inputs() ? std::move(dense_output) : run_block(calibration_);
    heldout_quantized_ = run_block(heldout_quantized_);
  }

  // True-sequential: each stage's statistics see the quantized stages before it, all in one pass.
  void quantize_in_sequence(int64_t block, std::vector<StageData>& data, FinishedBlock& finished) {
    const bool output = has_output(block);
    auto calibration = begin_all(calibration_);
    auto heldout = begin_all(dense_inputs() ? heldout_dense_ : heldout_quantized_);
    Stream dense_output;
    if (dense_inputs() && output) dense_output = run_block(calibration_);
    heldout_dense_ = run_block(heldout_dense_);
    for (size_t stage = 0; stage < data.size(); ++stage) {
      const auto& layers = plan_[block][stage];
      if (has_work(layers)) {
        for (auto& part : calibration) {
          throw_if_interrupted();
          collect(data[stage].stats, part.input, data[stage].seconds_hessian);
        }
        for (auto& part : heldout)
          collect(data[stage].heldout, part.input, data[stage].seconds_hessian);
      }
      solve_stage(layers, data[stage], {}, finished);
      // Nothing reads what the last block's last stage puts out.
      const bool last_stage = stage + 1 == data.size();
      if (!last_stage || (output && !dense_inputs())) run_stage(stage, calibration);
      if (!last_stage || !dense_inputs()) run_stage(stage, heldout);
      data[stage] = StageData{};
    }
    if (output) calibration_ = dense_inputs() ? std::move(dense_output) : residuals(calibration);
    heldout_quantized_ = dense_inputs() ? run_block(heldout_quantized_) : residuals(heldout);
  }

  // Lets a method that looks at blocks as a whole move scales in the model.
  BlockPreparation prepare(int64_t block, const std::vector<StageData>& data,
                           FinishedBlock& finished) {
    std::shared_ptr<const Quantizer> preparing;
    for (const auto& stage : plan_[block])
      for (const auto& layer : stage)
        if (layer.quantizer && layer.quantizer->prepares_blocks()) preparing = layer.quantizer;
    if (!preparing) return {};
    clock_.enter("solve");
    BlockProblem problem{.model = &model_,
                         .inputs = &calibration_,
                         .stages = {},
                         .stats = {},
                         .method = options_.method,
                         .compat = options_.compat};
    for (size_t stage = 0; stage < data.size(); ++stage) {
      std::vector<BlockLinear> linears;
      for (const auto& layer : plan_[block][stage])
        linears.push_back(
            {layer.linear, layer.layer, layer.settings.quant, layer.quantizer == preparing});
      problem.stages.push_back(std::move(linears));
      problem.stats.push_back(data[stage].stats.get());
    }
    auto preparation = preparing->prepare_block(problem);
    for (const auto& [producer, scale] : preparation.divided) {
      model_.divide_output(producer, scale);
      finished.divided[producer] = scale.to(at::kCPU);
    }
    return preparation;
  }

  void solve_stage(const std::vector<LayerPlan>& layers, StageData& data,
                   const BlockPreparation& preparation, FinishedBlock& finished) {
    const auto of_linear = [](const auto& map, const std::string& linear) {
      const auto found = map.find(linear);
      return found == map.end() ? std::decay_t<decltype(found->second)>{} : found->second;
    };
    int64_t sharing = 0;
    for (const auto& layer : layers) sharing += layer.quantizer != nullptr;
    for (const auto& layer : layers) {
      throw_if_interrupted();
      if (!layer.quantizer) {
        finished.health.push_back(skipped_health(layer));
        continue;
      }
      save_hessian(layer.layer, data);
      clock_.enter("solve");
      LinearProblem problem{.layer = layer.layer,
                            .weight = model_.weight(layer.linear),
                            .stats = data.stats.get(),
                            .heldout = data.heldout.get(),
                            .quant = layer.settings.quant,
                            .method = options_.method,
                            .compat = options_.compat,
                            .factors = &data.factors,
                            .external = options_.external,
                            .moved = of_linear(preparation.moved, layer.linear),
                            .clip_moments = of_linear(preparation.clip_moments, layer.linear),
                            .clip_inputs = of_linear(preparation.clip_inputs, layer.linear)};
      auto result = quantize_rows(*layer.quantizer, problem);
      result.replacement.validate(layer.layer);
      result.health.seconds_hessian = data.seconds_hessian / static_cast<double>(sharing);
      result.health.rule = layer.settings.rule;
      if (const auto* codes = result.replacement.codes()) result.health.codes = codes->codes_hash();
      count(layer, result.replacement);
      model_.replace(layer.linear, result.replacement);
      note(result.health);
      finished.health.push_back(result.health);
      if (options_.resume != nullptr)
        finished.linears[layer.linear] = result.replacement.to(at::kCPU);
      clock_.enter("forward");
      clock_.move("solve", "factor", result.health.seconds_factor);
    }
  }

  // --- the head ---

  // On the windows as they left the last block. Kept for resuming, as a block behind the last.
  void quantize_head() {
    StageData data;
    clock_.enter("forward");
    for (const auto& hidden : calibration_) {
      throw_if_interrupted();
      collect(data.stats, model_.head_input(hidden), data.seconds_hessian);
    }
    for (const auto& hidden : dense_inputs() ? heldout_dense_ : heldout_quantized_)
      collect(data.heldout, model_.head_input(hidden), data.seconds_hessian);
    throw_if_interrupted();
    save_hessian(head_->layer, data);
    clock_.enter("solve");
    const LinearProblem problem{.layer = head_->layer,
                                .weight = model_.end_weight(ModelEnd::kHead).to(model_.device()),
                                .stats = data.stats.get(),
                                .heldout = data.heldout.get(),
                                .quant = head_->settings.quant,
                                .method = options_.method,
                                .compat = options_.compat,
                                .factors = &data.factors,
                                .external = options_.external,
                                .moved = {},
                                .clip_moments = {},
                                .clip_inputs = {}};
    auto result = head_->quantizer->quantize(problem);
    result.replacement.validate(head_->layer);
    result.health.seconds_hessian = data.seconds_hessian;
    count_end(head_->settings.quant, result.replacement);
    model_.replace_end(ModelEnd::kHead, result.replacement);
    note(result.health);
    report_.layers.push_back(result.health);
    clock_.enter("read");
    clock_.move("solve", "factor", result.health.seconds_factor);
    if (options_.resume == nullptr) return;
    clock_.enter("write");
    FinishedBlock finished;
    finished.linears[head_->linear] = result.replacement.to(at::kCPU);
    finished.health = {std::move(result.health)};
    options_.resume->save(model_.block_count(), finished);
  }

  // Takes the head from the store. False: not there.
  bool resume_head() {
    if (options_.resume == nullptr || lacks_hessian(head_->layer)) return false;
    auto kept = options_.resume->load(model_.block_count());
    if (!kept || !kept->linears.contains(head_->linear)) return false;
    const LinearReplacement& linear = kept->linears.at(head_->linear);
    linear.validate(head_->layer);
    count_end(head_->settings.quant, linear);
    model_.replace_end(ModelEnd::kHead, linear.to(model_.device()));
    report_.layers.insert(report_.layers.end(), kept->health.begin(), kept->health.end());
    return true;
  }

  // --- what is recorded ---

  static LayerHealth skipped_health(const LayerPlan& layer) {
    LayerHealth health;
    health.layer = layer.layer;
    health.method = "none";
    health.status = layer.skipped;
    health.rule = layer.settings.rule;
    return health;
  }

  void report_skipped(int64_t block) {
    for (const auto& stage : plan_[block])
      for (const auto& layer : stage) report_.layers.push_back(skipped_health(layer));
  }

  // All linears of the loaded block, those left dense too.
  void count_weights() {
    for (const auto& stage : model_.stages())
      for (const auto& linear : stage.linears)
        report_.linear_weights += model_.weight(linear).numel();
  }

  void count(const LayerPlan& layer, const LinearReplacement& replacement) {
    const bool half = layer.settings.quant.scale_dtype == ScaleDtype::kFloat16;
    report_.quantized_weights += replacement.out_features() * replacement.in_features();
    report_.quantized_bits += replacement.stored_bits(half ? 16 : 32);
  }

  void count_end(const QuantConfig& quant, const LinearReplacement& replacement) {
    const bool half = quant.scale_dtype == ScaleDtype::kFloat16;
    report_.end_weights += replacement.out_features() * replacement.in_features();
    report_.end_bits += replacement.stored_bits(half ? 16 : 32);
  }

  // What a user should see while it happens; the tables show it again.
  void note(const LayerHealth& health) {
    if (health.status != "ok") progress_.note(health.layer + ": " + health.status);
    if (health.damping_tries > 1 && health.status == "ok")
      progress_.note(health.layer + ": damping raised to " + std::to_string(*health.damping));
    if (health.relative_error && health.relative_error_rtn &&
        *health.relative_error > *health.relative_error_rtn)
      progress_.note(health.layer + ": error above that of RTN");
  }

  // norm(Y - Y_dense) / norm(Y_dense) over the held-out windows, written to every layer of the
  // block.
  double record_drift(std::vector<LayerHealth>& health) {
    clock_.enter("forward");
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < heldout_dense_.size(); ++i) {
      const auto dense = heldout_dense_[i].to(at::kFloat);
      difference +=
          (heldout_quantized_[i].to(at::kFloat) - dense).square().sum(at::kDouble).item<double>();
      norm += dense.square().sum(at::kDouble).item<double>();
    }
    if (!(norm > 0)) return 0;
    const double drift = std::sqrt(difference / norm);
    for (auto& layer : health) layer.drift = drift;
    return drift;
  }

  // --- resuming ---

  uint64_t hash(const Stream& stream) {
    clock_.enter("forward");
    uint64_t value = 0;
    for (const auto& part : stream) value = activation_hash(part, value);
    return value;
  }

  void save_hessian(const std::string& layer, const StageData& data) {
    if (options_.hessians == nullptr || data.stats == nullptr) return;
    clock_.enter("write");
    options_.hessians->save(layer, *data.stats);
  }

  bool lacks_hessian(const std::string& layer) const {
    return options_.hessians != nullptr && has_calibration_ && !options_.hessians->has(layer);
  }

  bool lacks_hessians(int64_t block) const {
    for (const auto& stage : plan_[block])
      for (const auto& layer : stage)
        if (layer.quantizer && lacks_hessian(layer.layer)) return true;
    return false;
  }

  // Takes a finished block from the store: replaces its linears and goes on behind it. False: not
  // there.
  bool resume_block(int64_t block) {
    if (options_.resume == nullptr || lacks_hessians(block)) return false;
    auto finished = options_.resume->load(block);
    if (!finished) return false;
    Stream dense_output;
    if (dense_inputs() && has_output(block)) dense_output = run_block(calibration_);
    heldout_dense_ = run_block(heldout_dense_);
    replace_from(block, *finished);
    if (has_output(block)) {
      calibration_ = dense_inputs() ? std::move(dense_output) : run_block(calibration_);
      if (hash(calibration_) != finished->output_hash)
        throw Error(
            model_.block_name(block),
            "expected the kept block to put out the same activations as before, got different "
            "ones: the model, the machine or the build has changed. Run again with --fresh");
    }
    heldout_quantized_ = run_block(heldout_quantized_);
    report_.layers.insert(report_.layers.end(), finished->health.begin(), finished->health.end());
    ++report_.resumed_blocks;
    return true;
  }

  void replace_from(int64_t block, const FinishedBlock& finished) {
    clock_.enter("read");
    for (const auto& [producer, scale] : finished.divided) model_.divide_output(producer, scale);
    for (const auto& stage : plan_[block])
      for (const auto& layer : stage) {
        if (!layer.quantizer) continue;
        const auto found = finished.linears.find(layer.linear);
        if (found == finished.linears.end())
          throw Error(layer.layer,
                      "expected it in the kept block, got none. Run again with --fresh");
        found->second.validate(layer.layer);
        count(layer, found->second);
        model_.replace(layer.linear, found->second.to(model_.device()));
      }
  }

  QuantizeReport finish() {
    clock_.enter("read");
    report_.seconds = clock_.seconds();
    report_.seconds_total = clock_.total();
    return std::move(report_);
  }

  BlockModel& model_;
  const QuantizeOptions& options_;
  Progress& progress_;
  PhaseClock clock_;
  std::vector<std::vector<std::vector<LayerPlan>>> plan_;  // [block][stage][linear]
  std::optional<LayerPlan> head_;                          // empty: stays dense
  bool has_calibration_ = false;
  std::optional<double> outlier_threshold_;
  Stream
      calibration_;  // what statistics are taken on: outputs of quantized blocks, or of dense ones
  Stream heldout_quantized_;  // held-out windows through the quantized blocks ...
  Stream heldout_dense_;      // ... and through the dense ones
  QuantizeReport report_;
};

}  // namespace

QuantizeReport quantize_model(BlockModel& model, const at::Tensor& calibration,
                              const at::Tensor& heldout, const QuantizeOptions& options) {
  return Driver(model, options).run(calibration, heldout);
}

}  // namespace gptqb
