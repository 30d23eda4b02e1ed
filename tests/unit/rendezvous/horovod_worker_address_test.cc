#include "rendezvous/horovod_worker_address.h"
#include "tests/unit/rendezvous/base64.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::rendezvous::horovod_worker_address_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The key of all examples: bytes 0 to 31.
std::string example_key() {
  std::string key;
  for (int i = 0; i < 32; ++i) key.push_back(static_cast<char>(i));
  return key;
}

std::string refusal(std::string_view pickle) {
  const auto parsed = parse_horovod_worker_address(to_base64(pickle));
  return parsed.ok() ? "accepted" : parsed.status().message();
}

// cloudpickle 3 wrote these for Horovod 0.28.1 on Python 3.11.
TEST(HorovodWorkerAddress, ReadsWhatHorovodWrites) {
  const auto three = parse_horovod_worker_address(
      "gAWVbgAAAAAAAAB9lCiMAmxvlF2UjAkxMjcuMC4wLjGUTbuchpRhjARldGgwlF2UKIwIMTAuMC4wLjeUTbuchpSMCDEwLjAuMC44lE27nIaUZXVD"
      "IAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4flIaULg==");
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_THAT(three->endpoints, ElementsAre(HorovodEndpoint{"127.0.0.1", 40123}, HorovodEndpoint{"10.0.0.7", 40123},
                                            HorovodEndpoint{"10.0.0.8", 40123}));
  EXPECT_EQ(three->key, example_key());
  const auto one = parse_horovod_worker_address(
      "gAWVQQAAAAAAAAB9lIwCbG+UXZSMCTEyNy4wLjAuMZRLyIaUYXNDIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4flIaULg==");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(one->endpoints, ElementsAre(HorovodEndpoint{"127.0.0.1", 200}));
}

// One interface "lo" with one endpoint, then the key; `port` is the opcode of the number.
std::string pickle(std::string_view port, std::string_view key) {
  return std::string(
             "\x80\x05}\x8c\x02lo]\x8c\x09"
             "127.0.0.1",
             19) +
         std::string(port) +
         "\x86"
         "as" +
         "C" + std::string(1, static_cast<char>(key.size())) + std::string(key) + "\x86.";
}

TEST(HorovodWorkerAddress, ChecksPortsAndKeys) {
  EXPECT_EQ(refusal(pickle("M\xff\xff", example_key())), "accepted");
  EXPECT_EQ(refusal(pickle(std::string_view("J\xff\xff\0\0", 5), example_key())), "accepted");
  EXPECT_THAT(refusal(pickle(std::string_view("J\0\0\1\0", 5), example_key())), HasSubstr("no address and port"));
  EXPECT_THAT(refusal(pickle(std::string_view("K\0", 2), example_key())), HasSubstr("no address and port"));
  EXPECT_THAT(refusal(pickle("K\x01", "short")), HasSubstr("key"));
}

TEST(HorovodWorkerAddress, RefusesOtherOpcodes) {
  EXPECT_THAT(refusal("cos\nsystem\n."), HasSubstr("opcode")) << "GLOBAL";
  EXPECT_THAT(refusal("\x8c\x02os\x8c\x06system\x93."), HasSubstr("opcode")) << "STACK_GLOBAL";
  EXPECT_THAT(refusal("]R."), HasSubstr("opcode")) << "REDUCE";
}

TEST(HorovodWorkerAddress, RefusesBrokenPickles) {
  EXPECT_THAT(refusal(""), HasSubstr("too early"));
  EXPECT_THAT(refusal("}"), HasSubstr("too early"));
  EXPECT_THAT(refusal("."), HasSubstr("left over"));
  EXPECT_THAT(refusal("}.x"), HasSubstr("left over"));
  EXPECT_THAT(refusal("}."), HasSubstr("no pair"));
  EXPECT_THAT(refusal("\x8c\xff"
                      "abc."),
              HasSubstr("too early"));
  EXPECT_THAT(refusal("\x80\x09}."), HasSubstr("version"));
  EXPECT_THAT(refusal("\x86."), HasSubstr("pair"));
  EXPECT_THAT(refusal("a."), HasSubstr("too few"));
  EXPECT_THAT(refusal("}]a."), HasSubstr("another kind"));
  EXPECT_THAT(refusal("]e."), HasSubstr("no mark"));
  EXPECT_THAT(refusal("(e."), HasSubstr("no mark"));
  EXPECT_THAT(refusal("}(]u."), HasSubstr("another kind")) << "a key without a value";
  EXPECT_THAT(refusal("\x94."), HasSubstr("remember"));
  EXPECT_THAT(refusal(std::string_view("h\0.", 3)), HasSubstr("reference"));
  EXPECT_THAT(refusal(std::string(100, '}') + "."), HasSubstr("left over"));
  EXPECT_THAT(refusal(std::string(40000, '}')), HasSubstr("too many"));
}

TEST(HorovodWorkerAddress, ListInsideItselfDoesNoHarm) {
  EXPECT_THAT(refusal(std::string_view("]\x94h\0a.", 6)), HasSubstr("no pair"));
}

TEST(HorovodWorkerAddress, RefusesOtherShapes) {
  EXPECT_THAT(refusal("}C\x01x\x86."), HasSubstr("key"));
  EXPECT_THAT(refusal("]]\x86."), HasSubstr("no dict"));
  EXPECT_THAT(refusal("}C\x20" + example_key() + "\x86."), HasSubstr("no endpoint"));
}

TEST(HorovodWorkerAddress, RefusesWhatIsNoBase64) {
  for (const char* text : {"abc", "a===", "ab=c", "ab==abcd", "ab cd===", "ab\n=", "####"}) {
    EXPECT_FALSE(parse_horovod_worker_address(text).ok()) << text;
  }
  EXPECT_THAT(parse_horovod_worker_address(std::string(kMaxWorkerAddressBytes + 4, 'A')).status().message(),
              HasSubstr("too long"));
}

}  // namespace
}  // namespace muster::rendezvous::horovod_worker_address_test
