// The LLaMA family: RMSNorm, rotary positions, grouped-query attention, SwiGLU (Touvron et al.
// 2023). Roundings follow transformers, so that half-precision results can be compared.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error.h"
#include "models/decoder.h"
#include "models/forward_ops.h"
#include "models/rotary.h"

namespace gptqb {
namespace {

struct LlamaConfig {
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  double norm_epsilon = 0;
  bool tied_head = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  RotaryConfig rotary;
};

LlamaConfig read_llama_config(const ConfigReader& config, const std::string& model_type) {
  LlamaConfig llama;
  llama.vocab_size = config.size("vocab_size");
  llama.hidden = config.size("hidden_size");
  llama.intermediate = config.size("intermediate_size");
  llama.blocks = config.size("num_hidden_layers");
  llama.heads = config.size("num_attention_heads");
  llama.kv_heads = config.size("num_key_value_heads", llama.heads);
  if (llama.heads % llama.kv_heads != 0)
    throw Error(config.where(),
                "expected num_attention_heads a multiple of num_key_value_heads, got " +
                    std::to_string(llama.heads) + " and " + std::to_string(llama.kv_heads));
  if (!config.has("head_dim") && llama.hidden % llama.heads != 0)
    throw Error(config.where(), "expected hidden_size a multiple of num_attention_heads, got " +
                                    std::to_string(llama.hidden) + " and " +
                                    std::to_string(llama.heads));
  llama.head_dim = config.size("head_dim", llama.hidden / llama.heads);
  if (llama.head_dim % 2 != 0)
    throw Error(config.where(), "expected an even head_dim, got " + std::to_string(llama.head_dim));
  // The first LLaMA conversions spelled it max_sequence_length.
  llama.max_positions = config.has("max_position_embeddings")
                            ? config.size("max_position_embeddings")
                            : config.size("max_sequence_length", 2048);
  // Up to its width a sliding window is full attention; beyond it this program would compute
  // something else.
  llama.max_positions =
      std::min(llama.max_positions, config.size("sliding_window", llama.max_positions));
  llama.norm_epsilon = config.number("rms_norm_eps");
  llama.tied_head = config.flag("tie_word_embeddings", false);
  llama.attention_bias = config.flag("attention_bias", false);
  llama.mlp_bias = config.flag("mlp_bias", false);
  if (model_type == "mistral") {
    config.require("attention_bias", false, "Mistral's layers have no biases.");
    config.require("mlp_bias", false, "Mistral's layers have no biases.");
  }
  config.require("hidden_act", "silu", "Another activation is another model.");
  llama.rotary = read_rotary_config(config, llama.max_positions);
  return llama;
}

DecoderFacts llama_facts(const LlamaConfig& config) {
  const int64_t q_rows = config.heads * config.head_dim;
  const int64_t kv_rows = config.kv_heads * config.head_dim;
  DecoderFacts facts;
  facts.architecture = "llama";
  facts.block_prefix = "model.layers.";
  facts.stages = {{{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
                  {{"self_attn.o_proj"}},
                  {{"mlp.gate_proj", "mlp.up_proj"}},
                  {{"mlp.down_proj"}}};
  facts.embedding = "model.embed_tokens.weight";
  facts.head = "lm_head.weight";
  facts.tied_head = config.tied_head;
  facts.vocab_size = config.vocab_size;
  facts.max_positions = config.max_positions;
  facts.kv_heads = config.kv_heads;
  facts.head_dim = config.head_dim;

  facts.table = {.prefix = "model.", .other_prefixes = {""}, .blocks = config.blocks, .specs = {}};
  facts.add(facts.embedding, {config.vocab_size, config.hidden});
  facts.add("model.layers.{}.input_layernorm.weight", {config.hidden});
  facts.add_linear("self_attn.q_proj", q_rows, config.hidden, config.attention_bias);
  facts.add_linear("self_attn.k_proj", kv_rows, config.hidden, config.attention_bias);
  facts.add_linear("self_attn.v_proj", kv_rows, config.hidden, config.attention_bias);
  facts.add_linear("self_attn.o_proj", config.hidden, q_rows, config.attention_bias);
  facts.add("model.layers.{}.post_attention_layernorm.weight", {config.hidden});
  facts.add_linear("mlp.gate_proj", config.intermediate, config.hidden, config.mlp_bias);
  facts.add_linear("mlp.up_proj", config.intermediate, config.hidden, config.mlp_bias);
  facts.add_linear("mlp.down_proj", config.hidden, config.intermediate, config.mlp_bias);
  facts.add("model.norm.weight", {config.hidden});
  facts.add_head(config.hidden);
  return facts;
}

class Llama : public Decoder {
 public:
  Llama(ModelSource source, const LlamaConfig& config)
      : Decoder(std::move(source), llama_facts(config)),
        config_(config),
        rotary_(config.rotary, config.head_dim, dtype(), device()) {}

  at::Tensor embed(const at::Tensor& ids) override {
    return gather_rows("model.embed_tokens.weight", checked_ids(ids));
  }

  at::Tensor embed_at(const at::Tensor& ids, const at::Tensor& positions) override {
    turns_ = rotary_.turns_at(positions, cache()->shape().positions);
    return device_rows("model.embed_tokens.weight", ids);
  }

  BlockActivations begin(const at::Tensor& hidden) override {
    at::Tensor residual = hidden;
    at::Tensor input = normed(residual, norm(block_tensor("input_layernorm.weight")));
    return {std::move(residual), std::move(input)};
  }

  void run_stage(size_t stage, BlockActivations& activations) override {
    at::Tensor& input = activations.input;
    at::Tensor& residual = activations.residual;
    switch (stage) {
      case 0:
        input = attention(input);
        return;
      case 1:
        add(residual, linear("self_attn.o_proj", input));
        input = normed(residual, norm(block_tensor("post_attention_layernorm.weight")));
        return;
      case 2: {
        const std::vector<at::Tensor> inner = stage_linears(2, input);
        input = silu_multiply(inner[0], inner[1]);
        return;
      }
      case 3:
        add(residual, linear("mlp.down_proj", input));
        input = at::Tensor();
        return;
      default:
        throw Error("run_stage", "expected a stage in 0 .. 3, got " + std::to_string(stage));
    }
  }

  ScalePlan scale_plan() const override {
    ScalePlan plan;
    plan.moves = {{0, "input_layernorm", false, 1}, {2, "post_attention_layernorm", false, 3}};
    // Heads that share keys and values share columns of v, whose rows then cannot take o's scale.
    // llm-awq asks for more: v and o of one shape.
    const bool square = config_.heads * config_.head_dim == config_.hidden;
    if (config_.kv_heads == config_.heads)
      plan.moves.push_back({.stage = 1,
                            .producer = "self_attn.v_proj",
                            .producer_is_linear = true,
                            .judged_through = 1,
                            .not_in_llm_awq = !square});
    plan.moves.push_back({3, "mlp.up_proj", true, 3});
    plan.score_linears = {"self_attn.q_proj", "self_attn.k_proj"};
    return plan;
  }

  at::Tensor head_input(const at::Tensor& hidden) override {
    return apply_norm(hidden, norm(end_tensor("model.norm.weight")));
  }

 private:
  Norm norm(const at::Tensor& scale) const {
    return {.scale = scale, .epsilon = config_.norm_epsilon, .rms = true};
  }

  at::Tensor rotate(const at::Tensor& x) {
    return cache() == nullptr ? rotary_.rotate(x) : rotate_pairs(x, turns_.first, turns_.second);
  }

  // Input of q, k, v [sequences, seqlen, hidden] -> input of o [sequences, seqlen, heads *
  // head_dim].
  at::Tensor attention(const at::Tensor& x) {
    const int64_t sequences = x.size(0);
    const int64_t seqlen = x.size(1);
    std::vector<at::Tensor> qkv = stage_linears(0, x);
    const auto split = [&](const at::Tensor& projected, int64_t heads) {
      return projected.view({sequences, seqlen, heads, config_.head_dim});
    };
    qkv = {split(qkv[0], config_.heads), split(qkv[1], config_.kv_heads),
           split(qkv[2], config_.kv_heads)};
    if (stepping() && new_tokens_attention_takes(device(), dtype(), config_.head_dim))
      return attend_new_tokens(
          *cache(), loaded_block(),
          {.queries = qkv[0],
           .keys = qkv[1],
           .values = qkv[2],
           .cosines = turns_.first,
           .sines = turns_.second,
           .score_scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim))});
    // In their places: what they were would else stay in memory through attention.
    qkv[0] = rotate(qkv[0]);
    qkv[1] = rotate(qkv[1]);
    const at::Tensor q = qkv[0].transpose(1, 2);
    const at::Tensor k = qkv[1].transpose(1, 2);
    const at::Tensor v = qkv[2].transpose(1, 2);
    if (cache() != nullptr) return cached_attention(*cache(), loaded_block(), q, k, v, {});
    const at::Tensor mixed = at::scaled_dot_product_attention(
        q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true, /*scale=*/{},
        /*enable_gqa=*/config_.kv_heads != config_.heads);
    return mixed.transpose(1, 2).reshape({sequences, seqlen, config_.heads * config_.head_dim});
  }

  LlamaConfig config_;
  RotaryTable rotary_;
  std::pair<at::Tensor, at::Tensor> turns_;  // of the tokens that run_cached is about
};

}  // namespace

std::unique_ptr<CausalLm> open_llama(ModelSource source) {
  const LlamaConfig config = read_llama_config(source.config, source.identity.model_type);
  return std::make_unique<Llama>(std::move(source), config);
}

}  // namespace gptqb
