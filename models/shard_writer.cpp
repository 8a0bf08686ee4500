#include "models/shard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/round_up.h"

namespace gptqb {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kAlignment = 8;
// Whole words leave what follows aligned; elements wider than that are rare, and begin a shard
// where they must.
constexpr int64_t kWord = 4;
// A place in the data that takes as many digits as any.
constexpr int64_t kFarPlace = 1'000'000'000'000'000;
// Of an entry of a header beside the name: dtype, four sizes and two offsets at their longest.
constexpr int64_t kEntryBytes = 160;

std::string entry_text(const std::string& name, const at::Tensor& tensor, int64_t begin) {
  const nlohmann::json entry = {
      {"dtype", safetensors_dtype_name(tensor.scalar_type())},
      {"shape", tensor.sizes().vec()},
      {"data_offsets", {begin, begin + static_cast<int64_t>(tensor.nbytes())}}};
  return nlohmann::json(name).dump() + ":" + entry.dump();
}

}  // namespace

// One file: room for the header, then the tensors' bytes; the header is written last.
class ShardWriter::Shard {
 public:
  Shard(std::filesystem::path path, int64_t header_bytes)
      : path_(std::move(path)), header_bytes_(round_up(header_bytes, kAlignment)) {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0) fail("cannot create");
  }
  ~Shard() {
    if (file_ >= 0) ::close(file_);
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Of all tensors, the waiting ones too.
  int64_t data_bytes() const { return data_bytes_ + waiting_bytes_; }
  bool has_room(const std::string& name, const at::Tensor& tensor) const {
    return data_bytes_ % tensor.element_size() == 0 &&
           header_size() + header_size(name, tensor) + 2 <= header_bytes_;
  }

  void add(const std::string& name, const at::Tensor& tensor) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes % kWord == 0) return append(name, tensor);
    waiting_.emplace_back(name, tensor);
    waiting_bytes_ += bytes;
    waiting_header_ += header_size(name, tensor);
  }

  void close() {
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) {
      return a.second.element_size() > b.second.element_size();
    });
    for (const auto& [name, tensor] : waiting_) append(name, tensor);
    waiting_.clear();
    std::string header = header_ + "}";
    if (static_cast<int64_t>(header.size()) > header_bytes_)
      throw Error(path_.string(), "expected a header of at most " + std::to_string(header_bytes_) +
                                      " bytes, got " + std::to_string(header.size()));
    header.resize(static_cast<size_t>(header_bytes_), ' ');
    unsigned char length[kLengthBytes];
    for (int64_t i = 0; i < kLengthBytes; ++i)
      length[i] = static_cast<unsigned char>(static_cast<uint64_t>(header_bytes_) >> (8 * i));
    write(length, kLengthBytes, 0);
    write(header.data(), header_bytes_, kLengthBytes);
    if (::fsync(file_) != 0) fail("cannot flush to disk");
    if (::close(std::exchange(file_, -1)) != 0) fail("cannot close");
  }

 private:
  // What an entry takes in the header, at most.
  static int64_t header_size(const std::string& name, const at::Tensor& tensor) {
    return static_cast<int64_t>(entry_text(name, tensor, kFarPlace).size()) + 1;
  }
  int64_t header_size() const { return static_cast<int64_t>(header_.size()) + waiting_header_; }

  void append(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor rows = tensor.contiguous();
    const auto bytes = static_cast<int64_t>(rows.nbytes());
    write(rows.const_data_ptr(), bytes, kLengthBytes + header_bytes_ + data_bytes_);
    header_ += "," + entry_text(name, tensor, data_bytes_);
    data_bytes_ += bytes;
  }

  [[noreturn]] void fail(const std::string& step) const {
    throw Error(path_.string(), step + ": " + std::strerror(errno));
  }
  void write(const void* data, int64_t bytes, int64_t offset) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written =
          ::pwrite(file_, next, static_cast<size_t>(std::min<int64_t>(bytes, 1 << 30)), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot write");
      next += written;
      offset += written;
      bytes -= written;
    }
  }

  std::filesystem::path path_;
  int64_t header_bytes_;
  int file_ = -1;
  int64_t data_bytes_ = 0;  // written
  std::vector<std::pair<std::string, at::Tensor>> waiting_;
  int64_t waiting_bytes_ = 0;
  int64_t waiting_header_ = 0;
  std::string header_ = R"({"__metadata__":{"format":"pt"})";
};

ShardWriter::ShardWriter(std::filesystem::path folder, int64_t shard_bytes, int64_t header_bytes)
    : folder_(std::move(folder)), shard_bytes_(shard_bytes), header_bytes_(header_bytes) {}

ShardWriter::~ShardWriter() = default;

std::filesystem::path ShardWriter::part_path(size_t shard) const {
  return folder_ / ("part-" + std::to_string(shard) + ".safetensors");
}

void ShardWriter::add(std::vector<std::pair<std::string, at::Tensor>> tensors) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  for (const auto& [name, tensor] : tensors) add_one(name, tensor);
}

void ShardWriter::add_one(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided)
    throw Error(folder_.string(), "expected a dense CPU tensor as '" + name + "'");
  if (shard_of_.contains(name))
    throw Error(folder_.string(), "expected each tensor once, got '" + name + "' twice");
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  if (shard_ && ((shard_->data_bytes() > 0 && shard_->data_bytes() + bytes > shard_bytes_) ||
                 !shard_->has_room(name, tensor)))
    close_shard();
  if (!shard_) shard_ = std::make_unique<Shard>(part_path(shards_), header_bytes_);
  shard_->add(name, tensor);
  shard_of_[name] = shards_;
  tensor_bytes_ += bytes;
}

void ShardWriter::close_shard() {
  shard_->close();
  shard_.reset();
  ++shards_;
}

void ShardWriter::finish() {
  if (shard_) close_shard();
  const auto rename_part = [&](size_t shard, const std::string& name) {
    std::error_code failed;
    std::filesystem::rename(part_path(shard), folder_ / name, failed);
    if (failed)
      throw Error((folder_ / name).string(),
                  "cannot give a finished shard this name: " + failed.message());
  };
  if (shards_ == 1) return rename_part(0, "model.safetensors");
  std::vector<std::string> names;
  for (size_t shard = 0; shard < shards_; ++shard) {
    char name[80];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, shards_);
    names.emplace_back(name);
    rename_part(shard, names.back());
  }
  nlohmann::json index = {{"metadata", {{"total_size", tensor_bytes_}}},
                          {"weight_map", nlohmann::json::object()}};
  for (const auto& [name, shard] : shard_of_) index["weight_map"][name] = names[shard];
  write_file_atomically(folder_ / "model.safetensors.index.json", index.dump(2) + "\n");
}

int64_t header_room(const std::vector<std::string>& names) {
  int64_t bytes = 64;
  for (const std::string& name : names) bytes += static_cast<int64_t>(name.size()) + kEntryBytes;
  return bytes;
}

}  // namespace gptqb
