#include "models/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/hash.h"
#include "models/json.h"
#include "models/message_text.h"

namespace gptqb {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format's own library
constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSampledPages = 64;

constexpr std::array<std::pair<const char*, at::ScalarType>, 15> kDtypes = {{
    {"BOOL", at::kBool},
    {"U8", at::kByte},
    {"I8", at::kChar},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"U16", at::kUInt16},
    {"I16", at::kShort},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"U32", at::kUInt32},
    {"I32", at::kInt},
    {"F32", at::kFloat},
    {"U64", at::kUInt64},
    {"I64", at::kLong},
    {"F64", at::kDouble},
}};

std::string system_reason() { return std::strerror(errno); }

// Closes on scope exit.
class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return descriptor_; }
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

// a * b, or nothing if it does not fit.
std::optional<uint64_t> multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// One entry of the header, checked by itself.
TensorInfo parse_entry(const std::string& file, const std::string& name, const json& entry) {
  const std::string where = file + ", tensor '" + name + "'";
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    throw Error(where, "expected an object with dtype, shape and data_offsets");
  TensorInfo info;
  info.name = name;

  const json& dtype = entry["dtype"];
  bool known = false;
  for (const auto& [dtype_name, type] : kDtypes)
    if (dtype == dtype_name) {
      info.dtype = type;
      known = true;
    }
  if (!known)
    throw Error(where, "expected a known dtype (F16, BF16, F32, ...), got " + dtype.dump());

  const json& shape = entry["shape"];
  if (!shape.is_array()) throw Error(where, "expected a list as shape, got " + shape.dump());
  // The product is kept from overflowing in any order: a zero later must not hide an absurd size
  // before it.
  std::optional<uint64_t> bytes = at::elementSize(info.dtype);
  bool has_zero = false;
  for (const json& size : shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      throw Error(where, "expected sizes of at least 0 as shape, got " + shape.dump());
    info.shape.push_back(size.get<int64_t>());
    if (info.shape.back() == 0)
      has_zero = true;
    else if (bytes)
      bytes = multiply(*bytes, size.get<uint64_t>());
  }
  if (!bytes || *bytes > static_cast<uint64_t>(INT64_MAX))
    throw Error(where, "expected a shape that fits in memory, got " + shape_text(info.shape));
  if (has_zero) bytes = 0;

  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    throw Error(where, "expected two offsets of at least 0, got " + offsets.dump());
  info.begin = offsets[0].get<uint64_t>();
  info.end = offsets[1].get<uint64_t>();
  if (info.begin > info.end)
    throw Error(where, "expected begin <= end, got offsets " + offsets.dump());
  if (info.end - info.begin != *bytes)
    throw Error(where, "expected " + std::to_string(*bytes) + " bytes for shape " +
                           shape_text(info.shape) + " of " + dtype.get<std::string>() + ", got " +
                           std::to_string(info.end - info.begin) + " (offsets " + offsets.dump() +
                           ")");
  return info;
}

// The entries together: they must cover the data once, in one piece.
void check_layout(const std::string& file, const std::map<std::string, TensorInfo>& tensors,
                  uint64_t data_bytes) {
  std::vector<const TensorInfo*> by_offset;
  for (const auto& [name, info] : tensors) by_offset.push_back(&info);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t covered = 0;
  std::string before = "the header";
  for (const TensorInfo* info : by_offset) {
    const std::string where = file + ", tensor '" + info->name + "'";
    if (info->end > data_bytes)
      throw Error(where, "expected data up to offset " + std::to_string(info->end) + ", got " +
                             std::to_string(data_bytes) +
                             " bytes of data: the file is truncated. Fetch it again.");
    if (info->begin < covered)
      throw Error(where, "expected to start at offset " + std::to_string(covered) + " after " +
                             before + ", got " + std::to_string(info->begin) + ": the two overlap");
    if (info->begin > covered)
      throw Error(where, "expected to start at offset " + std::to_string(covered) + " after " +
                             before + ", got " + std::to_string(info->begin) +
                             ": a hole, which the format forbids");
    covered = info->end;
    before = "tensor '" + info->name + "'";
  }
  if (covered != data_bytes)
    throw Error(file, "expected " + std::to_string(covered) + " bytes of data, got " +
                          std::to_string(data_bytes) + ": bytes after " + before +
                          " belong to no tensor");
}

}  // namespace

class SafetensorsFile::Mapping {
 public:
  explicit Mapping(const std::filesystem::path& path) {
    FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) throw Error(path.string(), "cannot open: " + system_reason());
    struct stat status {};
    if (::fstat(file.get(), &status) != 0)
      throw Error(path.string(), "cannot read its size: " + system_reason());
    if (!S_ISREG(status.st_mode)) throw Error(path.string(), "expected a regular file");
    size_ = static_cast<uint64_t>(status.st_size);
    if (size_ == 0) return;
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address == MAP_FAILED) throw Error(path.string(), "cannot map: " + system_reason());
    data_ = static_cast<const std::byte*>(address);
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

std::string safetensors_dtype_name(at::ScalarType dtype) {
  for (const auto& [name, type] : kDtypes)
    if (type == dtype) return name;
  throw Error("safetensors",
              std::string("expected a dtype the format has, got ") + at::toString(dtype));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), mapping_(std::make_shared<const Mapping>(path)) {
  const std::string where = path_.string();
  if (mapping_->size() < kLengthBytes)
    throw Error(where, "expected at least 8 bytes, got " + std::to_string(mapping_->size()) +
                           ": the file is truncated. Fetch it again.");
  uint64_t header_bytes = 0;
  for (uint64_t i = 0; i < kLengthBytes; ++i)
    header_bytes |= static_cast<uint64_t>(mapping_->data()[i]) << (8 * i);
  if (header_bytes > mapping_->size() - kLengthBytes)
    throw Error(where, "expected a header of " + std::to_string(header_bytes) +
                           " bytes (offset 0 says so), got a file of " +
                           std::to_string(mapping_->size()) +
                           " bytes: it is truncated or not a safetensors file.");
  if (header_bytes > kMaxHeaderBytes)
    throw Error(where, "expected a header of at most " + std::to_string(kMaxHeaderBytes) +
                           " bytes, got " + std::to_string(header_bytes));
  data_offset_ = kLengthBytes + header_bytes;
  const std::string_view header(reinterpret_cast<const char*>(mapping_->data()) + kLengthBytes,
                                header_bytes);
  const json parsed = parse_json_object(header, where + ", header");
  for (const auto& [name, entry] : parsed.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        throw Error(where,
                    "expected an object as __metadata__, got " + std::string(entry.type_name()));
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string())
          throw Error(where,
                      "expected text as __metadata__ '" + key + "', got " + value.type_name());
        metadata_.emplace(key, value.get<std::string>());
      }
      continue;
    }
    tensors_.emplace(name, parse_entry(where, name, entry));
  }
  check_layout(where, tensors_, mapping_->size() - data_offset_);
}

at::Tensor SafetensorsFile::view(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end())
    throw Error(path_.string(), "expected a tensor '" + name + "', got none");
  const TensorInfo& info = found->second;
  const auto options = at::TensorOptions().dtype(info.dtype);
  if (info.begin == info.end) return at::empty(info.shape, options);
  const std::byte* data = mapping_->data() + data_offset_ + info.begin;
  if (reinterpret_cast<uintptr_t>(data) % at::elementSize(info.dtype) != 0) {
    at::Tensor copy = at::empty(info.shape, options);
    std::memcpy(copy.data_ptr(), data, info.end - info.begin);
    return copy;
  }
  // ATen has no read-only tensors; the pages are mapped without write permission.
  return at::from_blob(
      const_cast<std::byte*>(data), info.shape, [keep = mapping_](void*) {}, options);
}

void SafetensorsFile::release_pages(const std::string& name) const {
  const TensorInfo& info = tensors_.at(name);
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = (data_offset_ + info.begin + page - 1) / page * page;
  const uint64_t last = (data_offset_ + info.end) / page * page;
  // A hint: where it is refused, the pages stay.
  if (first < last)
    ::madvise(const_cast<std::byte*>(mapping_->data()) + first, last - first, MADV_DONTNEED);
}

std::string SafetensorsFile::fingerprint() const {
  Sha256 hash;
  hash.add(mapping_->data(), data_offset_);
  hash.add(std::to_string(mapping_->size()));
  const uint64_t data_bytes = mapping_->size() - data_offset_;
  const uint64_t pages = (data_bytes + kPageBytes - 1) / kPageBytes;
  const uint64_t samples = std::min(pages, kSampledPages);
  for (uint64_t i = 0; i < samples; ++i) {
    // First and last page included.
    const uint64_t page = samples == 1 ? 0 : i * (pages - 1) / (samples - 1);
    const uint64_t begin = page * kPageBytes;
    hash.add(mapping_->data() + data_offset_ + begin, std::min(kPageBytes, data_bytes - begin));
  }
  return hash.hex();
}

namespace {

// A file that takes its final name only when it is complete and on disk.
class PendingFile {
 public:
  explicit PendingFile(const std::filesystem::path& path)
      : path_(path), temporary_(path.string() + ".tmp." + std::to_string(::getpid())) {
    if (path_.has_parent_path()) {
      // A run beside this one may take an empty parent away between two of the steps that it takes.
      std::error_code failure;
      for (int tries = 0; tries < 10; ++tries)
        if (std::filesystem::create_directories(path_.parent_path(), failure); !failure) break;
      if (failure) throw Error(path_.string(), "cannot make its folder: " + failure.message());
    }
    file_.emplace(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file_->get() < 0) fail("cannot create");
  }
  ~PendingFile() {
    if (!done_) ::unlink(temporary_.c_str());
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, size_t bytes) {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(file_->get(), next, std::min<size_t>(bytes, size_t{1} << 30));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot write");
      next += written;
      bytes -= static_cast<size_t>(written);
    }
  }

  void commit() {
    if (::fsync(file_->get()) != 0) fail("cannot flush to disk");
    if (!file_->close()) fail("cannot close");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename over");
    done_ = true;
    const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
    const FileDescriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() >= 0) ::fsync(directory.get());
  }

 private:
  [[noreturn]] void fail(const std::string& step) {
    throw Error(path_.string(), step + ": " + system_reason() + ". Nothing was changed.");
  }

  std::filesystem::path path_;
  std::string temporary_;
  std::optional<FileDescriptor> file_;
  bool done_ = false;
};

}  // namespace

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, at::Tensor>& tensors,
                       std::map<std::string, std::string> metadata) {
  metadata.try_emplace("format", "pt");
  std::vector<std::pair<std::string, at::Tensor>> ordered;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || !tensor.device().is_cpu() || tensor.layout() != at::kStrided)
      throw Error(path.string(), "expected a dense CPU tensor as '" + name + "'");
    ordered.emplace_back(name, tensor);
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  json header = json::object();
  header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : ordered) {
    const uint64_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", safetensors_dtype_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::array<unsigned char, kLengthBytes> length{};
  for (uint64_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<unsigned char>(text.size() >> (8 * i));

  PendingFile file(path);
  file.write(length.data(), length.size());
  file.write(text.data(), text.size());
  for (const auto& [name, tensor] : ordered) {
    const at::Tensor rows = tensor.contiguous();
    file.write(rows.const_data_ptr(), rows.nbytes());
  }
  file.commit();
}

}  // namespace gptqb
