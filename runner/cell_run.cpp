#include "runner/cell_run.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>

#include "common/add_once.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"
#include "datasets/overlap.h"
#include "eval/decode_latency.h"
#include "methods/quantize_model.h"
#include "runner/block_timer.h"
#include "runner/cell_memory.h"
#include "runner/decode_cell.h"
#include "runner/disk_plan.h"
#include "runner/external_program.h"
#include "runner/hessian_dump.h"
#include "runner/model_checks.h"
#include "runner/packed_evaluation.h"
#include "runner/packed_save.h"
#include "runner/policies.h"
#include "runner/resume_store.h"

namespace gptqb {
namespace {

at::Tensor to_ids(const TokenWindows& windows) {
  if (windows.count == 0) return {};
  return at::from_blob(const_cast<int32_t*>(windows.ids.data()), {windows.count, windows.seqlen},
                       at::kInt)
      .to(at::kLong);
}

void check_vocabulary(const Tokenizer& tokenizer, const CausalLm& model,
                      const std::filesystem::path& folder) {
  if (tokenizer.vocab_size() > model.vocab_size())
    throw Error(folder.string(),
                "expected a tokenizer of at most " + std::to_string(model.vocab_size()) +
                    " ids, the model's vocabulary, got " + std::to_string(tokenizer.vocab_size()) +
                    ". Its tokenizer files belong to another model");
}

// A model of which only a sample was solved is not the method's: readers of the record are told.
void note_sampling(const Cell& cell, bool sampled_rows, std::vector<std::string>& notes) {
  if (sampled_rows) {
    std::string note = "sample: only " + std::to_string(cell.method().rows) +
                       " evenly spaced rows of each linear were solved, all others hold RTN codes; "
                       "layer errors count the solved rows only";
    if (!cell.evaluators().empty()) note += ", and the model was not evaluated";
    notes.push_back(note);
  }
  if (cell.method().layers != "*")
    notes.push_back("sample: only layers " + cell.method().layers +
                    " were quantized, all others are dense");
}

// What layers say of themselves, once for all that say the same.
void note_layers(const std::vector<LayerHealth>& layers, std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::vector<std::string>>> said;
  for (const LayerHealth& layer : layers) {
    if (layer.note.empty()) continue;
    auto found = std::find_if(said.begin(), said.end(),
                              [&](const auto& each) { return each.first == layer.note; });
    if (found == said.end()) found = said.insert(said.end(), {layer.note, {}});
    found->second.push_back(layer.layer);
  }
  for (const auto& [note, names] : said)
    notes.push_back(
        (names.size() == 1 ? "" : std::to_string(names.size()) + " layers, the first ") +
        names.front() + ": " + note);
}

// Marks calibration text that reappears in what is evaluated (docs/architecture.md, Statistics).
void note_overlap(const Cell& cell, const PreparedCell& prepared, std::vector<std::string>& notes) {
  if (!prepared.calibration) return;
  for (size_t i = 0; i < prepared.evaluations.size(); ++i)
    for (const EvaluationInput& input : prepared.evaluations[i]) {
      if (cell.evaluators()[i].name == "decode_latency") continue;  // scores nothing
      const double share = ngram_overlap(prepared.calibration->calibration.ids, input.windows->ids);
      if (share > 0.01)
        add_once("calibration overlaps evaluation: " + std::to_string(100 * share) +
                     " % of the 13-token runs of " + input.name +
                     " occur in the calibration windows",
                 notes);
    }
}

// The device's caching allocator; null on the CPU.
c10::DeviceAllocator* device_allocator(at::Device device) {
  return device.is_cuda() ? c10::getDeviceAllocator(device.type()) : nullptr;
}

Metric reading(std::string name, double value, std::string unit) {
  Metric metric;
  metric.name = std::move(name);
  metric.value = value;
  metric.unit = std::move(unit);
  return metric;
}

double dtype_bits(at::ScalarType dtype) {
  return 8.0 * static_cast<double>(c10::elementSize(dtype));
}

// The packed checkpoint of a cell, from before its first block to the folder with its name.
struct CellSave {
  CellSave(const SaveSettings& settings, const Cell& of, PreparedCell& prepared, ResumeStore* kept,
           const RunOptions& options)
      : cell(of),
        model(*prepared.model),
        writer({.path = save_folder(settings, of, options.base),
                .source = of.model().synthetic.asked() ? "" : prepared.folder,
                .config = of.model().synthetic.asked()
                              ? nlohmann::ordered_json::parse(of.model().synthetic.config().dump())
                              : nlohmann::ordered_json(),
                .format = settings.format_of(of),
                .shard_bytes = settings.shard_bytes,
                .head = of.head() ? model.extras().head : ""},
               model),
        store(kept, writer, model) {}

  // Before evaluation, so that a fault there costs no checkpoint. `weights`: those of finished
  // blocks can be loaded again.
  void finish(const QuantizeReport& report, bool weights, const Record& record) {
    writer.complete(model, quantization_settings(cell, writer, record.inputs.model_fingerprint));
    verify_saved(writer.temporary(), model, report.layers, store.grids(), weights);
    writer.publish();
  }

  void describe(Record& record) const {
    record.metrics.push_back(
        reading("bytes.checkpoint", static_cast<double>(writer.bytes()), "bytes"));
    record.metrics.push_back(reading("busy_seconds.save", writer.busy_seconds(), "s"));
    record.notes.push_back("packed checkpoint: " + writer.path().string() + ", " +
                           format_name(writer.format()) + ", read back and found equal in " +
                           std::to_string(writer.layers().size()) + " layers");
  }

  const Cell& cell;
  CausalLm& model;
  PackedFolderWriter writer;
  SavingStore store;
};

// Where the checkpoint of a cell goes, if it is written: that of a cell which only times its codes
// is gone with its work.
std::optional<SaveSettings> save_of(const Cell& cell, const RunOptions& options) {
  if (options.save || !times_its_codes(cell)) return options.save;
  const std::filesystem::path work = std::filesystem::absolute(options.output / "work" / cell.id());
  std::filesystem::create_directories(work);
  SaveSettings save;
  save.path = (work / "packed").string();
  return save;
}

void add_sizes(const CausalLm& model, const QuantizeReport& report, std::vector<Metric>& metrics) {
  const double dense_bits = dtype_bits(model.dtype());
  const PackedShare packed = model.packed_share();
  const auto quantized = static_cast<double>(report.quantized_weights + packed.weights);
  const auto linear = static_cast<double>(std::max(report.linear_weights, packed.weights));
  const auto stored = static_cast<double>(report.quantized_bits + packed.bits);
  const auto all = static_cast<double>(model.parameter_count());
  if (linear > 0)
    metrics.push_back(reading("bits_per_weight.linear",
                              (stored + (linear - quantized) * dense_bits) / linear, "bits"));
  // An untied head is in `all` by now.
  const auto ends = static_cast<double>(report.end_weights);
  const double model_bits =
      stored + static_cast<double>(report.end_bits) + (all - quantized - ends) * dense_bits;
  metrics.push_back(reading("bits_per_weight.model", model_bits / all, "bits"));
  metrics.push_back(reading("bytes.weights", model_bits / 8, "bytes"));
}

}  // namespace

std::string quantization_inputs(const Record& record) {
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.add(text + '\n'); };
  add(record.inputs.model_fingerprint);
  add(record.inputs.tokenizer_fingerprint);
  add(record.inputs.external_fingerprint);
  add(record.environment.device + " " + record.environment.gpu);
  for (const WindowsRecord& windows : record.inputs.windows)
    if (windows.role != "evaluation")
      add(windows.role + " " + windows.ids_sha256 + " " + std::to_string(windows.count));
  return hash.hex();
}

PreparedCell prepare_cell(const Cell& cell, InputCache& cache, const RunOptions& options) {
  PreparedCell prepared;
  const std::filesystem::path folder = cache.model_folder(cell);
  prepared.folder = folder;
  prepared.model = cache.open(cell, options.device);

  if (prepared.model->packed_share().weights > 0)
    if (const std::string refusal = packed_refusal(cell); !refusal.empty())
      throw Error(folder.string(), refusal);
  prepared.notes = prepared.model->notes();
  const std::vector<std::string> unmatched = cell.unmatched_globs(linear_names(*prepared.model));
  if (!unmatched.empty())
    throw Error(cell.model().synthetic.asked() ? "model.synthetic" : folder.string(),
                join(unmatched, "; "));

  InputsRecord& inputs = prepared.inputs;
  inputs.model = cell.model().path_unexpanded;
  inputs.model_fingerprint = prepared.model->fingerprint();
  inputs.architecture = prepared.model->architecture();
  inputs.external_fingerprint = command_fingerprint(cell.method().command);
  if (options.verify && !cell.model().synthetic.asked()) inputs.files = cache.model_files(folder);
  if (InputCache::needs_tokenizer(cell)) {
    const Tokenizer& tokenizer = cache.tokenizer(folder);
    check_vocabulary(tokenizer, *prepared.model, folder);
    inputs.tokenizer = tokenizer.kind();
    inputs.tokenizer_fingerprint = tokenizer.fingerprint();
  }
  if (cell.needs_calibration()) {
    const int64_t seqlen = cell.calibration().seqlen;
    if (seqlen > prepared.model->max_positions())
      throw Error("calibration.seqlen",
                  "expected at most " + std::to_string(prepared.model->max_positions()) +
                      ", the positions the model has, got " + std::to_string(seqlen));
    prepared.calibration = &cache.calibration(cell);
    const CalibrationWindows& windows = *prepared.calibration;
    inputs.windows.push_back(
        describe_windows("calibration", windows.calibration.dataset, windows.calibration));
    if (windows.heldout.count > 0)
      inputs.windows.push_back(
          describe_windows("heldout", windows.heldout.dataset, windows.heldout));
    if (!windows.heldout_shortage.empty()) prepared.notes.push_back(windows.heldout_shortage);
  }
  for (const EvaluatorSpec& evaluator : cell.evaluators()) {
    if (evaluator.seqlen > prepared.model->max_positions())
      throw Error("evaluate." + evaluator.name + ".seqlen",
                  "expected at most " + std::to_string(prepared.model->max_positions()) +
                      ", the positions the model has, got " + std::to_string(evaluator.seqlen));
    auto& list = prepared.evaluations.emplace_back();
    for (const DatasetSpec& dataset : evaluator.datasets) {
      const TokenWindows& windows = cache.evaluation(cell, evaluator, dataset);
      list.push_back({dataset.label(), &windows});
      inputs.windows.push_back(describe_windows("evaluation", dataset.label(), windows));
      inputs.windows.back().evaluator = evaluator.name;
    }
  }
  prepared.dense = &cache.dense(cell, options.device);
  note_overlap(cell, prepared, prepared.notes);
  if (decode_evaluator(cell)) prepared.generation = decode_memory(cell, *prepared.model);
  return prepared;
}

MemoryPlan memory_of(const Cell& cell, const PreparedCell& prepared, const RunOptions& options) {
  if (prepared.generation)
    require_decode_room(*prepared.generation, options.device, options.limits);
  MemoryTask task =
      memory_task(cell, options.device, options.resume || options.save || times_its_codes(cell));
  for (size_t i = 0; i < prepared.evaluations.size(); ++i)
    for (const EvaluationInput& input : prepared.evaluations[i])
      if (cell.evaluators()[i].name != "decode_latency")
        task.evaluation_tokens =
            std::max(task.evaluation_tokens, input.windows->count * input.windows->seqlen);
  MemoryPlan plan = plan_memory(prepared.model->sizes(), task, options.limits);
  if (!prepared.generation) return plan;
  MemoryPlan::Needs& needs = task.on_gpu ? plan.device : plan.host;
  const int64_t blockwise = task.on_gpu ? plan.device_bytes() : plan.host_bytes();
  // The plain read is over before the model is held.
  const int64_t generating =
      std::max(prepared.generation->total(), plain_read_size(*prepared.model)) +
      (task.on_gpu ? 0 : task.program_bytes);
  if (generating > blockwise) needs.emplace_back("generating", generating - blockwise);
  return plan;
}

QuantizeReport quantize_cell(const Cell& cell, PreparedCell& prepared, ResumeStore* store,
                             HessianSink* hessians, const MemoryPlan& memory,
                             const RunOptions& options, PhaseClock& clock) {
  QuantizeOptions quantize_options;
  quantize_options.method = cell.method();
  quantize_options.compat = cell.compat();
  quantize_options.settings = [&cell](const std::string& layer) {
    LayerChoice chosen = cell.settings_for(layer);
    return LayerSettings{chosen.skip, std::move(chosen.method), chosen.quant,
                         std::move(chosen.rule)};
  };
  quantize_options.head = cell.head();
  quantize_options.embedding = cell.embedding();
  quantize_options.resume = store;
  quantize_options.hessians = hessians;
  std::optional<ExternalProgram> external;
  if (!cell.method().command.empty())
    quantize_options.external =
        &external.emplace(cell.method().command, options.output / "work" / cell.id() / "external");
  quantize_options.activations_on_host = memory.activations_on_host;
  quantize_options.clock = &clock;
  quantize_options.progress = options.progress;
  at::Tensor calibration, heldout;
  if (prepared.calibration) {
    calibration = to_ids(prepared.calibration->calibration);
    heldout = to_ids(prepared.calibration->heldout);
    quantize_options.sequences_per_chunk =
        calibration_sequences_per_pass(cell, prepared.model->device());
  }
  return quantize_model(*prepared.model, calibration, heldout, quantize_options);
}

std::vector<Metric> evaluate_cell(const Cell& cell, CausalLm& model,
                                  const std::vector<std::vector<EvaluationInput>>& inputs,
                                  DenseReference* dense, int64_t shared_bytes, Progress* progress) {
  std::vector<Metric> all;
  HiddenStateCache states(shared_bytes);
  for (size_t i = 0; i < cell.evaluators().size(); ++i) {
    const EvaluatorSpec& spec = cell.evaluators()[i];
    if (spec.name == "decode_latency" && times_its_codes(cell)) continue;
    const DecodeTask decode = decode_task(cell, spec, cell.model().backend == "packed");
    const std::vector<Metric> metrics = evaluators().at(spec.name).make()->evaluate(
        model, inputs[i],
        {.batch = spec.batch,
         .loss_in_model_dtype = cell.compat().reference_loss_dtype,
         .states = cell.evaluators().size() > 1 ? &states : nullptr,
         .dense = dense,
         .decode = &decode,
         .progress = progress});
    all.insert(all.end(), metrics.begin(), metrics.end());
  }
  return all;
}

void run_cell(const Cell& cell, PreparedCell& prepared, const MemoryPlan& memory,
              const RunOptions& options, PhaseClock& clock, Record& record) {
  c10::InferenceMode inference;
  clock.enter("idle");
  CausalLm& model = *prepared.model;
  c10::DeviceAllocator* allocator = device_allocator(model.device());
  if (allocator) {
    at::empty({1}, at::TensorOptions(
                       model.device()));  // the allocator knows a device only once it was used
    allocator->resetPeakStats(model.device().index());
  }
  record.policies = policies_of(cell);
  record.policies.merge(model.forward_policies());
  record.seeds = {{"calibration", cell.calibration().seed}};

  record.peak_bytes["host_planned"] = memory.host_bytes();
  if (allocator) record.peak_bytes["device_planned"] = memory.device_bytes();
  if (memory.activation_bytes > 0) record.peak_bytes["activations"] = memory.activation_bytes;
  reset_peak_resident_bytes();

  QuantizeReport report;
  std::filesystem::path saved;  // a packed checkpoint that this cell wrote
  const std::optional<SaveSettings> saves = save_of(cell, options);
  FileResumeStore store(options.output, cell.id(), options.progress, quantization_inputs(record));
  if (!cell.dense()) {
    FileHessianSink hessians(options.output, cell.id(), quantization_inputs(record));
    const bool on_disk = memory.finished == FinishedBlocks::kOnDisk;
    if (memory.finished != FinishedBlocks::kInMemory)
      model.leave_replaced_to(on_disk ? &store : nullptr);
    ResumeStore* kept = options.resume || on_disk ? &store : nullptr;
    std::optional<CellSave> save;
    if (saves) save.emplace(*saves, cell, prepared, kept, options);
    BlockTimer timer(options.progress ? *options.progress : silent_progress(), model.device(),
                     /*stop=*/false);
    RunOptions timed = options;
    timed.progress = &timer;
    report = quantize_cell(cell, prepared, save ? &save->store : kept,
                           options.dump_hessians ? &hessians : nullptr, memory, timed, clock);
    const std::optional<double> planned = timer.planned();
    if (save) {
      clock.enter("write");
      saved = save->writer.path();
      save->finish(report, memory.finished != FinishedBlocks::kNowhere, record);
      if (options.save) save->describe(record);
      clock.enter("idle");
    }
    if (options.dump_hessians)
      record.notes.push_back(prepared.calibration
                                 ? "Hessians of the quantized layers are in hessians/" + cell.id()
                                 : "no Hessians were written: the cell takes no calibration data");
    record.layers = std::move(report.layers);
    record.resumed_blocks = report.resumed_blocks;
    record.metrics.push_back(reading("seconds.quantize", report.seconds_total, "s"));
    record.metrics.push_back(
        reading("seconds.quantize_published_scope", report.seconds_published_scope(), "s"));
    // By its second block, as `plan --measure` plans it.
    if (planned && report.resumed_blocks == 0 && !cell.head())
      record.metrics.push_back(reading("seconds.quantize_planned", *planned, "s"));
    const DiskPlan disk = plan_disk(
        cell, model.sizes(), linear_names(model),
        {.resume = kept != nullptr, .save = saves.has_value(), .hessians = options.dump_hessians});
    record.peak_bytes["disk_planned"] = disk.resume + disk.checkpoint;
    record.peak_bytes["disk_peak"] = store.bytes() + (save ? save->writer.bytes() : 0);
    if (report.untied_head) {
      const ModelExtras ends = model.extras();
      record.notes.push_back(ends.head + " shared its weights with " + ends.embedding +
                             " and is untied: parameters and bits_per_weight.model count both");
    }
  }
  add_sizes(model, report, record.metrics);
  // Linears of fewer rows than were asked for are whole.
  const bool sampled_rows =
      std::any_of(record.layers.begin(), record.layers.end(),
                  [](const LayerHealth& layer) { return layer.rows_solved.has_value(); });
  note_sampling(cell, sampled_rows, record.notes);
  note_layers(record.layers, record.notes);

  clock.enter("evaluation");
  // What evaluators share is a convenience: it takes what the plan leaves.
  int64_t shared_bytes = InputCache::kStatesBytes;
  if (options.limits.host)
    shared_bytes = std::clamp<int64_t>(*options.limits.host - memory.host_bytes(), 0, shared_bytes);
  if (!sampled_rows) {
    const std::vector<Metric> metrics = evaluate_cell(
        cell, model, prepared.evaluations, prepared.dense, shared_bytes, options.progress);
    record.metrics.insert(record.metrics.end(), metrics.begin(), metrics.end());
  }
  if (prepared.dense) prepared.dense->close();
  if (const std::string names = kernel_names(model); !names.empty())
    record.policies["packed_products"] = names;
  if (options.save && !saved.empty() && !sampled_rows)
    evaluate_saved(saved, cell, prepared, options, record);
  if (times_its_codes(cell)) time_saved(saved, cell, prepared, options, record);
  record.peak_bytes["host_peak"] = peak_resident_bytes();
  if (allocator) {
    const auto stats = allocator->getDeviceStats(model.device().index());
    record.peak_bytes["device_peak"] = stats.allocated_bytes[0].peak;
  }
  clock.enter("idle");
  record.seconds = clock.seconds();
  for (const char* phase : kPhases) record.seconds.try_emplace(phase, 0);
  record.metrics.push_back(reading("seconds.cell", clock.total(), "s"));
  record.metrics.push_back(reading("busy_seconds.read", model.read_busy_seconds(), "s"));
  record.metrics.push_back(reading("busy_seconds.write", report.write_busy_seconds, "s"));
}

}  // namespace gptqb
