// The keys of a record, listed once for writing and reading. A visitor takes v(key, member) and the
// special parts: v.optional(key, member), a key that a file may lack; v.value(metric), the number
// with what stands in for one that is not finite; v.cell(text), the settings as a JSON object;
// v.derived(record), keys that are written for readers of the file and ignored when it is read.
#pragma once

#include <concepts>
#include <type_traits>

#include "runner/record.h"

namespace gptqb {

// T or const T.
template <class S, class T>
concept Either = std::same_as<std::remove_const_t<S>, T>;

template <class V>
void describe(V& v, Either<SourceFile> auto& file) {
  v("path", file.path);
  v("sha256", file.sha256);
  v("bytes", file.bytes);
}

template <class V>
void describe(V& v, Either<WindowsRecord> auto& windows) {
  v("role", windows.role);
  v.optional("evaluator", windows.evaluator);
  v("name", windows.name);
  v("dataset", windows.dataset);
  v("count", windows.count);
  v("seqlen", windows.seqlen);
  v("documents", windows.documents);
  v("stream_tokens", windows.stream_tokens);
  v("dropped_tokens", windows.dropped_tokens);
  v("ids_sha256", windows.ids_sha256);
  v("files", windows.files);
}

template <class V>
void describe(V& v, Either<InputsRecord> auto& inputs) {
  v("model", inputs.model);
  v("model_fingerprint", inputs.model_fingerprint);
  v("architecture", inputs.architecture);
  v("tokenizer", inputs.tokenizer);
  v("tokenizer_fingerprint", inputs.tokenizer_fingerprint);
  v.optional("external_fingerprint", inputs.external_fingerprint);
  v.optional("files", inputs.files);
  v("windows", inputs.windows);
}

template <class V>
void describe(V& v, Either<BuildInfo> auto& build) {
  v("version", build.version);
  v("commit", build.commit);
  v("dirty", build.dirty);
  v("compiler", build.compiler);
  v("flags", build.flags);
  v("torch", build.torch);
  v("cuda", build.cuda);
  v("cuda_architectures", build.cuda_architectures);
}

template <class V>
void describe(V& v, Either<Environment> auto& environment) {
  v("build", environment.build);
  v("build_id", environment.build_id);
  v("time", environment.time);
  v("os", environment.os);
  v("cpu", environment.cpu);
  v("cores", environment.cores);
  v("threads", environment.threads);
  v("memory_bytes", environment.memory_bytes);
  v("device", environment.device);
  v("gpu", environment.gpu);
  v("gpu_driver", environment.gpu_driver);
  v("gpu_runtime", environment.gpu_runtime);
  v("gpu_capability", environment.gpu_capability);
  v("gpu_memory_bytes", environment.gpu_memory_bytes);
  v("libraries", environment.libraries);
  v("argv", environment.argv);
}

template <class V>
void describe(V& v, Either<LayerHealth> auto& layer) {
  v("layer", layer.layer);
  v("method", layer.method);
  v("bits", layer.bits);
  v("group_size", layer.group_size);
  v("loss", layer.loss);
  v("relative_error", layer.relative_error);
  v("relative_error_heldout", layer.relative_error_heldout);
  v("relative_error_rtn", layer.relative_error_rtn);
  v("drift", layer.drift);
  v("damping", layer.damping);
  v("damping_tries", layer.damping_tries);
  v("condition", layer.condition);
  v("dead_columns", layer.dead_columns);
  v("non_finite_inputs", layer.non_finite_inputs);
  v("outlier_share", layer.outlier_share);
  v("clipped", layer.clipped);
  v("tokens", layer.tokens);
  v("sequences", layer.sequences);
  v("status", layer.status);
  v.optional("rule", layer.rule);
  v.optional("note", layer.note);
  v.optional("rows_solved", layer.rows_solved);
  v.optional("codes", layer.codes);
  v("seconds_hessian", layer.seconds_hessian);
  v("seconds_factor", layer.seconds_factor);
  v("seconds_solve", layer.seconds_solve);
  v.optional("seconds_errors", layer.seconds_errors);
  v.optional("out_features", layer.out_features);
  v.optional("in_features", layer.in_features);
  v.optional("hessian_shared_by", layer.hessian_shared_by);
}

template <class V>
void describe(V& v, Either<KernelRow> auto& row) {
  v("kernel", row.kernel);
  v("k", row.k);
  v("n", row.n);
  v("m", row.m);
  v("bits", row.bits);
  v("group_size", row.group_size);
  v("symmetric", row.symmetric);
  v("act_order", row.act_order);
  v("dtype", row.dtype);
  v("us", row.us);
  v("us_p10", row.us_p10);
  v("us_p90", row.us_p90);
  v("gb_per_s", row.gb_per_s);
  v("tflop_per_s", row.tflop_per_s);
  v("bandwidth_share", row.bandwidth_share);
  v("dense_rate_share", row.dense_rate_share);
  v("speedup_vs_f16", row.speedup_vs_f16);
  v("max_relative_error", row.max_relative_error);
  v("mean_relative_error", row.mean_relative_error);
  v("error_of_bound", row.error_of_bound);
  v("reason", row.reason);
  v("cache", row.cache);
  v("weight_bytes", row.weight_bytes);
  v("calls", row.calls);
  v("repetitions", row.repetitions);
  v("clock_mhz", row.clock_mhz);
  v("throttled", row.throttled);
  v("read_gb_per_s", row.read_gb_per_s);
  v("dense_tflop_per_s", row.dense_tflop_per_s);
  v("samples", row.samples);
}

template <class V>
void describe(V& v, Either<Metric> auto& metric) {
  v("name", metric.name);
  v.value(metric);
  v("unit", metric.unit);
  v("count", metric.count);
  v("stderr", metric.standard_error);
  v("samples", metric.samples);
  v("note", metric.note);
}

template <class V>
void describe(V& v, Either<Expectation> auto& expectation) {
  v("metric", expectation.metric);
  v("value", expectation.value);
  v("tolerance_absolute", expectation.tolerance_absolute);
  v("tolerance_relative", expectation.tolerance_relative);
  v("at_most", expectation.at_most);
  v("at_least", expectation.at_least);
  v("source", expectation.source);
  v("confidence", expectation.confidence);
  v("where", expectation.where);
  v.optional("note", expectation.note);
  v.optional("variant", expectation.variant);
}

template <class V>
void describe(V& v, Either<ClaimPart> auto& part) {
  v("metric", part.metric);
  v("of", part.of);
  v("against", part.against);
  v("ratio_at_least", part.ratio_at_least);
  v("ratio_at_most", part.ratio_at_most);
  v("difference_at_least", part.difference_at_least);
  v("difference_at_most", part.difference_at_most);
}

template <class V>
void describe(V& v, Either<Claim> auto& claim) {
  v("statement", claim.statement);
  v("parts", claim.parts);
}

template <class V>
void describe(V& v, Either<Record> auto& record) {
  v("cell_id", record.cell_id);
  v("experiment", record.experiment);
  v("position", record.position);
  v("status", record.status);
  v("reason", record.reason);
  v.cell(record.cell);
  v("settings", record.settings);
  v("metrics", record.metrics);
  v("seconds", record.seconds);
  v("peak_bytes", record.peak_bytes);
  v("seeds", record.seeds);
  v("policies", record.policies);
  v("notes", record.notes);
  v("resumed_blocks", record.resumed_blocks);
  v.optional("expectations", record.expectations);
  v.optional("claim", record.claim);
  v("inputs", record.inputs);
  v("environment", record.environment);
  v.derived(record);
  v("layers", record.layers);
  v.optional("kernels", record.kernels);
}

}  // namespace gptqb
