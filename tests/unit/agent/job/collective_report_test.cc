#include "agent/job/collective_report.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rendezvous/horovod_store.h"

namespace muster::agent::collective_report_test {
namespace {

// A store with a number of the present generation, as the keys of a job whose ranks change have one.
class Keys final : public rendezvous::HorovodKeys {
 public:
  void put(std::string_view scope, std::string_view key, rendezvous::HorovodValue value, Done done) override {
    keys_.put(scope, key, std::move(value), std::move(done));
  }
  void get(std::string_view scope, std::string_view key, GetDone done) override {
    keys_.get(scope, key, std::move(done));
  }
  WaitId wait(std::string_view scope, std::string_view key, GetDone done) override {
    return keys_.wait(scope, key, std::move(done));
  }
  void cancel_wait(WaitId id) override { keys_.cancel_wait(id); }
  void finish(std::string_view scope, std::string_view key, Done done) override {
    keys_.finish(scope, key, std::move(done));
  }
  std::optional<int> generation() const override { return present; }

  std::optional<int> present;

 private:
  rendezvous::HorovodStore store_{{}};
  rendezvous::HorovodStoreKeys keys_{store_};
};

class CollectiveReportTest : public ::testing::Test {
 protected:
  bool put(const std::string& scope, const std::string& key, const std::string& value) {
    bool is_ok = false;
    report_.put(scope, key, rendezvous::make_horovod_value(value),
                [&](const base::Status& status) { is_ok = status.ok(); });
    return is_ok;
  }
  std::string get(const std::string& scope, const std::string& key) {
    std::string text = "no answer";
    report_.get(scope, key, [&](const base::Result<rendezvous::HorovodValue>& value) {
      text = !value.ok() ? "failed" : *value == nullptr ? "missing" : **value;
    });
    return text;
  }

  std::vector<int> reported_;
  Keys keys_;
  CollectiveReport report_{keys_, [this](int generation) { reported_.push_back(generation); }};
};

TEST_F(CollectiveReportTest, ReportsTheOneGenerationOfFixedRanksOnce) {
  for (const char* const value : {"4", "4", "5", "3"}) {
    EXPECT_TRUE(put("muster.elastic", "first_collective", value));
  }
  EXPECT_EQ(reported_, (std::vector<int>{4}));
  EXPECT_EQ(get("muster.elastic", "first_collective"), "missing");
}

TEST_F(CollectiveReportTest, ReportsEachGenerationOfRanksThatLiveOnOnce) {
  keys_.present = 1;
  EXPECT_TRUE(put("muster.elastic", "first_collective", "1"));
  EXPECT_TRUE(put("muster.elastic", "first_collective", "1"));
  keys_.present = 3;
  EXPECT_TRUE(put("muster.elastic", "first_collective", "3"));
  EXPECT_EQ(reported_, (std::vector<int>{1, 3}));
}

TEST_F(CollectiveReportTest, RefusesAnotherGenerationOfRanksThatLiveOn) {
  keys_.present = 2;
  EXPECT_FALSE(put("muster.elastic", "first_collective", "1"));
  EXPECT_FALSE(put("muster.elastic", "first_collective", "1073741824"));
  EXPECT_TRUE(put("muster.elastic", "first_collective", "2"));
  EXPECT_EQ(reported_, (std::vector<int>{2})) << "a wrong number hides no report";
}

TEST_F(CollectiveReportTest, RefusesWhatIsNoLaterGeneration) {
  for (const char* const value : {"", "0", "-1", "x", "1 ", "99999999999999"}) {
    EXPECT_FALSE(put("muster.elastic", "first_collective", value)) << value;
  }
  EXPECT_TRUE(reported_.empty());
}

TEST_F(CollectiveReportTest, PassesOtherKeysOn) {
  EXPECT_TRUE(put("muster.elastic", "place", "here"));
  EXPECT_TRUE(put("global", "first_collective", "1"));
  EXPECT_EQ(get("muster.elastic", "place"), "here");
  EXPECT_EQ(get("global", "first_collective"), "1");
  EXPECT_TRUE(reported_.empty());
  std::string waited;
  report_.wait("global", "later", [&](const base::Result<rendezvous::HorovodValue>& value) { waited = **value; });
  EXPECT_TRUE(put("global", "later", "now"));
  EXPECT_EQ(waited, "now");
}

}  // namespace
}  // namespace muster::agent::collective_report_test
