#include "rendezvous/memory_store.h"

#include <gtest/gtest.h>

namespace muster::rendezvous {
namespace {

TEST(MemoryStore, SetGetErase) {
  MemoryStore store;
  EXPECT_EQ(store.get("a"), std::nullopt);
  EXPECT_TRUE(store.set("a", std::string("x\0y", 3)).ok());
  EXPECT_EQ(store.get("a"), std::string("x\0y", 3));
  EXPECT_TRUE(store.set("a", "").ok());
  EXPECT_EQ(store.get("a"), "");
  EXPECT_EQ(store.size(), 1u);
  EXPECT_TRUE(store.erase("a"));
  EXPECT_FALSE(store.erase("a"));
  EXPECT_EQ(store.size(), 0u);
}

TEST(MemoryStore, AddCountsInDecimal) {
  MemoryStore store;
  EXPECT_EQ(*store.add("n", 5), 5);
  EXPECT_EQ(*store.add("n", -7), -2);
  EXPECT_EQ(store.get("n"), "-2");
  ASSERT_TRUE(store.set("n", "12x").ok());
  EXPECT_EQ(store.add("n", 1).status().code(), base::Code::kInvalidArgument);
  ASSERT_TRUE(store.set("n", "9223372036854775807").ok());
  EXPECT_EQ(store.add("n", 1).status().code(), base::Code::kOutOfRange);
}

TEST(MemoryStore, CompareSetAsTorch) {
  MemoryStore store;
  EXPECT_EQ(*store.compare_set("k", "other", "new"), "other");  // absent, something expected: not stored
  EXPECT_EQ(store.get("k"), std::nullopt);
  EXPECT_EQ(*store.compare_set("k", "", "one"), "one");
  EXPECT_EQ(*store.compare_set("k", "two", "three"), "one");
  EXPECT_EQ(*store.compare_set("k", "one", "two"), "two");
}

TEST(MemoryStore, WaitIsCalledOnceWhenTheLastKeyComes) {
  MemoryStore store;
  int called = 0;
  ASSERT_TRUE(store.set("a", "1").ok());
  EXPECT_EQ(store.wait({"a"}, [&] { ++called; }), 0u);
  EXPECT_EQ(called, 1);
  EXPECT_NE(store.wait({"a", "b", "c", "b"}, [&] { ++called; }), 0u);
  ASSERT_TRUE(store.set("b", "1").ok());
  EXPECT_EQ(called, 1);
  EXPECT_EQ(*store.add("c", 1), 1);
  EXPECT_EQ(called, 2);
  ASSERT_TRUE(store.set("c", "2").ok());
  EXPECT_EQ(called, 2);
}

TEST(MemoryStore, CancelledWaitIsNotCalled) {
  MemoryStore store;
  bool called = false;
  const auto id = store.wait({"x", "y"}, [&] { called = true; });
  EXPECT_TRUE(store.cancel_wait(id));
  EXPECT_FALSE(store.cancel_wait(id));
  ASSERT_TRUE(store.set("x", "").ok());
  ASSERT_TRUE(store.set("y", "").ok());
  EXPECT_FALSE(called);
}

TEST(MemoryStore, ReadyMayUseTheStore) {
  MemoryStore store;
  store.wait({"a"}, [&] { ASSERT_TRUE(store.set("b", "1").ok()); });
  bool both = false;
  store.wait({"a", "b"}, [&] { both = true; });
  ASSERT_TRUE(store.set("a", "1").ok());
  EXPECT_TRUE(both);
}

TEST(MemoryStore, LimitsLeaveTheStoreUnchanged) {
  MemoryStore store({.max_key_bytes = 4, .max_value_bytes = 8, .max_keys = 2, .max_total_bytes = 12});
  EXPECT_EQ(store.set("12345", "").code(), base::Code::kInvalidArgument);
  EXPECT_EQ(store.set("1", "123456789").code(), base::Code::kInvalidArgument);
  EXPECT_TRUE(store.set("1", "12345678").ok());
  EXPECT_EQ(store.set("2", "1234").code(), base::Code::kResourceExhausted);
  EXPECT_TRUE(store.set("1", "").ok());
  EXPECT_TRUE(store.set("2", "").ok());
  EXPECT_EQ(store.set("3", "").code(), base::Code::kResourceExhausted);
  EXPECT_EQ(store.size(), 2u);
}

}  // namespace
}  // namespace muster::rendezvous
