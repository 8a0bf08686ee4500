#include "methods/quantize_model.h"

#include <cmath>
#include <memory>
#include <utility>

#include "common/error.h"
#include "methods/activation_hash.h"
#include "methods/block_passes.h"
#include "methods/layer_plan.h"
#include "methods/quantize_embedding.h"
#include "methods/row_sample.h"
#include "methods/write_behind.h"

namespace gptqb {
namespace {

class Driver {
 public:
  Driver(BlockModel& model, const QuantizeOptions& options, PhaseClock& clock)
      : model_(model),
        options_(options),
        progress_(options.progress != nullptr ? *options.progress : silent_progress()),
        clock_(clock),
        passes_(model, options, clock) {
    if (options.resume != nullptr) writer_.emplace(*options.resume);
  }

  QuantizeReport run(const at::Tensor& calibration, const at::Tensor& heldout) {
    clock_.enter("idle");
    seconds_before_ = clock_.seconds();
    const double start = clock_.total();
    has_calibration_ = calibration.defined() && calibration.size(0) > 0;
    plan_ = plan_layers(model_, options_, has_calibration_);
    passes_.count_outliers(plan_.outlier_threshold);
    if (plan_.anything_to_do)
      quantize(calibration, heldout);
    else
      report_dense_layers();
    finish_writing();
    clock_.enter("idle");
    for (const auto& [phase, seconds] : clock_.seconds())
      report_.seconds[phase] = seconds - seconds_before_[phase];
    report_.seconds_total = clock_.total() - start;
    report_.write_busy_seconds = report_.seconds["write"];
    if (writer_) report_.write_busy_seconds += writer_->busy_seconds() - writer_->waited_seconds();
    return std::move(report_);
  }

 private:
  void quantize(const at::Tensor& calibration, const at::Tensor& heldout) {
    report_.untied_head = (plan_.head || options_.embedding) && model_.extras().tied_head;
    embed_windows(calibration, heldout);
    progress_.begin("blocks", model_.block_count());
    for (int64_t block = 0; block < model_.block_count(); ++block) {
      throw_if_interrupted();
      clock_.enter("read");
      model_.load_block(block);
      report_.count_linears(model_);
      if (!resume_block(block)) quantize_block(block);
      progress_.advance();
    }
    clock_.enter("read");
    model_.release_block();
    if (plan_.head && !resume_head()) quantize_head();
  }

  void report_dense_layers() {
    for (const BlockPlan& block : plan_.blocks)
      for (const StagePlan& stage : block)
        for (const LayerPlan& layer : stage) report_.layers.push_back(skipped_health(layer));
  }

  bool is_last(int64_t block) const { return block + 1 == model_.block_count(); }
  bool dense_inputs() const { return options_.method.inputs == StatsInputs::kDense; }

  // The streams that enter block 0. What is "quantized" sees the quantized embedding, what is dense
  // the one as loaded.
  void embed_windows(const at::Tensor& calibration, const at::Tensor& heldout) {
    const bool has_heldout = heldout.defined() && heldout.size(0) > 0;
    if (has_heldout) heldout_quantized_ = heldout_dense_ = passes_.embed(heldout);
    if (has_calibration_) calibration_ = passes_.embed(calibration);
    if (!options_.embedding) return;
    clock_.enter("solve");
    auto result =
        quantize_embedding(model_, *options_.embedding, options_.compat, calibration, heldout);
    report_.count_end(*options_.embedding, result.replacement);
    model_.replace_end(ModelEnd::kEmbedding, result.replacement);
    report_.layers.push_back(std::move(result.health));
    if (has_heldout) heldout_quantized_ = passes_.embed(heldout);
    if (has_calibration_ && !dense_inputs()) calibration_ = passes_.embed(calibration);
  }

  // --- one block ---

  void quantize_block(int64_t block) {
    std::vector<StageData> data(plan_.blocks[block].size());
    FinishedBlock finished;
    if (options_.method.true_sequential)
      quantize_in_sequence(block, data, finished);
    else
      quantize_at_once(block, data, finished);

    const double drift = record_drift(finished.health);
    report_.layers.insert(report_.layers.end(), finished.health.begin(), finished.health.end());
    if (drift > 1)
      progress_.note(model_.block_name(block) + ": output drifts by more than its own size");
    if (writer_) {
      finished.output_hash = has_output(block) ? hash(calibration_) : 0;
      save(block, std::move(finished));
    }
  }

  // Beside what comes next. Entering the phase waits for the copies of codes from the device.
  void save(int64_t block, FinishedBlock finished) {
    clock_.enter("write");
    writer_->save(block, std::move(finished));
  }

  void finish_writing() {
    if (!writer_) return;
    clock_.enter("write");
    writer_->finish();
  }

  // The last block feeds at most the head; without it its output is not computed and not checked on
  // resuming.
  bool has_output(int64_t block) const {
    return has_calibration_ && (!is_last(block) || plan_.head);
  }

  // Published flow: statistics of all stages from the dense block, then all linears, then the
  // quantized block.
  void quantize_at_once(int64_t block, std::vector<StageData>& data, FinishedBlock& finished) {
    const BlockPlan& plan = plan_.blocks[block];
    const bool output = has_output(block);
    Stream dense_output =
        passes_.collect_all(plan, calibration_, &StageData::stats, dense_inputs() && output, data);
    if (dense_inputs()) {
      heldout_dense_ = passes_.collect_all(plan, heldout_dense_, &StageData::heldout, true, data);
    } else {
      passes_.collect_all(plan, heldout_quantized_, &StageData::heldout, false, data);
      passes_.run(heldout_dense_);
    }
    const auto preparation = prepare(block, data, finished);
    for (size_t stage = 0; stage < data.size(); ++stage) {
      solve_stage(plan[stage], data[stage], preparation, finished);
      data[stage] = StageData{};
    }
    if (output && dense_inputs())
      calibration_ = std::move(dense_output);
    else if (output)
      passes_.run(calibration_);
    passes_.run(heldout_quantized_);
  }

  // True-sequential: each stage's statistics see the quantized stages before it, all in one pass.
  void quantize_in_sequence(int64_t block, std::vector<StageData>& data, FinishedBlock& finished) {
    const bool output = has_output(block);
    Stream dense_output;
    if (dense_inputs() && output) dense_output = passes_.outputs(calibration_);
    auto heldout = passes_.begin(dense_inputs() ? heldout_dense_ : heldout_quantized_);
    passes_.run(heldout_dense_);
    auto calibration = passes_.begin(std::move(calibration_));
    for (size_t stage = 0; stage < data.size(); ++stage) {
      const StagePlan& layers = plan_.blocks[block][stage];
      if (has_work(layers)) {
        passes_.collect(calibration, &StageData::stats, data[stage]);
        passes_.collect(heldout, &StageData::heldout, data[stage]);
      }
      solve_stage(layers, data[stage], {}, finished);
      // Nothing reads what the last block's last stage puts out.
      const bool last_stage = stage + 1 == data.size();
      if (!last_stage || (output && !dense_inputs())) passes_.run_stage(stage, calibration);
      if (!last_stage || !dense_inputs()) passes_.run_stage(stage, heldout);
      data[stage] = StageData{};
    }
    if (output) calibration_ = std::move(dense_inputs() ? dense_output : calibration.residual);
    if (dense_inputs())
      passes_.run(heldout_quantized_);
    else
      heldout_quantized_ = std::move(heldout.residual);
  }

  // Lets a method that looks at blocks as a whole move scales in the model.
  BlockPreparation prepare(int64_t block, const std::vector<StageData>& data,
                           FinishedBlock& finished) {
    std::shared_ptr<const Quantizer> preparing;
    for (const auto& stage : plan_.blocks[block])
      for (const auto& layer : stage)
        if (layer.quantizer && layer.quantizer->prepares_blocks()) preparing = layer.quantizer;
    if (!preparing) return {};
    clock_.enter("solve");
    BlockProblem problem{.model = &model_,
                         .inputs = &calibration_.chunks(),
                         .stages = {},
                         .stats = {},
                         .method = options_.method,
                         .compat = options_.compat};
    for (size_t stage = 0; stage < data.size(); ++stage) {
      std::vector<BlockLinear> linears;
      for (const auto& layer : plan_.blocks[block][stage])
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

  void solve_stage(const StagePlan& layers, StageData& data, const BlockPreparation& preparation,
                   FinishedBlock& finished) {
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
      describe_shape(problem.weight, sharing, data, result.health);
      result.health.rule = layer.settings.rule;
      if (const auto* codes = result.replacement.codes()) result.health.codes = codes->codes_hash();
      report_.count(layer.settings.quant, result.replacement);
      model_.replace(layer.linear, result.replacement);
      note_layer(result.health, progress_);
      finished.health.push_back(result.health);
      clock_.enter("write");
      clock_.move("solve", "factor", result.health.seconds_factor);
      if (writer_) finished.linears[layer.linear] = KeptLinear::queued(result.replacement);
    }
  }

  static void describe_shape(const at::Tensor& weight, int64_t sharing, const StageData& data,
                             LayerHealth& health) {
    health.out_features = weight.size(0);
    health.in_features = weight.size(1);
    health.hessian_shared_by = sharing;
    health.seconds_hessian = data.seconds_hessian / static_cast<double>(sharing);
  }

  // --- the head ---

  // On the windows as they left the last block. Kept for resuming, as a block behind the last.
  void quantize_head() {
    StageData data;
    clock_.enter("forward");
    for (size_t i = 0; i < calibration_.size(); ++i) {
      throw_if_interrupted();
      passes_.add(model_.head_input(calibration_.get(i)), &StageData::stats, data);
    }
    passes_.add_waiting(&StageData::stats, data);
    const Stream& heldout = dense_inputs() ? heldout_dense_ : heldout_quantized_;
    for (size_t i = 0; i < heldout.size(); ++i)
      passes_.add(model_.head_input(heldout.get(i)), &StageData::heldout, data);
    passes_.add_waiting(&StageData::heldout, data);
    throw_if_interrupted();
    save_hessian(plan_.head->layer, data);
    clock_.enter("solve");
    const LinearProblem problem{.layer = plan_.head->layer,
                                .weight = model_.end_weight(ModelEnd::kHead).to(model_.device()),
                                .stats = data.stats.get(),
                                .heldout = data.heldout.get(),
                                .quant = plan_.head->settings.quant,
                                .method = options_.method,
                                .compat = options_.compat,
                                .factors = &data.factors,
                                .external = options_.external,
                                .moved = {},
                                .clip_moments = {},
                                .clip_inputs = {}};
    auto result = plan_.head->quantizer->quantize(problem);
    result.replacement.validate(plan_.head->layer);
    if (const auto* codes = result.replacement.codes()) result.health.codes = codes->codes_hash();
    describe_shape(problem.weight, 1, data, result.health);
    report_.count_end(plan_.head->settings.quant, result.replacement);
    model_.replace_end(ModelEnd::kHead, result.replacement);
    note_layer(result.health, progress_);
    report_.layers.push_back(result.health);
    clock_.enter("write");
    clock_.move("solve", "factor", result.health.seconds_factor);
    if (!writer_) return;
    FinishedBlock finished;
    finished.linears[plan_.head->linear] = KeptLinear::queued(result.replacement);
    finished.health = {std::move(result.health)};
    save(model_.block_count(), std::move(finished));
  }

  // Takes the head from the store. False: not there.
  bool resume_head() {
    if (options_.resume == nullptr || lacks_hessian(plan_.head->layer)) return false;
    auto kept = options_.resume->load(model_.block_count());
    if (!kept || !kept->linears.contains(plan_.head->linear)) return false;
    const LinearReplacement linear =
        kept->linears.at(plan_.head->linear).replacement(model_.device());
    linear.validate(plan_.head->layer);
    report_.count_end(plan_.head->settings.quant, linear);
    model_.replace_end(ModelEnd::kHead, linear);
    report_.layers.insert(report_.layers.end(), kept->health.begin(), kept->health.end());
    return true;
  }

  // norm(Y - Y_dense) / norm(Y_dense) over the held-out windows, written to every layer of the
  // block.
  double record_drift(std::vector<LayerHealth>& health) {
    clock_.enter("forward");
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < heldout_dense_.size(); ++i) {
      const auto dense = heldout_dense_.get(i).to(at::kFloat);
      const auto quantized = heldout_quantized_.get(i).to(at::kFloat);
      difference += (quantized - dense).square().sum(at::kDouble).item<double>();
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
    for (size_t i = 0; i < stream.size(); ++i) value = activation_hash(stream.get(i), value);
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
    for (const auto& stage : plan_.blocks[block])
      for (const auto& layer : stage)
        if (layer.quantizer && lacks_hessian(layer.layer)) return true;
    return false;
  }

  // Takes a finished block from the store: replaces its linears and goes on behind it. False: not
  // there.
  bool resume_block(int64_t block) {
    if (options_.resume == nullptr || lacks_hessians(block)) return false;
    clock_.enter("read");
    auto finished = options_.resume->load(block);
    if (!finished) return false;
    Stream dense_output;
    if (dense_inputs() && has_output(block)) dense_output = passes_.outputs(calibration_);
    passes_.run(heldout_dense_);
    replace_from(block, *finished);
    if (has_output(block)) {
      if (dense_inputs())
        calibration_ = std::move(dense_output);
      else
        passes_.run(calibration_);
      if (hash(calibration_) != finished->output_hash)
        throw Error(
            model_.block_name(block),
            "expected the kept block to put out the same activations as before, got different "
            "ones: the model, the machine or the build has changed. Run again with --fresh");
    }
    passes_.run(heldout_quantized_);
    report_.layers.insert(report_.layers.end(), finished->health.begin(), finished->health.end());
    ++report_.resumed_blocks;
    return true;
  }

  void replace_from(int64_t block, const FinishedBlock& finished) {
    clock_.enter("read");
    for (const auto& [producer, scale] : finished.divided) model_.divide_output(producer, scale);
    for (const auto& stage : plan_.blocks[block])
      for (const auto& layer : stage) {
        if (!layer.quantizer) continue;
        const auto found = finished.linears.find(layer.linear);
        if (found == finished.linears.end())
          throw Error(layer.layer,
                      "expected it in the kept block, got none. Run again with --fresh");
        const LinearReplacement linear = found->second.replacement(model_.device());
        linear.validate(layer.layer);
        report_.count(layer.settings.quant, linear);
        model_.replace(layer.linear, linear);
      }
  }

  BlockModel& model_;
  const QuantizeOptions& options_;
  Progress& progress_;
  PhaseClock& clock_;
  std::map<std::string, double> seconds_before_;  // what was booked before this call
  BlockPasses passes_;
  ModelPlan plan_;
  bool has_calibration_ = false;
  Stream calibration_;  // what statistics are taken on: outputs of quantized blocks, or dense ones
  Stream heldout_quantized_;  // held-out windows through the quantized blocks ...
  Stream heldout_dense_;      // ... and through the dense ones
  QuantizeReport report_;
  std::optional<WriteBehind> writer_;  // empty: nothing is kept
};

}  // namespace

QuantizeReport quantize_model(BlockModel& model, const at::Tensor& calibration,
                              const at::Tensor& heldout, const QuantizeOptions& options) {
  std::optional<PhaseClock> own;
  PhaseClock& clock = options.clock ? *options.clock : own.emplace(model.device(), "idle");
  return Driver(model, options, clock).run(calibration, heldout);
}

}  // namespace gptqb
