#include "rendezvous/memory_store.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace muster::rendezvous::memory_store_test {
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

TEST(MemoryStore, AppendAddsToTheEndAndEndsWaits) {
  MemoryStore store({.max_value_bytes = 4, .max_appended_bytes = 4, .max_total_bytes = 5});
  bool is_ready = false;
  store.wait({"k"}, [&] { is_ready = true; });
  ASSERT_TRUE(store.append("k", "ab").ok());
  EXPECT_TRUE(is_ready);
  ASSERT_TRUE(store.append("k", "cd").ok());
  EXPECT_EQ(store.get("k"), "abcd");
  EXPECT_EQ(store.append("k", "e").code(), base::Code::kInvalidArgument);
  ASSERT_TRUE(store.set("k", "").ok());
  EXPECT_EQ(store.set("x", "1234").code(), base::Code::kResourceExhausted);
  EXPECT_TRUE(store.append("k", "1234").ok());
}

TEST(MemoryStore, AppendsMayMakeAValueThatIsLongerThanOneWrite) {
  MemoryStore store({.max_value_bytes = 4, .max_appended_bytes = 10});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store.append("k", "abc").ok());
  EXPECT_EQ(store.get("k"), "abcabcabc");
  EXPECT_EQ(store.append("k", "de").code(), base::Code::kInvalidArgument);
  EXPECT_EQ(store.append("k", "abcde").code(), base::Code::kInvalidArgument) << "one write";
  EXPECT_EQ(store.get("k"), "abcabcabc");
}

TEST(MemoryStore, FindSeesTheValueAndForEachKeyEveryKey) {
  MemoryStore store;
  ASSERT_TRUE(store.set("a", "1").ok());
  ASSERT_TRUE(store.set("b", "2").ok());
  ASSERT_TRUE(store.queue_push("q", "3").ok());
  ASSERT_NE(store.find("a"), nullptr);
  EXPECT_EQ(*store.find("a"), "1");
  EXPECT_EQ(store.find("q"), nullptr);
  std::set<std::string> keys;
  store.for_each_key([&](std::string_view key) { keys.emplace(key); });
  EXPECT_EQ(keys, (std::set<std::string>{"a", "b"}));
}

TEST(MemoryStore, QueuesAreFirstInFirstOut) {
  MemoryStore store;
  EXPECT_EQ(store.queue_pop("q"), std::nullopt);
  ASSERT_TRUE(store.queue_push("q", "one").ok());
  ASSERT_TRUE(store.queue_push("q", "").ok());
  EXPECT_EQ(store.queue_size("q"), 2u);
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(store.queue_pop("q"), "one");
  EXPECT_EQ(store.queue_pop("q"), "");
  EXPECT_EQ(store.queue_pop("q"), std::nullopt);
  EXPECT_EQ(store.queue_size("q"), 0u);
}

TEST(MemoryStore, APushEndsOneWaitTheLongest) {
  MemoryStore store;
  std::string order;
  store.wait({"q"}, [&] { order += 'a'; });
  store.wait({"q", "k"}, [&] { order += 'b'; });
  store.wait({"q"}, [&] { order += 'c'; });
  ASSERT_TRUE(store.queue_push("q", "1").ok());
  EXPECT_EQ(order, "a");
  ASSERT_TRUE(store.queue_push("q", "2").ok());
  EXPECT_EQ(order, "ac");
  ASSERT_TRUE(store.set("k", "").ok());
  EXPECT_EQ(order, "acb");
  store.wait({"q"}, [&] { order += 'd'; });  // it still holds something
  EXPECT_EQ(order, "acbd");
}

TEST(MemoryStore, AKeyOfAQueuesNameEndsAllWaits) {
  MemoryStore store;
  int ended = 0;
  store.wait({"q"}, [&] { ++ended; });
  store.wait({"q"}, [&] { ++ended; });
  ASSERT_TRUE(store.set("q", "").ok());
  EXPECT_EQ(ended, 2);
}

TEST(MemoryStore, QueuesCountAgainstTheLimits) {
  MemoryStore store({.max_key_bytes = 4, .max_value_bytes = 8, .max_keys = 2, .max_total_bytes = 10});
  EXPECT_EQ(store.queue_push("12345", "").code(), base::Code::kInvalidArgument);
  EXPECT_EQ(store.queue_push("q", "123456789").code(), base::Code::kInvalidArgument);
  ASSERT_TRUE(store.queue_push("q", "1234").ok());
  EXPECT_EQ(store.queue_push("q", "12345").code(), base::Code::kResourceExhausted);
  ASSERT_TRUE(store.queue_push("q", "1234").ok());
  EXPECT_EQ(store.queue_push("r", "").code(), base::Code::kResourceExhausted);
  EXPECT_EQ(store.set("k", "").code(), base::Code::kResourceExhausted);
  ASSERT_TRUE(store.queue_pop("q").has_value());
  EXPECT_TRUE(store.set("k", "123").ok());
}

TEST(MemoryStore, CancelAfterSomeKeysHaveCome) {
  MemoryStore store;
  int ended = 0;
  const auto first = store.wait({"a", "b"}, [&] { ended += 1; });
  store.wait({"a", "b"}, [&] { ended += 10; });
  ASSERT_TRUE(store.set("a", "").ok());
  EXPECT_TRUE(store.cancel_wait(first));
  ASSERT_TRUE(store.set("b", "").ok());
  EXPECT_EQ(ended, 10);
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

TEST(MemoryStore, KnowsTheMissingKeysOfAWait) {
  MemoryStore store;
  const auto wait = store.wait({"b", "a", "q"}, [] {});
  EXPECT_EQ(store.missing_keys(wait), (std::vector<std::string>{"b", "a", "q"}));
  ASSERT_TRUE(store.set("b", "").ok());
  ASSERT_TRUE(store.queue_push("q", "").ok());
  EXPECT_EQ(store.missing_keys(wait), std::vector<std::string>{"a"});
  ASSERT_TRUE(store.set("a", "").ok());
  EXPECT_TRUE(store.missing_keys(wait).empty());
  EXPECT_TRUE(store.missing_keys(4711).empty());
}

}  // namespace
}  // namespace muster::rendezvous::memory_store_test
