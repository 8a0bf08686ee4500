#include "runner/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "common/atomic_file.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::layer;
using test::message_of;
using test::metric;
using test::record;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A record with something in every field.
Record full_record() {
  Record full = record("abc", "gptq", 4, 5.85, {1.75, 1.8});
  full.position = 3;
  full.reason = "a \"quoted\" reason,\n=second\tline \\ über";
  full.metrics[0].standard_error = 0.0625;
  full.metrics[0].note = "note";
  full.layers = {layer("model.layers.0.q"),
                 layer("model.layers.0.k", "rtn: not positive definite")};
  full.layers[0].condition = 1e9;
  full.layers[0].tokens = 4096;
  full.layers[0].codes = "00ff00ff00ff00ff";
  full.seconds = {{"solve", 1.25}, {"hessian", 0.5}};
  full.peak_bytes = {{"host_peak", 123456789012}};
  full.seeds = {{"calibration", 7}};
  full.policies = {{"group_grid", "fresh"}};
  full.notes = {"first", "second"};
  full.resumed_blocks = 2;
  full.inputs.model_fingerprint = "f00d";
  full.inputs.architecture = "llama";
  full.inputs.tokenizer = "sentencepiece";
  full.inputs.tokenizer_fingerprint = "beef";
  full.inputs.windows[0].files = {{"wiki.test.raw", "dead", 99}};
  full.environment.argv = {"gptq-bench", "run", "a b.yaml"};
  full.environment.libraries = {{"yaml-cpp", "libyaml-cpp.so.0.7.0"}};
  full.environment.device = "cuda:0";
  full.environment.gpu = "NVIDIA H200";
  full.environment.gpu_memory_bytes = 150000000000;
  return full;
}

TEST(RecordTest, RoundTripsEveryField) {
  const Record full = full_record();
  const std::string text = to_json(full);
  const Record back = record_from_json(text, "x.json");
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(back.cell_id, "abc");
  EXPECT_EQ(back.cell, full.cell);
  EXPECT_EQ(back.reason, full.reason);
  EXPECT_EQ(back.settings, full.settings);
  EXPECT_EQ(back.metrics[0].samples, full.metrics[0].samples);
  EXPECT_EQ(back.metrics[0].standard_error, full.metrics[0].standard_error);
  EXPECT_EQ(back.layers[0].condition, full.layers[0].condition);
  EXPECT_EQ(back.layers[0].codes, full.layers[0].codes);
  EXPECT_FALSE(back.layers[0].drift);
  EXPECT_EQ(back.layers[1].status, "rtn: not positive definite");
  EXPECT_EQ(back.seconds, full.seconds);
  EXPECT_EQ(back.peak_bytes, full.peak_bytes);
  EXPECT_EQ(back.inputs.windows[0].files[0].sha256, "dead");
  EXPECT_EQ(back.environment, full.environment);
}

// Records of earlier builds do not say which evaluator saw a window: there was one.
TEST(RecordTest, WindowsBelongToTheirEvaluator) {
  Record sample = record("abc", "rtn", 4, 5.5, {1.5});
  sample.inputs.windows.push_back(sample.inputs.windows[0]);
  sample.inputs.windows[1].evaluator = "divergence";
  sample.inputs.windows[1].seqlen = 99;
  auto json = nlohmann::json::parse(to_json(sample));
  json["inputs"]["windows"][0].erase("evaluator");
  const Record back = record_from_json(json.dump(), "x.json");
  EXPECT_EQ(evaluation_windows_of(back, "wikitext2")->seqlen, 8);
  EXPECT_EQ(evaluation_windows_of(back, "wikitext2", "divergence")->seqlen, 99);
  EXPECT_EQ(evaluation_windows_of(back, "c4", "divergence"), nullptr);
}

TEST(RecordTest, MetricHasExactlyTheseKeys) {
  const auto json = nlohmann::json::parse(to_json(record("abc", "rtn", 4, 5.5, {1.5})));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["cell"]["method.name"], "rtn");
  EXPECT_EQ(json["metrics"][0].dump(),
            R"({"count":1,"name":"perplexity.wikitext2","note":"","samples":[1.5],"stderr":null,)"
            R"("unit":"1","value":5.5})");
}

// Faults EH-11: valid JSON, null with a reason, and the kind of number comes back.
TEST(RecordTest, ValuesThatAreNotFiniteAreNullWithAReason) {
  Record sample = record("abc", "rtn", 2, kInfinity, {kInfinity, 1});
  sample.metrics[0].reason = "the loss overflowed";
  sample.metrics.push_back(metric("x", -kInfinity));
  sample.metrics.push_back(metric("y", std::nan("")));
  const auto json = nlohmann::json::parse(to_json(sample));
  EXPECT_TRUE(json["metrics"][0]["value"].is_null());
  EXPECT_EQ(json["metrics"][0]["reason"], "the loss overflowed");
  EXPECT_TRUE(json["metrics"][0]["samples"][0].is_null());
  EXPECT_EQ(json["metrics"][1]["non_finite"], "-inf");
  EXPECT_EQ(json["metrics"][1]["reason"], "no reason was given");
  const Record back = record_from_json(to_json(sample), "x.json");
  EXPECT_EQ(back.metrics[0].value, kInfinity);
  EXPECT_EQ(back.metrics[0].reason, "the loss overflowed");
  EXPECT_EQ(back.metrics[1].value, -kInfinity);
  EXPECT_TRUE(std::isnan(back.metrics[2].value));
}

TEST(RecordTest, TextThatIsNotUtf8StaysValidJson) {
  Record sample = record("abc", "rtn", 4, 5, {1});
  sample.reason = "bad \xff byte";
  EXPECT_EQ(record_from_json(to_json(sample), "x").reason, "bad \xEF\xBF\xBD byte");
}

// Faults QN-05: the file says which layers were solved in another way.
TEST(RecordTest, FallbackLayersAreCountedAndNamed) {
  Record sample = record("abc", "gptq", 4, 5, {1});
  sample.layers = {layer("a"), layer("b", "rtn: singular"), layer("c", "rtn: singular"),
                   layer("d", "skipped: override")};
  sample.layers[0].relative_error_rtn = 0.125;  // better than its 0.25
  const auto json = nlohmann::json::parse(to_json(sample));
  EXPECT_EQ(json["fallback_layers"], 2);
  EXPECT_EQ(json["fallback_layer_names"].dump(), R"(["b","c"])");
  EXPECT_EQ(json["layers_worse_than_rtn"], 1);
}

TEST(RecordTest, FindsMetricsPhasesAndLayers) {
  Record sample = record("abc", "gptq", 4, 5, {1});
  sample.seconds = {{"solve", 2.5}};
  sample.peak_bytes = {{"host_peak", 7}};
  sample.layers = {layer("model.layers.0.q_proj")};
  EXPECT_EQ(find_metric(sample, "seconds.solve")->value, 2.5);
  EXPECT_EQ(find_metric(sample, "seconds.solve")->unit, "s");
  EXPECT_EQ(find_metric(sample, "bytes.host_peak")->value, 7);
  EXPECT_EQ(find_metric(sample, "layer.model.layers.0.q_proj.loss")->value, 1.5);
  EXPECT_FALSE(find_metric(sample, "layer.model.layers.0.q_proj.drift"));
  EXPECT_FALSE(find_metric(sample, "layer.model.layers.0.k_proj.loss"));
  EXPECT_FALSE(find_metric(sample, "layer.loss"));
  EXPECT_FALSE(find_metric(sample, "perplexity.ptb"));
}

TEST(RecordTest, DamagedTextIsRefusedByFileAndKey) {
  EXPECT_EQ(
      message_of([] { record_from_json("{\"cell_id\": ", "r.json"); }),
      "[r.json] expected JSON, got 12 bytes that are none. Delete the file to have its cell run "
      "again");
  EXPECT_EQ(message_of([] { record_from_json("[]", "r.json"); }),
            "[r.json] expected an object, got array");
  EXPECT_EQ(message_of([] { record_from_json("{\"schema_version\": 99}", "r.json"); }),
            "[r.json, key schema_version] expected 1, got 99. The record is of another version of "
            "gptq-bench");
  EXPECT_EQ(message_of([] { record_from_json("{\"schema_version\": 1}", "r.json"); }),
            "[r.json, key cell_id] expected this key, got none");
  auto json = nlohmann::json::parse(to_json(record("abc", "rtn", 4, 5, {1})));
  json["metrics"][0]["count"] = "many";
  EXPECT_EQ(message_of([&] { record_from_json(json.dump(), "r.json"); }),
            "[r.json, key metrics.count] expected an integer, got string");
  json = nlohmann::json::parse(to_json(record("abc", "rtn", 4, 5, {1})));
  json["status"] = "fine";
  EXPECT_EQ(message_of([&] { record_from_json(json.dump(), "r.json"); }),
            "[r.json, key status] expected ok, skipped or failed, got 'fine'");
}

TEST(RecordTest, LoadsAllInPlanOrderAndNamesTheDamagedOne) {
  const test::TemporaryFolder folder;
  Record first = record("zzz", "none", 0, 5, {1});
  Record second = record("aaa", "rtn", 4, 5, {1});
  second.position = 1;
  write_record(folder.path(), second);
  write_record(folder.path(), first);
  write_file_atomically(folder.path() / "records" / "mmm.json", "{");
  // What a killed process leaves behind is no record.
  write_file_atomically(folder.path() / "records" / ".nnn.json.tmp.1.0", "{");
  const LoadedRecords loaded = load_records(folder.path());
  ASSERT_EQ(loaded.records.size(), 2u);
  EXPECT_EQ(loaded.records[0].cell_id, "zzz");
  EXPECT_EQ(loaded.records[1].cell_id, "aaa");
  EXPECT_THAT(loaded.damaged, ElementsAre(HasSubstr("records/mmm.json] expected JSON")));
}

TEST(RecordTest, AFolderWithoutRecordsHasNone) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(load_records(folder.path()).records.empty());
}

}  // namespace
}  // namespace gptqb
