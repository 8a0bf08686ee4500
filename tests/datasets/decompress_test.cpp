#include "datasets/decompress.h"

#include <gtest/gtest.h>

#include "datasets/text_source.h"
#include "tests/datasets/expect_error.h"
#include "tests/support/temporary_folder.h"

#if GPTQB_HAS_ZLIB
#include <zlib.h>
#endif
#if GPTQB_HAS_LZMA
#include <lzma.h>
#endif
#if GPTQB_HAS_ZSTD
#include <zstd.h>
#endif

namespace gptqb {
namespace {

using test::expect_error;
using test::TemporaryFolder;

// Large enough for several pieces, and not too regular.
std::string sample_text() {
  std::string text;
  uint32_t state = 7;
  while (text.size() < 3'000'000) {
    state = state * 1664525u + 1013904223u;
    text += std::to_string(state) + (state % 7 == 0 ? "\n" : " ");
  }
  return text;
}

std::string gzip([[maybe_unused]] const std::string& text) {
#if GPTQB_HAS_ZLIB
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
#else
  return "";
#endif
}

std::string xz([[maybe_unused]] const std::string& text) {
#if GPTQB_HAS_LZMA
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr,
                          reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                          reinterpret_cast<uint8_t*>(out.data()), &size, out.size());
  out.resize(size);
  return out;
#else
  return "";
#endif
}

std::string zstd([[maybe_unused]] const std::string& text) {
#if GPTQB_HAS_ZSTD
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
#else
  return "";
#endif
}

struct Form {
  const char* ending;
  const char* name;
  bool built;
  std::string (*compress)(const std::string&);

  friend void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }
};

class CompressedText : public testing::TestWithParam<Form> {
 protected:
  std::string file_name() const { return std::string("text.txt") + GetParam().ending; }
  TemporaryFolder folder_;
};

TEST_P(CompressedText, ReadsWhatWasWritten) {
  const std::string text = sample_text();
  const auto path = folder_.write(file_name(), GetParam().compress(text));
  if (!GetParam().built) {
    expect_error([&] { read_bytes(path, folder_.path()); },
                 {path.string(), "which was not there when"});
    return;
  }
  const Text read = read_bytes(path, folder_.path());
  EXPECT_EQ(read.content, text);
  EXPECT_EQ(read.file.bytes, static_cast<int64_t>(text.size()));
  EXPECT_EQ(read.file.path, file_name());
}

TEST_P(CompressedText, ReadsSeveralMembersInARow) {
  if (!GetParam().built) GTEST_SKIP() << "built without " << GetParam().name;
  const auto path =
      folder_.write(file_name(), GetParam().compress("one ") + GetParam().compress("two"));
  EXPECT_EQ(read_bytes(path, "").content, "one two");
}

TEST_P(CompressedText, TruncatedStreamIsAnErrorWithItsOffset) {
  if (!GetParam().built) GTEST_SKIP() << "built without " << GetParam().name;
  const std::string whole = GetParam().compress(sample_text());
  for (const size_t size : {whole.size() / 2, whole.size() - 1, size_t{0}}) {
    const auto path = folder_.write(file_name(), whole.substr(0, size));
    expect_error([&] { read_bytes(path, ""); },
                 {path.string(), std::string("expected a whole ") + GetParam().name + " stream",
                  "its end too soon at byte " + std::to_string(size)});
  }
}

TEST_P(CompressedText, DamagedStreamIsAnErrorWithItsOffset) {
  if (!GetParam().built) GTEST_SKIP() << "built without " << GetParam().name;
  std::string whole = GetParam().compress(sample_text());
  for (size_t i = 0; i < 64; ++i)
    whole[whole.size() / 2 + i] = static_cast<char>(whole[whole.size() / 2 + i] ^ 0x5A);
  const auto path = folder_.write(file_name(), whole);
  expect_error([&] { read_bytes(path, ""); },
               {path.string(), " at byte ", "of the compressed file"});
  const auto other = folder_.write(file_name(), "this is plain text and was only renamed");
  expect_error([&] { read_bytes(other, ""); }, {other.string(), "expected a whole "});
}

INSTANTIATE_TEST_SUITE_P(Forms, CompressedText,
                         testing::Values(Form{".gz", "gzip", GPTQB_HAS_ZLIB == 1, gzip},
                                         Form{".xz", "xz", GPTQB_HAS_LZMA == 1, xz},
                                         Form{".zst", "zstd", GPTQB_HAS_ZSTD == 1, zstd}),
                         [](const auto& form) { return std::string(form.param.name); });

TEST(TextSource, PlainComesBeforeCompressed) {
  TemporaryFolder folder;
  folder.write("a.txt.zst", "");
  EXPECT_EQ(find_spelling(folder.path() / "a.txt")->filename(), "a.txt.zst");
  folder.write("a.txt.gz", "");
  EXPECT_EQ(find_spelling(folder.path() / "a.txt")->filename(), "a.txt.gz");
  folder.write("a.txt", "x");
  EXPECT_EQ(find_spelling(folder.path() / "a.txt")->filename(), "a.txt");
  EXPECT_EQ(find_spelling(folder.path() / "b.txt"), std::nullopt);
}

TEST(TextSource, RecordsPathSizeAndHash) {
  TemporaryFolder folder;
  const auto path = folder.write("sub/abc.txt", "abc");
  const Text text = read_text(path, folder.path());
  EXPECT_EQ(text.file.path, "sub/abc.txt");
  EXPECT_EQ(text.file.bytes, 3);
  // FIPS 180-4, example of one block.
  EXPECT_EQ(text.file.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(read_text(path, "/elsewhere").file.path, path.string());
}

TEST(TextSource, TextThatIsNotUtf8IsRefusedWithItsOffset) {
  TemporaryFolder folder;
  const auto path = folder.write("latin1.txt", "caf\xE9 au lait");
  expect_error([&] { read_text(path, ""); },
               {path.string(), "expected UTF-8 text", "at offset 3", "iconv"});
}

TEST(TextSource, MissingFileAndFolderAreErrors) {
  TemporaryFolder folder;
  expect_error([&] { read_text(folder.path() / "none.txt", ""); }, {"none.txt", "No such file"});
  expect_error([&] { read_text(folder.path(), ""); }, {"expected a file, got a folder"});
}

TEST(TextSource, LinesKeepTheirNewlines) {
  EXPECT_EQ(split_lines("a\n\nb").size(), 3u);
  EXPECT_EQ(split_lines("a\n\nb")[1], "\n");
  EXPECT_EQ(split_lines("a\n\nb")[2], "b");
  EXPECT_TRUE(split_lines("").empty());
}

TEST(TextSource, LinesAcrossPiecesAreWhole) {
  TemporaryFolder folder;
  const std::string text = sample_text();
  const auto path = folder.write("long.txt", text);
  std::string again;
  int64_t count = 0;
  read_lines(path, "", [&](std::string_view line, int64_t number) {
    EXPECT_EQ(number, ++count);
    again += line;
  });
  EXPECT_EQ(again, text);
  EXPECT_EQ(count, static_cast<int64_t>(split_lines(text).size()));
}

}  // namespace
}  // namespace gptqb
