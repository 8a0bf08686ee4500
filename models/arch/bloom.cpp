// BLOOM (BigScience 2022): ALiBi positions (Press et al. 2022), a norm after the embedding, one
// fused product for query, key and value, GELU by tanh. Roundings follow transformers, so that
// half-precision results can be compared; but for those of attention scores where a GPU computes
// them fused.
#include <cmath>
#include <optional>
#include <utility>

#include "common/error.h"
#include "models/alibi_attention.h"
#include "models/alibi_columns.h"
#include "models/decoder.h"
#include "models/forward_ops.h"
#include "models/fused_alibi.h"

namespace gptqb {
namespace {

constexpr const char* kRoot = "transformer.";

struct BloomConfig {
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t max_positions = 0;
  double norm_epsilon = 0;
  bool residual_after_norm = false;
  bool tied_head = true;
};

// A size that checkpoints spell in several ways. Two spellings with two values are no model.
int64_t size_spelled(const ConfigReader& config, const std::vector<std::string>& spellings) {
  const std::string* used = nullptr;
  for (const std::string& key : spellings) {
    if (!config.has(key)) continue;
    if (used != nullptr && config.size(*used) != config.size(key))
      throw Error(config.where(), "expected '" + *used + "' and '" + key +
                                      "' to agree, two names of one size, got " +
                                      std::to_string(config.size(*used)) + " and " +
                                      std::to_string(config.size(key)));
    used = &key;
  }
  return config.size(used != nullptr ? *used : spellings.front());
}

BloomConfig read_bloom_config(const ConfigReader& config) {
  BloomConfig bloom;
  bloom.vocab_size = config.size("vocab_size");
  bloom.hidden = size_spelled(config, {"hidden_size", "n_embed"});
  bloom.blocks = size_spelled(config, {"n_layer", "num_hidden_layers"});
  bloom.heads = size_spelled(config, {"n_head", "num_attention_heads"});
  if (bloom.hidden % bloom.heads != 0)
    throw Error(config.where(), "expected hidden_size a multiple of n_head, got " +
                                    std::to_string(bloom.hidden) + " and " +
                                    std::to_string(bloom.heads));
  // ALiBi computes at any length. Without seq_length the bound is the length all BLOOM models were
  // trained at and published numbers were measured at; beyond it the model extrapolates.
  bloom.max_positions = config.size("seq_length", 2048);
  bloom.norm_epsilon = config.number("layer_norm_epsilon");
  bloom.residual_after_norm = config.flag("apply_residual_connection_post_layernorm", false);
  bloom.tied_head = config.flag("tie_word_embeddings", true);
  config.require("n_inner", 4 * bloom.hidden, "transformers passes over another inner width.");
  // Then transformers adds up partial products and leaves out the biases of dense and
  // dense_4h_to_h. Alone, pretraining_tp is only a note about training. Dropout rates do nothing
  // outside training.
  if (config.size("pretraining_tp", 1) > 1)
    config.require("slow_but_exact", false,
                   "With pretraining_tp above 1 it changes the result, and this program does not "
                   "compute it.");
  return bloom;
}

// Heads of 128 then are 160 wide, which the kernel takes faster than 136 (bench_alibi).
constexpr int64_t kAttentionColumns = 32;

// `dtype` float16 stands for both of 16 bits.
bool fused_attention_takes(const BloomConfig& config, at::ScalarType dtype) {
  return FusedAlibi::takes(dtype, config.hidden / config.heads, config.max_positions);
}

DecoderFacts bloom_facts(const BloomConfig& config, bool reference_forward) {
  const std::string root = kRoot;
  DecoderFacts facts;
  facts.architecture = "bloom";
  facts.block_prefix = root + "h.";
  facts.stages = {{{"self_attention.query_key_value"}},
                  {{"self_attention.dense"}},
                  {{"mlp.dense_h_to_4h"}},
                  {{"mlp.dense_4h_to_h"}}};
  facts.embedding = root + "word_embeddings.weight";
  facts.head = "lm_head.weight";
  facts.tied_head = config.tied_head;
  facts.vocab_size = config.vocab_size;
  facts.max_positions = config.max_positions;
  facts.kv_heads = config.heads;
  facts.head_dim = config.hidden / config.heads;
  facts.activation_copies = 3;  // bloom_gelu: what goes in and comes out, and two factors
  facts.scores_at_once = AlibiAttention::kScoresAtOnce;
  facts.heads = config.heads;
  if (!reference_forward && fused_attention_takes(config, at::kHalf))
    facts.fused_attention_features =
        FusedAlibi::features_held(config.heads, config.hidden / config.heads, kAttentionColumns);

  // Without prefix: the published conversions.
  facts.table = {.prefix = root, .other_prefixes = {""}, .blocks = config.blocks, .specs = {}};
  facts.add(facts.embedding, {config.vocab_size, config.hidden});
  facts.add_norm(root + "word_embeddings_layernorm", config.hidden);
  facts.add_norm(root + "h.{}.input_layernorm", config.hidden);
  facts.add_linear("self_attention.query_key_value", 3 * config.hidden, config.hidden, true);
  facts.add_linear("self_attention.dense", config.hidden, config.hidden, true);
  facts.add_norm(root + "h.{}.post_attention_layernorm", config.hidden);
  facts.add_linear("mlp.dense_h_to_4h", 4 * config.hidden, config.hidden, true);
  facts.add_linear("mlp.dense_4h_to_h", config.hidden, 4 * config.hidden, true);
  facts.add_norm(root + "ln_f", config.hidden);
  facts.add_head(config.hidden);
  return facts;
}

class Bloom : public Decoder {
 public:
  Bloom(ModelSource source, const BloomConfig& config, bool reference_forward)
      : Decoder(std::move(source), bloom_facts(config, reference_forward)),
        config_(config),
        attention_(config.heads, dtype(), device()) {
    if (!reference_forward && device().is_cuda() && fused_attention_takes(config, dtype()))
      fused_attention_.emplace(config.heads, dtype(), device(), kAttentionColumns);
    slopes_ = alibi_slopes(config.heads, this->device()).to(at::kFloat);
  }

  std::map<std::string, std::string> forward_policies() const override {
    return {{"attention", fused_attention_ ? "fused, scores in float32"
                                           : "scores in the model's dtype, as transformers"},
            {"gelu", fused_attention_ ? "of the product before it is rounded"
                                      : "in the model's dtype, as transformers"}};
  }

  at::Tensor embed(const at::Tensor& ids) override {
    return end_norm(gather_rows(named("word_embeddings.weight"), checked_ids(ids)),
                    "word_embeddings_layernorm");
  }

  at::Tensor embed_at(const at::Tensor& ids, const at::Tensor&) override {
    return end_norm(device_rows(named("word_embeddings.weight"), ids), "word_embeddings_layernorm");
  }

  BlockActivations begin(const at::Tensor& hidden) override {
    at::Tensor residual = hidden;
    at::Tensor input = normed(residual, block_norm("input_layernorm"));
    if (config_.residual_after_norm) residual = input;
    return {std::move(residual), std::move(input)};
  }

  void run_stage(size_t stage, BlockActivations& activations) override {
    at::Tensor& input = activations.input;
    at::Tensor& residual = activations.residual;
    switch (stage) {
      case 0:
        input = attention(linear("self_attention.query_key_value", input));
        return;
      case 1:
        add(residual, linear("self_attention.dense", input));
        input = normed(residual, block_norm("post_attention_layernorm"));
        if (config_.residual_after_norm) residual = input;
        return;
      case 2:
        if (fused_attention_) {
          input = linear_gelu("mlp.dense_h_to_4h", input);
        } else {
          input = linear("mlp.dense_h_to_4h", input);
          bloom_gelu(input);
        }
        apply_divisor("mlp.gelu", input);
        return;
      case 3:
        add(residual, linear("mlp.dense_4h_to_h", input));
        input = at::Tensor();
        return;
      default:
        throw Error("run_stage", "expected a stage in 0 .. 3, got " + std::to_string(stage));
    }
  }

  ScalePlan scale_plan() const override {
    ScalePlan plan;
    // With the residual taken after the norm, the norm feeds more than the linears.
    if (!config_.residual_after_norm)
      plan.moves = {{.stage = 0,
                     .producer = "input_layernorm",
                     .judged_through = 1,
                     .llm_awq_runs_block = true},
                    {.stage = 2,
                     .producer = "post_attention_layernorm",
                     .judged_through = 3,
                     .llm_awq_runs_block = true}};
    plan.moves.push_back({3, "mlp.gelu", false, 3});
    plan.score_linears = {"self_attention.query_key_value"};
    return plan;
  }

  at::Tensor head_input(const at::Tensor& hidden) override { return end_norm(hidden, "ln_f"); }

 private:
  static std::string named(const std::string& name) { return kRoot + name; }

  Norm norm(const at::Tensor& scale, const at::Tensor& shift) const {
    return {.scale = scale, .shift = shift, .epsilon = config_.norm_epsilon};
  }

  Norm block_norm(const std::string& name) const {
    return norm(block_tensor(name + ".weight"), block_tensor(name + ".bias"));
  }

  at::Tensor end_norm(const at::Tensor& x, const std::string& name) {
    return apply_norm(x,
                      norm(end_tensor(named(name) + ".weight"), end_tensor(named(name) + ".bias")));
  }

  at::Tensor attention(const at::Tensor& fused) {
    const int64_t head_dim = config_.hidden / config_.heads;
    if (stepping() && fused_attention_ && new_tokens_attention_takes(device(), dtype(), head_dim)) {
      const at::Tensor heads = fused.view({fused.size(0), 1, config_.heads, 3, head_dim});
      return attend_new_tokens(*cache(), loaded_block(),
                               {.queries = heads.select(3, 0),
                                .keys = heads.select(3, 1),
                                .values = heads.select(3, 2),
                                .slopes = slopes_,
                                .score_scale = 1.0 / std::sqrt(static_cast<double>(head_dim))});
    }
    if (cache() != nullptr)
      return attention_.mix_cached(fused, *cache(), loaded_block(),
                                   fused_attention_ ? at::kFloat : dtype());
    return fused_attention_ ? fused_attention_->mix(fused) : attention_.mix(fused);
  }

  BloomConfig config_;
  AlibiAttention attention_;
  std::optional<FusedAlibi> fused_attention_;
  at::Tensor slopes_;  // f32 [heads]
};

}  // namespace

std::unique_ptr<CausalLm> open_bloom(ModelSource source) {
  const BloomConfig config = read_bloom_config(source.config);
  const bool reference_forward = source.options.reference_forward;
  return std::make_unique<Bloom>(std::move(source), config, reference_forward);
}

}  // namespace gptqb
