// Codes of the layout "tiles" (kernels/tile_layout.h) as operands of tensor-core products.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// The words of one lane for 16 rows by 128 columns, and operand A of each of the 8 steps. A code at
// position p of its half is the float16 code * 2^(p - 24).
template <int kBits>
class TileCodes {
 public:
  static constexpr int kWords = 2 * kBits;
  static constexpr int kPositions = kBits == 8 ? 1 : kBits == 4 ? 2 : kBits == 2 ? 4 : 3;

  // Which of the positions a step's codes lie at, and the bit it is.
  static constexpr int position_index(int step) {
    return kBits == 3 ? step < 6 ? step / 3 : 2 : step % kPositions;
  }
  static constexpr int position(int index) { return index * kBits; }
  // Whether codes of steps first .. last lie there.
  static constexpr bool uses(int index, int first, int last) {
    for (int step = first; step <= last; ++step)
      if (position_index(step) == index) return true;
    return false;
  }

  // `tile`: the words of the warp's 16 rows.
  __device__ void load(const uint32_t* tile, int lane) {
#pragma unroll
    for (int chunk = 0; chunk < kWords / 4; ++chunk) {
      const uint4 four = reinterpret_cast<const uint4*>(tile)[chunk * 32 + lane];
      words_[4 * chunk] = four.x;
      words_[4 * chunk + 1] = four.y;
      words_[4 * chunk + 2] = four.z;
      words_[4 * chunk + 3] = four.w;
    }
    if constexpr (kWords % 4 == 2) {
      const uint2 two = reinterpret_cast<const uint2*>(tile + kWords / 4 * 128)[lane];
      words_[kWords - 2] = two.x;
      words_[kWords - 1] = two.y;
    }
  }

  // `step` must be known to the compiler. `above`: bits to set besides; unless it is known to be 0,
  // it should not be known to the compiler, as an instruction takes one constant, here the mask.
  __device__ void operand(int step, uint32_t (&a)[4], uint32_t above = 0) const {
    if constexpr (kBits == 3) {
      pair_of_three(words_, step, above, a[0], a[2]);
      pair_of_three(words_ + 3, step, above, a[1], a[3]);
    } else {
      const uint32_t mask = ((1U << kBits) - 1) * 0x00010001U << position(position_index(step));
      const int word = step / kPositions * 2;
      a[0] = (words_[word] & mask) | above;
      a[1] = (words_[word + 1] & mask) | above;
      a[2] = (words_[word] >> 8 & mask) | above;
      a[3] = (words_[word + 1] >> 8 & mask) | above;
    }
  }

 private:
  // Three words of a row hold 16 pairs of columns, the last one in their highest bits.
  __device__ static void pair_of_three(const uint32_t* w, int step, uint32_t above, uint32_t& lower,
                                       uint32_t& upper) {
    if (step < 6) {
      const uint32_t mask = step < 3 ? 0x00070007U : 0x00380038U;
      lower = (w[step % 3] & mask) | above;
      upper = (w[step % 3] >> 9 & mask) | above;
    } else if (step == 6) {
      lower = (w[0] & 0x01C001C0U) | above;
      upper = (w[1] & 0x01C001C0U) | above;
    } else {
      lower = (w[2] & 0x01C001C0U) | above;
      upper = (w[0] >> 9 & 0x00400040U) | above;
      upper = (w[1] >> 8 & 0x00800080U) | upper;
      upper = (w[2] >> 7 & 0x01000100U) | upper;
    }
  }

  uint32_t words_[kWords];
};

// sums += a b: operands of m16n8k16, float16 with float32 sums (PTX ISA, "mma.m16n8k16").
__device__ inline void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
      "%9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same with an operand A of ones: sums of b over its 16 columns, alike in all rows.
__device__ inline void add_columns(float (&sums)[4], uint32_t b0, uint32_t b1) {
  constexpr uint32_t kOnes[4] = {0x3C003C00U, 0x3C003C00U, 0x3C003C00U, 0x3C003C00U};
  multiply_add(sums, kOnes, b0, b1);
}

// Four 8 x 8 matrices of 16-bit values; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(uint32_t (&out)[4], uint32_t shared_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address)
               : "memory");
}

}  // namespace gptqb::kernels
