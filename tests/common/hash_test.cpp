#include "common/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gptqb {
namespace {

// Vectors of FIPS 180-4's examples (NIST, SHA256.pdf).
TEST(Sha256, NistVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesEqualTheWhole) {
  const std::string text(300, 'x');
  for (size_t cut : {1, 55, 56, 63, 64, 65, 128, 299}) {
    Sha256 hash;
    hash.add(text.substr(0, cut));
    hash.add(text.substr(cut));
    EXPECT_EQ(hash.hex(), sha256_hex(text)) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace gptqb
