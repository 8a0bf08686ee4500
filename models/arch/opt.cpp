// OPT (Zhang et al. 2022), all sizes: learned positions whose table starts two rows late, biases,
// ReLU; the 350M variant normalizes after each sub-layer and embeds narrower than it computes.
#include <cmath>
#include <utility>

#include "common/error.h"
#include "models/decoder.h"

namespace gptqb {
namespace {

constexpr int64_t kPositionOffset = 2;  // rows before that of position 0
constexpr double kNormEpsilon = 1e-5;   // no key of config.json: fixed in the published model
constexpr const char* kRoot = "model.decoder.";

struct OptConfig {
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t embedding_width = 0;
  int64_t ffn = 0;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t max_positions = 0;
  bool norm_before = true;
  bool final_norm = true;
  bool norm_affine = true;
  bool bias = true;
  bool tied_head = true;

  bool projects() const { return embedding_width != hidden; }
};

OptConfig read_opt_config(const ConfigReader& config) {
  OptConfig opt;
  opt.vocab_size = config.size("vocab_size");
  opt.hidden = config.size("hidden_size");
  opt.embedding_width = config.size("word_embed_proj_dim", opt.hidden);
  opt.ffn = config.size("ffn_dim");
  opt.blocks = config.size("num_hidden_layers");
  opt.heads = config.size("num_attention_heads");
  if (opt.hidden % opt.heads != 0)
    throw Error(config.where(), "expected hidden_size a multiple of num_attention_heads, got " +
                                    std::to_string(opt.hidden) + " and " +
                                    std::to_string(opt.heads));
  opt.max_positions = config.size("max_position_embeddings");
  opt.norm_before = config.flag("do_layer_norm_before", true);
  opt.final_norm = opt.norm_before && !config.flag("_remove_final_layer_norm", false);
  opt.norm_affine = config.flag("layer_norm_elementwise_affine", true);
  opt.bias = config.flag("enable_bias", true);
  opt.tied_head = config.flag("tie_word_embeddings", true);
  config.require("activation_function", "relu", "Another activation is another model.");
  return opt;
}

DecoderFacts opt_facts(const OptConfig& config) {
  const std::string root = kRoot;
  DecoderFacts facts;
  facts.architecture = "opt";
  facts.block_prefix = root + "layers.";
  facts.stages = {{{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
                  {{"self_attn.out_proj"}},
                  {{"fc1"}},
                  {{"fc2"}}};
  facts.embedding = root + "embed_tokens.weight";
  facts.head = "lm_head.weight";
  facts.tied_head = config.tied_head;
  facts.vocab_size = config.vocab_size;
  facts.max_positions = config.max_positions;
  facts.kv_heads = config.heads;
  facts.head_dim = config.hidden / config.heads;

  facts.table = {
      .prefix = root, .other_prefixes = {"decoder."}, .blocks = config.blocks, .specs = {}};
  const auto add_norm = [&](const std::string& name) {
    if (config.norm_affine) facts.add_norm(root + name, config.hidden);
  };
  facts.add(facts.embedding, {config.vocab_size, config.embedding_width});
  facts.add(root + "embed_positions.weight",
            {config.max_positions + kPositionOffset, config.hidden});
  if (config.projects()) {
    facts.add(root + "project_in.weight", {config.hidden, config.embedding_width});
    facts.add(root + "project_out.weight", {config.embedding_width, config.hidden});
  }
  add_norm("layers.{}.self_attn_layer_norm");
  for (const char* name :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.out_proj"})
    facts.add_linear(name, config.hidden, config.hidden, config.bias);
  add_norm("layers.{}.final_layer_norm");
  facts.add_linear("fc1", config.ffn, config.hidden, config.bias);
  facts.add_linear("fc2", config.hidden, config.ffn, config.bias);
  if (config.final_norm) add_norm("final_layer_norm");
  facts.add_head(config.embedding_width);
  return facts;
}

class Opt : public Decoder {
 public:
  Opt(ModelSource source, const OptConfig& config)
      : Decoder(std::move(source), opt_facts(config)), config_(config) {}

  at::Tensor embed(const at::Tensor& ids) override {
    const at::Tensor words = checked_ids(ids);
    const at::Tensor rows = at::arange(kPositionOffset, kPositionOffset + words.size(1), at::kLong);
    at::Tensor hidden = gather_rows(named("embed_tokens.weight"), words);
    if (config_.projects()) hidden = at::linear(hidden, end_tensor(named("project_in.weight")));
    return hidden + gather_rows(named("embed_positions.weight"), rows);
  }

  at::Tensor embed_at(const at::Tensor& ids, const at::Tensor& positions) override {
    at::Tensor hidden = device_rows(named("embed_tokens.weight"), ids);
    if (config_.projects()) hidden = at::linear(hidden, end_tensor(named("project_in.weight")));
    return hidden + device_rows(named("embed_positions.weight"), positions + kPositionOffset);
  }

  BlockActivations begin(const at::Tensor& hidden) override {
    at::Tensor residual = hidden;
    at::Tensor input =
        config_.norm_before ? normed(residual, block_norm("self_attn_layer_norm")) : hidden;
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
        add(residual, linear("self_attn.out_proj", input));
        input = normed(residual, block_norm(config_.norm_before ? "final_layer_norm"
                                                                : "self_attn_layer_norm"));
        if (!config_.norm_before) residual = input;
        return;
      case 2:
        input = linear_relu("fc1", input);
        return;
      case 3:
        add(residual, linear("fc2", input));
        if (!config_.norm_before) residual = normed(residual, block_norm("final_layer_norm"));
        input = at::Tensor();
        return;
      default:
        throw Error("run_stage", "expected a stage in 0 .. 3, got " + std::to_string(stage));
    }
  }

  ScalePlan scale_plan() const override {
    ScalePlan plan;
    // A norm behind the residual feeds the next residual too: its scale cannot move.
    if (config_.norm_before)
      plan.moves = {{0, "self_attn_layer_norm", false, 1}, {2, "final_layer_norm", false, 2}};
    plan.moves.push_back({1, "self_attn.v_proj", true, 1});
    plan.moves.push_back({3, "fc1", true, 3});  // relu(x / s) = relu(x) / s
    plan.score_linears = {"self_attn.q_proj", "self_attn.k_proj"};
    return plan;
  }

  at::Tensor head_input(const at::Tensor& hidden) override {
    at::Tensor x = hidden;
    if (config_.final_norm) {
      const bool affine = config_.norm_affine;
      x = apply_norm(x, norm(affine ? end_tensor(named("final_layer_norm.weight")) : at::Tensor(),
                             affine ? end_tensor(named("final_layer_norm.bias")) : at::Tensor()));
    }
    if (config_.projects()) x = at::linear(x, end_tensor(named("project_out.weight")));
    return x;
  }

 private:
  static std::string named(const std::string& name) { return kRoot + name; }

  static Norm norm(const at::Tensor& scale, const at::Tensor& shift) {
    return {.scale = scale, .shift = shift, .epsilon = kNormEpsilon};
  }

  Norm block_norm(const std::string& name) const {
    return norm(block_tensor(name + ".weight"), block_tensor(name + ".bias"));
  }

  // Input of q, k, v [sequences, seqlen, hidden] -> input of out_proj, same shape.
  at::Tensor attention(const at::Tensor& x) const {
    const int64_t head_dim = config_.hidden / config_.heads;
    std::vector<at::Tensor> qkv = stage_linears(0, x);
    const auto heads_of = [&](const at::Tensor& projected) {
      return projected.view({x.size(0), x.size(1), config_.heads, head_dim});
    };
    const auto split = [&](const at::Tensor& projected) {
      return heads_of(projected).transpose(1, 2);
    };
    // The published model scales the queries, not the scores: in half precision the rounding
    // differs.
    const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
    if (stepping() && new_tokens_attention_takes(device(), dtype(), head_dim))
      return attend_new_tokens(*cache(), loaded_block(),
                               {.queries = heads_of(qkv[0]),
                                .keys = heads_of(qkv[1]),
                                .values = heads_of(qkv[2]),
                                .query_scale = scale});
    const at::Tensor q = split(qkv[0].mul_(scale));
    const at::Tensor k = split(qkv[1]);
    const at::Tensor v = split(qkv[2]);
    if (cache() != nullptr)
      return cached_attention(*cache(), loaded_block(), q, k, v, /*scale=*/1.0);
    const at::Tensor mixed =
        at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true, /*scale=*/1.0);
    return mixed.transpose(1, 2).reshape({x.size(0), x.size(1), config_.hidden});
  }

  OptConfig config_;
};

}  // namespace

std::unique_ptr<CausalLm> open_opt(ModelSource source) {
  const OptConfig config = read_opt_config(source.config);
  return std::make_unique<Opt>(std::move(source), config);
}

}  // namespace gptqb
