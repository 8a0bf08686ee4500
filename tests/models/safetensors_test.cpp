#include "models/safetensors.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Length, header and data, just as given.
std::filesystem::path write_raw(const TemporaryFolder& folder, const std::string& header,
                                size_t data_bytes, uint64_t claimed_length = UINT64_MAX) {
  const uint64_t length = claimed_length == UINT64_MAX ? header.size() : claimed_length;
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  write_text(folder.path() / "raw.safetensors", bytes + header + std::string(data_bytes, '\1'));
  return folder.path() / "raw.safetensors";
}

std::string raw_error(const std::string& header, size_t data_bytes,
                      uint64_t claimed_length = UINT64_MAX) {
  const TemporaryFolder folder;
  const auto path = write_raw(folder, header, data_bytes, claimed_length);
  return error_of([&] { SafetensorsFile file(path); });
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, WritesAndReadsEveryDtype) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "new" / "all.safetensors";
  std::map<std::string, at::Tensor> tensors;
  for (const at::ScalarType dtype : {at::kBool, at::kByte, at::kChar, at::kShort, at::kHalf,
                                     at::kBFloat16, at::kInt, at::kFloat, at::kLong, at::kDouble})
    tensors[at::toString(dtype)] = at::arange(6, at::kInt).reshape({2, 3}).to(dtype);
  tensors["transposed"] = at::arange(6, at::kFloat).reshape({2, 3}).t();
  tensors["scalar"] = at::full({}, 7.0);
  tensors["empty"] = at::empty({0, 4});
  write_safetensors(path, tensors, {{"made_by", "test"}});

  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = file.view(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.metadata().at("made_by"), "test");
}

TEST(Safetensors, ReadsTheBytesTheFormatPrescribes) {
  const TemporaryFolder folder;
  // 1.0f and -2.0f, little-endian, after a header of 64 bytes.
  std::string header = "{" + entry("w", "F32", "[2]", "[0,8]") + "}";
  header.resize(64, ' ');
  const std::string length("\x40\0\0\0\0\0\0\0", 8);
  const std::string data("\0\0\x80\x3f\0\0\0\xc0", 8);
  write_text(folder.path() / "x.safetensors", length + header + data);
  const SafetensorsFile file(folder.path() / "x.safetensors");
  const at::Tensor read = file.view("w");
  EXPECT_EQ(read[0].item<float>(), 1.0f);
  EXPECT_EQ(read[1].item<float>(), -2.0f);
}

TEST(Safetensors, ViewsShareTheMappingAndOutliveTheFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  write_safetensors(path, {{"w", at::arange(1000, at::kFloat)}});
  at::Tensor a;
  {
    const SafetensorsFile file(path);
    a = file.view("w");
    EXPECT_EQ(a.const_data_ptr(), file.view("w").const_data_ptr());
  }
  std::filesystem::remove(path);
  EXPECT_EQ(a.sum().item<float>(), 499500.0f);
}

TEST(Safetensors, MisalignedTensorIsCopied) {
  const TemporaryFolder folder;
  const auto path = write_raw(
      folder,
      "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("w", "F32", "[2]", "[1,9]") + "}", 9);
  const SafetensorsFile file(path);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.view("w").const_data_ptr()) % 4, 0u);
  EXPECT_EQ(file.view("w").numel(), 2);
}

// PK-15
TEST(Safetensors, HeaderLengthIsAMultipleOfEightForEveryNameLength) {
  const TemporaryFolder folder;
  for (size_t length = 1; length <= 16; ++length) {
    const auto path = folder.path() / "x.safetensors";
    write_safetensors(path, {{std::string(length, 'n'), at::ones({3})}});
    std::ifstream stream(path, std::ios::binary);
    EXPECT_EQ(stream.get() % 8, 0) << length;
    EXPECT_EQ(SafetensorsFile(path).metadata().at("format"), "pt");  // PK-14
  }
}

// PK-16
TEST(Safetensors, DuplicateNameIsAnError) {
  const std::string twice =
      entry("w", "F32", "[1]", "[0,4]") + "," + entry("w", "F32", "[1]", "[4,8]");
  EXPECT_THAT(raw_error("{" + twice + "}", 8),
              AllOf(HasSubstr("raw.safetensors"), HasSubstr("duplicate 'w'")));
}

// PK-17: one file per defect.
TEST(Safetensors, RefusesDamagedHeaders) {
  const std::string good = entry("w", "F32", "[2]", "[0,8]");
  EXPECT_EQ(raw_error("{" + good + "}", 8), "");
  struct Defect {
    std::string header;
    size_t data_bytes;
    std::string message;
  };
  const std::vector<Defect> defects = {
      {"{" + good + "}", 7,
       "tensor 'w'] expected data up to offset 8, got 7 bytes of data: the file is truncated"},
      {"{" + good + "}", 9, "bytes after tensor 'w' belong to no tensor"},
      {"{" + good + "," + entry("v", "F32", "[2]", "[4,12]") + "}", 12,
       "tensor 'v'] expected to start at offset 8 after tensor 'w', got 4: the two overlap"},
      {"{" + good + "," + entry("v", "F32", "[1]", "[12,16]") + "}", 16, "got 12: a hole"},
      {"{" + entry("w", "F32", "[2]", "[8,0]") + "}", 8,
       "expected begin <= end, got offsets [8,0]"},
      {"{" + entry("w", "F32", "[3]", "[0,8]") + "}", 8,
       "expected 12 bytes for shape [3] of F32, got 8"},
      {"{" + entry("w", "F99", "[2]", "[0,8]") + "}", 8,
       "expected a known dtype (F16, BF16, F32, ...), got \"F99\""},
      {"{" + entry("w", "F32", "[4611686018427387905]", "[0,4]") + "}", 4,
       "expected a shape that fits in memory"},
      {"{" + entry("w", "F32", "[4294967296,4294967296,0]", "[0,0]") + "}", 0,
       "expected a shape that fits in memory"},
      {"{" + entry("w", "F32", "[-2]", "[0,8]") + "}", 8,
       "expected sizes of at least 0 as shape, got [-2]"},
      {"{" + entry("w", "F32", "[2.0]", "[0,8]") + "}", 8, "expected sizes of at least 0 as shape"},
      {"{" + entry("w", "F32", "2", "[0,8]") + "}", 8, "expected a list as shape"},
      {"{" + entry("w", "F32", "[2]", "[0]") + "}", 8,
       "expected two offsets of at least 0, got [0]"},
      {"{" + entry("w", "F32", "[2]", "[-8,0]") + "}", 8, "expected two offsets of at least 0"},
      {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8,
       "expected an object with dtype, shape and data_offsets"},
      {"{\"w\":7}", 8, "expected an object with dtype, shape and data_offsets"},
      {"[]", 0, "expected a JSON object, got array"},
      {"{\"w\":", 0, "expected JSON, got a syntax error at byte"},
      {"{\"__metadata__\":{\"format\":7}}", 0, "expected text as __metadata__ 'format'"},
  };
  for (const Defect& defect : defects)
    EXPECT_THAT(raw_error(defect.header, defect.data_bytes),
                AllOf(HasSubstr("raw.safetensors"), HasSubstr(defect.message)));
}

TEST(Safetensors, RefusesLengthsBeyondTheFile) {
  EXPECT_THAT(raw_error("{}", 0, 1000),
              HasSubstr("expected a header of 1000 bytes (offset 0 says so), got a file of 10"));
  EXPECT_THAT(raw_error("{}", 0, UINT64_MAX - 7),
              HasSubstr("expected a header of 18446744073709551608 bytes"));
  const TemporaryFolder folder;
  for (const std::string& bytes : {std::string(), std::string("abc")}) {
    write_text(folder.path() / "short", bytes);
    EXPECT_THAT(error_of([&] { SafetensorsFile file(folder.path() / "short"); }),
                HasSubstr("expected at least 8 bytes, got " + std::to_string(bytes.size())));
  }
  EXPECT_THAT(error_of([&] { SafetensorsFile file(folder.path() / "none"); }),
              HasSubstr("No such file"));
}

TEST(Safetensors, ZeroSizedTensorsAreLegal) {
  const TemporaryFolder folder;
  const auto path = write_raw(
      folder,
      "{" + entry("a", "F32", "[0]", "[0,0]") + "," + entry("w", "F32", "[1]", "[0,4]") + "}", 4);
  EXPECT_EQ(SafetensorsFile(path).view("a").numel(), 0);
}

TEST(Safetensors, FaultWhileWritingLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  write_safetensors(path, {{"w", at::ones({4})}});
  // A limit on the file's size stands for a full disk: write() fails after some bytes.
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit small{4096, old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of([&] {
    write_safetensors(path, {{"w", at::ones({100000})}});
  });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_THAT(message,
              AllOf(HasSubstr("x.safetensors"), HasSubstr("cannot write: File too large")));
  EXPECT_EQ(SafetensorsFile(path).view("w").numel(), 4);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, FingerprintFollowsHeaderSizeAndData) {
  const TemporaryFolder folder;
  const auto fingerprint = [&](const std::string& name, const at::Tensor& tensor) {
    write_safetensors(folder.path() / "x.safetensors", {{name, tensor}});
    return SafetensorsFile(folder.path() / "x.safetensors").fingerprint();
  };
  const at::Tensor data = at::arange(100000, at::kFloat);
  const std::string base = fingerprint("w", data);
  EXPECT_EQ(fingerprint("w", data), base);
  EXPECT_NE(fingerprint("v", data), base);
  EXPECT_NE(fingerprint("w", data + 1), base);
  at::Tensor last_changed = data.clone();
  last_changed[99999] = 0;
  EXPECT_NE(fingerprint("w", last_changed), base);
}

}  // namespace
}  // namespace gptqb::test
