#include "rendezvous/horovod_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::rendezvous::horovod_cache_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

HorovodValue value(std::string_view text) {
  return make_horovod_value(std::string(text));
}

// Notes what it is asked; the test answers by hand, in the order that it wants to try.
class FakeUpstream final : public HorovodUpstream {
 public:
  void set_listener(Listener* listener) override { events = listener; }
  void put(std::string_view scope, std::string_view key, HorovodValue bytes, Done done) override {
    asked.push_back("put " + std::string(scope) + "/" + std::string(key) + "=" + *bytes);
    dones.push_back(std::move(done));
  }
  void finish(std::string_view scope, std::string_view key, Done done) override {
    asked.push_back("finish " + std::string(scope) + "/" + std::string(key));
    dones.push_back(std::move(done));
  }
  void follow(std::string_view scope) override { asked.push_back("follow " + std::string(scope)); }
  bool is_connected() const override { return connected; }

  // A scope as a fresh connection tells it.
  void tell(std::string_view scope, std::initializer_list<std::pair<const char*, const char*>> content) {
    events->on_begin(scope);
    for (const auto& [key, text] : content) events->on_set(scope, key, value(text));
    events->on_synced(scope);
  }

  Listener* events = nullptr;
  bool connected = true;
  std::vector<std::string> asked;
  std::vector<Done> dones;
};

class HorovodCacheTest : public ::testing::Test {
 protected:
  // "200 v", "404", "error" or "waits" for now; what comes later goes to late_.
  std::string get(std::string_view scope, std::string_view key) {
    auto answer = std::make_shared<std::string>("waits");
    cache_.get(scope, key, [this, answer](const base::Result<HorovodValue>& found) {
      const bool is_late = *answer == "left";
      *answer = !found.ok() ? "error" : *found == nullptr ? "404" : "200 " + **found;
      if (is_late) late_.push_back(*answer);
    });
    const std::string now = *answer;
    if (now == "waits") *answer = "left";
    return now;
  }

  // The answer of a put of `text`, once the upstream has given it.
  void put(std::string_view scope, std::string_view key, std::string_view text) {
    cache_.put(scope, key, value(text), [this](const base::Status& status) { answers_.push_back(status.code()); });
  }
  void finish(std::string_view scope, std::string_view key) {
    cache_.finish(scope, key, [this](const base::Status& status) { answers_.push_back(status.code()); });
  }

  FakeUpstream upstream_;
  HorovodCache cache_{upstream_, {.max_key_bytes = 32, .max_value_bytes = 16, .max_keys = 4, .max_total_bytes = 64}};
  std::vector<std::string> late_;
  std::vector<base::Code> answers_;
};

TEST_F(HorovodCacheTest, PollsAreAnsweredHereAndForwardedOnce) {
  put("global", "3", "mine");
  EXPECT_THAT(upstream_.asked, ElementsAre("follow global", "put global/3=mine"));
  upstream_.tell("global", {});
  EXPECT_THAT(answers_, IsEmpty()) << "not before the store has taken it";
  upstream_.dones[0](base::ok_status());
  EXPECT_THAT(answers_, ElementsAre(base::Code::kOk));
  EXPECT_EQ(get("global", "3"), "200 mine");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(get("global", "7"), "404");
  upstream_.events->on_set("global", "7", value("theirs"));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(get("global", "7"), "200 theirs");
  EXPECT_EQ(upstream_.asked.size(), 2u);
  EXPECT_EQ(cache_.counts().gets, 201u);
  EXPECT_EQ(cache_.counts().forwarded, 2u);
}

TEST_F(HorovodCacheTest, FirstGetOfAScopeWaitsForWhatTheStoreHas) {
  EXPECT_EQ(get("global", "0"), "waits");
  EXPECT_EQ(get("global", "1"), "waits");
  EXPECT_THAT(upstream_.asked, ElementsAre("follow global"));
  upstream_.tell("global", {{"0", "a"}});
  EXPECT_THAT(late_, ElementsAre("200 a", "404"));
  EXPECT_EQ(get("global", "0"), "200 a");
}

TEST_F(HorovodCacheTest, NameHintsNeverWait) {
  EXPECT_EQ(get("global", "rank_0"), "404");
  upstream_.tell("global", {{"rank_0", "n1"}});
  EXPECT_EQ(get("global", "rank_0"), "200 n1");
}

TEST_F(HorovodCacheTest, NobodyWaitsWhileTheStoreCannotBeReached) {
  EXPECT_EQ(get("global", "0"), "waits");
  upstream_.connected = false;
  upstream_.events->on_lost();
  EXPECT_THAT(late_, ElementsAre("404"));
  EXPECT_EQ(get("global", "0"), "404");
  EXPECT_EQ(get("local_a", "0"), "404");
}

TEST_F(HorovodCacheTest, FinishIsAnsweredByTheStoreAndClearsOnlyWhenTheStoreDoes) {
  put("global", "0", "a");
  upstream_.tell("global", {{"1", "b"}});
  upstream_.dones[0](base::ok_status());
  finish("global", "0");
  EXPECT_EQ(answers_.size(), 1u);
  upstream_.dones[1](base::ok_status());
  EXPECT_EQ(answers_.size(), 2u);
  EXPECT_EQ(get("global", "0"), "200 a") << "others of the scope still need it";
  upstream_.events->on_cleared("global");
  EXPECT_EQ(get("global", "0"), "404");
  EXPECT_EQ(cache_.total_bytes(), 0u);
  put("global", "0", "again");
  upstream_.dones[2](base::ok_status());
  EXPECT_EQ(get("global", "0"), "200 again");
  EXPECT_EQ(get("global", "1"), "404");
}

TEST_F(HorovodCacheTest, AdHocKeysGoOneByOne) {
  upstream_.events->on_set("unknown", "0", value("x"));  // of nobody's interest
  put("global_process_set_hash_1", "0", "a");
  upstream_.tell("global_process_set_hash_1", {{"1", "b"}});
  upstream_.dones[0](base::ok_status());
  upstream_.events->on_erased("global_process_set_hash_1", "0");
  EXPECT_EQ(get("global_process_set_hash_1", "0"), "404");
  EXPECT_EQ(get("global_process_set_hash_1", "1"), "200 b");
  EXPECT_EQ(cache_.total_bytes(), 2u);
}

TEST_F(HorovodCacheTest, FetchedAnewAfterALossOldValuesStayUntilTheNewOnesAreComplete) {
  put("global", "0", "a");
  upstream_.tell("global", {{"1", "b"}, {"2", "c"}});
  upstream_.dones[0](base::ok_status());
  upstream_.events->on_lost();
  EXPECT_EQ(get("global", "1"), "200 b");
  upstream_.events->on_begin("global");
  upstream_.events->on_set("global", "1", value("B"));
  EXPECT_EQ(get("global", "1"), "200 b");
  upstream_.events->on_lost();  // again, in the middle
  upstream_.tell("global", {{"0", "a"}, {"1", "B"}, {"3", "d"}});
  EXPECT_EQ(get("global", "1"), "200 B");
  EXPECT_EQ(get("global", "2"), "404");
  EXPECT_EQ(get("global", "3"), "200 d");
  EXPECT_EQ(cache_.total_bytes(), 6u);
}

TEST_F(HorovodCacheTest, RefusalOfTheStoreIsTheAnswer) {
  put("global", "0", "a");
  upstream_.tell("global", {});
  upstream_.dones[0](base::error(base::Code::kResourceExhausted, "full"));
  EXPECT_THAT(answers_, ElementsAre(base::Code::kResourceExhausted));
  EXPECT_EQ(get("global", "0"), "404");
}

TEST_F(HorovodCacheTest, TooLongIsAnsweredHere) {
  const std::string key(40, 'k');
  put("global", key, "a");
  put("global", "0", "12345678901234567");
  EXPECT_THAT(answers_, ElementsAre(base::Code::kInvalidArgument, base::Code::kInvalidArgument));
  EXPECT_EQ(get("global", key), "404");
  finish("global", key);
  EXPECT_EQ(answers_.back(), base::Code::kOk);
  EXPECT_THAT(upstream_.asked, IsEmpty());
}

TEST_F(HorovodCacheTest, MoreThanAStoreHoldsIsNotKept) {
  EXPECT_EQ(get("other", "0"), "waits");
  upstream_.tell("other", {{"0", "x"}});
  EXPECT_EQ(get("global", "0"), "waits");
  upstream_.events->on_begin("global");
  for (int i = 0; i < 20; ++i) upstream_.events->on_set("global", std::to_string(i), value("0123456789abcdef"));
  upstream_.events->on_synced("global");
  EXPECT_EQ(late_.back(), "error");
  EXPECT_EQ(cache_.total_bytes(), 2u);
  EXPECT_EQ(get("other", "0"), "200 x") << "other scopes are not touched";
  upstream_.tell("global", {{"0", "y"}});
  EXPECT_EQ(get("global", "0"), "200 y");
}

TEST_F(HorovodCacheTest, WhoWaitsIsAnsweredWhenTheKeyComes) {
  std::vector<std::string> told;
  const auto wait = [&](std::string_view key) {
    return cache_.wait("muster", key, [&told, name = std::string(key)](const base::Result<HorovodValue>& found) {
      told.push_back(name + "=" + (found.ok() ? **found : "error"));
    });
  };
  EXPECT_NE(wait("a"), 0U);
  EXPECT_NE(wait("b"), 0U);
  const auto given_up = wait("c");
  EXPECT_THAT(upstream_.asked, ElementsAre("follow muster"));
  cache_.cancel_wait(given_up);
  upstream_.events->on_begin("muster");
  upstream_.events->on_set("muster", "a", value("1"));
  upstream_.events->on_set("muster", "d", value("4"));
  EXPECT_THAT(told, ElementsAre("a=1"));
  EXPECT_NE(wait("d"), 0U) << "has come, but is not complete";
  upstream_.events->on_synced("muster");
  EXPECT_THAT(told, ElementsAre("a=1", "d=4"));
  // A loss in between changes nothing for who waits.
  upstream_.events->on_lost();
  EXPECT_EQ(wait("a"), 0U);
  upstream_.tell("muster", {{"b", "2"}});
  EXPECT_THAT(told, ElementsAre("a=1", "d=4", "a=1", "b=2"));
  // The host's own put.
  EXPECT_NE(wait("e"), 0U);
  put("muster", "e", "5");
  upstream_.dones[0](base::ok_status());
  EXPECT_EQ(told.back(), "e=5");
}

TEST_F(HorovodCacheTest, WhoWaitsInAScopeThatIsTooLargeIsTold) {
  std::vector<base::Code> told;
  cache_.wait("muster", "k", [&](const base::Result<HorovodValue>& found) { told.push_back(found.status().code()); });
  cache_.wait("muster", std::string(100, 'k'),
              [&](const base::Result<HorovodValue>& found) { told.push_back(found.status().code()); });
  EXPECT_THAT(told, ElementsAre(base::Code::kInvalidArgument));
  upstream_.events->on_begin("muster");
  for (int i = 0; i < 20; ++i) upstream_.events->on_set("muster", std::to_string(i), value("0123456789abcdef"));
  EXPECT_THAT(told, ElementsAre(base::Code::kInvalidArgument, base::Code::kResourceExhausted));
}

TEST(HorovodCache, LeavesItsUpstream) {
  FakeUpstream upstream;
  {
    const HorovodCache cache(upstream);
    EXPECT_NE(upstream.events, nullptr);
  }
  EXPECT_EQ(upstream.events, nullptr);
}

}  // namespace
}  // namespace muster::rendezvous::horovod_cache_test
