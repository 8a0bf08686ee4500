// How quickly packed checkpoints are written and read back, layer by layer, as `save` and the
// packed path do (issue 7: reading at least 1.5 GB/s in memory-backed storage).
//
//   bench_checkpoint [FOLDER [bits [group_size [act-order: 0 or 1 [blocks [repetitions]]]]]]
//     defaults: /dev/shm 4 128 0 2 5
//
// The linears of `blocks` blocks of LLaMA-7B, format gptq_v2, into a folder of their own in FOLDER.
// Rates are bytes of the packed files a second, and for each second of a core, which other work on
// the machine changes less: packing alone, packing and writing, and plain writes of as many bytes;
// reading to codes and grids, to what the CPU's kernels multiply by, and plain reads. Files are
// dropped from the system's cache before each read, as far as it obeys; a folder in memory has
// nothing to drop.
#include <fcntl.h>
#include <omp.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "methods/packed_linear.h"
#include "models/gptq_tensors.h"
#include "models/packed_linears.h"
#include "models/shard_writer.h"
#include "tests/bench/bench_clock.h"
#include "tests/support/slow_packer.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

struct Layer {
  std::string name;
  QuantizedLinear linear;
};

std::vector<Layer> llama_7b(int64_t blocks, int64_t bits, int64_t group_size, bool act_order) {
  std::vector<Layer> layers;
  for (int64_t block = 0; block < blocks; ++block) {
    const auto add = [&](const char* name, int64_t out, int64_t in) {
      layers.push_back({"model.layers." + std::to_string(block) + "." + name,
                        test::RandomCodes{.out = out,
                                          .in = in,
                                          .bits = bits,
                                          .group_size = group_size,
                                          .act_order = act_order,
                                          .seed = layers.size() + 1}
                            .make()});
    };
    for (const char* name :
         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"})
      add(name, 4096, 4096);
    add("mlp.gate_proj", 11008, 4096);
    add("mlp.up_proj", 11008, 4096);
    add("mlp.down_proj", 4096, 11008);
  }
  return layers;
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

void empty_folder(const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
}

void drop_cached(const fs::path& folder) {
  for (const fs::path& path : files_of(folder)) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

// Plain calls in pieces of 16 MiB, flushed at the end as shards are.
void write_plainly(const fs::path& path, int64_t bytes) {
  static const std::vector<char> kPiece(size_t{16} << 20, 'x');
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  for (int64_t left = bytes; left > 0;) {
    const auto size = std::min<int64_t>(left, static_cast<int64_t>(kPiece.size()));
    const ssize_t written = ::write(file, kPiece.data(), static_cast<size_t>(size));
    if (written < 0) throw Error(path.string(), "cannot write");
    left -= written;
  }
  ::fsync(file);
  ::close(file);
}

void read_plainly(const fs::path& folder) {
  static std::vector<char> piece(size_t{16} << 20);
  for (const fs::path& path : files_of(folder)) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    while (::read(file, piece.data(), piece.size()) > 0) {
    }
    ::close(file);
  }
}

struct Times {
  std::vector<double> seconds, core_seconds;

  template <class Work>
  void measure(const Work& work) {
    double seconds_of_work = 0;
    core_seconds.push_back(cpu_seconds_of([&] { seconds_of_work = seconds_of(work); }));
    seconds.push_back(seconds_of_work);
  }
  void report(const char* what, int64_t bytes) const {
    const auto rates = [bytes](const std::vector<double>& of) {
      std::vector<double> result;
      for (const double each : of) result.push_back(static_cast<double>(bytes) / each / 1e9);
      return spread_of(result);
    };
    const Spread all = rates(seconds);
    std::printf("%-34s %6.2f GB/s [%.2f, %.2f]  a core %6.2f\n", what, all.median, all.least,
                all.most, rates(core_seconds).median);
  }
};

int run(int argc, char** argv) {
  const auto number = [&](int index, int64_t value) {
    return argc > index ? std::atoll(argv[index]) : value;
  };
  const fs::path base = argc > 1 ? argv[1] : "/dev/shm";
  const fs::path folder = base / ("gptq-bench-checkpoint-" + std::to_string(::getpid()));
  const int64_t bits = number(2, 4), repetitions = number(6, 5);
  const auto layers = llama_7b(number(5, 2), bits, number(3, 128), number(4, 0) != 0);
  std::vector<std::string> names;
  for (const Layer& layer : layers)
    for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"})
      names.push_back(layer.name + part);

  Times packing, writing, plain_writing, reading, to_kernels, plain_reading;
  int64_t bytes = 0;
  for (int64_t i = 0; i < repetitions; ++i) {
    packing.measure([&] {
      for (const Layer& layer : layers) pack_gptq(layer.linear, PackedFormat::kGptqV2, layer.name);
    });
    empty_folder(folder);
    writing.measure([&] {
      ShardWriter writer(folder, 5'000'000'000, header_room(names));
      for (const Layer& layer : layers) {
        GptqTensors packed = pack_gptq(layer.linear, PackedFormat::kGptqV2, layer.name);
        writer.add({{layer.name + ".qweight", packed.qweight},
                    {layer.name + ".qzeros", packed.qzeros},
                    {layer.name + ".scales", packed.scales},
                    {layer.name + ".g_idx", packed.g_idx}});
      }
      writer.finish();
      bytes = writer.tensor_bytes();
    });
    const auto read_layers = [&](const auto& action) {
      const PackedLinears linears(TensorReader(folder), std::nullopt, "gptq_v2");
      for (const Layer& layer : layers)
        action(layer,
               linears.unpack(layer.name, layer.linear.out_features(), layer.linear.in_features()));
    };
    if (i == 0)
      read_layers([](const Layer& layer, const QuantizedLinear& linear) {
        if (!test::same_linear(layer.linear, linear))
          throw Error(layer.name, "expected what was written, got something else");
      });
    drop_cached(folder);
    reading.measure([&] { read_layers([](const Layer&, const QuantizedLinear&) {}); });
    drop_cached(folder);
    to_kernels.measure([&] {
      read_layers(
          [](const Layer&, const QuantizedLinear& linear) { PackedLinear(linear, "rows"); });
    });
    drop_cached(folder);
    plain_reading.measure([&] { read_plainly(folder); });
    empty_folder(folder);
    plain_writing.measure([&] { write_plainly(folder / "plain", bytes); });
  }
  fs::remove_all(folder);
  std::printf("%zu layers of LLaMA-7B, %lld bits, %.3f GB in %s, %d threads\n", layers.size(),
              static_cast<long long>(bits), static_cast<double>(bytes) / 1e9, base.c_str(),
              omp_get_max_threads());
  packing.report("packing", bytes);
  writing.report("packing and writing", bytes);
  plain_writing.report("  plain writes", bytes);
  reading.report("reading to codes", bytes);
  to_kernels.report("reading to what kernels multiply", bytes);
  plain_reading.report("  plain reads", bytes);
  return 0;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) {
  try {
    return gptqb::run(argc, argv);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "%s\n", fault.what());
    return 1;
  }
}
