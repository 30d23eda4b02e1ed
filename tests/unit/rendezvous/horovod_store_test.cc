#include "rendezvous/horovod_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::rendezvous::horovod_store_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

HorovodValue value(std::string_view text) {
  return make_horovod_value(std::string(text));
}

std::string read(const HorovodStore& store, std::string_view scope, std::string_view key) {
  const HorovodValue found = store.get(scope, key);
  return found == nullptr ? "(none)" : *found;
}

TEST(HorovodPlan, CountsTheRanksOfEachScope) {
  // The example of launchers.md §1.2: a:2,b:3,c:1, where only b has a local rank 2.
  const HorovodHost hosts[] = {{"a", 2}, {"b", 3}, {"c", 1}};
  EXPECT_THAT(make_horovod_plan(hosts).finishers,
              ElementsAre(Pair("cross_0", 3), Pair("cross_1", 2), Pair("cross_2", 1), Pair("global", 6),
                          Pair("local_a", 2), Pair("local_b", 3), Pair("local_c", 1)));
}

TEST(HorovodPlan, HostsWithoutRanksHaveNoScope) {
  const HorovodHost hosts[] = {{"a", 1}, {"b", 0}};
  EXPECT_THAT(make_horovod_plan(hosts).finishers,
              ElementsAre(Pair("cross_0", 1), Pair("global", 1), Pair("local_a", 1)));
}

TEST(HorovodStore, StoresAndOverwritesAnyBytes) {
  HorovodStore store({});
  EXPECT_EQ(read(store, "global", "0"), "(none)");
  ASSERT_TRUE(store.put("global", "0", value(std::string_view("a\0b", 3))).ok());
  EXPECT_EQ(read(store, "global", "0"), std::string("a\0b", 3));
  ASSERT_TRUE(store.put("global", "0", value("")).ok());
  EXPECT_EQ(read(store, "global", "0"), "");
  ASSERT_TRUE(store.put("worker_addresses", "n-1.x:0", value("colon")).ok());
  EXPECT_EQ(read(store, "worker_addresses", "n-1.x:0"), "colon");
  EXPECT_EQ(store.size(), 2u);
}

TEST(HorovodStore, PlannedScopeIsClearedByItsLastFinisherOnly) {
  HorovodStore store({{{"global", 3}, {"local_a", 1}}});
  for (const char* key : {"rank_0", "0", "1", "2"}) ASSERT_TRUE(store.put("global", key, value("x")).ok());
  ASSERT_TRUE(store.put("local_a", "0", value("y")).ok());
  store.finish("global", "0");
  store.finish("global", "2");
  EXPECT_EQ(read(store, "global", "0"), "x") << "a finished rank's value stays for the others";
  store.finish("global", "2");
  store.finish("global", "3");
  store.finish("global", "rank_0");
  EXPECT_EQ(read(store, "global", "0"), "x") << "neither a repeated request nor what is no rank counts";
  store.finish("global", "1");
  EXPECT_EQ(store.size(), 1u);
  EXPECT_EQ(read(store, "local_a", "0"), "y") << "other scopes have their own finishers";
  store.finish("local_a", "0");
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(store.total_bytes(), 0u);
}

TEST(HorovodStore, ClearedScopeCanBeUsedAgain) {
  HorovodStore store({{{"global", 2}}});
  for (int round = 0; round < 3; ++round) {
    const std::string text = std::to_string(round);
    EXPECT_EQ(store.get("global", "0"), nullptr);
    ASSERT_TRUE(store.put("global", "0", value(text)).ok());
    ASSERT_TRUE(store.put("global", "1", value(text)).ok());
    store.finish("global", "0");
    EXPECT_EQ(read(store, "global", "1"), text);
    store.finish("global", "1");
  }
  EXPECT_EQ(store.size(), 0u);
}

TEST(HorovodStore, FinishRepeatedAfterTheClearingDoesNotCountForTheNextRound) {
  HorovodStore store({{{"global", 2}}});
  ASSERT_TRUE(store.put("global", "0", value("a")).ok());
  store.finish("global", "0");
  store.finish("global", "1");
  store.finish("global", "1");  // its first answer was lost
  for (const char* key : {"rank_1", "0", "1"}) ASSERT_TRUE(store.put("global", key, value("b")).ok());
  store.finish("global", "0");
  EXPECT_EQ(read(store, "global", "1"), "b");
  store.finish("global", "1");
  EXPECT_EQ(store.size(), 0u);
}

TEST(HorovodStore, AdHocScopeLosesKeyByKey) {
  HorovodStore store({{{"global", 1}}});
  const std::string scope = "global_process_set_hash_1f";
  for (const char* key : {"rank_0", "0", "1"}) ASSERT_TRUE(store.put(scope, key, value("x")).ok());
  store.finish(scope, "0");
  EXPECT_EQ(store.get(scope, "0"), nullptr);
  EXPECT_EQ(read(store, scope, "1"), "x");
  store.finish(scope, "0");
  store.finish("never_seen", "0");
  store.finish(scope, "1");
  EXPECT_EQ(read(store, scope, "rank_0"), "x");
  EXPECT_EQ(store.size(), 1u);
}

TEST(HorovodStore, LimitsLeaveItUnchanged) {
  HorovodStore store({}, {.max_key_bytes = 4, .max_value_bytes = 8, .max_keys = 2, .max_total_bytes = 14});
  EXPECT_EQ(store.put("abc", "de", value("")).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(store.put("a", "b", value("123456789")).code(), base::Code::kInvalidArgument);
  ASSERT_TRUE(store.put("a", "b", value("12345678")).ok());
  EXPECT_EQ(store.put("a", "c", value("123")).code(), base::Code::kResourceExhausted);
  EXPECT_EQ(store.get("a", "c"), nullptr);
  ASSERT_TRUE(store.put("a", "b", value("1234")).ok()) << "what is replaced makes room";
  ASSERT_TRUE(store.put("a", "c", value("123")).ok());
  EXPECT_EQ(store.put("a", "d", value("")).code(), base::Code::kResourceExhausted) << "two keys are the limit";
  EXPECT_EQ(store.total_bytes(), 11u);
  EXPECT_EQ(store.size(), 2u);
}

TEST(HorovodStore, WatchTellsWhatIsThereAndThenEachChange) {
  HorovodStore store({{{"global", 1}}});
  ASSERT_TRUE(store.put("global", "0", value("a")).ok());
  ASSERT_TRUE(store.put("other", "0", value("b")).ok());
  std::vector<std::string> told;
  const auto note = [&](const HorovodStore::Change& change) {
    static constexpr const char* kNames[] = {"set ", "erased ", "cleared "};
    told.push_back(kNames[static_cast<int>(change.kind)] + std::string(change.key) +
                   (change.value == nullptr ? "" : "=" + *change.value));
  };
  const auto global = store.watch("global", note);
  const auto other = store.watch("other", note);
  ASSERT_TRUE(store.put("global", "1", value("c")).ok());
  store.finish("other", "0");
  store.finish("other", "0");
  store.finish("global", "0");
  EXPECT_THAT(told, ElementsAre("set 0=a", "set 0=b", "set 1=c", "erased 0", "cleared "));
  store.unwatch("global", global);
  store.unwatch("other", other);
  ASSERT_TRUE(store.put("global", "1", value("d")).ok());
  EXPECT_EQ(told.size(), 5u);
}

TEST(HorovodStoreKeys, AnswersWhoWaitsWhenTheKeyComes) {
  HorovodStore store({});
  std::vector<std::string> told;
  const auto note = [&told](const char* name) {
    return [&told, name](const base::Result<HorovodValue>& found) { told.push_back(name + ("=" + **found)); };
  };
  {
    HorovodStoreKeys keys(store);
    EXPECT_NE(keys.wait("muster", "k", note("a")), 0U);
    const auto given_up = keys.wait("muster", "k", note("b"));
    EXPECT_NE(keys.wait("other", "k", note("c")), 0U);
    keys.cancel_wait(given_up);
    EXPECT_TRUE(store.put("muster", "l", value("1")).ok());
    EXPECT_THAT(told, ElementsAre());
    EXPECT_TRUE(store.put("muster", "k", value("2")).ok());
    EXPECT_TRUE(store.put("muster", "k", value("3")).ok());
    EXPECT_THAT(told, ElementsAre("a=2"));
    EXPECT_EQ(keys.wait("muster", "k", note("d")), 0U);
    EXPECT_THAT(told, ElementsAre("a=2", "d=3"));
  }
  EXPECT_TRUE(store.put("other", "k", value("4")).ok());  // nobody waits any more
  EXPECT_EQ(told.size(), 2U);
}

TEST(HorovodWaits, AreBounded) {
  HorovodWaits waits(2);
  std::vector<base::Code> codes;
  HorovodKeys::GetDone done = [&codes](const base::Result<HorovodValue>& found) {
    codes.push_back(found.status().code());
  };
  HorovodKeys::GetDone first = done;
  HorovodKeys::GetDone second = done;
  EXPECT_NE(waits.add("s", "k", first), 0U);
  EXPECT_NE(waits.add("t", "k", second), 0U);
  EXPECT_EQ(waits.add("s", "l", done), 0U);
  EXPECT_NE(done, nullptr);
  waits.fail("s", base::error(base::Code::kResourceExhausted, "refused"));
  EXPECT_THAT(codes, ElementsAre(base::Code::kResourceExhausted));
  EXPECT_EQ(waits.size(), 1U);
}

TEST(HorovodStoreKeys, AnswersAtOnce) {
  HorovodStore store({}, {.max_key_bytes = 8, .max_value_bytes = 4});
  HorovodStoreKeys keys(store);
  std::vector<base::Code> codes;
  const auto done = [&](const base::Status& status) { codes.push_back(status.code()); };
  keys.put("s", "k", value("1234"), done);
  keys.put("s", "k", value("12345"), done);
  std::string got;
  keys.get("s", "k", [&](const base::Result<HorovodValue>& found) { got = **found; });
  EXPECT_EQ(got, "1234");
  keys.finish("s", "k", done);
  EXPECT_THAT(codes, ElementsAre(base::Code::kOk, base::Code::kInvalidArgument, base::Code::kOk));
  EXPECT_EQ(store.size(), 0u);
}

TEST(HorovodStore, RenewalClearsAllScopesAndCountersAndTakesThePlan) {
  HorovodStore store({{{"global", 2}, {"local_a", 2}}});
  std::vector<std::string> cleared;
  const auto note = [&](std::string scope) {
    return [&cleared, scope = std::move(scope)](const HorovodStore::Change& change) {
      if (change.kind == HorovodStore::Change::Kind::kCleared) cleared.push_back(scope);
    };
  };
  store.watch("global", note("global"));
  store.watch("ad_hoc", note("ad_hoc"));
  for (const char* scope : {"global", "local_a", "ad_hoc"}) ASSERT_TRUE(store.put(scope, "0", value("x")).ok());
  store.finish("global", "0");
  store.renew({{{"global", 1}}});
  EXPECT_EQ(store.size(), 0u);
  EXPECT_EQ(store.total_bytes(), 0u);
  EXPECT_THAT(cleared, ElementsAre("ad_hoc", "global"));
  ASSERT_TRUE(store.put("global", "0", value("new")).ok());
  EXPECT_EQ(read(store, "global", "0"), "new");
  store.finish("global", "0");
  EXPECT_EQ(read(store, "global", "0"), "(none)") << "one rank is the whole world now";
  ASSERT_TRUE(store.put("local_a", "0", value("x")).ok());
  store.finish("local_a", "0");
  EXPECT_EQ(store.size(), 0u) << "no longer a scope of the plan";
}

}  // namespace
}  // namespace muster::rendezvous::horovod_store_test
