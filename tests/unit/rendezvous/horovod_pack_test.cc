#include "rendezvous/horovod_pack.h"

#include <gtest/gtest.h>

#include <random>

namespace muster::rendezvous::horovod_pack_test {
namespace {

std::string unpacked(std::string_view packed, std::size_t max = 1 << 20) {
  const auto value = unpack_horovod_value(packed, max);
  return value.ok() ? *value : "malformed";
}

// As gloo writes it: a sockaddr_storage, and a number that counts up.
std::string addresses(std::size_t peers) {
  std::string value;
  for (std::size_t i = 0; i < peers; ++i) {
    std::string block("\x02\0\xd4\x31\x0a\0\0\x07", 8);
    block.resize(128);
    for (int byte = 0; byte < 8; ++byte) block.push_back(static_cast<char>((i + 77) >> (8 * byte)));
    value += block;
  }
  return value;
}

TEST(HorovodPack, AddressesBecomeAFewBytesEach) {
  const std::string value = addresses(255);
  ASSERT_EQ(value.size(), 255u * 136);
  const std::string packed = pack_horovod_value(value);
  EXPECT_LT(packed.size(), 255u * 6);
  EXPECT_EQ(unpacked(packed), value);
}

TEST(HorovodPack, AnyBytesComeBack) {
  std::mt19937 random(20260620);
  for (const unsigned size : {0u, 1u, 7u, 8u, 9u, 135u, 136u, 137u, 143u, 144u, 145u, 272u, 500u, 5000u}) {
    std::string zeros(size, '\0');
    std::string noise = zeros;
    std::string sparse = zeros;
    for (char& byte : noise) byte = static_cast<char>(random());
    for (char& byte : sparse) byte = random() % 50 == 0 ? static_cast<char>(random()) : '\0';
    const std::string same(size, 'x');
    for (const std::string& value : {zeros, noise, sparse, same}) {
      EXPECT_EQ(unpacked(pack_horovod_value(value)), value) << size;
    }
  }
}

TEST(HorovodPack, HasItsBytes) {
  EXPECT_EQ(pack_horovod_value(""), std::string(4, '\0'));
  EXPECT_EQ(pack_horovod_value(std::string("\0\0ab", 4)), std::string("\x04\0\0\0\x02\x02"
                                                                      "ab",
                                                                      8));
  EXPECT_EQ(pack_horovod_value(std::string(200, '\0')), std::string("\xc8\0\0\0\xc8\x01\0", 7));
}

TEST(HorovodPack, RefusesWhatItDoesNotMake) {
  const std::string good(
      "\x04\0\0\0\x02\x02"
      "ab",
      8);
  ASSERT_EQ(unpacked(good), std::string("\0\0ab", 4));
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_EQ(unpacked(good.substr(0, size)), "malformed") << size;
  EXPECT_EQ(unpacked(good + "x"), "malformed");
  EXPECT_EQ(unpacked(good, 3), "malformed") << "longer than asked for";
  EXPECT_EQ(unpacked(std::string("\x04\0\0\0\x05\0", 6)), "malformed") << "more equal bytes than there are";
  EXPECT_EQ(unpacked(std::string("\x04\0\0\0\0\0\x04\0", 8)), "malformed") << "a step that goes nowhere";
  EXPECT_EQ(unpacked(std::string("\xff\xff\xff\xff\x01", 5)), "malformed") << "4 GB announced";
  EXPECT_EQ(unpacked(std::string("\x04\0\0\0\x80\x80\x80\x80\x80\x80\x01\0", 12)), "malformed");
}

TEST(HorovodPacker, PacksAValueOnceAndOnlyIfItPays) {
  HorovodPacker packer;
  EXPECT_EQ(packer.packed(make_horovod_value("short")), nullptr);
  std::mt19937 random(1);
  std::string noise(4000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  EXPECT_EQ(packer.packed(make_horovod_value(noise)), nullptr);
  auto value = make_horovod_value(addresses(64));
  const HorovodValue packed = packer.packed(value);
  ASSERT_NE(packed, nullptr);
  EXPECT_EQ(unpacked(*packed), *value);
  EXPECT_EQ(packer.packed(value), packed);
  // Others, of which some come to lie where that one was.
  value.reset();
  for (std::size_t i = 65; i < 80; ++i) {
    const auto other = make_horovod_value(addresses(i));
    EXPECT_EQ(unpacked(*packer.packed(other)), *other);
  }
}

}  // namespace
}  // namespace muster::rendezvous::horovod_pack_test
