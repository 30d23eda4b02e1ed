#include "model/pinning.h"

#include <gtest/gtest.h>

namespace muster::model::pinning_test {
namespace {

// The word again, or why not.
std::string again(std::string_view word) {
  Pinning pinning;
  const base::Status status = parse_bind_to(word, pinning);
  return status.ok() ? bind_to_word(pinning) : status.message();
}

TEST(BindTo, Words) {
  for (const char* word : {"share", "none", "core", "numa", "socket", "depth", "list:0-7:8-15", "list:5"}) {
    EXPECT_EQ(again(word), word);
  }
  EXPECT_EQ(again("list:3,2,1,9:64,0"), "list:1-3,9:0,64");
  EXPECT_EQ(again("list:1:"), "'' is not a list of CPUs: write one for each local rank, as list:0-7:8-15");
  EXPECT_EQ(again("list:x"), "'x' is not a list of CPUs: write one for each local rank, as list:0-7:8-15");
  EXPECT_EQ(again("list:0-65535:7"), "'0-65535:7' lists more than 65536 CPUs");
  EXPECT_EQ(again("cores"), "'cores' is not one of share, none, core, numa, socket, depth, list:CPUS:CPUS");
}

TEST(BindTo, AnotherRuleForgetsTheLists) {
  Pinning pinning;
  ASSERT_TRUE(parse_bind_to("list:1:2", pinning).ok());
  ASSERT_TRUE(parse_bind_to("share", pinning).ok());
  EXPECT_EQ(pinning, Pinning());
}

TEST(GpuOrder, Words) {
  Pinning pinning;
  for (const char* word : {"reverse", "round-robin", "3,2,1,0", "7", "nearest"}) {
    ASSERT_TRUE(parse_gpu_order(word, pinning).ok()) << word;
    EXPECT_EQ(gpu_order_word(pinning), word);
  }
  EXPECT_EQ(pinning, Pinning());
  EXPECT_EQ(parse_gpu_order("0,1,0", pinning).message(), "'0,1,0' names GPU 0 twice");
  for (const char* word : {"", "backwards", "1,", "-1", "1024"}) EXPECT_FALSE(parse_gpu_order(word, pinning).ok());
}

TEST(Pinning, OtherWords) {
  Pinning pinning;
  EXPECT_EQ(gpu_tiles_word(pinning), "");
  ASSERT_TRUE(parse_gpu_tiles("6x2", pinning).ok());
  EXPECT_EQ(gpu_tiles_word(pinning), "6x2");
  for (const char* word : {"", "6", "0x2", "6x0", "6x17", "6x2x1", "axb"}) {
    EXPECT_FALSE(parse_gpu_tiles(word, pinning).ok()) << word;
  }
  ASSERT_TRUE(parse_reserved_cores("52,0", pinning).ok());
  EXPECT_EQ(pinning.reserved_cores, (std::vector{0, 52}));
  EXPECT_FALSE(parse_reserved_cores("first", pinning).ok());
}

}  // namespace
}  // namespace muster::model::pinning_test
