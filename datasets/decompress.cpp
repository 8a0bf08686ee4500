#include "datasets/decompress.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"

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

using Sink = std::function<void(std::string_view)>;
constexpr size_t kPiece = size_t{1} << 20;

// The compressed bytes of a file, a piece at a time.
class Input {
 public:
  explicit Input(const std::filesystem::path& path)
      : path_(path), buffer_(kPiece), file_(nullptr, std::fclose) {
    if (std::filesystem::is_directory(path))
      throw Error(path.string(), "expected a file, got a folder");
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (!file_)
      throw Error(path.string(),
                  std::string("expected a readable file, got: ") + std::strerror(errno));
  }

  // The next piece, empty at the end.
  std::string_view next() {
    const size_t read = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
    if (read == 0 && std::ferror(file_.get()))
      throw Error(path_.string(),
                  std::string("expected to read the file, got: ") + std::strerror(errno));
    consumed_ += read;
    return {buffer_.data(), read};
  }

  // `unread` bytes of the last piece were not used yet.
  [[noreturn]] void damaged(const std::string& form, size_t unread,
                            const std::string& reason) const {
    throw Error(
        path_.string(),
        "expected a whole " + form + " stream, got " + reason + " at byte " +
            std::to_string(consumed_ - unread) +
            " of the compressed file. Fetch the file again, its download may have broken off");
  }

 private:
  std::filesystem::path path_;
  std::vector<char> buffer_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  size_t consumed_ = 0;
};

void read_plain(Input& input, const Sink& sink) {
  for (std::string_view piece = input.next(); !piece.empty(); piece = input.next()) sink(piece);
}

#if GPTQB_HAS_ZLIB
void read_gzip(Input& input, const Sink& sink) {
  z_stream stream{};
  // 15 bits of window, and gzip's own header and checksum instead of zlib's.
  if (inflateInit2(&stream, 15 + 16) != Z_OK)
    throw Error("zlib", "expected to start a decoder, got no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  std::vector<char> output(kPiece);
  bool inside =
      true;  // in a member that has not ended; an empty file has none and counts as cut short
  for (std::string_view piece = input.next(); !piece.empty(); piece = input.next()) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    do {
      if (!inside) {
        if (stream.avail_in == 0) break;
        inflateReset(&stream);
        inside = true;
      }
      stream.next_out = reinterpret_cast<Bytef*>(output.data());
      stream.avail_out = static_cast<uInt>(output.size());
      const int code = inflate(&stream, Z_NO_FLUSH);
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        input.damaged("gzip", stream.avail_in, stream.msg ? stream.msg : "damaged data");
      const size_t made = output.size() - stream.avail_out;
      if (made > 0) sink({output.data(), made});
      if (code == Z_STREAM_END) inside = false;
    } while (stream.avail_in > 0 || (inside && stream.avail_out == 0));
  }
  if (inside) input.damaged("gzip", 0, "its end too soon");
}
#endif

#if GPTQB_HAS_LZMA
void read_xz(Input& input, const Sink& sink) {
  lzma_stream stream = LZMA_STREAM_INIT;
  const std::unique_ptr<lzma_stream, void (*)(lzma_stream*)> guard(&stream, lzma_end);
  if (lzma_stream_decoder(&stream, UINT64_MAX, LZMA_CONCATENATED) != LZMA_OK)
    throw Error("liblzma", "expected to start a decoder, got no memory");
  std::vector<char> output(kPiece);
  lzma_ret code = LZMA_OK;
  lzma_action action = LZMA_RUN;
  while (code != LZMA_STREAM_END) {
    if (stream.avail_in == 0 && action == LZMA_RUN) {
      const std::string_view piece = input.next();
      stream.next_in = reinterpret_cast<const uint8_t*>(piece.data());
      stream.avail_in = piece.size();
      if (piece.empty()) action = LZMA_FINISH;
    }
    stream.next_out = reinterpret_cast<uint8_t*>(output.data());
    stream.avail_out = output.size();
    code = lzma_code(&stream, action);
    const size_t made = output.size() - stream.avail_out;
    if (made > 0) sink({output.data(), made});
    if (code == LZMA_BUF_ERROR) input.damaged("xz", stream.avail_in, "its end too soon");
    if (code == LZMA_FORMAT_ERROR) input.damaged("xz", stream.avail_in, "data of another format");
    if (code != LZMA_OK && code != LZMA_STREAM_END)
      input.damaged("xz", stream.avail_in, "damaged data");
  }
}
#endif

#if GPTQB_HAS_ZSTD
void read_zstd(Input& input, const Sink& sink) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  if (!stream) throw Error("libzstd", "expected to start a decoder, got no memory");
  std::vector<char> output(kPiece);
  size_t wanted = 1;  // 0 at the end of a frame
  for (std::string_view piece = input.next(); !piece.empty(); piece = input.next()) {
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    size_t made = 0;
    do {
      ZSTD_outBuffer out{output.data(), output.size(), 0};
      wanted = ZSTD_decompressStream(stream.get(), &out, &in);
      if (ZSTD_isError(wanted)) input.damaged("zstd", in.size - in.pos, ZSTD_getErrorName(wanted));
      made = out.pos;
      if (made > 0) sink({output.data(), made});
    } while (in.pos < in.size || made == output.size());
  }
  if (wanted != 0) input.damaged("zstd", 0, "its end too soon");
}
#endif

[[maybe_unused]] [[noreturn]] void missing_library(const std::filesystem::path& path,
                                                   const std::string& library,
                                                   const std::string& package) {
  throw Error(
      path.string(),
      "expected a file that this build can read, got one that needs " + library +
          ", which was not there when the program was built. Unpack the file beside itself, or "
          "install " +
          package + " and build again");
}

}  // namespace

void read_uncompressed(const std::filesystem::path& path, const Sink& sink) {
  Input input(path);
  const std::string ending = path.extension().string();
  if (ending == ".gz") {
#if GPTQB_HAS_ZLIB
    read_gzip(input, sink);
#else
    missing_library(path, "zlib", "zlib1g-dev");
#endif
  } else if (ending == ".xz") {
#if GPTQB_HAS_LZMA
    read_xz(input, sink);
#else
    missing_library(path, "liblzma", "liblzma-dev");
#endif
  } else if (ending == ".zst") {
#if GPTQB_HAS_ZSTD
    read_zstd(input, sink);
#else
    missing_library(path, "libzstd", "libzstd-dev");
#endif
  } else {
    read_plain(input, sink);
  }
}

}  // namespace gptqb
