#include "agent/job/live_keys.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "rendezvous/horovod_store.h"

namespace muster::agent::live_keys_test {
namespace {

using rendezvous::HorovodKeys;
using rendezvous::HorovodStore;
using rendezvous::HorovodStoreKeys;
using rendezvous::HorovodValue;

// Keys that never answer, as those of a host that is lost.
class SilentKeys final : public HorovodKeys {
 public:
  void put(std::string_view, std::string_view, HorovodValue, Done) override { ++requests; }
  void get(std::string_view, std::string_view, GetDone) override { ++requests; }
  WaitId wait(std::string_view, std::string_view, GetDone) override { return ++requests; }
  void cancel_wait(WaitId) override { ++cancelled; }
  void finish(std::string_view, std::string_view, Done) override { ++requests; }
  std::uint64_t requests = 0;
  int cancelled = 0;
};

class LiveKeysTest : public ::testing::Test {
 protected:
  HorovodKeys::GetDone to(std::string& text) {
    return [&text](const base::Result<HorovodValue>& value) {
      text = !value.ok() ? "failed" : *value == nullptr ? "missing" : **value;
    };
  }
  HorovodKeys::Done status_to(std::string& text) {
    return [&text](const base::Status& status) { text = status.ok() ? "ok" : "failed"; };
  }

  std::vector<int> checked_in_;
  std::vector<int> first_puts_;
  HorovodStore store_{{}};
  HorovodStoreKeys inner_{store_};
  HorovodStore next_store_{{}};
  HorovodStoreKeys next_{next_store_};
  SilentKeys silent_;
  LiveKeys keys_{{.on_check_in = [this](int local_rank) { checked_in_.push_back(local_rank); },
                  .on_first_put = [this](int rank) { first_puts_.push_back(rank); }}};
};

TEST_F(LiveKeysTest, TheConnectionOfAnEndedProcessGetsAnAnswer) {
  keys_.use(inner_, {0});
  std::string asked;
  keys_.get("rank_and_size", "n1:0", to(asked));
  keys_.forget(0);
  EXPECT_EQ(asked, "failed") << "a server keeps the connection until its request is answered";
  EXPECT_FALSE(keys_.has_asked(0));
}

TEST_F(LiveKeysTest, KnowsItsGenerationWhenItAnswers) {
  keys_.use(inner_, {0});
  EXPECT_EQ(keys_.generation(), 0);
  std::optional<int> at_the_answer;
  keys_.get("rank_and_size", "n1:0", [&](const auto&) { at_the_answer = keys_.generation(); });
  keys_.use(next_, {0}, 2);
  keys_.answer(0, "0,1,0,1,0,1");
  EXPECT_EQ(at_the_answer, 2);
}

TEST_F(LiveKeysTest, AProcessThatAsksOftenKeepsFewConnections) {
  keys_.use(inner_, {0});
  std::vector<std::string> asked(20);
  for (std::string& answer : asked) keys_.get("rank_and_size", "n1:0", to(answer));
  EXPECT_EQ(std::ranges::count(asked, "failed"), 12);
  EXPECT_EQ(asked.front(), "failed");
  EXPECT_EQ(checked_in_, std::vector<int>{0});
  keys_.answer(0, "0,1,0,1,0,1");
  EXPECT_EQ(asked.back(), "0,1,0,1,0,1");
}

TEST_F(LiveKeysTest, HoldsNumbersUntilTheyAreKnown) {
  keys_.use(inner_, {0, 1});
  std::string first;
  std::string again;
  keys_.get("rank_and_size", "n1:1", to(first));
  keys_.get("rank_and_size", "n1:1", to(again));  // the worker asks again on a new connection
  EXPECT_EQ(checked_in_, std::vector<int>{1});
  EXPECT_EQ(first, "");
  keys_.answer(0, "0,1,0,1,0,1");  // has not asked
  keys_.answer(1, "1,2,1,2,0,1");
  EXPECT_EQ(first, "1,2,1,2,0,1");
  EXPECT_EQ(again, first);
  EXPECT_FALSE(keys_.has_asked(1));
}

TEST_F(LiveKeysTest, RefusesQuestionsOfUnknownProcesses) {
  keys_.use(inner_, {0});
  for (const char* key : {"n1:1", "n1:", "n1", "n1:-1", "n1:99999999999999999999", ""}) {
    std::string answer;
    keys_.get("rank_and_size", key, to(answer));
    EXPECT_EQ(answer, "failed") << key;
  }
  EXPECT_TRUE(checked_in_.empty());
}

TEST_F(LiveKeysTest, PassesOtherRequestsOn) {
  keys_.use(inner_, {0});
  std::string put;
  keys_.put("global", "0", rendezvous::make_horovod_value("x"), status_to(put));
  EXPECT_EQ(put, "ok");
  std::string got;
  keys_.get("global", "0", to(got));
  EXPECT_EQ(got, "x");
  std::string finished;
  keys_.finish("global", "0", status_to(finished));
  EXPECT_EQ(finished, "ok");
  std::string waited;
  EXPECT_NE(keys_.wait("muster", "key", to(waited)), 0U);
  keys_.put("muster", "key", rendezvous::make_horovod_value("y"), [](const base::Status&) {});
  EXPECT_EQ(waited, "y");
}

TEST_F(LiveKeysTest, HoldsRequestsWhileNewProcessesStart) {
  keys_.use(inner_, {0});
  keys_.hold({1});
  std::string put;
  std::string got;
  keys_.put("global", "rank_1", rendezvous::make_horovod_value("address"), status_to(put));
  keys_.get("global", "rank_1", to(got));
  EXPECT_EQ(first_puts_, std::vector<int>{1});
  EXPECT_EQ(put + got, "");
  keys_.use(next_, {0, 1});
  EXPECT_EQ(put, "ok");
  EXPECT_EQ(got, "address");
  EXPECT_EQ(store_.size(), 0U);
  EXPECT_EQ(next_store_.size(), 1U);
}

TEST_F(LiveKeysTest, OnlyTheLauncherReportsThatAGenerationIsOver) {
  keys_.use(inner_, {0});
  const auto over = [&] {
    std::string text = "no answer";
    keys_.get("muster.elastic", "over", [&](base::Result<rendezvous::HorovodValue> value) {
      ASSERT_TRUE(value.ok());
      text = *value == nullptr ? "missing" : **value;
    });
    return text;
  };
  EXPECT_EQ(over(), "missing");
  for (const char* lie : {"0", "", "-1"}) {
    std::string put;
    keys_.put("muster.elastic", "over", rendezvous::make_horovod_value(lie), status_to(put));
    EXPECT_EQ(put, "failed");
  }
  std::string place;
  keys_.put("muster.elastic", "place", rendezvous::make_horovod_value("x"), status_to(place));
  EXPECT_EQ(place, "ok") << "other keys of the scope are the ranks'";
  EXPECT_EQ(over(), "missing");
  v1::GenerationOver report;
  report.set_generation(3);
  keys_.set_over(report);
  EXPECT_EQ(over(), "3");
  keys_.hold({1});
  EXPECT_EQ(over(), "3") << "other requests are held";
  keys_.lose_store();
  EXPECT_EQ(over(), "3");
  v1::EndedRank& failed = *report.add_failed();
  failed.set_rank(5);
  failed.set_cause("was killed\nby SIGKILL");
  keys_.set_over(report);
  EXPECT_EQ(over(), "3\n5 was killed\\x0aby SIGKILL") << "a cause is one line";
  failed.set_rank(6);
  failed.set_cause(std::string(std::size_t{65} << 10, 'x'));
  keys_.set_over(report);
  EXPECT_EQ(over(), "3\n5 was killed\\x0aby SIGKILL") << "too long";
  keys_.use(next_, {0, 1});
  EXPECT_EQ(over(), "missing");
}

TEST_F(LiveKeysTest, RequestsThatALostStoreNeverAnswersFail) {
  keys_.use(silent_, {0});
  std::string put;
  std::string waited;
  keys_.put("global", "0", rendezvous::make_horovod_value("x"), status_to(put));
  keys_.wait("muster", "key", to(waited));
  keys_.lose_store();
  EXPECT_EQ(put, "failed");
  EXPECT_EQ(waited, "failed");
  EXPECT_EQ(silent_.cancelled, 1);
  std::string later;
  keys_.get("global", "0", to(later));
  EXPECT_EQ(later, "failed");
  std::string numbers;
  keys_.get("rank_and_size", "n1:0", to(numbers));
  EXPECT_EQ(checked_in_, std::vector<int>{0}) << "a survivor can ask without a store";
  keys_.use(next_, {0});
  keys_.get("global", "0", to(later));
  EXPECT_EQ(later, "missing");
}

TEST_F(LiveKeysTest, KeepsAddressesToItselfAndLimitsThem) {
  keys_.use(inner_, {0});
  std::string put;
  keys_.put("worker_addresses", "n1:0", rendezvous::make_horovod_value(std::string((64 << 10) + 1, 'a')),
            status_to(put));
  EXPECT_EQ(put, "failed");
  EXPECT_EQ(keys_.notification_address(0), "");
  keys_.put("worker_addresses", "n1:1", rendezvous::make_horovod_value("pickle"), status_to(put));
  EXPECT_EQ(put, "failed") << "no process of this host";
  keys_.put("worker_addresses", "n1:0", rendezvous::make_horovod_value("pickle"), status_to(put));
  EXPECT_EQ(put, "ok");
  std::string read;
  keys_.get("worker_addresses", "n1:0", to(read));
  EXPECT_EQ(read, "missing");
}

TEST_F(LiveKeysTest, NeverAnswersMissingOrEmptyToAQuestion) {
  keys_.use(inner_, {0});
  for (const std::string_view key : {"", "n1", "n1:", ":0x", "n1:-1", "n1:99999999999"}) {
    std::string answer;
    keys_.get("rank_and_size", key, to(answer));
    EXPECT_EQ(answer, "failed") << key;  // Horovod reads an empty body as rank 0 of no ranks
  }
}

TEST_F(LiveKeysTest, ForgetsAProcessThatHasEnded) {
  keys_.use(inner_, {0});
  std::string old;
  keys_.put("worker_addresses", "n1:0", rendezvous::make_horovod_value("pickle"), status_to(old));
  EXPECT_EQ(keys_.notification_address(0), "pickle");
  keys_.get("rank_and_size", "n1:0", to(old));
  keys_.forget(0);
  EXPECT_EQ(keys_.notification_address(0), "");
  std::string fresh;
  keys_.get("rank_and_size", "n1:0", to(fresh));
  EXPECT_EQ(checked_in_, (std::vector<int>{0, 0}));
}

}  // namespace
}  // namespace muster::agent::live_keys_test
