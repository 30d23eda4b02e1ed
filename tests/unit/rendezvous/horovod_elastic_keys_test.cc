#include "rendezvous/horovod_elastic_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/horovod_store.h"

namespace muster::rendezvous::horovod_elastic_keys_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class HorovodElasticKeysTest : public ::testing::Test {
 protected:
  void get(std::string_view scope, std::string_view key, const std::string& name) {
    keys_->get(scope, key, [this, name](const base::Result<HorovodValue>& value) {
      answers_.push_back(name + (!value.ok()         ? " " + std::string(base::code_name(value.status().code()))
                                 : *value == nullptr ? " 404"
                                                     : " 200 " + **value));
    });
  }
  void put(std::string_view scope, std::string_view key, const std::string& name, std::string bytes = "v") {
    keys_->put(scope, key, make_horovod_value(std::move(bytes)), [this, name](const base::Status& status) {
      answers_.push_back(name + " " + std::string(base::code_name(status.code())));
    });
  }
  std::vector<std::string> answers() { return std::exchange(answers_, {}); }
  std::vector<std::string> events() { return std::exchange(events_, {}); }

  HorovodStore store_{{{{"global", 2}}}};
  HorovodStoreKeys store_keys_{store_};
  std::vector<std::string> answers_;
  std::vector<std::string> events_;
  std::unique_ptr<HorovodElasticKeys> keys_ = std::make_unique<HorovodElasticKeys>(
      HorovodElasticEvents{.on_rank_and_size =
                               [this](const HorovodSlot& slot) {
                                 events_.push_back(fmt::format("ask {}/{}", slot.host, slot.local_rank));
                               },
                           .on_first_put = [this](int rank) { events_.push_back(fmt::format("put {}", rank)); },
                           .on_worker_address =
                               [this](const HorovodSlot& slot) {
                                 events_.push_back(fmt::format("address {}/{}", slot.host, slot.local_rank));
                               }},
      HorovodElasticLimits{.max_slots = 2, .max_address_bytes = 8});
};

TEST_F(HorovodElasticKeysTest, HoldsNumbersUntilTheyAreGiven) {
  get("rank_and_size", "n-1.x:0", "a");
  get("rank_and_size", "n-1.x:1", "b");
  EXPECT_THAT(events(), ElementsAre("ask n-1.x/0", "ask n-1.x/1"));
  EXPECT_THAT(answers(), IsEmpty());
  EXPECT_FALSE(keys_->answer({"n-2", 0}, "0,1,0,1,0,1"));
  EXPECT_TRUE(keys_->answer({"n-1.x", 1}, "1,2,1,2,0,1"));
  EXPECT_THAT(answers(), ElementsAre("b 200 1,2,1,2,0,1"));
  EXPECT_TRUE(keys_->is_held({"n-1.x", 0}));
  EXPECT_FALSE(keys_->answer({"n-1.x", 1}, "1,2,1,2,0,1")) << "once";
}

TEST_F(HorovodElasticKeysTest, LaterAskReplacesTheEarlierOne) {
  get("rank_and_size", "n1:0", "first");
  get("rank_and_size", "n1:0", "second");
  EXPECT_THAT(answers(), ElementsAre("first UNAVAILABLE"));
  EXPECT_THAT(events(), ElementsAre("ask n1/0", "ask n1/0"));
  keys_->answer({"n1", 0}, "x");
  EXPECT_THAT(answers(), ElementsAre("second 200 x"));
}

TEST_F(HorovodElasticKeysTest, ProcessThatEndedIsDropped) {
  get("rank_and_size", "n1:0", "a");
  put("worker_addresses", "n1:0", "address");
  keys_->drop({"n1", 0});
  keys_->drop({"n1", 7});
  EXPECT_THAT(answers(), ElementsAre("address OK", "a UNAVAILABLE"));
  EXPECT_FALSE(keys_->is_held({"n1", 0}));
  EXPECT_EQ(keys_->worker_address({"n1", 0}), nullptr);
}

TEST_F(HorovodElasticKeysTest, LimitsHeldRequests) {
  for (const char* key : {"n1:0", "n1:1", "n1:2"}) get("rank_and_size", key, key);
  EXPECT_THAT(answers(), ElementsAre("n1:2 RESOURCE_EXHAUSTED"));
  for (const char* key : {"n1:0", "n1:1", "n1:2"}) put("worker_addresses", key, key);
  EXPECT_THAT(answers(), ElementsAre("n1:0 OK", "n1:1 OK", "n1:2 RESOURCE_EXHAUSTED"));
  put("worker_addresses", "n1:1", "long", "123456789");
  EXPECT_THAT(answers(), ElementsAre("long INVALID_ARGUMENT"));
}

TEST_F(HorovodElasticKeysTest, NeverAnswersMissingOrEmptyToABadSlot) {
  for (const char* key : {"n1", ":0", "n1:", "n1:x", "n1:-1", "n1:99999999999"}) {
    get("rank_and_size", key, "get");
    put("worker_addresses", key, "put");
    EXPECT_THAT(answers(), ElementsAre("get INTERNAL", "put INTERNAL")) << key;
  }
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(HorovodElasticKeysTest, KeepsAddressesToItself) {
  keys_->begin(&store_keys_);
  put("worker_addresses", "n1:0", "put", "secret");
  EXPECT_THAT(events(), ElementsAre("address n1/0"));
  get("worker_addresses", "n1:0", "get");
  EXPECT_THAT(answers(), ElementsAre("put OK", "get 404"));
  EXPECT_EQ(*keys_->worker_address({"n1", 0}), "secret");
  EXPECT_EQ(store_.size(), 0U);
  keys_->begin(&store_keys_);
  EXPECT_NE(keys_->worker_address({"n1", 0}), nullptr) << "a survivor publishes its address only once";
}

TEST_F(HorovodElasticKeysTest, HoldsFirstPutsUntilTheRelease) {
  keys_->begin(&store_keys_);
  put("global", "rank_0", "first");
  EXPECT_THAT(events(), ElementsAre("put 0"));
  EXPECT_THAT(answers(), IsEmpty());
  put("global", "0", "other");
  put("local_n1", "rank_0", "local");
  get("global", "rank_0", "stored");
  EXPECT_THAT(answers(), ElementsAre("other OK", "local OK", "stored 200 v"));
  EXPECT_EQ(keys_->held_puts(), 1U);
  keys_->release();
  EXPECT_THAT(answers(), ElementsAre("first OK"));
  put("global", "rank_1", "late");
  EXPECT_THAT(answers(), ElementsAre("late OK"));
  EXPECT_THAT(events(), IsEmpty()) << "survivors' puts are not held";
}

TEST_F(HorovodElasticKeysTest, NewGenerationRefusesOldPuts) {
  keys_->begin(&store_keys_);
  put("global", "rank_0", "old");
  get("rank_and_size", "n1:0", "ask");
  HorovodStore next({{{"global", 1}}});
  HorovodStoreKeys next_keys(next);
  keys_->begin(&next_keys);
  EXPECT_THAT(answers(), ElementsAre("old UNAVAILABLE"));
  get("global", "rank_0", "get");
  EXPECT_THAT(answers(), ElementsAre("get 404")) << "the keys of the old world are gone";
  EXPECT_TRUE(keys_->answer({"n1", 0}, "x")) << "asks stay";
  keys_->begin(nullptr);
}

TEST_F(HorovodElasticKeysTest, BetweenGenerationsWorkersWait) {
  get("global", "0", "get");
  put("global", "0", "put");
  keys_->finish("global", "0", [this](const base::Status& status) {
    answers_.push_back("finish " + std::string(base::code_name(status.code())));
  });
  const auto id = keys_->wait("global", "0", [this](const base::Result<HorovodValue>& value) {
    answers_.push_back("wait " + std::string(base::code_name(value.status().code())));
  });
  keys_->cancel_wait(id);
  EXPECT_EQ(id, 0U);
  EXPECT_THAT(answers(), ElementsAre("get 404", "put UNAVAILABLE", "finish UNAVAILABLE", "wait UNAVAILABLE"));
}

TEST_F(HorovodElasticKeysTest, ForwardsWaitsAndFinishes) {
  keys_->begin(&store_keys_);
  std::string waited;
  EXPECT_NE(keys_->wait("s", "k", [&](const base::Result<HorovodValue>& value) { waited = **value; }), 0U);
  put("s", "k", "put", "value");
  EXPECT_EQ(waited, "value");
  keys_->finish("s", "k", [](const base::Status&) {});
  EXPECT_EQ(store_.size(), 0U);
}

// Keys whose put is answered by hand.
class SlowKeys final : public HorovodKeys {
 public:
  void put(std::string_view, std::string_view, HorovodValue, Done done) override { dones.push_back(std::move(done)); }
  void get(std::string_view, std::string_view, GetDone done) override { done(HorovodValue()); }
  WaitId wait(std::string_view, std::string_view, GetDone) override { return 1; }
  void cancel_wait(WaitId) override {}
  void finish(std::string_view, std::string_view, Done done) override { done(base::ok_status()); }

  std::vector<Done> dones;
};

TEST_F(HorovodElasticKeysTest, PutThatIsStoredLateBelongsToItsGeneration) {
  SlowKeys slow;
  keys_->begin(&slow);
  put("global", "rank_0", "old");
  put("global", "rank_1", "failed");
  keys_->begin(&slow);
  put("global", "rank_0", "new");
  ASSERT_EQ(slow.dones.size(), 3U);
  slow.dones[0](base::ok_status());
  slow.dones[2](base::unavailable("gone"));
  EXPECT_THAT(events(), IsEmpty());
  EXPECT_THAT(answers(), ElementsAre("old UNAVAILABLE", "new UNAVAILABLE"));
  keys_.reset();
  slow.dones[1](base::ok_status());
  EXPECT_THAT(answers(), ElementsAre("failed UNAVAILABLE"));
}

}  // namespace
}  // namespace muster::rendezvous::horovod_elastic_keys_test
