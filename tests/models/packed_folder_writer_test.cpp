// Writing packed folders: whole or not at all, in shards, as readers of the format want them.
#include "models/packed_folder_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "models/packed_convert.h"
#include "models/packed_linears.h"
#include "models/packed_producer.h"
#include "models/save_target.h"
#include "tests/models/packed_model.h"

namespace gptqb::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = PackedModel::Kind;

// PK-15: whatever the names, the header is padded; the tensors come back, aligned.
TEST(ShardWriter, FilesAreReadBackWhateverTheNames) {
  for (size_t length = 1; length <= 16; ++length) {
    const TemporaryFolder folder;
    const std::string wide(length, 'w'), narrow(length, 'n');
    const at::Tensor words = at::arange(6, at::kInt).view({2, 3});
    const at::Tensor halves = at::arange(5, at::kHalf);
    ShardWriter writer(folder.path(), 1000, header_room({wide, narrow}));
    writer.add({{narrow, halves}, {wide, words}});
    writer.finish();
    const SafetensorsFile file(folder.path() / "model.safetensors");
    EXPECT_EQ(file.tensors().at(wide).begin, 0u);
    EXPECT_TRUE(at::equal(file.view(wide), words));
    EXPECT_TRUE(at::equal(file.view(narrow), halves));
    EXPECT_EQ(file.metadata().at("format"), "pt");
    std::ifstream stream(file.path(), std::ios::binary);
    EXPECT_EQ(stream.get() % 8, 0);
  }
}

// Tensors of odd lengths, added one after the other as layers are: each begins where its elements
// may lie, the format's rule against holes (which SafetensorsFile holds files to) stays kept, and
// the header has room for those that wait.
TEST(ShardWriter, TensorsOfOddLengthsMisalignNothing) {
  for (const int64_t shard_bytes : {int64_t{1} << 20, int64_t{150}}) {
    const TemporaryFolder folder;
    std::map<std::string, at::Tensor> tensors;
    for (int64_t layer = 0; layer < 4; ++layer) {
      const std::string name = "layer." + std::to_string(layer);
      tensors[name + ".scales"] = at::arange(5 + layer, at::kHalf) + layer;
      tensors[name + ".norm"] = at::arange(3, at::kBFloat16);
      tensors[name + ".mask"] = at::arange(7 - layer, at::kByte);
      tensors[name + ".qweight"] = at::arange(5, at::kInt) * (layer + 1);
      tensors[name + ".shape"] = at::tensor({layer, layer}, at::kLong);
      tensors[name + ".none"] = at::empty({0}, at::kHalf);
    }
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors) names.push_back(name);
    ShardWriter writer(folder.path(), shard_bytes, header_room(names));
    for (const auto& [name, tensor] : tensors) writer.add({{name, tensor}});
    writer.finish();
    const TensorReader reader(folder.path());
    EXPECT_EQ(reader.names(), names);
    EXPECT_THAT(reader.notes(), ::testing::IsEmpty());
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      if (entry.path().extension() != ".safetensors") continue;
      ++files;
      int64_t bytes = 0;
      const SafetensorsFile file(entry.path());
      for (const auto& [name, info] : file.tensors()) {
        EXPECT_EQ(info.begin % c10::elementSize(info.dtype), 0u) << name;
        bytes += static_cast<int64_t>(info.end - info.begin);
      }
      EXPECT_LE(bytes, shard_bytes) << entry;
    }
    EXPECT_GT(files, shard_bytes < 1000 ? 2u : 0u);
    for (const auto& [name, tensor] : tensors)
      EXPECT_TRUE(same_tensor(reader.view(name), tensor)) << name;
  }
}

TEST(ShardWriter, ShardsEndBeforeTheLimitOrAFullHeader) {
  const TemporaryFolder folder;
  ShardWriter writer(folder.path(), 100, header_room({"a", "b"}));
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"})
    writer.add({{name, at::ones({5})}});
  writer.add({{"large", at::ones({100})}});
  EXPECT_THAT(message_of([&] {
                writer.add({{"a", at::ones({5})}});
              }),
              HasSubstr("expected each tensor once, got 'a' twice"));
  writer.finish();
  const TensorReader reader(folder.path());
  EXPECT_EQ(reader.names().size(), 9u);
  EXPECT_EQ(reader.view("large").numel(), 100);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().extension() == ".safetensors") {
      EXPECT_THAT(entry.path().filename().string(), HasSubstr("-of-0000"));
      EXPECT_LE(SafetensorsFile(entry.path()).tensors().size(), 5u);
    }
}

class WriterOfPackedFolders : public ::testing::Test {
 protected:
  WriterOfPackedFolders() : model_(Kind::kV2, {.group_size = 16}) {
    model_.packed().write();
    source_ = open_model(model_.packed().path(), {});
  }
  PackedFolderOptions options() const {
    return {.path = path_,
            .source = model_.packed().path(),
            .config = {},
            .format = PackedFormat::kGptqV2};
  }
  void add_all(PackedFolderWriter& writer) const {
    const PackedLinears linears(TensorReader(model_.packed().path()),
                                read_packed_config(model_.packed().path(), config()), "auto");
    for (const std::string& name : linears.names()) {
      const auto [out, in] = linears.sizes_of(name);
      writer.add(name, linears.unpack(name, out, in));
      EXPECT_FALSE(fs::exists(writer.temporary() / "config.json"));
    }
  }
  void write(const PackedFolderOptions& options) const {
    PackedFolderWriter writer(options, *source_);
    add_all(writer);
    writer.complete(*source_, settings());
    writer.publish();
  }
  ConfigReader config() const { return ConfigReader(model_.packed().path() / "config.json"); }
  nlohmann::ordered_json settings() const {
    auto settings =
        nlohmann::ordered_json::parse(config().object().at("quantization_config").dump());
    settings["meta"] = {{"quantizer", {producer("0")}}};
    return settings;
  }

  const TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "packed";
  PackedModel model_;
  std::unique_ptr<CausalLm> source_;
};

TEST_F(WriterOfPackedFolders, NothingLooksCompleteBeforeItIs) {
  {
    PackedFolderWriter writer(options(), *source_);
    add_all(writer);
    EXPECT_FALSE(fs::exists(path_));
    writer.complete(*source_, settings());
    EXPECT_FALSE(fs::exists(path_));
    EXPECT_NO_THROW(open_model(writer.temporary(), {}));
  }  // not published: nothing is left
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  PackedFolderWriter writer(options(), *source_);
  add_all(writer);
  writer.complete(*source_, settings());
  writer.publish();
  EXPECT_TRUE(model_.matches(*open_model(path_, {.dtype = "float32"})));
  EXPECT_FALSE(fs::exists(writer.temporary()));
  // Its own folder is replaced; what it did not write is not.
  EXPECT_NO_THROW(PackedFolderWriter(options(), *source_));
  EXPECT_TRUE(fs::exists(path_ / "config.json"));
  fs::remove(path_ / "quantize_config.json");
  EXPECT_THAT(message_of([&] { PackedFolderWriter(options(), *source_); }),
              HasSubstr("Choose another save.path, or remove it"));
}

// What a killed writer left is no reason to fail, and is not mixed with what is written anew.
TEST_F(WriterOfPackedFolders, LeftoversOfAKilledWriterAreRemoved) {
  const fs::path left = path_.string() + ".incomplete";
  fs::create_directories(left);
  write_text(left / "part-0.safetensors", "half");
  write_text(left / ".gptq-bench-writing", "");
  write(options());
  EXPECT_TRUE(model_.matches(*open_model(path_, {.dtype = "float32"})));
  for (const auto& entry : fs::directory_iterator(path_))
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(HasSubstr("part-0"))) << entry;
  EXPECT_FALSE(fs::exists(path_ / ".gptq-bench-writing"));
}

// Whatever else has the temporary name is not touched: a folder of the user's, a model, a link.
TEST_F(WriterOfPackedFolders, OnlyWhatThisProgramBeganIsRemoved) {
  const fs::path taken = path_.string() + ".incomplete";
  const auto refusal = [&] { return message_of([&] { PackedFolderWriter(options(), *source_); }); };
  const std::string reason = "expected nothing, or what an interrupted run of gptq-bench left";
  fs::create_directories(taken);
  write_text(taken / "thesis.tex", "years");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(taken.string()), HasSubstr(reason)));
  EXPECT_TRUE(fs::exists(taken / "thesis.tex"));
  EXPECT_THAT(message_of([&] {
                convert_packed(model_.packed().path(), "auto", path_, PackedFormat::kGptqV2, "0");
              }),
              HasSubstr(reason));
  EXPECT_TRUE(fs::exists(taken / "thesis.tex"));
  fs::remove_all(taken);
  fs::create_directory_symlink(model_.packed().path(), taken);
  EXPECT_THAT(refusal(), HasSubstr(reason));
  EXPECT_TRUE(fs::exists(model_.packed().path() / "config.json"));
  fs::remove(taken);
  write_text(taken, "a file");
  EXPECT_THAT(refusal(), HasSubstr(reason));
  EXPECT_TRUE(fs::exists(taken));
}

TEST_F(WriterOfPackedFolders, ASecondWriterIsRefusedAndTheFirstGoesOn) {
  PackedFolderWriter writer(options(), *source_);
  EXPECT_THAT(message_of([&] { PackedFolderWriter(options(), *source_); }),
              HasSubstr("expected no other run that writes here, got one. Wait for it"));
  EXPECT_TRUE(fs::exists(writer.temporary()));
  add_all(writer);
  writer.complete(*source_, settings());
  writer.publish();
  EXPECT_TRUE(model_.matches(*open_model(path_, {.dtype = "float32"})));
  EXPECT_FALSE(fs::exists(writer.temporary()));
}

// Files of the user's in a folder that would be replaced: refused before any work, and before it
// takes the name.
TEST_F(WriterOfPackedFolders, FilesOfOthersInAFolderAreNotLost) {
  write_text(model_.packed().path() / "tokenizer.json", "{}");
  write(options());
  EXPECT_TRUE(fs::exists(path_ / "tokenizer.json"));
  write(options());  // files that come again are no reason
  const auto finished = [&](const std::string& extra) {
    PackedFolderWriter writer(options(), *source_);
    add_all(writer);
    writer.complete(*source_, settings());
    write_text(path_ / extra, "mine");
    return message_of([&] { writer.publish(); });
  };
  EXPECT_THAT(finished("README.md"),
              AllOf(HasSubstr("README.md"), HasSubstr("got one of yours"),
                    HasSubstr("It is kept as " + path_.string() + ".incomplete")));
  EXPECT_NO_THROW(open_model(path_.string() + ".incomplete", {}));
  fs::remove_all(path_.string() + ".incomplete");
  EXPECT_THAT(message_of([&] { PackedFolderWriter(options(), *source_); }),
              HasSubstr("README.md] expected only files that this program writes anew"));
  EXPECT_TRUE(fs::exists(path_ / "README.md"));
  EXPECT_FALSE(fs::exists(path_.string() + ".incomplete"));
}

// What would end a run of hours at its end is told before it, and telling leaves nothing behind.
TEST_F(WriterOfPackedFolders, WhatIsInTheWayIsToldBeforeAnyWork) {
  const fs::path source = model_.packed().path();
  const auto refusal = [&](const fs::path& path) {
    return message_of([&] { check_save_target(path, source); });
  };
  const std::string kNone = "nothing was thrown";
  EXPECT_EQ(refusal(path_), kNone);
  EXPECT_EQ(refusal(path_ / "deep" / "er/"), kNone);
  EXPECT_TRUE(fs::is_empty(folder_.path()));
  EXPECT_GT(room_for_checkpoint(path_ / "deep"), 0);
  write(options());
  EXPECT_EQ(refusal(path_), kNone);
  write_text(path_ / "notes.txt", "mine");
  EXPECT_THAT(refusal(path_), HasSubstr("got one of yours"));
  EXPECT_THAT(refusal(source), HasSubstr("expected a path where nothing is"));
  EXPECT_THAT(refusal(path_ / "notes.txt" / "packed"),
              AllOf(HasSubstr("expected a folder as parent"), HasSubstr("notes.txt")));
  EXPECT_THAT(refusal("/proc/gptq-bench/packed"), HasSubstr("cannot make a folder in /proc"));
  const fs::path begun = folder_.path() / "other.incomplete";
  fs::create_directories(begun);
  EXPECT_EQ(refusal(folder_.path() / "other"), kNone);
  const int64_t room = room_for_checkpoint(folder_.path() / "other");
  write_text(begun / "thesis.tex", "years");
  EXPECT_THAT(refusal(folder_.path() / "other/"), HasSubstr("what an interrupted run"));
  EXPECT_GT(room, 0);
}

// NFS and FUSE refuse to exchange names.
TEST_F(WriterOfPackedFolders, FileSystemsThatExchangeNoNamesAreWrittenToo) {
  write(options());
  fs::create_directories(path_.string() + ".previous");  // somebody's
  for (const int code : {EINVAL, ENOSYS, ENOTSUP}) {
    fs::last_write_time(path_ / "config.json", fs::file_time_type::min());
    PackedFolderOptions plain = options();
    plain.exchange = [&](const fs::path&, const fs::path&) { return code; };
    write(plain);
    EXPECT_NE(fs::last_write_time(path_ / "config.json"), fs::file_time_type::min());
    EXPECT_FALSE(fs::exists(path_.string() + ".previous2"));
    EXPECT_TRUE(fs::exists(path_.string() + ".previous"));
    EXPECT_FALSE(fs::exists(path_ / ".gptq-bench-writing"));
  }
  // Another fault: neither the old nor the finished one is lost.
  PackedFolderOptions broken = options();
  broken.exchange = [](const fs::path&, const fs::path&) { return EIO; };
  EXPECT_THAT(message_of([&] { write(broken); }), HasSubstr("It is kept as"));
  for (const fs::path& left : {path_, fs::path(path_.string() + ".incomplete")}) {
    EXPECT_TRUE(model_.matches(*open_model(left, {.dtype = "float32"}))) << left;
    EXPECT_FALSE(fs::exists(left / ".gptq-bench-writing")) << left;
  }
}

TEST_F(WriterOfPackedFolders, LayersMustBeOfTheModelAndCodesOfTheFormat) {
  PackedFolderWriter writer(options(), *source_);
  EXPECT_THAT(message_of([&] { writer.add("model.layers.9.x", RandomCodes{}.make()); }),
              HasSubstr("[model.layers.9.x] expected each linear of the blocks once"));
}

// Converted there and back: the same bytes of codes, grids and indices.
TEST_F(WriterOfPackedFolders, ConvertingChangesZeroPointsAlone) {
  for (const Kind kind : {Kind::kV1, Kind::kV2, Kind::kCompressed}) {
    PackedModel model(kind, {.group_size = 16, .symmetric = true, .act_order = true});
    model.packed().write();
    const auto v1 = folder_.path() / "v1", v2 = folder_.path() / "v2";
    EXPECT_EQ(convert_packed(model.packed().path(), "auto", v1, PackedFormat::kGptq, "0"), 14);
    EXPECT_EQ(convert_packed(v1, "auto", v2, PackedFormat::kGptqV2, "0"), 14);
    EXPECT_TRUE(model.matches(*open_model(v1, {.dtype = "float32"})));
    EXPECT_TRUE(model.matches(*open_model(v2, {.dtype = "float32"})));
    if (kind == Kind::kCompressed) continue;
    const TensorReader reader(kind == Kind::kV1 ? v1 : v2);
    for (const auto& [name, tensor] : model.tensors())
      EXPECT_TRUE(same_tensor(reader.view(name), tensor)) << name;
  }
  // A zero point of 0 has no place in v1.
  EXPECT_THAT(message_of([&] {
                convert_packed(model_.packed().path(), "auto", path_, PackedFormat::kGptq, "0");
              }),
              AllOf(HasSubstr("expected at least 1"), HasSubstr("Write the format gptq_v2")));
  EXPECT_FALSE(fs::exists(path_));
}

// Whatever dtype config.json asks for: dense tensors are those of the source, and so are its words.
TEST_F(WriterOfPackedFolders, ConvertingKeepsDenseTensorsAndSettings) {
  PackedModel model(Kind::kV1, {.group_size = 16, .symmetric = true});
  model.pack("model.layers.1.mlp.up_proj.weight", {.bits = 8, .group_size = 16, .symmetric = true});
  model.packed().config.erase("dtype");
  model.packed().config["torch_dtype"] = "bfloat16";
  for (const char* name : {"model.norm.weight", "model.embed_tokens.weight"})
    model.tensors().at(name) = (model.tensors().at(name) + 1e-3).to(at::kHalf);
  auto& settings = model.settings();
  settings["static_groups"] = true;
  settings["true_sequential"] = false;
  settings["damp_percent"] = 0.05;
  settings["model_file_base_name"] = "model";
  settings["dynamic"] = {{"+:.*layers\\.1\\.mlp\\.up_proj", {{"bits", 8}}}};
  settings["meta"] = {{"quantizer", {"gptqmodel:1.4"}}, {"mse", 2.4}};
  model.packed().write();
  convert_packed(model.packed().path(), "auto", path_, PackedFormat::kGptqV2, "0");
  const TensorReader reader(path_);
  for (const auto& [name, tensor] : model.tensors())
    if (!name.ends_with("qzeros")) {
      EXPECT_TRUE(same_tensor(reader.view(name), tensor)) << name;
    }
  nlohmann::json config = ConfigReader(path_ / "config.json").object();
  nlohmann::json wanted = settings;
  wanted.erase("model_file_base_name");
  wanted["checkpoint_format"] = wanted["format"] = "gptq_v2";
  wanted["pack_dtype"] = "int32";
  wanted["meta"] = {{"quantizer", {producer("0")}},
                    {"quantized_by", {"gptqmodel:1.4"}},
                    {"mse", 2.4},
                    {"converted_from", model.packed().path().filename().string()}};
  EXPECT_EQ(config.at("quantization_config"), wanted);
  EXPECT_EQ(ConfigReader(path_ / "quantize_config.json").object(), wanted);
  config["quantization_config"] = settings;
  EXPECT_EQ(config, model.packed().config);
  EXPECT_NO_THROW(open_model(path_, {.dtype = "float32"}));
}

}  // namespace
}  // namespace gptqb::test
