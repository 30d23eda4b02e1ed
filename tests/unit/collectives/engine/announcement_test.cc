#include "collectives/engine/announcement.h"

#include <gtest/gtest.h>

#include <random>

namespace muster::collectives::announcement_test {
namespace {

constexpr int kRanks = 4;

Announcement sample() {
  return {"layer.weight",
          {.kind = Kind::kBroadcast,
           .op = RedOp::kProd,
           .root = 3,
           .before = 0.5,
           .after = -2,
           .tensors = {{DType::kI64, {5, 0, 7}}, {DType::kBool, {}}},
           .splits = {1, 4}}};
}

TEST(AnnouncementTest, AListComesBackAsItWas) {
  std::vector<std::byte> bytes;
  write(sample(), bytes);
  write({"", {.kind = Kind::kBarrier}}, bytes);
  const Announcement small{"",
                           {.tensors = {{DType::kF32, {3}}}, .is_on_gpu = true, .is_alone = true, .wire = DType::kF16}};
  write(small, bytes);
  const auto read = read_announcements(bytes, kRanks);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, (std::vector<Announcement>{sample(), {"", {.kind = Kind::kBarrier}}, small}));
  EXPECT_TRUE(read_announcements({}, kRanks)->empty());
}

TEST(AnnouncementTest, APartOfOneIsNone) {
  std::vector<std::byte> bytes;
  write(sample(), bytes);
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_EQ(read_announcements(std::span(bytes).first(size), kRanks).status().code(), base::Code::kDataLoss) << size;
  }
}

TEST(AnnouncementTest, WhatCannotBeDoneIsRefused) {
  Announcement split = sample();
  split.signature = {.kind = Kind::kAlltoall, .tensors = {{DType::kF32, {5}}}, .splits = {5}};
  Announcement root = sample();
  root.signature.root = kRanks;
  Announcement shape = sample();
  shape.signature.tensors[0].shape = {std::int64_t{1} << 62, 4};
  Announcement wire = sample();
  wire.signature.wire = DType::kF16;
  for (const Announcement& announcement : {split, root, shape, wire}) {
    std::vector<std::byte> bytes;
    write(announcement, bytes);
    EXPECT_EQ(read_announcements(bytes, kRanks).status().code(), base::Code::kDataLoss);
  }
}

TEST(AnnouncementTest, ChangedBytesAreAListOrAnError) {
  std::vector<std::byte> bytes;
  write(sample(), bytes);
  std::mt19937 random(1);
  int errors = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> changed = bytes;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<std::byte>(random());
    const auto read = read_announcements(changed, kRanks);
    errors += read.ok() ? 0 : 1;
  }
  EXPECT_GT(errors, 1000);
}

}  // namespace
}  // namespace muster::collectives::announcement_test
